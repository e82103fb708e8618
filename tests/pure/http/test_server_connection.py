"""A connection as a value: its table is walked, and ``httptools`` reads what it writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from httptools import HttpResponseParser
from hypothesis import given
from hypothesis import strategies as st

from mgw.http.head_key import RepeatedHead
from mgw.http.request_head import RequestHead
from mgw.http.response_head import ResponseHead
from mgw.http.server_connection import Refused, ServerConnection
from mgw.http.server_state import TRANSITIONS, ServerEvent, ServerState
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders
from tests.support.transitions import shortest_paths

PART = b"POST / HTTP/1.1\r\nHost: g\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
EMPTY: RawHeaders = [(b"Content-Length", b"0")]


def connection_of(data: bytes = b"") -> ServerConnection:
    """Return a connection whose client has sent ``data``, which begins with a whole head."""
    connection = ServerConnection(64 * 1024, 256)
    if data:
        connection.receive(data)
        assert isinstance(connection.read_head(), RequestHead)
    return connection


# The table


def feed(connection: ServerConnection, head: bytes = b"", body: bytes = b"") -> None:
    """Send what belongs to a head, or to a body, and read it."""
    if not body and connection.state is not ServerState.HEAD:
        head = PART + head
    connection.receive(head + body)
    (connection.read_body if body else connection.read_head)()


def fault(connection: ServerConnection) -> None:
    in_body = connection.state in {ServerState.EXPECTING, ServerState.BODY}
    feed(connection, b"" if in_body else b"\x00", b"x\r\n" if in_body else b"")


def respond(connection: ServerConnection) -> None:
    connection.start(200, b"OK", EMPTY)
    assert connection.finish(b"") is not None


def respond_last(connection: ServerConnection) -> None:
    connection.make_last()
    respond(connection)


def truncate(connection: ServerConnection) -> None:
    connection.start(200, b"OK", [])
    assert connection.truncate()


def leave(event: ServerEvent) -> Callable[[ServerConnection], None]:
    return lambda connection: connection.leave(event)


WAYS: dict[ServerEvent, Callable[[ServerConnection], object]] = {
    ServerEvent.BEGINNING: feed,
    ServerEvent.REQUEST: lambda connection: feed(connection, b"\r\n"),
    ServerEvent.HEAD: lambda connection: feed(connection, CHUNKED + b"\r\n"),
    ServerEvent.EXPECTATION: lambda connection: feed(connection, CHUNKED + b"Expect: 100-continue\r\n\r\n"),
    ServerEvent.PIECE: lambda connection: feed(connection, body=b"2\r\na"),
    ServerEvent.END: lambda connection: feed(connection, body=b"0\r\n\r\n"),
    ServerEvent.FAULT: fault,
    ServerEvent.CONTINUE: ServerConnection.send_continue,
    ServerEvent.RESPONSE: respond,
    ServerEvent.LAST_RESPONSE: respond_last,
    ServerEvent.TRUNCATION: truncate,
    ServerEvent.WITHDRAWAL: lambda connection: connection.take_back(b""),
    **{
        event: leave(event)
        for event in (
            *(ServerEvent.SWITCH, ServerEvent.LINGER, ServerEvent.CLOSE, ServerEvent.ABORT),
            ServerEvent.LOST,
        )
    },
}


PATHS = shortest_paths(TRANSITIONS, ServerState.NEW)


def connection_in(state: ServerState) -> ServerConnection:
    connection = connection_of()
    for event in PATHS[state]:
        WAYS[event](connection)
    assert connection.state is state
    return connection


@pytest.mark.parametrize("state", ServerState)
def test_every_state_is_reached_and_left_as_the_table_says(state: ServerState) -> None:
    for event, target in TRANSITIONS[state].items():
        connection = connection_in(state)
        WAYS[event](connection)
        assert (event, connection.state) == (event, target)


@pytest.mark.parametrize("state", ServerState)
def test_a_connection_is_never_left_in_a_way_that_the_table_does_not_have(state: ServerState) -> None:
    for event in (ServerEvent.SWITCH, ServerEvent.LINGER, ServerEvent.CLOSE, ServerEvent.LOST):
        if event not in TRANSITIONS[state]:
            with pytest.raises(KeyError):
                connection_in(state).leave(event)


def test_the_table_has_every_state_and_every_event_leads_somewhere() -> None:
    assert set(TRANSITIONS) == set(ServerState) == set(PATHS)
    assert {event for ways in TRANSITIONS.values() for event in ways} == set(ServerEvent) == set(WAYS)


@pytest.mark.parametrize("state", ServerState)
def test_nothing_is_sent_where_there_is_nothing_to_respond_to(state: ServerState) -> None:
    if ServerEvent.LAST_RESPONSE in TRANSITIONS[state]:
        return
    connection = connection_in(state)
    assert connection.start(200, b"OK", []) == b""
    assert connection.relay_head(relayed(200), b"A: b\r\n") == b""
    assert connection.relay_whole(relayed(200), b"A: b\r\n", b"body") is None
    assert connection.write(b"body") == ()
    assert connection.send_continue() == connection.flush() == b""
    assert connection.state is state


# What is read


class Request:
    """A request as the model has it: what is sent of it, and what must be read."""

    def __init__(self, body: bytes, framing: str, keeps: bool) -> None:
        self.body, self.keeps = body, keeps
        close = b"" if keeps else b"Connection: close\r\n"
        if framing == "chunked":
            chunks = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.data = PART + close + CHUNKED + b"\r\n" + chunks + b"0\r\n\r\n"
        else:
            self.data = PART + close + b"Content-Length: %d\r\n\r\n" % len(body) + body


REQUESTS = st.lists(
    st.builds(
        Request,
        st.sampled_from([b"", b"a", b"body", b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]),
        st.sampled_from(["counted", "chunked"]),
        st.sampled_from([True, True, True, False]),
    ),
    min_size=1,
    max_size=5,
)


class Client:
    """Reads a connection as the channel does, and responds to each whole request with its body."""

    def __init__(self, known: dict[bytes, RequestHead]) -> None:
        self.connection = connection_of()
        self.known = known
        self.bodies: list[bytes] = []
        self.sent = b""
        self._body = b""

    def take(self, piece: bytes) -> None:
        self.connection.receive(piece)
        while self.connection.held and self._take_part():
            pass

    def _take_part(self) -> bool:
        connection = self.connection
        if connection.state in {ServerState.EXPECTING, ServerState.BODY}:
            content = connection.read_body()
            assert not isinstance(content, Refused)
            self._body += content or b""
        elif not self._take_head():
            return False
        if connection.state is ServerState.RESPONDING:
            self._respond()
        return True

    def _take_head(self) -> bool:
        connection = self.connection
        if connection.state in {ServerState.ENDED, ServerState.LINGERING}:
            return False
        key = connection.head_key()
        if key is not None and key[0] in self.known:
            content = connection.take_known(self.known[key[0]], RepeatedHead.of_key(key[0]), key)
            self._body = content or b""
            return True
        head = connection.read_head()
        if key is not None and isinstance(head, RequestHead):
            self.known[key[0]] = head
        return head is not None

    def _respond(self) -> None:
        self.bodies.append(self._body)
        self.sent += self.connection.start(200, b"OK", [])
        self.sent += b"".join(self.connection.write(self._body) or ())
        self.sent += b"".join(self.connection.finish(b"") or ())
        self._body = b""


@given(requests=REQUESTS, sizes=st.lists(st.integers(1, 60) | st.just(1000), min_size=1, max_size=9))
def test_any_cut_of_any_requests_is_read_and_responded_to_up_to_the_last(
    requests: list[Request], sizes: list[int]
) -> None:
    data = b"".join(request.data for request in requests)
    # The model: every request up to the first that asks for the end.
    kept = [request.keeps for request in requests]
    served = requests[: kept.index(False) + 1] if False in kept else requests
    known: dict[bytes, RequestHead] = {}
    for _ in range(2):  # at first all heads are read; then they are known
        client, at, number = Client(known), 0, 0
        while at < len(data):
            size = sizes[number % len(sizes)]
            client.take(data[at : at + size])
            at, number = at + size, number + 1
        assert client.bodies == [request.body for request in served]
        assert client.connection.state is (ServerState.IDLE if all(kept) else ServerState.ENDED)
        assert bodies_in(client.sent) == client.bodies


@given(pieces=st.lists(st.binary(min_size=1, max_size=5)), length=st.integers(1, 20))
def test_a_counted_body_ends_at_its_length(pieces: list[bytes], length: int) -> None:
    connection, content = connection_of(PART + b"Content-Length: %d\r\n\r\n" % length), b""
    for piece in pieces:
        connection.receive(piece)
        if connection.state is ServerState.BODY:
            found = connection.read_body()
            assert isinstance(found, bytes)
            content += found
    whole = b"".join(pieces)
    assert (content, connection.held) == (whole[:length], whole[length:])
    assert (connection.state is ServerState.RESPONDING) is (len(whole) >= length)


def test_a_head_that_is_taken_back_is_read_as_any_other() -> None:
    data = PART + b"Content-Length: 4\r\n\r\nbodyGET"
    before, connection = connection_of(), connection_of()
    before.receive(data)
    known = before.read_head()
    assert isinstance(known, RequestHead)
    connection.receive(data)
    key = connection.head_key()
    assert key is not None
    assert connection.take_known(known, None, key) == b"body"
    connection.take_back(data)
    assert connection.read_head() == known
    assert (connection.take_whole_body(), connection.held) == (b"body", b"GET")


@pytest.mark.parametrize(
    ("body", "skipped", "rest"),
    [
        (b"Content-Length: 4\r\n\r\nbodyGET", True, b"GET"),
        (b"Content-Length: 4\r\n\r\nbod", False, b"bod"),
        (CHUNKED + b"\r\n1\r\na\r\n0\r\n\r\nGET", True, b"GET"),
        (CHUNKED + b"\r\n1\r\na\r\n", False, b""),
        (CHUNKED + b"\r\nnonsense\r\n", False, b""),
    ],
    ids=["counted", "a part", "chunked", "some chunks", "malformed"],
)
def test_a_body_that_has_come_is_skipped_and_the_connection_kept(
    body: bytes, skipped: bool, rest: bytes
) -> None:
    connection = connection_of(PART + body)
    assert (connection.skip_body(), connection.held) == (skipped, rest)
    respond(connection)
    assert connection.state is (ServerState.IDLE if skipped else ServerState.LINGERING)


def test_a_refusal_says_which_target_was_asked_for() -> None:
    connection = connection_of()
    connection.receive(b"GET /slow HTTP/1.1\r\n")
    assert connection.read_head() is None
    error = GatewayError(Reason.CLIENT_TOO_SLOW, "too slow")
    assert connection.refuse(error) == Refused(error, b"/slow")
    assert b"Connection: close" in connection.start(408, b"Slow", [])


# What is sent


def bodies_in(data: bytes) -> list[bytes]:
    """Return the bodies of responses, as ``httptools`` reads them."""
    reader = Reader()
    parser = HttpResponseParser(reader)
    parser.feed_data(data)
    assert reader.has_ended
    return reader.bodies


class Reader:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.has_ended = True

    def on_message_begin(self) -> None:
        self.bodies.append(b"")
        self.has_ended = False

    def on_body(self, data: bytes) -> None:
        self.bodies[-1] += data

    def on_message_complete(self) -> None:
        self.has_ended = True


def relayed(status: int, length: int | None = None, *, is_proved: bool = False) -> ResponseHead:
    """Return the head of a response that is passed on."""
    return ResponseHead(status, b"Said", b"", b"", content_length=length, is_proved=is_proved)


def get() -> ServerConnection:
    """Return a connection with a request that awaits its response."""
    return connection_of(b"GET / HTTP/1.1\r\nHost: g\r\n\r\n")


def written(pieces: tuple[bytes, ...] | None) -> list[bytes]:
    assert pieces is not None
    return list(pieces)


@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"200008")]], ids=["chunked", "counted"])
def test_large_and_small_pieces_arrive_as_written_and_large_ones_uncopied(headers: RawHeaders) -> None:
    connection, large = get(), b"x" * 200_000
    sent = [connection.start(200, b"OK", headers), connection.flush()]
    for piece in (b"abcd", large, b"efgh"):
        sent += written(connection.write(piece))
    assert any(one is large for one in sent)
    sent += written(connection.finish(b""))
    assert bodies_in(b"".join(sent)) == [b"abcd" + large + b"efgh"]


LINES = st.lists(
    st.sampled_from([b"X-Up: 1", b"content-type: text/plain", b"Date: now", b"x-empty: "]), min_size=1
)


@given(
    status=st.sampled_from([200, 201, 400, 529]),
    lines=LINES,
    body=st.binary(max_size=20),
    counted=st.booleans(),
    is_proved=st.booleans(),
)
def test_a_whole_response_is_what_its_pieces_are(
    status: int, lines: list[bytes], body: bytes, counted: bool, is_proved: bool
) -> None:
    length = len(body) if counted else None
    if counted:
        lines = [*lines, b"Content-Length: %d" % len(body)]
    block = b"".join(line + b"\r\n" for line in lines)
    head = relayed(status, length, is_proved=is_proved)
    whole = get().relay_whole(head, block, body)
    assert whole == get().relay_whole(relayed(status, length), block, body)
    for last in (b"", body):
        apart = get()
        sent = [apart.relay_head(head, block)]
        if not last:
            sent += written(apart.write(body))
        sent += written(apart.finish(last))
        assert b"".join(sent) == whole


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536])
@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"70000")]], ids=["chunked", "counted"])
def test_a_last_piece_with_the_end_is_what_both_are_by_themselves(headers: RawHeaders, size: int) -> None:
    pieces = [b"a" * (70_000 - size), b"b" * size]
    apart, together = get(), get()
    sent_apart = [apart.start(200, b"OK", headers)]
    for piece in pieces:
        sent_apart += written(apart.write(piece))
    sent_apart += written(apart.finish(b""))
    sent_together = [together.start(200, b"OK", headers), *written(together.write(pieces[0]))]
    sent_together += written(together.finish(pieces[1]))
    assert b"".join(sent_together) == b"".join(sent_apart)
    assert size == 65_536 or len(sent_together) == len(sent_apart) - bool(size and not headers)


@pytest.mark.parametrize(("length", "fits"), [(b"2", False), (b"3", True), (b"4", False)])
def test_a_last_piece_is_counted(length: bytes, fits: bool) -> None:
    connection = get()
    connection.start(200, b"OK", [(b"Content-Length", length)])
    assert connection.write(b"a") is not None
    assert (connection.finish(b"bc") is not None) is fits


@pytest.mark.parametrize(
    "lines", [b"X-Up: 1\n", b"X-Up: 1\r", b"X-Up: a\nb\r\n", b"X-Up: a\rb\r\n", b"\r\nX-Up: 1\r\n"]
)
@pytest.mark.parametrize("length", [None, 2])
def test_a_line_that_ends_in_another_way_is_not_sent(lines: bytes, length: int | None) -> None:
    with pytest.raises(ValueError, match="line end"):
        get().relay_head(relayed(200, length), lines)
    with pytest.raises(ValueError, match="line end"):
        get().relay_whole(relayed(200, length), lines, b"hi")


def test_a_body_without_a_head_is_a_mistake() -> None:
    connection = get()
    for send in (connection.write, connection.finish):
        with pytest.raises(RuntimeError, match="has not started"):
            send(b"body")
    assert connection.state is ServerState.RESPONDING
