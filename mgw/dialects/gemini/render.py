"""A conversation as a generateContent request.

Sources: ``_GenerateContentParameters_to_mldev`` of google-genai 3.4; decisions, part 8.  Models without
sampling parameters refuse penalties, too.
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
from mgw.dialects.gemini.enforced import is_enforced
from mgw.dialects.gemini.history import USER, render_contents
from mgw.dialects.gemini.parts import lose_mark
from mgw.dialects.gemini.tools import render_tools
from mgw.dialects.identifiers import GEMINI_NAME
from mgw.dialects.names import Names
from mgw.dialects.reasoning import for_gemini
from mgw.dialects.refusal import no_messages
from mgw.dialects.translator import Rendered, Setting
from mgw.errors import GatewayError, Reason
from mgw.wire.target import path_of_model

_ENCODER: Final = Encoder()
_MOST_STOPS: Final = 5
_LARGEST_SEED: Final = 2**31
_RESOLUTIONS: Final = frozenset({"low", "medium", "high"})
"""What ``generationConfig.mediaResolution`` knows; that of single parts is known to few models only."""
_SEEN: Final = frozenset({MediaKind.IMAGE, MediaKind.VIDEO})


def render_request(conversation: Conversation, setting: Setting) -> Rendered:
    """Return the request.

    Raises: :class:`GatewayError` (``MALFORMED``) for what Google can in no way do.
    """
    lost: set[Feature] = set()
    names = Names(GEMINI_NAME)
    body = request_body(conversation, setting, names, lost)
    config = _config(conversation, setting, lost)
    if config:
        body["generationConfig"] = config
    if conversation.user is not None:
        lost.add(Feature.USER)
    method = b"streamGenerateContent?alt=sse" if conversation.stream else b"generateContent"
    target = target_of(setting.model, method)
    return Rendered(target, encoded(body), frozenset(lost), renamed=names.renamed)


def request_body(
    conversation: Conversation, setting: Setting, names: Names, lost: set[Feature]
) -> JsonObject:
    """Return what is asked, without how to answer.

    Raises: :class:`GatewayError` (``MALFORMED``) where nothing is.
    """
    system = _system(conversation, lost)
    contents = render_contents(conversation, setting.row, names, lost)
    if not contents and not system:
        raise no_messages()
    body: JsonObject = {}
    if system and contents:
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
    return b"/" + path_of_model(model_path(model)) + b":" + method


def encoded(body: JsonObject) -> bytes:
    """Return a body.

    Raises: :class:`GatewayError` (``MALFORMED``) where it is nested too deeply, or holds what no JSON can.
    """
    try:
        return _ENCODER.encode(body)
    except (RecursionError, ValueError):  # ValueError: a lone surrogate, an integer without end
        raise GatewayError(Reason.MALFORMED, "the request cannot be written as JSON") from None


def _system(conversation: Conversation, lost: set[Feature]) -> list[JsonObject]:
    for text in conversation.system:
        lose_mark(text.cache, lost)
    return [{"text": text.text} for text in conversation.system if text.text]


def _config(conversation: Conversation, setting: Setting, lost: set[Feature]) -> JsonObject:
    config = _sampling(conversation.sampling, lost, taken=setting.row.sampling)
    if conversation.max_tokens is not None:
        most = setting.row.max_output
        config["maxOutputTokens"] = min(conversation.max_tokens, most or conversation.max_tokens)
    if conversation.stop:
        if len(conversation.stop) > _MOST_STOPS or not setting.row.stop:
            lost.add(Feature.STOP)
        if setting.row.stop:
            config["stopSequences"] = list(conversation.stop[:_MOST_STOPS])
    if conversation.candidates is not None:
        config["candidateCount"] = conversation.candidates
    config |= _output(conversation, lost)
    thinking = _thinking(conversation, setting, lost)
    if thinking:
        config["thinkingConfig"] = thinking
    resolution = _resolution(conversation, lost)
    if resolution is not None:
        config["mediaResolution"] = f"MEDIA_RESOLUTION_{resolution.upper()}"
    return config


def _sampling(sampling: Sampling, lost: set[Feature], *, taken: bool) -> JsonObject:
    config: JsonObject = {}
    for key, value, feature in (
        ("temperature", sampling.temperature, Feature.TEMPERATURE),
        ("topP", sampling.top_p, Feature.TOP_P),
        ("topK", sampling.top_k, Feature.TOP_K),
        ("presencePenalty", sampling.presence_penalty, Feature.PRESENCE_PENALTY),
        ("frequencyPenalty", sampling.frequency_penalty, Feature.FREQUENCY_PENALTY),
    ):
        if value is None:
            continue
        if taken:
            config[key] = value
        else:
            lost.add(feature)
    if sampling.seed is not None:
        config["seed"] = sampling.seed % _LARGEST_SEED  # int32; equal seeds stay equal
    if sampling.logprobs:
        config["responseLogprobs"] = True
        if sampling.top_logprobs:
            config["logprobs"] = sampling.top_logprobs
    elif sampling.top_logprobs:
        lost.add(Feature.TOP_LOGPROBS)
    return config


def _output(conversation: Conversation, lost: set[Feature]) -> JsonObject:
    output = conversation.output
    if output is None or output.kind is OutputKind.TEXT:
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


def _thinking(conversation: Conversation, setting: Setting, lost: set[Feature]) -> JsonObject:
    said = for_gemini(conversation.reasoning, setting.row)
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
