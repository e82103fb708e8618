"""Tools and their choice, both ways.

Sources: the SDK's ``ToolParam``, ``ToolUnionParam`` and ``ToolChoiceParam``.  What the vendor demands of a
tool: a name of ``[a-zA-Z0-9_-]{1,128}``, a schema whose ``type`` is ``object`` and which has no ``anyOf``,
``oneOf`` or ``allOf`` at its top ("input_schema does not support oneOf, allOf, or anyOf at the top level",
anthropics/claude-code#40075); such a rule goes into the description, as the SDK does with what structured
outputs cannot enforce.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import Conversation, JsonObject, Tool, ToolChoice, ToolMode
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.cache_control import CacheBreakpoints, parse_cache_control
from mgw.dialects.anthropic.schema import StrictToolBudget
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.refusal import not_a_function
from mgw.dialects.renamed_tools import ToolPlaces, typed_place
from mgw.dialects.tool_names import ToolNames

_ENCODER: Final = Encoder()
_MODES: Final = {"auto": ToolMode.AUTO, "any": ToolMode.ANY, "none": ToolMode.NONE, "tool": ToolMode.ANY}
_COMBINATORS: Final = ("anyOf", "oneOf", "allOf")
_COMBINATOR_SET: Final = frozenset(_COMBINATORS)
TOOL_PLACES: Final = ToolPlaces(
    request=(
        typed_place(("tools", None, "name"), "custom", None),
        typed_place(("tool_choice", "name"), "tool"),
        typed_place(("messages", None, "content", None, "name"), "tool_use"),
        typed_place(("messages", None, "content", None, "content", None, "tool_name"), "tool_reference"),
    ),
    answer=(
        typed_place(("content", None, "name"), "tool_use"),
        typed_place(("content_block", "name"), "tool_use"),
        typed_place(("message", "content", None, "name"), "tool_use"),
    ),
)
"""Where names of tools stand (``tools``, ``tool_choice``, calls in the history, in answers and in events)."""


def parse_tools(root: Fields) -> tuple[Tool, ...]:
    """Parse the tools; all must be functions of the client's."""
    tools: list[Tool] = []
    for tool in root.objects("tools"):
        kind = tool.text("type")
        if kind not in {None, "custom"}:
            raise not_a_function(tool, kind, tool.text("name") or tool.text("mcp_server_name"))
        tools.append(
            Tool(
                tool.required_text("name"),
                tool.text("description"),
                tool.raw_object("input_schema"),
                tool.flag("strict", Feature.TOOL_STRICT),
                parse_cache_control(tool),
            )
        )
    if tools:
        root.note(Feature.TOOLS, "tools")
    return tuple(tools)


def parse_tool_choice(root: Fields) -> tuple[ToolChoice | None, bool | None]:
    """Parse the choice, and whether calls may be parallel."""
    choice = root.nested("tool_choice")
    if choice is None:
        return None, None
    kind = choice.required_text("type")
    if kind not in _MODES:
        raise none_of(choice, "type", kind, _MODES)
    root.note(Feature.TOOL_CHOICE, "tool_choice")
    single = choice.flag("disable_parallel_tool_use", Feature.PARALLEL_CALLS)
    names = (choice.required_text("name"),) if kind == "tool" else ()
    return ToolChoice(_MODES[kind], names), None if single is None else not single


def render_tools(
    conversation: Conversation,
    names: ToolNames,
    breakpoints: CacheBreakpoints,
    lost: set[Feature],
    *,
    strict: bool = True,
) -> list[JsonObject]:
    """Return the tools of the request.

    :param strict: whether the model takes strict tools.
    """
    if not conversation.tools:
        return []
    budget = StrictToolBudget() if strict else None
    return [_render_tool(tool, names, breakpoints, budget, lost) for tool in conversation.tools]


def declare_called_tools(names: Iterable[str]) -> list[JsonObject]:
    """Return tools of these names, for a history with calls of a request that has none.

    The vendor wants them declared ("Requests which include `tool_use` or `tool_result` blocks must define
    tools"); :func:`render_tool_choice` forbids them.
    """
    return [{"name": name, "input_schema": _render_schema(None)} for name in names]


def _render_tool(
    tool: Tool,
    names: ToolNames,
    breakpoints: CacheBreakpoints,
    budget: StrictToolBudget | None,
    lost: set[Feature],
) -> JsonObject:
    rendered: JsonObject = {"name": names[tool.name]}
    description = tool.description or ""
    rules = {key: tool.schema[key] for key in _COMBINATORS if tool.schema and key in tool.schema}
    if rules:
        rule = _ENCODER.encode(rules).decode()
        description = f"{description}\n\nThe arguments must also match this JSON Schema: {rule}".lstrip()
    if description:
        rendered["description"] = description
    rendered["input_schema"] = schema = _render_schema(tool.schema)
    if tool.strict:
        if not rules and budget is not None and budget.admits(schema):
            rendered["strict"] = True
        else:
            lost.add(Feature.TOOL_STRICT)
    return breakpoints.add_to(rendered, tool.cache)


def _render_schema(schema: JsonObject | None) -> JsonObject:
    """Return a schema of an object, else in the sender's own words and order."""
    if schema is None:
        return {"type": "object", "properties": {}}
    if schema.get("type") == "object" and _COMBINATOR_SET.isdisjoint(schema):
        return schema
    rest = {key: value for key, value in schema.items() if key not in _COMBINATORS and key != "type"}
    return {"type": "object", **rest}


def render_tool_choice(
    conversation: Conversation, names: ToolNames, *, can_force: bool, lost: set[Feature]
) -> JsonObject | None:
    """Return the choice of a request that has tools; ``can_force``: the model can be made to call one."""
    if not conversation.tools:
        return {"type": "none"}
    choice = conversation.tool_choice or ToolChoice(ToolMode.AUTO)
    single = conversation.parallel_calls is False
    if choice.mode is ToolMode.NONE:
        return {"type": "none"}
    if len(choice.names) > 1 or (choice.names and (not can_force or choice.mode is ToolMode.AUTO)):
        lost.add(Feature.TOOL_CHOICE_NAMES)
    rendered: JsonObject = {"type": "auto"}
    if choice.mode is ToolMode.ANY and not can_force:
        lost.add(Feature.TOOL_CHOICE)
    elif choice.mode is ToolMode.ANY:
        is_named = len(choice.names) == 1
        rendered = {"type": "tool", "name": names[choice.names[0]]} if is_named else {"type": "any"}
    if single:
        rendered["disable_parallel_tool_use"] = True
    return rendered if single or conversation.tool_choice is not None else None


def is_call_required(conversation: Conversation) -> bool:
    """Whether the client requires a call."""
    choice = conversation.tool_choice
    return bool(conversation.tools) and choice is not None and choice.mode is ToolMode.ANY
