"""A conversation, written as a request of chat completions.

Sources: the SDK's ``completion_create_params``; contract 8.7, 8.9.  Two kinds of providers speak this wire,
and other hosts than OpenAI know less of it: no ``allowed_tools``, no ``safety_identifier``.  What some know
beyond it (``top_k``) others refuse, so it goes only where the operator says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    OutputFormat,
    OutputKind,
    Tool,
    ToolChoice,
    ToolMode,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Rendered, RenderOptions
from mgw.dialects.fillers import ANSWER_IN_JSON
from mgw.dialects.identifiers import CHAT_NAME
from mgw.dialects.names import Names
from mgw.dialects.openai.roots import resolved, with_object_root
from mgw.dialects.openai.strict import fits_strict
from mgw.dialects.openai.turns import render_messages
from mgw.dialects.reasoning import for_openai
from mgw.dialects.refusal import no_messages
from mgw.errors import GatewayError, Reason
from mgw.kinds import KINDS
from mgw.vocabulary import Kind

_ENCODER: Final = Encoder()
_TARGET: Final = b"/chat/completions"
_MOST_STOPS: Final = 4
_LONGEST_USER: Final = 64
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
    }
)
"""What this dialect has words for, be it not with every value and for every model."""


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Write a request.

    Raises: :class:`GatewayError` (``MALFORMED``) for a conversation that says nothing, an address that the
    model does not fetch, and what is nested too deeply.
    """
    lost: set[Feature] = set()
    names = Names(CHAT_NAME)
    messages = render_messages(conversation, options.kind, options.row, names, lost)
    if not messages:
        raise no_messages()
    body: JsonObject = {"model": options.model, "messages": messages}
    if conversation.tools:
        _tools(body, conversation, options, names, lost)
    wrapped = _output(body, conversation.output)
    _thinking_and_sampling(body, conversation, options, lost)
    _limits(body, conversation, options, lost)
    if conversation.user is not None:
        field = "safety_identifier" if KINDS[options.kind].has_safety_identifier else "user"
        body[field] = _user(conversation.user)
    if conversation.stream:
        body["stream"] = True
        if options.stream_usage:
            body["stream_options"] = {"include_usage": True}
    data, renamed = _encoded(body), names.renamed
    return Rendered(_TARGET, data, _CARRIED, frozenset(lost), renamed=renamed, wrapped=wrapped)


def _encoded(body: JsonObject) -> bytes:
    try:
        return _ENCODER.encode(body)
    except RecursionError:
        raise GatewayError(Reason.MALFORMED, "a schema in the request is nested too deeply") from None
    except (ValueError, OverflowError):  # lone surrogates, integers beyond 64 bits
        raise GatewayError(
            Reason.MALFORMED, "the request contains a value that JSON cannot represent"
        ) from None


def _tools(
    body: JsonObject, conversation: Conversation, options: RenderOptions, names: Names, lost: set[Feature]
) -> None:
    """Write the tools, also for a model whose row says that it takes none here: the upstream knows better."""
    body["tools"] = [_tool(tool, names, lost) for tool in conversation.tools]
    if conversation.tool_choice is not None:
        body["tool_choice"] = _tool_choice(conversation.tool_choice, options.kind, names, lost)
    if conversation.parallel_calls is False and options.row.parallel_calls:
        body["parallel_tool_calls"] = False
    elif conversation.parallel_calls is False:
        lost.add(Feature.PARALLEL_CALLS)


def _tool(tool: Tool, names: Names, lost: set[Feature]) -> JsonObject:
    function: JsonObject = {"name": names[tool.name]}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = schema = _parameters(tool.schema)
    if tool.strict and not fits_strict(schema):
        lost.add(Feature.TOOL_STRICT)
    elif tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _parameters(schema: JsonObject | None) -> JsonObject:
    """Return the schema; OpenAI refuses one that is not said to be of an object, or has no properties."""
    if schema is None:
        return {"type": "object", "properties": {}}
    schema = resolved(schema)
    if "type" not in schema:
        schema = {"type": "object", **schema}
    if schema["type"] == "object" and "properties" not in schema:
        schema = {**schema, "properties": {}}
    return schema


def _tool_choice(choice: ToolChoice, kind: Kind, names: Names, lost: set[Feature]) -> str | JsonObject:
    if choice.mode is ToolMode.NONE:
        return "none"
    mode = "required" if choice.mode is ToolMode.ANY else "auto"
    if not choice.names:
        return mode
    if choice.mode is ToolMode.ANY and len(choice.names) == 1:
        return _by_name(names[choice.names[0]])
    if KINDS[kind].has_allowed_tools:
        tools = [_by_name(names[name]) for name in choice.names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    lost.add(Feature.TOOL_CHOICE_NAMES)
    return mode


def _by_name(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name}}


