"""The tools of a request, and which of them the model is to call.

=================  ========================================================================================
``function``       itself
``custom``         a function of one string, ``input``; its grammar is told in words and not enforced
``namespace``      a function for each of its tools (:mod:`mgw.dialects.responses.schema`)
``local_shell``,   functions of their actions; a shell in a container, and a search of OpenAI's own, are
``shell``,         tools that only OpenAI's servers run
``apply_patch``,
``tool_search``
others             refused, or left out and reported, as the operator wants it
=================  ========================================================================================

What the client runs becomes a function, what OpenAI's servers run does not.  Of all kinds ``async``,
``allowed_callers``, ``defer_loading`` and ``output_schema`` are reported.  Items of the input may bring more
tools: those come last, and give way to tools of the same name.

The choice ``none``, ``auto`` or ``required`` is for all; an object names one tool, or those that are allowed.
A tool that OpenAI's servers run is no choice: it is refused, or left out and reported, as the tools are.

Sources: the SDK's ``ToolParam`` and its members, ``ToolChoice`` of its ``response_create_params``;
contract 11.5.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject, Tool, ToolChoice, ToolMode
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.openai.blocks import parse_cache_control
from mgw.dialects.placeholders import BETWEEN
from mgw.dialects.renamed_tools import ToolPlace, ToolPlaces, typed_place
from mgw.dialects.responses.errors import LONGEST_SHOWN, hosted_tool
from mgw.dialects.responses.schema import (
    APPLY_PATCH,
    APPLY_PATCH_SCHEMA,
    CUSTOM_SCHEMA,
    LOCAL_SHELL,
    LOCAL_SHELL_SCHEMA,
    RAW_INPUT,
    SHELL,
    SHELL_SCHEMA,
    TOOL_SEARCH,
    TOOL_SEARCH_SCHEMA,
    FunctionNames,
    ToolKey,
    ToolKind,
)

_FUNCTION: Final = ToolKind.FUNCTION  # a member of an enumeration is looked up in Python's slow way each time
_FUNCTION_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict"})
_INNER: Final = frozenset({"function", "custom"})
"""What a namespace holds."""
_MODES: Final = MappingProxyType({"none": ToolMode.NONE, "auto": ToolMode.AUTO, "required": ToolMode.ANY})
_ALLOWED_MODES: Final = ("auto", "required")
_KINDS: Final = MappingProxyType({kind.value: kind for kind in ToolKind})
_NAMED: Final = frozenset({ToolKind.FUNCTION, ToolKind.CUSTOM})
"""Kinds of which there may be many."""
_AUTO: Final = ToolChoice(ToolMode.AUTO)
_OWN_TYPES: Final = ("function", "custom")
_CALL_TYPES: Final = ("function_call", "custom_tool_call")
_DECLARED: Final = (
    typed_place(("tools", None, "name"), *_OWN_TYPES),
    typed_place(("tool_choice", "name"), *_OWN_TYPES),
    typed_place(("tool_choice", "tools", None, "name"), *_OWN_TYPES),
)
_RESPONSE: Final = (typed_place(("output", None, "name"), *_CALL_TYPES), *_DECLARED)
TOOL_PLACES: Final = ToolPlaces(
    request=(*_DECLARED, typed_place(("input", None, "name"), *_CALL_TYPES)),
    answer=(
        *_RESPONSE,
        *(ToolPlace(("response", *place.path), place.sibling, place.values) for place in _RESPONSE),
        typed_place(("item", "name"), *_CALL_TYPES),
        typed_place(("name",), "response.function_call_arguments.done"),
    ),
)
"""Where names of tools stand (``tools``, ``tool_choice``, calls in the history, in answers and in events)."""


class Source(Enum):
    """Where a tool is declared, which says what becomes of a second one of its name."""

    REQUEST = auto()
    """A second tool of its name is refused."""
    ADDITIONAL = auto()
    """A second tool of its name is reported."""
    FOUND = auto()
    """A second tool of its name is the same one, found again: nothing is lost."""


class _Group(Struct):
    """Tools that are declared together."""

    source: Source
    path: str
    """The client's path of one of them, where others give way."""
    namespace: str | None = None
    description: str | None = None
    """What is still to be said before the first of them."""


