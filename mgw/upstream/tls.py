"""TLS to providers: trust, certificates, and clear messages for failures.

TLS 1.2 or newer; the certificate's chain and its names are both checked, and any doubt refuses (contract
2.9).  OpenSSL checks the chain in the handshake, and we the names right behind it (RFC 9525), before the
protocol may write: see :mod:`mgw.upstream.certificate_names`, which the first handshake imports, since it
brings cryptography (80 ms and 9 MiB).

The system's authorities are read for the first handshake, and again where their file has changed: a hundred
and more of them cost 30 ms and hundreds of KiB, so all providers share them.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from ssl import MemoryBIO, SSLCertVerificationError, SSLContext, SSLError, SSLObject
from typing import Any, Final

from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory
from twisted.internet.protocol import Factory

from mgw.config.file_faults import unreadable
from mgw.config.quoting import redact
from mgw.reactor.regular_file import MAX_CERTIFICATE_FILE, read_regular_file
from mgw.reactor.twisted_fast.tls_transport import TlsTransport
from mgw.upstream.dial import Attempt, Dialler

_CIPHERS: Final = (
    "ECDH+AESGCM:ECDH+CHACHA20:DH+AESGCM:DH+CHACHA20:ECDH+AES256:DH+AES256:ECDH+AES128:DH+AES:"
    "RSA+AESGCM:RSA+AES:!aNULL:!MD5:!DSS"
)
"""The ciphers of TLS 1.2: Twisted's choice, wider than Python's, for providers behind old proxies."""
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # RHEL 7
)
"""Files in which systems keep their authorities, for a Python whose OpenSSL was built for another system."""
_NOT_TRUSTED: Final = frozenset({2, 18, 19, 20, 21, 22, 24, 25, 79})
_EXPIRED: Final = frozenset({10, 12})
_REVOKED: Final = 23
"""OpenSSL's codes of errors (x509_vfy.h), grouped by the alerts that it sends for them (RFC 8446 6.2)."""
_PLAIN_NAME: Final = re.compile(r"[0-9._-]*[A-Za-z][A-Za-z0-9._-]*")
"""A name that a certificate can have, beyond doubt: with a letter it is no address in any notation."""


class CertificateNameError(Exception):
    """The certificate is not one for this host, or cannot be read so; says why, after "a certificate"."""


class TlsDialler:
    """Speaks TLS with ``host`` over the connections of ``tcp``.

    :param context: whom it trusts (:func:`client_context`); ``None``: the system's authorities.
    :raises ValueError: ``host`` is neither an address nor a name.
    """

    def __init__(self, tcp: Dialler, host: str, context: SSLContext | None = None) -> None:
        self.tcp = tcp
        self._host = host
        # RFC 6066 3: SNI holds no address.  ``host`` is ``::1`` without brackets: with them it is no address.
        self._server_name = host if _is_name(host) else None
        self._context = context
        # A name that cannot be sent is refused now, and the authorities are read when they are needed.
        (context or _empty_context()).wrap_bio(MemoryBIO(), MemoryBIO(), server_hostname=self._server_name)

    def dial(
        self,
        factory: IProtocolFactory,
        on_connected: Callable[[IProtocol], None],
        on_failed: Callable[[Exception], None],
    ) -> Attempt:
        """Dial as :class:`mgw.upstream.dial.Dialler` says."""

        def on_tcp_connected(transport: Any) -> None:  # Any: ours, since our factory makes it
            on_connected(transport.protocol)

        return self.tcp.dial(_TlsFactory(self, factory), on_tcp_connected, on_failed)

    def build_transport(self, protocol: IProtocol) -> TlsTransport:
        """Return a new connection's TLS side."""
        return TlsTransport(protocol, self._begin_tls, self._check_certificate)

    def _begin_tls(self, incoming: MemoryBIO, outgoing: MemoryBIO) -> SSLObject:
        if self._context is None:
            self._context = client_context(None)
        return self._context.wrap_bio(incoming, outgoing, server_hostname=self._server_name)

    def _check_certificate(self, certificate: bytes | None) -> CertificateNameError | None:
        from mgw.upstream.certificate_names import find_name_problem  # here: see above

        problem = find_name_problem(certificate, self._host)
        return None if problem is None else CertificateNameError(problem)


