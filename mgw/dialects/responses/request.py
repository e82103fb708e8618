"""A request of Responses, both ways.

The items of ``input`` are :mod:`mgw.dialects.responses.messages`, the tools
:mod:`mgw.dialects.responses.tools`, all else :mod:`mgw.dialects.responses.options`.

Towards a provider nothing is stored, so thoughts come encrypted and go back with the next request.  Stop
sequences, ``top_k``, ``seed``, penalties and several candidates have no field.  Tools, choices and formats
are those of chat, whose nested objects are flat here; ``strict`` is always said, since its default is another
one.

Sources: the SDK's ``response_create_params``; contract 11.3, 11.4, 11.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.json import encode
from msgspec.structs import replace

from mgw.canonical.conversation import (
    NO_SAMPLING,
    Conversation,
    JsonObject,
    OutputFormat,
    OutputKind,
    Reasoning,
    Role,
    Text,
    Tool,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import CHAT_NAME
from mgw.canonical.instructions import fold_system_turns, mention_json, without_system
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext, finish_parsing
from mgw.dialects.fields import Fields, Ledger, encode_request, open_request
from mgw.dialects.openai.options import parse_user, render_user
from mgw.dialects.openai.options import render_output as render_chat_output
from mgw.dialects.openai.options import render_prompt_cache_key as render_chat_prompt_cache_key
from mgw.dialects.openai.tools import render_tools as render_chat_tools
from mgw.dialects.placeholders import ANSWER_IN_JSON, BETWEEN
from mgw.dialects.refusal import no_messages
from mgw.dialects.responses.messages import ItemParser
from mgw.dialects.responses.options import (
    ConfigurationUpdate,
    ResponseReplyOptions,
    collect_echoed,
    map_reasoning,
    parse_max_tokens,
    parse_output,
    parse_reasoning,
    parse_sampling,
    refuse_state,
    skip_neutral,
)
from mgw.dialects.responses.tools import ToolSet, parse_tool_choice, skip_tool_choice
from mgw.dialects.responses.turns import render_instruction, render_turns
from mgw.dialects.system_prompt import Members, add_member
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.kinds import KINDS
from mgw.wire.json_document import JsonDocument
from mgw.wire.json_spans import Edit

_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_NO_UPDATE: Final = ConfigurationUpdate()
_Input = tuple[tuple[Text, ...], tuple[Turn, ...], ConfigurationUpdate, tuple[Tool, ...]]
"""The instructions, the turns, what they change, and all tools."""
_TARGET: Final = b"/responses"
_LEAST_TOKENS: Final = 16
"""The lowest limit of an answer that OpenAI takes: "Expected a value >= 16"."""
_ENCRYPTED: Final = "reasoning.encrypted_content"
_LOGPROBS: Final = "message.output_text.logprobs"
_OF_SCHEMAS: Final = frozenset({Feature.OUTPUT_NAME, Feature.OUTPUT_DESCRIPTION, Feature.OUTPUT_STRICT})
"""What is said beside a schema."""
_CARRIED: Final = frozenset(
    {
        Feature.SYSTEM,
        Feature.MEDIA_DETAIL,
        Feature.MEDIA_NAME,
        Feature.IMAGE,
        Feature.DOCUMENT,
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
        Feature.LOGPROBS,
        Feature.TOP_LOGPROBS,
        Feature.MAX_TOKENS,
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
_QUOTE: Final = b'"'


def parse_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:
    """Understand a request.

    Its ``reply_options`` say how the client calls each of its tools that is no plain function, and which
    fields the answer repeats.

    :raises GatewayError: ``MALFORMED`` for what is no such request, with the place at fault; with
    the codes ``unsupported_parameter``, ``unsupported_tool`` and ``unsupported_item`` for what only OpenAI
    can do.
    """
    ledger = Ledger()
    request = open_request(body, ledger)
    if not asked.model:
        raise request.missing("model")
    request.skip("model")
    echoed = collect_echoed(request)
    refuse_state(request)
    skip_neutral(request)
    tools = ToolSet(drop_hosted=asked.drop_hosted_tools)
    if "tools" in request:
        echoed["tools"] = tools.read(request)
    system, turns, update, declared = _parse_input(request, tools)
    conversation = Conversation(
        turns=turns,
        system=system,
        tools=declared,
        sampling=parse_sampling(request),
        max_tokens=parse_max_tokens(request),
        output=_parse_output(request, update),
        reasoning=_parse_reasoning(request, update),
        user=parse_user(request),
        prompt_cache_key=request.text("prompt_cache_key", Feature.PROMPT_CACHE_KEY),
        stream=request.flag("stream") or False,
    )
    conversation = _parse_calling(request, conversation, tools)
    options = ResponseReplyOptions(client_tools=tools.names.client_tools, echoed=echoed)
    return finish_parsing(conversation, ledger, options)


def parse_count_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:
    """Understand the same of a request whose tokens are to be counted; it asks for no stream."""
    parsed = parse_request(body, asked)
    return replace(parsed, request=replace(parsed.request, stream=False)) if parsed.request.stream else parsed


def _parse_input(request: Fields, tools: ToolSet) -> _Input:
    """Take ``instructions`` and ``input``, and what the items of it bring."""
    instructions = request.text("instructions", Feature.SYSTEM)
    system = (Text(instructions),) if instructions else ()
    value: Any = request.unread.get("input")  # Any: JSON of whatever type
    if type(value) is str or value is None:
        request.skip("input")
        if not value and not system:
            raise request.wrong("input", "input or instructions is required")
        turns = (Turn(_USER, (Text(value),)),) if value else ()
        return system, turns, _NO_UPDATE, _finish_tools(request, tools)
    if value == []:
        raise request.wrong("input", "at least one item is required")
    items = ItemParser(request, tools)
    items.read_tools()
    declared = _finish_tools(request, tools)
    items.parse()
    builder = items.turns
    return (*system, *builder.system), builder.finish(), items.update, declared


def _finish_tools(request: Fields, tools: ToolSet) -> tuple[Tool, ...]:
    declared = tools.finish()
    if declared:
        request.note(Feature.TOOLS, "tools")
    return declared


def _parse_output(request: Fields, update: ConfigurationUpdate) -> OutputFormat | None:
    output = parse_output(request) if "text" in request.unread else None
    return update.output if update.has_format else output


def _parse_reasoning(request: Fields, update: ConfigurationUpdate) -> Reasoning:
    reasoning = parse_reasoning(request)
    return reasoning if update.effort is None else replace(reasoning, effort=update.effort)


def _parse_calling(request: Fields, conversation: Conversation, tools: ToolSet) -> Conversation:
    """Take how tools are to be called: without tools nobody is told."""
    if not conversation.tools:
        skip_tool_choice(request)
        return conversation
    choice = parse_tool_choice(request, tools)
    parallel = request.flag("parallel_tool_calls")
    if parallel is False:
        request.note(Feature.PARALLEL_CALLS, "parallel_tool_calls")
    return replace(conversation, tool_choice=choice, parallel_calls=False if parallel is False else None)


def render_request(conversation: Conversation, options: RenderOptions) -> Rendered:
    """Write a request.

    :raises GatewayError: ``MALFORMED`` for a conversation without content, the URL of an image
    that the model does not fetch, and what is nested too deeply.
    """
    lost: set[Feature] = set()
    names = ToolNames(CHAT_NAME)
    if options.places_instructions and _is_any_json(conversation.output):
        conversation = mention_json(conversation, ANSWER_IN_JSON)
    if not options.row.system:
        conversation = without_system(conversation)
    elif options.is_template_strict:
        conversation = replace(conversation, turns=fold_system_turns(conversation.turns))
    items, has_thoughts = render_turns(conversation, options, names, lost)
    body: JsonObject = {"model": options.model, "input": items}
    _add_instructions(body, conversation)
    wrapped = _render_output(body, conversation.output, options, lost)
    if not items:
        raise no_messages()
    if conversation.tools:
        _render_tools(body, conversation, options, names, lost)
    _render_reasoning_and_sampling(body, conversation, options, lost)
    _render_limit(body, conversation, options, lost)
    render_user(body, conversation, options)
    if conversation.prompt_cache_key is not None:
        _render_prompt_cache_key(body, conversation.prompt_cache_key, options, lost)
    body["store"] = False
    if conversation.stream:
        body["stream"] = True
    return Rendered(
        _TARGET,
        encode_request(body),
        _CARRIED,
        frozenset(lost),
        renamed=names.renamed,
        wrapped=wrapped,
        thoughts=has_thoughts,
    )


def _add_instructions(body: JsonObject, conversation: Conversation) -> None:
    """Write the leading instructions; without any other input they are a message of the developer's."""
    texts = [text.text for text in conversation.system if text.text]
    if texts and body["input"]:
        body["instructions"] = BETWEEN.join(texts)
    elif texts:
        body["input"].append(render_instruction(texts))


