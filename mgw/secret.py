"""A string that never prints, and the two things that may be said of it."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import Final, final

KEY_HASH_DIGITS: Final = 12


@final
class Secret:
    """A key, token or password, from the moment it is read to the header it is written to.

    Its ``repr``, ``str`` and format are empty of it, it has no ordering, and it does not pickle.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value; only for the header or form field that it is written to."""
        return self._value

    def matches(self, other: Secret) -> bool:
        """Compare in constant time."""
        return compare_digest(self._value.encode(), other._value.encode())

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other)

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled")


def key_hash(value: Secret | str) -> str:
    """Return the first 12 hex digits of SHA-256: how a credential is named in events (decisions, part 3)."""
    text = value.reveal() if isinstance(value, Secret) else value
    return sha256(text.encode()).hexdigest()[:KEY_HASH_DIGITS]
