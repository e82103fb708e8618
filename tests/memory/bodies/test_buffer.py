"""A body in memory is what came, however it came."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from mgw.bodies.buffer import LARGE_BYTES, SMALL_BYTES, BodyBuffer

SIZES = st.sampled_from([0, 1, 7, SMALL_BYTES - 1, SMALL_BYTES, 65536, LARGE_BYTES, LARGE_BYTES + 1])


@given(st.lists(st.tuples(SIZES, st.integers(0, 255)), max_size=12))
def test_any_pieces_give_the_whole(pieces: list[tuple[int, int]]) -> None:
    body = BodyBuffer()
    sent = [bytes([letter]) * size for size, letter in pieces]
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


def test_tiny_pieces_cost_little_more_than_what_they_hold() -> None:
    body = BodyBuffer()
    for _ in range(100_000):
        body.append(b"ab")
    held = sum(sys.getsizeof(piece) for piece in body._pieces)  # what it holds is the promise
    assert held < 2 * 200_000 + 4096
