"""``generationConfig``, both ways: sampling, limits, output format, reasoning, resolution of media.

Towards Google it holds what the model takes; all else is lost, since Google refuses it ("JSON mode is not
enabled for this model", "Function calling with a response mime type: 'application/json' is unsupported",
"Penalty is not enabled for this model", "Logprobs is not enabled ...", "Multiple candidates is not enabled
...").  Models that take no sampling parameters refuse penalties, too.

Sources: ``GenerationConfig`` and ``ThinkingConfig`` of google-genai 3.4; contract 8.7, 8.19.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mgw.canonical.conversation import (
    NO_REASONING,
    NO_SAMPLING,
    NO_SHAPE,
    Conversation,
    JsonObject,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Part,
    Reasoning,
    Sampling,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions, ReplyOptions
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.gemini.media import RESOLUTIONS, parse_resolution
from mgw.dialects.gemini.proto_json import enum_name, parse_enum, parse_integer, parse_number
from mgw.dialects.gemini.schema import is_enforced, parse_json_schema, parse_openapi_schema
from mgw.dialects.reasoning import Wish, choose_budget, choose_named, find_effort, find_wish
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Effort

_MODALITIES: Final = ("MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "AUDIO")
"""``GenerationConfig.Modality`` by its numbers."""
_THINKING_LEVELS: Final = MappingProxyType(
    {
        "THINKING_LEVEL_UNSPECIFIED": None,
        "MINIMAL": Effort.MINIMAL,
        "LOW": Effort.LOW,
        "MEDIUM": Effort.MEDIUM,
        "HIGH": Effort.HIGH,
        "XHIGH": Effort.XHIGH,
    }
)
_SAMPLING: Final[tuple[tuple[str, str, Feature, Callable[[Fields, str, Feature], Any]], ...]] = (
    ("temperature", "temperature", Feature.TEMPERATURE, parse_number),
    ("top_p", "topP", Feature.TOP_P, parse_number),
    ("top_k", "topK", Feature.TOP_K, parse_integer),
    ("frequency_penalty", "frequencyPenalty", Feature.FREQUENCY_PENALTY, parse_number),
    ("presence_penalty", "presencePenalty", Feature.PRESENCE_PENALTY, parse_number),
    ("seed", "seed", Feature.SEED, parse_integer),
    ("logprobs", "responseLogprobs", Feature.LOGPROBS, Fields.flag),
    ("top_logprobs", "logprobs", Feature.TOP_LOGPROBS, parse_integer),
)
"""The canonical name and Google's of each, and how it is taken.  Any: a number, or a truth value."""
_RENDERED_SAMPLING: Final = (
    ("temperature", "temperature", Feature.TEMPERATURE, False),
    ("top_p", "topP", Feature.TOP_P, False),
    ("top_k", "topK", Feature.TOP_K, False),
    ("presence_penalty", "presencePenalty", Feature.PRESENCE_PENALTY, True),
    ("frequency_penalty", "frequencyPenalty", Feature.FREQUENCY_PENALTY, True),
)
"""The canonical name and Google's of what depends on the model, and whether it is a penalty."""
_LIMIT: Final = Feature.MAX_TOKENS  # a member of an enumeration is looked up in Python's slow way each time
_CANDIDATES: Final = Feature.CANDIDATES
_JSON: Final = "application/json"
_PLAIN_TEXT: Final = frozenset({"", "text/plain"})
_MAX_STOPS: Final = 5
_SEED_LIMIT: Final = 2**31
_REQUEST_RESOLUTIONS: Final = frozenset({"low", "medium", "high"})
"""What ``generationConfig.mediaResolution`` knows; that of single parts is known to few models only."""
_VISUAL: Final = frozenset({MediaKind.IMAGE, MediaKind.VIDEO})


class ContentReplyOptions(ReplyOptions, frozen=True):
    """How a client of generateContent wants its answer written."""

    in_array: bool = False
    """A stream is an array in pieces in place of an event stream."""


class GenerationConfig(Struct, frozen=True):
    """``generationConfig`` in its canonical form."""

    sampling: Sampling = NO_SAMPLING
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    candidates: int | None = None
    output: OutputFormat | None = None
    reasoning: Reasoning = NO_REASONING
    detail: str | None = None
    """The resolution of all images that state none of their own."""


_NO_OPTIONS: Final = GenerationConfig()


def parse_options(config: Fields | None) -> GenerationConfig:
    """Return ``generationConfig`` in its canonical form; what no other family has stays unread."""
    if config is None:
        return _NO_OPTIONS
    sampling = _parse_sampling(config)
    max_tokens = parse_integer(config, "maxOutputTokens", Feature.MAX_TOKENS)
    stop = tuple(filter(None, config.texts("stopSequences", Feature.STOP)))
    if not config.unread:  # all else is rare
        return GenerationConfig(sampling, max_tokens, stop)
    return GenerationConfig(
        sampling,
        max_tokens,
        stop,
        candidates=_parse_candidates(config),
        output=_parse_output(config),
        reasoning=_parse_reasoning(config),
        detail=_parse_detail(config),
    )


