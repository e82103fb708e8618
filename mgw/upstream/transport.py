"""What we ask of a transport: the few names that TCP, TLS and a test's have in common."""

from __future__ import annotations

from typing import Literal, Protocol


class Wire(Protocol):
    """A connection as whoever writes to it, and reads at a pace, sees it."""

    def write(self, data: bytes) -> None:
        """Send ``data``, some time."""

    def pauseProducing(self) -> None:
        """Read nothing for now."""

    def resumeProducing(self) -> None:
        """Read on."""

    def loseConnection(self) -> None:
        """Close in order, when all is written."""

    def abortConnection(self) -> None:
        """Close at once."""

    def registerProducer(self, producer: object, streaming: Literal[True]) -> None:
        """Tell ``producer`` when the buffer is full, and when it is empty."""

    def unregisterProducer(self) -> None:
        """Tell nobody any more."""
