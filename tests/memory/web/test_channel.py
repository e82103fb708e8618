"""The channel's conversation with one client: order and framing."""

from __future__ import annotations

import pytest
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.interfaces import IAddress
from twisted.internet.task import Clock

from mgw.web.client_transport import LINGER_SECONDS, MAX_HELD
from mgw.web.listener import ChannelFactory
from tests.support.channels import (
    CLOSE,
    LIMITS,
    Line,
    RecordedRequest,
    RecordingHandler,
    TcpTransport,
    answer,
    chunked,
    get,
    post,
    silent,
)


def test_a_kept_connection_serves_one_request_after_the_other() -> None:
    line = Line()
    line.send(get("/one"))
    line.send(post(b"body", path="/two"))
    assert line.take() == answer(b"GET /one ") + answer(b"POST /two body")
    assert not line.closing


def test_a_request_without_a_body_ends_at_once() -> None:
    line = silent()
    line.send(get())
    assert line.requests[0].events == ["ended"]


def test_a_body_arrives_as_it_is_sent() -> None:
    line = silent()
    line.send(post(b"0123456789")[:-4])
    assert (line.requests[0].body, line.requests[0].events) == (b"012345", ["body"])
    line.send(b"6789")
    assert (line.requests[0].body, line.requests[0].events) == (b"0123456789", ["body", "ended"])


def test_a_body_that_came_with_its_head_is_taken_at_once() -> None:
    line = silent()
    line.send(post(b"whole") + get("/next"))
    assert (line.requests[0].body, line.requests[0].events) == (b"whole", ["body", "ended"])
    line.requests[0].say(b"1")
    assert line.requests[1].head.target == b"/next"


def test_a_body_that_came_with_its_head_waits_for_whoever_paused_it() -> None:
    line = Line(RecordingHandler(RecordedRequest.echo, lambda request: request.channel.pause_body()))
    line.send(post(b"whole") + post(b"next"))
    assert line.requests[0].events == []
    for number in range(2):
        assert len(line.requests) == number + 1
        line.channel.resume_body()
    assert line.take() == answer(b"POST / whole") + answer(b"POST / next")


def test_trailers_of_a_chunked_request_are_dropped() -> None:
    line = Line()
    line.send(chunked(b"ab", b"c", trailers=b"X-Sum: 1\r\nHost: other\r\n") + get("/next"))
    assert line.take() == answer(b"POST / abc") + answer(b"GET /next ")
    assert b"X-Sum" not in dict(line.requests[0].head.headers)


def test_pipelined_requests_are_opened_one_after_the_other() -> None:
    line = silent()
    line.send(get("/one") + get("/two"))
    assert [request.head.target for request in line.requests] == [b"/one"]
    line.requests[0].say(b"1")
    assert [request.head.target for request in line.requests] == [b"/one", b"/two"]
    line.requests[1].say(b"2")
    assert line.take() == answer(b"1") + answer(b"2")


def test_many_pipelined_requests_do_not_nest() -> None:
    line = Line()
    line.send(get() * 3000)
    assert len(line.requests) == 3000
    assert line.take() == answer(b"GET / ") * 3000


def test_what_is_pipelined_is_bounded_and_read_on_later() -> None:
    line = silent()
    line.send(get("/first"))
    more = get("/more")
    pieces = MAX_HELD // len(more) + 1
    for number in range(pieces):
        assert line.reading, number
        line.send(more)
    assert not line.reading
    line.handler.answer = RecordedRequest.echo
    line.requests[0].say(b"")
    assert line.reading
    assert len(line.requests) == 1 + pieces


def test_exactly_so_much_is_held_behind_a_request() -> None:
    line = silent()
    line.send(get("/first"))
    line.send(b"x" * MAX_HELD)
    assert line.reading
    line.send(b"x")
    assert not line.reading


def test_while_an_answer_is_under_way_the_channel_goes_on_reading() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [])
    assert line.reading
    line.leave()
    assert line.requests[0].events == ["ended", "disconnected"]


def test_a_client_that_leaves_in_its_body_has_left() -> None:
    line = silent()
    line.send(post(b"body")[:-1])
    line.leave()
    assert line.requests[0].events == ["body", "disconnected"]


def test_a_client_that_leaves_after_its_answer_has_not_left() -> None:
    line = Line()
    line.send(get())
    line.leave()
    assert line.requests[0].events == ["ended"]


def test_an_answer_without_a_length_is_chunked() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [(b"X-One", b"1")])
    assert line.take() == b"HTTP/1.1 200 OK\r\nX-One: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    line.channel.write(b"")
    line.channel.write(b"0123456789abcdef")
    assert line.take() == b"10\r\n0123456789abcdef\r\n"
    line.channel.finish()
    assert line.take() == b"0\r\n\r\n"
    assert not line.closing


