"""TLS for the listener, whose certificate can be renewed without a restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator, IProtocolFactory, IReactorTime
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from zope.interface import implementer

from mgw.config.model import Tls


@implementer(IOpenSSLServerConnectionCreator)
@dataclass(slots=True)
class RenewableCertificate:
    """TLS 1.2 or newer, for connections as of the last :meth:`renew`."""

    files: Tls
    _context: SSL.Context = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.renew(self.files)

    def renew(self, files: Tls) -> None:
        """Read certificate and key again; where that fails, the old ones stay.

        :raises OSError: a file cannot be read.
        :raises ValueError: a file does not hold what it should, or the two are no pair.
        """
        chain = load_pem_x509_certificates(Path(files.cert_file).read_bytes())
        key = load_pem_private_key(Path(files.key_file).read_bytes(), password=None)
        if key.public_key() != chain[0].public_key():
            raise ValueError(
                f"the key in {files.key_file} is not that of the certificate in {files.cert_file}"
            )
        first, *others = [crypto.X509.from_cryptography(certificate) for certificate in chain]
        options = CertificateOptions(
            privateKey=crypto.PKey.from_cryptography_key(key),  # type: ignore[arg-type]  # a wrong kind is refused there
            certificate=first,
            extraCertChain=others,
            raiseMinimumTo=TLSVersion.TLSv1_2,
            acceptableProtocols=[b"http/1.1"],
        )
        self._context = options.getContext()
        self.files = files

    def serverConnectionForTLS(
        self,
        protocol: TLSMemoryBIOProtocol,  # noqa: ARG002  the interface's
    ) -> SSL.Connection:
        """Return the TLS state of a new connection."""
        return SSL.Connection(self._context, None)


def with_tls(
    factory: IProtocolFactory, certificate: RenewableCertificate, clock: IReactorTime
) -> TLSMemoryBIOFactory:
    """Return the factory behind TLS."""
    return TLSMemoryBIOFactory(certificate, False, factory, clock=clock)  # noqa: FBT003  Twisted's signature
