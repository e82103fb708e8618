"""How a connection to a client ends: after which response, in which order, and how long it lingers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mgw.reactor.transport import RelayTransport
from mgw.web.client_transport import DRAIN_SECONDS, LINGER_BYTES, LINGER_SECONDS
from tests.support.channels import (
    CLOSE,
    LIMITS,
    Line,
    RecordedRequest,
    RecordingHandler,
    TcpTransport,
    answer,
    channel_of,
    get,
    post,
    silent,
)


def test_http_1_0_closes_behind_the_answer() -> None:
    line = Line()
    line.send(get(version="1.0"))
    assert line.take() == answer(b"GET / ", 200, CLOSE)
    assert line.closing


def test_http_1_0_is_kept_alive_where_it_asks_for_it_and_the_answer_is_counted() -> None:
    line = Line()
    line.send(get("/", "Connection: Keep-Alive", version="1.0"))
    assert line.take() == answer(b"GET / ", 200, "Connection: keep-alive")
    assert not line.closing


def test_http_1_0_gets_an_answer_without_a_length_until_the_end_of_the_connection() -> None:
    line = silent()
    line.send(get("/", "Connection: keep-alive", version="1.0"))
    line.channel.start(200, b"OK", [])
    line.channel.write(b"body")
    line.channel.finish()
    assert line.take() == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"
    assert line.closing


def test_a_client_that_asks_for_the_end_gets_it_after_its_answer() -> None:
    line = Line()
    line.send(get("/", "Connection: foo, Close") + get("/never"))
    assert line.take() == answer(b"GET / ", 200, CLOSE)
    assert line.closing
    assert len(line.requests) == 1


def test_close_after_closes_after_the_answer() -> None:
    line = Line(RecordingHandler(RecordedRequest.echo, on_head=lambda request: request.channel.close_after()))
    line.send(get())
    assert line.take() == answer(b"GET / ", 200, CLOSE)
    assert line.closing


def test_an_answer_before_the_end_of_the_body_says_that_the_connection_ends() -> None:
    line = Line(RecordingHandler(on_head=lambda request: request.say(b"no", 413)))
    line.send(post(b"body")[:-1])
    assert line.take() == answer(b"no", 413, CLOSE)
    assert line.requests[0].events == []


def test_after_an_early_answer_the_rest_is_read_for_a_while_and_never_served() -> None:
    line = Line(RecordingHandler(on_head=lambda request: request.say(b"no", 413)))
    line.send(post(b"x" * 100, path="/one")[:-50])
    line.send(b"x" * 50 + get("/two"))
    assert len(line.requests) == 1
    assert line.reading
    assert not line.closing
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


def test_after_an_early_answer_a_bounded_rest_is_read() -> None:
    line = Line(RecordingHandler(on_head=lambda request: request.say(b"no", 413)))
    line.send(get("/", "Content-Length: 1000000000", method="POST"))
    for _ in range(LINGER_BYTES // 65536):
        line.send(b"x" * 65536)
    assert line.reading
    line.send(b"x")
    assert (line.reading, line.closing) == (False, False)
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


class HalfClosing(TcpTransport):
    """A transport whose two sides end one after the other."""

    ended = False
    """Whether our side has."""

    def loseWriteConnection(self) -> None:
        self.ended = True


def halves(handler: RecordingHandler | None = None) -> tuple[Line, HalfClosing]:
    """Return a line whose transport has two sides."""
    line, transport = Line(handler), HalfClosing()  # type: ignore[no-untyped-call]  # Twisted's
    line.leave()
    line.transport = transport
    line.channel = channel_of(line.factory)
    line.channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    return line, transport


@pytest.mark.parametrize(
    "sent",
    [get("/", CLOSE) + get("/more"), get("/", version="1.0"), post(b"body")[:-1], b"nonsense\r\n\r\n"],
    ids=["a last request", "an old one", "an early answer", "a malformed one"],
)
def test_our_side_ends_behind_the_answer_and_the_clients_is_read_until_it_ends(sent: bytes) -> None:
    line, transport = halves(RecordingHandler(RecordedRequest.echo, on_head=early))
    line.send(sent)
    assert transport.ended
    assert not line.closing
    line.send(b"more of it")
    line.clock.advance(LINGER_SECONDS - 0.1)
    assert (line.reading, line.closing) == (True, False)
    line.clock.advance(0.1)
    assert line.closing
    line.leave()
    assert line.timers() == 0


def early(request: RecordedRequest) -> None:
    """Answer a body before it has ended."""
    if request.head.has_body:
        request.say(b"no", 413)


def test_a_lingering_connection_ends_with_the_client() -> None:
    line, _ = halves()
    line.send(get("/", CLOSE))
    line.leave()
    assert (line.factory.channels, line.timers()) == (0, 0)


def test_in_a_drain_a_connection_lingers_for_a_moment_only() -> None:
    line, transport = halves()
    line.factory.drain()
    line.send(get())
    assert transport.ended
    line.clock.advance(DRAIN_SECONDS)
    assert line.closing


def test_an_idle_connection_ends_our_side_first() -> None:
    line, transport = halves()
    line.send(get())
    line.clock.advance(LIMITS.client_idle)
    assert (transport.ended, line.closing) == (True, False)
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


class Upgraded:
    """Another protocol, and what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self, transport: RelayTransport, write: Callable[[bytes], None], data: bytes) -> None:
        self.told.append("start")

    def on_data(self, data: bytes) -> None:
        self.told.append(data.decode())

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def on_client_ended(self) -> None:
        self.told.append("ended")

    def on_lost(self) -> None:
        self.told.append("lost")


def test_a_protocol_that_comes_too_late_is_not_spoken() -> None:
    line, upgraded = silent(), Upgraded()
    line.send(get())
    line.channel.abort()
    line.channel.switch_protocols(upgraded)
    line.leave()
    assert upgraded.told == []


def test_a_protocol_that_is_broken_off_is_not_ended_once_more() -> None:
    line, upgraded = silent(), Upgraded()
    line.send(get())
    line.channel.switch_protocols(upgraded)
    line.send(b"frame")
    line.channel.abort()
    line.channel.end_upgraded()
    assert line.aborted
    line.leave()
    assert upgraded.told == ["start", "frame", "lost"]
    assert line.timers() == 0
