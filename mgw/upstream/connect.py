"""How a provider is reached: names, TCP, TLS, and plain words for what went wrong.

How TCP connections are made is in :mod:`mgw.upstream.dial`; what TLS checks in :mod:`mgw.upstream.tls`.
Made for HTTP and WebSocket both: an endpoint says nothing of what is spoken over it.
"""

from __future__ import annotations

from ipaddress import ip_address
from ssl import SSLError
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint
from twisted.internet.error import ConnectionClosed, DNSLookupError, NoRouteError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as TcpTimedOut
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
)
from zope.interface import implementer

from mgw.errors import Cause
from mgw.upstream.address import Address
from mgw.upstream.dial import Dialler, NameDialler, TcpDialler
from mgw.upstream.failure import Phase, UpstreamFailure, upstream_broken, upstream_too_slow
from mgw.upstream.tls import CertificateNameError, TlsDialler, describe_tls_error

ATTEMPT_SECONDS: Final = 0.1
"""Between the attempts at two addresses of one name: the least that RFC 8305 5 recommends, since Twisted
waits it out even where the first address refuses at once, as ``::1`` of ``localhost`` often does."""


def dialler_to(
    address: Address,
    reactor: Any,
    ca_file: str | None = None,  # Any: of half a dozen interfaces
) -> Dialler:
    """Return what makes connections to ``address``; TLS is spoken where its scheme says so.

    The certificates in ``ca_file`` (PEM) are read now, and replace the system's roots.

    :raises OSError: ``ca_file`` cannot be read.
    :raises ValueError: ``ca_file`` holds no certificate, or TLS cannot be spoken with a host of this name.
    """
    tcp = _tcp_dialler(address, reactor)
    return TlsDialler(tcp, address.host, ca_file) if address.secure else tcp


def describe_connect_error(
    error: Exception, provider: str, address: Address, seconds: float
) -> UpstreamFailure:
    """Return what a failed connection attempt means, in words for whoever uses the provider.

    Its address stands in the detail, which the log has and no client.
    """
    if isinstance(error, UpstreamFailure):
        return error
    where = f"at {address.host_header.decode()}"
    if isinstance(error, TimeoutError | TcpTimedOut):
        what = f"did not accept a connection within {seconds:g} s"
        failure = upstream_too_slow(provider, what, Phase.CONNECT, Cause.CONNECT_TIMEOUT)
        return failure.because(Cause.CONNECT_TIMEOUT, where)
    what, cause = _classify(error)
    return upstream_broken(provider, what, Phase.CONNECT, cause).because(cause, where)


def _classify(error: Exception) -> tuple[str, Cause]:
    match error:
        case Refused():
            return "refused the connection", Cause.REFUSED_CONNECTION
        case DNSLookupError():
            return "cannot be found: its host name has no address", Cause.DNS
        case NoRouteError():
            return "is unreachable: there is no route to it", Cause.REFUSED_CONNECTION
        case CertificateNameError() | SSLError():
            return describe_tls_error(error), Cause.TLS
        case ValueError():
            return "has a host name that is not valid", Cause.DNS
        case ConnectionClosed():
            return "closed the connection before it could be used", Cause.RESET
        case _:
            return "could not be connected to", Cause.REFUSED_CONNECTION


def _tcp_dialler(address: Address, reactor: Any) -> TcpDialler | NameDialler:  # Any: as above
    try:
        ip_address(address.host)
    except ValueError:
        by_name: IStreamClientEndpoint
        if "_" in address.host:
            by_name = _UnderscoreHostEndpoint(reactor, address.host, address.port)
        else:
            by_name = HostnameEndpoint(reactor, address.host, address.port, attemptDelay=ATTEMPT_SECONDS)
        return NameDialler(reactor, address.port, by_name)
    return TcpDialler(reactor, address.host, address.port)


@implementer(IStreamClientEndpoint)
class _UnderscoreHostEndpoint:
    """A host with an underscore in its name, as Docker Compose makes them; Twisted takes no such name."""

    def __init__(self, reactor: Any, host: str, port: int) -> None:  # Any: as above
        self._reactor = reactor
        self._host = host
        self._port = port

    def connect(self, protocol_factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect to the IPv4 address that the name has at the moment."""
        return Deferred.fromCoroutine(self._connect(protocol_factory))

    async def _connect(self, protocol_factory: IProtocolFactory) -> IProtocol:
        host = await self._reactor.resolve(self._host)
        protocol: IProtocol = await TCP4ClientEndpoint(self._reactor, host, self._port).connect(
            protocol_factory
        )
        return protocol
