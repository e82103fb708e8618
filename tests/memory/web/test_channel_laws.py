"""Laws of the channel: the cut of the input does not matter, and no input does harm."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.support.channels import Line, RecordingHandler, answer, get


class Sent(NamedTuple):
    """One valid request in pieces, and what the channel must make of it."""

    pieces: list[bytes]
    target: bytes
    body: bytes


TOKENS = st.text("aZ0-_", min_size=1, max_size=8)
LINES = st.lists(st.tuples(TOKENS, st.text("ab \t:,é", max_size=6)), max_size=3)
CONTENT = st.lists(
    st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]), max_size=4
)


@st.composite
def in_pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Draw the sizes of pieces, and cut ``data`` into them one after the other."""
    sizes = draw(st.lists(st.integers(1, 9) | st.just(1000), min_size=1, max_size=20))
    pieces: list[bytes] = []
    while data:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    """Draw a valid request."""
    target = "/" + "/".join(draw(st.lists(TOKENS, max_size=3)))
    lines = [f"X{name}: {value}" for name, value in draw(LINES)]
    contents = draw(CONTENT)
    body = b"".join(contents)
    if draw(st.booleans()):
        head = get(target, *lines, f"Content-Length: {len(body)}", method="POST")
        data = head + body
    else:
        head = get(target, *lines, "Transfer-Encoding: Chunked", method="POST")
        extension = draw(st.sampled_from([b"", b";a=b"]))
        chunks = [b"%x%b\r\n%b\r\n" % (len(content), extension, content) for content in contents if content]
        trailer = draw(st.sampled_from([b"", b"X-Trailer: 1\r\n"]))
        data = head + b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"
    data = draw(st.sampled_from([b"", b"\r\n"])) + data
    return Sent(draw(in_pieces(data)), target.encode(), body)


@given(sent=st.lists(requests(), min_size=1, max_size=5))
def test_any_cut_of_any_pipeline_gives_the_same_visits_and_answers(sent: list[Sent]) -> None:
    line = Line()
    # the last piece of one request goes out together with the first piece of the next
    held = b""
    for request in sent:
        first, *rest = request.pieces
        for piece in [held + first, *rest][:-1]:
            line.send(piece)
        held = rest[-1] if rest else held + first
    line.send(held)
    assert [(request.head.target, request.body) for request in line.requests] == [each[1:] for each in sent]
    assert all(request.events[-1] == "ended" for request in line.requests)
    assert line.take() == b"".join(answer(b"POST %b %b" % (each.target, each.body)) for each in sent)
    assert line.handler.refusals == []


@given(sent=st.lists(requests(), min_size=2, max_size=4))
def test_answers_that_come_late_come_in_order(sent: list[Sent]) -> None:
    line = Line(RecordingHandler())
    line.send(b"".join(piece for each in sent for piece in each.pieces))
    for number in range(len(sent)):
        assert len(line.requests) == number + 1
        line.requests[number].echo()
    assert line.take() == b"".join(answer(b"POST %b %b" % (each.target, each.body)) for each in sent)


GARBAGE = st.lists(
    st.binary(max_size=20)
    | st.sampled_from(
        [
            b"GET / HTTP/1.1\r\n",
            b"Host: gateway\r\n",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"\r\n",
            b"\n",
            b"3\r\n",
            b"abc",
            b"0\r\n\r\n",
            b"Upgrade: websocket\r\nConnection: upgrade\r\n",
            b"\x00",
            b"Expect: 100-continue\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"POST http://gateway/ HTTP/1.0\r\n",
        ]
    ),
    max_size=30,
)


@given(pieces=GARBAGE, answers=st.booleans(), waits=st.integers(0, 20))
def test_no_input_raises_or_leaves_anything_behind(pieces: list[bytes], answers: bool, waits: int) -> None:
    line = Line() if answers else Line(RecordingHandler())
    for piece in pieces:
        if not line.closing:
            line.send(piece)
    line.clock.pump([5] * waits)
    if answers and waits == 20:
        assert line.closing
    line.leave()
    assert line.timers() == 0
    ends = [request.events.count("ended") + request.events.count("broken") for request in line.requests]
    assert max(ends, default=0) <= 1
