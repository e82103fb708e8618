"""Which of its tools the model is to call.

``none``, ``auto`` and ``required`` say it for all; an object names one tool, or those that are allowed.  What
OpenAI's servers run is no choice: it is refused, or left out and reported, as the tools themselves are.

Sources: ``ToolChoice`` of the SDK's ``response_create_params``; contract 11.5.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import ToolChoice, ToolMode
from mgw.canonical.features import Feature
from mgw.dialects.dialect import ToolKind
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.responses.tools import ToolSet, leave_tool

_MODES: Final = MappingProxyType({"none": ToolMode.NONE, "auto": ToolMode.AUTO, "required": ToolMode.ANY})
_ALLOWED_MODES: Final = ("auto", "required")
_KINDS: Final = MappingProxyType({kind.value: kind for kind in ToolKind})
_NAMED: Final = frozenset({ToolKind.FUNCTION, ToolKind.CUSTOM})
"""Kinds of which there may be many."""
_AUTO: Final = ToolChoice(ToolMode.AUTO)


def parse_tool_choice(request: Fields, tools: ToolSet) -> ToolChoice | None:
    """Take ``tool_choice``, and note what it asks for.

    :raises GatewayError: ``MALFORMED`` for a tool that the request does not have, and
    (``unsupported_tool``) for one that only OpenAI's servers run.
    """
    value = request.take("tool_choice")
    if value is None:
        return None
    if type(value) is str:
        if value not in _MODES:
            raise none_of(request, "tool_choice", value, _MODES)
        if value == "auto":
            return _AUTO
        request.note(Feature.TOOL_CHOICE, "tool_choice")
        return ToolChoice(_MODES[value])
    if type(value) is not dict:
        raise request.mistyped("tool_choice", str, value)
    choice = Fields(value, request.ledger, request, "tool_choice")
    kind = choice.required_text("type")
    if kind == "allowed_tools":
        return _parse_allowed_tools(choice, tools)
    names = _parse_names(choice, kind, tools)
    if not names:
        return None
    request.note(Feature.TOOL_CHOICE, "tool_choice")
    return ToolChoice(ToolMode.ANY, names)


def skip_tool_choice(request: Fields) -> None:
    """Take what says something of tools where there are none: a call that is required cannot be made."""
    value = request.take("tool_choice")
    if value is not None and value not in ("auto", "none"):
        request.ledger.leave("tool_choice")
    request.flag("parallel_tool_calls")


def _parse_allowed_tools(choice: Fields, tools: ToolSet) -> ToolChoice:
    mode = choice.required_text("mode")
    if mode not in _ALLOWED_MODES:
        raise none_of(choice, "mode", mode, _ALLOWED_MODES)
    entries = choice.objects("tools")
    if not entries:
        raise choice.wrong("tools", "at least one tool is required")
    choice.note(Feature.TOOL_CHOICE)
    choice.note(Feature.TOOL_CHOICE_NAMES, "tools")
    names: dict[str, None] = {}
    namespaces: dict[str, None] = {}
    for entry in entries:
        kind = entry.required_text("type")
        if kind == "namespace":
            namespaces[entry.required_text("name")] = None
        elif kind not in _KINDS:  # whether it may be there at all, its declaration has decided
            leave_tool(entry, kind)
        else:
            names.update(dict.fromkeys(_parse_names(entry, kind, tools)))
    for namespace in namespaces:
        names.update(dict.fromkeys(tools.names_in(namespace)))
    if not names:  # all that is allowed was left out
        return ToolChoice(ToolMode.NONE)
    return ToolChoice(_MODES[mode], tuple(names))


def _parse_names(choice: Fields, kind: str, tools: ToolSet) -> tuple[str, ...]:
    """Return the functions that stand for a tool; none where it was left out."""
    known = _KINDS.get(kind)
    name, namespace = kind, None
    if known in _NAMED:
        name, namespace = choice.required_text("name"), choice.text("namespace")
    found = None if known is None else tools.find(known, namespace, name)
    if found is not None:
        return (found,)
    if known in _NAMED:
        raise choice.wrong("name", f"the request has no tool of type {kind!r} with this name")
    tools.leave_hosted(choice, kind)
    return ()
