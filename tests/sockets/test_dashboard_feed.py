"""The feed of a running gateway over real sockets, and ``mgw tail`` that reads it."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.sockets.test_dashboard_access import ask as ask_dashboard
from tests.sockets.test_dashboard_access import sign_in
from tests.sockets.test_tail import tailing
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.waiting import WAIT_SECONDS

CONFIG = """
providers:
  main: {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary}
hooks: {}
"""
MAX_GROWTH = 24 * 1024 * 1024


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway(CONFIG) as gateway:
        yield gateway


class Feed:
    """A client of the feed."""

    def __init__(self, gateway: GatewayProcess, query: str = "", **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
        self._connection.request("GET", f"/v1/dashboard/events{query}", headers=headers)
        self.response: HTTPResponse = self._connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.last_id = ""
        assert self._block()[0] == "retry: 2000"

    def _block(self) -> list[str]:
        lines: list[str] = []
        while (read := self.response.readline()) != b"\n" or not lines:
            assert read, "the feed has ended"
            line = read.decode().rstrip("\n")
            lines.append(line)
            if line.startswith("id: "):
                self.last_id = line[4:]
        return lines

    def event(self) -> tuple[str, dict[str, Any]]:
        """Return the kind and the data of the next event."""
        while True:
            fields = dict(line.split(": ", 1) for line in self._block() if ": " in line)
            if "data" in fields:
                return fields["event"], json.loads(fields["data"])

    def close(self) -> None:
        self._connection.close()


def ask(gateway: GatewayProcess, model: str) -> None:
    """Make a request that leaves a usage event behind."""
    with closing(HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)) as connection:
        body = json.dumps({"model": model, "messages": []})
        connection.request("POST", "/v1/chat/completions", body)
        connection.getresponse().read()


def test_what_happens_is_told_and_an_id_resumes_it(gateway: GatewayProcess) -> None:
    with closing(Feed(gateway)) as feed:
        ask(gateway, "first")
        kind, event = feed.event()
        assert (kind, event["model"], event["status"]) == ("usage", "first", "rejected")
        last_id = feed.last_id
    ask(gateway, "second")
    ask(gateway, "third")
    with closing(Feed(gateway, **{"Last-Event-ID": last_id})) as feed:
        assert [feed.event()[1]["model"] for _ in range(2)] == ["second", "third"]
    with closing(Feed(gateway, **{"Last-Event-ID": "another-1"})) as feed:
        assert feed.event() == ("reset", {})


def test_lines_of_the_log_are_told_and_kept(gateway: GatewayProcess) -> None:
    with closing(Feed(gateway, "?kinds=log")) as feed:
        ask(gateway, "unseen")
        gateway.signal(signal.SIGHUP)
        kind, line = feed.event()
    assert (kind, line["level"]) == ("log", "info")
    assert line["text"].startswith("the configuration was reloaded")
    kept = json.loads(gateway.get("/v1/dashboard/logs?lines=1000"))["lines"]
    assert line in kept
    assert any(line["text"].startswith("mgw serves http://") for line in kept)
    assert len(json.loads(gateway.get("/v1/dashboard/logs?lines=1"))["lines"]) == 1


def test_a_provider_that_fails_is_told_and_shown(gateway: GatewayProcess) -> None:
    with closing(Feed(gateway, "?kinds=health")) as feed:
        for _ in range(3):
            ask(gateway, "main/m")
        kind, change = feed.event()
    assert (kind, change["provider"], change["state"]) == ("health", "main", "failing")
    (provider,) = json.loads(gateway.get("/v1/dashboard/profiles"))["providers"]
    health = provider["health"]
    assert (health["state"], health["since"]) == ("failing", change["time"])
    assert health["last_failure"]["error"] == change["error"] == "refused_connection"


def test_no_session_is_open(gateway: GatewayProcess) -> None:
    assert json.loads(gateway.get("/v1/dashboard/sessions")) == {"max_sessions": 1024, "sessions": []}


def test_tail_waits_for_a_gateway_and_goes_on_with_the_next_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    config, url = f"{CONFIG}listen: 127.0.0.1:{port}\n", f"http://127.0.0.1:{port}"
    with tailing("--url", url) as tail:
        tail.stderr.wait_for(lambda data: b"waiting for" in data, WAIT_SECONDS, "a word of that")
        with start_gateway(config) as gateway:
            while not tail.stdout.data:
                ask(gateway, "first")
            assert b"  first  " in tail.stdout.data
            assert gateway.stop() == 0
        with start_gateway(config) as another:
            while b"second" not in tail.stdout.data:
                ask(another, "second")
            tail.process.send_signal(signal.SIGINT)
            status, _, said = tail.end()
    assert status == 0
    assert said.splitlines() == [
        f"mgw tail: waiting for {url} (cannot connect: Connection refused); press Ctrl-C to stop",
        f"mgw tail: connected to {url}",
        f"mgw tail: the gateway closed the connection; reconnecting to {url}",
        f"mgw tail: reconnected to {url}",
    ]


def test_a_drain_ends_the_feed_at_once() -> None:
    with start_gateway(CONFIG) as gateway, closing(Feed(gateway)) as feed:
        gateway.signal(signal.SIGTERM)
        assert b"usage" not in feed.response.read()
        assert gateway.process.wait(10) == 0
        assert b"cut off" not in gateway.stderr.data


KEY = "dashboard-canary-key-1"
OTHER = "dashboard-canary-key-2"
EDGE = f"edge_auth: {{enabled: true, keys: [{{name: ops, key: {KEY}}}, {{name: another, key: {OTHER}}}]}}\n"


@pytest.mark.parametrize("workers", ["", "workers: 2\n"], ids=["one process", "workers"])
def test_a_feed_ends_with_its_session_and_with_the_right_of_its_key(workers: str) -> None:
    config = f"{CONFIG}{workers}listen: 127.0.0.1:0\n"
    with start_gateway(config + EDGE) as gateway:
        cookie = sign_in(gateway, KEY)
        with (
            closing(Feed(gateway, Cookie=cookie)) as of_session,
            closing(Feed(gateway, Authorization=f"Bearer {KEY}")) as of_key,
            closing(Feed(gateway, "?kinds=log", Authorization=f"Bearer {OTHER}")) as of_other,
        ):
            assert ask_dashboard(gateway, "/ui/logout", "POST", Cookie=cookie).status == 204
            of_session.response.read()  # to its end
            gateway.rewrite(config + EDGE.replace(f"key: {KEY}", f"key: {KEY}, models: [gpt-*]"))
            gateway.signal(signal.SIGHUP)
            of_key.response.read()
            while not of_other.event()[1]["text"].startswith("the configuration was reloaded: generation 2"):
                pass
        assert ask_dashboard(gateway, "/v1/dashboard/requests", x_api_key=KEY).status == 401
        assert ask_dashboard(gateway, "/v1/dashboard/requests", x_api_key=OTHER).status == 200


def resident(gateway: GatewayProcess) -> int:
    """Return the bytes of memory that the gateway has."""
    status = Path(f"/proc/{gateway.process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def refuse(gateway: GatewayProcess, count: int) -> None:
    """Make many requests that are refused, of which each leaves a usage event behind."""
    body = b'{"model":"m"}'
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with (
        socket.create_connection(("127.0.0.1", gateway.port), WAIT_SECONDS) as client,
        client.makefile("rb") as answers,
    ):
        for _ in range(count // 50):
            client.sendall((head + body) * 50)
            for _ in range(50):
                length = 0
                while (line := answers.readline().lower()) != b"\r\n":
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                answers.read(length)


@pytest.mark.slow
def test_a_reader_that_stops_costs_no_memory_however_much_happens() -> None:
    with start_gateway(CONFIG) as gateway:
        refuse(gateway, 5000)
        with socket.socket() as stuck, closing(Feed(gateway, "?kinds=log")):
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect(("127.0.0.1", gateway.port))
            stuck.sendall(b"GET /v1/dashboard/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            refuse(gateway, 5000)
            before = resident(gateway)
            refuse(gateway, 30_000)
            assert resident(gateway) - before < MAX_GROWTH
            data = b""
            while b"event: reset" not in data:
                data += stuck.recv(65536)
