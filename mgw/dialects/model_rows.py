"""The shipped rows: the current models of the three vendors, as their references stood on 2026-11-27.

The first match counts, so the specific stands before the general.  Efforts of OpenAI's models are those of
chat completions, which ends at ``xhigh`` also where Responses knows ``max``.  Where a reference is silent, a
row holds what no upstream refuses.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import CallIds, ChatTools, Effort, Family, ForcedTools, ThroughResponses

_MINIMAL, _LOW, _MEDIUM, _HIGH = Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH
_TO_HIGH: Final = (_LOW, _MEDIUM, _HIGH)
_FROM_MINIMAL: Final = (_MINIMAL, *_TO_HIGH)
_TO_XHIGH: Final = (*_TO_HIGH, Effort.XHIGH)
_TO_MAX: Final = (*_TO_XHIGH, Effort.MAX)
_NONE_TO_HIGH: Final = (Effort.NONE, *_TO_HIGH)
_NONE_TO_XHIGH: Final = (Effort.NONE, *_TO_XHIGH)
_NONE_TO_MAX: Final = (Effort.NONE, *_TO_MAX)
_ALWAYS: Final = ThroughResponses.ALWAYS

# Anthropic ------------------------------------------------------------------------------------------------

_CLAUDE: Final = "https://platform.claude.com/docs/en/"
_THINKING: Final = f"{_CLAUDE}build-with-claude/thinking-troubleshooting"
_FORCING: Final = f"{_CLAUDE}build-with-claude/thinking"
_FABLE_5_2: Final = f"{_CLAUDE}models/fable-5-2/whats-new-fable-5-2"
_FABLE_5_1: Final = f"{_CLAUDE}models/fable-5-1/whats-new-fable-5-1"

_NEW_CLAUDE: Final = ModelRow(
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
_CLAUDE_5: Final = replace(_NEW_CLAUDE, system_turns=True)
_BINDING: Final = replace(
    _CLAUDE_5, source=f"{_CLAUDE}build-with-claude/preserved-thinking", binds_thoughts=True
)
"""Since Fable 5.1: what stands before a thought must be what stood there when it was thought."""
_OPUS_4_8: Final = replace(
    _NEW_CLAUDE, off=True, default=Effort.NONE, system_turns=True, forced_tools=ForcedTools.UNTHINKING
)
_CLAUDE_4_6: Final = replace(
    _OPUS_4_8,
    efforts=(*_TO_HIGH, Effort.MAX),
    budget=(1024, 127_999),
    hides_thoughts=False,
    system_turns=False,
    sampling=True,
)
_EXTENDED: Final = ModelRow(
    "*",
    Family.ANTHROPIC,
    _THINKING,
    budget=(1024, 63_999),
    off=True,
    default=Effort.NONE,
    forced_tools=ForcedTools.UNTHINKING,
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
    max_output=4096,
)

_ANTHROPIC_ROWS: Final = (
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
        _NEW_CLAUDE, match="claude-*-[5-9]-[0-9]", binds_thoughts=True
    ),  # point releases newer than the table
    replace(_NEW_CLAUDE, match="claude-*-[5-9]-[0-9]-*", binds_thoughts=True),
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
    replace(_NEW_CLAUDE, match="claude-sonnet-5*", off=True, forced_tools=ForcedTools.UNTHINKING),
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

# OpenAI ---------------------------------------------------------------------------------------------------

_OPENAI: Final = "https://developers.openai.com/api/docs/"
_REASONING: Final = f"{_OPENAI}guides/reasoning"
_CHECKLIST: Final = f"{_OPENAI}guides/deployment-checklist"
_EFFORT_LIST: Final = (
    "https://community.openai.com/t/request-for-compatibility-matrix-reasoning-effort-sampling-parameters"
    "-across-gpt-5-series/1371738"
)
_EFFORTS_TRIED: Final = "https://github.com/anomalyco/opencode/pull/26268"
_RESEARCH_EFFORTS: Final = "https://github.com/anomalyco/opencode/pull/26273"
_CODEX_EFFORTS: Final = "https://github.com/anomalyco/models.dev/pull/2439"
_MAX_EFFORTS: Final = "https://github.com/openai/codex/pull/7449"
_SDK_MODELS: Final = (
    "https://github.com/openai/openai-python/blob/main/src/openai/types/shared/responses_model.py"
)
_TOOLS_5_2: Final = "https://github.com/livekit/agents/pull/5088"
_ONE_CALL: Final = (
    "https://community.openai.com/t/what-models-support-parallel-tool-calls-and-when-to-use-it/1310788"
)
_SEARCH_4O: Final = "https://github.com/vercel/ai/pull/5647"
_CATALOGUE: Final = "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json"

_NEW_GPT: Final = ModelRow(
    "*",
    Family.OPENAI,
    _REASONING,
    efforts=_TO_HIGH,
    default=_MEDIUM,
    sampling=False,
    stop=False,
    max_completion_tokens=True,
)
_GPT_6: Final = replace(
    _NEW_GPT,
    source=_CHECKLIST,
    efforts=_TO_XHIGH,
    responses_efforts=_TO_MAX,
    chat_tools=ChatTools.NEVER,
    through_responses=ThroughResponses.TOOLS,
    max_output=128_000,
)
_GPT_OFF: Final = replace(
    _GPT_6,
    efforts=_NONE_TO_XHIGH,
    responses_efforts=_NONE_TO_MAX,
    off=True,
    off_sampling=True,
    chat_tools=ChatTools.UNREASONED,
)
_GPT_5_5: Final = replace(_GPT_OFF, responses_efforts=None)
_GPT_5_1: Final = replace(
    _GPT_5_5,
    source=_EFFORT_LIST,
    efforts=_NONE_TO_HIGH,
    default=Effort.NONE,
    chat_tools=ChatTools.ALWAYS,
    through_responses=ThroughResponses.NEVER,
)
_GPT_5: Final = replace(_NEW_GPT, source=_EFFORT_LIST, efforts=_FROM_MINIMAL, max_output=128_000)
_O: Final = replace(_NEW_GPT, source=_ONE_CALL, parallel_calls=False, max_output=100_000)
_UNREASONING: Final = ModelRow("*", Family.OPENAI, f"{_OPENAI}models", default=Effort.NONE)
_COMPATIBLE: Final = ModelRow(
    "*", Family.OPENAI, "https://docs.vllm.ai/en/stable/features/reasoning_outputs/", efforts=_TO_HIGH
)
"""Any host: its models have names that no table knows, and their own ways to think."""

_MISTRAL: Final = replace(
    _COMPATIBLE,
    source="https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py",
    call_ids=CallIds.NINE,
)


def _only(match: str, *efforts: Effort, default: Effort = _MEDIUM) -> ModelRow:
    """Return a row of the first reasoning generations that takes just these efforts."""
    return replace(_NEW_GPT, match=match, source=_EFFORT_LIST, efforts=efforts, default=default)


def _on_responses_only(
    match: str, *efforts: Effort, default: Effort = _MEDIUM, source: str = _EFFORTS_TRIED
) -> ModelRow:
    """Return such a row of models that chat completions does not have."""
    return replace(_only(match, *efforts, default=default), source=source, through_responses=_ALWAYS)


_OPENAI_ROWS: Final = (
    replace(_NEW_GPT, match="gpt-*-cyber*", source=_SDK_MODELS, through_responses=_ALWAYS),
    replace(_NEW_GPT, match="gpt-*rosalind*", source=_SDK_MODELS, through_responses=_ALWAYS),
    replace(_GPT_6, match="gpt-6.2-astra-law*", source=_SDK_MODELS, through_responses=_ALWAYS),
    replace(_GPT_6, match="gpt-6.2-*", source=f"{_OPENAI}models/gpt-6.2-astra"),
    replace(_GPT_OFF, match="gpt-6.1-terra*", source=f"{_OPENAI}models/gpt-6.1-terra"),
    replace(_GPT_6, match="gpt-6.1-*"),
    replace(_GPT_OFF, match="gpt-6-luna*", source=f"{_OPENAI}models/gpt-6-luna"),
    replace(_GPT_OFF, match="gpt-6-sol*"),
    replace(_GPT_6, match="gpt-6*"),
    replace(_GPT_OFF, match="gpt-5.6*", source=f"{_OPENAI}guides/latest-model/gpt-5.6"),
    _on_responses_only("gpt-5.5-pro*", _MEDIUM, _HIGH, Effort.XHIGH, default=_HIGH),
    replace(_GPT_5_5, match="gpt-5.5*", source=_REASONING),
    _on_responses_only("gpt-5.4-pro*", _MEDIUM, _HIGH, Effort.XHIGH, default=_HIGH),
    replace(_GPT_5_5, match="gpt-5.4*", source=f"{_OPENAI}models/gpt-5.4", default=Effort.NONE),
    _on_responses_only("gpt-5.3-codex*", *_TO_XHIGH, source=_CODEX_EFFORTS),
    replace(_only("gpt-5.?-chat*", _MEDIUM), max_output=16_384),
    _on_responses_only("gpt-5.2-pro*", _MEDIUM, _HIGH, Effort.XHIGH),
    _on_responses_only("gpt-5.2-codex*", *_TO_XHIGH, source=_CODEX_EFFORTS),
    replace(_GPT_5_5, match="gpt-5.2*", source=_TOOLS_5_2, default=Effort.NONE),
    _on_responses_only("gpt-5.1-codex-max*", *_TO_XHIGH, source=_MAX_EFFORTS),
    _on_responses_only("gpt-5.1-codex*", *_TO_HIGH, source=_CODEX_EFFORTS),
    replace(_GPT_5_1, match="gpt-5.1*"),
    replace(_UNREASONING, match="gpt-5-chat*", source=_EFFORT_LIST, max_output=16_384),
    _on_responses_only("gpt-5-pro*", _HIGH, default=_HIGH),
    _on_responses_only("gpt-5-codex*", *_TO_HIGH),
    replace(_NEW_GPT, match="gpt-5-search*", source=_EFFORT_LIST, efforts=(), default=Effort.NONE),
    replace(_GPT_5, match="gpt-5-*"),
    replace(_GPT_5, match="gpt-5"),
    replace(_COMPATIBLE, match="gpt-oss*", source="https://huggingface.co/openai/gpt-oss-20b"),
    replace(_UNREASONING, match="gpt-4o*-search*", source=_SEARCH_4O, sampling=False, max_output=16_384),
    replace(_UNREASONING, match="gpt-4o-2024-05-13*", source=f"{_OPENAI}models/gpt-4o", max_output=4096),
    replace(_UNREASONING, match="gpt-4o*", source=f"{_OPENAI}models/gpt-4o", max_output=16_384),
    replace(_UNREASONING, match="gpt-4.1*", source=f"{_OPENAI}models/gpt-4.1", max_output=32_768),
    replace(_UNREASONING, match="gpt-4*"),
    replace(_UNREASONING, match="gpt-3.5*"),
    replace(_UNREASONING, match="gpt-audio*", source=f"{_OPENAI}models/gpt-audio", max_output=16_384),
    replace(_UNREASONING, match="chatgpt-4o*"),
    replace(_only("chat-latest*", _MEDIUM), source=_CATALOGUE, max_output=128_000),
    replace(_NEW_GPT, match="*daybreak-*", source=_SDK_MODELS, through_responses=_ALWAYS, max_output=128_000),
    replace(_NEW_GPT, match="gpt-*"),
    _on_responses_only("codex-mini*", *_TO_HIGH, source=f"{_OPENAI}models/codex-mini-latest"),
    _on_responses_only("computer-use-preview*", source=_SDK_MODELS),
    replace(
        _O,
        match="o?-*deep-research*",
        source=_RESEARCH_EFFORTS,
        efforts=(_MEDIUM,),
        through_responses=_ALWAYS,
    ),
    replace(_NEW_GPT, match="o1-preview*", efforts=()),
    replace(_NEW_GPT, match="o1-mini*", efforts=()),
    replace(_O, match="o1-pro*", through_responses=_ALWAYS),
    replace(_O, match="o1*", stop=True),
    replace(_O, match="o3-mini*", stop=True),
    replace(_O, match="o3-pro*", through_responses=_ALWAYS),
    replace(_O, match="o3*"),
    replace(_O, match="o4-mini*"),
    replace(_COMPATIBLE, match="*qwen*", tokens=1.06),  # distilled DeepSeek keeps Qwen's tokenizer
    replace(_MISTRAL, match="*mistral*", tokens=1.1),
    replace(_MISTRAL, match="*mixtral*", tokens=1.1),
    replace(_MISTRAL, match="*ministral*"),
    replace(_MISTRAL, match="*codestral*"),
    replace(_MISTRAL, match="*devstral*"),
    replace(_MISTRAL, match="*magistral*"),
    replace(_COMPATIBLE, match="*gemma*", tokens=1.15),
    replace(_COMPATIBLE, match="*deepseek*", tokens=1.03),
)

# Gemini ---------------------------------------------------------------------------------------------------

_GUIDES: Final = "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/guides/"
_LEVELS: Final = "https://ai.google.dev/gemini-api/docs/generate-content/thinking"
_MODELS: Final = "https://ai.google.dev/gemini-api/docs/models"
_ROBOTICS: Final = "https://ai.google.dev/gemini-api/docs/robotics-overview"
_NO_TOOLS: Final = "https://github.com/owndev/Open-WebUI-Functions/issues/181"
_GEMMA_3: Final = "https://github.com/agno-agi/agno/issues/3505"
_NO_JSON: Final = "https://github.com/google-gemini/cookbook/issues/1028"

_NEW_GEMINI: Final = ModelRow(
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
_GEMINI_3: Final = replace(_NEW_GEMINI, default=_HIGH, sampling=True, prefill=True)
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

_GEMINI_ROWS: Final = (
    replace(
        _NEW_GEMINI,
        match="gemini-4-hydrogen*",
        source=f"{_GUIDES}gemini-4-hydrogen",
        efforts=_TO_XHIGH,
        default=_HIGH,
    ),
    replace(
        _NEW_GEMINI, match="gemini-4-*-cyber-permissive*", source=f"{_GUIDES}gemini-4-carbon", default=_HIGH
    ),
    replace(
        _NEW_GEMINI,
        match="gemini-4-neon*",
        source=f"{_GUIDES}gemini-4-neon",
        efforts=_TO_XHIGH,
        default=_HIGH,
    ),
    replace(_NEW_GEMINI, match="gemini-4-argon*", source=f"{_GUIDES}gemini-4-argon"),
    replace(_NEW_GEMINI, match="gemini-4-carbon*", source=f"{_GUIDES}gemini-4-carbon"),
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
    replace(_NEW_GEMINI, match="gemini-3.8-flash*", source=f"{_GUIDES}gemini-3-8-flash"),
    replace(_NEW_GEMINI, match="gemini-3.7-flash*", source=f"{_GUIDES}gemini-3-8-flash"),
    replace(
        _NEW_GEMINI, match="gemini-3.6-flash*", source=f"{_GUIDES}gemini-3-6-flash", efforts=_FROM_MINIMAL
    ),
    replace(_NEW_GEMINI, match="gemini-3.5-flash-lite*", efforts=_FROM_MINIMAL, default=_MINIMAL),
    replace(
        _NEW_GEMINI, match="gemini-3.5-flash*", source=f"{_GUIDES}gemini-3-5-flash", efforts=_FROM_MINIMAL
    ),
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
    replace(_NEW_GEMINI, match="gemini-*-latest"),
)

ROWS: Final = (*_ANTHROPIC_ROWS, *_OPENAI_ROWS, *_GEMINI_ROWS)
"""Every shipped row; within a family the first match counts."""

FALLBACKS: Final = MappingProxyType(
    {Family.ANTHROPIC: _NEW_CLAUDE, Family.OPENAI: _COMPATIBLE, Family.GEMINI: _NEW_GEMINI}
)
"""What is guessed of a model that no row matches."""
