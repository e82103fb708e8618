"""The promises of mgw.upstream.tls that need no network."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport

from mgw.upstream import tls
from mgw.upstream.dial import Dialler, EndpointDialler
from mgw.upstream.tls import CertificateNameError, TlsDialler, client_context, describe_tls_error
from tests.support.certificates import authority


def tcp() -> Dialler:
    return EndpointDialler(HostnameEndpoint(MemoryReactorClock(), "api.example.com", 443))


def names_in(context: ssl.SSLContext) -> list[Any]:  # Any: typeshed's shape of a name is wider
    """Return the common names of those whom a context trusts."""
    subjects: list[Any] = [each["subject"] for each in context.get_ca_certs()]
    return [value for subject in subjects for ((name, value),) in subject if name == "commonName"]


def chain_error(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.verify_code = code
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    return error


def tls_error(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, "canary")
    error.reason = reason  # type: ignore[assignment]  # typeshed knows of no error without a reason
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (chain_error(10), "is not trusted: its certificate has expired"),
        (chain_error(18), "is not trusted: its certificate is not signed by a trusted authority"),
        (chain_error(19), "is not trusted: its certificate is not signed by a trusted authority"),
        (chain_error(20), "is not trusted: its certificate is not signed by a trusted authority"),
        (chain_error(23), "is not trusted: its certificate was revoked"),
        (chain_error(9), "failed the TLS handshake: certificate verify failed"),
        (tls_error("WRONG_VERSION_NUMBER"), "failed the TLS handshake: wrong version number"),
        (tls_error(None), "failed the TLS handshake: closed by the other side"),
        (CertificateNameError("that is not valid"), "has a certificate that is not valid"),
    ],
)
def test_a_failed_handshake_is_told_in_plain_words(
    error: ssl.SSLError | CertificateNameError, words: str
) -> None:
    assert describe_tls_error(error) == words


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "ex ample", ""])
def test_a_name_that_cannot_be_sent_is_refused_when_the_endpoint_is_built(host: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the libraries' own texts
        TlsDialler(tcp(), host, None)


@pytest.mark.parametrize("host", ["my_service", "api.example.com", "192.0.2.1", "2001:db8::1"])
def test_names_with_an_underscore_and_addresses_are_taken(host: str) -> None:
    TlsDialler(tcp(), host, None)


def test_all_who_trust_the_systems_authorities_share_a_context(tmp_path: Path) -> None:
    assert client_context(None) is client_context(None)
    ca_file = str(authority(tmp_path).ca_file)
    assert client_context(ca_file) is not client_context(ca_file)


def test_the_systems_authorities_are_read_for_the_first_handshake() -> None:
    tls._system_context.cache_clear()
    dialler = TlsDialler(tcp(), "api.example.com", None)
    tls.renew_authorities()
    assert tls._system_context.cache_info().currsize == 0
    dialler.build_transport(Protocol()).makeConnection(StringTransport())
    assert tls._system_context.cache_info().currsize == 1


def test_a_ca_file_replaces_the_systems_authorities(tmp_path: Path) -> None:
    ca = authority(tmp_path, "Our own")
    assert names_in(client_context(str(ca.ca_file))) == ["Our own"]


def test_the_systems_authorities_are_where_the_environment_says_and_read_again_when_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = authority(tmp_path, "One"), authority(tmp_path, "Two")
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(one.ca_file.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "nowhere"))
    assert names_in(client_context(None)) == ["One"]
    bundle.write_bytes(two.ca_file.read_bytes())
    os.utime(bundle, (1, 1))
    assert names_in(client_context(None)) == ["Two"]


def test_where_openssl_was_built_for_another_system_the_usual_files_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = authority(tmp_path, "The system's")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    found: Any = ssl.get_default_verify_paths()  # Any: typeshed says that the system's file is always there
    found = found._replace(cafile=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: found)
    monkeypatch.setattr(tls, "_BUNDLES", (str(tmp_path / "absent.pem"), str(ca.ca_file)))
    assert "The system's" in names_in(client_context(None))


def test_a_context_is_as_strict_as_the_contract_says() -> None:
    context = client_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    weak = ("NULL", "RC4", "DES", "MD5", "EXP", "ADH", "AECDH")
    assert not [each["name"] for each in context.get_ciphers() if any(word in each["name"] for word in weak)]
