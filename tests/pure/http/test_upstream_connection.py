"""A connection to a provider as a value: its table is walked, and what it reads is what was sent."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.upstream_connection import MAX_HEAD_BYTES, UpstreamConnection
from mgw.http.upstream_state import IN_USE, TRANSITIONS, UpstreamEvent, UpstreamState
from mgw.wire.headers import RawHeaders
from tests.support.transitions import shortest_paths


def read(*pieces: bytes, method: bytes = b"GET") -> UpstreamConnection:
    """Return a connection whose provider has responded in ``pieces``."""
    connection = UpstreamConnection()
    connection.become_ready()
    connection.send(method)
    for piece in pieces:
        connection.receive(piece)
    return connection


def body_of(connection: UpstreamConnection) -> bytes:
    return b"".join(connection.body.pieces)


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
    connection = read(*cut(sent.pieces, sizes))
    assert connection.fault is None
    assert connection.head is not None
    assert (connection.head.status, connection.head.reason, connection.head.headers) == (
        sent.status,
        sent.reason,
        sent.headers,
    )
    assert body_of(connection) == sent.body
    assert connection.body.ended is not sent.until_close
    connection.receive_end()
    assert connection.body.ended


@given(
    garbage=st.lists(
        st.one_of(st.binary(max_size=30), st.sampled_from([b"HTTP/1.1 200", b"\r\n", b": ", b"0"]))
    )
)
def test_garbage_never_raises(garbage: list[bytes]) -> None:
    connection = read(*garbage)
    assert (connection.fault is None) is (connection.state is not UpstreamState.UNREADABLE)


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_ends_with_its_head(status: int) -> None:
    connection = read(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status)
    assert connection.body.ended
    assert connection.state is UpstreamState.COMPLETE


def test_an_answer_to_head_ends_with_its_head() -> None:
    connection = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", method=b"HEAD")
    assert connection.body.ended
    assert connection.state is UpstreamState.COMPLETE
    assert not connection.body.pieces


def test_a_body_after_the_head_of_head_is_dropped_and_spoils_the_connection() -> None:
    connection = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", method=b"HEAD")
    assert connection.body.ended
    assert not connection.body.pieces
    assert connection.state is UpstreamState.LAST


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
    connection = read(answer)
    assert connection.fault is not None
    assert connection.state is UpstreamState.UNREADABLE


def test_a_fault_repeats_nothing_of_the_answer() -> None:
    connection = read(b"HTTP/1.1 200 OK\r\nX: sk-canary\r\nsk-canary\r\n\r\n")
    assert connection.fault is not None
    assert "canary" not in connection.fault


@pytest.mark.parametrize("piece", [b"X-Long: " + b"a" * 70_000, b"A: b\r\n" * 12_000], ids=["one", "many"])
def test_an_endless_head_is_a_fault(piece: bytes) -> None:
    connection = read(b"HTTP/1.1 200 OK\r\n", *cut([piece], [1000]))
    assert connection.fault is not None


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
    connection = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(30_000):
        connection.receive(b"1\r\n")
        connection.receive(b"x\r\n")
        connection.body.pieces.clear()
    assert connection.fault is None


def test_pieces_read_before_a_fault_stay() -> None:
    connection = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nzz\r\n")
    assert connection.fault is not None
    assert body_of(connection) == b"hi"


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
    connection = read(head + b"Content-Length: 0\r\n\r\n")
    assert connection.body.ended
    assert connection.state is (UpstreamState.COMPLETE if reusable else UpstreamState.LAST)


@pytest.mark.parametrize("stray", [b"x", b"HTTP/1.1 200 OK\r\n\r\n", b"\r\n"])
def test_bytes_after_the_end_spoil_the_connection_not_the_answer(stray: bytes) -> None:
    connection = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", stray)
    assert connection.fault is None
    assert body_of(connection) == b"hi"
    assert connection.state is UpstreamState.LAST


def test_a_second_answer_in_the_same_read_spoils_the_connection_not_the_answer() -> None:
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    connection = read(first + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    assert connection.fault is None
    assert body_of(connection) == b"hi"
    assert connection.head is not None
    assert connection.head.headers == [(b"Content-Length", b"2")]
    assert connection.state is UpstreamState.LAST


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
    connection = read(*([answer] if answer else []))
    connection.receive_end()
    assert not connection.body.ended


def connections_alive() -> int:
    return sum(isinstance(found, UpstreamConnection) for found in gc.get_objects())


def test_a_read_answer_is_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        before = connections_alive()
        for _ in range(10):
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert connections_alive() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("phrase", [b"a\x00b", b"\x1b[31mred", b"a\x7f", b"\x01", b"O\x08K"])
def test_a_phrase_with_control_characters_is_left_out(phrase: bytes) -> None:
    connection = read(b"HTTP/1.1 200 " + phrase + b"\r\nContent-Length: 2\r\n\r\nhi")
    assert connection.head is not None
    assert (connection.head.status, connection.head.reason, body_of(connection)) == (200, b"", b"hi")


@pytest.mark.parametrize("phrase", [b"", b"OK", b"a\tb", "très bien".encode(), b"\xe9\xff"])
def test_any_other_phrase_stays_as_it_is(phrase: bytes) -> None:
    connection = read(b"HTTP/1.1 200 " + phrase + b"\r\nContent-Length: 0\r\n\r\n")
    assert connection.head is not None
    assert connection.head.reason == phrase


@pytest.mark.parametrize("extension", VALID_EXTENSIONS)
def test_a_valid_chunk_extension_means_nothing(extension: bytes) -> None:
    body = b"2" + extension + b"\r\nhi\r\n0" + extension + b"\r\n\r\n"
    connection = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert (body_of(connection), connection.body.ended, connection.state) == (
        b"hi",
        True,
        UpstreamState.COMPLETE,
    )


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
    connection = read(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2" + line + b"\r\nhi\r\n0\r\n\r\n"
    )
    assert connection.fault is not None
    assert not connection.body.pieces


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
    connection = read(*cut([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body], [size]))
    assert connection.fault is not None
    assert connection.state is UpstreamState.UNREADABLE


@pytest.mark.parametrize("size", [1, 1000])
def test_bytes_behind_the_last_chunk_spoil_the_connection_not_the_answer(size: int) -> None:
    body = b"2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
    connection = read(*cut([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body], [size]))
    assert (body_of(connection), connection.body.ended, connection.fault) == (b"hi", True, None)
    assert connection.state is UpstreamState.LAST


@pytest.mark.parametrize("status", [b"200 OK", b"204 None", b"nonsense"])
def test_any_number_of_interim_responses_may_come_at_once(status: bytes) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 2000
    connection = read(interim + b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nhi")
    assert (connection.fault is not None) == (status == b"nonsense")
    assert connection.body.ended == (status != b"nonsense")
    assert body_of(connection) == (b"hi" if status == b"200 OK" else b"")


# The table

CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def respond(connection: UpstreamConnection, connection_line: bytes = b"") -> None:
    """End the response: by a head without a body, or by the last chunk and perhaps more."""
    if connection.state is UpstreamState.UNTIL_CLOSE:
        connection.receive_end()
    elif connection.state is UpstreamState.BODY:
        connection.receive(b"0\r\n\r\n" + (b"x" if connection_line else b""))
    else:
        start = b".1 200 OK\r\n" if connection.state is UpstreamState.HEAD else b"HTTP/1.1 200 OK\r\n"
        connection.receive(start + connection_line + b"Content-Length: 0\r\n\r\n")


def receive_head(connection: UpstreamConnection, head: bytes) -> None:
    """Send a head, or what is left of one."""
    connection.receive(head.removeprefix(b"HTTP/1") if connection.state is UpstreamState.HEAD else head)


def leave(event: UpstreamEvent) -> Callable[[UpstreamConnection], None]:
    return lambda connection: connection.leave(event)


def begin(connection: UpstreamConnection) -> None:
    connection.receive(b".1 " if connection.state is UpstreamState.HEAD else b"HTTP/1")


WAYS: dict[UpstreamEvent, Callable[[UpstreamConnection], None]] = {
    UpstreamEvent.READY: UpstreamConnection.become_ready,
    UpstreamEvent.REQUEST: lambda connection: connection.send(b"GET"),
    UpstreamEvent.BEGINNING: begin,
    UpstreamEvent.HEAD: lambda connection: receive_head(connection, CHUNKED_HEAD),
    UpstreamEvent.OPEN_HEAD: lambda connection: receive_head(connection, b"HTTP/1.1 200 OK\r\n\r\n"),
    UpstreamEvent.END: respond,
    UpstreamEvent.LAST_END: lambda connection: respond(connection, b"Connection: close\r\n"),
    UpstreamEvent.FAULT: lambda connection: connection.receive(b"\x00\r\n"),
    UpstreamEvent.EXCESS: lambda connection: connection.receive(b"x"),
    UpstreamEvent.TAKEN: UpstreamConnection.take,
    **{event: leave(event) for event in (UpstreamEvent.CLOSE, UpstreamEvent.ABORT, UpstreamEvent.LOST)},
}


PATHS = shortest_paths(TRANSITIONS, UpstreamState.CONNECTING)


def connection_in(state: UpstreamState) -> UpstreamConnection:
    connection = UpstreamConnection()
    for event in PATHS[state]:
        WAYS[event](connection)
    assert connection.state is state
    return connection


@pytest.mark.parametrize("state", UpstreamState)
def test_every_state_is_reached_and_left_as_the_table_says(state: UpstreamState) -> None:
    for event, target in TRANSITIONS[state].items():
        connection = connection_in(state)
        WAYS[event](connection)
        assert (event, connection.state) == (event, target)


@pytest.mark.parametrize("state", UpstreamState)
def test_a_connection_moves_in_no_way_that_the_table_does_not_have(state: UpstreamState) -> None:
    ours = {UpstreamEvent.READY, UpstreamEvent.REQUEST, UpstreamEvent.TAKEN, UpstreamEvent.CLOSE}
    for event in (ours | {UpstreamEvent.ABORT}) - set(TRANSITIONS[state]):
        connection = connection_in(state)
        with pytest.raises(KeyError):
            WAYS[event](connection)
        assert connection.state is state


def test_the_table_has_every_state_and_every_event_leads_somewhere() -> None:
    assert set(TRANSITIONS) == set(UpstreamState) == set(PATHS)
    assert {event for ways in TRANSITIONS.values() for event in ways} == set(UpstreamEvent) == set(WAYS)


@pytest.mark.parametrize("state", [state for state in UpstreamState if state not in IN_USE])
def test_what_comes_unasked_changes_nothing(state: UpstreamState) -> None:
    connection = connection_in(state)
    connection.receive(b"HTTP/1.1 200 OK\r\n\r\n")
    connection.receive_end()
    assert (connection.state, connection.head, connection.body.pieces) == (state, None, [])


def test_a_body_stays_its_owners_when_the_connection_goes_on() -> None:
    connection = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst")
    first = connection.body
    connection.take()
    assert connection.head is None
    connection.send(b"GET")
    connection.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsec")
    assert (first.pieces, first.ended) == ([b"first"], True)
    assert (connection.body.pieces, connection.body.ended, connection.requests) == ([b"sec"], False, 2)


@given(
    sent=st.lists(answers().filter(lambda sent: not sent.until_close), min_size=1, max_size=4), data=st.data()
)
def test_answers_in_turn_mean_what_each_means_alone(sent: list[Sent], data: st.DataObject) -> None:
    connection = UpstreamConnection()
    connection.become_ready()
    for answer in sent:
        connection.send(b"GET")
        sizes = data.draw(st.lists(st.sampled_from([1, 3, 17, 1000]), min_size=1, max_size=4))
        for piece in cut(answer.pieces, sizes):
            connection.receive(piece)
        assert connection.state is UpstreamState.COMPLETE
        assert connection.head is not None
        assert (connection.head.status, connection.head.headers) == (answer.status, answer.headers)
        assert body_of(connection) == answer.body
        connection.take()
