"""The promises of mgw.upstream.connection and mgw.upstream.response, seen from the client's side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.errors import GatewayError, Reason
from mgw.upstream.client import Phase, UpstreamFailure
from mgw.upstream.connection import IDLE_SECONDS, LINGER_SECONDS, MAX_UNWATCHED_BYTES, UNCLAIMED_SECONDS
from mgw.upstream.response import UpstreamResponse
from tests.support.upstreams import OK, Bench, Result, Taken, bench, get, outcome_of, post, taken

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def asked(body: bytes = b"{}") -> tuple[Bench, Result]:
    b = bench()
    return b, outcome_of(b.upstream.open(post(body)))


def answering(head: bytes = CHUNKED) -> tuple[Bench, UpstreamResponse]:
    b, result = asked()
    b.wire.says(head)
    return b, result.response


def failure_of(result: Result) -> UpstreamFailure:
    assert isinstance(result.error, UpstreamFailure)
    return result.error


def test_a_request_goes_out_as_one_head_and_its_body() -> None:
    b, _ = asked(b'{"model":"m"}')
    assert b.wire.heard == (
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
    b.wire.says(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n")
    assert result.value is None
    b.wire.says(OK)
    assert taken(result.response).body == b"hi"


def test_nothing_is_read_until_somebody_takes_the_body() -> None:
    b, response = answering(CHUNKED + b"2\r\nhi\r\n")
    assert b.wire.paused
    sink = taken(response)
    assert sink.body == b"hi"
    assert not b.wire.paused


def test_a_body_passes_as_it_comes() -> None:
    b, response = answering()
    sink = taken(response)
    b.wire.says(b"2\r\nhi\r\n")
    b.wire.says(b"3\r\nyou\r\n0\r\n\r\n")
    assert sink.pieces == [b"hi", b"you"]
    assert sink.ended == 1


def test_a_paused_answer_reads_and_hands_on_nothing() -> None:
    b, response = answering()
    sink = taken(response)
    response.pause()
    assert b.wire.paused
    b.wire.says(b"2\r\nhi\r\n")  # TLS may still hand over what it had decrypted
    assert not sink.pieces
    response.resume()
    assert sink.body == b"hi"
    assert not b.wire.paused


class Pausing(Taken):
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
    b.wire.says(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
    assert (sink.pieces, sink.ended) == ([b"ab"], 0)
    response.resume()
    assert (sink.pieces, sink.ended) == ([b"ab"], 1)


class Flickering(Taken):
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
        b.wire.says(b"%x\r\n%s\r\n" % (len(piece), piece))
    b.wire.says(b"0\r\n\r\n")
    assert sink.pieces == expected
    assert sink.ended == 1


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", CHUNKED + b"2\r\nhi\r\n"],
    ids=["length", "chunked"],
)
def test_a_truncated_body_breaks_and_never_ends(head: bytes) -> None:
    b, response = answering(head)
    sink = taken(response)
    b.wire.closes()
    assert (sink.body, sink.ended) == (b"hi", 0)
    assert [error.reason for error in sink.errors] == [Reason.UPSTREAM_BROKEN]


def test_a_body_without_a_length_ends_when_the_connection_closes() -> None:
    b, response = answering(b"HTTP/1.0 200 OK\r\n\r\nhi")
    sink = taken(response)
    assert not sink.over
    b.wire.closes()
    assert (sink.body, sink.ended, sink.errors) == (b"hi", 1, [])


def test_a_body_without_a_length_breaks_when_the_connection_is_reset() -> None:
    b, response = answering(b"HTTP/1.0 200 OK\r\n\r\nhi")
    sink = taken(response)
    b.wire.breaks()
    assert sink.ended == 0
    assert len(sink.errors) == 1


def test_garbage_in_the_middle_breaks_the_body_after_what_was_good() -> None:
    b, response = answering()
    sink = taken(response)
    b.wire.says(b"2\r\nhi\r\nnonsense\r\n")
    assert (sink.body, sink.ended, len(sink.errors)) == (b"hi", 0, 1)
    assert b.wire.aborted


def test_an_answer_that_broke_before_it_was_taken_still_tells() -> None:
    b, response = answering(CHUNKED + b"2\r\nhi\r\n")
    b.wire.breaks()
    sink = taken(response)
    assert (sink.body, sink.ended, len(sink.errors)) == (b"hi", 0, 1)


def test_an_answer_that_ended_before_it_was_taken_is_whole() -> None:
    b, result = asked()
    b.wire.says(OK)
    b.wire.closes()
    sink = taken(result.response)
    assert (sink.body, sink.ended) == (b"hi", 1)


def test_garbage_for_a_head_fails_the_request() -> None:
    b, result = asked()
    b.wire.says(b"SSH-2.0-OpenSSH\r\n")
    failure = failure_of(result)
    assert (failure.reason, failure.phase, failure.stale) == (Reason.UPSTREAM_BROKEN, Phase.HEAD, False)
    assert b.wire.aborted


def test_switching_protocols_fails_the_request() -> None:
    b, result = asked()
    b.wire.says(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
    assert failure_of(result).reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize(("said", "phase"), [(b"", Phase.SENT), (b"HTTP/1.1 2", Phase.HEAD)])
def test_a_new_connection_that_closes_before_its_answer_is_not_stale(said: bytes, phase: Phase) -> None:
    b, result = asked()
    if said:
        b.wire.says(said)
    b.wire.closes()
    failure = failure_of(result)
    assert (failure.phase, failure.stale) == (phase, False)


def used() -> Bench:
    b, result = asked()
    b.wire.says(OK)
    taken(result.response)
    return b


def test_a_connection_is_used_again_after_its_answer() -> None:
    b = used()
    result = outcome_of(b.upstream.open(get()))
    b.wire.says(OK)
    assert taken(result.response).body == b"hi"
    assert len(b.endpoint.wires) == 1


@pytest.mark.parametrize("reset", [False, True])
def test_a_reused_connection_that_closes_before_any_byte_is_stale(reset: bool) -> None:
    b = used()
    result = outcome_of(b.upstream.open(get()))
    if reset:
        b.wire.breaks()
    else:
        b.wire.closes()
    failure = failure_of(result)
    assert (failure.phase, failure.stale) == (Phase.SENT, True)


def test_a_reused_connection_that_closes_within_the_head_is_not_stale() -> None:
    b = used()
    result = outcome_of(b.upstream.open(get()))
    b.wire.says(b"HTTP/1.1 ")
    b.wire.closes()
    assert not failure_of(result).stale


@pytest.mark.parametrize("stray", [b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"x"])
def test_an_idle_connection_that_talks_is_closed(stray: bytes) -> None:
    b = used()
    b.wire.says(stray)
    assert b.wire.aborted
    assert b.upstream.idle == 0


def test_bytes_after_the_answer_spoil_the_connection_not_the_answer() -> None:
    b, result = asked()
    b.wire.says(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert taken(result.response).body == b"hi"
    assert b.upstream.idle == 0
    assert b.wire.closing


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
def test_a_connection_that_shall_close_is_closed(response: bytes) -> None:
    b, result = asked()
    b.wire.says(response)
    assert taken(result.response).ended == 1
    assert b.wire.closing
    assert b.upstream.idle == 0


def test_an_orderly_close_that_the_provider_ignores_is_forced() -> None:
    b, result = asked()
    b.wire.says(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    taken(result.response)
    assert not b.wire.aborted
    b.clock.advance(LINGER_SECONDS)
    assert b.wire.aborted


def test_an_idle_connection_is_closed_before_its_provider_would() -> None:
    b = used()
    b.clock.advance(IDLE_SECONDS - 1)
    assert b.upstream.idle == 1
    b.clock.advance(1)
    assert b.upstream.idle == 0
    assert b.wire.closing


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX: y\r\n"], ids=["nothing", "half a head"])
def test_a_provider_that_does_not_answer_in_time_is_too_slow(said: bytes) -> None:
    b, result = asked()
    if said:
        b.wire.says(said)
    b.clock.advance(599)
    assert result.error is None
    b.clock.advance(1)
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW
    assert b.wire.aborted


def test_interim_answers_do_not_prolong_the_wait() -> None:
    b, result = asked()
    for _ in range(60):
        b.clock.advance(10)
        if result.error is None:
            b.wire.says(b"HTTP/1.1 102 Processing\r\n\r\n")
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW


def test_a_body_that_falls_silent_breaks() -> None:
    b, response = answering()
    sink = taken(response)
    b.clock.advance(299)
    b.wire.says(b"2\r\nhi\r\n")
    b.clock.advance(299)
    assert not sink.over
    b.clock.advance(1)
    assert [error.reason for error in sink.errors] == [Reason.UPSTREAM_TOO_SLOW]
    assert b.wire.aborted


def test_silence_while_paused_does_not_count() -> None:
    b, response = answering()
    sink = taken(response)
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
    assert b.wire.aborted
    assert b.upstream.active == 0


def test_an_answer_that_was_read_stays_whole_when_its_connection_is_taken_away() -> None:
    b, result = asked()
    b.wire.says(OK)
    b.clock.advance(UNCLAIMED_SECONDS)
    assert b.wire.aborted
    sink = taken(result.response)
    assert (sink.body, sink.ended) == (b"hi", 1)


def test_an_abandoned_answer_closes_its_connection_and_stays_silent() -> None:
    b, response = answering()
    sink = taken(response)
    response.cancel()
    assert b.wire.aborted
    b.endpoint.settle()
    assert not sink.over


def test_an_abandoned_answer_that_was_read_leaves_its_connection_usable() -> None:
    b, result = asked()
    b.wire.says(OK)
    result.response.cancel()
    assert b.upstream.idle == 1


def test_an_answer_that_is_over_has_no_hold_on_its_connection() -> None:
    b, result = asked()
    b.wire.says(OK)
    taken(result.response)
    second = outcome_of(b.upstream.open(get()))
    result.response.pause()
    result.response.cancel()
    assert not b.wire.paused
    b.wire.says(OK)
    assert taken(second.response).body == b"hi"


class Failing(Taken):
    """A sink with a bug."""

    def on_body_data(self, data: bytes) -> None:
        raise ZeroDivisionError


def test_a_bug_in_the_sink_ends_the_body_and_the_connection() -> None:
    b, response = answering()
    sink = Failing()
    response.deliver_body(sink)
    b.wire.says(b"2\r\nhi\r\n")
    assert [error.reason for error in sink.errors] == [Reason.INTERNAL]
    assert b.wire.aborted


class Abandoning(Taken):
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
    b.wire.says(b"1\r\na\r\n")
    b.wire.says(b"1\r\nb\r\n0\r\n\r\n")
    b.endpoint.settle()
    assert (sink.pieces, sink.over) == ([b"a"], False)


class Asking(Taken):
    """Sends the next request when a body has ended."""

    b: Bench
    second: Result | None = None

    def on_body_end(self) -> None:
        super().on_body_end()
        self.second = outcome_of(self.b.upstream.open(get()))


def test_the_end_of_a_body_may_send_the_next_request_on_the_same_connection() -> None:
    b, result = asked()
    sink = Asking()
    sink.b = b
    b.wire.says(OK)
    result.response.deliver_body(sink)
    assert len(b.endpoint.wires) == 1
    b.wire.says(OK)
    assert sink.second is not None
    assert taken(sink.second.response).body == b"hi"


LARGE = b"x" * (MAX_UNWATCHED_BYTES + 1)


def asked_at_length() -> tuple[Bench, Result]:
    """A request with a large body, of which the transport has not sent all."""
    b = bench()
    b.endpoint.full = True
    return b, outcome_of(b.upstream.open(post(LARGE)))


def test_an_early_answer_is_delivered_and_its_connection_not_used_again() -> None:
    b, result = asked_at_length()
    b.wire.says(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
    sink = taken(result.response)
    assert (result.response.status, sink.body, sink.ended) == (413, b"no", 1)
    assert b.wire.aborted


def test_a_connection_whose_large_body_was_written_is_used_again() -> None:
    b, result = asked_at_length()
    b.wire.transport.drain()
    b.wire.transport.drain()  # two pieces
    b.wire.says(OK)
    assert taken(result.response).ended == 1
    assert b.upstream.idle == 1


def test_the_wait_for_an_answer_begins_when_a_large_body_is_written() -> None:
    b, result = asked_at_length()
    b.clock.advance(599)
    b.wire.transport.drain()
    b.clock.advance(599)
    b.wire.transport.drain()
    b.clock.advance(599)
    assert result.error is None
    b.clock.advance(1)
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW


def test_a_provider_that_does_not_take_the_request_in_time_is_too_slow() -> None:
    b, result = asked_at_length()
    b.clock.advance(600)
    assert failure_of(result).reason is Reason.UPSTREAM_TOO_SLOW


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 16 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 300_000])
def test_a_body_of_any_size_arrives_whole(size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    b, _ = asked(body)
    head, _, sent = b.wire.heard.partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % size in head
    assert sent == body


def test_cancelling_while_waiting_for_the_answer_aborts() -> None:
    b = bench()
    waiting = b.upstream.open(post())
    result = outcome_of(waiting)
    b.wire.says(b"HTTP/1.1 2")
    waiting.cancel()
    assert b.wire.aborted
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
    sink = Taken()
    for piece in pieces:
        if result.value is not None and not sink.over and not late:
            deliver_once(result, sink)
        if not b.wire.over:
            b.wire.says(piece)
    if result.value is not None:
        deliver_once(result, sink)
    (b.wire.breaks if resets else b.wire.closes)()
    assert sink.over if result.value is not None else isinstance(result.error, GatewayError)
    assert b.timers() == 0
    assert (b.upstream.active, b.upstream.idle) == (0, 0)


def deliver_once(result: Result, sink: Taken) -> None:
    if not result.response.claimed:
        result.response.deliver_body(sink)
