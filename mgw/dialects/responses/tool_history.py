"""The calls of a client's own tools, and their outputs, as calls and results of functions (contract 11.4).

Each kind of call has its own place for what a function has as its arguments, and each kind of output its own
shape of what a tool gave back:

=========================  ==========================================================================
``function_call``          ``arguments``, text as it is
``custom_tool_call``       ``{"input": input}``
``local_shell_call``       the ``action`` without its type
``shell_call``             the ``action``
``apply_patch_call``       ``{"operation": operation}``
``tool_search_call``       ``arguments``, an object
``…_output``               ``output``: a text or parts; of ``shell_call_output`` its list as JSON; of
                           ``apply_patch_call_output`` ``{"status", "output"}``
``tool_search_output``     the names of the functions that its tools became
=========================  ==========================================================================

Sources: the SDK's ``response_input_item_param`` and the items that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject, Media, Text
from mgw.dialects.dialect import ToolKind
from mgw.dialects.fields import Fields
from mgw.dialects.refusal import make_encodable
from mgw.dialects.responses.content import Holder, parse_parts
from mgw.dialects.responses.refusals import not_encodable

_ENCODER: Final = Encoder()

CALL_KINDS: Final = MappingProxyType(
    {
        "function_call": ToolKind.FUNCTION,
        "custom_tool_call": ToolKind.CUSTOM,
        "local_shell_call": ToolKind.LOCAL_SHELL,
        "shell_call": ToolKind.SHELL,
        "apply_patch_call": ToolKind.APPLY_PATCH,
        "tool_search_call": ToolKind.TOOL_SEARCH,
    }
)
"""The tool that each type of item calls."""
_NAMED: Final = frozenset({ToolKind.FUNCTION, ToolKind.CUSTOM})


def parse_tool_name(item: Fields, kind: ToolKind) -> tuple[str | None, str]:
    """Take the namespace and name of the tool that an item calls."""
    if kind in _NAMED:
        return item.text("namespace"), item.required_text("name")
    return None, kind.value


def parse_arguments(item: Fields, kind: ToolKind) -> str:
    """Take what a tool is called with; return it as the arguments of its function."""
    return _ARGUMENTS[kind](item)


def parse_output(item: Fields, kind: str) -> tuple[Text | Media, ...]:
    """Take what a tool gave back."""
    if kind == "shell_call_output":
        item.skip("max_output_length")  # the call's own
        return _texts(_encode(item, "output", item.take("output")))
    if kind == "apply_patch_call_output":
        said = {"status": item.take("status"), "output": item.take("output")}
        return _texts(_encode(item, "output", {key: one for key, one in said.items() if one is not None}))
    parts = parse_parts(item, "output", Holder.USER)
    return tuple([part for part in parts if isinstance(part, Text | Media)])


def describe_found(names: list[str]) -> tuple[Text, ...]:
    """Return the result of a search for tools: the functions that the model may call now."""
    return _texts(_ENCODER.encode({"tools": names}).decode())


def _texts(text: str) -> tuple[Text, ...]:
    return (Text(text),) if text else ()


def _encode(item: Fields, key: str, value: Any) -> str:  # Any: JSON of whatever type
    """Return a value of the body as text: a string as it is, all else as JSON."""
    if value is None:
        return ""
    if type(value) is str:
        return value
    try:
        return _ENCODER.encode(value).decode()
    except (RecursionError, ValueError, OverflowError):  # lone surrogates, integers beyond 64 bits
        raise not_encodable(item, key) from None


def _said(item: Fields, key: str, *silent: str) -> JsonObject:
    """Take an object without what is null in it, and without what says nothing."""
    found = item.raw_object(key)
    if found is None:
        raise item.missing(key)
    return {name: value for name, value in found.items() if value is not None and name not in silent}


def _function_arguments(item: Fields) -> str:
    return item.text("arguments") or ""


def _custom_arguments(item: Fields) -> str:
    return _ENCODER.encode({"input": make_encodable(item.required_text("input"))}).decode()


def _local_shell_arguments(item: Fields) -> str:
    action = _said(item, "action", "type")
    if action.get("env") == {}:
        del action["env"]
    return _encode(item, "action", action)


def _shell_arguments(item: Fields) -> str:
    if item.unread.get("environment") == {"type": "local"}:
        item.skip("environment")
    return _encode(item, "action", _said(item, "action"))


def _apply_patch_arguments(item: Fields) -> str:
    return _encode(item, "operation", {"operation": _said(item, "operation")})


def _tool_search_arguments(item: Fields) -> str:
    item.skip("execution")
    return _encode(item, "arguments", item.take("arguments"))


_ARGUMENTS: Final[MappingProxyType[ToolKind, Callable[[Fields], str]]] = MappingProxyType(
    {
        ToolKind.FUNCTION: _function_arguments,
        ToolKind.CUSTOM: _custom_arguments,
        ToolKind.LOCAL_SHELL: _local_shell_arguments,
        ToolKind.SHELL: _shell_arguments,
        ToolKind.APPLY_PATCH: _apply_patch_arguments,
        ToolKind.TOOL_SEARCH: _tool_search_arguments,
    }
)
