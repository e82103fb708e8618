"""The tools of OpenAI's responses: functions, custom tools and namespaces of both, and which may be called.

A function that does not say ``strict`` is made strict where its schema allows that, and is not strict where
it does not (source: ``FunctionTool`` of ``openai.types.responses`` 3.54, and the guide of function calling).
A response shows its tools as they were taken.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from mgw_sim.api import ApiError, Json
from mgw_sim.json_schema import schema_error
from mgw_sim.model import Tool, ToolChoice
from mgw_sim.openai.chat_request import check_function
from mgw_sim.openai.errors import error_for
from mgw_sim.validation import ANYTHING, Field, Shape, array, boolean, find_problems, mapping, string

_ANY_TOOL: Final = {
    "type": string(),
    "description": string(),
    "allowed_callers": array(string()),
    "async": ANYTHING,
    "defer_loading": boolean(),
}
_FUNCTION: Final = Shape(
    {
        **_ANY_TOOL,
        "name": string(),
        "parameters": mapping(),
        "strict": boolean(),
        "output_schema": mapping(),
    },
    ("name",),
)
_GRAMMAR: Final = Shape(
    {"type": string("text", "grammar"), "syntax": string("lark", "regex"), "definition": string()}, ("type",)
)
_CUSTOM: Final = Shape({**_ANY_TOOL, "name": string(), "format": mapping(_GRAMMAR)}, ("name",))
_NAMESPACE: Final = Shape(
    {"type": string(), "name": string(), "description": string(), "tools": array(mapping())},
    ("name", "description", "tools"),
)
_SHAPES: Final = {"function": _FUNCTION, "custom": _CUSTOM, "namespace": _NAMESPACE}
_CALLABLE: Final = ("function", "custom")


class DeclaredTool(Struct, frozen=True):
    """A tool that the client runs: a ``function`` or ``custom``, alone or in a namespace."""

    kind: str
    name: str
    namespace: str | None = None
    schema: Any = None  # the client's JSON Schema, or None


def all_tools(body: Json) -> list[Json]:
    """The tools of a request, and behind them those that its ``additional_tools`` items bring."""
    given = body.get("input")
    items = given if isinstance(given, list) else []
    brought = [item.get("tools") or () for item in items if item.get("type") == "additional_tools"]
    return [*(body.get("tools") or ()), *(tool for tools in brought for tool in tools)]


def check_declared_tools(tools: list[Json], *, lenient: bool) -> None:
    """Raise the ApiError for the first tool that is none; ``lenient`` lets unknown fields through."""
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        _check_tool(("tools", index), where, tool, lenient=lenient)
        for place, inner in enumerate(tool.get("tools") or () if tool.get("type") == "namespace" else ()):
            if inner.get("type") not in _CALLABLE:
                message = (
                    f"Invalid value: '{inner.get('type')}'. Supported values are: 'function' and 'custom'."
                )
                raise ApiError(400, message, f"{where}.tools[{place}]", "invalid_value")
            path = ("tools", index, "tools", place)
            _check_tool(path, f"{where}.tools[{place}]", inner, lenient=lenient)


def _check_tool(path: tuple[str | int, ...], where: str, tool: Json, *, lenient: bool) -> None:
    shape = _SHAPES.get(tool.get("type", ""))
    if shape is None:
        return
    for problem in find_problems(tool, Field(("object",), shape=shape), path):
        if not (lenient and problem.kind.value == "unknown"):
            raise error_for(problem)
    if tool["type"] == "function":
        check_function(where, tool)


def declared_tools(body: Json) -> dict[str, DeclaredTool]:
    """The client's tools, by the names by which a prompt asks for them.

    A tool of a namespace has two: its own, unless an earlier tool has that, and ``NAMESPACE.NAME``.
    """
    found: dict[str, DeclaredTool] = {}
    for tool in all_tools(body):
        for one in _inside(tool):
            found.setdefault(one.name, one)
            if one.namespace is not None:
                found.setdefault(f"{one.namespace}.{one.name}", one)
    return found


def _inside(tool: Json) -> Iterator[DeclaredTool]:
    inner = tool.get("tools") or () if tool.get("type") == "namespace" else (tool,)
    namespace = tool["name"] if tool.get("type") == "namespace" else None
    for one in inner:
        if one.get("type") in _CALLABLE:
            yield DeclaredTool(one["type"], one["name"], namespace, one.get("parameters"))


def callable_tools(body: Json) -> tuple[Tool, ...]:
    """The client's tools as the model sees them."""
    return tuple(Tool(name, tool.schema) for name, tool in declared_tools(body).items())


def read_tool_choice(body: Json) -> tuple[ToolChoice, tuple[str, ...]]:
    """Whether a tool must be called, and which may be."""
    value = body.get("tool_choice")
    if not isinstance(value, dict):
        return {"none": ToolChoice.NONE, "required": ToolChoice.ANY}.get(value or "", ToolChoice.AUTO), ()
    names = _chosen_names(value)
    if value.get("type") == "allowed_tools" and value.get("mode") != "required":
        return ToolChoice.AUTO, names
    return ToolChoice.ANY, names


def _chosen_names(choice: Json) -> tuple[str, ...]:
    if choice.get("type") == "allowed_tools":
        return tuple(tool["name"] for tool in choice.get("tools") or () if tool.get("name"))
    return (choice["name"],) if choice.get("name") else (str(choice.get("type")),)


def check_tool_choice(body: Json) -> None:
    """Raise the ApiError for a choice without tools, or of a tool that is not there."""
    choice = body.get("tool_choice")
    if choice == "required" and not all_tools(body):
        raise ApiError(400, "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
    if not isinstance(choice, dict) or choice.get("type") not in {*_CALLABLE, "allowed_tools"}:
        return
    known = declared_tools(body)
    for name in _chosen_names(choice):
        if name not in known:
            message = f"Tool choice '{name}' not found in 'tools' parameter."
            raise ApiError(400, message, "tool_choice", "invalid_value")


def taken_tools(tools: list[Json]) -> list[Json]:
    """The tools as a response shows them: each function strict or not."""
    return [_taken(tool) for tool in tools]


def _taken(tool: Json) -> Json:
    if tool.get("type") == "namespace":
        return {**tool, "tools": taken_tools(tool.get("tools") or [])}
    if tool.get("type") != "function" or tool.get("strict") is not None:
        return tool
    parameters = tool.get("parameters") or {}
    strict = _strict_schema(parameters)
    if schema_error(strict, strict=True) is not None:
        return {**tool, "strict": False}
    return {**tool, "strict": True, "parameters": strict}


def _strict_schema(schema: Any) -> Any:  # parts of a JSON Schema
    """A schema whose objects are closed and require all that they have; what says otherwise stays."""
    if isinstance(schema, list):
        return [_strict_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        key: {name: _strict_schema(one) for name, one in value.items()}
        if key in {"properties", "$defs", "definitions"}
        else _strict_schema(value)
        if key in {"items", "anyOf", "oneOf", "allOf", "prefixItems"}
        else value
        for key, value in schema.items()
    }
    if schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
        made["required"] = list(schema.get("properties") or ())
    return made
