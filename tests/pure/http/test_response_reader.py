"""The promises of mgw.http.response_reader."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.response_reader import MAX_HEAD_BYTES, ResponseReader
from mgw.wire.headers import RawHeaders


def read(*pieces: bytes, method: bytes = b"GET") -> ResponseReader:
    reader = ResponseReader(method)
    for piece in pieces:
        reader.feed(piece)
    return reader


def body_of(reader: ResponseReader) -> bytes:
    return b"".join(reader.pieces)


@dataclass(frozen=True)
class Sent:
    """An answer in pieces, and what it means."""

    pieces: list[bytes]
    status: int
    reason: bytes
    headers: RawHeaders
    body: bytes
    until_close: bool


NAMES = st.sampled_from([b"X-Request-Id", b"content-type", b"RETRY-AFTER", b"Set-Cookie", b"x"])
VALUES = st.text("abc 09=;/", max_size=12).map(lambda text: text.strip().encode())
INTERIM = st.sampled_from(
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 P\r\nX: y\r\n\r\n",
        b"HTTP/1.1 103 E\r\nLink: a\r\n\r\n",
    ]
)


VALID_EXTENSIONS = [
    *(b"", b";a", b";a=b", b';a="b"', b"; a=b", b" ;a=b", b"; a = b", b"\t;\ta\t=\tb", b';a=""'),
    *(b';a="b;c"', b';a="b \\"c\\""', b';a="b\xe9\tc"', b' ; a="x" ; b', b";a=b;c;d=e"),
]
EXTENSIONS = st.sampled_from(VALID_EXTENSIONS)  # RFC 9112 7.1.1


@st.composite
def answers(draw: st.DrawFn) -> Sent:
    status = draw(st.sampled_from([200, 201, 400, 401, 429, 500, 529]))
    reason = draw(st.sampled_from([b"OK", b"Not Quite", b""]))
    headers = draw(st.lists(st.tuples(NAMES, VALUES), max_size=5))
    parts = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=8))
    framing = draw(st.sampled_from(["length", "chunked", "close"]))
    body = b"".join(parts)
    headers = list(headers)
    if framing == "length":
        headers.insert(draw(st.integers(0, len(headers))), (b"Content-Length", b"%d" % len(body)))
    elif framing == "chunked":
        headers.append((b"Transfer-Encoding", b"chunked"))
        trailer = draw(st.sampled_from([b"", b"X-Checksum: 1\r\n"]))
        parts = [b"%x%b\r\n%b\r\n" % (len(part), draw(EXTENSIONS), part) for part in parts]
        parts.append(b"0" + draw(EXTENSIONS) + b"\r\n" + trailer + b"\r\n")
    head = [b"HTTP/1.1 %d %s\r\n" % (status, reason)]
    head += [b"%s: %s\r\n" % pair for pair in headers]
    pieces = [*draw(st.lists(INTERIM, max_size=3)), *head, b"\r\n", *parts]
    return Sent(pieces, status, reason, headers, body, framing == "close")


def cut(pieces: list[bytes], sizes: list[int]) -> list[bytes]:
    """Cut the joined pieces into runs of ``sizes``, over and over."""
    whole = b"".join(pieces)
    found: list[bytes] = []
    at = 0
    for size in cycle(sizes):
        if at >= len(whole):
            return found
        found.append(whole[at : at + size])
        at += size
    return found


@given(sent=answers(), sizes=st.lists(st.sampled_from([1, 2, 3, 5, 17, 1000]), min_size=1, max_size=6))
def test_any_answer_cut_anywhere_means_the_same(sent: Sent, sizes: list[int]) -> None:
    reader = read(*cut(sent.pieces, sizes))
    assert reader.fault is None
    assert reader.head is not None
    assert (reader.head.status, reader.head.reason, reader.head.headers) == (
        sent.status,
        sent.reason,
        sent.headers,
    )
    assert body_of(reader) == sent.body
    assert reader.ended is not sent.until_close
    assert reader.on_close() is sent.until_close


@given(
    garbage=st.lists(
        st.one_of(st.binary(max_size=30), st.sampled_from([b"HTTP/1.1 200", b"\r\n", b": ", b"0"]))
    )
)
def test_garbage_never_raises(garbage: list[bytes]) -> None:
    reader = read(*garbage)
    assert reader.fault is None or not reader.reusable


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_ends_with_its_head(status: int) -> None:
    reader = read(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status)
    assert reader.ended
    assert reader.reusable


def test_an_answer_to_head_ends_with_its_head() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", method=b"HEAD")
    assert reader.ended
    assert reader.reusable
    assert not reader.pieces


def test_a_body_after_the_head_of_head_is_dropped_and_spoils_the_connection() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", method=b"HEAD")
    assert reader.ended
    assert not reader.pieces
    assert not reader.reusable


@pytest.mark.parametrize(
    "answer",
    [
        b"RTSP/1.0 200 OK\r\n\r\n",
        b"ICE/1.0 200 OK\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/1.1 2000 X\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 1\n\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        b"garbage",
    ],
)
def test_what_a_gateway_must_not_let_pass_is_a_fault(answer: bytes) -> None:
    reader = read(answer)
    assert reader.fault is not None
    assert not reader.reusable


def test_a_fault_repeats_nothing_of_the_answer() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nX: sk-canary\r\nsk-canary\r\n\r\n")
    assert reader.fault is not None
    assert "canary" not in reader.fault


@pytest.mark.parametrize("piece", [b"X-Long: " + b"a" * 70_000, b"A: b\r\n" * 12_000], ids=["one", "many"])
def test_an_endless_head_is_a_fault(piece: bytes) -> None:
    reader = read(b"HTTP/1.1 200 OK\r\n", *cut([piece], [1000]))
    assert reader.fault is not None


def test_a_head_above_the_limit_is_a_fault_even_when_it_arrives_at_once() -> None:
    value = b"a" * MAX_HEAD_BYTES
    assert read(b"HTTP/1.1 200 OK\r\nX: " + value + b"\r\nContent-Length: 0\r\n\r\n").fault is not None


def test_endless_interim_answers_are_a_fault() -> None:
    assert read(*[b"HTTP/1.1 103 E\r\nLink: aaaaaaaaaa\r\n\r\n"] * 2000).fault is not None


@pytest.mark.parametrize("opening", [b"0\r\nX: ", b"5;x="], ids=["trailer", "extension"])
def test_an_endless_trailer_or_chunk_extension_is_a_fault(opening: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert read(head, opening, *[b"a" * 1000] * 70).fault is not None


def test_a_long_body_in_tiny_chunks_is_no_fault() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(30_000):
        reader.feed(b"1\r\n")
        reader.feed(b"x\r\n")
        reader.pieces.clear()
    assert reader.fault is None


def test_pieces_read_before_a_fault_stay() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n")
    assert reader.fault is not None
    assert body_of(reader) == b"hi"


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
    ],
)
def test_the_answer_says_whether_the_connection_may_be_used_again(head: bytes, reusable: bool) -> None:
    reader = read(head + b"Content-Length: 0\r\n\r\n")
    assert reader.ended
    assert reader.reusable is reusable


@pytest.mark.parametrize("stray", [b"x", b"HTTP/1.1 200 OK\r\n\r\n", b"\r\n"])
def test_bytes_after_the_end_spoil_the_connection_not_the_answer(stray: bytes) -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", stray)
    assert reader.fault is None
    assert body_of(reader) == b"hi"
    assert not reader.reusable


def test_a_second_answer_in_the_same_read_spoils_the_connection_not_the_answer() -> None:
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    reader = read(first + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert reader.fault is None
    assert body_of(reader) == b"hi"
    assert reader.head is not None
    assert reader.head.headers == [(b"Content-Length", b"2")]
    assert not reader.reusable


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ],
    ids=["nothing", "half a head", "length", "chunked"],
)
def test_a_close_before_the_end_does_not_end_an_answer(answer: bytes) -> None:
    reader = read(*([answer] if answer else []))
    assert not reader.on_close()
    assert not reader.ended


def readers_alive() -> int:
    return sum(isinstance(found, ResponseReader) for found in gc.get_objects())


def test_a_read_answer_is_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        before = readers_alive()
        for _ in range(10):
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert readers_alive() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("phrase", [b"a\x00b", b"\x1b[31mred", b"a\x7f", b"\x01", b"O\x08K"])
def test_a_phrase_with_control_characters_is_left_out(phrase: bytes) -> None:
    reader = read(b"HTTP/1.1 200 " + phrase + b"\r\nContent-Length: 2\r\n\r\nhi")
    assert reader.head is not None
    assert (reader.head.status, reader.head.reason, body_of(reader)) == (200, b"", b"hi")


@pytest.mark.parametrize("phrase", [b"", b"OK", b"a\tb", "très bien".encode(), b"\xe9\xff"])
def test_any_other_phrase_stays_as_it_is(phrase: bytes) -> None:
    reader = read(b"HTTP/1.1 200 " + phrase + b"\r\nContent-Length: 0\r\n\r\n")
    assert reader.head is not None
    assert reader.head.reason == phrase


@pytest.mark.parametrize("extension", VALID_EXTENSIONS)
def test_a_valid_chunk_extension_means_nothing(extension: bytes) -> None:
    body = b"2" + extension + b"\r\nhi\r\n0" + extension + b"\r\n\r\n"
    reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert (body_of(reader), reader.ended, reader.reusable, reader.fault) == (b"hi", True, True, None)


@pytest.mark.parametrize(
    "line",
    [
        b";",
        b" ",
        b"x",
        b';a="',
        b';a="b"c',
        b';a="\x01"',
        b";a b",
        b";a=b,c",
        b";a\n",
        b"\r",
        b";=b",
        b';a="b\\"',
    ],
)
def test_what_is_no_chunk_extension_is_a_fault(line: bytes) -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2" + line + b"\r\nhi\r\n0\r\n\r\n")
    assert reader.fault is not None
    assert not reader.pieces


@pytest.mark.parametrize(
    "body",
    [
        b"2\r\nhi\n0\r\n\r\n",
        b"2\r\nhigh\r\n0\r\n\r\n",
        b"2\r\nhigh0\r\n\r\n",  # two bytes in place of the line end, and then all is well
        b"2\r\nhi\rg0\r\n\r\n",
        b"2\nhi\r\n0\r\n\r\n",
        b"-2\r\nhi\r\n",
        b"0\r\nx y: z\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_chunks_that_do_not_fit_together_are_a_fault(body: bytes, size: int) -> None:
    reader = read(*cut([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body], [size]))
    assert reader.fault is not None
    assert not reader.reusable


@pytest.mark.parametrize("size", [1, 1000])
def test_bytes_behind_the_last_chunk_spoil_the_connection_not_the_answer(size: int) -> None:
    body = b"2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
    reader = read(*cut([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body], [size]))
    assert (body_of(reader), reader.ended, reader.fault) == (b"hi", True, None)
    assert not reader.reusable
    assert not reader.reusable


@pytest.mark.parametrize("status", [b"200 OK", b"204 None", b"nonsense"])
def test_any_number_of_interim_responses_may_come_at_once(status: bytes) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 2000
    reader = read(interim + b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nhi")
    assert (reader.fault is not None) == (status == b"nonsense")
    assert reader.ended == (status != b"nonsense")
    assert body_of(reader) == (b"hi" if status == b"200 OK" else b"")
