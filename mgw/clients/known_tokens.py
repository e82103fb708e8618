"""Tokens that a process has checked, by their digests: whose they are, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from mgw.clients.client import Client
from mgw.clients.expired_tokens import MAX_TOKENS
from mgw.nouns.secret import Secret


class KnownToken(Struct, frozen=True, eq=False):
    """A token that is valid."""

    client: Client
    value: Secret
    entry: str
    """The name of its issuer's entry."""
    until: float
    """The first moment at which it is no longer valid, in Unix seconds."""
    ends: float
    """The same on a clock that nobody sets."""


@dataclass(slots=True, eq=False, repr=False)
class KnownTokens:
    """The valid tokens of one configuration; the least recently used make room."""

    _tokens: dict[bytes, KnownToken] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tokens)

    def find(self, digest: bytes) -> KnownToken | None:
        """Return a token, which may have expired meanwhile."""
        known = self._tokens.pop(digest, None)
        if known is not None:
            self._tokens[digest] = known  # the last one now
        return known

    def keep(self, digest: bytes, known: KnownToken) -> None:
        """Know a token."""
        self._tokens[digest] = known
        if len(self._tokens) > MAX_TOKENS:
            del self._tokens[next(iter(self._tokens))]

    def forget(self, digest: bytes) -> None:
        """Know a token no more."""
        self._tokens.pop(digest, None)

    def clear(self) -> None:
        """Know no token any more."""
        self._tokens.clear()
