"""TLS for the listener; its certificate can be renewed without a restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec import Struct
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator, IProtocolFactory, IReactorTime
from twisted.internet.ssl import CertificateOptions, TLSVersion
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from zope.interface import implementer

from mgw.config.file_faults import unreadable
from mgw.config.quoting import redact
from mgw.config.settings import TlsSettings
from mgw.reactor.regular_file import MAX_CERTIFICATE_FILE, read_regular_file


@implementer(IOpenSSLServerConnectionCreator)
@dataclass(slots=True)
class RenewableCertificate:
    """TLS 1.2 or newer, for connections as of the last :meth:`renew`."""

    _current: Certificate = field(repr=False)

    @property
    def expires(self) -> float:
        """Unix seconds at which the certificate ends."""
        return self._current.expires

    def renew(self, certificate: Certificate) -> None:
        """Show another one to whoever connects from now on."""
        self._current = certificate

    def serverConnectionForTLS(
        self,
        protocol: TLSMemoryBIOProtocol,  # noqa: ARG002  the interface's
    ) -> SSL.Connection:
        """Return the TLS state of a new connection."""
        return SSL.Connection(self._current.context, None)


class Certificate(Struct, frozen=True):
    """A certificate with its key, ready for use."""

    context: SSL.Context
    expires: float
    """Unix seconds at which it ends."""

    @classmethod
    def read(cls, files: TlsSettings) -> Certificate:
        """Read certificate and key, and the authorities of clients; this blocks.

        :raises ValueError: a file cannot be read or does not hold what it should, or the two are no pair; a
            line for each.
        """
        chain, no_chain = _read("tls.cert_file", files.cert_file, x509.load_pem_x509_certificates)
        key, no_key = _read("tls.key_file", files.key_file, _private_key)
        authorities, no_authorities = _read_authorities(files.client_ca)
        if chain is None or key is None or no_authorities:
            raise ValueError("\n".join(filter(None, (no_chain, no_key, no_authorities))))
        if key.public_key() != chain[0].public_key():
            raise ValueError(
                f"tls: the key in {redact(files.key_file)} does not belong to the certificate in "
                f"{redact(files.cert_file)}"
            )
        first, *others = [crypto.X509.from_cryptography(certificate) for certificate in chain]
        options = CertificateOptions(
            privateKey=crypto.PKey.from_cryptography_key(key),  # type: ignore[arg-type]  # a wrong kind is refused there
            certificate=first,
            extraCertChain=others,
            raiseMinimumTo=TLSVersion.TLSv1_2,
            acceptableProtocols=[b"http/1.1"],
        )
        try:
            context = options.getContext()
        except SSL.Error as error:  # a key that OpenSSL deems too weak
            raise ValueError(f"tls: OpenSSL rejects {redact(files.cert_file)}: {_reasons(error)}") from None
        if authorities:
            _demand_certificates(context, authorities)
        return cls(context, chain[0].not_valid_after_utc.timestamp())


def _demand_certificates(context: SSL.Context, authorities: Sequence[x509.Certificate]) -> None:
    """Have connections fail of clients without a certificate that chains to one of these.

    There is no callback: OpenSSL alone decides, and one that raises could let a client in.
    """
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
    store = context.get_cert_store()
    assert store is not None, "every context has one"
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # an authority in the file need not be a root
    known = [crypto.X509.from_cryptography(authority) for authority in authorities]
    for authority in known:
        store.add_cert(authority)
    context.set_client_ca_list([authority.get_subject() for authority in known])


T = TypeVar("T")


def _read_authorities(path: str | None) -> tuple[Sequence[x509.Certificate], str]:
    """Return the authorities of clients, if there are to be any, or why they are of no use."""
    if path is None:
        return (), ""
    found, reason = _read("tls.client_ca", path, x509.load_pem_x509_certificates)
    return found or (), reason


def _read(setting: str, path: str, load: Callable[[bytes], T]) -> tuple[T | None, str]:
    """Return what is in a file, or why it is of no use."""
    content = b""
    try:
        content = read_regular_file(path, MAX_CERTIFICATE_FILE)
        return load(content), ""
    except OSError as error:
        return None, f"{setting}: {unreadable(path, error)}"
    except (ValueError, TypeError, UnsupportedAlgorithm):
        is_key = load is _private_key
        expected = "PEM key without a passphrase" if is_key else "PEM certificate"
        swapped = "" if setting == "tls.client_ca" else _swapped(content, is_key=is_key)
        return None, f"{setting}: {redact(path)} contains no {expected}{swapped}"


def _swapped(content: bytes, *, is_key: bool) -> str:
    """Say so where a file holds what the other of the two should hold."""
    has_key, has_certificate = b"PRIVATE KEY-----" in content, b"-----BEGIN CERTIFICATE-----" in content
    if has_key is has_certificate or has_key is is_key:
        return ""
    return f", but a {'key' if has_key else 'certificate'}: are cert_file and key_file swapped?"


def _private_key(content: bytes) -> PrivateKeyTypes:
    return load_pem_private_key(content, password=None)


def _reasons(error: SSL.Error) -> str:
    return ", ".join(str(reason) for _, _, reason in error.args[0])


def with_tls(
    factory: IProtocolFactory, certificate: RenewableCertificate, clock: IReactorTime
) -> TLSMemoryBIOFactory:
    """Return the factory behind TLS."""
    return TLSMemoryBIOFactory(certificate, False, factory, clock=clock)  # noqa: FBT003  Twisted's signature
