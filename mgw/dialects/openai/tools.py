"""Tools of a request, and the choice among them.

Sources: the SDK's ``ChatCompletionToolUnionParam``, ``ChatCompletionToolChoiceOptionParam`` and the
deprecated ``functions`` and ``function_call``.
"""

from __future__ import annotations

from typing import Final

from mgw.canonical.conversation import Tool, ToolChoice, ToolMode
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.openai.content import read_cache
from mgw.dialects.openai.messages import not_a_function

_MODES: Final = {
    "none": ToolMode.NONE,
    "auto": ToolMode.AUTO,
    "required": ToolMode.ANY,
    "any": ToolMode.ANY,  # Mistral's word
}


def read_tools(request: Fields) -> tuple[Tool, ...]:
    """Take the tools."""
    tools = [_tool(tool) for tool in request.objects("tools")]
    if tools:
        request.note(Feature.TOOLS, "tools")
    return tuple(tools)


def read_functions(request: Fields) -> tuple[Tool, ...]:
    """Take the tools of the deprecated kind."""
    functions = [_function(function) for function in request.objects("functions")]
    if functions:
        request.note(Feature.TOOLS, "functions")
    return tuple(functions)


def _tool(tool: Fields) -> Tool:
    kind = tool.text("type") or "function"
    if kind != "function":
        raise not_a_function(tool, kind)
    function = tool.nested("function")
    if function is None:
        raise tool.missing("function")
    found = _function(function)
    cache = read_cache(tool)
    return found if cache is None else Tool(found.name, found.description, found.schema, found.strict, cache)


def _function(function: Fields) -> Tool:
    return Tool(
        function.required_text("name"),
        function.text("description"),
        function.raw_object("parameters"),
        function.flag("strict", Feature.TOOL_STRICT),
        read_cache(function),
    )


def read_tool_choice(request: Fields) -> ToolChoice | None:
    """Take ``tool_choice``."""
    value = request.take("tool_choice", Feature.TOOL_CHOICE)
    if value is None:
        return None
    if type(value) is str:
        return _by_word(request, "tool_choice", value)
    if type(value) is not dict:
        raise request.mistyped("tool_choice", str, value)
    choice = Fields(value, request.ledger, request, "tool_choice")
    kind = choice.text("type") or "function"
    if kind == "allowed_tools":
        return _allowed(choice)
    if kind != "function":
        raise not_a_function(choice, kind)
    return ToolChoice(ToolMode.ANY, (_name_in(choice),))


def read_function_choice(request: Fields) -> ToolChoice | None:
    """Take ``function_call``, the deprecated kind of choice."""
    value = request.take("function_call", Feature.TOOL_CHOICE)
    if value is None:
        return None
    if type(value) is str:
        return _by_word(request, "function_call", value)
    if type(value) is not dict:
        raise request.mistyped("function_call", str, value)
    choice = Fields(value, request.ledger, request, "function_call")
    return ToolChoice(ToolMode.ANY, (choice.required_text("name"),))


def _by_word(request: Fields, key: str, word: str) -> ToolChoice:
    if word not in _MODES:
        raise none_of(request, key, word, ("none", "auto", "required"))
    return ToolChoice(_MODES[word])


def _allowed(choice: Fields) -> ToolChoice:
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
        names.append(_name_in(tool))
    if mode not in {"auto", "required"}:
        raise none_of(allowed, "mode", mode, ("auto", "required"))
    return ToolChoice(_MODES[mode], tuple(names))


def _name_in(fields: Fields) -> str:
    function = fields.nested("function")
    if function is None:
        raise fields.missing("function")
    return function.required_text("name")