def test_the_head_of_a_counted_answer_goes_out_with_its_body() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [(b"Content-Length", b"2")])
    assert line.take() == b""
    line.channel.write(b"a")
    assert line.take().endswith(b"\r\n\r\na")
    line.channel.write(b"b")
    line.channel.finish()
    assert line.take() == b"b"


def test_an_answer_of_no_bytes_has_a_head() -> None:
    line = silent()
    line.send(get())
    line.requests[0].say(b"")
    assert line.take() == answer(b"")


@pytest.mark.parametrize("written", [b"1234", b"123456"], ids=["less", "more"])
def test_an_answer_of_another_length_than_it_says_breaks_the_connection(written: bytes) -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [(b"Content-Length", b"5")])
    line.channel.write(written)
    line.channel.finish()
    assert line.aborted


@pytest.mark.parametrize(
    ("method", "status", "headers", "expected"),
    [
        ("HEAD", 200, [(b"Content-Length", b"9")], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        ("HEAD", 200, [], b"HTTP/1.1 200 OK\r\n\r\n"),
        ("GET", 304, [(b"Content-Length", b"9")], b"HTTP/1.1 304 OK\r\nContent-Length: 9\r\n\r\n"),
        ("GET", 204, [(b"Content-Length", b"9")], b"HTTP/1.1 204 OK\r\n\r\n"),
    ],
    ids=["HEAD", "HEAD without a length", "304", "204"],
)
def test_an_answer_that_has_no_body_writes_none(
    method: str, status: int, headers: list[tuple[bytes, bytes]], expected: bytes
) -> None:
    line = silent()
    line.send(get(method=method))
    line.channel.start(status, b"OK", headers)
    line.channel.write(b"body")
    line.channel.finish()
    assert line.take() == expected
    assert not line.closing


def test_a_waiting_client_is_told_to_go_on_once() -> None:
    line = silent()
    line.send(post(b"", "Expect: 100-Continue").replace(b"Length: 0", b"Length: 4"))
    assert line.requests[0].head.expects_continue
    line.channel.send_continue()
    line.channel.send_continue()
    assert line.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    line.send(b"body")
    assert line.requests[0].body == b"body"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_that_does_not_wait_is_not_told_to_go_on(version: str) -> None:
    expectation = "Expect: 100-continue" if version == "1.0" else "X-Other: 1"
    line = silent()
    line.send(get("/", "Content-Length: 4", expectation, version=version, method="POST"))
    line.channel.send_continue()
    assert line.take() == b""


def test_a_client_that_has_begun_its_body_is_not_told_to_go_on() -> None:
    line = silent()
    line.send(post(b"body", "Expect: 100-continue")[:-1])
    line.channel.send_continue()
    assert line.take() == b""


def test_abort_breaks_the_connection() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [])
    line.channel.abort()
    assert line.aborted
    line.leave()
    assert line.requests[0].events == ["ended"]


@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"9")]], ids=["chunked", "counted"])
def test_an_answer_that_breaks_off_keeps_what_was_written_and_ends_without_its_end(
    headers: list[tuple[bytes, bytes]],
) -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", headers)
    line.channel.write(b"half")
    line.channel.truncate()
    line.channel.truncate()
    assert (line.closing, line.aborted) == (True, False)
    written = line.take()
    assert b"half" in written
    assert not written.endswith(b"0\r\n\r\n")
    line.leave()
    assert line.requests[0].events == ["ended"]


def test_the_head_of_an_answer_that_breaks_off_before_its_body_is_sent() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [(b"Content-Length", b"9")])
    line.channel.truncate()
    assert line.take().endswith(b"Content-Length: 9\r\n\r\n")
    assert line.closing


@pytest.mark.parametrize(
    ("version", "headers"),
    [("1.0", []), ("1.1", [(b"Content-Length", b"4")])],
    ids=["until close", "all of it written"],
)
def test_an_answer_that_would_look_whole_breaks_the_connection(
    version: str, headers: list[tuple[bytes, bytes]]
) -> None:
    line = silent()
    line.send(get("/", version=version))
    line.channel.start(200, b"OK", headers)
    line.channel.write(b"half")
    line.channel.truncate()
    assert line.aborted


def test_a_body_that_is_no_http_reaches_the_visit_as_broken() -> None:
    line = silent()
    line.send(get("/", "Transfer-Encoding: chunked", method="POST") + b"3\r\nabc\r\nnonsense\r\n" + get("/x"))
    assert line.requests[0].events == ["broken"]
    assert line.take() == answer(b"broken", 400, CLOSE)
    line.clock.advance(LINGER_SECONDS)
    assert line.closing
    assert len(line.requests) == 1


def test_a_paused_body_stops_the_reading() -> None:
    line = silent()
    line.send(post(b"0123456789")[:-8])
    line.channel.pause_body()
    assert not line.reading
    line.send(b"23")
    assert line.requests[0].body == b"01"
    line.channel.resume_body()
    assert line.reading
    assert line.requests[0].body == b"0123"


