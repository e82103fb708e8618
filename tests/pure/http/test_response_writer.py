"""A response in pieces of any size is read as what was written."""

from __future__ import annotations

import pytest
from httptools import HttpResponseParser
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.response_writer import ResponseHeadBuilder, ResponseWriter, render_relayed
from mgw.wire.headers import RawHeaders


class Written(list[bytes]):
    """What was written, and how it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.body: list[bytes] = []
        self.ended = False

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.ended = True


@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"200008")]], ids=["chunked", "counted"])
def test_large_and_small_pieces_arrive_as_written_and_large_ones_uncopied(
    headers: list[tuple[bytes, bytes]],
) -> None:
    written, large = Written(), b"x" * 200_000
    writer, head = ResponseWriter(written.append), ResponseHeadBuilder(200, b"OK", headers)
    head.choose_framing(b"POST", b"1.1")
    writer.start(head)
    writer.flush()
    for piece in (b"abcd", large, b"efgh"):
        writer.write(piece)
    assert any(one is large for one in written)
    writer.finish()
    HttpResponseParser(written).feed_data(b"".join(written))
    assert b"".join(written.body) == b"abcd" + large + b"efgh"
    assert written.ended


LINES = st.lists(
    st.sampled_from([b"X-Up: 1", b"content-type: text/plain", b"Date: now", b"x-empty: "]), min_size=1
)


@given(
    status=st.sampled_from([200, 201, 400, 529]),
    lines=LINES,
    body=st.binary(max_size=20),
    counted=st.booleans(),
)
def test_a_whole_response_is_what_its_pieces_are(
    status: int, lines: list[bytes], body: bytes, counted: bool
) -> None:
    length = len(body) if counted else None
    if counted:
        lines = [*lines, b"Content-Length: %d" % len(body)]
    sent: list[bytes] = []
    writer = ResponseWriter(sent.append)
    block = b"".join(line + b"\r\n" for line in lines)
    head = ResponseHeadBuilder.of_lines(status, b"Said", block, length)
    head.choose_framing(b"POST", b"1.1")
    writer.start(head)
    if body:
        writer.write(body)
    assert writer.finish()
    assert render_relayed(status, b"Said", block, length, body) == b"".join(sent)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536])
@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"70000")]], ids=["chunked", "counted"])
def test_a_last_piece_with_the_end_is_what_both_are_by_themselves(headers: RawHeaders, size: int) -> None:
    pieces = [b"a" * (70_000 - size), b"b" * size]
    apart: list[bytes] = []
    together: list[bytes] = []
    for sent in (apart, together):
        writer = ResponseWriter(sent.append)
        writer.start(ResponseHeadBuilder(200, b"OK", headers))
        assert writer.write(pieces[0])
        if sent is together:
            assert writer.finish(pieces[1])
        else:
            assert not pieces[1] or writer.write(pieces[1])
            assert writer.finish()
    assert b"".join(together) == b"".join(apart)
    assert size == 65_536 or len(together) == len(apart) - bool(size and not headers)


@pytest.mark.parametrize(("length", "fits"), [(b"2", False), (b"3", True), (b"4", False)])
def test_a_last_piece_is_counted(length: bytes, fits: bool) -> None:
    sent: list[bytes] = []
    writer = ResponseWriter(sent.append)
    writer.start(ResponseHeadBuilder(200, b"OK", [(b"Content-Length", length)]))
    assert writer.write(b"a")
    assert writer.finish(b"bc") is fits


@pytest.mark.parametrize(
    "lines", [b"X-Up: 1\n", b"X-Up: 1\r", b"X-Up: a\nb\r\n", b"X-Up: a\rb\r\n", b"\r\nX-Up: 1\r\n"]
)
@pytest.mark.parametrize("length", [None, 2])
def test_a_line_that_ends_in_another_way_is_not_sent(lines: bytes, length: int | None) -> None:
    with pytest.raises(ValueError, match="line end"):
        render_relayed(200, b"OK", lines, length, b"hi")
