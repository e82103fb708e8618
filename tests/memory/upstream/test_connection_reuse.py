"""When a connection to a provider serves another request, and when it is closed."""

from __future__ import annotations

import pytest

from mgw.upstream import connection
from mgw.upstream.client import Phase
from mgw.upstream.connection import IDLE_SECONDS, LARGE_BYTES, LINGER_SECONDS
from tests.support.connections import answering, asked, asked_at_length, failure_of
from tests.support.upstreams import OK, CollectedBody, Result, UpstreamHarness, collect_body, get, outcome_of


@pytest.mark.parametrize(("said", "phase"), [(b"", Phase.SENT), (b"HTTP/1.1 2", Phase.HEAD)])
def test_a_new_connection_that_closes_before_its_answer_is_not_stale(said: bytes, phase: Phase) -> None:
    b, result = asked()
    if said:
        b.connection.send(said)
    b.connection.close()
    failure = failure_of(result)
    assert (failure.phase, failure.stale) == (phase, False)


def used() -> UpstreamHarness:
    b, result = asked()
    b.connection.send(OK)
    collect_body(result.response)
    return b


def test_a_connection_is_used_again_after_its_answer() -> None:
    b = used()
    result = outcome_of(b.upstream.open(get()))
    b.connection.send(OK)
    assert collect_body(result.response).body == b"hi"
    assert len(b.endpoint.connections) == 1


@pytest.mark.parametrize(("size", "told"), [(2, []), (LARGE_BYTES, []), (LARGE_BYTES + 1, [True, False])])
def test_a_large_answer_is_read_in_larger_pieces_and_what_comes_behind_it_is_not(
    size: int, told: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bool] = []
    monkeypatch.setattr(connection, "read_much", lambda _, *, much: heard.append(much))
    b = used()
    for number in range(1, 3):
        result = outcome_of(b.upstream.open(get()))
        b.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        assert heard == (told * number)[: -1 if told else None]
        b.connection.send(b"x" * size)
        assert len(collect_body(result.response).body) == size
        assert heard == told * number
    assert len(b.endpoint.connections) == 1


@pytest.mark.parametrize("end", ["read", "cancelled", "lost"])
def test_few_large_answers_at_once_are_read_in_larger_pieces(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bool] = []
    monkeypatch.setattr(connection, "read_much", lambda _, *, much: heard.append(much))
    monkeypatch.setattr(connection, "MOST_READ_MUCH", 1)
    monkeypatch.setattr(connection, "_reading_much", set())
    b, result = asked()
    outcome_of(b.upstream.open(get()))
    first, second = b.endpoint.connections
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (LARGE_BYTES + 1)
    first.send(head)
    second.send(head)
    assert heard == [True]
    body = collect_body(result.response)
    if end == "read":
        first.send(b"x" * (LARGE_BYTES + 1))
        assert len(body.body) == LARGE_BYTES + 1
    elif end == "cancelled":
        result.response.cancel()
    else:
        first.reset()
    outcome_of(b.upstream.open(get()))
    (first if end == "read" else b.endpoint.connections[-1]).send(head)
    assert heard == [True, False, True]


@pytest.mark.parametrize("reset", [False, True])
def test_a_reused_connection_that_closes_before_any_byte_is_stale(reset: bool) -> None:
    b = used()
    result = outcome_of(b.upstream.open(get()))
    if reset:
        b.connection.reset()
    else:
        b.connection.close()
    failure = failure_of(result)
    assert (failure.phase, failure.stale) == (Phase.SENT, True)


def test_a_reused_connection_that_closes_within_the_head_is_not_stale() -> None:
    b = used()
    result = outcome_of(b.upstream.open(get()))
    b.connection.send(b"HTTP/1.1 ")
    b.connection.close()
    assert not failure_of(result).stale


@pytest.mark.parametrize("stray", [b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"x"])
def test_an_idle_connection_that_talks_is_closed(stray: bytes) -> None:
    b = used()
    b.connection.send(stray)
    assert b.connection.aborted
    assert b.upstream.idle == 0


def test_bytes_after_the_answer_spoil_the_connection_not_the_answer() -> None:
    b, result = asked()
    b.connection.send(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert collect_body(result.response).body == b"hi"
    assert b.upstream.idle == 0
    assert b.connection.closing


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
def test_a_connection_that_shall_close_is_closed(response: bytes) -> None:
    b, result = asked()
    b.connection.send(response)
    assert collect_body(result.response).ended == 1
    assert b.connection.closing
    assert b.upstream.idle == 0


def test_an_orderly_close_that_the_provider_ignores_is_forced() -> None:
    b, result = asked()
    b.connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    collect_body(result.response)
    assert not b.connection.aborted
    b.clock.advance(LINGER_SECONDS)
    assert b.connection.aborted


def test_an_idle_connection_is_closed_before_its_provider_would() -> None:
    b = used()
    b.clock.advance(IDLE_SECONDS - 1)
    assert b.upstream.idle == 1
    b.clock.advance(1)
    assert b.upstream.idle == 0
    assert b.connection.closing


def test_an_abandoned_answer_closes_its_connection_and_stays_silent() -> None:
    b, response = answering()
    sink = collect_body(response)
    response.cancel()
    assert b.connection.aborted
    b.endpoint.settle()
    assert not sink.over


def test_an_abandoned_answer_that_was_read_leaves_its_connection_usable() -> None:
    b, result = asked()
    b.connection.send(OK)
    result.response.cancel()
    assert b.upstream.idle == 1


class Asking(CollectedBody):
    """Sends the next request when a body has ended."""

    b: UpstreamHarness
    second: Result | None = None

    def on_body_end(self) -> None:
        super().on_body_end()
        self.second = outcome_of(self.b.upstream.open(get()))


def test_the_end_of_a_body_may_send_the_next_request_on_the_same_connection() -> None:
    b, result = asked()
    sink = Asking()
    sink.b = b
    b.connection.send(OK)
    result.response.deliver_body(sink)
    assert len(b.endpoint.connections) == 1
    b.connection.send(OK)
    assert sink.second is not None
    assert collect_body(sink.second.response).body == b"hi"


def test_an_early_answer_is_delivered_and_its_connection_not_used_again() -> None:
    b, result = asked_at_length()
    b.connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
    sink = collect_body(result.response)
    assert (result.response.status, sink.body, sink.ended) == (413, b"no", 1)
    assert b.connection.aborted


def test_a_connection_whose_large_body_was_written_is_used_again() -> None:
    b, result = asked_at_length()
    b.connection.transport.drain()
    b.connection.transport.drain()  # two pieces
    b.connection.send(OK)
    assert collect_body(result.response).ended == 1
    assert b.upstream.idle == 1
