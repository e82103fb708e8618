"""Tools of a request and the choice among them, both ways.

Sources: the SDK's ``ChatCompletionToolUnionParam``, ``ChatCompletionToolChoiceOptionParam`` and the
deprecated ``functions`` and ``function_call``.
"""

from __future__ import annotations

from typing import Final

from mgw.canonical.conversation import Conversation, JsonObject, Tool, ToolChoice, ToolMode
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.openai.blocks import not_a_function, parse_cache_control
from mgw.dialects.openai.schema import fits_strict, resolve_root
from mgw.dialects.renamed_tools import ToolPlace, ToolPlaces
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import Kind

_MODES: Final = {
    "none": ToolMode.NONE,
    "auto": ToolMode.AUTO,
    "required": ToolMode.ANY,
    "any": ToolMode.ANY,  # Mistral's word
}
_OWN_TYPES: Final = ("function", "custom")
_CALLS: Final = (*(("tool_calls", None, own, "name") for own in _OWN_TYPES), ("function_call", "name"))
TOOL_PLACES: Final = ToolPlaces(
    request=(
        *(ToolPlace(("tools", None, own, "name")) for own in _OWN_TYPES),
        *(ToolPlace(("tool_choice", own, "name")) for own in _OWN_TYPES),
        *(ToolPlace(("tool_choice", "allowed_tools", "tools", None, own, "name")) for own in _OWN_TYPES),
        *(ToolPlace(("messages", None, *path)) for path in _CALLS),
        ToolPlace(("functions", None, "name")),
        ToolPlace(("function_call", "name")),
        ToolPlace(("messages", None, "name"), "role", frozenset({"tool", "function"})),
    ),
    answer=tuple(
        ToolPlace(("choices", None, part, *path)) for part in ("message", "delta") for path in _CALLS
    ),
)
"""Where names of tools stand (``tools``, ``tool_choice``, calls in the history, in answers and in events)."""


def parse_tools(request: Fields) -> tuple[Tool, ...]:
    """Take the tools."""
    if "tools" not in request.unread:
        return ()
    tools = [_parse_tool(tool) for tool in request.objects("tools")]
    if tools:
        request.note(Feature.TOOLS, "tools")
    return tuple(tools)


def parse_functions(request: Fields) -> tuple[Tool, ...]:
    """Take the tools of the deprecated kind."""
    if "functions" not in request.unread:
        return ()
    functions = [_parse_function(function) for function in request.objects("functions")]
    if functions:
        request.note(Feature.TOOLS, "functions")
    return tuple(functions)


def _parse_tool(tool: Fields) -> Tool:
    kind = tool.text("type") or "function"
    if kind != "function":
        raise not_a_function(tool, kind)
    function = tool.nested("function")
    if function is None:
        raise tool.missing("function")
    found = _parse_function(function)
    cache = parse_cache_control(tool)
    return found if cache is None else Tool(found.name, found.description, found.schema, found.strict, cache)


def _parse_function(function: Fields) -> Tool:
    return Tool(
        function.required_text("name"),
        function.text("description"),
        function.raw_object("parameters"),
        function.flag("strict", Feature.TOOL_STRICT),
        parse_cache_control(function),
    )


def parse_tool_choice(request: Fields) -> ToolChoice | None:
    """Take ``tool_choice``."""
    value = request.take("tool_choice", Feature.TOOL_CHOICE)
    if value is None:
        return None
    if type(value) is str:
        return _parse_mode(request, "tool_choice", value)
    if type(value) is not dict:
        raise request.mistyped("tool_choice", str, value)
    choice = Fields(value, request.ledger, request, "tool_choice")
    kind = choice.text("type") or "function"
    if kind == "allowed_tools":
        return _parse_allowed_tools(choice)
    if kind != "function":
        raise not_a_function(choice, kind)
    return ToolChoice(ToolMode.ANY, (_parse_name(choice),))


def parse_function_choice(request: Fields) -> ToolChoice | None:
    """Take ``function_call``, the deprecated kind of choice."""
    value = request.take("function_call", Feature.TOOL_CHOICE)
    if value is None:
        return None
    if type(value) is str:
        return _parse_mode(request, "function_call", value)
    if type(value) is not dict:
        raise request.mistyped("function_call", str, value)
    choice = Fields(value, request.ledger, request, "function_call")
    return ToolChoice(ToolMode.ANY, (choice.required_text("name"),))


def _parse_mode(request: Fields, key: str, word: str) -> ToolChoice:
    if word not in _MODES:
        raise none_of(request, key, word, ("none", "auto", "required"))
    return ToolChoice(_MODES[word])


def _parse_allowed_tools(choice: Fields) -> ToolChoice:
    allowed = choice.nested("allowed_tools")
    if allowed is None:
        raise choice.missing("allowed_tools")
    allowed.note(Feature.TOOL_CHOICE_NAMES, "tools")
    mode = allowed.required_text("mode")
    names: list[str] = []
    for tool in allowed.objects("tools"):
        kind = tool.text("type") or "function"
        if kind != "function":
            raise not_a_function(tool, kind)
        names.append(_parse_name(tool))
    if mode not in {"auto", "required"}:
        raise none_of(allowed, "mode", mode, ("auto", "required"))
    return ToolChoice(_MODES[mode], tuple(names))


def _parse_name(fields: Fields) -> str:
    function = fields.nested("function")
    if function is None:
        raise fields.missing("function")
    return function.required_text("name")


def render_tools(
    body: JsonObject, conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> None:
    """Write the tools and the choice among them.

    A model whose row says that it takes none here gets them, too: the upstream knows better.
    """
    body["tools"] = [_render_tool(tool, names, lost) for tool in conversation.tools]
    if conversation.tool_choice is not None:
        body["tool_choice"] = render_tool_choice(conversation.tool_choice, options.kind, names, lost)
    if conversation.parallel_calls is False and options.row.parallel_calls:
        body["parallel_tool_calls"] = False
    elif conversation.parallel_calls is False:
        lost.add(Feature.PARALLEL_CALLS)


def _render_tool(tool: Tool, names: ToolNames, lost: set[Feature]) -> JsonObject:
    function: JsonObject = {"name": names[tool.name]}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = schema = _render_parameters(tool.schema)
    if tool.strict and not fits_strict(schema):
        lost.add(Feature.TOOL_STRICT)
    elif tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _render_parameters(schema: JsonObject | None) -> JsonObject:
    """Return the schema; OpenAI refuses one that is not said to be of an object, or has no properties."""
    if schema is None:
        return {"type": "object", "properties": {}}
    schema = resolve_root(schema)
    if "type" not in schema:
        schema = {"type": "object", **schema}
    if schema["type"] == "object" and "properties" not in schema:
        schema = {**schema, "properties": {}}
    return schema


def render_tool_choice(
    choice: ToolChoice, kind: Kind, names: ToolNames, lost: set[Feature]
) -> str | JsonObject:
    """Return ``tool_choice``, and note the names that it does not carry."""
    if choice.mode is ToolMode.NONE:
        return "none"
    mode = "required" if choice.mode is ToolMode.ANY else "auto"
    if not choice.names:
        return mode
    if choice.mode is ToolMode.ANY and len(choice.names) == 1:
        return _render_name(names[choice.names[0]])
    if KINDS[kind].has_allowed_tools:
        tools = [_render_name(names[name]) for name in choice.names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
    lost.add(Feature.TOOL_CHOICE_NAMES)
    return mode


def _render_name(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name}}
