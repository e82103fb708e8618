"""A request of chat completions, both ways.

Sources: the SDK's ``completion_create_params``; contract 8.7, 8.9.  What is not taken here stays in
:class:`Fields` and is reported: ``logit_bias``, ``metadata``, ``store``, ``service_tier``, ``verbosity``,
``prediction``, ``web_search_options``, ``audio`` and whatever is newer than this text.
Hosts other than OpenAI know less of the API: no ``allowed_tools``, no ``safety_identifier``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.json import Decoder, encode
from msgspec.structs import replace

from mgw.canonical.conversation import (
    NO_SAMPLING,
    NO_SHAPE,
    Conversation,
    JsonObject,
    OutputKind,
    Role,
    Sampling,
    Text,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import CHAT_NAME
from mgw.canonical.instructions import mention_json
from mgw.dialects.dialect import (
    Parsed,
    Rendered,
    RenderOptions,
    RequestContext,
    finish_parsing,
)
from mgw.dialects.fields import Fields, Ledger, encode_request, open_request
from mgw.dialects.one_pass import FieldPath, Limit, Number, collect_said, decode_in_one_pass
from mgw.dialects.openai.messages import parse_turns
from mgw.dialects.openai.options import (
    PLAIN,
    ChatReplyOptions,
    parse_candidates,
    parse_image_shape,
    parse_max_tokens,
    parse_modalities,
    parse_output,
    parse_reasoning,
    parse_sampling,
    parse_stop_sequences,
    parse_user,
    render_limits,
    render_output,
    render_prompt_cache_key,
    render_reasoning_and_sampling,
    render_user,
)
from mgw.dialects.openai.tools import (
    parse_function_choice,
    parse_functions,
    parse_tool_choice,
    parse_tools,
    render_tools,
)
from mgw.dialects.openai.turns import render_turns
from mgw.dialects.placeholders import ANSWER_IN_JSON
from mgw.dialects.refusal import no_messages
from mgw.dialects.system_prompt import Members, add_elements
from mgw.dialects.tool_names import ToolNames
from mgw.wire.json_document import JsonDocument
from mgw.wire.json_spans import Edit

_TARGET: Final = b"/chat/completions"
_CARRIED: Final = frozenset(
    {
        Feature.SYSTEM,
        Feature.TURN_NAME,
        Feature.MEDIA_DETAIL,
        Feature.MEDIA_NAME,
        Feature.FILE_ID,
        Feature.IMAGE,
        Feature.DOCUMENT,
        Feature.AUDIO,
        Feature.VIDEO,
        Feature.THINKING,
        Feature.REFUSAL,
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
        Feature.USER,
        Feature.PROMPT_CACHE_KEY,
    }
)
"""What this dialect can carry, though not every value, and not for every model."""
_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Feature.SYSTEM
_PATHS: Final[tuple[FieldPath, ...]] = (
    ("max_tokens", Feature.MAX_TOKENS, frozenset({"max_tokens"})),
    ("max_completion_tokens", Feature.MAX_TOKENS, frozenset({"max_completion_tokens"})),
    ("temperature", Feature.TEMPERATURE, frozenset({"temperature"})),
    ("top_p", Feature.TOP_P, frozenset({"top_p"})),
    ("stop", Feature.STOP, frozenset({"stop"})),
)
_SYSTEM_PATH: Final = frozenset({"messages[].content"})
_OPENING_BRACKET: Final = b"["


def parse_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:  # noqa: ARG001 - the body has it all
    """Understand a request.

    :raises GatewayError: ``MALFORMED`` for what is no such request, and for tools that are no
    functions.
    """
    parsed = parse_in_one_pass(body)
    if parsed is not None:
        return parsed
    ledger = Ledger()
    request = open_request(body, ledger)
    request.skip("model")
    system, turns = _parse_messages(request)
    conversation = Conversation(
        turns=turns,
        system=system,
        sampling=parse_sampling(request),
        max_tokens=parse_max_tokens(request),
        stop=parse_stop_sequences(request),
        stream=request.flag("stream") or False,
    )
    style = PLAIN
    if request.unread:
        conversation, style = _parse_rare_fields(request, conversation)
    return finish_parsing(conversation, ledger, style)


def _parse_rare_fields(request: Fields, conversation: Conversation) -> tuple[Conversation, ChatReplyOptions]:
    """Take what a mere chat does not have; return the conversation with it, and how to write the answer."""
    tools, functions = parse_tools(request), parse_functions(request)
    choice = parse_tool_choice(request)
    if choice is None and functions:
        choice = parse_function_choice(request)
    options = request.nested("stream_options")
    style = ChatReplyOptions(
        include_usage=bool(options is not None and options.flag("include_usage")),
        legacy_functions=bool(functions and not tools),
    )
    conversation = replace(
        conversation,
        tools=tools + functions,
        tool_choice=choice,
        parallel_calls=False if style.legacy_functions else _parse_parallel_calls(request),
        candidates=parse_candidates(request),
        output=parse_output(request),
        reasoning=parse_reasoning(request),
        image_answers="modalities" in request.unread and parse_modalities(request),
        image_shape=parse_image_shape(request) if "image_config" in request.unread else NO_SHAPE,
        user=parse_user(request),
        prompt_cache_key=request.text("prompt_cache_key", Feature.PROMPT_CACHE_KEY),
    )
    return conversation, style


def _parse_messages(request: Fields) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    system, turns = parse_turns(request)
    if not turns and not system:
        raise request.wrong("messages", "at least one message is required")
    return system, turns


def _parse_parallel_calls(request: Fields) -> bool | None:
    """Take ``parallel_tool_calls``; ``true`` is what happens anyway."""
    parallel = request.flag("parallel_tool_calls", Feature.PARALLEL_CALLS)
    return False if parallel is False else None


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Write a request.

    :raises GatewayError: ``MALFORMED`` for a conversation without content, a URL that the
    model does not fetch, and what is nested too deeply.
    """
    lost: set[Feature] = set()
    names = ToolNames(CHAT_NAME)
    output = conversation.output
    if output is not None and output.kind is OutputKind.JSON and options.places_instructions:
        conversation = mention_json(conversation, ANSWER_IN_JSON)
    messages = render_turns(conversation, options, names, lost)
    if not messages:
        raise no_messages()
    body: JsonObject = {"model": options.model, "messages": messages}
    if conversation.tools:
        render_tools(body, conversation, options, names, lost)
    wrapped = render_output(body, output)
    render_reasoning_and_sampling(body, conversation, options, lost)
    render_limits(body, conversation, options, lost)
    render_user(body, conversation, options)
    if conversation.prompt_cache_key is not None:
        render_prompt_cache_key(body, conversation.prompt_cache_key, options, lost)
    if conversation.stream:
        body["stream"] = True
        if options.stream_usage:
            body["stream_options"] = {"include_usage": True}
    data, renamed = encode_request(body), names.renamed
    return Rendered(_TARGET, data, _CARRIED, frozenset(lost), renamed=renamed, wrapped=wrapped)


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Meta(min_length=1)]


