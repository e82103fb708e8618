"""Names of requests, for responses, events and log lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import urandom
from typing import Final

_ID_BYTES: Final = 12
_ID_BATCH: Final = 256
"""The system is asked for the randomness of so many names at once."""


@dataclass(slots=True, eq=False, repr=False)
class RequestIds:
    """Makes names of requests: random, so that nobody can tell the next one from the last."""

    random: Callable[[int], bytes] = urandom
    _ready: list[str] = field(default_factory=list)

    def take(self) -> str:
        """Return ``req_`` and 24 hexadecimal digits."""
        ready = self._ready
        if not ready:
            digits = self.random(_ID_BYTES * _ID_BATCH).hex(" ", _ID_BYTES)
            ready += ("req_" + digits.replace(" ", " req_")).split(" ")
        return ready.pop()

    def give_next(self, request_id: str) -> None:
        """Have the next request take a name that it has already."""
        self._ready.append(request_id)