def _parse_sampling(config: Fields) -> Sampling:
    found: dict[str, Any] = {}  # Any: numbers and truth values
    for name, key, feature, take in _SAMPLING:
        if key in config.unread or config.has_snake:  # most are in no request
            found[name] = take(config, key, feature)
    return Sampling(**found) if found else NO_SAMPLING


def _parse_candidates(config: Fields) -> int | None:
    candidates = parse_integer(config, "candidateCount")
    if candidates not in (None, 1):
        config.note(Feature.CANDIDATES, "candidateCount")
    return candidates


def _parse_output(config: Fields) -> OutputFormat | None:
    """Return the output format.

    A type that is none of JSON and text stays unread together with its schema: ``text/x.enum``, for one.
    """
    modalities = config.take("responseModalities")
    if type(modalities) is list:
        modalities = [enum_name(modality, _MODALITIES) for modality in modalities]
    if modalities is not None and modalities not in (["TEXT"], ["text"]):
        config.ledger.leave(config.path("responseModalities"))
    media_type = config.text("responseMimeType", Feature.OUTPUT)
    if media_type not in {None, _JSON, *_PLAIN_TEXT}:
        config.ledger.leave(config.path("responseMimeType"))
        return None
    schema = _parse_schema(config)
    if schema is not None:
        return OutputFormat(OutputKind.SCHEMA, schema)
    return OutputFormat(OutputKind.JSON) if media_type == _JSON else None


def _parse_schema(config: Fields) -> JsonObject | None:
    for key in ("responseJsonSchema", "_responseJsonSchema"):
        found = config.raw_object(key, Feature.OUTPUT)
        if found is not None:
            return parse_json_schema(found)
    found = config.raw_object("responseSchema", Feature.OUTPUT)
    return None if found is None else parse_openapi_schema(found)


def _parse_reasoning(config: Fields) -> Reasoning:
    thinking = config.nested("thinkingConfig")
    if thinking is None:
        return NO_REASONING
    level = thinking.text("thinkingLevel", Feature.REASONING)
    if level is not None and level.upper() not in _THINKING_LEVELS:
        raise none_of(thinking, "thinkingLevel", level, _THINKING_LEVELS)
    return Reasoning(
        effort=_THINKING_LEVELS[level.upper()] if level else None,
        budget=parse_integer(thinking, "thinkingBudget", Feature.REASONING),
        thoughts=thinking.flag("includeThoughts", Feature.THOUGHTS),
    )


def _parse_detail(config: Fields) -> str | None:
    level = parse_enum(config, "mediaResolution", RESOLUTIONS, Feature.MEDIA_DETAIL)
    if level is None:
        return None
    detail = parse_resolution(level)
    if detail is None:
        config.ledger.leave(config.path("mediaResolution"))
    return detail


def render_options(conversation: Conversation, options: RenderOptions, lost: set[Feature]) -> JsonObject:
    """Return ``generationConfig``, and add to ``lost`` what it cannot express."""
    row = options.row
    config = _render_sampling(conversation.sampling, row, lost)
    if conversation.max_tokens is not None:
        config["maxOutputTokens"] = _cap(conversation.max_tokens, row.max_output, _LIMIT, lost)
    if conversation.candidates is not None:
        config["candidateCount"] = _cap(conversation.candidates, row.candidates, _CANDIDATES, lost)
    stops = [stop for stop in conversation.stop if stop]  # an empty one is refused, and means nothing
    if stops:
        if len(stops) > _MAX_STOPS or not row.stop:
            lost.add(Feature.STOP)
        if row.stop:
            config["stopSequences"] = stops[:_MAX_STOPS]
    if conversation.output is not None:
        config |= _render_output(conversation, conversation.output, row, lost)
    if conversation.image_answers or conversation.image_shape is not NO_SHAPE:
        config |= _render_images(conversation, row, lost)
    thinking = _render_thinking(conversation, options, lost)
    if thinking:
        config["thinkingConfig"] = thinking
    resolution = _render_resolution(conversation, lost)
    if resolution is not None:
        config["mediaResolution"] = f"MEDIA_RESOLUTION_{resolution.upper()}"
    return config


def _cap(wanted: int, most: int | None, feature: Feature, lost: set[Feature]) -> int:
    """Return a number that is no more than the model takes."""
    if most is None or wanted <= most:
        return wanted
    lost.add(feature)
    return most


def _render_sampling(sampling: Sampling, row: ModelRow, lost: set[Feature]) -> JsonObject:
    config: JsonObject = {}
    for name, key, feature, is_penalty in _RENDERED_SAMPLING:
        value = getattr(sampling, name)
        if value is None or (is_penalty and not value):  # a penalty of 0 is none at all
            continue
        if row.sampling and (row.penalties or not is_penalty):
            config[key] = value
        else:
            lost.add(feature)
    if sampling.seed is not None:
        config["seed"] = sampling.seed % _SEED_LIMIT  # int32; equal seeds stay equal
    if sampling.logprobs or sampling.top_logprobs:
        config |= _render_logprobs(sampling, row, lost)
    return config


