"""SIGTERM and SIGINT: what runs finishes, what is new is refused, and the process ends with exit code 0."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, RawClient, asking, chat, chunk
from tests.support.raw_upstream import STREAM_HEAD, RawUpstream, Turn, start_upstream
from tests.support.waiting import WAIT_SECONDS, wait_until

FIRST: Final = b'data: {"choices":[{"delta":{"content":"first"}}]}\n\n'
LAST: Final = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n'


@dataclass
class Streaming:
    """A gateway in the middle of a stream that goes on when a test says so."""

    gateway: GatewayProcess
    client: RawClient
    go_on: threading.Event

    def drain(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop, and wait until it drains."""
        self.gateway.signal(number)
        self.gateway.log(b"draining 1 requests")

    def finish(self) -> bytes:
        """Let the stream end; return its rest."""
        self.go_on.set()
        rest = self.client.incoming.until(b"0\r\n\r\n")
        assert rest is not None
        return rest


def configuration(upstream: RawUpstream, drain_seconds: float) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
  claude: {{kind: anthropic, base_url: "{upstream.url}/v1", api_key: sk-ant-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
drain_seconds: {drain_seconds}
"""


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    with start_upstream() as process:
        yield process


@contextmanager
def streaming(upstream: RawUpstream, drain_seconds: float = 300) -> Iterator[Streaming]:
    go_on = threading.Event()

    def held(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(FIRST))
        assert go_on.wait(WAIT_SECONDS)
        turn.send(chunk(LAST), chunk(b""))
        turn.wait_until_left()

    upstream.begin(held)
    try:
        with (
            start_gateway(configuration(upstream, drain_seconds)) as gateway,
            RawClient(gateway.port) as client,
        ):
            client.send(chat("gpt-held", stream=True))
            assert client.incoming.until(FIRST) is not None
            yield Streaming(gateway, client, go_on)
    finally:
        go_on.set()


def events_of(gateway: GatewayProcess) -> list[dict[str, object]]:
    """Return all events of a gateway that has ended."""
    return [json.loads(line) for line in gateway.stdout.data.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stream_in_flight_finishes_and_leaves_its_event(
    upstream: RawUpstream, number: signal.Signals
) -> None:
    with streaming(upstream) as running:
        running.drain(number)
        assert LAST in running.finish()
        assert running.client.incoming.rest() == b""
        assert running.gateway.process.wait(WAIT_SECONDS) == 0
    (event,) = events_of(running.gateway)
    assert (event["status"], event["http_status"], event["tokens_in"]) == ("ok", 200, 7)


def test_readiness_ends_at_once_while_the_process_still_lives(upstream: RawUpstream) -> None:
    with streaming(upstream) as running:
        port = running.gateway.port
        assert ask(port, "/readyz").status == 200
        running.drain()
        ready = ask(port, "/readyz")
        assert (ready.status, ready.json(), ready.value(b"connection")) == (
            503,
            {"status": "draining"},
            b"close",
        )
        assert ask(port, "/healthz").status == 200
        assert running.gateway.metric("mgw_requests_in_flight ") == 2  # the stream and the scrape
        running.finish()


def test_new_work_is_refused_in_the_dialect_of_its_route(upstream: RawUpstream) -> None:
    with streaming(upstream) as running:
        port = running.gateway.port
        running.drain()
        by_chat = ask(port, CHAT, body=asking("gpt-1"))
        by_messages = ask(port, "/v1/messages", body=asking("claude-1"))
        by_gemini = ask(port, "/v1beta/models/g:generateContent", body=b"{}")
        running.finish()
    assert [response.status for response in (by_chat, by_messages, by_gemini)] == [503] * 3
    assert (by_chat.json()["error"]["type"], by_chat.json()["error"]["code"]) == ("server_error", "draining")
    assert by_messages.json()["error"]["type"] == "overloaded_error"
    assert by_gemini.json()["error"]["status"] == "UNAVAILABLE"
    assert by_chat.value(b"retry-after") == b"1"
    assert len(upstream.turns) == 1
    refused = [event for event in running.gateway.events(4) if event["http_status"] == 503]
    assert [(event["route"], event["status"]) for event in refused] == [
        ("chat", "rejected"),
        ("messages", "rejected"),
        ("generate_content", "rejected"),
    ]


def test_a_connection_at_rest_is_closed_at_once(upstream: RawUpstream) -> None:
    with streaming(upstream) as running, RawClient(running.gateway.port) as resting:
        resting.send(b"GET /healthz HTTP/1.1\r\nHost: g\r\n\r\n")
        assert resting.read_response().status == 200
        running.drain()
        assert resting.no_answer()
        running.finish()


def test_a_stream_that_outlasts_the_drain_ends_visibly_broken(upstream: RawUpstream) -> None:
    with streaming(upstream, drain_seconds=0.2) as running:
        running.drain()
        assert b"0\r\n\r\n" not in running.client.incoming.rest()
        assert running.gateway.process.wait(WAIT_SECONDS) == 0
        assert b"the drain timed out: aborting 1 requests" in running.gateway.stderr.data
    (event,) = events_of(running.gateway)
    assert (event["status"], event["http_status"], event["stream"]) == ("rejected", 200, True)
    assert event["ttft_ms"]


def test_a_request_without_an_answer_is_refused_at_the_end_of_the_drain(upstream: RawUpstream) -> None:
    upstream.begin(lambda turn: turn.wait_until_left())
    with start_gateway(configuration(upstream, 0.2)) as gateway, RawClient(gateway.port) as client:
        client.send(chat("gpt-silent"))
        upstream.wait_for(lambda: bool(upstream.turns), "the request")
        gateway.signal(signal.SIGTERM)
        response = client.read_response()
        assert (response.status, response.json()["error"]["code"], response.whole) == (503, "draining", True)
        upstream.wait_until_left()
        assert gateway.process.wait(WAIT_SECONDS) == 0
    (event,) = events_of(gateway)
    assert (event["status"], event["http_status"]) == ("rejected", 503)
    assert b"http time=" in gateway.stderr.data
    assert b"status=503 method=POST" in gateway.stderr.data


def test_an_upload_in_flight_is_refused_at_the_end_of_the_drain(upstream: RawUpstream) -> None:
    with start_gateway(configuration(upstream, 0.2)) as gateway, RawClient(gateway.port) as client:
        client.send(chat("gpt-1")[:-5])
        wait_until(lambda: gateway.metric("mgw_requests_in_flight ") == 2, "the upload to begin")
        gateway.signal(signal.SIGTERM)
        assert client.read_response().status == 503
        client.socket.close()
        assert gateway.process.wait(WAIT_SECONDS) == 0
    (event,) = events_of(gateway)
    assert (event["status"], event["http_status"]) == ("rejected", 503)


def test_a_second_signal_ends_the_drain(upstream: RawUpstream) -> None:
    with streaming(upstream) as running:
        running.drain()
        running.gateway.signal(signal.SIGINT)
        assert b"0\r\n\r\n" not in running.client.incoming.rest()
        assert running.gateway.process.wait(WAIT_SECONDS) == 0
        running.gateway.log(b"stopped again during the drain: aborting 1")


def test_sighup_in_a_drain_changes_nothing(upstream: RawUpstream) -> None:
    with streaming(upstream) as running:
        running.drain()
        running.gateway.signal(signal.SIGHUP)
        running.gateway.log(b"the configuration was not reloaded: the gateway is stopping")
        assert LAST in running.finish()
        assert running.gateway.process.wait(WAIT_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_with_nothing_in_flight_ends_at_once(upstream: RawUpstream, number: signal.Signals) -> None:
    with start_gateway(configuration(upstream, 300)) as gateway, RawClient(gateway.port) as resting:
        resting.send(b"GET /healthz HTTP/1.1\r\nHost: g\r\n\r\n")
        assert resting.read_response().status == 200
        gateway.signal(number)
        assert gateway.process.wait(WAIT_SECONDS) == 0  # long before a drain would end
