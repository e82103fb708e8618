"""A conversation as a generateContent request.

Sources: ``_GenerateContentParameters_to_mldev`` of google-genai 3.4; contract 8.7, 8.19; what Google refuses
("JSON mode is not enabled for this model", "Function calling with a response mime type: 'application/json' is
unsupported", "Penalty is not enabled for this model", "Logprobs is not enabled ...", "Multiple candidates is
not enabled ...").  Models that take no sampling parameters refuse penalties, too.
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    Media,
    MediaKind,
    OutputKind,
    Part,
    Sampling,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Rendered, RenderOptions
from mgw.dialects.gemini.enforced import is_enforced
from mgw.dialects.gemini.history import USER, render_contents
from mgw.dialects.gemini.tools import render_tools
from mgw.dialects.identifiers import GEMINI_NAME
from mgw.dialects.model_row import ModelRow
from mgw.dialects.names import Names
from mgw.dialects.reasoning import for_gemini
from mgw.dialects.refusal import no_messages, no_tools
from mgw.errors import GatewayError, Reason
from mgw.wire.target import quote_model_path

_ENCODER: Final = Encoder()
_MOST_STOPS: Final = 5
_LARGEST_SEED: Final = 2**31
_RESOLUTIONS: Final = frozenset({"low", "medium", "high"})
"""What ``generationConfig.mediaResolution`` knows; that of single parts is known to few models only."""
CARRIED: Final = frozenset(
    {
        Feature.SYSTEM,
        Feature.MEDIA_DETAIL,
        Feature.MEDIA_NAME,
        Feature.FILE_ID,
        Feature.IMAGE,
        Feature.DOCUMENT,
        Feature.AUDIO,
        Feature.VIDEO,
        Feature.THINKING,
        Feature.REFUSAL,
        Feature.RESULT_ERROR,
        Feature.RESULT_NAME,
        Feature.TOOLS,
        Feature.TOOL_STRICT,
        Feature.TOOL_CHOICE,
        Feature.TOOL_CHOICE_NAMES,
        Feature.PARALLEL_CALLS,
        Feature.TEMPERATURE,
        Feature.TOP_P,
        Feature.TOP_K,
        Feature.FREQUENCY_PENALTY,
        Feature.PRESENCE_PENALTY,
        Feature.SEED,
        Feature.LOGPROBS,
        Feature.TOP_LOGPROBS,
        Feature.MAX_TOKENS,
        Feature.STOP,
        Feature.CANDIDATES,
        Feature.OUTPUT,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.OUTPUT_STRICT,
        Feature.REASONING,
        Feature.THOUGHTS,
    }
)
"""What this dialect has words for, be it not with every value and for every model."""
_SEEN: Final = frozenset({MediaKind.IMAGE, MediaKind.VIDEO})


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Return the request.

    Raises: :class:`GatewayError` (``MALFORMED``) for what Google can in no way do.
    """
    lost: set[Feature] = set()
    names = Names(GEMINI_NAME)
    body = request_body(conversation, options, names, lost)
    config = _config(conversation, options, lost)
    if config:
        body["generationConfig"] = config
    method = b"streamGenerateContent?alt=sse" if conversation.stream else b"generateContent"
    target = target_of(options.model, method)
    return Rendered(target, encoded(body), CARRIED, frozenset(lost), renamed=names.renamed)


def request_body(
    conversation: Conversation, options: RenderOptions, names: Names, lost: set[Feature]
) -> JsonObject:
    """Return what is asked, without how to answer.

    Raises: :class:`GatewayError` (``MALFORMED``) where nothing is, and for tools that the model refuses.
    """
    if conversation.tools and not options.row.tools:
        raise no_tools()
    system = _system(conversation)
    contents = render_contents(conversation, options.row, names, lost)
    if not contents and not system:
        raise no_messages()
    body: JsonObject = {}
    if contents and not options.row.system:
        contents[0]["parts"][:0] = system  # the first is the user's
    elif system and contents:
        body["systemInstruction"] = {"parts": system}
    body["contents"] = contents or [{"role": USER, "parts": system}]  # instructions alone: let them ask
    return body | render_tools(conversation, names, lost)


def model_path(model: str) -> str:
    """Return a model's name as Google has it in bodies: ``models/…``, or ``tunedModels/…``."""
    model = model.removeprefix("models/")
    return model if model.startswith("tunedModels/") else f"models/{model}"


def target_of(model: str, method: bytes) -> bytes:
    """Return the path of a method of a model.

    Raises: :class:`GatewayError` (``MALFORMED``) for a name that no path can carry.
    """
    return b"/" + quote_model_path(model_path(model)) + b":" + method


