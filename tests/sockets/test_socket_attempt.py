"""The promises of mgw.reactor.twisted_fast.socket_attempt."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IAddress, IProtocol
from twisted.internet.main import CONNECTION_LOST
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from mgw.reactor.twisted_fast.socket_attempt import SocketAttempt, can_connect_sockets
from tests.support.reactor import in_reactor, running_reactor


class Recorder(Protocol):
    """Fires when the connection ends; sends back what it gets."""

    def __init__(self) -> None:
        self.lost: Deferred[None] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.callback(None)


class Recorders(Factory):
    """Makes recorders, and remembers for whom."""

    def __init__(self) -> None:
        self.peers: list[IAddress | None] = []

    def buildProtocol(self, addr: IAddress | None) -> Recorder:
        self.peers.append(addr)
        return Recorder()


@dataclass
class Outcome:
    """What came of an attempt."""

    factory: Recorders = field(default_factory=Recorders)
    over: Deferred[None] = field(default_factory=Deferred)
    protocol: Any = None  # a Recorder
    error: Exception | None = None

    def on_connected(self, protocol: IProtocol) -> None:
        self.protocol = protocol
        self.over.callback(None)

    def on_failed(self, error: Exception) -> None:
        self.error = error
        self.over.callback(None)


def begin(host: str, port: int) -> tuple[SocketAttempt, Outcome]:
    outcome = Outcome()
    reactor = running_reactor()
    assert can_connect_sockets(reactor, host)
    attempt = SocketAttempt(reactor, outcome.factory, outcome.on_connected, outcome.on_failed)
    attempt.connect(host, port)
    return attempt, outcome


@contextmanager
def full_listener() -> Iterator[socket.socket]:
    """A port whose queue is full: the kernel lets whoever comes next wait."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = []
        for _ in range(4):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(address)
            waiting.append(each)
        yield listener
        for each in waiting:
            each.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_on_the_same_host_stands_at_once(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    async def work() -> None:
        with socket.create_server((host, 0), family=family) as listener:
            port = listener.getsockname()[1]
            _, outcome = begin(host, port)
            assert outcome.over.called
            transport = outcome.protocol.transport
            assert (transport.getPeer().host, transport.getPeer().port) == (host, port)
            assert outcome.factory.peers == [transport.getPeer()]
            assert transport.getHost().host == host
            assert host in repr(transport)
            other, _ = listener.accept()
            other.close()
            await outcome.protocol.lost

    in_reactor(work)


def test_a_refused_connection_is_told_as_such() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        _, outcome = begin("127.0.0.1", port)
        await outcome.over
        assert isinstance(outcome.error, Refused)

    in_reactor(work)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no address", 80), ("0.0.0.256", 80)])
def test_what_no_socket_can_have_is_told_at_once(host: str, port: int) -> None:
    async def work() -> None:
        _, outcome = begin(host, port)
        assert outcome.error is not None

    in_reactor(work)


def test_a_connection_that_takes_time_is_waited_for() -> None:
    async def work() -> None:
        with full_listener() as listener:
            _, outcome = begin("127.0.0.1", listener.getsockname()[1])
            assert not outcome.over.called
            accepted = listener.accept()[0]  # which makes room
            await outcome.over
            assert outcome.error is None
            outcome.protocol.transport.abortConnection()
            accepted.close()

    in_reactor(work)


def test_a_connection_that_fails_later_is_told() -> None:
    async def work() -> None:
        with full_listener() as listener:
            _, outcome = begin("127.0.0.1", listener.getsockname()[1])
            listener.close()
            await outcome.over
            assert isinstance(outcome.error, Refused)

    in_reactor(work)


def test_a_reactor_that_stops_ends_the_attempt() -> None:
    async def work() -> None:
        with full_listener() as listener:
            attempt, outcome = begin("127.0.0.1", listener.getsockname()[1])
            attempt.connectionLost(Failure(CONNECTION_LOST))
            assert isinstance(outcome.error, ConnectionLost)
            assert attempt not in running_reactor().getWriters()

    in_reactor(work)


def test_a_cancelled_attempt_leaves_nothing_behind() -> None:
    async def work() -> None:
        with full_listener() as listener:
            attempt, outcome = begin("127.0.0.1", listener.getsockname()[1])
            assert attempt in running_reactor().getWriters()
            attempt.cancel()
            attempt.cancel()
            attempt.doWrite()
            assert attempt not in running_reactor().getWriters()
            assert (outcome.protocol, outcome.error) == (None, None)

    in_reactor(work)


def test_an_address_with_a_zone_is_left_to_twisted() -> None:
    assert not can_connect_sockets(running_reactor(), "fe80::1%lo")
