"""Gateway keys and tokens that a process remembers for as long as it lives, under every configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from mgw.clients.expired_tokens import ExpiredTokens


@dataclass(slots=True, eq=False, repr=False)
class KeyMemory:
    """The digests of keys that were the gateway's, and what has expired."""

    known: set[bytes] = field(default_factory=set)
    """The digests of all keys that it has had."""
    expired_tokens: ExpiredTokens = field(default_factory=ExpiredTokens)
    _expired: set[tuple[bytes, float]] = field(default_factory=set)

    def has_expired(self, digest: bytes, expires: float | None, now: float) -> bool:
        """Whether a key has expired, in Unix seconds.

        Once it has, it stays so: a wall clock that is set back revives no key, but another ``expires`` does.
        """
        if expires is None:
            return False
        if now >= expires:
            self._expired.add((digest, expires))
            return True
        return (digest, expires) in self._expired
