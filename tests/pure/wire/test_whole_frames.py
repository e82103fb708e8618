"""Frames that the gateway writes itself, and what is read of frames that are known to be whole and legal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.wire.whole_frames import (
    BINARY,
    CLOSE,
    PING,
    TEXT,
    find_frame_end,
    mask,
    read_pings,
    render_close,
    render_frame,
)

KEY = b"\x01\x80\xfe\x7b"
PONG = 10
CONTINUATION = 0
FINAL = 128
SIZES = (0, 1, 125, 126, 127, 0xFFFF, 0x10000)
"""Around each limit of a form of lengths (RFC 6455 5.2)."""


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "masked"])
@pytest.mark.parametrize("size", SIZES)
def test_a_frame_says_its_length_in_the_shortest_form(size: int, key: bytes | None) -> None:
    payload = b"x" * size
    frame = render_frame(TEXT, payload, key)
    head = 2 if size <= 125 else 4 if size <= 0xFFFF else 10
    assert frame[0] == FINAL | TEXT
    assert len(frame) == head + (0 if key is None else 4) + size
    found = find_frame_end(frame, 0)
    assert found is not None
    body, end = found
    assert end == len(frame)
    assert frame[body:] == (payload if key is None else mask(payload, key))


def test_a_close_frame_has_its_code_and_then_its_reason() -> None:
    assert render_close(1001, "going") == bytes([FINAL | CLOSE, 7, 0x03, 0xE9]) + b"going"
    assert render_close(1001, "going", KEY) == bytes([FINAL | CLOSE, FINAL | 7]) + KEY + mask(
        b"\x03\xe9going", KEY
    )


def test_without_a_code_nothing_is_said() -> None:
    assert render_close(None, "going") == bytes([FINAL | CLOSE, 0])


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("x" * 123, b"x" * 123),
        ("x" * 124, b"x" * 123),
        ("x" * 121 + "é", b"x" * 121 + "é".encode()),
        ("x" * 122 + "é", b"x" * 122),
        ("\ud800", b"?"),
    ],
    ids=["the limit", "one more", "a character at the limit", "one that is cut", "no character"],
)
def test_a_reason_has_at_most_123_bytes_of_whole_characters(reason: str, said: bytes) -> None:
    frame = render_close(1000, reason)
    assert frame[4:] == said
    assert frame[1] == len(said) + 2, "a control frame has at most 125 bytes (RFC 6455 5.5)"


def control(opcode: int) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    return st.lists(st.tuples(st.just(FINAL | opcode), st.binary(max_size=3)), max_size=2)


def messages() -> st.SearchStrategy[list[tuple[int, bytes]]]:
    """A message in one frame or several, with control frames between them, and some behind it."""
    controls = st.one_of(control(PING), control(PONG))
    whole = st.tuples(st.sampled_from([FINAL | TEXT, FINAL | BINARY]), st.binary(max_size=3)).map(
        lambda frame: [frame]
    )
    parts = st.tuples(
        st.tuples(st.sampled_from([TEXT, BINARY]), st.binary(max_size=200)),
        controls,
        st.tuples(st.sampled_from([FINAL | CONTINUATION, CONTINUATION]), st.binary(max_size=3)),
    ).map(lambda found: [found[0], *found[1], found[2]])
    return st.tuples(whole | parts, controls).map(lambda found: found[0] + found[1])


FRAMES = st.tuples(control(PING), st.lists(messages(), max_size=3)).map(lambda found: [found[0], *found[1]])


def rendered(frames: list[tuple[int, bytes]], key: bytes) -> bytes:
    found = b""
    for first, payload in frames:
        size = len(payload)
        length = bytes([FINAL | size]) if size < 126 else bytes([FINAL | 126]) + size.to_bytes(2, "big")
        found += bytes([first]) + length + key + mask(payload, key)
    return found


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "masked"])
@pytest.mark.parametrize("size", SIZES)
def test_the_end_of_a_frame_is_known_with_its_header(size: int, key: bytes | None) -> None:
    frame = b"before" + render_frame(TEXT, b"x" * size, key)
    body = len(frame) - size
    for cut in range(len(b"before"), body):
        assert find_frame_end(frame[:cut], len(b"before")) is None
    assert find_frame_end(frame[:body], len(b"before")) == (body, len(frame))


@given(groups=FRAMES)
def test_pings_are_read_wherever_they_stand_and_nothing_else(
    groups: list[list[tuple[int, bytes]]],
) -> None:
    frames = [frame for group in groups for frame in group]
    pings = [payload for first, payload in frames if first == FINAL | PING]
    assert read_pings(rendered(frames, KEY)) == pings
