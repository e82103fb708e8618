"""How a provider is reached: names, TCP, TLS, and plain words for what went wrong.

TCP keep-alive after 30 s is the specification's (part 3); what TLS checks is in :mod:`mgw.upstream.tls`.
Made for HTTP and WebSocket both: an endpoint says nothing of what is spoken over it.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any, Final

from OpenSSL.SSL import Error
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import DNSLookupError, NoRouteError
from twisted.internet.error import TimeoutError as TcpTimedOut
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    ISystemHandle,
    ITCPTransport,
)
from twisted.protocols.policies import ProtocolWrapper
from zope.interface import implementer

from mgw.upstream.address import Address
from mgw.upstream.failure import Phase, UpstreamFailure, broken, too_slow
from mgw.upstream.tls import CertificateNameError, CertificateRefusedError, tls_creator

KEEPALIVE_SECONDS: Final = 30
ATTEMPT_SECONDS: Final = 0.1
"""Between the attempts at two addresses of one name: the least that RFC 8305 5 recommends, since Twisted
waits it out even where the first address refuses at once, as ``::1`` of ``localhost`` often does."""


def endpoint_to(
    address: Address, reactor: Any, ca_file: str | None = None
) -> (
    IStreamClientEndpoint
):  # Any: Twisted's endpoints take a reactor of half a dozen interfaces and type it so
    """Return the endpoint that reaches ``address``; TLS is spoken where its scheme says so.

    The certificates in ``ca_file`` (PEM) are read now, and replace the system's roots.

    :raises OSError: ``ca_file`` cannot be read.
    :raises ValueError: ``ca_file`` holds no certificate.
    """
    tcp = _KeptAlive(_tcp_endpoint(address, reactor))
    if not address.secure:
        return tcp
    return wrapClientTLS(tls_creator(address.host, ca_file), tcp, clock=reactor)


def explain(error: Exception, provider: str, address: Address, seconds: float) -> UpstreamFailure:
    """Return what a failed connection attempt means, in words for whoever configured the provider."""
    where = address.host_header.decode()
    if isinstance(error, UpstreamFailure):
        return error
    if isinstance(error, TimeoutError | TcpTimedOut):
        return too_slow(provider, f"did not let us connect to {where} within {seconds:g} s", Phase.CONNECT)
    return broken(provider, _words_for(error, where), Phase.CONNECT)


def _words_for(error: Exception, where: str) -> str:
    match error:
        case Refused():
            return f"refused the connection to {where}"
        case DNSLookupError():
            return f"is not found: no address for {where}"
        case NoRouteError():
            return f"is out of reach: no route to {where}"
        case CertificateNameError():
            return f"has a certificate {error} for {where}"
        case CertificateRefusedError():
            return f"is not trusted: its certificate for {where} {error}"
        case Error():
            return f"failed the TLS handshake at {where}: {_reasons(error)}"
        case ValueError():
            return f"has a host name that is not valid: {where}"
        case _:
            return f"could not be connected to at {where}"


def _reasons(error: Error) -> str:
    """Return OpenSSL's own words: constants of the library, which hold nothing of the traffic."""
    stack = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return ", ".join(str(entry[-1]) for entry in stack) or "closed by the other side"


def _tcp_endpoint(address: Address, reactor: Any) -> IStreamClientEndpoint:  # Any: as above
    try:
        version = ip_address(address.host).version
    except ValueError:
        if "_" in address.host:
            return _LooselyNamed(reactor, address.host, address.port)
        return HostnameEndpoint(reactor, address.host, address.port, attemptDelay=ATTEMPT_SECONDS)
    kind = TCP4ClientEndpoint if version == 4 else TCP6ClientEndpoint
    endpoint: IStreamClientEndpoint = kind(reactor, address.host, address.port)
    return endpoint


@implementer(IStreamClientEndpoint)
class _LooselyNamed:
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


@implementer(IStreamClientEndpoint)
class _KeptAlive:
    """An endpoint whose sockets notice a peer that vanished, and do not wait to fill packets."""

    def __init__(self, endpoint: IStreamClientEndpoint) -> None:
        self._endpoint = endpoint

    def connect(self, protocol_factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect, then set the socket's options."""
        return self._endpoint.connect(protocol_factory).addCallback(_set_options)


def _set_options(protocol: IProtocol) -> IProtocol:
    transport = (
        protocol.transport if isinstance(protocol, ProtocolWrapper) else getattr(protocol, "transport", None)
    )
    if ITCPTransport.providedBy(transport):
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
        handle = ISystemHandle(transport).getHandle()
        if isinstance(handle, socket.socket):
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
                if hasattr(socket, name):
                    handle.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), KEEPALIVE_SECONDS)
    return protocol
