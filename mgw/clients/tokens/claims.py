"""Claims of a token: where one is, and whether it has a value that is configured.

A claim is a name at the top or, if it begins with ``/``, a JSON Pointer (RFC 6901), since issuers put roles
and groups into objects, and names may contain dots and slashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from fnmatch import translate
from typing import Any, Final, Literal

from msgspec import Struct

Scalar = str | bool | int | float
Json = Mapping[str, Any]  # Any: values of JSON, which whoever reads one checks


class Missing(Enum):
    """What is found where there is no claim; ``null`` is a value."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
_ESCAPE: Final = re.compile("~(?![01])").search
_INDEX: Final = re.compile("0|[1-9][0-9]{0,5}").fullmatch
"""The position of an element: without leading zeros (RFC 6901 4)."""
_MAGIC: Final = re.compile(r"[*?\[]").search


class Claim(Struct, frozen=True):
    """Where a claim is: the names on the way to it."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Claim:
        """Compile a name or a pointer.

        :raises ValueError: if it is a pointer with a ``~`` that escapes nothing.
        """
        if not text.startswith("/"):
            return cls((text,))
        if _ESCAPE(text) is not None:
            raise ValueError("in a JSON Pointer, ~ is written ~0, and / in a name is written ~1")
        return cls(tuple(name.replace("~1", "/").replace("~0", "~") for name in text[1:].split("/")))

    def find(self, claims: Json) -> object | Literal[Missing.MISSING]:
        """Return the value, or ``MISSING``."""
        value: object = claims
        for name in self.names:
            if isinstance(value, dict):
                value = value.get(name, MISSING)
            elif isinstance(value, list) and _INDEX(name) is not None and int(name) < len(value):
                value = value[int(name)]
            else:
                return MISSING
        return value


class Condition(Struct, frozen=True):
    """One claim of a rule, and the values of which it must have one."""

    claim: Claim
    texts: frozenset[str] = frozenset()
    patterns: tuple[Callable[[str], object], ...] = ()
    flags: frozenset[bool] = frozenset()
    numbers: frozenset[float] = frozenset()

    @classmethod
    def of(cls, claim: str, wanted: Scalar | Sequence[Scalar]) -> Condition:
        """Compile what a rule requires of a claim."""
        values = [wanted] if isinstance(wanted, Scalar) else list(wanted)
        texts = [value for value in values if isinstance(value, str)]
        return cls(
            Claim.of(claim),
            frozenset(text for text in texts if _MAGIC(text) is None),
            tuple(re.compile(translate(text)).match for text in texts if _MAGIC(text) is not None),
            frozenset(value for value in values if isinstance(value, bool)),
            frozenset(value for value in values if not isinstance(value, str | bool)),  # a bool is an int
        )

    def holds(self, claims: Json) -> bool:
        """Whether the claim, or an element of it if it is a list, is one of the values."""
        value = self.claim.find(claims)
        return any(map(self._fits, value)) if isinstance(value, list) else self._fits(value)

    def _fits(self, value: object) -> bool:
        if isinstance(value, str):
            return value in self.texts or any(fits(value) is not None for fits in self.patterns)
        if isinstance(value, bool):
            return value in self.flags
        return isinstance(value, int | float) and value in self.numbers


class Rule(Struct, frozen=True):
    """Groups of the clients whose tokens fulfil all conditions."""

    conditions: tuple[Condition, ...]
    groups: tuple[str, ...]

    def holds(self, claims: Json) -> bool:
        """Whether a token with these claims fulfils it."""
        return all(condition.holds(claims) for condition in self.conditions)
