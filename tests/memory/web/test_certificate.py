"""The certificate of the listener says when it ends, and a new one replaces it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mgw.config.settings import TlsSettings
from mgw.web.tls import Certificate, RenewableCertificate
from tests.support.certificates import authority, issue

DAY = timedelta(days=1).total_seconds()


def test_the_end_is_that_of_the_certificate_in_use(tmp_path: Path) -> None:
    by = authority(tmp_path)
    now = datetime.now(UTC).timestamp()
    files = []
    for days in (1, 30):
        issued = issue(by, f"{days}.example", days=days)
        files.append(TlsSettings(cert_file=str(issued.cert_file), key_file=str(issued.key_file)))
    certificate = RenewableCertificate(Certificate.read(files[0]))
    assert certificate.expires == pytest.approx(now + DAY, abs=DAY / 2)
    certificate.renew(Certificate.read(files[1]))
    assert certificate.expires == pytest.approx(now + 30 * DAY, abs=DAY / 2)
    os.mkfifo(tmp_path / "pipe")
    piped = files[0].model_copy(update={"key_file": str(tmp_path / "pipe")})
    with pytest.raises(ValueError, match=r"^tls\.key_file: .* cannot be read: not a regular file$"):
        Certificate.read(piped)
    broken = files[0].model_copy(update={"key_file": files[1].key_file})
    with pytest.raises(ValueError, match="does not belong"):
        Certificate.read(broken)
    assert certificate.expires == pytest.approx(now + 30 * DAY, abs=DAY / 2)


def test_files_that_are_swapped_or_missing_are_both_told(tmp_path: Path) -> None:
    issued = issue(authority(tmp_path), "a.example", days=1)
    cert, key = issued.cert_file, issued.key_file
    with pytest.raises(ValueError, match=r"^tls\.cert_file") as refusal:
        Certificate.read(TlsSettings(cert_file=str(key), key_file=str(cert)))
    swapped = "are cert_file and key_file swapped?"
    assert str(refusal.value).splitlines() == [
        f"tls.cert_file: {key} contains no PEM certificate, but a key: {swapped}",
        f"tls.key_file: {cert} contains no PEM key without a passphrase, but a certificate: {swapped}",
    ]
    with pytest.raises(ValueError, match=r"^tls\.cert_file") as refusal:
        Certificate.read(
            TlsSettings(cert_file="/no/cert.pem", key_file="/no/key.pem", client_ca="/no/ca.pem")
        )
    *told, authorities = str(refusal.value).splitlines()
    assert authorities == "tls.client_ca: file not found: /no/ca.pem (folder /no does not exist)"
    assert told == [
        "tls.cert_file: file not found: /no/cert.pem (folder /no does not exist)",
        "tls.key_file: file not found: /no/key.pem (folder /no does not exist)",
    ]
