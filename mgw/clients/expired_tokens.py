"""Tokens that have expired, which no wall clock that is set back makes valid again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_TOKENS: Final = 10_000
"""How many tokens that have expired are remembered, and how many that are valid."""


@dataclass(slots=True, eq=False, repr=False)
class ExpiredTokens:
    """The digests of tokens that have expired, those that were seen last; it belongs to the process."""

    _digests: dict[bytes, None] = field(default_factory=dict)

    def add(self, digest: bytes) -> None:
        """Remember one."""
        self._digests.pop(digest, None)
        self._digests[digest] = None
        if len(self._digests) > MAX_TOKENS:
            del self._digests[next(iter(self._digests))]

    def __contains__(self, digest: bytes) -> bool:
        """Whether a token is remembered."""
        return digest in self._digests
