"""What the gateway uses of a Twisted transport, since no Twisted interface declares all of it."""

from __future__ import annotations

from typing import Literal, Protocol

from twisted.internet.interfaces import IAddress


class RelayTransport(Protocol):
    """A TCP or TLS connection as the code that relays over it sees it."""

    def write(self, data: bytes) -> None:
        """Send ``data`` behind all that was written before."""

    def pauseProducing(self) -> None:
        """Stop reading."""

    def resumeProducing(self) -> None:
        """Go on reading."""

    def loseConnection(self) -> None:
        """Close when everything is written."""

    def loseWriteConnection(self) -> None:
        """Close our side when everything is written; TLS has no such half-close."""

    def abortConnection(self) -> None:
        """Close at once."""

    def registerProducer(self, producer: object, streaming: Literal[True]) -> None:
        """Tell ``producer`` when the buffer is full, and when it is empty."""

    def unregisterProducer(self) -> None:
        """Stop telling the producer."""

    def getPeer(self) -> IAddress:
        """Return the other side's address."""

    def getHost(self) -> IAddress:
        """Return our own address."""
