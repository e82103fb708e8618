"""An answer reaches a client that still sends: refused uploads, and the last requests before a drain."""

from __future__ import annotations

import http.client
import select
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.support.certificates import Authority, issue
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import CHAT, Incoming, RawClient, asking, request
from tests.support.raw_upstream import JSON, RawUpstream

MAX_BODY: Final = 48_000_000
LARGE: Final = 50_000_000
"""Bytes of a body above ``max_body_bytes``, more than all buffers between the two hold."""
PIECE: Final = bytes(256 * 1024)
ROUNDS: Final = 3
EDGE: Final = b"x-api-key: edge-canary-1"


def configuration(upstream: RawUpstream, more: str = "") -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
max_body_bytes: {MAX_BODY}
{more}
"""


@pytest.fixture(scope="module", params=["plain", "TLS"])
def gateway(request: pytest.FixtureRequest, upstream: RawUpstream, ca: Authority) -> Iterator[GatewayProcess]:
    more = ""
    if request.param == "TLS":
        files = issue(ca, "localhost", "127.0.0.1")
        more = f"tls: {{cert_file: {files.cert_file}, key_file: {files.key_file}}}"
    with start_gateway(configuration(upstream, more)) as process:
        yield process


Connect = Callable[[], socket.socket]


@pytest.fixture
def connect(gateway: GatewayProcess, ca: Authority) -> Connect:
    def connected() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", gateway.port), 30)
        if gateway.url.startswith("https:"):
            trusting = ssl.create_default_context(cafile=str(ca.ca_file))
            connection = trusting.wrap_socket(connection, server_hostname="localhost")
        return connection

    return connected


def head(*headers: bytes, path: str = CHAT) -> bytes:
    return b"\r\n".join([b"POST %b HTTP/1.1" % path.encode(), b"Host: gateway", *headers, b"", b""])


COUNTED: Final = b"Content-Length: %d" % LARGE
CHUNKED: Final = b"Transfer-Encoding: chunked"
UPLOADS: Final = {
    "announced": (head(EDGE, COUNTED), PIECE, 413),
    "with a wrong key": (head(COUNTED), PIECE, 401),
    "of no route": (head(EDGE, COUNTED, path="/v1/nothing"), PIECE, 404),
    "in chunks": (head(EDGE, CHUNKED), b"%x\r\n%b\r\n" % (len(PIECE), PIECE), 413),
    "malformed": (head(EDGE, CHUNKED), b"zz\r\n" + PIECE, 400),
    "of another host": (head(EDGE, COUNTED, b"Host: other"), PIECE, 400),
}


def status_of(incoming: Incoming) -> int:
    found = incoming.head()
    assert found is not None, f"no answer came ({'a reset' if incoming.reset else 'an end'})"
    length = int(dict(found[1])[b"Content-Length"])
    assert len(incoming.up_to(length)) == length
    assert dict(found[1])[b"Connection"] == b"close"
    return int(found[0].split(b" ")[1])


@pytest.mark.parametrize(("start", "piece", "status"), UPLOADS.values(), ids=UPLOADS.keys())
def test_a_client_that_reads_only_when_all_is_sent_gets_its_answer(
    connect: Connect, start: bytes, piece: bytes, status: int
) -> None:
    for _ in range(ROUNDS):
        with closing(connect()) as connection:
            connection.sendall(start)
            for _ in range(LARGE // len(PIECE)):
                connection.sendall(piece)
            assert status_of(Incoming(connection)) == status


@pytest.mark.parametrize("gateway", ["plain"], indirect=True)
@pytest.mark.parametrize(("start", "piece", "status"), UPLOADS.values(), ids=UPLOADS.keys())
def test_a_client_that_writes_as_long_as_it_can_and_reads_then_gets_its_answer(
    gateway: GatewayProcess, start: bytes, piece: bytes, status: int
) -> None:
    """As hyper does: whatever can be written is written; a write that fails loses the answer."""
    for _ in range(ROUNDS):
        with RawClient(gateway.port) as client:
            client.socket.setblocking(False)
            waiting, left = memoryview(start), LARGE
            while waiting:
                readable, _, _ = select.select([client.socket], [], [], 0)
                try:
                    waiting = waiting[client.socket.send(waiting) :]
                except BlockingIOError:
                    if readable:
                        break
                    select.select([client.socket], [client.socket], [], 20)
                if not waiting and left > 0:
                    waiting, left = memoryview(piece), left - len(PIECE)
            client.socket.settimeout(20)
            assert status_of(client.incoming) == status


@pytest.mark.parametrize("expects", [{}, {"Expect": "100-continue"}], ids=["at once", "expecting a 100"])
def test_http_client_gets_the_refusal_of_a_large_upload(
    gateway: GatewayProcess, ca: Authority, expects: dict[str, str]
) -> None:
    for _ in range(ROUNDS):
        connection = http.client.HTTPConnection("localhost", gateway.port, timeout=30)
        if gateway.url.startswith("https:"):
            trusting = ssl.create_default_context(cafile=str(ca.ca_file))
            connection = http.client.HTTPSConnection("localhost", gateway.port, timeout=30, context=trusting)
        with closing(connection):
            sent = {"x-api-key": "edge-canary-1", "Content-Length": str(LARGE), **expects}
            connection.request("POST", CHAT, (PIECE for _ in range(LARGE // len(PIECE))), sent)
            response = connection.getresponse()
            assert (response.status, b"max_body_bytes" in response.read()) == (413, True)


def test_a_last_answer_reaches_a_client_that_goes_on_sending(connect: Connect) -> None:
    asked = b"GET /healthz HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
    for _ in range(ROUNDS * 10):
        with closing(connect()) as connection:
            connection.sendall(asked)
            for _ in range(64):
                connection.sendall(PIECE)
            assert status_of(Incoming(connection)) == 200


# The drain


def test_a_client_that_asks_again_as_the_drain_begins_is_answered(
    upstream: RawUpstream, tmp_path: Path
) -> None:
    clients = 20
    with start_gateway(configuration(upstream)) as process:
        resting = [RawClient(process.port) for _ in range(clients)]
        for client in resting:
            client.send(request(asking("gpt-1"), JSON, EDGE))
            assert client.read_response().status == 200
        process.signal(signal.SIGTERM)
        with ThreadPoolExecutor(clients) as pool:
            assert all(pool.map(lambda client: client.send(request(asking("gpt-1"), JSON, EDGE)), resting))
            responses = list(pool.map(RawClient.read_response, resting))
        assert {response.status for response in responses} <= {200, 503}
        assert all(response.whole for response in responses)
        refused = [response for response in responses if response.status == 503]
        assert all(response.value(b"connection") == b"close" for response in refused)
        assert {response.json()["error"]["code"] for response in refused} <= {"draining"}
        for client in resting:
            assert not client.incoming.reset
            client.socket.close()
        assert process.process.wait(10) == 0
