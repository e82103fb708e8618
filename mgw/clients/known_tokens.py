"""Tokens that a process has checked, by their digests: to whom each belongs, and until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from mgw.clients.client import Client
from mgw.clients.expired_tokens import MAX_TOKENS
from mgw.nouns.secret import Secret

MAX_KNOWN_BYTES: Final = 32 * 1024 * 1024
"""How long all tokens may be together.  They have one or two kilobytes, but 10,000 of the largest 160 MB."""


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
    expires: float
    """What the token itself says of its end: without the skew that is allowed."""


@dataclass(slots=True, eq=False, repr=False)
class KnownTokens:
    """The valid tokens of one configuration; the least recently used make room."""

    _tokens: dict[bytes, KnownToken] = field(default_factory=dict)
    _bytes: int = 0
    """How long they are together."""

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
        self.forget(digest)
        self._tokens[digest] = known
        self._bytes += _size_of(known)
        while len(self._tokens) > MAX_TOKENS or self._bytes > MAX_KNOWN_BYTES:
            self.forget(next(iter(self._tokens)))

    def forget(self, digest: bytes) -> None:
        """Know a token no more."""
        known = self._tokens.pop(digest, None)
        if known is not None:
            self._bytes -= _size_of(known)

    def clear(self) -> None:
        """Know no token any more."""
        self._tokens.clear()
        self._bytes = 0


def _size_of(known: KnownToken) -> int:
    return len(known.value.reveal())
