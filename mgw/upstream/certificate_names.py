"""Whether a provider's certificate is one for its host (RFC 9525)."""

from __future__ import annotations

from ipaddress import ip_address

from cryptography.x509 import load_der_x509_certificate

from mgw.reactor.lean_start import without_openssl

with without_openssl():  # it has a part for those who use that
    from service_identity import VerificationError
    from service_identity.cryptography import extract_patterns
    from service_identity.hazmat import DNS_ID, IPAddress_ID, verify_service_identity


def is_name(host: str) -> bool:
    """Return whether a host is a name that a certificate can have, and no address.

    :raises ValueError: ``host`` is neither an address nor a name.
    """
    return isinstance(_identity_of(host), DNS_ID)


def find_name_problem(certificate: bytes | None, host: str) -> str | None:
    """Say why a certificate (DER) cannot be taken for that of ``host``; ``None`` where it can."""
    try:
        assert certificate is not None
        patterns = extract_patterns(load_der_x509_certificate(certificate))
        matches = verify_service_identity(patterns, [_identity_of(host)], [])
    except VerificationError:
        return "that is not valid for its host name"
    except Exception:
        # Not VerificationError alone: a certificate without names, or with one that cannot be read (``*``),
        # raises CertificateError, and the handshake would go on with nobody's name checked.
        return "without readable names (subjectAltName)"
    return None if matches else "that is not valid for its host name"


def _identity_of(host: str) -> DNS_ID | IPAddress_ID:
    """Return what a certificate must say.

    :raises ValueError: ``host`` is neither an address nor a name.
    """
    try:
        ip_address(host)
    except ValueError:
        return DNS_ID(host)
    return IPAddress_ID(host)
