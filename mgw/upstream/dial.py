"""Open TCP connections to one host cheaply, for a thousand streams a second.

Twisted's endpoints cost each connection several Deferreds and a timer, a name is resolved in a thread each
time, and what they put around a protocol stays there: every read passes it.  Here an attempt is one object: a
:class:`mgw.reactor.twisted_fast.socket_attempt.SocketAttempt`, or, where the reactor or the address are not
of the kind for that, one that is Twisted's factory while the connection is made, takes the protocol's place
for the moment in which it stands, and then gives it to the protocol.

A host name has the full treatment, resolution and all its addresses in turn (RFC 8305), unless one of them
was connected to within the last :data:`ADDRESS_SECONDS`.  That one is dialled alone; if it fails or takes
long it is forgotten, and the full treatment follows (contract 2.10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.tcp import Connection as TcpConnection
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.reactor.twisted_fast.socket_attempt import (
    ConnectAttempt,
    SocketAttempt,
    can_connect_sockets,
    set_client_options,
)

ADDRESS_SECONDS: Final = 5.0
"""How long an address is dialled without another resolution of its name."""
DIRECT_SECONDS: Final = 1.0
"""How long the attempt at that address may take before the full treatment is tried: a lost packet's worth."""


class Attempt(Protocol):
    """A connection that is being made."""

    def cancel(self) -> None:
        """Give up; does nothing where it is too late."""


@runtime_checkable
class Dialler(Protocol):
    """What makes connections."""

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> Attempt:
        """Make a connection for a protocol of ``factory``; one of the two is called, perhaps at once."""


class EndpointDialler:
    """A dialler made of any endpoint."""

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> Attempt:
        """Dial as :class:`Dialler` says; an attempt that is cancelled may call ``on_failed``."""
        attempt = maybeDeferred(self._endpoint.connect, factory)
        _ = attempt.addCallbacks(on_connected, lambda failure: on_failed(_error_of(failure)))
        return attempt


class TcpDialler:
    """Connects to one address."""

    def __init__(self, reactor: Any, host: str, port: int) -> None:  # Any: of half a dozen interfaces
        self._reactor = reactor
        self._host = host
        self._port = port
        self._with_sockets = can_connect_sockets(reactor, host)

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> Attempt:
        """Dial as :class:`Dialler` says."""
        if self._with_sockets:
            quick = SocketAttempt(self._reactor, factory, on_connected, on_failed)
            quick.connect(self._host, self._port)
            return quick
        attempt = _TcpAttempt(factory, on_connected, on_failed)
        attempt.connect_to(self._reactor, self._host, self._port)
        return attempt


class NameDialler:
    """Connects to one host name, which ``by_name`` resolves."""

    def __init__(self, reactor: Any, port: int, by_name: IStreamClientEndpoint) -> None:  # Any: as above
        self.by_name = by_name
        self.wheel = TimerWheel(reactor)
        self._reactor = reactor
        self._port = port
        self._recent: TcpDialler | None = None
        """What dials the address that was last connected to."""
        self._resolved_at = 0.0

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> Attempt:
        """Dial as :class:`Dialler` says."""
        attempt = _NameAttempt(self, factory, on_connected, on_failed)
        recent = self._recent
        if recent is not None and self.wheel.now() - self._resolved_at < ADDRESS_SECONDS:
            attempt.connect_to(recent)
        else:
            attempt.connect_by_name()
        return attempt

    def remember(self, address: IAddress | None, resolved_at: float) -> None:
        """Dial ``address`` for a while, to which a connection was just made, if that did not take long."""
        if isinstance(address, IPv4Address | IPv6Address) and self.wheel.now() - resolved_at < DIRECT_SECONDS:
            self._recent = TcpDialler(self._reactor, address.host, self._port)
            self._resolved_at = resolved_at

    def forget(self) -> None:
        """Resolve the name before the next attempt."""
        self._recent = None


