"""The promises of mgw.upstream.request.BodyProducer: bodies that are read while they are sent."""

from __future__ import annotations

import errno
import gc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError
from twisted.logger import capturedLogs

from mgw.bodies.source import PIECE_BYTES, BodySource, edit_source
from mgw.bodies.spliced import SplicedBody
from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream.client import UpstreamFailure, UpstreamRequest
from mgw.upstream.connection import MAX_JOINED_BYTES, MAX_UNWATCHED_BYTES
from mgw.upstream.request import WRITTEN_BYTES
from tests.support.bodies import MemorySource, patterned
from tests.support.upstreams import (
    OK,
    Result,
    UpstreamHarness,
    collect_body,
    get,
    memory_upstream,
    outcome_of,
)

BODY = patterned(3 * PIECE_BYTES + 1000)
HELD = patterned(3 * WRITTEN_BYTES + 1000)
REFUSED = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"


def upload(body: bytes | BodySource) -> UpstreamRequest:
    return UpstreamRequest(b"POST", b"/v1/files", [], body)


def asked(source: BodySource, *, full: bool = False) -> tuple[UpstreamHarness, Result]:
    """Send a request; a ``full`` transport keeps what it gets until the test drains it."""
    b = memory_upstream()
    b.endpoint.full = full
    return b, outcome_of(b.upstream.open(upload(source)))


def sent(b: UpstreamHarness) -> bytes:
    return b.connection.received.partition(b"\r\n\r\n")[2]


def test_the_head_of_a_spooled_body_says_its_length() -> None:
    def head(method: bytes, body: bytes) -> bytes:
        b = memory_upstream()
        _ = outcome_of(b.upstream.open(UpstreamRequest(method, b"/", [], MemorySource(body))))
        return b.connection.received.partition(b"\r\n\r\n")[0] + b"\r\n"

    assert b"\r\nContent-Length: 4\r\n" in head(b"POST", b"body")
    assert b"\r\nContent-Length: 0\r\n" in head(b"POST", b"")
    assert b"Content-Length" not in head(b"GET", b"")


def test_a_request_prints_the_size_of_a_spooled_body_alone() -> None:
    shown = repr(upload(MemorySource(b"canary")))
    assert "6 bytes" in shown
    assert "canary" not in shown


@pytest.mark.parametrize("size", [0, 1, 1000, PIECE_BYTES, PIECE_BYTES + 1, len(BODY)])
def test_a_spooled_body_of_any_size_arrives_whole_and_its_connection_is_used_again(size: int) -> None:
    b, result = asked(MemorySource(BODY[:size]))
    assert sent(b) == BODY[:size]
    b.connection.send(OK)
    assert collect_body(result.response).body == b"hi"
    outcome_of(b.upstream.open(get()))
    assert len(b.endpoint.connections) == 1


@given(
    pieces=st.lists(st.tuples(st.integers(0, 300_000), st.none() | st.binary(max_size=20)), max_size=5),
    moves=st.lists(st.booleans(), max_size=20),
)
def test_what_is_sent_is_the_body_with_its_edits_whatever_disk_and_provider_do(
    pieces: Sequence[tuple[int, bytes | None]], moves: list[bool]
) -> None:
    body, expected = b"", b""
    edits: list[tuple[tuple[int, int], bytes]] = []
    for size, text in pieces:
        piece = patterned(size)
        if text is not None:
            edits.append(((len(body), len(body) + size), text))
        body += piece
        expected += piece if text is None else text
    source = MemorySource(body, held=True)
    b, result = asked(edit_source(source, edits), full=True)
    while len(sent(b)) < len(expected):
        disk_first = moves.pop() if moves else True
        if source.pending and (disk_first or b.connection.transport.producer is None):
            source.step()
        elif b.connection.transport.producer is not None:
            b.connection.transport.drain()
    assert sent(b) == expected
    b.connection.send(OK)
    assert collect_body(result.response).ended == 1


def test_one_piece_is_in_the_transport_and_one_is_read_ahead() -> None:
    source = MemorySource(BODY)
    b, _ = asked(source, full=True)
    for number in range(1, 4):
        assert (len(sent(b)), len(source.reads)) == (number * PIECE_BYTES, number + 1)
        b.connection.transport.drain()
    assert sent(b) == BODY
    assert len(source.reads) == 4


def test_a_slow_disk_has_one_read_under_way() -> None:
    source = MemorySource(BODY, held=True)
    b, _ = asked(source)
    while source.pending:
        source.step()
    assert sent(b) == BODY
    assert source.most_pending == 1


def test_the_same_request_may_be_sent_again_from_the_beginning() -> None:
    source = MemorySource(BODY)
    request = upload(source)
    b = memory_upstream()
    b.endpoint.full = True
    first = outcome_of(b.upstream.open(request))
    b.connection.send(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
    first.response.cancel()
    b.endpoint.full = False
    second = outcome_of(b.upstream.open(request))
    assert len(b.endpoint.connections) == 2
    assert sent(b) == BODY
    b.connection.send(OK)
    assert collect_body(second.response).ended == 1


def test_a_reused_connection_that_closes_while_it_takes_a_body_is_stale() -> None:
    b, result = asked(MemorySource(b"body"))
    b.connection.send(OK)
    collect_body(result.response)
    b.connection.transport.full = True
    source = MemorySource(BODY, held=True)
    again = outcome_of(b.upstream.open(upload(source)))
    b.connection.reset()
    assert isinstance(again.error, UpstreamFailure)
    assert again.error.stale
    assert source.cancelled == 1


@pytest.mark.parametrize("where", ["reading", "sending"])
def test_an_early_refusal_is_delivered_at_once_and_ends_the_reading(where: str) -> None:
    source = MemorySource(BODY, held=where == "reading")
    b, result = asked(source, full=True)
    reads = len(source.reads)
    b.connection.send(REFUSED[:-1])
    assert result.response.status == 413
    while source.pending:
        source.step()
    assert len(source.reads) == reads
    assert b.connection.transport.producer is None
    sink = collect_body(result.response)
    assert not b.connection.aborted
    b.connection.send(REFUSED[-1:])
    assert (sink.body, sink.ended) == (b"no", 1)
    assert b.connection.aborted


def test_behind_an_early_answer_that_is_no_refusal_the_body_goes_on() -> None:
    b, result = asked(MemorySource(BODY), full=True)
    b.connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
    sink = collect_body(result.response)
    for _ in range(4):
        b.connection.transport.drain()
    assert sent(b) == BODY
    b.connection.send(b"0\r\n\r\n")
    assert sink.ended == 1
    assert b.upstream.idle == 1


def test_an_answer_that_ends_before_the_body_does_closes_the_connection() -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    b.connection.send(OK)
    assert collect_body(result.response).ended == 1
    assert b.connection.aborted
    assert source.cancelled == 1


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), None], ids=["disk", "gone"])
@pytest.mark.parametrize("read", [1, 2])
def test_a_body_that_cannot_be_read_aborts_the_connection_and_fails_the_request(
    error: OSError | None, read: int
) -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    for _ in range(read - 1):
        source.step()
    if error is None:
        source.closed = True
        source.step()
    else:
        source.fail(error)
    assert isinstance(result.error, GatewayError)
    assert (result.error.reason, result.error.retry_after) == (Reason.OVERLOADED, 1.0)
    assert "Input" not in result.error.message
    assert b.connection.aborted
    assert b.upstream.active == 0


def test_a_body_that_cannot_be_read_breaks_an_answer_that_has_begun() -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    b.connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
    sink = collect_body(result.response)
    source.fail(OSError(errno.EIO, "Input/output error"))
    assert [broke.reason for broke in sink.errors] == [Reason.OVERLOADED]
    assert b.connection.aborted


def test_a_body_that_is_shorter_than_it_says_fails_the_request() -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    source.data = b""
    source.step()
    assert isinstance(result.error, GatewayError)
    assert b.connection.aborted


def test_a_bug_in_a_source_fails_the_request_and_is_logged() -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    with capturedLogs() as logged:
        source.fail(ZeroDivisionError())
    assert isinstance(result.error, GatewayError)
    assert [event["log_level"].name for event in logged] == ["critical"]
    assert b.connection.aborted


@pytest.mark.parametrize("full", [False, True], ids=["reading", "sending"])
def test_cancelling_stops_the_reading_at_once(full: bool) -> None:
    source = MemorySource(BODY, held=True)
    b = memory_upstream()
    b.endpoint.full = full
    waiting = b.upstream.open(upload(source))
    result = outcome_of(waiting)
    if full:
        source.step()
    waiting.cancel()
    assert isinstance(result.error, CancelledError)
    assert (source.cancelled, b.connection.aborted, b.upstream.active) == (1, True, 0)
    reads = len(source.reads)
    while source.pending:
        source.step()
    assert len(source.reads) == reads
    b.endpoint.settle()
    assert b.timers() == 0


def test_a_read_ahead_that_fails_when_nobody_wants_it_is_no_unhandled_error() -> None:
    source = MemorySource(BODY, held=True)
    b = memory_upstream()
    b.endpoint.full = True
    waiting = b.upstream.open(upload(source))
    result = outcome_of(waiting)
    source.step()
    with capturedLogs() as logged:
        source.fail(OSError(errno.EIO, "Input/output error"))
        assert result.error is None  # the piece before it is still on its way
        waiting.cancel()
        b.endpoint.settle()
        gc.collect()  # which is when Twisted logs an error that nobody has seen
    assert isinstance(result.error, CancelledError)
    assert logged == []


def test_each_piece_that_is_taken_gives_the_provider_its_time_anew() -> None:
    b, result = asked(MemorySource(BODY), full=True)
    for _ in range(4):
        b.clock.advance(599)
        b.connection.transport.drain()
    b.clock.advance(599)
    assert result.error is None
    b.connection.send(OK)
    assert collect_body(result.response).ended == 1


EARLY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"


def test_behind_an_early_answer_each_piece_that_is_taken_breaks_the_silence() -> None:
    b, result = asked(MemorySource(BODY), full=True)
    b.connection.send(EARLY)
    sink = collect_body(result.response)
    for _ in range(4):
        b.clock.advance(299)
        b.connection.transport.drain()
    assert sent(b) == BODY
    b.clock.advance(299)
    assert not sink.over
    b.clock.advance(1)
    assert [error.reason for error in sink.errors] == [Reason.UPSTREAM_TOO_SLOW]


def test_a_piece_that_is_taken_sets_no_limit_to_an_answer_that_is_paused() -> None:
    b, result = asked(MemorySource(BODY), full=True)
    b.connection.send(EARLY)
    sink = collect_body(result.response)
    result.response.pause()
    b.connection.transport.drain()
    b.clock.advance(10_000)
    assert not sink.over


@pytest.mark.parametrize("how", ["untaken", "released"])
def test_a_piece_that_is_taken_keeps_no_answer_alive_that_nobody_reads(how: str) -> None:
    b, result = asked(MemorySource(BODY), full=True)
    b.connection.send(EARLY)
    if how == "released":
        collect_body(result.response)
        result.response.discard_rest()
    b.clock.advance(0.9 if how == "released" else 59)
    b.connection.transport.drain()
    b.clock.advance(1)
    assert b.connection.aborted


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_disk_that_does_not_give_the_body_back_in_time_is_not_the_providers_fault(pieces: int) -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    for _ in range(pieces - 1):
        source.step()
    b.clock.advance(600)
    assert isinstance(result.error, GatewayError)
    assert (result.error.reason, result.error.retry_after) == (Reason.OVERLOADED, 1.0)
    assert b.connection.aborted
    assert source.cancelled == 1


def test_a_disk_that_holds_up_a_body_behind_an_early_answer_is_not_the_providers_fault() -> None:
    b, result = asked(MemorySource(BODY, held=True))
    b.connection.send(EARLY)
    sink = collect_body(result.response)
    b.clock.advance(300)
    assert [error.reason for error in sink.errors] == [Reason.OVERLOADED]


def test_a_provider_that_takes_nothing_is_too_slow_whatever_the_disk_does() -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source, full=True)
    source.step()  # in the transport now, and the next one is read ahead
    b.clock.advance(600)
    assert isinstance(result.error, UpstreamFailure)
    assert result.error.reason is Reason.UPSTREAM_TOO_SLOW


@pytest.mark.parametrize("pieces", [0, 1, 4])
def test_a_provider_that_takes_nothing_more_or_does_not_answer_is_too_slow(pieces: int) -> None:
    source = MemorySource(BODY)
    b, result = asked(source, full=True)
    for _ in range(pieces):
        b.connection.transport.drain()
    b.clock.advance(600)
    assert isinstance(result.error, UpstreamFailure)
    assert result.error.reason is Reason.UPSTREAM_TOO_SLOW
    assert b.connection.aborted


def test_a_connection_that_is_lost_stops_the_reading() -> None:
    source = MemorySource(BODY, held=True)
    b, result = asked(source)
    b.connection.close()
    assert isinstance(result.error, UpstreamFailure)
    assert source.cancelled == 1


IN_MEMORY = st.sampled_from([0, 1, MAX_JOINED_BYTES, MAX_JOINED_BYTES + 1, MAX_UNWATCHED_BYTES, 600_000])


@given(sizes=st.lists(IN_MEMORY, min_size=1, max_size=3), whole=st.booleans(), full=st.booleans())
def test_a_body_in_memory_arrives_whole_whatever_its_parts_and_the_provider_do(
    sizes: list[int], whole: bool, full: bool
) -> None:
    expected = patterned(sum(sizes))
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    parts = [memoryview(expected)[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    body = expected if whole else SplicedBody.of(b"", parts)
    b = memory_upstream()
    b.endpoint.full = full
    result = outcome_of(b.upstream.open(upload(body)))
    while b.connection.transport.producer is not None:
        b.connection.transport.drain()
    assert sent(b) == expected
    b.connection.send(OK)
    assert collect_body(result.response).ended == 1
    assert b.upstream.idle == 1


def test_a_large_body_in_memory_goes_out_as_the_provider_takes_it() -> None:
    b = memory_upstream()
    b.endpoint.full = True
    result = outcome_of(b.upstream.open(upload(SplicedBody.of(HELD, [HELD[:10], memoryview(HELD)[10:]]))))
    for number in range(1, 4):
        assert len(b.connection.received) == number * WRITTEN_BYTES
        b.clock.advance(599)
        b.connection.transport.drain()
    b.connection.transport.drain()
    assert sent(b) == HELD
    b.connection.send(OK)
    assert collect_body(result.response).ended == 1


def test_behind_an_early_refusal_no_more_of_a_body_in_memory_is_sent() -> None:
    b = memory_upstream()
    b.endpoint.full = True
    result = outcome_of(b.upstream.open(upload(HELD)))
    b.connection.send(REFUSED)
    assert result.response.status == 413
    assert b.connection.transport.producer is None
    assert collect_body(result.response).body == b"no"
    assert len(b.connection.received) == WRITTEN_BYTES
    assert b.connection.aborted
