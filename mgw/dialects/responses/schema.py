"""The functions that stand for a client's tools: their names, descriptions and schemas (contract 11.5).

A plain function keeps its own name.  Any other tool has its own name, that of a namespace's tool being
``NAMESPACE__NAME``.  A name that hosts of chat completions would refuse, or that another tool has, is cut
and gets 8 hexadecimal digits of the hash of what it stands for: the same in every turn.  Nothing is ever read
out of such a name: the table goes with the request to its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import JsonObject
from mgw.canonical.identifiers import CHAT_NAME

_STRING: Final = MappingProxyType({"type": "string"})
_INTEGER: Final = MappingProxyType({"type": "integer"})
_STRINGS: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}
RAW_INPUT: Final = "The value of `input` is this tool's raw input: plain text, not JSON."
LOCAL_SHELL: Final = "Run a command on the user's machine, and return its output."
SHELL: Final = "Run shell commands on the user's machine, and return their output."
APPLY_PATCH: Final = (
    "Create, update or delete one file. Each line of the diff begins with '+' where it is added, with '-' "
    "where it is removed, and with a space where it stays; a line of '@@' goes before each part that changes."
)
TOOL_SEARCH: Final = "Search for tools that are not listed yet; those found can be called afterwards."
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_BEGIN: Final = 39
_DIGITS: Final = 8
_MORE_DIGITS: Final = 24
"""Where the first ones are taken: so many that nobody can take them all."""


class ToolKind(Enum):
    """What a tool is to a client of Responses; to every provider it is a function."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    FUNCTION = "function"
    CUSTOM = "custom"
    """A tool that takes any text."""
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    APPLY_PATCH = "apply_patch"
    TOOL_SEARCH = "tool_search"


class ClientTool(Struct, frozen=True):
    """How a client of Responses calls one of its tools (contract 11.5)."""

    kind: ToolKind
    name: str
    namespace: str | None = None


ToolKey = tuple[ToolKind, str | None, str]
"""What a client calls a tool: its kind, namespace and name."""


def _object_of(properties: JsonObject, *required: str) -> JsonObject:
    return {
        "type": "object",
        "properties": {key: dict(schema) for key, schema in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }


CUSTOM_SCHEMA: Final = _object_of({"input": _STRING}, "input")
LOCAL_SHELL_SCHEMA: Final = _object_of(
    {
        "command": _STRINGS,
        "timeout_ms": _INTEGER,
        "working_directory": _STRING,
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "user": _STRING,
    },
    "command",
)
SHELL_SCHEMA: Final = _object_of(
    {"commands": _STRINGS, "timeout_ms": _INTEGER, "max_output_length": _INTEGER}, "commands"
)
_OPERATION: Final = _object_of(
    {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": _STRING,
        "diff": {"type": "string", "description": "Of create_file and update_file: the diff to apply."},
    },
    "type",
    "path",
)
APPLY_PATCH_SCHEMA: Final = _object_of({"operation": _OPERATION}, "operation")
TOOL_SEARCH_SCHEMA: Final = _object_of({"query": _STRING}, "query")


class FunctionNames:
    """The names of one request's functions."""

    __slots__ = ("_names", "_taken", "client_tools")

    def __init__(self, functions: Iterable[str] = ()) -> None:
        """Begin with the names of the plain functions, which nothing else gets."""
        self.client_tools: dict[str, ClientTool] = {}
        """The tools that are not plain functions, by the names of their functions."""
        self._taken = set(functions)
        self._names: dict[ToolKey, str] = {}

    def find(self, kind: ToolKind, namespace: str | None, name: str) -> str:
        """Return the name of the function that stands for a tool, declared or not."""
        if kind is ToolKind.FUNCTION and namespace is None:
            return name
        key = (kind, namespace, name)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = self._make(key)
            self._taken.add(found)
            self.client_tools[found] = ClientTool(kind, name, namespace)
        return found

    def _make(self, key: ToolKey) -> str:
        kind, namespace, name = key
        whole = name if namespace is None else f"{namespace}__{name}"
        if CHAT_NAME.fullmatch(whole) and whole not in self._taken:
            return whole
        begin = _ILLEGAL.sub("_", whole[:_BEGIN])
        said = (kind.value, namespace or "", name)
        found = f"{begin}_{_digest(*said)[:_DIGITS]}"
        number = 0
        while found in self._taken:
            found = f"{begin}_{_digest(*said, str(number))}"
            number += 1
        return found


def _digest(*words: str) -> str:
    data = "\0".join(words).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=_MORE_DIGITS // 2).hexdigest()
