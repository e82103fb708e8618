"""The shipped rows of Google's models, as the reference stood on 2026-11-27.

The first match counts, so the specific stands before the general.  Where a reference is silent, a row
holds what no upstream refuses.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort, Family

_MINIMAL, _LOW, _MEDIUM, _HIGH = Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH
_TO_HIGH: Final = (_LOW, _MEDIUM, _HIGH)
_FROM_MINIMAL: Final = (_MINIMAL, *_TO_HIGH)
_TO_XHIGH: Final = (*_TO_HIGH, Effort.XHIGH)

_GUIDES: Final = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/"
_LEVELS: Final = "https://ai.google.dev/gemini-api/docs/generate-content/thinking"
_MODELS: Final = "https://ai.google.dev/gemini-api/docs/models"
_ROBOTICS: Final = "https://ai.google.dev/gemini-api/docs/robotics-overview"
_NO_TOOLS: Final = "https://github.com/owndev/Open-WebUI-Functions/issues/181"
_GEMMA_3: Final = "https://github.com/agno-agi/agno/issues/3505"
_NO_JSON: Final = "https://github.com/google-gemini/cookbook/issues/1028"

FALLBACK: Final = ModelRow(
    "*",
    Family.GEMINI,
    _LEVELS,
    efforts=_TO_HIGH,
    default=_MEDIUM,
    sampling=False,
    penalties=False,
    logprobs=False,
    candidates=1,
    signatures=True,
    prefill=False,
    max_output=65_536,
)
_GEMINI_3: Final = replace(FALLBACK, default=_HIGH, sampling=True, prefill=True)
_BUDGETED: Final = ModelRow(
    "*",
    Family.GEMINI,
    _LEVELS,
    budget=(1, 24_576),
    off=True,
    default=_MEDIUM,
    penalties=False,
    logprobs=False,
    json_with_tools=False,
    vertex_call_ids=False,
    max_output=65_536,
)
_SILENT: Final = ModelRow(
    "*", Family.GEMINI, _MODELS, penalties=False, logprobs=False, candidates=1, json_with_tools=False
)
"""Nothing is known of how it is told to think, so nothing is said."""
_GEMINI_3_IMAGE: Final = replace(_SILENT, signatures=True, tools=False, images=True, max_output=32_768)
_GEMINI_2: Final = replace(_SILENT, candidates=8, vertex_call_ids=False)
_GEMINI_1: Final = replace(_GEMINI_2, default=Effort.NONE, addresses=False, max_output=8192)

ROWS: Final = (
    replace(
        FALLBACK,
        match="gemini-4-hydrogen*",
        source=f"{_GUIDES}gemini-4-hydrogen",
        efforts=_TO_XHIGH,
        default=_HIGH,
    ),
    replace(
        FALLBACK, match="gemini-4-*-cyber-permissive*", source=f"{_GUIDES}gemini-4-carbon", default=_HIGH
    ),
    replace(
        FALLBACK,
        match="gemini-4-neon*",
        source=f"{_GUIDES}gemini-4-neon",
        efforts=_TO_XHIGH,
        default=_HIGH,
    ),
    replace(FALLBACK, match="gemini-4-argon*", source=f"{_GUIDES}gemini-4-argon"),
    replace(FALLBACK, match="gemini-4-carbon*", source=f"{_GUIDES}gemini-4-carbon"),
    replace(
        _SILENT,
        match="gemini-*-tts*",
        source=f"{_MODELS}/gemini-3.8-flash-tts",
        system=False,
        structured=False,
        tools=False,
        max_output=16_384,
    ),
    replace(_SILENT, match="gemini-*-transcribe*"),
    replace(
        _GEMINI_3,
        match="gemini-3.1-flash-lite-image*",
        images=True,
        source=f"{_MODELS}/gemini-3.1-flash-lite-image",
        efforts=(_MINIMAL, _HIGH),
        default=_MINIMAL,
        structured=False,
        tools=False,
        max_output=4096,
    ),
    replace(
        _GEMINI_3_IMAGE,
        match="gemini-3.1-flash-image*",
        source=f"{_MODELS}/gemini-3.1-flash-image",
        structured=False,
    ),
    replace(_GEMINI_3_IMAGE, match="gemini-3*-image*"),
    replace(
        _SILENT,
        match="gemini-*-image*",
        source=_NO_JSON,
        images=True,
        vertex_call_ids=False,
        system=False,
        structured=False,
        tools=False,
        max_output=32_768,
    ),
    replace(
        _SILENT, match="gemini-nano-banana*", source=_NO_TOOLS, signatures=True, tools=False, images=True
    ),
    replace(_SILENT, match="nano-banana*", source=_NO_TOOLS, signatures=True, tools=False, images=True),
    replace(_SILENT, match="gemini-omni*"),
    replace(_SILENT, match="gemini-robotics-er*", source=_ROBOTICS, max_output=65_536),
    replace(FALLBACK, match="gemini-3.8-flash*", source=f"{_GUIDES}gemini-3-8-flash"),
    replace(FALLBACK, match="gemini-3.7-flash*", source=f"{_GUIDES}gemini-3-8-flash"),
    replace(FALLBACK, match="gemini-3.6-flash*", source=f"{_GUIDES}gemini-3-6-flash", efforts=_FROM_MINIMAL),
    replace(FALLBACK, match="gemini-3.5-flash-lite*", efforts=_FROM_MINIMAL, default=_MINIMAL),
    replace(FALLBACK, match="gemini-3.5-flash*", source=f"{_GUIDES}gemini-3-5-flash", efforts=_FROM_MINIMAL),
    replace(_GEMINI_3, match="gemini-3.1-flash-lite*", efforts=_FROM_MINIMAL, default=_MINIMAL),
    replace(_GEMINI_3, match="gemini-3.1-pro*"),
    replace(_GEMINI_3, match="gemini-3-flash*", efforts=_FROM_MINIMAL),
    replace(_GEMINI_3, match="gemini-3-pro*", efforts=(_LOW, _HIGH)),
    replace(_BUDGETED, match="gemini-2.5-pro*", budget=(128, 32_768), off=False),
    replace(_BUDGETED, match="gemini-2.5-flash-lite*", budget=(512, 24_576), default=Effort.NONE),
    replace(_BUDGETED, match="gemini-2.5-flash*"),
    replace(_GEMINI_2, match="gemini-2.5*"),
    replace(
        _GEMINI_1, match="gemini-2.0*", source=f"{_MODELS}/gemini-2.0-flash", penalties=True, logprobs=True
    ),
    replace(_GEMINI_1, match="gemini-1*"),
    replace(
        _SILENT,
        match="gemma-4*",
        source=_LEVELS,
        efforts=(_MINIMAL, _HIGH),
        default=_HIGH,
        max_output=32_768,
    ),
    replace(
        _SILENT,
        match="gemma-*",
        source=_GEMMA_3,
        default=Effort.NONE,
        system=False,
        structured=False,
        tools=False,
        max_output=8192,
    ),
    replace(FALLBACK, match="gemini-*-latest"),
)
