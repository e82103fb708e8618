"""Functions and how they are chosen, both ways.

Source: ``Tool``, ``FunctionDeclaration`` and ``FunctionCallingConfig`` of google-genai 3.4.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import Conversation, JsonObject, Tool, ToolChoice, ToolMode
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.gemini.proto_json import parse_enum
from mgw.dialects.gemini.schema import parse_json_schema, parse_openapi_schema
from mgw.dialects.tool_names import ToolNames

_MODE_NAMES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
"""``FunctionCallingConfig.Mode`` by its numbers."""
_MODES: Final = MappingProxyType(
    {
        "MODE_UNSPECIFIED": None,
        "AUTO": ToolMode.AUTO,
        "ANY": ToolMode.ANY,
        "NONE": ToolMode.NONE,
        "VALIDATED": ToolMode.AUTO,
    }
)


def parse_tools(request: Fields) -> tuple[Tool, ...]:
    """Return the functions of all tools.

    :raises GatewayError: ``MALFORMED`` for a tool that is none.
    """
    if "tools" not in request.unread:
        return ()
    found: list[Tool] = []
    request.note(Feature.TOOLS, "tools")
    for tool in request.objects_or_one("tools"):
        found += [_parse_function(declaration) for declaration in tool.objects_or_one("functionDeclarations")]
        other = next((key for key in tool if key in tool), None)
        if other is not None:
            raise tool.wrong(
                other,
                "this tool is not a function and cannot be translated for another family; a gemini provider "
                "accepts it unchanged",
            )
    return tuple(found)


def _parse_function(declaration: Fields) -> Tool:
    name = declaration.required_text("name")
    description = declaration.text("description")
    schema = declaration.raw_object("parametersJsonSchema")
    if schema is not None:
        return Tool(name, description, parse_json_schema(schema))
    schema = declaration.raw_object("parameters")
    return Tool(name, description, None if schema is None else parse_openapi_schema(schema))


def parse_tool_choice(request: Fields) -> ToolChoice | None:
    """Return how functions are to be chosen; all else of ``toolConfig`` stays unread."""
    config = request.nested("toolConfig")
    calling = None if config is None else config.nested("functionCallingConfig")
    if calling is None:
        return None
    mode = parse_enum(calling, "mode", _MODE_NAMES, Feature.TOOL_CHOICE)
    if mode is not None and mode.upper() not in _MODES:
        raise none_of(calling, "mode", mode, _MODES)
    names = calling.texts("allowedFunctionNames", Feature.TOOL_CHOICE_NAMES)
    chosen = _MODES[mode.upper()] if mode else None
    if chosen is None and not names:
        return None
    return ToolChoice(chosen or ToolMode.AUTO, names)


def render_tools(conversation: Conversation, names: ToolNames, lost: set[Feature]) -> JsonObject:
    """Return ``tools`` and ``toolConfig``, as far as there are any."""
    if not conversation.tools:
        return {}
    declarations = [_render_function(tool, names, lost) for tool in conversation.tools]
    body: JsonObject = {"tools": [{"functionDeclarations": declarations}]}
    if conversation.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": render_tool_choice(conversation.tool_choice, names)}
    if conversation.parallel_calls is False:
        lost.add(Feature.PARALLEL_CALLS)
    return body


def _render_function(tool: Tool, names: ToolNames, lost: set[Feature]) -> JsonObject:
    if tool.strict:
        lost.add(Feature.TOOL_STRICT)
    declaration: JsonObject = {"name": names[tool.name]}
    if tool.description is not None:
        declaration["description"] = tool.description
    if tool.schema is not None:
        declaration["parametersJsonSchema"] = tool.schema
    return declaration


def render_tool_choice(choice: ToolChoice, names: ToolNames) -> JsonObject:
    """Return ``functionCallingConfig``; names go with ``ANY`` and ``VALIDATED`` only."""
    if choice.mode is ToolMode.NONE:
        return {"mode": "NONE"}
    if not choice.names:
        return {"mode": "ANY" if choice.mode is ToolMode.ANY else "AUTO"}
    mode = "ANY" if choice.mode is ToolMode.ANY else "VALIDATED"
    return {"mode": mode, "allowedFunctionNames": [names[name] for name in choice.names]}
