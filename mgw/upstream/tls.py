"""Whom we trust under TLS: a provider whose certificate is good in its chain and in its name.

TLS 1.2 or newer with the system's roots is the rule (contract 2.9).  A certificate is always checked
against the host of the base address, name or IP address (RFC 9110 4.3.4), and every doubt refuses: Twisted's
own check lets a certificate pass whose names it cannot read, as its callback knows one kind of exception
only, so the check here takes its place and says yes only where it came to its end.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography.x509 import load_pem_x509_certificates
from OpenSSL.crypto import X509
from OpenSSL.SSL import SSL_CB_WRITE_ALERT, VERIFY_FAIL_IF_NO_PEER_CERT, VERIFY_PEER
from OpenSSL.SSL import Connection as TlsConnection
from service_identity import VerificationError
from service_identity.hazmat import DNS_ID, IPAddress_ID, verify_service_identity
from service_identity.pyopenssl import extract_patterns
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import (
    Certificate,
    TLSVersion,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

_ALERTS: Final = {
    44: "was revoked",
    45: "has expired",
    48: "is not signed by a trusted authority",
}  # RFC 8446 6.2


class CertificateRefusedError(Exception):
    """Our own side refused the certificate; the text says why, after "its certificate"."""


class CertificateNameError(Exception):
    """The certificate is not one for this host, or cannot be read so; says why, after "a certificate"."""


def tls_creator(host: str, ca_file: str | None) -> IOpenSSLClientConnectionCreator:
    """Return what makes the TLS side of connections to ``host``; ``ca_file`` is read now.

    :raises OSError: ``ca_file`` cannot be read.
    :raises ValueError: ``ca_file`` holds no certificate.
    """
    return _Checking(_options(host, ca_file), host)


def _options(host: str, ca_file: str | None) -> IOpenSSLClientConnectionCreator:
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
class _Checking:
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

        def noticed(_: TlsConnection, where: int, code: int) -> None:
            words = _ALERTS.get(code & 0xFF)
            if where & SSL_CB_WRITE_ALERT == SSL_CB_WRITE_ALERT and words is not None:
                tls.failVerification(Failure(CertificateRefusedError(words)))

        def verified(_: TlsConnection, certificate: X509, __: int, depth: int, chain_is_good: int) -> bool:
            if not chain_is_good:
                return False
            if depth:
                return True  # the name is the leaf's
            doubt = _doubt_about(certificate, identity)
            if doubt is None:
                return True
            tls.failVerification(Failure(CertificateNameError(doubt)))
            return False

        connection.set_info_callback(noticed)
        connection.set_verify(VERIFY_PEER | VERIFY_FAIL_IF_NO_PEER_CERT, verified)
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


def _doubt_about(certificate: X509, identity: DNS_ID | IPAddress_ID) -> str | None:
    """Say why a certificate cannot be taken for that of ``identity``; ``None`` where it can."""
    try:
        matches = verify_service_identity(extract_patterns(certificate), [identity], [])
    except VerificationError:
        return "that is not valid for its host name"
    except Exception:  # no names at all, one that cannot be read, a bug in the library: all the same to us
        return "whose names (subjectAltName) are missing or cannot be read"
    return None if matches else "that is not valid for its host name"
