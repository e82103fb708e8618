"""The beginning of a body can be read before anybody takes it, and stays there for whoever does."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from mgw.upstream.connection import UNCLAIMED_SECONDS
from tests.support.connections import answering, asked
from tests.support.upstreams import LIMITS, OK, collect_body

HEAD = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\n"


def fired(reading: Deferred[None]) -> list[None]:
    found: list[None] = []
    _ = reading.addCallback(found.append)
    return found


def outcome_of_waiting(reading: Deferred[None]) -> list[object]:
    found: list[object] = []
    _ = reading.addErrback(lambda failure: found.append(failure.type))
    return found


def test_it_waits_for_the_bytes_that_are_asked_for_and_reads_no_more() -> None:
    b, response = answering(HEAD)
    done = fired(response.read_ahead(6))
    assert not b.connection.paused
    b.connection.send(b"abc")
    assert not done
    assert not b.connection.paused
    b.connection.send(b"def")
    assert done
    assert b.connection.paused
    assert response.arrived == b"abcdef"


def test_what_was_read_is_delivered_to_whoever_takes_the_body() -> None:
    b, response = answering(HEAD)
    done = fired(response.read_ahead(6))
    b.connection.send(b"abcdef")
    sink = collect_body(response)
    assert done
    assert sink.body == b"abcdef"
    b.connection.send(b"ghij")
    assert (sink.body, sink.ended) == (b"abcdefghij", 1)


def test_a_shorter_body_ends_the_wait() -> None:
    b, response = answering(HEAD)
    done = fired(response.read_ahead(1000))
    b.connection.send(b"abcdefghij")
    assert done
    assert (collect_body(response).body, b.upstream.active) == (b"abcdefghij", 0)


def test_a_body_that_is_there_already_is_not_waited_for() -> None:
    b, result = asked()
    b.connection.send(OK)
    assert fired(result.response.read_ahead(1000))
    assert result.response.take_whole() == b"hi"
    assert b.upstream.active == 0


def test_a_connection_that_breaks_ends_the_wait_and_then_the_body() -> None:
    b, response = answering(HEAD)
    done = fired(response.read_ahead(1000))
    b.connection.send(b"abc")
    b.connection.reset()
    assert done
    sink = collect_body(response)
    assert (sink.body, len(sink.errors)) == (b"abc", 1)


def test_a_body_that_does_not_come_is_not_waited_for_for_ever() -> None:
    b, response = answering(HEAD)
    done = fired(response.read_ahead(1000))
    b.clock.advance(LIMITS.idle)
    assert done
    assert b.connection.aborted


def test_an_answer_that_nobody_takes_afterwards_does_not_hold_its_connection_for_ever() -> None:
    b, response = answering(HEAD)
    assert not fired(response.read_ahead(6))
    b.connection.send(b"abcdef")
    b.clock.advance(UNCLAIMED_SECONDS - 1)
    assert not b.connection.aborted
    b.clock.advance(1)
    assert b.connection.aborted


def test_who_no_longer_waits_leaves_the_response_as_it_was() -> None:
    b, response = answering(HEAD)
    reading = response.read_ahead(1000)
    left = outcome_of_waiting(reading)
    reading.cancel()
    assert left == [CancelledError]
    assert b.connection.paused
    b.connection.send(b"abcdefghij")
    assert (collect_body(response).body, b.upstream.active) == (b"abcdefghij", 0)


def test_an_answer_that_is_cancelled_meanwhile_is_over() -> None:
    b, response = answering(HEAD)
    reading = response.read_ahead(1000)
    left = outcome_of_waiting(reading)
    reading.cancel()
    assert left == [CancelledError]
    response.cancel()
    assert b.connection.aborted
    assert b.upstream.active == 0