class ToolSet:
    """The tools of one request.

    :param drop_hosted: what only OpenAI's servers run is left out and reported, not refused.
    """

    __slots__ = ("_declared", "_drop_hosted", "_named", "_namespaces", "names")

    def __init__(self, *, drop_hosted: bool) -> None:
        self.names = FunctionNames()
        """What the tools are called as functions; complete when all are read."""
        self._drop_hosted = drop_hosted
        self._declared: dict[ToolKey, Tool] = {}
        """The declared tools under their own names."""
        self._named: set[tuple[str | None, str]] | None = None
        """Names that are taken, whatever the kind, once tools have to give way."""
        self._namespaces: dict[str | None, list[ToolKey]] | None = None

    def read(self, holder: Fields, source: Source = Source.REQUEST, path: str = "") -> list[JsonObject]:
        """Take ``tools``; return those that the provider gets, as sent.

        :param path: the client's path of one of them, where others give way.

        :raises GatewayError: ``MALFORMED`` for what is no tool, for two of one kind and name, and
        (``unsupported_tool``) for what only OpenAI's servers run.
        """
        return self._read_group(holder, _Group(source, path))

    def finish(self) -> tuple[Tool, ...]:
        """Name all functions, the plain ones first, and return them in their order."""
        declared = self._declared
        self.names = names = FunctionNames(
            name for kind, namespace, name in declared if kind is _FUNCTION and namespace is None
        )
        return tuple(
            [
                tool if (name := names.find(*key)) == tool.name else replace(tool, name=name)
                for key, tool in declared.items()
            ]
        )

    def find(self, kind: ToolKind, namespace: str | None, name: str) -> str | None:
        """Return the function that stands for a declared tool; ``None``: there is no such tool."""
        return self.names.find(kind, namespace, name) if (kind, namespace, name) in self._declared else None

    def names_in(self, namespace: str) -> list[str]:
        """Return the functions of a namespace."""
        if self._namespaces is None:
            self._namespaces = {}
            for key in self._declared:
                self._namespaces.setdefault(key[1], []).append(key)
        return [self.names.find(*key) for key in self._namespaces.get(namespace, ())]

    def names_of(self, tools: Any, namespace: str | None = None) -> list[str]:  # Any: what has been read
        """Return the functions that stand for declared tools, as they were sent."""
        names: list[str] = []
        for tool in tools or ():
            kind = tool["type"]
            name = tool.get("name") if kind in _INNER else kind
            if kind == "namespace" and namespace is None:
                names += self.names_of(tool.get("tools"), tool["name"])
            elif kind in _PARSERS and type(name) is str:
                found = self.find(ToolKind(kind), namespace, name)
                names += [] if found is None else [found]
        return names

    def leave_hosted(self, tool: Fields, kind: str) -> None:
        """Report a tool that only OpenAI's servers run, or raise its refusal."""
        if not self._drop_hosted:
            raise hosted_tool(tool, kind)
        leave_tool(tool, kind)

    def _read_group(self, holder: Fields, group: _Group) -> list[JsonObject]:
        kept: list[JsonObject] = []
        has_strict = False
        for index, tool in enumerate(holder.elements("tools", holder.take("tools"))):
            bare = _parse_bare_function(tool)
            if bare is not None:
                has_strict = has_strict or bare.strict is not None
                found = tool if self._add(holder, index, _FUNCTION, bare, group) else None
            else:
                found = self._read_tool(holder, index, tool, group)
            if found is not None:
                kept.append(found)
        if has_strict:
            holder.note(Feature.TOOL_STRICT, "tools[].strict")
        return kept

    def _read_tool(self, holder: Fields, index: int, tool: JsonObject, group: _Group) -> JsonObject | None:
        opened = holder.open_element("tools", index, dict(tool))  # what was sent may be told again
        kind = opened.required_text("type")
        if kind == "namespace":
            if group.namespace is not None:
                raise opened.wrong("type", "a namespace cannot contain another namespace")
            return self._read_namespace(opened, tool, group)
        parse = _PARSERS.get(kind) if group.namespace is None or kind in _INNER else None
        found = None if parse is None else parse(opened)
        if found is None:
            self.leave_hosted(opened, kind)
            return None
        return tool if self._add(holder, index, ToolKind(kind), found, group) else None

    def _read_namespace(self, opened: Fields, tool: JsonObject, group: _Group) -> JsonObject | None:
        name = opened.required_text("name")
        inner = _Group(group.source, group.path, name, opened.text("description"))
        kept = self._read_group(opened, inner)
        return {**tool, "tools": kept} if kept else None

    def _add(self, holder: Fields, index: int, kind: ToolKind, tool: Tool, group: _Group) -> bool:
        """Add a tool; return whether it is the first of its name."""
        key = (kind, group.namespace, tool.name)
        if group.source is not Source.REQUEST:
            if not self._is_free(key):
                if group.source is Source.ADDITIONAL:
                    holder.ledger.leave(group.path)
                return False
        elif key in self._declared:
            second = holder.open_element("tools", index, {})
            raise second.wrong("name", f"two tools of the same type are named {tool.name[:LONGEST_SHOWN]!r}")
        if group.description:
            said = BETWEEN.join(filter(None, (group.description, tool.description)))
            tool, group.description = replace(tool, description=said), None
        self._declared[key] = tool
        return True

    def _is_free(self, key: ToolKey) -> bool:
        """Whether no tool has a name yet; it is taken then."""
        if self._named is None:
            self._named = {(namespace, name) for _, namespace, name in self._declared}
        if key[1:] in self._named:
            return False
        self._named.add(key[1:])
        return True