def encoded(body: JsonObject) -> bytes:
    """Return a body.

    Raises: :class:`GatewayError` (``MALFORMED``) where it is nested too deeply, or holds what no JSON can.
    """
    try:
        return _ENCODER.encode(body)
    except (RecursionError, ValueError):  # ValueError: a lone surrogate, an integer without end
        raise GatewayError(Reason.MALFORMED, "the request cannot be written as JSON") from None


def _system(conversation: Conversation) -> list[JsonObject]:
    return [{"text": text.text} for text in conversation.system if text.text]


def _config(conversation: Conversation, options: RenderOptions, lost: set[Feature]) -> JsonObject:
    row = options.row
    config = _sampling(conversation.sampling, row, lost)
    for key, wanted, most, feature in (
        ("maxOutputTokens", conversation.max_tokens, row.max_output, Feature.MAX_TOKENS),
        ("candidateCount", conversation.candidates, row.candidates, Feature.CANDIDATES),
    ):
        if wanted is not None:
            config[key] = wanted if most is None else min(wanted, most)
            if config[key] != wanted:
                lost.add(feature)
    stops = [stop for stop in conversation.stop if stop]  # an empty one is refused, and says nothing
    if stops:
        if len(stops) > _MOST_STOPS or not row.stop:
            lost.add(Feature.STOP)
        if row.stop:
            config["stopSequences"] = stops[:_MOST_STOPS]
    config |= _output(conversation, row, lost)
    thinking = _thinking(conversation, options, lost)
    if thinking:
        config["thinkingConfig"] = thinking
    resolution = _resolution(conversation, lost)
    if resolution is not None:
        config["mediaResolution"] = f"MEDIA_RESOLUTION_{resolution.upper()}"
    return config


def _sampling(sampling: Sampling, row: ModelRow, lost: set[Feature]) -> JsonObject:
    config: JsonObject = {}
    penalties = row.sampling and row.penalties  # a penalty of 0 is none at all
    for key, value, feature, taken in (
        ("temperature", sampling.temperature, Feature.TEMPERATURE, row.sampling),
        ("topP", sampling.top_p, Feature.TOP_P, row.sampling),
        ("topK", sampling.top_k, Feature.TOP_K, row.sampling),
        ("presencePenalty", sampling.presence_penalty or None, Feature.PRESENCE_PENALTY, penalties),
        ("frequencyPenalty", sampling.frequency_penalty or None, Feature.FREQUENCY_PENALTY, penalties),
    ):
        if value is None:
            continue
        if taken:
            config[key] = value
        else:
            lost.add(feature)
    if sampling.seed is not None:
        config["seed"] = sampling.seed % _LARGEST_SEED  # int32; equal seeds stay equal
    return config | _logprobs(sampling, row, lost)


def _logprobs(sampling: Sampling, row: ModelRow, lost: set[Feature]) -> JsonObject:
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


def _output(conversation: Conversation, row: ModelRow, lost: set[Feature]) -> JsonObject:
    output = conversation.output
    if output is None or output.kind is OutputKind.TEXT:
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
    if output.strict is False or (output.strict and not _is_enforced(output.schema)):
        lost.add(Feature.OUTPUT_STRICT)
    return config


def _is_enforced(schema: JsonObject | None) -> bool:
    """Whether the answer is held to all of a schema."""
    try:
        return schema is not None and is_enforced(schema)
    except RecursionError:  # where it is encoded, it is refused
        return False


def _thinking(conversation: Conversation, options: RenderOptions, lost: set[Feature]) -> JsonObject:
    said = for_gemini(conversation.reasoning, options.row)
    if said.lost:
        lost.add(Feature.REASONING)
    config: JsonObject = {}
    if said.include_thoughts is not None:
        config["includeThoughts"] = said.include_thoughts
    if said.budget is not None:
        config["thinkingBudget"] = said.budget
    if said.level is not None:
        config["thinkingLevel"] = said.level
    return config


def _resolution(conversation: Conversation, lost: set[Feature]) -> str | None:
    """Return the one resolution at which all is to be seen; several cannot be said."""
    details = {media.detail for turn in conversation.turns for part in turn.parts for media in _media(part)}
    if details <= {None, "auto"}:
        return None
    detail = details.pop() if len(details) == 1 else None
    if detail in _RESOLUTIONS:
        return detail
    lost.add(Feature.MEDIA_DETAIL)
    return None


def _media(part: Part) -> list[Media]:
    """Return what is to be seen in a part."""
    inner = part.parts if isinstance(part, ToolResult) else (part,)
    return [media for media in inner if isinstance(media, Media) and media.kind in _SEEN]