def _render_logprobs(sampling: Sampling, row: ModelRow, lost: set[Feature]) -> JsonObject:
    config: JsonObject = {}
    if sampling.logprobs and row.logprobs:
        config["responseLogprobs"] = True
        if sampling.top_logprobs:
            config["logprobs"] = sampling.top_logprobs
        return config
    if sampling.logprobs:
        lost.add(Feature.LOGPROBS)
    if sampling.top_logprobs:
        lost.add(Feature.TOP_LOGPROBS)
    return config


def _render_output(
    conversation: Conversation, output: OutputFormat, row: ModelRow, lost: set[Feature]
) -> JsonObject:
    if output.kind is OutputKind.TEXT:
        return {}
    if not row.structured or (conversation.tools and not row.json_with_tools):
        lost.add(Feature.OUTPUT)
        return {}
    if output.name is not None:
        lost.add(Feature.OUTPUT_NAME)
    if output.description is not None:
        lost.add(Feature.OUTPUT_DESCRIPTION)
    config: JsonObject = {"responseMimeType": "application/json"}
    if output.schema is not None:
        config["responseJsonSchema"] = output.schema
    if output.strict is False or (output.strict and not _is_strict(output.schema)):
        lost.add(Feature.OUTPUT_STRICT)
    return config


def _is_strict(schema: JsonObject | None) -> bool:
    """Whether the response is held to all of a schema."""
    try:
        return schema is not None and is_enforced(schema)
    except RecursionError:  # where it is encoded, it is refused
        return False


def _render_images(conversation: Conversation, row: ModelRow, lost: set[Feature]) -> JsonObject:
    if not row.images:
        lost.update((Feature.IMAGE_ANSWERS, Feature.IMAGE_SHAPE))
        return {}
    config: JsonObject = {"responseModalities": ["TEXT", "IMAGE"]} if conversation.image_answers else {}
    shape = conversation.image_shape
    wanted = {"aspectRatio": shape.aspect_ratio, "imageSize": shape.size}
    image_config = {key: value for key, value in wanted.items() if value is not None}
    if image_config:
        config["imageConfig"] = image_config
    return config


def _render_thinking(conversation: Conversation, options: RenderOptions, lost: set[Feature]) -> JsonObject:
    thinking = map_reasoning(conversation.reasoning, options.row)
    if thinking.lost:
        lost.add(Feature.REASONING)
    config: JsonObject = {}
    if thinking.include_thoughts is not None:
        config["includeThoughts"] = thinking.include_thoughts
    if thinking.budget is not None:
        config["thinkingBudget"] = thinking.budget
    if thinking.level is not None:
        config["thinkingLevel"] = thinking.level
    return config


def _render_resolution(conversation: Conversation, lost: set[Feature]) -> str | None:
    """Return the one resolution at which all is to be seen; several cannot be expressed."""
    details: set[str | None] = set()
    for turn in conversation.turns:
        for part in turn.parts:
            if type(part) is Media or type(part) is ToolResult:
                details.update([media.detail for media in _visual_media(part)])
    if details <= {None, "auto"}:
        return None
    detail = details.pop() if len(details) == 1 else None
    if detail in _REQUEST_RESOLUTIONS:
        return detail
    lost.add(Feature.MEDIA_DETAIL)
    return None


def _visual_media(part: Part) -> list[Media]:
    """Return what is to be seen in a part."""
    inner = part.parts if isinstance(part, ToolResult) else (part,)
    return [media for media in inner if isinstance(media, Media) and media.kind in _VISUAL]


class GeminiThinking(Struct, frozen=True):
    """What ``thinkingConfig`` says; all ``None``: there is none."""

    budget: int | None = None
    level: str | None = None
    include_thoughts: bool | None = None
    lost: bool = False
    """The wish could not be said."""


_UNTOLD: Final = GeminiThinking()


def map_reasoning(reasoning: Reasoning, row: ModelRow) -> GeminiThinking:
    """Say ``reasoning`` to a generateContent model.

    A client that asks for thinking is shown the thoughts, unless it does not want them.
    """
    if reasoning is NO_REASONING:
        return _UNTOLD
    wish = find_wish(reasoning)
    if not row.names and row.budget is None:
        thinks = row.default is not Effort.NONE
        return GeminiThinking(lost=wish is Wish.SOME or (wish is Wish.OFF and thinks))
    if wish is Wish.OFF:
        return _map_off(row)
    if wish is Wish.NOTHING:
        return GeminiThinking(include_thoughts=reasoning.thoughts or None)
    shown = None if reasoning.thoughts is False else True
    if row.names:
        level = None if wish is Wish.OWN else choose_named(find_effort(reasoning), row)
        return GeminiThinking(level=None if level is None else level.upper(), include_thoughts=shown)
    budget = -1 if wish is Wish.OWN else choose_budget(reasoning, row)
    return GeminiThinking(budget=budget, include_thoughts=shown)


def _map_off(row: ModelRow) -> GeminiThinking:
    if row.names:
        return GeminiThinking(level=row.names[0].upper(), lost=True)
    if row.off:
        return GeminiThinking(budget=0)
    return GeminiThinking(budget=row.budget[0] if row.budget else None, lost=True)
