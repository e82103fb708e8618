"""How much memory the request bodies of all clients may take together (decisions, part 2: ``spool``)."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.errors import GatewayError, Reason

RETRY_SECONDS = 1.0


@dataclass(slots=True)
class BodyBudget:
    """Bytes of request bodies that may be held at once."""

    max_bytes: int
    held: int = 0

    def take(self, size: int) -> None:
        """Reserve room.

        :raises GatewayError: ``OVERLOADED`` where there is none; the client may try again in a second.
        """
        if self.held + size > self.max_bytes:
            message = "the gateway holds as many request bodies as it may; try again"
            raise GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_SECONDS)
        self.held += size

    def give_back(self, size: int) -> None:
        """Release room."""
        self.held -= size
