"""Heads that look like others: read faster, and as they are read line by line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.http.head_shape import LEARN_AFTER, MAX_SHAPES, MOST_TRIED, HeadShapes
from mgw.http.response_head import ResponseHead, judge_lines, read_response_head
from mgw.http.response_writer import render_relayed_head
from mgw.http.upstream_connection import UpstreamConnection

LINES = [
    *(b"Date: now", b"Content-Type: application/json", b"Server: up", b"Connection: keep-alive"),
    *(b"x-request-id: 1", b"X-Up: \xe9\t1"),
]


def answer(*lines: bytes, status_line: bytes = b"HTTP/1.1 200 OK", body: bytes = b"hi") -> bytes:
    return b"".join(line + b"\r\n" for line in (status_line, *lines)) + b"\r\n" + body


def asked(method: bytes, shapes: HeadShapes | None = None) -> UpstreamConnection:
    """Return a connection on which a request was sent."""
    connection = UpstreamConnection(shapes)
    connection.become_ready()
    connection.send(method)
    return connection


def learn(data: bytes, shapes: HeadShapes | None = None, times: int = LEARN_AFTER) -> HeadShapes:
    """Return the shapes that are known when this has been read often enough."""
    shapes = shapes or HeadShapes()
    for _ in range(times):
        asked(b"POST", shapes).receive(data)
    return shapes


def found_by(connection: UpstreamConnection) -> tuple[object, ...]:
    """All that a connection says of its response, but for what says that a shape fitted."""
    head = connection.head
    if head is not None:
        _ = head.headers
        head = replace(head, is_proved=False)
    body = connection.body
    return head, connection.fault, b"".join(body.pieces), body.ended, connection.state


def read_both_ways(data: bytes, shapes: HeadShapes, method: bytes = b"POST") -> bool:
    """Check that a response is read alike with and without shapes; say whether one of them fitted."""
    fits = any(shape.read(data) is not None for shape in shapes.tried)
    known, plain = asked(method, shapes), asked(method)
    known.receive(data)
    plain.receive(data)
    assert found_by(known) == found_by(plain)
    if known.head is not None:
        check_proof(known.head)
    return fits


def check_proof(head: ResponseHead) -> None:
    """Check that a head which is said to be proved is sent as one that is looked through."""
    if head.relayed_lines:
        unproved = replace(head, is_proved=False)
        assert render_relayed_head(head, head.relayed_lines) == render_relayed_head(
            unproved, head.relayed_lines
        )


def test_a_head_is_learnt_when_it_has_come_a_few_times() -> None:
    data = answer(b"x-learnt-after: 1", b"Content-Length: 2")
    shapes = learn(data, times=LEARN_AFTER - 1)
    assert not shapes.tried
    assert read_both_ways(data, learn(data, shapes, times=1))


def test_values_may_differ() -> None:
    shapes = learn(answer(*LINES, b"Content-Length: 2"))
    other = [b"Date: later", b"Content-Type: a/b", b"Server: x", LINES[3], b"x-request-id: other", b"X-Up: 2"]
    assert read_both_ways(answer(*other, b"Content-Length: 1", body=b"1"), shapes)


@pytest.mark.parametrize(
    "lines",
    [
        [b"Connection: close", b"Content-Length: 2"],
        [b"Connection: keep-alive, X-Up", b"X-Up: 1", b"Content-Length: 2"],
        [b"Content-Length: 2", b"Set-Cookie: a=b", b"Keep-Alive: timeout=5", b"alt-svc: h3"],
        [b"Content-Type: a/b", b"Content-Type: c/d", b"request-id: 1", b"x-request-id: 2"],
        [b"Content-Encoding: gzip", b"Content-Length: 2", b"Connection: content-length, content-encoding"],
        [b"Transfer-Encoding: chunked", b"X-Up: 1"],
        [b"X-a+b*^|$: 1", b"X.Up: 2", b"Content-Length: 0"],
        [],
    ],
    ids=["close", "named", "dropped", "several", "coded", "chunked", "odd names", "none"],
)
@pytest.mark.parametrize(
    "status_line", [b"HTTP/1.1 200 OK", b"HTTP/1.0 529 \xe9", b"HTTP/1.1 204 ", b"HTTP/1.1 404"]
)
@pytest.mark.parametrize("method", [b"POST", b"HEAD"])
def test_every_shape_is_read_as_line_by_line(lines: list[bytes], status_line: bytes, method: bytes) -> None:
    data = answer(*lines, status_line=status_line, body=b"2\r\nhi\r\n0\r\n\r\n")
    plain = asked(method)
    plain.receive(data)
    assert read_both_ways(data, learn(data), method) is (plain.head is not None)


NEAR = [
    *(b"x-request-id:1", b"x-request-id:  1", b"x-request-id:\t1", b"x-request-id: ", b"x-request-id: 1 "),
    *(b"x-request-id: a\x00b", b"x-request-id: a\x7fb", b"x-request-id: a\nb", b"x-request-id: a\rb"),
    *(b"x-request-id: " + b"1" * 128, b"x-request-id: " + b"1" * 129, b"x-request-id: 1 2"),
    *(b"x-request-id: \x80", b"x-request-id: a\tb", b"x-request-id : 1", b"x-request-ID: 1", b"x-request-id"),
    *(
        b"Content-Length: 3",
        b"Content-Length: +2",
        b"Content-Length: 2x",
        b"Content-Length: 99999999999999999999",
    ),
    *(b"Connection: x-up", b"Transfer-Encoding: chunked", b" x-request-id: 1", b"", b"HTTP/1.1 200 OK"),
]


NEAR += [
    b"Content-Length:  2",
    b"Content-Length: 2 ",
    b"Content-Length: 2\t",
    b"Connection: close",
    b"Connection:close",
]


@pytest.mark.parametrize("line", NEAR)
@pytest.mark.parametrize("status_line", [b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK ", b"HTTP/1.0 200 OK"])
def test_what_is_nearly_of_the_shape_is_read_as_without_it(line: bytes, status_line: bytes) -> None:
    lines = [*LINES, b"Content-Length: 2"]
    shapes = learn(answer(*lines))
    for place in range(len(lines)):
        read_both_ways(answer(*lines[:place], line, *lines[place + 1 :], status_line=status_line), shapes)


@given(st.binary(max_size=6))
@example(b"1")
def test_any_value_is_read_as_without_the_shape(value: bytes) -> None:
    shapes = learn(answer(*LINES, b"Content-Length: 2"))
    read_both_ways(answer(LINES[0], b"Content-Type: " + value, *LINES[2:], b"Content-Length: 2"), shapes)


_PIECES = st.sampled_from(
    [
        b"\r",
        b"\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b":",
        b": ",
        b" ",
        b"\t",
        b"\x7f",
        b"\xff",
        b"X-Up",
        b"1",
        b"\r\n a",
    ]
)


@given(before=st.lists(_PIECES, max_size=4), after=st.lists(_PIECES, max_size=4), place=st.integers(0, 6))
@example(before=[], after=[b"1", b"\n", b"X-Up", b": ", b"1"], place=2)
@example(before=[], after=[b"1", b"\r", b"X-Up", b": ", b"1"], place=5)
@example(before=[b"X-Up", b"\n"], after=[b"1"], place=1)
def test_no_line_end_slips_into_a_head_that_counts_as_proved(
    before: list[bytes], after: list[bytes], place: int
) -> None:
    lines = [*LINES, b"Content-Length: 2"]
    name, _, _ = lines[place].partition(b": ")
    lines[place] = b"".join(before) + name + b": " + b"".join(after)
    data = answer(*lines)
    shapes = learn(answer(*LINES, b"Content-Length: 2"))
    read_both_ways(data, shapes)
    read_both_ways(data, learn(data, shapes))


@pytest.mark.parametrize("raw", [b"X\nUp: 1", b"X\rUp: 1", b"X-Up: 1\n2", b"X-Up: 1\r2"])
def test_a_head_with_half_a_line_end_teaches_no_shape(raw: bytes) -> None:
    whole = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % raw
    shapes = HeadShapes()
    for _ in range(LEARN_AFTER):
        shapes.learn(read_response_head(200, whole, judge_lines(whole)), judge_lines(whole))
    assert not shapes.tried


@given(st.integers(1, 200))
def test_a_head_in_two_pieces_is_read_as_one(cut: int) -> None:
    data = answer(*LINES, b"Content-Length: 2")
    connection = asked(b"POST", learn(data))
    connection.receive(data[:cut])
    connection.receive(data[cut:] or b"x")
    whole = asked(b"POST")
    whole.receive(data)
    assert found_by(connection)[:4] == found_by(whole)[:4]


def test_a_head_behind_an_interim_one_is_of_the_shape_all_the_same() -> None:
    data = answer(*LINES, b"Content-Length: 2")
    read_both_ways(b"HTTP/1.1 102 P\r\nX: y\r\n\r\n" + data, learn(data))


def test_a_long_head_is_refused_whatever_its_shape() -> None:
    shapes = learn(answer(b"X-Long: 1", b"Content-Length: 2"))
    data = answer(b"X-Long: " + b"1" * 70_000, b"Content-Length: 2")
    assert read_both_ways(data, shapes)


def test_the_last_few_shapes_are_tried() -> None:
    shapes = HeadShapes()
    for number in range(MOST_TRIED + 2):
        learn(answer(b"X-Tried-%d: 1" % number, b"Content-Length: 2"), shapes)
    assert len(shapes.tried) == MOST_TRIED
    assert shapes.tried[0].read(answer(b"X-Tried-%d: 2" % (MOST_TRIED + 1), b"Content-Length: 2")) is not None


@pytest.mark.parametrize(("others", "is_known"), [(MAX_SHAPES - 1, True), (MAX_SHAPES, False)])
def test_a_shape_that_is_seen_no_more_is_forgotten(others: int, is_known: bool) -> None:
    data = answer(b"X-First: 1", b"Content-Length: 2")
    shapes = learn(data, times=LEARN_AFTER - 1)
    for number in range(others):
        learn(answer(b"X-Other-%d: 1" % number, b"Content-Length: 2"), shapes, times=1)
    assert bool(learn(data, shapes, times=1).tried) is is_known
