"""Clients that are slow or silent: what they see, and when they are given up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.support.client_faults import ABORTED, CHUNKED, GEMINI, LIMIT, rejected
from tests.support.gateway import GatewayProcess
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, RawResponse, chat, chunk, request
from tests.support.raw_upstream import JSON, STREAM_HEAD, RawUpstream, Turn
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS

PACE = 0.15
"""Seconds between the bytes of a client that is slow, and not silent."""


@pytest.fixture
def hurried(hasty: GatewayProcess) -> Iterator[RawClient]:
    """A client of the hasty gateway."""
    with RawClient(hasty.port) as connection:
        yield connection


# It is slow


def flood(turn: Turn) -> None:
    """Send events without end, as fast as they are taken."""
    assert turn.body
    turn.send(STREAM_HEAD)
    piece = chunk(b"data: " + b"x" * 65000 + b"\n\n")
    try:
        while True:
            turn.send(piece)
    except OSError:
        turn.wait_until_left()
        turn.closed = True


def test_a_client_that_stops_reading_is_left_and_its_provider_released(
    hasty: GatewayProcess, hasty_ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(flood)
    with RawClient(hasty.port, receive_buffer=4096) as client:
        client.send(chat("raw/gpt-1", stream=True))
        upstream.wait_until_left()
        sent = {"provider": "raw", "attempts": 1, "stream": True}
        event = hasty_ledger.one(**ABORTED, **sent, route="chat")
        assert event["ttft_ms"] < event["latency_ms"]
        assert event["latency_ms"] >= LIMIT * 1000


def trickle(client: RawClient, data: bytes) -> bytes:
    """Send byte after byte until something comes back or all is sent; return what comes first."""
    client.socket.settimeout(PACE)
    try:
        for at in range(len(data)):
            with suppress(TimeoutError):
                if found := client.socket.recv(65536):
                    return found
            if not client.send(data[at : at + 1]):
                break
    finally:
        client.socket.settimeout(WAIT_SECONDS)
    return client.socket.recv(65536)


def test_a_head_that_trickles_is_a_408_and_no_event(hurried: RawClient, hasty_ledger: Ledger) -> None:
    response = trickle(hurried, b"POST /v1/messages HTTP/1.1\r\nHost: gateway\r\n" + b"X: 1\r\n" * 100)
    assert response.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"\r\nConnection: close\r\n" in response


SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "/v1/chat/completions": ("chat", {"type": "timeout_error", "code": "request_timeout"}),
    "/v1/messages": ("messages", {"type": "timeout_error"}),
    GEMINI: ("generate_content", {"code": 408, "status": "DEADLINE_EXCEEDED"}),
}
"""The route of each path, and what its dialect calls a request that took too long."""


def answers(port: int, sent: Sequence[tuple[str, bytes]]) -> list[RawResponse]:
    """Send to each path what does not go on, all at once as each is to wait, and return what comes back."""
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(port)) for _ in sent]
        for client, (_, data) in zip(clients, sent, strict=True):
            client.send(data)
        responses = [client.read_response() for client in clients]
    for (target, _), response in zip(sent, responses, strict=True):
        assert (response.status, response.whole, response.value(b"connection")) == (408, True, b"close")
        _, shape = SHAPES[target]
        error = response.json()["error"]
        assert {name: error[name] for name in shape} == shape, target
    return responses


def test_a_head_that_stops_is_a_408_in_the_shape_of_its_path(
    hasty: GatewayProcess, hasty_ledger: Ledger
) -> None:
    answers(hasty.port, [(target, f"POST {target} HTTP/1.1\r\nHost: gate".encode()) for target in SHAPES])


def test_a_connection_without_a_byte_is_closed_without_a_word(
    hurried: RawClient, hasty_ledger: Ledger
) -> None:
    assert hurried.no_answer()


def test_a_connection_that_rests_too_long_is_closed_without_a_word(
    hurried: RawClient, hasty_ledger: Ledger
) -> None:
    hurried.send(chat("main/gpt-1"))
    assert hurried.read_response().status == 200
    assert hurried.no_answer()
    hasty_ledger.one(status="ok", http_status=200)


@pytest.mark.parametrize("framing", [b"Content-Length: 5000", CHUNKED], ids=["counted", "chunked"])
def test_a_body_that_stops_is_a_408(
    hasty: GatewayProcess, hasty_ledger: Ledger, simulator: SimulatorProcess, framing: bytes
) -> None:
    start = b"5\r\n" if framing is CHUNKED else b""
    sent = [(target, request(None, JSON, framing, path=target) + start + b'{"mod') for target in SHAPES]
    responses = answers(hasty.port, sent)
    events = {event["request_id"].encode(): event for event in hasty_ledger.take(len(sent))}
    for (route, _), response in zip(SHAPES.values(), responses, strict=True):
        event = events.pop(response.value(b"x-gateway-request-id"))
        expected = {**rejected(408), "route": route, "modality": "text"}
        assert {name: event.get(name) for name in expected} == expected
        assert event["latency_ms"] >= LIMIT * 1000
    assert events == {}
    assert simulator.counters()["received"] == 0


def test_a_slow_body_within_the_limit_is_taken(hurried: RawClient, hasty_ledger: Ledger) -> None:
    whole = chat("main/gpt-1")
    hurried.send(whole[:-14])
    hurried.socket.settimeout(PACE)
    for at in range(len(whole) - 14, len(whole)):  # in all, longer than the limit
        with suppress(TimeoutError):
            hurried.socket.recv(1)
        hurried.send(whole[at : at + 1])
    hurried.socket.settimeout(WAIT_SECONDS)
    assert hurried.read_response().status == 200
    event = hasty_ledger.one(status="ok", http_status=200)
    assert event["latency_ms"] >= LIMIT * 1000


def test_a_provider_that_takes_its_time_is_not_the_clients_fault(
    hurried: RawClient, hasty_ledger: Ledger
) -> None:
    hurried.send(chat("main/gpt-1+sim-delay-700"))
    assert hurried.read_response().status == 200
    event = hasty_ledger.one(status="ok", http_status=200)
    assert event["latency_ms"] >= 700
