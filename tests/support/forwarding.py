"""A worker that forwards requests of operators and the supervisor that answers them, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.web.edge_auth import EdgeGate
from mgw.workers.forwarding import Forwarding
from mgw.workers.internal_listener import InternalListener, WithoutAccessLines
from tests.support.dashboards import AWAY, Address, DashboardHarness, Response
from tests.support.web_servers import WebServerHarness

PIPE_BYTES = 64 * 1024
"""Above it a producer has to wait."""


class PipeEnd:
    """One end of a UNIX socket, as a transport; what is written arrives when the pipe is turned."""

    def __init__(self) -> None:
        self.protocol: Protocol
        self.other: PipeEnd
        self.out = b""
        self.most = 0
        """How much has waited here at the most."""
        self.is_reading = True
        self.is_open = True
        self._ending: type[Exception] | None = None
        self._producer: Any = None  # Any: Twisted's
        self._is_full = False

    def write(self, data: bytes) -> None:
        self.out += data
        self.most = max(self.most, len(self.out))
        if len(self.out) > PIPE_BYTES and self._producer is not None and not self._is_full:
            self._is_full = True
            self._producer.pauseProducing()

    def turn(self) -> bool:
        """Do what a turn of the reactor does; say whether anything happened."""
        if self.is_open and self.out and self.other.is_reading:
            data, self.out = self.out, b""
            if self.other.is_open:
                self.other.protocol.dataReceived(data)
            if self._is_full:
                self._is_full = False
                self._producer.resumeProducing()
            return True
        if self.is_open and self._ending is not None and not (self.out and self._ending is ConnectionDone):
            self.is_open = False
            self.protocol.connectionLost(Failure(self._ending()))
            if self.other.is_open:
                self.other.end(self._ending)
            return True
        return False

    def end(self, reason: type[Exception]) -> None:
        self._ending = self._ending or reason

    def loseConnection(self) -> None:
        self.end(ConnectionDone)

    def loseWriteConnection(self) -> None:
        self.end(ConnectionDone)  # nobody here does anything with the other half

    def abortConnection(self) -> None:
        self._ending = ConnectionLost
        self.out = b""

    def pauseProducing(self) -> None:
        self.is_reading = False

    def resumeProducing(self) -> None:
        self.is_reading = True

    def registerProducer(self, producer: object, streaming: bool) -> None:
        self._producer = producer

    def unregisterProducer(self) -> None:
        self._producer = None

    def getPeer(self) -> UNIXAddress:
        return UNIXAddress(None)

    getHost = getPeer


@implementer(IStreamClientEndpoint)
@dataclass(eq=False)
class SupervisorEndpoint:
    """Connects to a listener in memory."""

    connection: Callable[[], Protocol]
    refusal: Exception | None = None
    is_silent: bool = False
    ends: list[PipeEnd] = field(default_factory=list)
    """Of each connection the worker's and the supervisor's."""

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        if self.refusal is not None:
            raise self.refusal
        ours, theirs = PipeEnd(), PipeEnd()
        ours.other, theirs.other = theirs, ours
        protocol: Any = factory.buildProtocol(ours.getPeer())
        ours.protocol, theirs.protocol = protocol, Protocol() if self.is_silent else self.connection()
        self.ends += [ours, theirs]
        theirs.protocol.makeConnection(theirs)
        protocol.makeConnection(ours)
        return succeed(protocol)

    @property
    def worker(self) -> PipeEnd:
        """The worker's end of the newest connection."""
        return self.ends[-2]

    @property
    def supervisor(self) -> PipeEnd:
        """The supervisor's end of the newest connection."""
        return self.ends[-1]

    @property
    def open_ends(self) -> int:
        return sum(end.is_open for end in self.ends)


class WorkerHarness(WebServerHarness):
    """A worker, and behind it a supervisor whose dashboard is on."""

    def __init__(self, text: str, peer: Address = AWAY, *, secure: bool = False) -> None:
        self.peer, self.secure = peer, secure
        self.supervisor = DashboardHarness(text, peer=UNIXAddress(None))
        self.supervisor.server.observer = WithoutAccessLines(self.supervisor.observer)
        self.listener = InternalListener(self.supervisor.clock, self.supervisor.server, [])
        self.endpoint = SupervisorEndpoint(self.listener.connection)
        super().__init__(text)
        self.forwarding = Forwarding(self.clock, self.endpoint)
        self.monitoring.metrics = self.forwarding.serve
        self.operations.dashboard = self.forwarding.serve_page
        for server in (self.server, self.supervisor.server):
            server.gate = EdgeGate(EdgeAuthSettings(enabled=False))

    def connect(self) -> None:
        super().connect()
        self.transport.peerAddr = self.peer
        self.channel.is_secure = self.secure

    def turn(self) -> None:
        """Let everything happen that needs no time."""
        busy = True
        while busy:
            busy = sum(end.turn() for end in self.endpoint.ends) > 0
            for clock in (self.clock, self.supervisor.clock):
                if any(call.getTime() <= clock.seconds() for call in clock.getDelayedCalls()):
                    clock.advance(0)
                    busy = True

    def ask(
        self, path: str, *headers: str, method: str = "GET", body: bytes = b"", host: str = "gw.example"
    ) -> Response:
        """Send one request on a connection of its own."""
        self.connect()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        self.turn()
        return Response(self.received())
