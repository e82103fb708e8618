"""More clients than ``max_clients``: who is connected is served, and who comes then is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.web.listener import MAX_DISCARDED, MAX_REFUSED, REFUSED_SECONDS
from tests.support.channels import LIMITS, Line, TcpTransport, get, post


class Halves(TcpTransport):
    ended = False

    @property
    def said(self) -> bytes:
        data: bytes = self.value()  # type: ignore[no-untyped-call]  # Twisted's
        return data

    def loseWriteConnection(self) -> None:
        self.ended = True


def full(clients: int = 1) -> Line:
    """Return the first client of a gateway that takes no more than so many."""
    return Line(limits=msgspec.structs.replace(LIMITS, max_clients=clients))


def another(line: Line) -> tuple[Protocol, Halves]:
    protocol, transport = line.factory.buildProtocol(None), Halves()  # type: ignore[no-untyped-call]  # Twisted's
    protocol.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    return protocol, transport


def leave(protocol: Protocol) -> None:
    protocol.connectionLost(Failure(ConnectionDone()))


@contextmanager
def logged() -> Iterator[list[str]]:
    lines: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    yield lines
    globalLogPublisher.removeObserver(observe)


def test_who_is_connected_is_served_and_who_comes_then_is_told() -> None:
    line = full()
    protocol, transport = another(line)
    assert transport.said == b""
    protocol.dataReceived(get("/v1/models"))
    head, _, body = transport.said.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert {b"Connection: close", b"Retry-After: 1", b"Cache-Control: no-store"} <= set(lines)
    assert b"Content-Length: %d" % len(body) in lines
    assert any(one.startswith(b"Date: ") and one.endswith(b" GMT") for one in lines)
    assert json.loads(body)["error"]["code"] == "overloaded"
    assert transport.ended
    line.send(get("/one"))
    assert line.take().endswith(b"GET /one ")


def test_a_place_that_is_free_again_is_given() -> None:
    line = full(2)
    protocol, _ = another(line)
    assert line.factory.channels == 2
    leave(protocol)
    protocol, transport = another(line)
    protocol.dataReceived(get("/two"))
    assert transport.said.startswith(b"HTTP/1.1 200 ")
    assert line.factory.refused == 0


@pytest.mark.parametrize("data", [b"G", b"\x16\x03\x01", post(b"x" * 9), get("/healthzz"), b"\r\n"])
def test_it_is_told_once_whatever_comes(data: bytes) -> None:
    protocol, transport = another(full())
    protocol.dataReceived(data)
    protocol.dataReceived(data)
    assert transport.said.count(b"HTTP/1.1 503 ") == 1


def test_whoever_watches_the_process_learns_that_it_lives() -> None:
    for method in ("GET", "HEAD"):
        protocol, transport = another(full())
        protocol.dataReceived(get("/healthz", method=method))
        assert transport.said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert transport.said.endswith(b"}" if method == "GET" else b"\r\n\r\n")


@pytest.mark.parametrize("data", [b"", get("/")], ids=["silent", "told"])
def test_a_client_that_stays_is_cut_off(data: bytes) -> None:
    line = full()
    protocol, transport = another(line)
    if data:
        protocol.dataReceived(data)
    line.clock.advance(REFUSED_SECONDS)
    assert transport.disconnected
    leave(protocol)
    line.leave()
    assert line.timers() == 0


def test_what_it_sends_is_discarded_and_bounded() -> None:
    protocol, transport = another(full())
    piece = bytes(1024 * 1024)
    for _ in range(MAX_DISCARDED // len(piece)):
        protocol.dataReceived(piece)
    assert transport.producerState == "producing"
    protocol.dataReceived(b"x")
    assert transport.producerState == "paused"


def test_only_so_many_are_told_at_a_time_and_who_came_first_goes_first() -> None:
    line = full()
    waiting = [another(line) for _ in range(MAX_REFUSED)]
    assert not any(transport.disconnected for _, transport in waiting)
    health, transport = another(line)
    assert [silent.disconnected for _, silent in waiting] == [True] + [False] * (MAX_REFUSED - 1)
    health.dataReceived(get("/healthz"))
    assert transport.said.startswith(b"HTTP/1.1 200 OK")
    leave(waiting[0][0])
    leave(waiting[1][0])
    another(line)
    assert not waiting[2][1].disconnected
    assert line.factory.refused == MAX_REFUSED + 2


def test_the_log_says_so_once_a_minute() -> None:
    line = full()
    with logged() as lines:
        for _ in range(50):
            another(line)
        assert len(lines) == 1
        assert "max_clients: 1 clients are connected" in lines[0]
        line.clock.advance(60)
        another(line)
    assert len(lines) == 2
    assert "49 since the last warning" in lines[1]


def test_a_reload_changes_the_limit() -> None:
    line = full()
    line.factory.limits = LIMITS
    protocol, transport = another(line)
    protocol.dataReceived(get("/two"))
    assert transport.said.startswith(b"HTTP/1.1 200 ")


def test_a_stop_waits_for_no_client_that_is_refused() -> None:
    line = full()
    refused, transport = another(line)
    line.leave()
    assert line.factory.stopped().called
    assert transport.disconnected
    leave(refused)
    assert line.timers() == 0