def _render_tools(
    body: JsonObject, conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> None:
    """Write the tools and the choice among them."""
    of_chat: JsonObject = {}
    render_chat_tools(of_chat, conversation, options, names, lost)
    of_chat["tools"] = tools = [_flatten(tool, "function") for tool in of_chat["tools"]]
    for tool in tools:
        tool.setdefault("strict", False)
    choice = of_chat.get("tool_choice")
    if type(choice) is dict:
        of_chat["tool_choice"] = flat = _flatten(choice, choice["type"])
        if "tools" in flat:
            flat["tools"] = [_flatten(tool, "function") for tool in flat["tools"]]
    body |= of_chat


def _flatten(nested: JsonObject, key: str) -> JsonObject:
    """Return an object of chat with what stands under ``key`` in its place."""
    return {"type": nested["type"], **nested[key]}


def _is_any_json(output: OutputFormat | None) -> bool:
    """Whether any JSON object is asked for: Responses have no format with a schema that lacks it."""
    return output is not None and output.kind is not OutputKind.TEXT and output.schema is None


def _render_output(
    body: JsonObject, output: OutputFormat | None, options: RenderOptions, lost: set[Feature]
) -> bool:
    """Write ``text.format``; return whether the answer will come wrapped in an object.

    A format without its schema, which Responses do not take, asks for any object.
    """
    of_chat: JsonObject = {"messages": []}
    wrapped = render_chat_output(of_chat, output)
    found = of_chat.get("response_format")
    if found is None:
        return False
    if found["type"] == "json_schema":
        found = _flatten(found, "json_schema")
    if "schema" not in found:
        lost |= _OF_SCHEMAS
        found = {"type": "json_object"}
        if not options.places_instructions:
            _mention_json(body["input"])
    body["text"] = {"format": found}
    return wrapped


def _mention_json(items: list[JsonObject]) -> None:
    """Make sure that a message mentions JSON: the API refuses ``json_object`` otherwise."""
    contents = (item["content"] for item in items if item["type"] == "message")
    if not any("json" in part.get("text", "").lower() for content in contents for part in content):
        items.insert(0, render_instruction([ANSWER_IN_JSON]))


def _render_reasoning_and_sampling(
    body: JsonObject, conversation: Conversation, options: RenderOptions, lost: set[Feature]
) -> None:
    """Write how the model is to think, the sampling that it takes beside that, and what to include."""
    thinking = map_reasoning(conversation.reasoning, options.row)
    reasoning: JsonObject = {}
    if thinking.effort is not None:
        reasoning["effort"] = thinking.effort
    if thinking.summary:
        reasoning["summary"] = "auto"
    if reasoning:
        body["reasoning"] = reasoning
    if thinking.lost:
        lost.add(Feature.REASONING)
    if thinking.thoughts_lost:
        lost.add(Feature.THOUGHTS)
    include = [_ENCRYPTED] if thinking.encrypted else []
    if conversation.sampling is not NO_SAMPLING:
        include += _render_sampling(body, conversation, lost, taken=thinking.sampling)
    if include:
        body["include"] = include


def _render_sampling(
    body: JsonObject, conversation: Conversation, lost: set[Feature], *, taken: bool
) -> list[str]:
    """Write the sampling; return what the answer is to include for it."""
    sampling = conversation.sampling
    has_logprobs = sampling.logprobs is True and taken
    for key, feature, fits in (
        ("temperature", Feature.TEMPERATURE, taken),
        ("top_p", Feature.TOP_P, taken),
        ("top_logprobs", Feature.TOP_LOGPROBS, has_logprobs),
    ):
        value = getattr(sampling, key)
        if value is not None and fits:
            body[key] = value
        elif value is not None:
            lost.add(feature)
    if sampling.logprobs and not has_logprobs:
        lost.add(Feature.LOGPROBS)
    return [_LOGPROBS] if has_logprobs else []


def _render_limit(
    body: JsonObject, conversation: Conversation, options: RenderOptions, lost: set[Feature]
) -> None:
    """Write the limit of the answer, which OpenAI takes no lower than at 16 tokens."""
    wanted = conversation.max_tokens
    if wanted is None:
        return
    limit = min(wanted, options.row.max_output or wanted)
    if KINDS[options.kind].is_strict:
        limit = max(limit, _LEAST_TOKENS)
    if limit != wanted:
        lost.add(Feature.MAX_TOKENS)
    body["max_output_tokens"] = limit


def _render_prompt_cache_key(body: JsonObject, key: str, options: RenderOptions, lost: set[Feature]) -> None:
    """Write the key of the prompt's cache, which OpenAI takes, and those hosts that are said to."""
    if KINDS[options.kind].is_strict:
        body["prompt_cache_key"] = key
    else:
        render_chat_prompt_cache_key(body, key, options, lost)


def prepend_system(document: JsonDocument, members: Members, texts: Sequence[str]) -> list[Edit]:
    """Return the edits that put texts in front of the system prompt (``instructions``)."""
    text = BETWEEN.join(texts)
    found = members.get("instructions")
    if found is None:
        return [add_member(document, "instructions", encode(text))]
    node = found[-1]
    raw = document.raw(node)
    if raw.startswith(_QUOTE) and document.string(node):
        return [((node.value, node.value + 1), encode(text + BETWEEN)[:-1])]
    return [((node.value, node.end), encode(text))]
