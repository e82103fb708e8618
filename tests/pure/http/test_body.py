"""The reader of chunked request bodies, held against ``httptools`` as an independent reference."""

from __future__ import annotations

from contextlib import suppress
from time import process_time

import pytest
from httptools import HttpParserError, HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.body import ChunkedRequestBody
from mgw.nouns.errors import GatewayError

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


class HttptoolsBody:
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
    body, content, rest = ChunkedRequestBody(), b"", b""
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
    reference = HttptoolsBody(
        b"".join(pieces).replace(b"; a", b";a")
    )  # it knows no blanks there; RFC 9112 7.1.1 does
    if ended:
        assert (reference.refused, reference.ended, reference.content) == (False, True, content)
    else:
        assert not reference.ended


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


def test_extensions_of_modest_size_are_ignored() -> None:
    assert read([b"3;name=value;x\r\nabc\r\n0;last\r\n\r\n"]) == (b"abc", b"", True)


def test_a_line_that_never_ends_is_refused() -> None:
    with pytest.raises(GatewayError):
        read([b"3;" + b"x" * 100] * 100)


GOOD_EXTENSIONS = (
    *(b";a", b";a=b", b"; a=b", b" ;a", b" ; a = b", b"\t;\ta\t=\tb", b';a="b"', b'; a="b c"', b';a=""'),
    *(b';a="x;y=z,\xe9"', b';a="\\"\\\\"', b';a;b=c; d="e"', b';signature="' + b"x" * 4000 + b'"'),
)
BAD_EXTENSIONS = (
    *(
        b";",
        b"; ",
        b";=b",
        b";a=",
        b";a= ",
        b';a="b',
        b';a=b"',
        b';a="b"c',
        b';a="\x00"',
        b';a="\r"',
        b' a="b"',
    ),
    *(b";a ", b";a b", b';"a"=b', b",a", b"=b", b';a="\\', b'; a="b\x7f"'),
)


@pytest.mark.parametrize("extension", GOOD_EXTENSIONS)
def test_extensions_as_the_standard_has_them_are_dropped(extension: bytes) -> None:
    data = b"3%b\r\nabc\r\n0%b\r\n\r\nbehind" % (extension, extension)
    for cut in (1, 2, 7, len(data)):
        pieces = [data[at : at + cut] for at in range(0, len(data), cut)]
        assert read(pieces) == (b"abc", b"behind", True)


@pytest.mark.parametrize("extension", BAD_EXTENSIONS)
def test_what_is_no_extension_is_refused(extension: bytes) -> None:
    with pytest.raises(GatewayError):
        read([b"3%b\r\nabc\r\n0\r\n\r\n" % extension])


def test_a_line_end_in_quotes_ends_the_line() -> None:
    with pytest.raises(GatewayError):
        read([b'3;a="\r\nabc\r\n0\r\n\r\n"\r\n'])


@pytest.mark.parametrize("filler", [b";a ", b" ;\t", b';a="b" ', b'"', b"\\", b";a=b"])
def test_an_extension_costs_time_in_proportion_to_its_length(filler: bytes) -> None:
    line = b"3" + filler * (8000 // len(filler)) + b"!\r\n"
    began = process_time()
    with suppress(GatewayError):
        read([line])
    assert process_time() - began < 0.25


def test_extensions_of_a_body_are_bounded_together() -> None:
    with pytest.raises(GatewayError, match="too long"):
        read([b'1; a="%b"\r\na\r\n' % (b"x" * 1000)] * 9)
