"""Find keys by a short hint of their digests, which tells nothing else of them.

Whoever signs with a key puts its hint beside the signature: so what a stranger has made up is compared with
hardly any key, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

_DIGITS: Final = 8
"""Two of 10,000 keys have one hint once in a hundred configurations; then both are tried."""
_PURPOSE: Final = b"mgw key hint\n"


def key_hint(digest: bytes) -> str:
    """Return the hint of a key with this SHA-256."""
    return sha256(_PURPOSE + digest).hexdigest()[:_DIGITS]


@dataclass(slots=True, eq=False, repr=False)
class KeyHints:
    """The digests of keys, by their hints."""

    _digests: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    def add(self, digest: bytes) -> None:
        """Put the digest of a key in, which is not there yet."""
        hint = key_hint(digest)
        self._digests[hint] = (*self._digests.get(hint, ()), digest)

    def remove(self, digest: bytes) -> None:
        """Take the digest of a key out, if it is there."""
        hint = key_hint(digest)
        left = tuple(other for other in self._digests.get(hint, ()) if other != digest)
        if left:
            self._digests[hint] = left
        else:
            self._digests.pop(hint, None)

    def find(self, hint: str) -> Sequence[bytes]:
        """Return the digests of the keys that have this hint."""
        return self._digests.get(hint, ())
