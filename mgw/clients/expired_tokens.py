"""Tokens that have expired or are going to, which no wall clock that is set back makes valid for longer."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

MAX_TOKENS: Final = 10_000
"""How many tokens are remembered with their ends, and how many that are valid."""


@dataclass(slots=True, eq=False, repr=False)
class ExpiredTokens:
    """When tokens end that were valid once, those that were seen last; it belongs to the process.

    What has checked them is forgotten at a reload, and when the keys of an issuer change.
    """

    _ends: dict[bytes, float] = field(default_factory=dict)
    """On a clock that nobody sets, by the digests of what is signed in them."""

    def add(self, digest: bytes) -> None:
        """Remember that a token has expired."""
        self.bound(digest, -inf)

    def bound(self, digest: bytes, ends: float) -> float:
        """Remember when a token ends; return the earliest of all such times that it had."""
        found = min(self._ends.pop(digest, inf), ends)
        self._ends[digest] = found
        if len(self._ends) > MAX_TOKENS:
            del self._ends[next(iter(self._ends))]
        return found
