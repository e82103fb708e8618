"""How a provider is reached: names, TCP, TLS, and plain words for what went wrong.

TCP keep-alive begins after 30 s (contract 2.10); what TLS checks is in :mod:`mgw.upstream.connect`.
Made for HTTP and WebSocket both: an endpoint says nothing of what is spoken over it.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cryptography.x509 import load_pem_x509_certificates
from OpenSSL.crypto import X509
from OpenSSL.SSL import SSL_CB_WRITE_ALERT, VERIFY_FAIL_IF_NO_PEER_CERT, VERIFY_PEER, Error
from OpenSSL.SSL import Connection as TlsConnection
from service_identity import VerificationError
from service_identity.hazmat import DNS_ID, IPAddress_ID, verify_service_identity
from service_identity.pyopenssl import extract_patterns
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectionClosed, DNSLookupError, NoRouteError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as TcpTimedOut
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IStreamClientEndpoint,
    ISystemHandle,
    ITCPTransport,
)
from twisted.internet.ssl import (
    Certificate,
    TLSVersion,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.errors import Cause
from mgw.upstream.address import Address
from mgw.upstream.failure import Phase, UpstreamFailure, upstream_broken, upstream_too_slow

KEEPALIVE_SECONDS: Final = 30
ATTEMPT_SECONDS: Final = 0.1
"""Between the attempts at two addresses of one name: the least that RFC 8305 5 recommends, since Twisted
waits it out even where the first address refuses at once, as ``::1`` of ``localhost`` often does."""
_ALERTS: Final = {
    44: "was revoked",
    45: "has expired",
    48: "is not signed by a trusted authority",
}  # RFC 8446 6.2


class CertificateRefusedError(Exception):
    """Our own side refused the certificate; the text says why, after "its certificate"."""


class CertificateNameError(Exception):
    """The certificate is not one for this host, or cannot be read so; says why, after "a certificate"."""


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
    tcp = _KeepAliveEndpoint(_tcp_endpoint(address, reactor))
    if not address.secure:
        return tcp
    return wrapClientTLS(_tls_connection_creator(address.host, ca_file), tcp, clock=reactor)


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
        case CertificateNameError():
            return f"has a certificate {error}", Cause.TLS
        case CertificateRefusedError():
            return f"is not trusted: its certificate {error}", Cause.TLS
        case Error():
            return f"failed the TLS handshake: {_reasons(error)}", Cause.TLS
        case ValueError():
            return "has a host name that is not valid", Cause.DNS
        case ConnectionClosed():
            return "closed the connection before it could be used", Cause.RESET
        case _:
            return "could not be connected to", Cause.REFUSED_CONNECTION


def _reasons(error: Error) -> str:
    """Return OpenSSL's own words: constants of the library, which hold nothing of the traffic."""
    stack = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return ", ".join(str(entry[-1]) for entry in stack) or "closed by the other side"


def _tcp_endpoint(address: Address, reactor: Any) -> IStreamClientEndpoint:  # Any: as above
    try:
        version = ip_address(address.host).version
    except ValueError:
        if "_" in address.host:
            return _UnderscoreHostEndpoint(reactor, address.host, address.port)
        return HostnameEndpoint(reactor, address.host, address.port, attemptDelay=ATTEMPT_SECONDS)
    kind = TCP4ClientEndpoint if version == 4 else TCP6ClientEndpoint
    endpoint: IStreamClientEndpoint = kind(reactor, address.host, address.port)
    return endpoint


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


@implementer(IStreamClientEndpoint)
class _KeepAliveEndpoint:
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


def _tls_connection_creator(host: str, ca_file: str | None) -> IOpenSSLClientConnectionCreator:
    """Return what makes the TLS side of connections to ``host``; ``ca_file`` is read now.

    :raises OSError: ``ca_file`` cannot be read.
    :raises ValueError: ``ca_file`` holds no certificate.
    """
    return _VerifyingCreator(_twisted_creator(host, ca_file), host)


def _twisted_creator(host: str, ca_file: str | None) -> IOpenSSLClientConnectionCreator:
    roots = platformTrust() if ca_file is None else trustRootFromCertificates(_certificates_in(ca_file))
    return optionsForClientTLS(
        host,
        trustRoot=roots,
        acceptableProtocols=[b"http/1.1"],
        extraCertificateOptions={"raiseMinimumTo": TLSVersion.TLSv1_2},
    )


def _certificates_in(ca_file: str) -> list[Certificate]:
    found = load_pem_x509_certificates(Path(ca_file).read_bytes())
    return [Certificate(X509.from_cryptography(certificate)) for certificate in found]


@implementer(IOpenSSLClientConnectionCreator)
class _VerifyingCreator:
    """Connections as Twisted makes them, with our own check of the name and the cause of a refusal.

    OpenSSL says only "failed"; the alert that it is about to send names the cause (RFC 8446 6.2).
    """

    def __init__(self, options: IOpenSSLClientConnectionCreator, host: str) -> None:
        self._options = options
        self._host = host

    def clientConnectionForTLS(self, tls: TLSMemoryBIOProtocol) -> TlsConnection:
        """Return the connection, ready to verify."""
        identity = _identity_of(self._host)
        connection = self._options.clientConnectionForTLS(tls)

        def on_info(_: TlsConnection, where: int, code: int) -> None:
            words = _ALERTS.get(code & 0xFF)
            if where & SSL_CB_WRITE_ALERT == SSL_CB_WRITE_ALERT and words is not None:
                tls.failVerification(Failure(CertificateRefusedError(words)))

        def on_verify(_: TlsConnection, certificate: X509, __: int, depth: int, chain_is_good: int) -> bool:
            if not chain_is_good:
                return False
            if depth:
                return True  # the name is the leaf's
            problem = _find_name_problem(certificate, identity)
            if problem is None:
                return True
            tls.failVerification(Failure(CertificateNameError(problem)))
            return False

        connection.set_info_callback(on_info)
        connection.set_verify(VERIFY_PEER | VERIFY_FAIL_IF_NO_PEER_CERT, on_verify)
        return connection


def _identity_of(host: str) -> DNS_ID | IPAddress_ID:
    """Return what a certificate must say.

    :raises ValueError: ``host`` is neither an address nor a name.
    """
    try:
        ip_address(host)
    except ValueError:
        return DNS_ID(host)
    return IPAddress_ID(host)


def _find_name_problem(certificate: X509, identity: DNS_ID | IPAddress_ID) -> str | None:
    """Say why a certificate cannot be taken for that of ``identity``; ``None`` where it can."""
    try:
        matches = verify_service_identity(extract_patterns(certificate), [identity], [])
    except VerificationError:
        return "that is not valid for its host name"
    except Exception:  # no names at all, one that cannot be read, a bug in the library: all the same to us
        return "whose names (subjectAltName) are missing or cannot be read"
    return None if matches else "that is not valid for its host name"
