"""Twisted's TCP transport, made, accepted and read in fewer steps.

Twisted's ``Server`` names itself in two strings when it is made, which only the log wants, and asks the
interfaces of its protocol for that; it makes its socket non-blocking, which ours are by then; it reads
through one call more.  When it ends it asks the reactor up to four times to watch it no more, and looks for
adapters.  :class:`TcpTransport` is the same without.  Whoever makes one asks :func:`transport_class`, which
compares the two first, attribute by attribute: where another release of Twisted's has made them differ,
Twisted's own is used.

:func:`accept_clients` does what a listening port does when clients wait, but for few of them at a time.
"""

from __future__ import annotations

import socket
from functools import cache
from typing import Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IHalfCloseableProtocol, IProtocol
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.tcp import Port, Server
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.reactor.transport import RelayTransport

MAX_ACCEPTS: Final = 8
"""The most connections accepted in one turn: opening a request takes as long as ten chunks, which wait."""

BUSY_BYTES: Final = 4 * 1024
"""A connection that gives as much at once is busy: it waits behind those that give less."""
BUSY_SECONDS: Final = 0.1
"""How long it stays so, a turn at least, unless it gives less: what comes later is another request's."""

LARGE_READ: Final = 448 * 1024
"""How much is read at once while a large body comes: fewer turns of the reactor for the same bytes.

Less than what the allocator gives a block of its own (:mod:`mgw.ops.heap`), the pages of which are all new.
"""

_log: Final = Logger()
_LOST: Final = Failure(CONNECTION_LOST)
_SPARED: Final = frozenset({"logstr", "repstr", "hostname"})
"""What Twisted's transport has and ours has not, or makes when it is asked."""


class TcpTransport(Server):
    """A TCP connection, whichever side has opened it; its socket is non-blocking.

    The arguments are those of Twisted's ``Server``.
    """

    read_bytes = Server.bufferSize
    """The most that is read at once."""
    busy_until = 0.0
    """The time until which it is busy; 0: it is not."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: IProtocol,
        client: tuple[Any, ...],  # Any: as the socket module has it
        server: Port | None,
        sessionno: int,
        reactor: Any,  # Any: the reactor's interfaces are many
    ) -> None:
        self.reactor = reactor
        self._tempDataBuffer = []
        self._tempDataLen = 0
        self.socket = sock
        self.fileno = sock.fileno
        self.protocol = protocol
        if len(client) != 2:
            self._addressType = IPv6Address
        self.server = server  # type: ignore[assignment]  # a connection of ours has none, as Twisted's adopted ones
        self.client = client
        self.sessionno = sessionno
        reactor.addReader(self)
        self.connected = 1

    def __repr__(self) -> str:
        """Return what Twisted's says, or where a connection without a port leads to."""
        if self.server is None:
            return f"<connection to {self.client[0]}>"
        name, port = self.protocol.__class__.__name__, self.server._realPortNumber
        return f"<{name} #{self.sessionno} on {port}>"

    @property
    def logstr(self) -> str:  # type: ignore[override]  # nobody sets it
        """What stands before messages about this."""
        return f"{self._getLogPrefix(self.protocol)},{self.sessionno},{self.client[0]}"

    def has_output(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._tempDataBuffer or self.dataBuffer)

    def end(self, reason: Exception) -> None:
        """Do what follows from the reason that :meth:`doRead` has returned."""
        if reason is not CONNECTION_DONE:
            self.connectionLost(_LOST)
        elif IHalfCloseableProtocol.providedBy(self.protocol):
            self.reactor.removeReader(self)
            self.readConnectionLost(connectionDone)
        else:  # most protocols do not tell that the other side sends no more from the end of the connection
            self.connectionLost(connectionDone)

    def connectionLost(self, reason: Failure) -> None:
        """Close the socket, and tell the protocol, once."""
        if not hasattr(self, "socket"):
            return
        self.disconnected, self.connected = 1, 0
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.stopProducing()
        _unwatch(self)
        self._closeSocket(not isinstance(reason.value, ConnectionAborted))  # type: ignore[no-untyped-call]
        protocol = self.protocol
        del self.protocol, self.socket, self.fileno
        protocol.connectionLost(reason)

    def doRead(self) -> Any:  # Any: a reason, as Twisted has it
        """Hand what has come to the protocol; return why there will be no more, if so."""
        try:
            data = self.socket.recv(self.read_bytes)
        except BlockingIOError:
            return None
        except OSError:
            return CONNECTION_LOST
        if not data:
            return CONNECTION_DONE
        self.busy_until = 0.0
        if len(data) >= BUSY_BYTES:
            self.busy_until = self.reactor.seconds() + BUSY_SECONDS  # type: ignore[attr-defined]  # IReactorTime's
        self.protocol.dataReceived(data)
        return None


