"""Frames of Amazon's event streams: held to botocore's reading of them, and broken in every way."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from struct import pack
from time import process_time
from typing import Final
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.wire.event_stream import (
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    AmazonFrameReader,
    Frame,
    read_headers,
)
from tests.support.calls import count_calls
from tests.support.event_streams import chunk_frame, event_frame, frame, header, text_header

CHUNK: Final = chunk_frame(b'{"type":"ping"}', p="abcdef")
NAMES: Final = st.text(min_size=1, max_size=20)
VALUES: Final = st.one_of(
    st.text(max_size=20).map(lambda text: (7, pack(">H", len(text.encode())) + text.encode())),
    st.binary(max_size=20).map(lambda data: (6, pack(">H", len(data)) + data)),
    st.sampled_from([0, 1]).map(lambda kind: (kind, b"")),
    st.integers(-128, 127).map(lambda number: (2, pack(">b", number))),
    st.integers(-(2**15), 2**15 - 1).map(lambda number: (3, pack(">h", number))),
    st.integers(-(2**31), 2**31 - 1).map(lambda number: (4, pack(">i", number))),
    st.tuples(st.sampled_from([5, 8]), st.integers(-(2**63), 2**63 - 1).map(lambda n: pack(">q", n))),
    st.binary(min_size=16, max_size=16).map(lambda data: (9, data)),
)
HEADERS: Final = st.dictionaries(NAMES, VALUES, max_size=6)


def encoded(headers: dict[str, tuple[int, bytes]]) -> bytes:
    return b"".join(header(name, kind, value) for name, (kind, value) in headers.items())


def read(*pieces: bytes) -> list[Frame]:
    reader = AmazonFrameReader()
    found = [one for piece in pieces for one in reader.feed(piece)]
    reader.finish()
    return found


def broken(*pieces: bytes) -> tuple[list[Frame], GatewayError]:
    """Return the frames in order before a break, and the break."""
    found: list[Frame] = []
    with pytest.raises(GatewayError) as caught:
        read_into(found, pieces)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN
    return found, caught.value


def read_into(found: list[Frame], pieces: Iterable[bytes]) -> None:
    reader = AmazonFrameReader()
    for piece in pieces:
        for one in reader.feed(piece):
            found.append(one)  # noqa: PERF402  what came before a break counts
    reader.finish()


@given(frames=st.lists(st.tuples(HEADERS, st.binary(max_size=60)), max_size=5))
def test_frames_say_what_botocore_reads_in_them(
    frames: list[tuple[dict[str, tuple[int, bytes]], bytes]],
) -> None:
    data = b"".join(frame(payload, encoded(headers)) for headers, payload in frames)
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    expected = [
        ({name: value for name, value in one.headers.items() if type(value) is str}, one.payload)
        for one in buffer
    ]
    assert [(read_headers(headers), payload) for headers, payload in read(data)] == expected


@given(pieces=st.lists(st.binary(max_size=40), min_size=1, max_size=5), sizes=st.lists(st.integers(1, 50)))
def test_any_cut_gives_the_same_frames(pieces: list[bytes], sizes: list[int]) -> None:
    data = b"".join(frame(piece, text_header("name", "value")) for piece in pieces)
    cut, left = [], data
    for size in sizes:
        cut.append(left[:size])
        left = left[size:]
    assert [payload for _, payload in read(*cut, left)] == pieces


def test_a_cut_at_every_byte_gives_the_same_frames() -> None:
    data = CHUNK + frame(b"") + event_frame("other", b"{}")
    whole = read(data)
    assert read(*[data[at : at + 1] for at in range(len(data))]) == whole
    for at in range(len(data)):
        assert read(data[:at], data[at:]) == whole


@pytest.mark.parametrize("at", range(len(CHUNK)))
def test_a_bit_that_is_not_what_it_was_is_seen_behind_the_frames_in_order(at: int) -> None:
    damaged = bytearray(CHUNK)
    damaged[at] ^= 0x10
    found, _ = broken(frame(b"good") + bytes(damaged) + CHUNK)
    assert [payload for _, payload in found] == [b"good"]


@pytest.mark.parametrize("at", range(12))
def test_lengths_that_were_damaged_are_not_waited_for(at: int) -> None:
    damaged = bytearray(CHUNK[:12])
    damaged[at] ^= 0x10
    assert broken(bytes(damaged))[1].cause is Cause.UNREADABLE


@pytest.mark.parametrize("at", range(1, len(CHUNK)))
def test_an_end_within_a_frame_is_a_break(at: int) -> None:
    found, error = broken(CHUNK + CHUNK[:at])
    assert len(found) == 1
    assert error.cause is Cause.TRUNCATED


def lengths(total: int, headers: int) -> bytes:
    summed = pack(">II", total, headers)
    return summed + pack(">I", crc32(summed))


@pytest.mark.parametrize(
    ("total", "headers"),
    [
        (16 + MAX_PAYLOAD_BYTES + 1, 0),
        (16 + MAX_HEADER_BYTES + 1, MAX_HEADER_BYTES + 1),
        (2**32 - 1, 0),
        (2**32 - 1, 2**32 - 1),
        (15, 0),
        (0, 0),
        (20, 5),
    ],
)
def test_lengths_that_no_frame_may_have_are_refused_before_more_is_held(total: int, headers: int) -> None:
    _, error = broken(lengths(total, headers))
    assert error.cause is Cause.LIMIT


def test_the_largest_frame_is_read() -> None:
    payload, headers = bytes(MAX_PAYLOAD_BYTES), encoded({"h": (6, pack(">H", 65_000) + bytes(65_000))})
    assert read(frame(payload, headers)) == [(headers, payload)]


def test_a_frame_without_an_end_takes_no_more_memory_than_it_may_have() -> None:
    piece = bytes(64 * 1024)
    tracemalloc.start()
    broken(lengths(16 + MAX_PAYLOAD_BYTES, 0), *[piece] * 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3.5 * MAX_PAYLOAD_BYTES


def test_a_large_frame_in_small_pieces_takes_time_in_proportion() -> None:
    def seconds(size: int) -> float:
        data, reader = frame(bytes(size)), AmazonFrameReader()
        began = process_time()
        for at in range(0, len(data), 16):
            list(reader.feed(data[at : at + 16]))
        return process_time() - began

    few = min(seconds(100_000) for _ in range(3))
    assert seconds(1_600_000) < 16 * few * 4


@pytest.mark.parametrize(
    "headers",
    [
        b"\x05name",
        b"\x04name\x07",
        b"\x04name\x07\x00",
        b"\x04name\x07\x00\x05abcd",
        b"\x04name\x0a",
        b"\x04name\x08abc",
        b"\x04nam\xff\x00",
        b"\x04name\x07\x00\x01\xff",
        b"\x04",
    ],
)
def test_headers_that_cannot_be_read_are_a_break(headers: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        read_headers(headers)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


def test_a_frame_takes_few_calls() -> None:
    data = CHUNK * 100
    assert count_calls(lambda: read(data)) / 100 <= 2