class _TlsFactory(Factory):
    """Puts TLS below the protocols of another factory."""

    noisy = False

    def __init__(self, endpoint: TlsDialler, above: IProtocolFactory) -> None:
        self._endpoint = endpoint
        self._above = above

    def buildProtocol(self, addr: IAddress | None) -> TlsTransport | None:  # type: ignore[override]  # any IProtocol will do
        """Return the TLS side of a new connection."""
        protocol = self._above.buildProtocol(addr)  # type: ignore[arg-type]  # Twisted's endpoints pass None
        return None if protocol is None else self._endpoint.build_transport(protocol)


def describe_tls_error(error: SSLError | CertificateNameError) -> str:
    """Return what a failed handshake means, in words that follow the provider's name.

    What they hold of OpenSSL's are constants of the library, and nothing of the traffic.
    """
    if isinstance(error, CertificateNameError):
        return f"has a certificate {error}"
    if isinstance(error, SSLCertVerificationError):
        code = error.verify_code
        if code in _EXPIRED:
            return "is not trusted: its certificate has expired"
        if code == _REVOKED:
            return "is not trusted: its certificate was revoked"
        if code in _NOT_TRUSTED:
            return "is not trusted: its certificate is not signed by a trusted authority"
    reason = error.reason or "CLOSED_BY_THE_OTHER_SIDE"
    return f"failed the TLS handshake: {reason.replace('_', ' ').lower()}"


def client_context(ca_file: str | None) -> SSLContext:
    """Return what TLS towards a provider is spoken with: one for all that trust the system's authorities.

    :raises OSError: ``ca_file`` cannot be read.
    :raises ValueError: ``ca_file`` holds no certificate.
    """
    if ca_file is None:
        return _system_context(*_system_bundle())
    from cryptography.hazmat.primitives.serialization import Encoding  # here: see above
    from cryptography.x509 import load_pem_x509_certificates

    certificates = load_pem_x509_certificates(read_regular_file(ca_file, MAX_CERTIFICATE_FILE))
    context = _context_without_authorities()
    try:
        context.load_verify_locations(
            cadata=b"".join(each.public_bytes(Encoding.DER) for each in certificates)
        )
    except SSLError as error:  # an OSError, though the file was read
        raise ValueError(error.reason) from None
    return context


def renew_authorities() -> None:
    """Read the system's authorities where somebody has used them and their file has changed; this blocks."""
    if _system_context.cache_info().currsize:
        client_context(None)


def read_authorities(file: str) -> SSLContext:
    """Return a context that trusts the authorities in a file.

    :raises ValueError: they cannot be read.
    """
    try:
        return client_context(file)
    except OSError as error:
        reason = unreadable(file, error)
    except ValueError:
        reason = f"{redact(file)} contains no PEM certificate"
    raise ValueError(reason)


def _system_bundle() -> tuple[str | None, int]:
    """Return the file of the system's authorities, and when it was changed."""
    found = ssl.get_default_verify_paths()
    bundle = found.cafile
    if bundle is None and not {found.openssl_cafile_env, found.openssl_capath_env} & os.environ.keys():
        bundle = next(filter(os.path.isfile, _BUNDLES), None)
    return bundle, 0 if bundle is None else os.stat(bundle).st_mtime_ns


@lru_cache(maxsize=1)
def _empty_context() -> SSLContext:
    context = SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # or a name would be needed
    return context


@lru_cache(maxsize=1)
def _system_context(bundle: str | None, _: int) -> SSLContext:
    context = _context_without_authorities()
    context.load_default_certs()  # which heeds SSL_CERT_FILE and SSL_CERT_DIR
    if bundle is not None and bundle != ssl.get_default_verify_paths().cafile:
        with suppress(SSLError):  # of no use, as OpenSSL takes its own
            context.load_verify_locations(bundle)
    return context


def _context_without_authorities() -> SSLContext:
    context = SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # see find_name_problem, which is stricter
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET  # no session is resumed
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _is_name(host: str) -> bool:
    """Whether a certificate must have a name, in place of an address.

    :raises ValueError: ``host`` is neither an address nor a name.
    """
    if _PLAIN_NAME.fullmatch(host):
        return True
    from mgw.upstream.certificate_names import is_name  # here: see above

    return is_name(host)
