"""Reach a provider: DNS, TCP, a proxy, TLS, and clear messages for failures.

How TCP connections are made is in :mod:`mgw.upstream.dial`, how they go through a proxy in
:mod:`mgw.upstream.tunnel`, and what TLS checks in :mod:`mgw.upstream.tls`.
Made for HTTP and WebSocket both: an endpoint says nothing of what is spoken over it.
"""

from __future__ import annotations

from ipaddress import ip_address
from ssl import SSLContext, SSLError
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

from mgw.config.proxy import ProxyAddress
from mgw.http.connect_head import authority_of
from mgw.nouns.errors import Cause
from mgw.upstream.address import Address
from mgw.upstream.dial import Dialler, NameDialler, TcpDialler
from mgw.upstream.failure import Phase, UpstreamFailure, upstream_broken, upstream_too_slow
from mgw.upstream.tls import CertificateNameError, TlsDialler, describe_tls_error
from mgw.upstream.tunnel import ProxyRefusedError, ProxyUnreachableError, TunnelDialler

ATTEMPT_SECONDS: Final = 0.1
"""The pause between two addresses of one name: the least that RFC 8305 5 recommends, since Twisted
waits it out even where the first address refuses at once, as ``::1`` of ``localhost`` often does."""


class ProxyNameError(ValueError):
    """The name of a proxy is none that a certificate can have."""


def dialler_to(
    address: Address,
    reactor: Any,  # Any: of half a dozen interfaces
    context: SSLContext | None = None,
    proxy: ProxyAddress | None = None,
) -> Dialler:
    """Return what makes connections to ``address``; TLS is spoken where its scheme says so.

    ``context`` says whom TLS trusts, if not the system's authorities.  A ``proxy`` that speaks TLS is judged
    by the same.

    :raises ProxyNameError: TLS cannot be spoken with a proxy of this name.
    :raises ValueError: TLS cannot be used with this host name.
    """
    tcp: Dialler
    if proxy is None:
        tcp = _tcp_dialler(address.host, address.port, reactor)
    else:
        to_proxy = _proxy_dialler(proxy, reactor, context)
        authority = authority_of(address.host, address.port)
        tcp = TunnelDialler(to_proxy, proxy.name, authority, proxy.authorization)
    return TlsDialler(tcp, address.host, context) if address.secure else tcp


def _proxy_dialler(proxy: ProxyAddress, reactor: Any, context: SSLContext | None) -> Dialler:  # Any: as above
    tcp = _tcp_dialler(proxy.host, proxy.port, reactor)
    if not proxy.secure:
        return tcp
    try:
        return TlsDialler(tcp, proxy.host, context)
    except ValueError:
        raise ProxyNameError("TLS cannot be used with this host name") from None


def proxy_name_of(endpoint: object) -> str | None:
    """Return host and port of the proxy that a dialler goes through, if it does."""
    tcp = endpoint.tcp if isinstance(endpoint, TlsDialler) else endpoint
    return tcp.proxy_name if isinstance(tcp, TunnelDialler) else None


def describe_connect_error(
    error: Exception, provider: str, address: Address, seconds: float, proxy_name: str | None = None
) -> UpstreamFailure:
    """Return what a failed connection attempt means, in words for whoever uses the provider.

    Its address and the proxy's stand in the detail, which the log has and no client.
    """
    if isinstance(error, UpstreamFailure):
        return error
    where = f"at {address.host_header.decode()}"
    if proxy_name is not None:
        where += f" through the proxy {proxy_name}"
    if isinstance(error, TimeoutError | TcpTimedOut):
        what = f"did not accept a connection within {seconds:g} s"
        if proxy_name is not None:
            what = f"did not accept a connection through its proxy within {seconds:g} s"
        failure = upstream_too_slow(provider, what, Phase.CONNECT, Cause.CONNECT_TIMEOUT)
        return failure.because(Cause.CONNECT_TIMEOUT, where)
    what, cause = _classify(error)
    return upstream_broken(provider, what, Phase.CONNECT, cause).because(cause, where)


def _classify(error: Exception) -> tuple[str, Cause]:
    match error:
        case ProxyUnreachableError():
            what, cause = _classify(error.reason)
            return f"cannot be reached: its proxy {what}", cause
        case ProxyRefusedError():
            return f"cannot be reached: its proxy {error}", error.cause
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
            return "could not be reached", Cause.REFUSED_CONNECTION


def _tcp_dialler(host: str, port: int, reactor: Any) -> TcpDialler | NameDialler:  # Any: as above
    try:
        ip_address(host)
    except ValueError:
        by_name: IStreamClientEndpoint
        if "_" in host:
            by_name = _UnderscoreHostEndpoint(reactor, host, port)
        else:
            by_name = HostnameEndpoint(reactor, host, port, attemptDelay=ATTEMPT_SECONDS)
        return NameDialler(reactor, port, by_name)
    return TcpDialler(reactor, host, port)


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