def leave_tool(tool: Fields, kind: str) -> None:
    """Report a tool, or an entry that names one, by its type."""
    tool.unread.clear()
    tool.ledger.leave(f"{tool.path().removesuffix('[]')}[{kind[:LONGEST_SHOWN]}]")


def _parse_bare_function(tool: JsonObject) -> Tool | None:
    """Return a function that says what most do and no more; ``None``: it is another tool."""
    name, description = tool.get("name"), tool.get("description")
    schema, strict = tool.get("parameters"), tool.get("strict")
    if (
        tool.get("type") == "function"
        and type(name) is str
        and (description is None or type(description) is str)
        and (schema is None or type(schema) is dict)
        and (strict is None or type(strict) is bool)
        and tool.keys() <= _FUNCTION_KEYS
    ):
        return Tool(name, description, schema, strict)
    return None


def _parse_function(tool: Fields) -> Tool:
    return Tool(
        tool.required_text("name"),
        tool.text("description"),
        tool.raw_object("parameters"),
        tool.flag("strict", Feature.TOOL_STRICT),
        parse_cache_control(tool),
    )


def _parse_custom(tool: Fields) -> Tool:
    name = tool.required_text("name")
    words = [tool.text("description"), RAW_INPUT + _describe_format(tool)]
    description = BETWEEN.join(filter(None, words))
    return Tool(name, description, CUSTOM_SCHEMA, cache=parse_cache_control(tool))


def _describe_format(tool: Fields) -> str:
    """Take ``format``; return what a function's description says of a grammar, which nobody enforces."""
    form = tool.raw_object("format")
    if form is None or form == {"type": "text"}:
        return ""
    tool.ledger.leave(tool.path("format"))
    syntax, definition = form.get("syntax"), form.get("definition")
    if type(definition) is not str:
        return ""
    name = f"{syntax[:LONGEST_SHOWN]} " if type(syntax) is str else ""
    return f" It must match this {name}grammar:\n\n{definition}"


def _parse_local_shell(tool: Fields) -> Tool:
    return Tool(
        "local_shell",
        LOCAL_SHELL,
        LOCAL_SHELL_SCHEMA,
        cache=parse_cache_control(tool),
    )


def _parse_shell(tool: Fields) -> Tool | None:
    """Return a shell of the client's own; ``None``: it runs in a container of OpenAI's."""
    environment = tool.raw_object("environment")
    if environment is not None:
        if environment.get("type") != "local":
            return None
        if len(environment) > 1:
            tool.ledger.leave(tool.path("environment"))
    return Tool("shell", SHELL, SHELL_SCHEMA, cache=parse_cache_control(tool))


def _parse_apply_patch(tool: Fields) -> Tool:
    return Tool(
        "apply_patch",
        APPLY_PATCH,
        APPLY_PATCH_SCHEMA,
        cache=parse_cache_control(tool),
    )


def _parse_tool_search(tool: Fields) -> Tool | None:
    """Return a search that the client runs; ``None``: it is OpenAI's own."""
    if tool.text("execution") != "client":
        return None
    schema = tool.raw_object("parameters") or TOOL_SEARCH_SCHEMA
    description = tool.text("description") or TOOL_SEARCH
    return Tool("tool_search", description, schema, cache=parse_cache_control(tool))


_PARSERS: Final[MappingProxyType[str, Callable[[Fields], Tool | None]]] = MappingProxyType(
    {
        "function": _parse_function,
        "custom": _parse_custom,
        "local_shell": _parse_local_shell,
        "shell": _parse_shell,
        "apply_patch": _parse_apply_patch,
        "tool_search": _parse_tool_search,
    }
)
"""The tools that clients run; ``None``: this one is run by OpenAI's servers."""


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