class _StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None


class _Request(Struct, forbid_unknown_fields=True):
    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    stop: list[str] | str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


_DECODER: Final = Decoder(_Request)


def parse_in_one_pass(body: bytes) -> Parsed[Conversation] | None:
    """Return what a simple request means; ``None``: it holds more, or is not valid."""
    request = decode_in_one_pass(_DECODER, body)
    if request is None or (request.max_tokens is not None and request.max_completion_tokens is not None):
        return None
    system: list[Text] = []
    turns: list[Turn] = []
    for message in request.messages:
        if message.role == "user":
            turns.append(Turn(_USER, (Text(message.content),)))
        elif message.role == "assistant":
            turns.append(Turn(_ASSISTANT, (Text(message.content),)))
        elif turns:
            return None
        else:
            system.append(Text(message.content))
    said = collect_said(request, _PATHS)
    if system:
        said[_SYSTEM] = _SYSTEM_PATH
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or ()
    has_sampling = request.temperature is not None or request.top_p is not None
    conversation = Conversation(
        turns=tuple(turns),
        system=tuple(system),
        sampling=Sampling(request.temperature, request.top_p) if has_sampling else NO_SAMPLING,
        max_tokens=request.max_tokens or request.max_completion_tokens,
        stop=tuple(filter(None, stop)),
        stream=request.stream is True,
    )
    options = request.stream_options
    tells_usage = options is not None and options.include_usage is True
    style = ChatReplyOptions(include_usage=True) if tells_usage else PLAIN
    return Parsed(conversation, frozenset(), said, style)


def prepend_system(document: JsonDocument, members: Members, texts: Sequence[str]) -> list[Edit]:
    """Return the edits that put texts in front of the system prompt (the first messages)."""
    found = members.get("messages")
    raw = b"" if found is None else document.raw(found[-1])
    if found is None or not raw.startswith(_OPENING_BRACKET):
        return []
    messages = [{"role": "system", "content": text} for text in texts]
    return [add_elements(found[-1], raw, encode(messages)[1:-1])]
