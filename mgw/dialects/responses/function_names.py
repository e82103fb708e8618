"""The functions that stand for a client's tools: one name for each, and what it means to the client.

A plain function keeps its own name.  Any other tool has its own name, that of a namespace's tool being
``NAMESPACE__NAME``.  A name that hosts of chat completions would refuse, or that another tool has, is cut
and gets 8 hexadecimal digits of the hash of what it stands for: the same in every turn (contract 11.5).
Nothing is ever read out of such a name: the table goes with the request to its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from mgw.canonical.identifiers import CHAT_NAME
from mgw.dialects.dialect import ClientTool, ToolKind

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_BEGIN: Final = 39
_DIGITS: Final = 8
_MORE_DIGITS: Final = 24
"""Where the first ones are taken: so many that nobody can take them all."""

ToolKey = tuple[ToolKind, str | None, str]
"""What a client calls a tool: its kind, namespace and name."""


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
