"""The shipped rows of Anthropic's models, as the reference stood on 2026-11-27.

The first match counts, so the specific stands before the general.  Where a reference is silent, a row
holds what no upstream refuses.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, Family, ForcedTools

_LOW, _MEDIUM, _HIGH = Effort.LOW, Effort.MEDIUM, Effort.HIGH
_TO_HIGH: Final = (_LOW, _MEDIUM, _HIGH)
_TO_XHIGH: Final = (*_TO_HIGH, Effort.XHIGH)
_TO_MAX: Final = (*_TO_XHIGH, Effort.MAX)

_CLAUDE: Final = "https://platform.claude.com/docs/en/"
_THINKING: Final = f"{_CLAUDE}build-with-claude/thinking-troubleshooting"
_FORCING: Final = f"{_CLAUDE}build-with-claude/thinking"
_FABLE_5_2: Final = f"{_CLAUDE}models/fable-5-2/whats-new-fable-5-2"
_FABLE_5_1: Final = f"{_CLAUDE}models/fable-5-1/whats-new-fable-5-1"

FALLBACK: Final = ModelRow(
    "*",
    Family.ANTHROPIC,
    _THINKING,
    efforts=_TO_MAX,
    default=_HIGH,
    adaptive=True,
    hides_thoughts=True,
    forced_tools=ForcedTools.NEVER,
    sampling=False,
    prefill=False,
    max_output=128_000,
)
"""Thinks always, adaptively; nothing else is sure of a model that is newer than the table."""
_CLAUDE_5: Final = replace(FALLBACK, system_turns=True)
_BINDING: Final = replace(
    _CLAUDE_5, source=f"{_CLAUDE}build-with-claude/preserved-thinking", binds_thoughts=True
)
"""Since Fable 5.1: what stands before a thought must be what stood there when it was thought."""
_OPUS_4_8: Final = replace(
    FALLBACK, off=True, default=Effort.NONE, system_turns=True, forced_tools=ForcedTools.UNTHINKING
)
_CLAUDE_4_6: Final = replace(
    _OPUS_4_8,
    efforts=(*_TO_HIGH, Effort.MAX),
    budget=(1024, 127_999),
    hides_thoughts=False,
    system_turns=False,
    sampling=True,
    newer_versions=False,
)
_EXTENDED: Final = ModelRow(
    "*",
    Family.ANTHROPIC,
    _THINKING,
    budget=(1024, 63_999),
    off=True,
    default=Effort.NONE,
    forced_tools=ForcedTools.UNTHINKING,
    newer_versions=False,
    max_output=64_000,
)
_UNSTRUCTURED: Final = replace(
    _EXTENDED, source=f"{_CLAUDE}build-with-claude/structured-outputs", structured=False
)
_EXTENDED_32K: Final = replace(_UNSTRUCTURED, budget=(1024, 31_999), max_output=32_000)
_UNTHINKING_CLAUDE: Final = ModelRow(
    "*",
    Family.ANTHROPIC,
    f"{_CLAUDE}about-claude/model-deprecations",
    default=Effort.NONE,
    structured=False,
    newer_versions=False,
    max_output=4096,
)

ROWS: Final = (
    replace(_BINDING, match="claude-fable-5-2*", source=_FABLE_5_2),
    replace(_BINDING, match="claude-mythos-5-2*", source=_FABLE_5_2),
    replace(_BINDING, match="claude-fable-5-1*", source=_FABLE_5_1),
    replace(_BINDING, match="claude-mythos-5-1*", source=_FABLE_5_1),
    replace(
        _BINDING,
        match="claude-opus-5-5*",
        source=f"{_CLAUDE}models/opus-5-5/whats-new-opus-5-5",
        default=_MEDIUM,
    ),
    replace(
        _BINDING,
        match="claude-sonnet-5-5*",
        source=f"{_CLAUDE}models/sonnet-5-5/whats-new-sonnet-5-5",
        off=True,
        between_tools=True,
    ),
    replace(
        _BINDING,
        match="claude-haiku-5-5*",
        source=f"{_CLAUDE}models/haiku-5-5/whats-new-haiku-5-5",
        off=True,
        default=_MEDIUM,
        forced_tools=ForcedTools.UNTHINKING,
    ),
    replace(
        FALLBACK, match="claude-*-[5-9]-[0-9]", binds_thoughts=True
    ),  # point releases newer than the table
    replace(FALLBACK, match="claude-*-[5-9]-[0-9]-*", binds_thoughts=True),
    replace(_CLAUDE_5, match="claude-fable-5*", source=_FORCING, forced_tools=ForcedTools.ALWAYS),
    replace(_CLAUDE_5, match="claude-mythos-5*", source=_FORCING, forced_tools=ForcedTools.ALWAYS),
    replace(
        _CLAUDE_5,
        match="claude-mythos-preview*",
        efforts=(*_TO_HIGH, Effort.MAX),
        budget=(1024, 127_999),
        system_turns=False,
    ),
    replace(_CLAUDE_5, match="claude-opus-5*", off=True, forced_tools=ForcedTools.UNTHINKING),
    replace(FALLBACK, match="claude-sonnet-5*", off=True, forced_tools=ForcedTools.UNTHINKING),
    replace(_OPUS_4_8, match="claude-opus-4-8*"),
    replace(_OPUS_4_8, match="claude-opus-4-7*", system_turns=False),
    replace(_CLAUDE_4_6, match="claude-opus-4-6*"),
    replace(_CLAUDE_4_6, match="claude-sonnet-4-6*", source=f"{_CLAUDE}models/sonnet-4-6/overview"),
    replace(
        _EXTENDED,
        match="claude-opus-4-5*",
        source=f"{_CLAUDE}build-with-claude/effort",
        efforts=_TO_HIGH,
    ),
    replace(_EXTENDED, match="claude-sonnet-4-5*"),
    replace(_EXTENDED, match="claude-haiku-4-5*"),
    replace(_UNSTRUCTURED, match="claude-sonnet-4*"),
    replace(_UNSTRUCTURED, match="claude-4-sonnet*"),
    replace(_EXTENDED_32K, match="claude-opus-4*"),
    replace(_EXTENDED_32K, match="claude-4-opus*"),
    replace(_UNSTRUCTURED, match="claude-3-7-sonnet*"),
    replace(_UNTHINKING_CLAUDE, match="claude-3-5-*", max_output=8192),
    replace(_UNTHINKING_CLAUDE, match="claude-3-*"),
)
