"""The names of one request's tools as the provider takes them, and the table that leads back.

A name that the provider refuses would cost the whole request, so that it gets another one, the same in every
turn; in the answer it has its own again (:mod:`mgw.canonical.renaming`).
"""

from __future__ import annotations

import re

from mgw.canonical.identifiers import legal_name


class Names:
    """What each tool is called towards a provider that takes the names that match ``legal``."""

    __slots__ = ("_legal", "renamed")

    def __init__(self, legal: re.Pattern[str]) -> None:
        self._legal = legal
        self.renamed: dict[str, str] = {}
        """The client's names by the provider's, of those that differ and were asked for."""

    def __getitem__(self, name: str) -> str:
        """Return what the provider knows a tool as."""
        found = legal_name(name, self._legal)
        if found != name:
            self.renamed[found] = name
        return found
