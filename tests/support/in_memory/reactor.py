"""A reactor without sockets: Twisted's own timers, a clock that is moved by hand, connections in memory.

Both ends of every connection are lists of what was written; the list's own ``append`` is the ``write``, so
that a transport adds nothing to what is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from twisted.internet.address import IPv4Address
from twisted.internet.base import ReactorBase
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IProtocol, IProtocolFactory
from twisted.python.failure import Failure

T = TypeVar("T")

_CLIENT = IPv4Address("TCP", "127.0.0.1", 40000)
_SERVER = IPv4Address("TCP", "127.0.0.1", 4000)


class MemoryTransport:
    """One end of a connection: keeps what is written, and whether it was closed."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append
        self.closing = False
        self.protocol: Any = None  # Any: interfaces of Twisted declare no attributes

    def pauseProducing(self) -> None:
        """Nothing is read that was not handed in."""

    def resumeProducing(self) -> None:
        """Nothing is held back."""

    def registerProducer(self, producer: object, streaming: object) -> None:
        """The buffer is never full."""

    def unregisterProducer(self) -> None:
        """The buffer is never full."""

    def loseConnection(self) -> None:
        """Close."""
        self.closing = True

    abortConnection = loseConnection

    def getPeer(self) -> IPv4Address:
        """The same for all."""
        return _CLIENT

    def getHost(self) -> IPv4Address:
        """The same for all."""
        return _SERVER


class HalfClosingTransport(MemoryTransport):
    """One end of a connection whose sides close one by one, as TCP's do."""

    loseWriteConnection = MemoryTransport.loseConnection


class MemoryConnection:
    """A protocol of the gateway and what it has written; the caller plays the other side."""

    def __init__(
        self,
        protocol: Any,  # Any: interfaces of Twisted declare no attributes
        transport: MemoryTransport | None = None,
    ) -> None:
        self.transport = transport or MemoryTransport()
        self.transport.protocol = protocol
        self.written = self.transport.written
        protocol.makeConnection(self.transport)  # a dial gives its place to the protocol here
        self.protocol = self.transport.protocol
        self.receive: Callable[[bytes], object] = self.protocol.dataReceived

    def take(self) -> bytes:
        """Return what was written since the last time."""
        data = b"".join(self.written)
        self.written.clear()
        return data

    def close(self) -> None:
        """The other side closes."""
        protocol: IProtocol = self.protocol
        self.transport.protocol = None  # as Twisted's do
        protocol.connectionLost(Failure(ConnectionDone()))


class MemoryReactor(ReactorBase):
    """Timers as Twisted keeps them; time stands still but for :meth:`turn`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.seconds = partial(getattr, self, "now")  # no call of Python, as the real one's is none
        self.connections: dict[int, MemoryConnection] = {}
        """The newest connection to each port."""
        self._open: list[MemoryConnection] = []

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, and do what is due."""
        self.now += seconds
        self.runUntilCurrent()
        while self.threadCallQueue or self.timeout() == 0:  # the next turns are part of it
            self.runUntilCurrent()
        for connection in [found for found in self._open if found.transport.closing]:
            self._open.remove(connection)
            connection.close()

    def connectTCP(
        self,
        host: str,
        port: int,
        factory: IProtocolFactory,
        timeout: float = 30,
        bindAddress: tuple[str, int] | None = None,
    ) -> None:
        """Connect at once."""
        connection = self.connections[port] = MemoryConnection(
            factory.buildProtocol(_SERVER), HalfClosingTransport()
        )
        self._open.append(connection)

    def installWaker(self) -> None:
        """Nobody sleeps."""


class LinesAtOnce:
    """Writes lines where a thread would, and says so in the next turn, as a thread does."""

    def __init__(self, reactor: MemoryReactor, name: str) -> None:
        self._reactor = reactor

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Do the work."""
        self._reactor.callFromThread(then, work())

    def stop(self) -> None:
        """There is no thread."""
