"""A request for generateContent or countTokens, both ways.

Contents alone are counted as they are, with instructions or tools as ``generateContentRequest``.  Vertex
AI does not know that: there all of it stands at the top, and calls of its older models have no identifiers.

Sources: ``_GenerateContentParameters_to_mldev`` of google-genai 3.4, whose JSON this is; proto3 JSON, which
takes keys in camel and in snake case; the Gemini API's reference of countTokens; contract 8.7.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import NO_SAMPLING, Conversation, JsonObject, Role, Sampling, Text, Turn
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import GEMINI_NAME
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, ReplyOptions, RequestContext, finish_parsing
from mgw.dialects.fields import Fields, Ledger, open_request
from mgw.dialects.gemini.blocks import parse_system, render_system
from mgw.dialects.gemini.options import ContentReplyOptions, parse_options, render_options
from mgw.dialects.gemini.tools import parse_tool_choice, parse_tools, render_tools
from mgw.dialects.gemini.turns import USER, parse_turns, render_turns
from mgw.dialects.one_pass import FieldPath, Limit, Number, collect_said, decode_in_one_pass
from mgw.dialects.refusal import no_messages, no_tools
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.target import query_value, quote_model_path

_ENCODER: Final = Encoder()
_MAX_KEPT_CHARS: Final = 256
"""The path of a model is kept for the next request, unless its name is longer."""
_CARRIED: Final = frozenset(
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
        Feature.IMAGE_ANSWERS,
        Feature.IMAGE_SHAPE,
    }
)
"""What this dialect has words for, be it not with every value and for every model."""
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Feature.SYSTEM
_PATHS: Final[tuple[FieldPath, ...]] = (
    ("temperature", Feature.TEMPERATURE, frozenset({"generationConfig.temperature"})),
    ("top_p", Feature.TOP_P, frozenset({"generationConfig.topP"})),
    ("top_k", Feature.TOP_K, frozenset({"generationConfig.topK"})),
    ("max_output_tokens", Feature.MAX_TOKENS, frozenset({"generationConfig.maxOutputTokens"})),
    ("stop_sequences", Feature.STOP, frozenset({"generationConfig.stopSequences"})),
)
_SYSTEM_PATH: Final = frozenset({"systemInstruction"})


def parse_request(body: bytes, context: RequestContext) -> Parsed[Conversation]:
    """Return a client's request; without ``alt=sse`` a stream is sent as an array.

    :raises GatewayError: ``MALFORMED``.
    """
    in_array = context.stream and query_value(context.raw_query, "alt") != "sse"
    style = ContentReplyOptions(in_array)
    parsed = parse_in_one_pass(body, style, stream=context.stream)
    if parsed is not None:
        return parsed
    ledger = Ledger(snake_too=True)
    conversation = _parse_conversation(open_request(body, ledger), context)
    return finish_parsing(conversation, ledger, style)


def parse_count_request(body: bytes, context: RequestContext) -> Parsed[Conversation]:
    """Return what is to be counted.

    :raises GatewayError: ``MALFORMED``.
    """
    ledger = Ledger(snake_too=True)
    request = open_request(body, ledger)
    inner = request.nested("generateContentRequest")
    if inner is not None:
        request.skip("model")
    return finish_parsing(_parse_conversation(request if inner is None else inner, context), ledger)


def _parse_conversation(request: Fields, context: RequestContext) -> Conversation:
    try:
        return _parse_fields(request, context)
    except RecursionError:
        raise GatewayError(Reason.MALFORMED, "the request is nested too deeply") from None


def _parse_fields(request: Fields, context: RequestContext) -> Conversation:
    request.skip("model")  # the path names it
    options = parse_options(request.nested("generationConfig"))
    contents = request.elements_or_one("contents")
    if not contents:
        raise request.missing("contents")
    system = request.nested("systemInstruction")
    return Conversation(
        turns=parse_turns(request, contents, options.detail),
        system=() if system is None else parse_system(system),
        tools=parse_tools(request),
        tool_choice=parse_tool_choice(request),
        sampling=options.sampling,
        max_tokens=options.max_tokens,
        stop=options.stop,
        candidates=options.candidates,
        output=options.output,
        reasoning=options.reasoning,
        stream=context.stream,
    )


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Return the request.

    :raises GatewayError: ``MALFORMED`` for what Google can in no way do.
    """
    lost: set[Feature] = set()
    names = ToolNames(GEMINI_NAME)
    body = _render_body(conversation, options, names, lost)
    config = render_options(conversation, options, lost)
    if config:
        body["generationConfig"] = config
    method = b"streamGenerateContent?alt=sse" if conversation.stream else b"generateContent"
    target = render_target(options.model, method)
    return Rendered(target, encode_body(body), _CARRIED, frozenset(lost), renamed=names.renamed)


