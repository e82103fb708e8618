"""Connect TCP sockets for the epoll reactor, in fewer steps than Twisted's connectors take.

Twisted waits a turn of the reactor before it begins to connect, and tells the kernel five times what it wants
to hear of one socket.  It keeps a connector and a factory for as long as a connection lasts.  Here the kernel
is asked at once, and asked again at once: on the same host the connection stands by then, without a turn of
the reactor.  Elsewhere the reactor waits until the socket can be written, and only then it gets a transport:
the one that it makes for sockets that came to it connected.

``IReactorSocket.adoptStreamConnection`` is the interface for that.  It duplicates the socket and asks for
both of its addresses, so the transport that it makes is made here directly.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from errno import EALREADY, EINPROGRESS, EISCONN
from os import strerror
from typing import Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectBindError, ConnectionLost, getConnectError
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IWriteDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.twisted_fast.tcp_transport import transport_of

KEEPALIVE_SECONDS: Final = 30

_UNDER_WAY: Final = frozenset({EINPROGRESS, EALREADY})
_CONNECTED: Final = frozenset({0, EISCONN})
_KIND: Final = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),  # a small write does not wait to fill a packet
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),  # a peer that vanished is noticed
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), KEEPALIVE_SECONDS)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL")
        if hasattr(socket, name)
    ),
)


def can_connect_sockets(reactor: object, host: str) -> bool:
    """Say whether a :class:`SocketAttempt` at the address ``host`` is possible; one with a zone is rare."""
    return isinstance(reactor, EPollReactor) and "%" not in host


def set_client_options(handle: socket.socket) -> None:
    """Set what all our connections to providers have."""
    for option in _OPTIONS:
        handle.setsockopt(*option)


class ConnectAttempt:
    """An attempt to connect: one of the two is called, once, and when all else has been let go of.

    :param on_connected: gets the protocol.
    :param on_failed: gets the error.
    """

    __slots__ = ("_on_connected", "_on_failed")

    def __init__(
        self, on_connected: Callable[[IProtocol], None], on_failed: Callable[[Exception], None]
    ) -> None:
        self._on_connected: Callable[[IProtocol], None] | None = on_connected
        self._on_failed: Callable[[Exception], None] | None = on_failed

    def _succeed(self, protocol: IProtocol) -> None:
        on_connected = self._on_connected
        self._let_go()
        if on_connected is not None:
            on_connected(protocol)

    def _fail(self, error: Exception) -> None:
        on_failed = self._on_failed
        self._let_go()
        if on_failed is not None:
            on_failed(error)

    def _let_go(self) -> None:
        """Drop all references: whoever made the attempt may hold it for as long as a connection lasts."""
        self._on_connected = self._on_failed = None


@implementer(IWriteDescriptor)
class SocketAttempt(ConnectAttempt):
    """One attempt at an address: it becomes the connection of a protocol of ``factory``."""

    __slots__ = ("_address", "_factory", "_fileno", "_reactor", "_socket")

    def __init__(
        self,
        reactor: Any,  # Any: the reactor's interfaces are many
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._reactor = reactor
        super().__init__(on_connected, on_failed)
        self._factory: IProtocolFactory = factory
        self._socket: socket.socket | None = None
        self._fileno = -1
        self._address: tuple[Any, ...] = ()  # Any: as the socket module has it

    def connect(self, host: str, port: int) -> None:
        """Begin, and perhaps end; ``host`` is an IP address."""
        is_v6 = ":" in host
        self._address = (host, port, 0, 0) if is_v6 else (host, port)
        try:
            self._socket = made = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, _KIND)
        except OSError as error:  # no descriptor is left
            self._fail(ConnectBindError(error.errno, error.strerror))
            return
        try:
            set_client_options(made)
            result = made.connect_ex(self._address)
            if result == EINPROGRESS:
                result = made.connect_ex(self._address)
        except Exception as error:  # an address or a port that no socket can have
            self._fail(error)
            return
        if result in _UNDER_WAY:
            self._fileno = made.fileno()
            self._reactor.addWriter(self)
        else:
            self._on_result(made, result)

    def cancel(self) -> None:
        """Give up; does nothing where it is too late."""
        if self._socket is not None:
            self._on_failed = None
            self._fail(TimeoutError())

    # What the reactor calls (IWriteDescriptor)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._fileno

    def logPrefix(self) -> str:
        """Return what the reactor puts before messages about this."""
        return type(self).__name__

    def doWrite(self) -> None:
        """The socket can be written, so it is connected; or it has an error."""
        waiting = self._socket
        if waiting is not None:
            error = waiting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self._on_result(waiting, error or waiting.connect_ex(self._address))

    def connectionLost(self, reason: Failure) -> None:
        """The socket has an error, or the reactor stops."""
        self.doWrite()
        if self._socket is not None:
            self._fail(ConnectionLost(str(reason.value)))

    def _on_result(self, connecting: socket.socket, result: int) -> None:
        if result in _UNDER_WAY:
            return
        if result not in _CONNECTED:
            self._fail(getConnectError((result, strerror(result))))
            return
        on_connected = self._on_connected
        self._let_go()
        address_type = IPv6Address if len(self._address) > 2 else IPv4Address
        protocol = self._factory.buildProtocol(address_type("TCP", *self._address))
        if protocol is None or on_connected is None:
            connecting.close()
            return
        protocol.makeConnection(transport_of(connecting, protocol, self._address, self._reactor))
        on_connected(protocol)

    def _fail(self, error: Exception) -> None:
        failed = self._socket
        if failed is not None:
            self._stop_waiting()
            failed.close()
        super()._fail(error)

    def _let_go(self) -> None:
        """Stop waiting; the socket is somebody else's."""
        self._stop_waiting()
        self._socket = None
        super()._let_go()

    def _stop_waiting(self) -> None:
        if self._fileno != -1:
            self._reactor.removeWriter(self)
            self._fileno = -1
