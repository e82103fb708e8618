"""Reach a provider through an HTTP proxy: a tunnel, opened by CONNECT (RFC 9110 9.3.6).

::

    dialling the proxy --TCP, TLS--> asking --2xx--> open: the provider's protocol has the connection
            |                          |
            +--------------------------+--> failed, or cancelled

Like the other diallers (:mod:`mgw.upstream.dial`) an attempt is one object: the factory of the connection to
the proxy and its protocol, until the tunnel stands.  Then it gives the transport to the protocol that speaks
with the provider, and is gone.  Whoever dials sets the time limit, which so covers the proxy too.  The proxy
is told the provider's name, and looks it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from twisted.internet.error import TimeoutError as TcpTimedOut
from twisted.internet.interfaces import IAddress, IHandshakeListener, IProtocol, IProtocolFactory, ITransport
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.http.connect_head import ConnectReader, render_connect
from mgw.http.upstream_connection import NOT_HTTP
from mgw.nouns.errors import Cause
from mgw.nouns.secret import Secret
from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.socket_attempt import ConnectAttempt
from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from mgw.upstream.dial import Attempt, Dialler

_REASONS: Final = {
    403: " (it does not allow this host or port)",
    407: " (its user name or password is missing or wrong)",
}


class ProxyUnreachableError(Exception):
    """There is no connection to the proxy; ``reason`` is what Twisted or OpenSSL says."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


class ProxyRefusedError(Exception):
    """The proxy opens no tunnel; says why in words that follow "its proxy", none of them the proxy's own."""

    def __init__(self, what: str, cause: Cause) -> None:
        super().__init__(what)
        self.cause = cause


class TunnelDialler:
    """Makes tunnels to one place.

    :param proxy: makes connections to the proxy.
    :param proxy_name: host and port of the proxy, for the log.
    :param authority: host and port at the other end.
    :param authorization: what ``Proxy-Authorization`` says.
    """

    def __init__(self, proxy: Dialler, proxy_name: str, authority: str, authorization: Secret | None) -> None:
        self.proxy_name = proxy_name
        self._proxy = proxy
        self._authority = authority
        self._authorization = authorization

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> Attempt:
        """Dial as :class:`mgw.upstream.dial.Dialler` says."""
        attempt = _TunnelAttempt(self, factory, on_connected, on_failed)
        attempt.connect_by(self._proxy)
        return attempt

    def render_request(self) -> bytes:
        """Return what is sent to the proxy."""
        authorization = self._authorization
        return render_connect(self._authority, None if authorization is None else authorization.reveal())


@implementer(IProtocolFactory, IHandshakeListener)
class _TunnelAttempt(ConnectAttempt):
    """One attempt: what the connection to the proxy is made for, until the tunnel stands."""

    __slots__ = ("_address", "_attempt", "_dialler", "_factory", "_reader", "transport")

    def __init__(
        self,
        dialler: TunnelDialler,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(on_connected, on_failed)
        self._dialler = dialler
        self._factory = factory
        self._reader = ConnectReader()
        self._address: Any = None  # Any: as the factories of Twisted and ours have it
        self._attempt: Attempt | None = None
        self.transport: RelayTransport | None = None
        """The transport to the proxy, until the tunnel stands."""

    def connect_by(self, proxy: Dialler) -> None:
        """Dial the proxy."""
        attempt = proxy.dial(cast(IProtocolFactory, self), self._on_dialled, self._on_unreachable)
        if self._on_connected is not None and self.transport is None:  # nothing has come of it yet
            self._attempt = attempt

    def cancel(self) -> None:
        """Give up; does nothing where it is too late."""
        attempt, transport = self._attempt, self.transport
        self._let_go()
        if transport is not None:
            transport.abortConnection()
        elif attempt is not None:
            attempt.cancel()

    # What the dialler of the proxy calls

    def doStart(self) -> None:
        """Say nothing in the log."""

    def doStop(self) -> None:
        """Say nothing in the log."""

    def buildProtocol(self, address: IAddress | None) -> Any:  # Any: a protocol as far as it is one
        """Take the protocol's place."""
        self._address = address
        return None if self._on_connected is None else self

    def _on_dialled(self, _: IProtocol) -> None:
        self._attempt = None

    def _on_unreachable(self, error: Exception) -> None:
        is_late = isinstance(error, TimeoutError | TcpTimedOut)  # the words for that know of the proxy
        self._fail(error if is_late else ProxyUnreachableError(error))

    # What the transport calls

    def makeConnection(self, transport: ITransport) -> None:
        """The proxy is there: ask it, or wait until TLS is done."""
        self.transport = cast(RelayTransport, transport)
        if not isinstance(transport, TlsTransport):
            self.transport.write(self._dialler.render_request())

    def handshakeCompleted(self) -> None:
        """TLS is done, and the certificate is the proxy's."""
        if self.transport is not None:
            self.transport.write(self._dialler.render_request())

    def dataReceived(self, data: bytes) -> None:
        """Read what the proxy says."""
        if self.transport is None:  # given up; nothing is read any more
            return
        reader = self._reader
        reader.feed(data)
        if reader.fault is not None:
            cause = Cause.NOT_HTTP if reader.fault == NOT_HTTP else Cause.UNREADABLE
            self._refuse(reader.fault, cause)
        elif reader.opened:
            self._hand_over(self.transport)
        elif reader.status is not None:
            why = f"{reader.status}{_REASONS.get(reader.status, '')}"
            self._refuse(f"refused to connect to it: {why}", Cause.REFUSED_CONNECTION)

    def connectionLost(self, reason: Failure) -> None:
        """The connection has ended, whoever ended it."""
        self._fail(ProxyUnreachableError(cast(Exception, reason.value)))

    def _refuse(self, what: str, cause: Cause) -> None:
        transport, on_failed = self.transport, self._on_failed
        self._let_go()
        if transport is not None:
            transport.abortConnection()
        if on_failed is not None:
            on_failed(ProxyRefusedError(what, cause))

    def _hand_over(self, transport: Any) -> None:  # Any: no interface says that it has its protocol
        """Give the connection to the protocol that speaks with the provider."""
        on_connected = self._on_connected
        self._let_go()
        protocol = self._factory.buildProtocol(self._address)
        if protocol is None or on_connected is None:
            transport.abortConnection()
            return
        transport.protocol = protocol
        protocol.makeConnection(transport)
        if isinstance(transport, TlsTransport) and IHandshakeListener.providedBy(protocol):
            protocol.handshakeCompleted()  # the proxy's is long over, and with the provider there is none
        on_connected(protocol)

    def _let_go(self) -> None:
        """Drop what is of no use any more."""
        self.transport = self._attempt = None
        super()._let_go()
