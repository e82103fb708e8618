"""A gateway without edge auth answers no page that leads its own name, or another site's, to this machine."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.testing import StringTransport

from tests.memory.web.test_admission import reload, upstream_heads
from tests.support.channels import channel_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import answered
from tests.support.web_servers import WebServerHarness

OPEN = THREE_FAMILIES + 'listen: "gateway.corp.example:8787"\npublic_url: https://ai.corp.example/mgw\n'
CLOSED = OPEN + "edge_auth: {enabled: true, keys: [edge]}\n"
ALLOWED = OPEN + 'cors: {origins: ["https://app.example.com", "HTTP://other.example:3000"]}\n'
BODY = b'{"model":"fast","messages":[]}'
LOOPBACK = ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")
CHAT = "/v1/chat/completions"


class Client:
    """A client of a gateway with one configuration, each request of which comes from some address."""

    def __init__(self, text: str) -> None:
        self.harness = WebServerHarness(text)
        reload(self.harness, text)

    def connect(self, peer: str) -> None:
        address: type[Any] = IPv6Address if ":" in peer else IPv4Address
        self.harness.transport = StringTransport(peerAddress=address("TCP", peer, 5000))
        self.harness.channel = channel_of(self.harness.factory)
        self.harness.channel.makeConnection(self.harness.transport)  # type: ignore[no-untyped-call]  # Twisted's

    def ask(self, *headers: str, path: str = CHAT, method: str = "POST", peer: str = "127.0.0.1") -> bytes:
        self.connect(peer)
        own = [f"Content-Length: {len(BODY)}", "Content-Type: application/json"] if method == "POST" else []
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *own, *headers, "", ""]).encode()
        self.harness.send(head + (BODY if method == "POST" else b""))
        for connection in self.harness.pipeline.endpoint.connections:
            if not connection.over and connection.received:
                connection.send(answered())
                connection.close()
        return self.harness.received()

    def status(self, *headers: str, path: str = CHAT, method: str = "POST", peer: str = "127.0.0.1") -> int:
        return int(self.ask(*headers, path=path, method=method, peer=peer).split(b" ")[1])


FOREIGN_HOSTS = (
    *(
        "evil.example",
        "evil.example:8787",
        "EVIL.example.:8787",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ),
    *(
        "127.1",
        "xlocal.example",
        "evillocalhost.example",
        "corp.example",
        "a.gateway.corp.example",
        "1.2.3",
    ),
    "notlocal.example.internal.evil",
)
LOCAL_HOSTS = (
    *(
        "127.0.0.1:8787",
        "127.0.0.1",
        "[::1]:8787",
        "localhost:8787",
        "LOCALHOST",
        "localhost.",
        "192.168.7.9:1",
    ),
    *("gateway", "gateway:8787", "app.localhost:8787", "my-mac.local", "host.docker.internal:8787"),
    *("gateway.corp.example", "GATEWAY.corp.example:1", "ai.corp.example", "ai.corp.example:443", "8.8.8.8"),
)


@pytest.mark.parametrize("peer", LOOPBACK)
@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_misdirected(host: str, peer: str) -> None:
    client = Client(OPEN)
    for _ in range(3):
        assert client.status(f"Host: {host}", peer=peer) == 421
        assert client.harness.body()["error"]["code"] == "misdirected_request"
    assert not upstream_heads(client.harness)
    assert not client.harness.observer.events
    assert client.harness.observer.rejections == 3


@pytest.mark.parametrize("host", LOCAL_HOSTS)
def test_a_host_that_no_page_of_the_web_has_passes(host: str) -> None:
    client = Client(OPEN)
    assert [client.status(f"Host: {host}") for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "http://evil.example",
            "https://evil.example:8787",
            "HTTP://EVIL.EXAMPLE",
            "null",
            "NULL",
            "http://",
        ),
        *(
            "http://127.0.0.1.evil.example",
            "http://localhost@evil.example",
            "http://8.8.8.8",
            "https:evil.example",
        ),
    ],
)
def test_a_page_of_another_host_is_refused(origin: str) -> None:
    client = Client(OPEN)
    for host in ("127.0.0.1:8787", "localhost:8787"):
        for _ in range(3):
            assert client.status(f"Host: {host}", f"Origin: {origin}") == 403
            assert client.harness.body()["error"]["code"] == "origin_not_allowed"
    assert client.status("Host: 127.0.0.1", "Origin: http://127.0.0.1", f"Origin: {origin}") == 403
    assert not upstream_heads(client.harness)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("127.0.0.1:8787", "http://127.0.0.1:3000"),
        ("localhost:8787", "http://LOCALHOST:3000"),
        ("127.0.0.1:8787", "http://localhost:8787"),
        ("[::1]:8787", "http://app.localhost"),
        ("192.168.7.9:8787", "http://192.168.7.9"),
        ("127.0.0.1:8787", "https://ai.corp.example"),
        ("127.0.0.1:8787", "app://obsidian.md"),
        ("127.0.0.1:8787", "vscode-webview://0abc"),
        ("127.0.0.1:8787", "chrome-extension://abc"),
        ("127.0.0.1:8787", "file://"),
    ],
)
def test_a_page_of_the_same_host_and_what_is_no_page_pass(host: str, origin: str) -> None:
    client = Client(OPEN)
    assert [client.status(f"Host: {host}", f"Origin: {origin}") for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://app.example.com", 200),
        ("HTTPS://App.example.com", 200),
        ("http://other.example:3000", 200),
        ("http://other.example", 403),
        ("http://app.example.com", 403),
        ("null", 403),
    ],
)
def test_origins_that_are_configured_pass(origin: str, expected: int) -> None:
    assert Client(ALLOWED).status("Host: localhost", f"Origin: {origin}") == expected
    assert Client(ALLOWED).status("Host: app.example.com", f"Origin: {origin}") == 421


def test_any_origin_may_be_configured() -> None:
    client = Client(OPEN + 'cors: {origins: ["*"]}\n')
    assert client.status("Host: localhost", "Origin: null") == 200
    assert client.status("Host: localhost", "Origin: https://evil.example") == 200
    assert client.status("Host: evil.example") == 421


@pytest.mark.parametrize("peer", ["192.168.7.9", "10.0.0.1", "fd00::1", "8.8.8.8"])
def test_clients_of_other_machines_name_the_gateway_as_they_like(peer: str) -> None:
    client = Client(OPEN)
    headers = ("Host: gw.team.example", "Origin: https://app.example.com")
    assert [client.status(*headers, peer=peer) for _ in range(3)] == [200] * 3
    assert client.status(*headers) == 421  # nor has their head made it known
    assert client.status("Host: gw.team.example", peer=peer) == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1"])
def test_with_edge_auth_nothing_of_this_applies(host: str) -> None:
    client = Client(CLOSED)
    headers = (f"Host: {host}", "Origin: http://evil.example", "Authorization: Bearer edge")
    assert [client.status(*headers) for _ in range(3)] == [200] * 3
    assert client.status(f"Host: {host}") == 401


def test_a_reload_takes_the_rules_along() -> None:
    client = Client(OPEN)
    headers = ("Host: evil.example", "Authorization: Bearer edge")
    assert client.status(*headers) == 421
    reload(client.harness, CLOSED)
    assert client.status(*headers) == 200
    reload(client.harness, OPEN)
    assert client.status(*headers) == 421


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *[(path, 200) for path in ("/healthz", "/readyz")],
        *[(path, 421) for path in ("/", "/v1/models", "/v1beta/models", "/metrics", "/nothing", "/v1/files")],
    ],
)
def test_only_health_checks_are_answered_under_every_name(path: str, expected: int) -> None:
    client = Client(OPEN)
    for host in ("evil.example", "10.0.0.9.nip.example"):
        assert client.status(f"Host: {host}", path=path, method="GET") == expected
    expected = 200 if expected == 200 else 403
    assert client.status("Host: localhost", "Origin: null", path=path, method="GET") == expected


SHAPES: dict[str, tuple[dict[str, object], str]] = {
    CHAT: (
        {"type": "invalid_request_error", "code": "misdirected_request", "param": "Host"},
        "origin_not_allowed",
    ),
    "/v1/messages": ({"type": "invalid_request_error"}, "permission_error"),
    "/v1beta/models/x:generateContent": ({"code": 421, "status": "INVALID_ARGUMENT"}, "PERMISSION_DENIED"),
}


@pytest.mark.parametrize("path", SHAPES)
def test_each_dialect_has_its_own_shape_and_the_sentence_says_what_to_set(path: str) -> None:
    client = Client(OPEN)
    answer = client.ask("Host: evil.example", path=path)
    assert answer.startswith(b"HTTP/1.1 421 Misdirected Request\r\n")
    assert b"x-should-retry: false" in answer
    error = client.harness.body()["error"]
    assert SHAPES[path][0].items() <= error.items()
    for setting in ("public_url", "edge_auth"):
        assert setting in error["message"]
    assert "evil" not in error["message"]
    client.ask("Host: localhost", "Origin: http://evil.example", path=path)
    error = client.harness.body()["error"]
    assert SHAPES[path][1] in error.values()
    for setting in ("public_url", "edge_auth", "cors.origins"):
        assert setting in error["message"]


UPGRADE = (
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


@pytest.mark.parametrize("path", ["/v1/realtime?model=main/gpt-c", "/v1/responses"])
def test_upgrades_are_asked_for_their_host_and_origins_of_sessions_stay_as_they_are(path: str) -> None:
    client = Client(OPEN + 'realtime: {origins: ["https://voice.example"]}\n')
    assert client.status("Host: evil.example", *UPGRADE, path=path, method="GET") == 421
    origin = "Origin: https://evil.example"
    answer = client.ask("Host: localhost", origin, *UPGRADE, path=path, method="GET")
    assert b" 403 " in answer[:20]
    assert b"realtime.origins" in answer
    origin = "Origin: https://voice.example"
    answer = client.ask("Host: localhost", origin, *UPGRADE, path=path, method="GET")
    assert b"origin" not in answer
