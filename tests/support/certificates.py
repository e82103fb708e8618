"""Certificates for tests with TLS: an authority of our own, and what it issues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, as files (PEM)."""

    cert_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Who issues certificates; ``ca_file`` is what trusts it."""

    folder: Path
    ca_file: Path
    name: x509.Name
    key: EllipticCurvePrivateKey


def authority(folder: Path, name: str = "Test authority") -> Authority:
    """Make an authority whose files are in ``folder``."""
    key = generate_private_key(SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key, key, days=1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
    )
    ca_file = folder / f"{name}.pem".replace(" ", "-")
    ca_file.write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    return Authority(folder, ca_file, subject, key)


def issue(by: Authority, *hosts: str, days: int = 1) -> Issued:
    """Issue a certificate for ``hosts``, names or IP addresses; with negative ``days`` it has expired."""
    return issue_naming(by, hosts[0], [_general_name(host) for host in hosts], days=days)


def issue_naming(
    by: Authority, common_name: str, names: Sequence[x509.GeneralName], *, days: int = 1
) -> Issued:
    """Issue a certificate with exactly these subjectAltNames; for none the extension is not there."""
    key = generate_private_key(SECP256R1())
    builder = _builder(_name(common_name), by.name, key, by.key, days=days)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    stem = f"{common_name}-{days}".replace(":", "_")
    issued = Issued(by.folder / f"{stem}.crt", by.folder / f"{stem}.key")
    issued.cert_file.write_bytes(builder.sign(by.key, SHA256()).public_bytes(Encoding.PEM))
    issued.key_file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return issued


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    signer: EllipticCurvePrivateKey,
    *,
    days: int,
) -> x509.CertificateBuilder:
    """Begin a certificate with what strict verifiers ask for (RFC 5280 4.2.1.1, 4.2.1.2)."""
    now = datetime.now(UTC)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signers = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(own, critical=False)
        .add_extension(signers, critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        return x509.DNSName(host)
    return x509.IPAddress(address)
