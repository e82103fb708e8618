"""Tool names that a provider requires in place of a client's: a one-to-one mapping.

An operator states some names exactly, and a prefix for all others.  What is stated may collide: the exact
name of one tool may be another tool's own.  So a name that is taken gives way along a chain::

    exact {shell: run}, no prefix        shell -> run     run -> shell

A tool that is named like what another becomes takes that other's name, which nobody uses any more, and so on
until a name is free.  Two tools never get one name, and each is known again by the name that it got.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final


@final
class ToolNameMap:
    """A one-to-one map of all names.

    :param exact: what some tools become; no two the same.
    :param prefix: goes before the names of all others.
    """

    __slots__ = ("_exact", "_inverse", "_prefix")

    def __init__(self, exact: Mapping[str, str], prefix: str = "") -> None:
        self._exact = dict(exact)
        self._inverse = {new: name for name, new in exact.items()}
        assert len(self._inverse) == len(self._exact), "no two tools get one name"
        self._prefix = prefix

    def sent(self, name: str) -> str:
        """Return what the provider knows a client's tool as."""
        new = self._exact.get(name)
        if new is not None:
            return new
        new = self._prefix + name
        while new in self._inverse:
            new = self._prefix + self._inverse[new]
        return new

    def received(self, name: str) -> str:
        """Return the client's name of a tool; the same where it is none that :meth:`sent` returns."""
        own = self._inverse.get(name)
        if own is not None:
            return own
        found = self._without_prefix(name)
        while found is not None and found in self._exact:
            found = self._without_prefix(self._exact[found])
        return name if found is None else found

    def _without_prefix(self, name: str) -> str | None:
        return name[len(self._prefix) :] if name.startswith(self._prefix) else None
