"""The memory and disk that request bodies of all clients may use together (contract 2.11).

One budget is for the memory and one for the disk.  A request reserves room through a :class:`Reservation`, so
that whatever it still holds is released at once when it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from mgw.nouns.errors import GatewayError, Reason

RETRY_SECONDS = 1.0


class Budget(Protocol):
    """Where room for bytes is reserved."""

    def reserve(self, size: int) -> None:
        """Reserve room.

        :raises GatewayError: ``OVERLOADED``.
        """

    def release(self, size: int) -> None:
        """Release room."""


@dataclass(slots=True, eq=False, repr=False)
class BodyBudget:
    """Bytes of request bodies that may be held at once."""

    max_bytes: int
    held: int = 0
    place: str = "in memory"
    """Names where the bytes are held, as the refusal says it."""

    def reserve(self, size: int) -> None:
        """Reserve room.

        :raises GatewayError: ``OVERLOADED`` where there is none; the client may try again in a second.
        """
        if self.held + size > self.max_bytes:
            raise self.overloaded()
        self.held += size

    def release(self, size: int) -> None:
        """Release room."""
        self.held -= size

    def overloaded(self) -> GatewayError:
        """Return the refusal of what there is no room for."""
        message = f"the gateway has reached its limit for request bodies held {self.place}; try again"
        return GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_SECONDS)


class Reservation(Struct, eq=False):
    """What one request has reserved of a budget; there is one for each request."""

    budget: BodyBudget
    held: int = 0

    def reserve(self, size: int) -> None:
        """Reserve room.

        :raises GatewayError: ``OVERLOADED``.
        """
        budget = self.budget
        if budget.held + size > budget.max_bytes:
            raise budget.overloaded()
        budget.held += size
        self.held += size

    def release(self, size: int) -> None:
        """Release room, as far as :meth:`release_all` has not done so."""
        size = min(size, self.held)
        self.held -= size
        self.budget.held -= size

    def release_all(self) -> None:
        """Release all of it."""
        self.budget.held -= self.held
        self.held = 0
