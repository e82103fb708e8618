"""Listeners that take only clients with a certificate of their own (``tls.client_ca``)."""

from __future__ import annotations

import shutil
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mgw.cli.gateway_address import KEY_ENV
from tests.sockets.test_reload import refused_reload, reload
from tests.sockets.test_tail import Tail, tailing
from tests.support.certificates import Authority, Issued, authority, issue
from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, request
from tests.support.waiting import wait_until

OPTIONS: Final = ("--client-cert", "--client-key")
DASHBOARD_KEY: Final = "canary-dashboard-key"
PATHS: Final = ("/healthz", "/v1/models", "/metrics", "/ui")
SERVED: Final = b"HTTP/1.1 "
VERSIONS: Final = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Parties:
    """Who has certificates: the listener, and authorities of clients."""

    def __init__(self, folder: Path) -> None:
        self.server = authority(folder)
        self.files = issue(self.server, "localhost", "127.0.0.1")
        self.clients = authority(folder, "Clients")
        self.others = authority(folder, "Others")
        self.client_ca = folder / "client-ca.pem"
        shutil.copy(self.clients.ca_file, self.client_ca)

    @property
    def text(self) -> str:
        """A configuration of a gateway that demands certificates."""
        files = f"cert_file: {self.files.cert_file}, key_file: {self.files.key_file}"
        tls = f"tls: {{{files}, client_ca: {self.client_ca}}}"
        keys = f"dashboard: {{keys: [{DASHBOARD_KEY}]}}\n"
        return f"providers: {{main: {{kind: openai}}}}\n{tls}\nlisten: 127.0.0.1:0\n{keys}"

    def url(self, gateway: GatewayProcess) -> str:
        """Where commands reach a gateway."""
        return f"https://localhost:{gateway.port}"

    def trust(self) -> dict[str, str]:
        """Return variables by which OpenSSL trusts the listener."""
        return {"SSL_CERT_FILE": str(self.server.ca_file), KEY_ENV: DASHBOARD_KEY}

    def status(
        self,
        gateway: GatewayProcess,
        own: Issued | None,
        path: str = "/healthz",
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ) -> int | None:
        """Return what a client gets that shows this certificate; ``None``: no connection."""
        context = ssl.create_default_context(cafile=str(self.server.ca_file))
        context.minimum_version = context.maximum_version = version
        if own is not None:
            context.load_cert_chain(own.cert_file, own.key_file)
        with RawClient(gateway.port) as client:
            try:
                with context.wrap_socket(client.socket, server_hostname="localhost") as tls:
                    tls.sendall(request(None, path=path, method="GET"))
                    answer = tls.recv(100)
            except (ssl.SSLError, ConnectionError):
                return None
        assert answer.startswith(SERVED), answer
        return int(answer.split(b" ")[1])


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return Parties(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def gateway(parties: Parties) -> Iterator[GatewayProcess]:
    with start_gateway(parties.text) as process:
        yield process


def owned(by: Authority, name: str, days: int = 1) -> Issued:
    return issue(by, name, days=days)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_with_a_certificate_of_the_authority_is_served(
    gateway: GatewayProcess, parties: Parties, version: ssl.TLSVersion
) -> None:
    own = owned(parties.clients, "alice.example")
    assert parties.status(gateway, own, version=version) == 200
    assert parties.status(gateway, own, "/nothing", version) == 404


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", PATHS)
def test_a_client_without_one_reaches_no_path(
    gateway: GatewayProcess, parties: Parties, path: str, version: ssl.TLSVersion
) -> None:
    assert parties.status(gateway, None, path, version) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", ["another authority", "the listener's authority", "expired"])
def test_any_other_certificate_is_none(
    gateway: GatewayProcess, parties: Parties, case: str, version: ssl.TLSVersion
) -> None:
    own = {
        "another authority": owned(parties.others, "mallory.example"),
        "the listener's authority": parties.files,
        "expired": owned(parties.clients, "late.example", days=-1),
    }[case]
    assert parties.status(gateway, own, version=version) is None


def test_a_refused_client_is_no_bug_in_the_log(gateway: GatewayProcess, parties: Parties) -> None:
    assert parties.status(gateway, None) is None
    assert parties.status(gateway, owned(parties.clients, "alice.example")) == 200
    assert b"Traceback" not in gateway.log(b"serves")


@pytest.mark.parametrize("workers", ["", "workers: 2\n"], ids=["one process", "workers"])
def test_a_reload_renews_the_authorities_and_one_that_is_broken_changes_nothing(
    tmp_path: Path, workers: str
) -> None:
    parties = Parties(tmp_path)
    before, after = owned(parties.clients, "alice.example"), owned(parties.others, "bob.example")
    text = parties.text + workers
    with start_gateway(text) as gateway:
        assert (parties.status(gateway, before), parties.status(gateway, after)) == (200, None)
        shutil.copy(parties.others.ca_file, parties.client_ca)
        reload(gateway, text)
        assert (parties.status(gateway, before), parties.status(gateway, after)) == (None, 200)
        parties.client_ca.write_text("no certificate")
        log = refused_reload(gateway, text)
        assert f"tls.client_ca: {parties.client_ca} contains no PEM certificate" in log
        assert (parties.status(gateway, before), parties.status(gateway, after)) == (None, 200)


def test_what_is_in_the_file_need_not_be_a_root(tmp_path: Path) -> None:
    parties = Parties(tmp_path)
    own, other = owned(parties.clients, "alice.example"), owned(parties.clients, "bob.example")
    shutil.copy(own.cert_file, parties.client_ca)
    with start_gateway(parties.text) as gateway:
        assert (parties.status(gateway, own), parties.status(gateway, other)) == (200, None)


def test_commands_show_a_certificate_to_the_gateway(gateway: GatewayProcess, parties: Parties) -> None:
    own, environ = owned(parties.clients, "operator.example"), parties.trust()
    both = own.cert_file.with_suffix(".pem")
    both.write_bytes(own.key_file.read_bytes() + own.cert_file.read_bytes())
    for files in (["--client-cert", own.cert_file, "--client-key", own.key_file], ["--client-cert", both]):
        shown = list(map(str, files))
        done = run_mgw(["requests", "--url", parties.url(gateway), *shown], environ=environ)
        assert (done.returncode, done.stderr) == (0, b"no requests yet\n")
        with tailing("--url", parties.url(gateway), "--kinds", "log", *shown, **environ) as tail:
            wait_until(lambda: has_reloaded(tail, gateway), "a line of the log")
        assert b"reload" in tail.stdout.data


@pytest.mark.parametrize("command", ["requests", "tail"])
def test_commands_say_what_is_wrong_with_a_certificate(
    gateway: GatewayProcess, parties: Parties, command: str, tmp_path: Path
) -> None:
    own, other = owned(parties.clients, "operator.example"), owned(parties.others, "mallory.example")
    late = owned(parties.clients, "late.example", days=-1)
    locked = tmp_path / "locked.key"
    locked.write_bytes(locked_key(own.key_file.read_bytes()))
    url, nowhere = parties.url(gateway), str(tmp_path / "nothing.pem")
    wrong: list[tuple[str, list[object], int, str]] = [
        (url, [], 1, "accepts only clients with a certificate: name one with --client-cert"),
        (url, [other.cert_file, other.key_file], 1, "rejects this client certificate"),
        (url, [late.cert_file, late.key_file], 1, "rejects this client certificate"),
        (url, [own.cert_file, other.key_file], 2, "--client-cert: this is not the key of the certificate"),
        (url, [own.cert_file], 2, "--client-cert: expected a certificate and its private key in PEM"),
        (url, [own.cert_file, locked], 2, "--client-cert: its key has a passphrase"),
        (url, [own.cert_file, nowhere], 2, f"--client-cert: file not found: {nowhere}"),
        (url.replace("https", "http"), [own.cert_file, own.key_file], 2, "only with an address that begins"),
    ]
    for address, files, status, words in wrong:
        options = [str(word) for pair in zip(OPTIONS, files, strict=False) for word in pair]
        done = run_mgw([command, "--url", address, *options], environ=parties.trust())
        assert words in done.stderr.decode()
        assert (done.returncode, done.stdout) == (status, b"")
    done = run_mgw([command, "--url", url, "--client-key", nowhere], environ=parties.trust())
    assert (done.returncode, b"name its certificate" in done.stderr) == (2, True)


def has_reloaded(tail: Tail, gateway: GatewayProcess) -> bool:
    """Whether the command has printed a line; until then, give the gateway something to log."""
    if not tail.stdout.data:
        gateway.signal(signal.SIGHUP)
    return bool(tail.stdout.data)


def locked_key(pem: bytes) -> bytes:
    """Return a private key with a passphrase."""
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
