"""Where the gateway listens, and how: TLS, IPv6, a UNIX socket, and the words for what cannot be had."""

from __future__ import annotations

import shutil
import socket
import ssl
from pathlib import Path
from typing import Final

import anthropic
import httpx2
import openai
import pytest

from tests.support.certificates import Authority, Issued, issue
from tests.support.fork_server import start_program
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask, start_twistd, twistd, write_config
from tests.support.raw_client import CHAT, Incoming, RawClient, asking, request
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

HEALTH: Final = request(None, path="/healthz", method="GET")


def configuration(simulator: SimulatorProcess, more: str) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
{more}
"""


@pytest.fixture(scope="module")
def files(ca: Authority) -> Issued:
    return issue(ca, "localhost", "127.0.0.1")


def tls_setting(files: Issued) -> str:
    return f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}"


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, files: Issued) -> str:
    return configuration(simulator, tls_setting(files))


def trusting(ca: Authority) -> httpx2.Client:
    return httpx2.Client(verify=ssl.create_default_context(cafile=str(ca.ca_file)))


def test_an_sdk_that_trusts_the_private_authority_completes(gateway: GatewayProcess, ca: Authority) -> None:
    assert gateway.url.startswith("https://")
    gateway.log(f"dashboard at https://127.0.0.1:{gateway.port}/ui\n".encode())
    with trusting(ca) as transport:
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", http_client=transport)
        response = client.chat.completions.create(
            model="gpt-1", messages=[{"role": "user", "content": "over TLS"}]
        )
    assert response.choices[0].message.content == "You said: over TLS"


def test_a_stream_arrives_whole_over_tls(gateway: GatewayProcess, ca: Authority) -> None:
    with trusting(ca) as transport:
        client = anthropic.Anthropic(base_url=gateway.url, api_key="none", http_client=transport)
        with client.messages.stream(
            model="claude-1", max_tokens=5000, messages=[{"role": "user", "content": "repeat:2000"}]
        ) as stream:
            text = stream.get_final_text()
    assert text.split() == [f"w{number}" for number in range(1, 2001)]


def test_an_sdk_that_does_not_trust_it_does_not_connect(gateway: GatewayProcess) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
    with client, pytest.raises(openai.APIConnectionError):
        client.models.list()


def context_of(ca: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca.ca_file))
    context.set_ciphers("ALL:@SECLEVEL=0")  # else our own side would not offer the old versions
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_new_versions_of_tls_are_spoken(
    gateway: GatewayProcess, ca: Authority, version: ssl.TLSVersion
) -> None:
    with (
        RawClient(gateway.port) as client,
        context_of(ca, version).wrap_socket(client.socket, server_hostname="localhost") as tls,
    ):
        tls.sendall(HEALTH)
        assert tls.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_of_tls_are_refused(
    gateway: GatewayProcess, ca: Authority, version: ssl.TLSVersion
) -> None:
    with RawClient(gateway.port) as client, pytest.raises(ssl.SSLError) as refused:
        context_of(ca, version).wrap_socket(client.socket, server_hostname="localhost")
    assert refused.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"  # the gateway's word, not our side's


def test_plain_http_to_a_tls_listener_gets_no_answer_and_harms_nobody(
    gateway: GatewayProcess, ca: Authority
) -> None:
    with RawClient(gateway.port) as client:
        client.send(HEALTH)
        assert b"HTTP" not in client.incoming.rest()
    with trusting(ca) as transport:
        assert transport.get(f"{gateway.url}/healthz").status_code == 200


def test_the_environment_names_the_certificate(
    simulator: SimulatorProcess, files: Issued, ca: Authority
) -> None:
    environ = {"GATEWAY_TLS_CERT": str(files.cert_file), "GATEWAY_TLS_KEY": str(files.key_file)}
    with start_gateway(configuration(simulator, ""), environ) as gateway, trusting(ca) as transport:
        assert transport.get(f"{gateway.url}/healthz").status_code == 200


def test_the_environment_names_the_address(simulator: SimulatorProcess) -> None:
    text = configuration(simulator, "listen: 127.0.0.1:1")
    with start_gateway(text, {"GATEWAY_LISTEN": "127.0.0.1:0"}) as gateway:
        assert ask(gateway.port, "/healthz").status == 200


@pytest.mark.parametrize("listen", ["[::1]:0", ":0"])
def test_an_ipv6_client_is_served(simulator: SimulatorProcess, listen: str) -> None:
    with (
        start_gateway(configuration(simulator, f'listen: "{listen}"')) as gateway,
        socket.create_connection(("::1", gateway.port), timeout=WAIT_SECONDS) as connection,
    ):
        connection.sendall(request(asking("gpt-1"), b"Content-Type: application/json"))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_an_endpoint_that_brings_its_own_tls_serves_https(
    simulator: SimulatorProcess, ca: Authority, files: Issued
) -> None:
    listen = f"ssl:0:interface=127.0.0.1:privateKey={files.key_file}:certKey={files.cert_file}"
    with start_gateway(configuration(simulator, f"listen: '{listen}'"), start=start_program) as gateway:
        assert gateway.url.startswith("https://")
        gateway.log(f"dashboard at https://127.0.0.1:{gateway.port}/ui\n".encode())
        with (
            RawClient(gateway.port) as client,
            context_of(ca, ssl.TLSVersion.TLSv1_3).wrap_socket(
                client.socket, server_hostname="localhost"
            ) as tls,
        ):
            tls.sendall(HEALTH)
            assert tls.recv(100).startswith(b"HTTP/1.1 200 ")


def test_an_endpoint_that_brings_its_own_tls_serves_clients_that_offer_http_2(
    simulator: SimulatorProcess, ca: Authority, files: Issued
) -> None:
    """Clients name the protocols that they speak (ALPN), and most offer HTTP/2 beside HTTP/1.1."""
    listen = f"ssl:0:interface=127.0.0.1:privateKey={files.key_file}:certKey={files.cert_file}"
    with start_gateway(configuration(simulator, f"listen: '{listen}'"), start=start_program) as gateway:
        context = context_of(ca, ssl.TLSVersion.TLSv1_3)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with (
            RawClient(gateway.port) as client,
            context.wrap_socket(client.socket, server_hostname="localhost") as tls,
        ):
            assert tls.selected_alpn_protocol() == "http/1.1"
            tls.sendall(HEALTH)
            assert tls.recv(100).startswith(b"HTTP/1.1 200 ")
        with trusting(ca) as transport:
            assert transport.get(f"{gateway.url}/healthz").status_code == 200


def test_all_interfaces_take_ipv4_clients_and_the_log_warns_of_them(simulator: SimulatorProcess) -> None:
    with start_gateway(configuration(simulator, "listen: ':0'")) as gateway:
        assert ask(gateway.port, "/healthz").status == 200
        gateway.log(b"can be reached from other machines, and edge_auth is off")


def test_a_unix_socket_is_served_and_removed_at_the_end(simulator: SimulatorProcess, tmp_path: Path) -> None:
    path = tmp_path / "mgw.sock"
    file = write_config(tmp_path, configuration(simulator, f"listen: 'unix:{path}'"))
    with start_twistd("mgw", "-c", str(file), folder=tmp_path) as daemon:
        assert daemon.stderr is not None
        daemon.stderr.wait_for(
            lambda data: f"mgw serves unix:{path}\n".encode() in data, 20, "the gateway to serve"
        )
        nobody = f"dashboard at /ui over unix:{path}, which no client can open until dashboard.keys is set\n"
        daemon.stderr.wait_for(lambda data: nobody.encode() in data, 20, "the dashboard's address")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT_SECONDS)
            connection.connect(str(path))
            connection.sendall(b"GET /ui HTTP/1.1\r\nHost: localhost\r\n\r\n")
            refused = Incoming(connection).head()
        assert refused is not None
        assert refused[0] == b"HTTP/1.1 401 Unauthorized"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(WAIT_SECONDS)
            connection.connect(str(path))
            connection.sendall(request(asking("gpt-1"), b"Content-Type: application/json", path=CHAT))
            head = Incoming(connection).head()
        assert head is not None
        assert head[0] == b"HTTP/1.1 200 OK"
        daemon.process.terminate()
        assert daemon.process.wait(WAIT_SECONDS) == 0
    assert not path.exists()
    assert b"Traceback" not in daemon.stderr.data


@pytest.mark.parametrize(
    ("trouble", "arguments"),
    [
        ("missing", ()),
        ("no pair", ()),
        *(
            (trouble, ("--check",))
            for trouble in ("missing", "no certificate", "no key", "no pair", "passphrase")
        ),
    ],
)
def test_bad_files_are_told_in_one_readable_line(
    ca: Authority, files: Issued, tmp_path: Path, trouble: str, arguments: tuple[str, ...]
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(files.cert_file, cert)
    shutil.copy(files.key_file, key)
    match trouble:
        case "missing":
            cert.unlink()
            expected = f"tls.cert_file: file not found: {cert}"
        case "no certificate":
            cert.write_text("nothing")
            expected = f"tls.cert_file: {cert} contains no PEM certificate"
        case "no key":
            key.write_text("nothing")
            expected = f"tls.key_file: {key} contains no PEM key"
        case "no pair":
            shutil.copy(issue(ca, "127.0.0.1").key_file, key)
            expected = f"tls: the key in {key} does not belong to the certificate in {cert}"
        case _:
            key.write_bytes(encrypted_key())
            expected = f"tls.key_file: {key} contains no PEM key without a passphrase"
    text = "providers: {main: {kind: openai, api_key: sk-canary}}\n"
    text += f"tls: {{cert_file: {cert}, key_file: {key}}}"
    file = write_config(tmp_path, text)
    done = twistd("mgw", "-c", str(file), *arguments, folder=tmp_path)
    assert done.status == 1
    assert f"{file}:2: {expected}" in done.stderr
    assert "Traceback" not in done.stderr


def encrypted_key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase"))


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("192.0.2.1:0", "cannot listen on 192.0.2.1:0: Cannot assign requested address (no network"),
        ("unix:/no/such/folder/mgw.sock", "No such file or directory"),
        ("systemd:domain=INET:index=0", ": listen: cannot listen on"),
        ("tcp:80:interface=127.0.0.1:nonsense=1", "nonsense"),
    ],
)
def test_an_address_that_cannot_be_had_is_told_in_one_readable_line(
    simulator: SimulatorProcess, tmp_path: Path, listen: str, expected: str
) -> None:
    file = write_config(tmp_path, configuration(simulator, f"listen: '{listen}'"))
    done = twistd("mgw", "-c", str(file), folder=tmp_path)
    assert done.status == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_told_in_one_readable_line(simulator: SimulatorProcess, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = write_config(tmp_path, configuration(simulator, f"listen: 127.0.0.1:{port}"))
        done = twistd("mgw", "-c", str(file), folder=tmp_path)
    assert done.status == 1
    assert f": listen: cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