def transport_of(
    connected: socket.socket, protocol: IProtocol, address: tuple[Any, ...], reactor: Any
) -> Server:
    """Return the transport of a connection that we have opened; ``connected`` is non-blocking.

    :param address: the other side's, as the socket module has it.
    """
    made = transport_class()(connected, protocol, address, None, 0, reactor)  # type: ignore[arg-type]  # no port made it
    if made.__class__ is Server:
        made.repstr = f"<connection to {address[0]}>"  # which only a port's transport has
    return made


def read_much(transport: RelayTransport, *, much: bool) -> None:
    """Read more than usual at once, or no more than that."""
    if isinstance(transport, TcpTransport):
        transport.read_bytes = LARGE_READ if much else TcpTransport.read_bytes


def close_quiet(transport: RelayTransport) -> bool:
    """Close a connection in order; if nothing waits to be written do so now, and not two turns later.

    :returns: whether it is closed; its protocol has heard of it then.
    """
    if not isinstance(transport, TcpTransport) or transport.has_output() or transport.producer is not None:
        transport.loseConnection()
        return False
    if transport.connected:
        transport.connectionLost(connectionDone)
    return True


def _unwatch(transport: TcpTransport) -> None:
    """Have the reactor watch a transport no more."""
    reactor, descriptor = transport.reactor, transport.fileno()
    if type(reactor) is EPollReactor and descriptor >= 0:
        try:
            if reactor._selectables.get(descriptor) is transport:
                reactor._poller.unregister(descriptor)
                reactor._reads.discard(descriptor)
                reactor._writes.discard(descriptor)
                del reactor._selectables[descriptor]
        except AttributeError:  # another release of Twisted's: as it would
            pass
        else:
            return
    transport.stopReading()  # type: ignore[no-untyped-call]  # Twisted's
    transport.stopWriting()  # type: ignore[no-untyped-call]  # Twisted's


def accept_clients(port: Port, count: int = MAX_ACCEPTS, seconds: float = 0.0) -> None:
    """Accept clients that wait, so many of them, and more for as long; what goes wrong is logged."""
    make, listening, factory = transport_class(), port.socket, port.factory
    assert factory is not None, "it listens"
    clock: Any = port.reactor if seconds else None  # Any: the reactor's interfaces are many
    until = clock.seconds() + seconds if seconds else 0.0
    accepted = 0
    try:
        while accepted < count or (seconds and clock.seconds() < until):
            accepted += 1
            try:
                handle, address = listening.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, for one: Twisted meets the same, and knows what to do
                port.doRead()
                return
            handle.setblocking(False)  # noqa: FBT003  the socket module's
            if len(address) > 2:
                address = _with_zone(address)
                protocol = factory.buildProtocol(IPv6Address("TCP", *address))
            else:
                protocol = factory.buildProtocol(IPv4Address("TCP", *address))
            if protocol is None:
                handle.close()
                continue
            number = port.sessionno
            port.sessionno = number + 1
            transport = make(handle, protocol, address, port, number, port.reactor)
            protocol.makeConnection(transport)
    except BaseException:  # as Twisted does: the port goes on
        _log.failure("a client could not be accepted")


def _with_zone(address: tuple[Any, ...]) -> tuple[Any, ...]:  # Any: as above
    """Return an IPv6 address whose host names its zone, where it has one (RFC 4007, 11)."""
    if not address[3]:
        return address
    host, _ = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return (host, *address[1:])


@cache
def transport_class() -> type[Server]:
    """Return what TCP transports are made of."""
    return choose_transport(Server)


def choose_transport(theirs: type[Server]) -> type[Server]:
    """Return :class:`TcpTransport`, unless Twisted's own differs from it, which the log says.

    :param theirs: Twisted's own.
    """
    one, other = socket.socketpair()
    with one, other:
        try:
            expected = vars(_tried(theirs, one)).keys() - _SPARED
            found = vars(_tried(TcpTransport, other)).keys()
        except Exception as error:  # whatever another release of Twisted's may come to
            problem = f"cannot be loaded ({type(error).__name__}: {error})"
        else:
            if found == expected:
                return TcpTransport
            problem = f"has unexpected attributes: {', '.join(sorted(found ^ expected))}"
    _log.warn("using Twisted's TCP transport, because the gateway's own {problem}", problem=problem)
    return theirs


def _tried(make: type[Server], handle: socket.socket) -> Server:
    made = make(handle, Protocol(), ("", 0), None, 0, _NullReactor())  # type: ignore[arg-type]  # of no port, in no reactor
    repr(made.logstr)
    return made


class _NullReactor:
    """Is told of a transport, and does nothing."""

    def addReader(self, _: object) -> None:
        """Do nothing."""
