"""The promises of mgw.upstream.connection and mgw.upstream.response, seen from the client's side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream.client import Phase
from mgw.upstream.response import UpstreamResponse
from tests.support.connections import CHUNKED, answering, asked, failure_of
from tests.support.upstreams import (
    OK,
    CollectedBody,
    Result,
    collect_body,
    get,
    memory_upstream,
    outcome_of,
    post,
)


def test_a_request_goes_out_as_one_head_and_its_body() -> None:
    b, _ = asked(b'{"model":"m"}')
    assert b.connection.received == (
        b"POST /v1/chat HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer sk-canary\r\n"
        b'Content-Length: 13\r\n\r\n{"model":"m"}'
    )


def test_an_answer_comes_with_its_status_reason_and_headers_as_received() -> None:
    _, response = answering(
        b"HTTP/1.1 429 Slow Down\r\nRETRY-after: 3\r\nx: 1\r\nX: 2\r\nContent-Length: 0\r\n\r\n"
    )
    assert (response.status, response.reason) == (429, b"Slow Down")
    assert response.headers == [(b"RETRY-after", b"3"), (b"x", b"1"), (b"X", b"2"), (b"Content-Length", b"0")]


def test_interim_answers_are_skipped() -> None:
    b, result = asked()
    b.connection.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n")
    assert result.value is None
    b.connection.send(OK)
    assert collect_body(result.response).body == b"hi"


def test_nothing_is_read_until_somebody_takes_the_body() -> None:
    b, response = answering(CHUNKED + b"2\r\nhi\r\n")
    assert b.connection.paused
    sink = collect_body(response)
    assert sink.body == b"hi"
    assert not b.connection.paused


def test_a_body_passes_as_it_comes() -> None:
    b, response = answering()
    sink = collect_body(response)
    b.connection.send(b"2\r\nhi\r\n")
    b.connection.send(b"3\r\nyou\r\n0\r\n\r\n")
    assert sink.pieces == [b"hi", b"you"]
    assert sink.ended == 1


def test_a_paused_answer_reads_and_hands_on_nothing() -> None:
    b, response = answering()
    sink = collect_body(response)
    response.pause()
    assert b.connection.paused
    b.connection.send(b"2\r\nhi\r\n")  # TLS may still hand over what it had decrypted
    assert not sink.pieces
    response.resume()
    assert sink.body == b"hi"
    assert not b.connection.paused


class Pausing(CollectedBody):
    """Pauses after each piece."""

    response: UpstreamResponse

    def on_body_data(self, data: bytes) -> None:
        super().on_body_data(data)
        self.response.pause()


def test_what_one_read_brings_is_one_piece_and_a_pause_in_it_holds_the_end_back() -> None:
    b, response = answering()
    sink = Pausing()
    sink.response = response
    response.deliver_body(sink)
    b.connection.send(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
    assert (sink.pieces, sink.ended) == ([b"ab"], 0)
    response.resume()
    assert (sink.pieces, sink.ended) == ([b"ab"], 1)


class Flickering(CollectedBody):
    """Pauses and resumes within each piece."""

    response: UpstreamResponse

    def on_body_data(self, data: bytes) -> None:
        super().on_body_data(data)
        self.response.pause()
        self.response.resume()


def test_resuming_within_a_piece_neither_nests_nor_reorders() -> None:
    b, response = answering()
    sink = Flickering()
    sink.response = response
    response.deliver_body(sink)
    expected = [b"%d" % number for number in range(5000)]
    for piece in expected:
        b.connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    b.connection.send(b"0\r\n\r\n")
    assert sink.pieces == expected
    assert sink.ended == 1


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", CHUNKED + b"2\r\nhi\r\n"],
    ids=["length", "chunked"],
)
def test_a_truncated_body_breaks_and_never_ends(head: bytes) -> None:
    b, response = answering(head)
    sink = collect_body(response)
    b.connection.close()
    assert (sink.body, sink.ended) == (b"hi", 0)
    assert [error.reason for error in sink.errors] == [Reason.UPSTREAM_BROKEN]


def test_a_body_without_a_length_ends_when_the_connection_closes() -> None:
    b, response = answering(b"HTTP/1.0 200 OK\r\n\r\nhi")
    sink = collect_body(response)
    assert not sink.over
    b.connection.close()
    assert (sink.body, sink.ended, sink.errors) == (b"hi", 1, [])


def test_a_body_without_a_length_breaks_when_the_connection_is_reset() -> None:
    b, response = answering(b"HTTP/1.0 200 OK\r\n\r\nhi")
    sink = collect_body(response)
    b.connection.reset()
    assert sink.ended == 0
    assert len(sink.errors) == 1


def test_garbage_in_the_middle_breaks_the_body_after_what_was_good() -> None:
    b, response = answering()
    sink = collect_body(response)
    b.connection.send(b"2\r\nhi\r\nnonsense\r\n")
    assert (sink.body, sink.ended, len(sink.errors)) == (b"hi", 0, 1)
    assert b.connection.aborted


def test_an_answer_that_broke_before_it_was_taken_still_tells() -> None:
    b, response = answering(CHUNKED + b"2\r\nhi\r\n")
    b.connection.reset()
    sink = collect_body(response)
    assert (sink.body, sink.ended, len(sink.errors)) == (b"hi", 0, 1)


def test_an_answer_that_ended_before_it_was_taken_is_whole() -> None:
    b, result = asked()
    b.connection.send(OK)
    b.connection.close()
    sink = collect_body(result.response)
    assert (sink.body, sink.ended) == (b"hi", 1)


def test_garbage_for_a_head_fails_the_request() -> None:
    b, result = asked()
    b.connection.send(b"SSH-2.0-OpenSSH\r\n")
    failure = failure_of(result)
    assert (failure.reason, failure.phase, failure.stale) == (Reason.UPSTREAM_BROKEN, Phase.HEAD, False)
    assert b.connection.aborted


def test_switching_protocols_fails_the_request() -> None:
    b, result = asked()
    b.connection.send(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
    assert failure_of(result).reason is Reason.UPSTREAM_BROKEN


def test_an_answer_that_is_over_has_no_hold_on_its_connection() -> None:
    b, result = asked()
    b.connection.send(OK)
    collect_body(result.response)
    second = outcome_of(b.upstream.open(get()))
    result.response.pause()
    result.response.cancel()
    assert not b.connection.paused
    b.connection.send(OK)
    assert collect_body(second.response).body == b"hi"


class Failing(CollectedBody):
    """A sink with a bug."""

    def on_body_data(self, data: bytes) -> None:
        raise ZeroDivisionError


def test_a_bug_in_the_sink_ends_the_body_and_the_connection() -> None:
    b, response = answering()
    sink = Failing()
    response.deliver_body(sink)
    b.connection.send(b"2\r\nhi\r\n")
    assert [error.reason for error in sink.errors] == [Reason.INTERNAL]
    assert b.connection.aborted


class Abandoning(CollectedBody):
    """Abandons within a piece."""

    response: UpstreamResponse

    def on_body_data(self, data: bytes) -> None:
        super().on_body_data(data)
        self.response.cancel()


def test_abandoning_within_a_piece_is_the_last_that_the_sink_hears() -> None:
    b, response = answering()
    sink = Abandoning()
    sink.response = response
    response.deliver_body(sink)
    b.connection.send(b"1\r\na\r\n")
    b.connection.send(b"1\r\nb\r\n0\r\n\r\n")
    b.endpoint.settle()
    assert (sink.pieces, sink.over) == ([b"a"], False)


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 16 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 300_000])
def test_a_body_of_any_size_arrives_whole(size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    b, _ = asked(body)
    head, _, sent = b.connection.received.partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % size in head
    assert sent == body


def test_cancelling_while_waiting_for_the_answer_aborts() -> None:
    b = memory_upstream()
    waiting = b.upstream.open(post())
    result = outcome_of(waiting)
    b.connection.send(b"HTTP/1.1 2")
    waiting.cancel()
    assert b.connection.aborted
    assert b.upstream.active == 0
    assert type(result.error).__name__ == "CancelledError"


PIECES = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from(
            [b"HTTP/1.1 200 OK\r\n", b"Content-Length: 3\r\n", b"\r\n", b"abc", OK, CHUNKED, b"1\r\nx\r\n"]
        ),
    ),
    max_size=12,
)


@given(pieces=PIECES, resets=st.booleans(), late=st.booleans())
def test_whatever_comes_every_request_ends_and_no_timer_is_left(
    pieces: list[bytes], resets: bool, late: bool
) -> None:
    b, result = asked()
    sink = CollectedBody()
    for piece in pieces:
        if result.value is not None and not sink.over and not late:
            deliver_once(result, sink)
        if not b.connection.over:
            b.connection.send(piece)
    if result.value is not None:
        deliver_once(result, sink)
    (b.connection.reset if resets else b.connection.close)()
    assert sink.over if result.value is not None else isinstance(result.error, GatewayError)
    assert b.timers() == 0
    assert (b.upstream.active, b.upstream.idle) == (0, 0)


def deliver_once(result: Result, sink: CollectedBody) -> None:
    if not result.response.claimed:
        result.response.deliver_body(sink)