class _TcpAttempt(ConnectAttempt):
    """One attempt: the factory of Twisted's connector, and the protocol until there is one."""

    __slots__ = ("_connecting", "_factory", "_protocol")

    def __init__(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(on_connected, on_failed)
        self._factory: IProtocolFactory | None = factory
        self._protocol: IProtocol | None = None
        self._connecting: Any = None  # Twisted's connector

    def connect_to(self, reactor: Any, host: str, port: int) -> None:
        """Dial an address; whoever does so has a time limit of its own."""
        try:
            reactor.connectTCP(host, port, self, timeout=None)
        except Exception as error:  # a port or an address that no socket can have
            self._fail(error)

    def cancel(self) -> None:
        """Give up."""
        connector = self._connecting
        self._let_go()
        if connector is not None:
            connector.stopConnecting()

    def doStart(self) -> None:
        """Say nothing in the log."""

    def doStop(self) -> None:
        """Say nothing in the log."""

    def startedConnecting(self, connector: Any) -> None:
        """Keep what can be stopped."""
        self._connecting = connector

    def buildProtocol(self, address: IAddress) -> _TcpAttempt | None:
        """Take the protocol's place for a moment, since only a protocol hears when the connection stands."""
        if self._factory is not None:
            self._protocol = self._factory.buildProtocol(address)
        return None if self._protocol is None else self

    def clientConnectionFailed(self, _: object, reason: Failure) -> None:
        """The address could not be connected to."""
        self._fail(_error_of(reason))

    def clientConnectionLost(self, connector: Any, _: object) -> None:
        """The connection has ended: let go of its transport, which holds the connector."""
        connector.transport = None

    def makeConnection(self, transport: Any) -> None:
        """The connection stands: give the protocol its place."""
        protocol, on_connected = self._protocol, self._on_connected
        assert protocol is not None, "the transport is made for it"
        self._let_go()
        if isinstance(transport, TcpConnection):
            set_client_options(transport.getHandle())
        transport.protocol = protocol
        protocol.makeConnection(transport)
        if on_connected is not None:
            on_connected(protocol)

    def _let_go(self) -> None:
        """Drop everything: the connector keeps its factory for as long as the connection lasts."""
        self._factory = self._protocol = self._connecting = None
        super()._let_go()


@implementer(IProtocolFactory)
class _NameAttempt(ConnectAttempt):
    """One attempt at a name: at its recent address, then at all.

    It is the factory of all these, and so hears which address it was.
    """

    __slots__ = ("_attempt", "_deadline", "_dialler", "_factory", "_resolved_at")

    def __init__(
        self,
        dialler: NameDialler,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._dialler = dialler
        super().__init__(on_connected, on_failed)
        self._factory = factory
        self._deadline = Deadline(dialler.wheel, self._give_up_address)
        self._attempt: Attempt | None = None
        self._resolved_at: float | None = None

    def connect_to(self, recent: TcpDialler) -> None:
        """Dial the recent address, though not for long."""
        attempt = recent.dial(self._factory, self._succeed, self._on_address_failed)
        if self._on_connected is not None and self._resolved_at is None:  # nothing has come of it yet
            self._attempt = attempt
            self._deadline.start(DIRECT_SECONDS)

    def connect_by_name(self) -> None:
        """Resolve the name, and dial its addresses in turn."""
        self._resolved_at = self._dialler.wheel.now()
        passage: Any = _TcpAttempt(self, self._succeed, self._fail)  # factory and protocol in one
        attempt = maybeDeferred(self._dialler.by_name.connect, passage)
        if self._on_connected is not None:
            self._attempt = attempt
        _ = attempt.addErrback(lambda failure: self._fail(_error_of(failure)))

    def cancel(self) -> None:
        """Give up."""
        attempt = self._attempt
        self._let_go()
        if attempt is not None:
            attempt.cancel()

    def doStart(self) -> None:
        """Say nothing in the log."""

    def doStop(self) -> None:
        """Say nothing in the log."""

    def buildProtocol(self, address: IAddress) -> IProtocol | None:
        """Remember the address that can be connected to."""
        if self._resolved_at is not None:
            self._dialler.remember(address, self._resolved_at)
        return self._factory.buildProtocol(address)

    def _give_up_address(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
        self._on_address_failed(TimeoutError())

    def _on_address_failed(self, _: Exception) -> None:
        self._deadline.close()
        self._attempt = None
        self._dialler.forget()
        self.connect_by_name()

    def _let_go(self) -> None:
        self._deadline.close()
        self._attempt = None
        super()._let_go()


def _error_of(failure: Failure) -> Exception:
    error = failure.value
    return error if isinstance(error, Exception) else RuntimeError(str(error))