def test_a_visit_that_pauses_in_its_first_piece_gets_nothing_more() -> None:
    line = silent()
    line.send(post(b"0123456789")[:-8])
    line.channel.pause_body()
    line.send(b"2")
    line.send(b"3")
    line.send(b"456789" + get("/next"))
    assert line.requests[0].body == b"01"
    line.channel.resume_body()
    assert line.requests[0].body == b"0123456789"
    assert line.requests[0].events[-1] == "ended"


class Source:
    """Something that writes, and what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


def test_a_slow_client_pauses_the_source() -> None:
    line, source = silent(), Source()
    line.send(get())
    line.channel.register(source)
    line.channel.pauseProducing()
    line.channel.resumeProducing()
    line.channel.unregister()
    line.channel.pauseProducing()
    assert source.told == ["pause", "resume"]


def test_a_source_that_comes_while_the_buffer_is_full_is_paused_at_once() -> None:
    line, source = silent(), Source()
    line.channel.pauseProducing()
    line.channel.register(source)
    assert source.told == ["pause"]


def test_a_client_that_takes_no_answers_gets_no_more_requests_served() -> None:
    line = Line()
    line.channel.pauseProducing()
    line.send(get("/one"))
    assert line.requests == []
    line.channel.resumeProducing()
    assert len(line.requests) == 1


def test_an_upgrade_to_anything_but_websocket_is_an_ordinary_request() -> None:
    line = Line()
    upgrade = ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk")
    line.send(post(b"body", *upgrade) + chunked(b"a", b"b", path="/two") + get("/three"))
    assert [request.head.upgrade for request in line.requests] == [None, None, None]
    assert line.take() == answer(b"POST / body") + answer(b"POST /two ab") + answer(b"GET /three ")


def test_an_upgrade_to_websocket_is_seen() -> None:
    line = silent()
    line.send(get("/v1/realtime?model=m", "Upgrade: WebSocket", "Connection: keep-alive, Upgrade"))
    assert line.requests[0].head.upgrade == b"websocket"
    assert line.requests[0].events == ["ended"]


def test_headers_arrive_in_order_as_they_were_sent() -> None:
    line = silent()
    line.send(get("/", "X-b: 2 ", "x-A:1", "X-b: \t3", "Empty:"))
    pairs = [(b"Host", b"gateway"), (b"X-b", b"2"), (b"x-A", b"1"), (b"X-b", b"3"), (b"Empty", b"")]
    assert line.requests[0].head.headers == pairs


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("http://gateway/a?b=%20", b"/a?b=%20"),
        ("HTTP://GateWay", b"/"),
        ("http://gateway?x", b"/?x"),
        ("//gateway/a", b"//gateway/a"),
        ("/a//b/../%2e%2e", b"/a//b/../%2e%2e"),
    ],
)
def test_targets_come_in_origin_form(sent: str, seen: bytes) -> None:
    line = silent()
    line.send(get(sent))
    assert line.requests[0].head.target == seen


def test_empty_lines_before_a_request_are_nothing() -> None:
    line = Line()
    line.send(b"\r\n\r\n" + get("/one") + b"\r\n")
    line.send(b"\r\n" + get("/two"))
    assert line.take() == answer(b"GET /one ") + answer(b"GET /two ")


def test_a_header_of_ours_with_a_line_end_is_never_written() -> None:
    line = silent()
    line.send(get())
    with pytest.raises(ValueError, match="line end"):
        line.channel.start(200, b"OK", [(b"X", b"1\r\nSet-Cookie: a")])
    assert line.take() == b""


def test_a_caller_s_connection_headers_are_obeyed_and_not_repeated() -> None:
    line = silent()
    line.send(get())
    line.channel.start(
        200, b"OK", [(b"connection", b"Close"), (b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"0")]
    )
    line.channel.finish()
    assert line.take() == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert line.closing


def test_a_second_answer_to_one_request_is_a_bug() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [])
    with pytest.raises(RuntimeError):
        line.channel.start(200, b"OK", [])


def test_an_answer_to_a_client_that_has_left_goes_nowhere() -> None:
    line = silent()
    line.send(get())
    line.leave()
    line.requests[0].say(b"late")
    line.channel.abort()
    line.channel.send_continue()
    line.channel.close_after()
    assert line.take() == b""


@pytest.mark.parametrize(
    ("peer", "waits"), [(IPv4Address("TCP", "192.0.2.1", 9), False), (UNIXAddress(b"/run/x"), True)]
)
def test_a_small_piece_never_waits_for_the_clients_acknowledgement(peer: IAddress, waits: bool) -> None:
    transport = TcpTransport(peerAddress=peer)
    channel = ChannelFactory(RecordingHandler(), Clock(), LIMITS).buildProtocol(None)
    channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    assert transport.waits is waits