def render_count_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Return the request to Google; outside of Vertex AI ``generationConfig`` does not count.

    :raises GatewayError: ``MALFORMED`` for what Google can in no way read.
    """
    lost: set[Feature] = set()
    body = _render_body(conversation, options, ToolNames(GEMINI_NAME), lost)
    if options.on_vertex:
        body.pop("toolConfig", None)
        if config := render_options(conversation, options, lost):
            body["generationConfig"] = config
    elif len(body) > 1:
        body = {"generateContentRequest": {"model": render_model(options.model), **body}}
    return Rendered(
        render_target(options.model, b"countTokens"), encode_body(body), _CARRIED, frozenset(lost)
    )


def _render_body(
    conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> JsonObject:
    """Return the body without ``generationConfig``.

    :raises GatewayError: ``MALFORMED`` where nothing is, and for tools that the model refuses.
    """
    if conversation.tools and not options.row.tools:
        raise no_tools()
    system = render_system(conversation.system)
    contents = render_turns(conversation, options, names, lost)
    if not contents and not system:
        raise no_messages()
    body: JsonObject = {}
    if contents and not options.row.system:
        contents[0]["parts"][:0] = system  # the first is the user's
    elif system and contents:
        body["systemInstruction"] = {"parts": system}
    body["contents"] = contents or [{"role": USER, "parts": system}]  # instructions alone: the user's
    return body | render_tools(conversation, names, lost)


def render_model(model: str) -> str:
    """Return a model's name as Google has it in bodies: ``models/…``, or ``tunedModels/…``."""
    model = model.removeprefix("models/")
    return model if model.startswith("tunedModels/") else f"models/{model}"


def render_target(model: str, method: bytes) -> bytes:
    """Return the path of a method of a model.

    :raises GatewayError: ``MALFORMED`` for a name that no path can carry.
    """
    return (_kept_target if len(model) <= _MAX_KEPT_CHARS else _make_target)(model, method)


def _make_target(model: str, method: bytes) -> bytes:
    return b"/" + quote_model_path(render_model(model)) + b":" + method


_kept_target: Final = lru_cache(maxsize=256)(_make_target)


def encode_body(body: JsonObject) -> bytes:
    """Return a body.

    :raises GatewayError: ``MALFORMED`` where it is nested too deeply, or holds what no JSON can.
    """
    try:
        return _ENCODER.encode(body)
    except (RecursionError, ValueError):  # ValueError: a lone surrogate, an integer without end
        raise GatewayError(Reason.MALFORMED, "the request cannot be written as JSON") from None


class _Part(Struct, forbid_unknown_fields=True, gc=False):
    text: Annotated[str, Meta(min_length=1)]


class _Content(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "model"]
    parts: Annotated[list[_Part], Meta(min_length=1, max_length=1)]


class _Instruction(Struct, forbid_unknown_fields=True):
    parts: Annotated[list[_Part], Meta(min_length=1)]
    role: str | None = None


class _Config(Struct, forbid_unknown_fields=True, rename="camel"):
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Limit | None = None
    max_output_tokens: Limit | None = None
    stop_sequences: list[str] | None = None


class _Request(Struct, forbid_unknown_fields=True, rename="camel"):
    contents: Annotated[list[_Content], Meta(min_length=1)]
    system_instruction: _Instruction | None = None
    generation_config: _Config | None = None


_DECODER: Final = Decoder(_Request)
_NO_CONFIG: Final = _Config()


def parse_in_one_pass(body: bytes, style: ReplyOptions, *, stream: bool) -> Parsed[Conversation] | None:
    """Return what a simple request means; ``None``: it holds more, or is not valid.

    :param stream: what its path asks for.
    """
    request = decode_in_one_pass(_DECODER, body)
    if request is None:
        return None
    turns: list[Turn] = []
    for content in request.contents:
        if content.role == "user":
            turns.append(Turn(_USER, (Text(content.parts[0].text),)))
        elif turns and turns[-1].role is _ASSISTANT:  # the pieces of one turn
            return None
        else:
            turns.append(Turn(_ASSISTANT, (Text(content.parts[0].text),)))
    config = request.generation_config or _NO_CONFIG
    sampling = Sampling(config.temperature, config.top_p, config.top_k)
    said = collect_said(config, _PATHS)
    instruction = request.system_instruction
    if instruction is not None:
        said[_SYSTEM] = _SYSTEM_PATH
    conversation = Conversation(
        turns=tuple(turns),
        system=() if instruction is None else tuple([Text(part.text) for part in instruction.parts]),
        sampling=NO_SAMPLING if sampling == NO_SAMPLING else sampling,
        max_tokens=config.max_output_tokens,
        stop=tuple(filter(None, config.stop_sequences or ())),
        stream=stream,
    )
    return Parsed(conversation, frozenset(), said, style)
