"""The readers of request bodies, held against ``httptools`` as an independent witness."""

from __future__ import annotations

import pytest
from httptools import HttpParserError, HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from mgw.errors import GatewayError
from mgw.web.framing import ChunkedBody, CountedBody

HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
END = st.just(b"\r\n") | st.sampled_from([b"\r\n", b"\n", b"\r", b"\n\r", b" \r\n", b""])
SIZE = st.just(b"3") | st.sampled_from(
    [
        b"03",
        b"0x3",
        b"+3",
        b"-3",
        b" 3",
        b"2",
        b"4",
        b"3;a=b",
        b"3;a",
        b"3; a",
        b"3;",
        b"3;a=",
        b"3;a;b=c",
        b'3;a="b"',
    ]
)
LINES = [b"X: 1\r\n", b"X:\r\n", b"X\r\n", b" X: 1\r\n", b"X : 1\r\n", b"X: 1\n"]
NEARLY_CHUNKED = st.tuples(
    st.lists(st.tuples(SIZE, END, st.just(b"abc"), END).map(b"".join), max_size=3).map(b"".join),
    st.just(b"0") | st.sampled_from([b"00", b"", b"0;a"]),
    END,
    st.just(b"") | st.sampled_from(LINES),
    END,
)
"""The parts of a chunked body of which one or the other is not quite right."""


class Witness:
    """What ``httptools`` makes of a chunked body."""

    def __init__(self, data: bytes) -> None:
        self.content = b""
        self.ended = False
        self.refused = False
        parser = HttpRequestParser(self)
        parser.feed_data(HEAD)
        try:
            for byte in data:
                if not self.ended:
                    parser.feed_data(bytes([byte]))
        except HttpParserError:
            self.refused = True

    def on_body(self, content: bytes) -> None:
        self.content += content

    def on_message_complete(self) -> None:
        self.ended = True


def read(pieces: list[bytes]) -> tuple[bytes, bytes, bool]:
    """Return the content, what stands behind the body, and whether it ended."""
    body, content, rest = ChunkedBody(), b"", b""
    for piece in pieces:
        if body.ended:
            rest += piece
        else:
            found, rest = body.feed(piece)
            content += found
    return content, rest, body.ended


@given(pieces=NEARLY_CHUNKED.map(list))
def test_what_we_accept_the_witness_accepts_with_the_same_content(pieces: list[bytes]) -> None:
    try:
        content, _, ended = read(pieces)
    except GatewayError:
        return
    witness = Witness(b"".join(pieces))
    if ended:
        assert (witness.refused, witness.ended, witness.content) == (False, True, content)
    else:
        assert not witness.ended


@given(chunks=st.lists(st.binary(min_size=1, max_size=5)), pieces=st.lists(st.integers(1, 7), min_size=1))
def test_chunks_are_read_in_any_cut_up_to_their_last_byte(chunks: list[bytes], pieces: list[int]) -> None:
    data = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\nbehind"
    cut: list[bytes] = []
    at = 0
    while at < len(data):
        size = pieces[len(cut) % len(pieces)]
        cut.append(data[at : at + size])
        at += size
    assert read(cut) == (b"".join(chunks), b"behind", True)


@given(pieces=st.lists(st.binary(max_size=5)), length=st.integers(1, 20))
def test_a_counted_body_ends_at_its_length(pieces: list[bytes], length: int) -> None:
    body, content, rest = CountedBody(length), b"", b""
    for piece in pieces:
        if body.ended:
            rest += piece
        else:
            found, rest = body.feed(piece)
            content += found
    whole = b"".join(pieces)
    assert (content, rest) == (whole[:length], whole[length:])
    assert body.ended is (len(whole) >= length)


def test_extensions_of_modest_size_are_ignored() -> None:
    assert read([b"3;name=value;x\r\nabc\r\n0;last\r\n\r\n"]) == (b"abc", b"", True)


def test_a_line_that_never_ends_is_refused() -> None:
    with pytest.raises(GatewayError):
        read([b"3;" + b"x" * 100] * 100)
