"""``generationConfig``: how to answer, as a client says it.

Source: ``GenerationConfig`` and ``ThinkingConfig`` of google-genai 3.4.  Numbers may be strings, as in all of
proto3 JSON.
"""

from __future__ import annotations

from math import isfinite
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import JsonObject, OutputFormat, OutputKind, Reasoning, Sampling
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.gemini.content import detail_of
from mgw.dialects.gemini.enums import MODALITIES, RESOLUTIONS, enum_text, named
from mgw.dialects.gemini.schema import from_openapi, with_lower_types
from mgw.vocabulary import Effort

_LEVELS: Final = MappingProxyType(
    {
        "THINKING_LEVEL_UNSPECIFIED": None,
        "MINIMAL": Effort.MINIMAL,
        "LOW": Effort.LOW,
        "MEDIUM": Effort.MEDIUM,
        "HIGH": Effort.HIGH,
        "XHIGH": Effort.XHIGH,
    }
)
_JSON: Final = "application/json"
_PLAIN: Final = frozenset({"", "text/plain"})


class GenerationConfig(Struct, frozen=True):
    """What ``generationConfig`` says."""

    sampling: Sampling = Sampling()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    candidates: int | None = None
    output: OutputFormat | None = None
    reasoning: Reasoning = Reasoning()
    detail: str | None = None
    """The resolution of all images that state none of their own."""


def parse_config(config: Fields | None) -> GenerationConfig:
    """Return what ``generationConfig`` says; what nobody else can say stays unread."""
    if config is None:
        return GenerationConfig()
    return GenerationConfig(
        sampling=_sampling(config),
        max_tokens=whole_number(config, "maxOutputTokens", Feature.MAX_TOKENS),
        stop=tuple(filter(None, config.texts("stopSequences", Feature.STOP))),
        candidates=_candidates(config),
        output=_output(config),
        reasoning=_reasoning(config),
        detail=_detail(config),
    )


def number(fields: Fields, key: str, feature: Feature | None = None) -> float | None:
    """Take a number, which may be written as a string."""
    value = fields.take(key, feature)
    if type(value) is str:
        try:
            value = float(value)
        except ValueError:
            raise fields.mistyped(key, float, value) from None
    if value is None or type(value) is int:
        return value
    if type(value) is float:
        if not isfinite(value):
            raise fields.wrong(key, "the number is out of range")
        return value
    raise fields.mistyped(key, float, value)


def whole_number(fields: Fields, key: str, feature: Feature | None = None) -> int | None:
    """Take a whole number, which may be written as a string; what follows its point does not count."""
    value = number(fields, key, feature)
    if value is None:
        return None
    if not -(2.0**63) <= value < 2.0**63:
        raise fields.wrong(key, "the number is out of range")
    return int(value)


def _sampling(config: Fields) -> Sampling:
    return Sampling(
        temperature=number(config, "temperature", Feature.TEMPERATURE),
        top_p=number(config, "topP", Feature.TOP_P),
        top_k=whole_number(config, "topK", Feature.TOP_K),
        frequency_penalty=number(config, "frequencyPenalty", Feature.FREQUENCY_PENALTY),
        presence_penalty=number(config, "presencePenalty", Feature.PRESENCE_PENALTY),
        seed=whole_number(config, "seed", Feature.SEED),
        logprobs=config.flag("responseLogprobs", Feature.LOGPROBS),
        top_logprobs=whole_number(config, "logprobs", Feature.TOP_LOGPROBS),
    )


def _candidates(config: Fields) -> int | None:
    candidates = whole_number(config, "candidateCount")
    if candidates not in (None, 1):
        config.note(Feature.CANDIDATES, "candidateCount")
    return candidates


def _output(config: Fields) -> OutputFormat | None:
    """Return what the answer is to look like.

    A type that is none of JSON and text stays unread together with its schema: one word of an enum, say.
    """
    modalities = config.take("responseModalities")
    if type(modalities) is list:
        modalities = [named(modality, MODALITIES) for modality in modalities]
    if modalities is not None and modalities not in (["TEXT"], ["text"]):
        config.ledger.leave(config.path("responseModalities"))
    media_type = config.text("responseMimeType", Feature.OUTPUT)
    if media_type not in {None, _JSON, *_PLAIN}:
        config.ledger.leave(config.path("responseMimeType"))
        return None
    schema = _schema(config)
    if schema is not None:
        return OutputFormat(OutputKind.SCHEMA, schema)
    return OutputFormat(OutputKind.JSON) if media_type == _JSON else None


def _schema(config: Fields) -> JsonObject | None:
    for key in ("responseJsonSchema", "_responseJsonSchema"):
        found = config.raw_object(key, Feature.OUTPUT)
        if found is not None:
            return with_lower_types(found)
    found = config.raw_object("responseSchema", Feature.OUTPUT)
    return None if found is None else from_openapi(found)


def _reasoning(config: Fields) -> Reasoning:
    thinking = config.nested("thinkingConfig")
    if thinking is None:
        return Reasoning()
    level = thinking.text("thinkingLevel", Feature.REASONING)
    if level is not None and level.upper() not in _LEVELS:
        raise none_of(thinking, "thinkingLevel", level, _LEVELS)
    return Reasoning(
        effort=_LEVELS[level.upper()] if level else None,
        budget=whole_number(thinking, "thinkingBudget", Feature.REASONING),
        thoughts=thinking.flag("includeThoughts", Feature.THOUGHTS),
    )


def _detail(config: Fields) -> str | None:
    level = enum_text(config, "mediaResolution", RESOLUTIONS, Feature.MEDIA_DETAIL)
    detail = detail_of(level)
    if level is not None and detail is None:
        config.ledger.leave(config.path("mediaResolution"))
    return detail
