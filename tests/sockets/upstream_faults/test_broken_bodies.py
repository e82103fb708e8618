"""Providers that break off, or stall, within a body."""

from __future__ import annotations

import threading

import pytest

from tests.support.gateway import GatewayProcess
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient, chat, chunk
from tests.support.raw_upstream import COMPLETION, JSON, STREAM_HEAD, RawUpstream, Script, Turn
from tests.support.upstream_faults import DONE, HALF, LIMIT, PIECE, USAGE, ask, breaking, upstream_error

COUNTED_HEAD = b"\r\n".join([b"HTTP/1.1 200 OK", JSON, b"Content-Length: %d" % len(COMPLETION), b"", b""])


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_counted_body_that_breaks_off_is_broken_for_the_client(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, reset: bool
) -> None:
    upstream.begin(breaking(COUNTED_HEAD, HALF, reset=reset))
    response = ask(client)
    assert (response.status, response.whole) == (200, False)
    assert HALF.startswith(response.body)
    upstream_error(ledger, 200)


BROKEN_STREAMS = {
    "closed": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE)),
    "reset": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), reset=True),
    "closed in a chunk": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), chunk(PIECE)[:20]),
    "closed in a size": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"1"),
    "closed before the last line": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"0\r\n"),
    "garbage": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"this is no chunk\r\n"),
    "a negative size": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"-1\r\n"),
    "an endless size line": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"1;" + b"x" * 100_000),
    "endless trailers": breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), b"0\r\n" + b"X: 1\r\n" * 20_000),
}


@pytest.mark.parametrize("script", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_a_stream_that_breaks_off_never_ends_cleanly(
    client: RawClient, ledger: Ledger, upstream: RawUpstream, script: Script
) -> None:
    upstream.begin(script)
    response = ask(client, stream=True)
    assert (response.status, response.whole) == (200, False)
    assert (PIECE + USAGE + PIECE).startswith(response.body)
    event = upstream_error(ledger, 200, stream=True, tokens_in=7, tokens_out=3)
    assert event["ttft_ms"] > 0


def test_a_slow_reader_gets_all_that_came_before_the_break(
    gateway: GatewayProcess, ledger: Ledger, upstream: RawUpstream
) -> None:
    sent = PIECE * 60_000
    broken = threading.Event()

    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunk(sent))
        broken.set()
        turn.close()

    upstream.begin(script)
    with RawClient(gateway.port, receive_buffer=4096) as client:
        client.send(chat("main/gpt-1", stream=True))
        response = client.read_response()
    assert broken.is_set()
    assert (response.status, response.whole, len(response.body)) == (200, False, len(sent))
    assert response.body == sent
    upstream_error(ledger, 200, stream=True)


def test_what_came_before_a_stall_reaches_the_client_and_then_the_stream_breaks(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(breaking(STREAM_HEAD, chunk(PIECE), chunk(USAGE), stall=True))
    response = ask(client, "hasty/gpt-1", stream=True)
    assert (response.status, response.whole, response.body) == (200, False, PIECE + USAGE)
    more = {"provider": "hasty", "model": "hasty/gpt-1", "tokens_in": 7, "tokens_out": 3}
    event = upstream_error(ledger, 200, stream=True, **more)
    assert event["latency_ms"] >= LIMIT * 1000
    upstream.wait_until_left()


def test_a_stall_in_a_counted_body_breaks_it(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    upstream.begin(breaking(COUNTED_HEAD, HALF, stall=True))
    response = ask(client, "hasty/gpt-1")
    assert (response.status, response.whole, response.body) == (200, False, HALF)
    upstream_error(ledger, 200, provider="hasty", model="hasty/gpt-1")
    upstream.wait_until_left()


def test_a_slow_stream_within_the_limit_is_whole(
    client: RawClient, ledger: Ledger, upstream: RawUpstream
) -> None:
    def paced(turn: Turn) -> None:
        """Send each piece when the client has the one before it."""
        assert turn.body
        turn.send(STREAM_HEAD)
        for _ in range(20):
            turn.send(chunk(PIECE))
        turn.send(chunk(USAGE), chunk(DONE), chunk(b""))

    upstream.begin(paced)
    response = ask(client, "hasty/gpt-1", stream=True)
    assert (response.whole, response.body) == (True, PIECE * 20 + USAGE + DONE)
    ledger.one(status="ok", http_status=200, stream=True, tokens_in=7, tokens_out=3)