def _output(body: JsonObject, output: OutputFormat | None) -> bool:
    """Write how the answer is to look; return whether it will come in a wrapping."""
    if output is None or output.kind is OutputKind.TEXT:
        return False
    if output.kind is OutputKind.JSON:
        body["response_format"] = {"type": "json_object"}
        _say_json(body["messages"])
        return False
    wanted, wrapped = (None, False) if output.schema is None else with_object_root(output.schema)
    schema: JsonObject = {"name": output.name or "answer"}
    if output.description is not None:
        schema["description"] = output.description
    if wanted is not None:
        schema["schema"] = wanted
    strict = output.strict
    if strict is None and wanted is not None and fits_strict(wanted):
        strict = True  # whoever asked without a word of it would have had the schema enforced
    if strict is not None:
        schema["strict"] = strict
    body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return wrapped


def _say_json(messages: list[JsonObject]) -> None:
    """See to it that a message says "JSON": the reference refuses ``json_object`` without."""
    if not any("json" in text.lower() for text in _texts(messages)):
        messages.insert(0, {"role": "system", "content": ANSWER_IN_JSON})


def _texts(messages: list[JsonObject]) -> Iterable[str]:
    for message in messages:
        content = message["content"]
        if type(content) is str:
            yield content
        elif content is not None:
            yield from (block["text"] for block in content if block["type"] == "text")


def _thinking_and_sampling(
    body: JsonObject, conversation: Conversation, options: RenderOptions, lost: set[Feature]
) -> None:
    thinking = for_openai(conversation.reasoning, options.row, tools=bool(conversation.tools))
    if thinking.effort is not None:
        body["reasoning_effort"] = thinking.effort
    if thinking.lost:
        lost.add(Feature.REASONING)
    if thinking.thoughts_lost:
        lost.add(Feature.THOUGHTS)
    sampling = conversation.sampling
    for key, value, feature in (
        ("temperature", sampling.temperature, Feature.TEMPERATURE),
        ("top_p", sampling.top_p, Feature.TOP_P),
        ("frequency_penalty", sampling.frequency_penalty, Feature.FREQUENCY_PENALTY),
        ("presence_penalty", sampling.presence_penalty, Feature.PRESENCE_PENALTY),
        ("logprobs", sampling.logprobs, Feature.LOGPROBS),
        ("top_logprobs", sampling.top_logprobs, Feature.TOP_LOGPROBS),
        ("top_k", sampling.top_k, Feature.TOP_K),
    ):
        if value is None:
            continue
        if thinking.sampling and _is_taken(key, conversation, options):
            body[key] = value
        else:
            lost.add(feature)
    if sampling.seed is not None:
        body["seed"] = sampling.seed


def _is_taken(key: str, conversation: Conversation, options: RenderOptions) -> bool:
    if key == "top_k":
        return key in options.extra_fields
    return key != "top_logprobs" or conversation.sampling.logprobs is True  # refused without the other


def _limits(body: JsonObject, conversation: Conversation, options: RenderOptions, lost: set[Feature]) -> None:
    row = options.row
    if conversation.max_tokens is not None:
        field = "max_completion_tokens" if row.max_completion_tokens else options.max_tokens_field
        body[field] = limit = min(conversation.max_tokens, row.max_output or conversation.max_tokens)
        if limit < conversation.max_tokens:
            lost.add(Feature.MAX_TOKENS)
    if conversation.stop:
        _stop(body, conversation.stop, options, lost)
    if conversation.candidates is not None and conversation.candidates > 1:
        body["n"] = conversation.candidates


def _stop(body: JsonObject, stop: tuple[str, ...], options: RenderOptions, lost: set[Feature]) -> None:
    """Write the stop sequences: OpenAI takes four, and some of its models none."""
    if not options.row.stop:
        lost.add(Feature.STOP)
        return
    if KINDS[options.kind].is_strict and len(stop) > _MOST_STOPS:
        lost.add(Feature.STOP)
        stop = stop[:_MOST_STOPS]
    body["stop"] = list(stop)


def _user(user: str) -> str:
    """Return a name that is short enough; what is longer is hashed, the same way every time."""
    if len(user) <= _LONGEST_USER:
        return user
    return blake2b(user.encode("utf-8", "surrogatepass"), digest_size=_LONGEST_USER // 2).hexdigest()
