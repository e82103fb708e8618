"""The shipped rows of OpenAI's models, as the reference stood on 2026-11-27.

The first match counts, so the specific stands before the general.  Efforts are those of chat completions,
which ends at ``xhigh`` also where Responses knows ``max``.  Where a reference is silent, a row holds what no
upstream refuses.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import CallIds, ChatTools, Effort, Family, ThroughResponses

_MINIMAL, _LOW, _MEDIUM, _HIGH = Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH
_TO_HIGH: Final = (_LOW, _MEDIUM, _HIGH)
_FROM_MINIMAL: Final = (_MINIMAL, *_TO_HIGH)
_TO_XHIGH: Final = (*_TO_HIGH, Effort.XHIGH)
_TO_MAX: Final = (*_TO_XHIGH, Effort.MAX)
_NONE_TO_HIGH: Final = (Effort.NONE, *_TO_HIGH)
_NONE_TO_XHIGH: Final = (Effort.NONE, *_TO_XHIGH)
_NONE_TO_MAX: Final = (Effort.NONE, *_TO_MAX)
_ALWAYS: Final = ThroughResponses.ALWAYS

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
FALLBACK: Final = ModelRow(
    "*", Family.OPENAI, "https://docs.vllm.ai/en/stable/features/reasoning_outputs/", efforts=_TO_HIGH
)
"""Any host: its models have names that no table knows, and their own ways to think."""

_MISTRAL: Final = replace(
    FALLBACK,
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


ROWS: Final = (
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
    replace(FALLBACK, match="gpt-oss*", source="https://huggingface.co/openai/gpt-oss-20b"),
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
    replace(FALLBACK, match="*qwen*", tokens=1.06),  # distilled DeepSeek keeps Qwen's tokenizer
    replace(_MISTRAL, match="*mistral*", tokens=1.1),
    replace(_MISTRAL, match="*mixtral*", tokens=1.1),
    replace(_MISTRAL, match="*ministral*"),
    replace(_MISTRAL, match="*codestral*"),
    replace(_MISTRAL, match="*devstral*"),
    replace(_MISTRAL, match="*magistral*"),
    replace(FALLBACK, match="*gemma*", tokens=1.15),
    replace(FALLBACK, match="*deepseek*", tokens=1.03),
)
