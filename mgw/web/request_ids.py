"""Names for requests: random, so that nobody can tell the next one from the last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import urandom
from typing import Final

_BYTES: Final = 12
_BATCH: Final = 256


@dataclass(slots=True)
class RequestIds:
    """Makes ``req_`` with 24 hexadecimal digits; asks the system for randomness now and then."""

    random: Callable[[int], bytes] = urandom
    _ready: list[str] = field(default_factory=list, repr=False)

    def take(self) -> str:
        """Return another one."""
        ready = self._ready
        if not ready:
            digits = self.random(_BYTES * _BATCH).hex()
            size = 2 * _BYTES
            ready += [f"req_{digits[at : at + size]}" for at in range(0, len(digits), size)]
        return ready.pop()
