"""How long a connection waits for its provider."""

from __future__ import annotations

import pytest

from mgw.nouns.errors import Reason
from mgw.upstream.connection import UNCLAIMED_SECONDS
from tests.support.connections import answering, asked, asked_at_length, failure_of
from tests.support.upstreams import OK, collect_body


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX: y\r\n"], ids=["nothing", "half a head"])
def test_a_provider_that_does_not_answer_in_time_is_too_slow(said: bytes) -> None:
    b, result = asked()
    if said:
        b.connection.send(said)
    b.clock.advance(599)
    assert result.error is None
    b.clock.advance(1)
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW
    assert b.connection.aborted


def test_interim_answers_do_not_prolong_the_wait() -> None:
    b, result = asked()
    for _ in range(60):
        b.clock.advance(10)
        if result.error is None:
            b.connection.send(b"HTTP/1.1 102 Processing\r\n\r\n")
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW


def test_a_body_that_falls_silent_breaks() -> None:
    b, response = answering()
    sink = collect_body(response)
    b.clock.advance(299)
    b.connection.send(b"2\r\nhi\r\n")
    b.clock.advance(299)
    assert not sink.over
    b.clock.advance(1)
    assert [error.reason for error in sink.errors] == [Reason.UPSTREAM_TOO_SLOW]
    assert b.connection.aborted


def test_silence_while_paused_does_not_count() -> None:
    b, response = answering()
    sink = collect_body(response)
    response.pause()
    b.clock.advance(10_000)
    response.resume()
    b.clock.advance(299)
    assert not sink.over
    b.clock.advance(1)
    assert len(sink.errors) == 1


def test_an_answer_that_nobody_takes_does_not_hold_its_connection_for_ever() -> None:
    b, _ = answering()
    b.clock.advance(UNCLAIMED_SECONDS)
    assert b.connection.aborted
    assert b.upstream.active == 0


def test_an_answer_that_was_read_stays_whole_when_its_connection_is_taken_away() -> None:
    b, result = asked()
    b.connection.send(OK)
    b.clock.advance(UNCLAIMED_SECONDS)
    assert b.connection.aborted
    sink = collect_body(result.response)
    assert (sink.body, sink.ended) == (b"hi", 1)


def test_the_wait_for_an_answer_begins_when_a_large_body_is_written() -> None:
    b, result = asked_at_length()
    b.clock.advance(599)
    b.connection.transport.drain()
    b.clock.advance(599)
    b.connection.transport.drain()
    b.clock.advance(599)
    assert result.error is None
    b.clock.advance(1)
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW


def test_a_provider_that_does_not_take_the_request_in_time_is_too_slow() -> None:
    b, result = asked_at_length()
    b.clock.advance(600)
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW
