"""Chunks that came whole, behind others, reach the receiver by the shortest way: nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.errors import Reason
from mgw.upstream.response import UpstreamResponse
from tests.support.connections import answering
from tests.support.upstreams import CollectedBody, UpstreamHarness, collect_body

FIRST = b"1\r\n.\r\n"
SIZES = [
    1,
    2,
    14,
    15,
    16,
    17,
    254,
    255,
    256,
    257,
    4094,
    4095,
    4096,
    4097,
    65534,
    65535,
    65536,
    65537,
    200_000,
]


@dataclass
class Chunks:
    """Takes whole chunks, or will not."""

    willing: bool = True
    seen: list[tuple[bytes, bytes]] = field(default_factory=list)

    def pass_chunk(self, data: bytes, start: int, stop: int) -> bool:
        self.seen.append((data, data[start:stop]))
        return self.willing


def flowing() -> tuple[UpstreamHarness, UpstreamResponse, CollectedBody]:
    """A body of which the first chunk has come."""
    b, response = answering()
    sink = collect_body(response)
    b.connection.send(FIRST)
    sink.pieces.clear()
    return b, response, sink


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("line", [b"%x\r\n", b"%X\r\n", b"0%x\r\n"])
def test_a_chunk_of_any_size_arrives_whole(size: int, line: bytes) -> None:
    b, response, sink = flowing()
    content = bytes(index % 251 for index in range(size))
    chunk = line % size + content + b"\r\n"
    b.connection.send(chunk)
    assert sink.pieces == [content]
    response.chunk_receiver = chunks = Chunks()
    b.connection.send(chunk)
    b.connection.send(b"0\r\n\r\n")
    assert sink.ended == 1
    assert chunks.seen == ([(chunk, content)] if size < 65536 and line != b"0%x\r\n" else [])


NEARLY = st.binary(max_size=2) | st.sampled_from(
    [b"-", b"+", b"0x", b"_", b" ", b"\r\n", b"0\r\n", b"f", b"10"]
)
CHUNK = st.builds(
    lambda size, content, end: b"%x\r\n%b%b" % (size, content, end),
    st.sampled_from([0, 1, 14, 15, 16, 17, 255, 256]),
    st.sampled_from([0, 1, 13, 14, 15, 16, 17, 254, 255, 256]).map(bytes),
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r", b"", b"\r\n\r\n", b"\n\r\n", b"\n\n"]),
)
READ = st.lists(st.builds(bytes.__add__, NEARLY | st.just(b""), CHUNK), min_size=1, max_size=2).map(b"".join)
"""One or two of them in a read."""


@given(reads=st.lists(READ, min_size=1, max_size=4))
@example(reads=[b"1\r\nx\r\n0\r\n", b"2\r\nhi\r\n"])
@example(reads=[b"1\r\nx\r\n2", b"2\r\nhi\r\n"])
@example(reads=[b"2\r\nhixx"])
def test_what_is_nearly_a_chunk_is_read_as_its_bytes_one_by_one(reads: list[bytes]) -> None:
    outcomes = []
    for sent in (reads, [bytes([byte]) for read in reads for byte in read]):
        b, _, sink = flowing()
        for read in sent:
            b.connection.send(read)
        outcomes.append((sink.body, sink.ended, [repr(error) for error in sink.errors], b.connection.closing))
    assert outcomes[0] == outcomes[1]


def test_one_who_takes_no_chunk_leaves_it_to_the_receiver() -> None:
    b, response, sink = flowing()
    response.chunk_receiver = chunks = Chunks(willing=False)
    b.connection.send(b"2\r\nhi\r\n")
    assert (len(chunks.seen), sink.body) == (1, b"hi")


def test_each_chunk_restarts_the_wait_for_the_next() -> None:
    b, response, sink = flowing()
    response.chunk_receiver = Chunks()
    for _ in range(3):
        b.clock.advance(299)
        b.connection.send(b"2\r\nhi\r\n")
    b.clock.advance(299)
    assert not sink.over
    b.clock.advance(1)
    assert [error.reason for error in sink.errors] == [Reason.UPSTREAM_TOO_SLOW]


def test_a_chunk_behind_an_event_of_the_wheel_restarts_the_wait() -> None:
    b, _, sink = flowing()
    for _ in range(20):  # the deadline is put into later and later slots
        b.clock.advance(150)
        b.connection.send(b"2\r\nhi\r\n")
    assert not sink.over
    assert b.timers() == 1


def test_a_paused_body_gives_away_no_chunk() -> None:
    b, response, sink = flowing()
    response.chunk_receiver = chunks = Chunks()
    response.pause()
    b.connection.send(b"2\r\nhi\r\n")
    b.connection.send(b"3\r\nyou\r\n")
    assert (chunks.seen, sink.pieces) == ([], [])
    response.resume()
    assert (chunks.seen, sink.body) == ([], b"hiyou")
    b.connection.send(b"2\r\nhi\r\n")
    assert len(chunks.seen) == 1


@pytest.mark.parametrize("leave", [UpstreamResponse.cancel, UpstreamResponse.discard_rest])
def test_a_body_that_nobody_wants_gives_away_no_chunk(leave: object) -> None:
    b, response, sink = flowing()
    response.chunk_receiver = chunks = Chunks()
    assert callable(leave)
    leave(response)
    b.connection.send(b"2\r\nhi\r\n")
    assert (chunks.seen, sink.pieces, sink.over) == ([], [], False)


class Shouting:
    """Makes something else of a body."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data.upper()]

    def finish(self) -> bytes:
        return b"!"


def test_chunks_that_have_to_be_unframed_are() -> None:
    b, response = answering()
    response.unframe(response.head, Shouting())
    sink = collect_body(response)
    response.chunk_receiver = chunks = Chunks()
    for _ in range(2):
        b.connection.send(b"2\r\nhi\r\n")
    b.connection.send(b"0\r\n\r\n")
    assert (chunks.seen, sink.body, sink.ended) == ([], b"HIHI!", 1)


class Failing(CollectedBody):
    """A receiver with a bug behind its first piece."""

    def on_body_data(self, data: bytes) -> None:
        if self.pieces:
            raise ZeroDivisionError
        super().on_body_data(data)


class FailingChunks(Chunks):
    """A bug."""

    def pass_chunk(self, data: bytes, start: int, stop: int) -> bool:
        raise ZeroDivisionError


@pytest.mark.parametrize("chunks", [None, FailingChunks()])
def test_a_bug_in_whoever_takes_a_chunk_ends_the_body_and_the_connection(chunks: Chunks | None) -> None:
    b, response = answering()
    sink = Failing()
    response.deliver_body(sink)
    response.chunk_receiver = chunks
    b.connection.send(FIRST)
    b.connection.send(b"2\r\nhi\r\n")
    assert [error.reason for error in sink.errors] == [Reason.INTERNAL]
    assert b.connection.aborted
    b.endpoint.settle()
    assert (sink.pieces, b.timers()) == ([b"."], 0)


def test_a_body_that_has_ended_refers_to_its_receivers_no_longer() -> None:
    b, response, _ = flowing()
    response.chunk_receiver = Chunks()
    b.connection.send(b"0\r\n\r\n")
    kept = [receiver for receiver in (response.direct, response.chunk_receiver) if receiver is not None]
    assert (kept, b.connection.closing) == ([], False)
