"""A body in memory is what came, however it came."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.bodies.block import HUGE_BYTES, HUGE_PAGE
from mgw.bodies.buffer import LARGE_BYTES, SMALL_BYTES, BodyBuffer

SIZES = st.sampled_from([0, 1, 7, SMALL_BYTES - 1, SMALL_BYTES, 65536, LARGE_BYTES, LARGE_BYTES + 1])


@given(
    st.lists(st.tuples(SIZES, st.integers(0, 255)), max_size=12),
    st.sampled_from([None, -1, 0, 1, LARGE_BYTES, HUGE_BYTES]),
)
def test_any_pieces_give_the_whole_whatever_was_announced(
    pieces: list[tuple[int, int]], more: int | None
) -> None:
    sent = [bytes([letter]) * size for size, letter in pieces]
    body = BodyBuffer(0 if more is None else max(0, sum(map(len, sent)) + more))
    for data in sent:
        body.append(data)
    assert body.take() == b"".join(sent)
    assert body.take() == b""


def test_a_body_that_comes_at_once_is_not_copied() -> None:
    for size in (100, 100_000, LARGE_BYTES * 2):
        data = b"x" * size
        body = BodyBuffer()
        body.append(data)
        assert body.take() is data


@pytest.mark.parametrize("size", [LARGE_BYTES * 3, HUGE_BYTES])
def test_a_body_of_a_known_length_is_gathered_where_it_stays(size: int) -> None:
    piece = b"x" * 65536
    body = BodyBuffer(size)
    tracemalloc.start()
    try:
        for _ in range(size // len(piece)):
            body.append(piece)
        taken = body.take()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(taken) == size
    assert peak < size + 16_384  # what grows step by step has more room than it needs


@pytest.mark.parametrize(("announced", "begun"), [(2 * LARGE_BYTES, LARGE_BYTES), (HUGE_BYTES, HUGE_PAGE)])
def test_what_is_only_announced_takes_no_memory(announced: int, begun: int) -> None:
    piece = b"x" * 65536
    body = BodyBuffer(announced)
    tracemalloc.start()
    try:
        for _ in range(begun // len(piece) - 1):
            body.append(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16_384


def test_no_length_that_a_client_may_announce_is_all_taken_at_once() -> None:
    body = BodyBuffer(1 << 60)
    body.append(b"x" * HUGE_PAGE)
    body.append(b"yz")
    assert body.take() == b"x" * HUGE_PAGE + b"yz"


def test_tiny_pieces_cost_little_more_than_what_they_hold() -> None:
    body = BodyBuffer()
    for _ in range(100_000):
        body.append(b"ab")
    held = sum(sys.getsizeof(piece) for piece in body._pieces)  # what it holds is the promise
    assert held < 2 * 200_000 + 4096
