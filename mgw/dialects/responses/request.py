"""A request of Responses, as clients send it, parsed into a conversation.

The items of ``input`` are :mod:`mgw.dialects.responses.items`, the tools
:mod:`mgw.dialects.responses.tools`, all else :mod:`mgw.dialects.responses.options`.

Sources: the SDK's ``response_create_params``; contract 11.3, 11.4.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from mgw.canonical.conversation import Conversation, OutputFormat, Reasoning, Role, Text, Tool, Turn
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, ReplyOptions, RequestContext, finish_parsing
from mgw.dialects.fields import Fields, Ledger, open_request
from mgw.dialects.openai.options import parse_user
from mgw.dialects.responses.items import ItemParser
from mgw.dialects.responses.options import (
    ConfigurationUpdate,
    collect_echoed,
    parse_limit,
    parse_reasoning,
    parse_sampling,
    parse_text,
    refuse_state,
    skip_neutral,
)
from mgw.dialects.responses.tool_choice import parse_tool_choice, skip_tool_choice
from mgw.dialects.responses.tools import ToolSet

_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_NO_UPDATE: Final = ConfigurationUpdate()


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
        max_tokens=parse_limit(request),
        output=_parse_output(request, update),
        reasoning=_parse_reasoning(request, update),
        user=parse_user(request),
        prompt_cache_key=request.text("prompt_cache_key", Feature.PROMPT_CACHE_KEY),
        stream=request.flag("stream") or False,
    )
    conversation = _parse_calling(request, conversation, tools)
    options = ReplyOptions(client_tools=tools.names.client_tools, echoed=echoed)
    return finish_parsing(conversation, ledger, options)


def parse_count_request(body: bytes, asked: RequestContext) -> Parsed[Conversation]:
    """Understand the same of a request whose tokens are to be counted; it asks for no stream."""
    parsed = parse_request(body, asked)
    return replace(parsed, request=replace(parsed.request, stream=False)) if parsed.request.stream else parsed


_Input = tuple[tuple[Text, ...], tuple[Turn, ...], ConfigurationUpdate, tuple[Tool, ...]]
"""The instructions, the turns, what they change, and all tools."""


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
    output = parse_text(request) if "text" in request.unread else None
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
