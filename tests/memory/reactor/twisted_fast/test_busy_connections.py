"""Connections that bring much are read behind those that bring little, and for a moment in each turn."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol, ServerFactory
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.twisted_fast import event_loop
from mgw.reactor.twisted_fast.event_loop import ACCEPT_SHARE, BUSY_READ_SECONDS, EventLoop
from mgw.reactor.twisted_fast.tcp_transport import (
    BUSY_BYTES,
    BUSY_SECONDS,
    MAX_ACCEPTS,
    TcpTransport,
    transport_of,
)
from tests.support.waiting import WAIT_SECONDS

MUCH: Final = b"m" * BUSY_BYTES
LITTLE: Final = MUCH[1:]
MOST: Final = TcpTransport.read_bytes


class Reader(Protocol):
    """Takes a time to read what comes, and notes its own name."""

    transport: Any  # Any: TCP's

    def __init__(self, crowd: Crowd, name: str, seconds: float) -> None:
        self.crowd, self.name, self.seconds = crowd, name, seconds
        self.on_data: Callable[[], object] = lambda: None

    def dataReceived(self, data: bytes) -> None:
        self.crowd.read.append(self.name)
        self.crowd.now += self.seconds
        self.on_data()


@dataclass
class Crowd:
    """Connections on a reactor with the fast event loop, and a clock of the test's own."""

    reactor: Any  # Any: Twisted types its reactors as modules
    stack: ExitStack
    now: float = 1000.0
    read: list[str] = field(default_factory=list)
    """The connections that were read, in order."""
    readers: dict[str, Reader] = field(default_factory=dict)
    sockets: dict[str, socket.socket] = field(default_factory=dict)

    def open(self, name: str, seconds: float = 0.0) -> None:
        """Open a connection of a name."""
        ours, self.sockets[name] = socket.socketpair()
        self.stack.enter_context(self.sockets[name])
        ours.setblocking(False)
        self.readers[name] = Reader(self, name, seconds)
        transport = transport_of(ours, self.readers[name], ("127.0.0.1", 1), self.reactor)
        assert isinstance(transport, TcpTransport)
        reader: Any = self.readers[name]  # Any: Twisted has no types here
        reader.makeConnection(transport)

    def open_busy(self, *names: str, seconds: float = 0.0, more: bytes = MUCH) -> None:
        """Open connections that have given much, and that have more input now."""
        for name in names:
            self.open(name)
            self.send(name, MUCH)
            self.turn()
        self.turn()
        for name in names:
            self.readers[name].seconds = seconds
        self.send(",".join(names), more)

    def send(self, names: str, data: bytes) -> None:
        """Send something on some connections."""
        for name in names.split(","):
            self.sockets[name].sendall(data)

    def turn(self) -> str:
        """Take a turn of the reactor, and return which connections were read in it."""
        del self.read[:]
        self.reactor.doPoll(0)
        return ",".join(self.read)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    reactor: Any = EPollReactor()  # Any: as above
    reactor.running = True
    with ExitStack() as stack:
        EventLoop(reactor).use(fast=True)
        found = Crowd(reactor, stack)
        reactor.seconds = lambda: found.now
        yield found
        for descriptor in [*reactor.removeAll(), reactor.waker]:
            descriptor.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def failures() -> Iterator[list[object]]:
    """The types of the exceptions that are logged."""
    found: list[object] = []

    def observe(event: LogEvent) -> None:
        if event.get("failure") is not None:
            found.append(event["failure"].type)

    observer = implementer(ILogObserver)(observe)
    globalLogPublisher.addObserver(observer)
    yield found
    globalLogPublisher.removeObserver(observer)


def test_busy_connections_come_behind_the_others(crowd: Crowd) -> None:
    crowd.open_busy("a", "b")
    crowd.open("quiet")
    crowd.send("quiet", b"?")
    assert crowd.turn() == "quiet,a,b"


def test_a_turn_reads_busy_connections_for_a_moment_and_goes_on_where_it_was(crowd: Crowd) -> None:
    crowd.open_busy("a", "b", "c", seconds=BUSY_READ_SECONDS * 0.6, more=b"m" * 3 * MOST)
    crowd.open("quiet")
    assert crowd.turn() == "a,b"
    crowd.send("quiet", b"?")
    assert crowd.turn() == "quiet,c,a"
    assert crowd.turn().startswith("b")


def test_one_busy_connection_is_read_however_long_it_takes(crowd: Crowd) -> None:
    crowd.open_busy("a", seconds=BUSY_READ_SECONDS * 9, more=b"m" * 2 * MOST)
    assert [crowd.turn(), crowd.turn()] == ["a", "a"]


@pytest.mark.parametrize(
    ("last", "waited", "order"),
    [(MUCH, 0.0, "quiet,b,a"), (MUCH, BUSY_SECONDS, "a,quiet,b"), (LITTLE, 0.0, "a,quiet,b")],
    ids=["much", "much, a while ago", "little"],
)
def test_what_has_given_much_lately_is_busy(crowd: Crowd, last: bytes, waited: float, order: str) -> None:
    crowd.open_busy("a", more=last)
    crowd.open("quiet")
    crowd.turn()
    crowd.now += waited
    crowd.open_busy("b", more=b"m" * 3 * MOST)
    crowd.turn()
    crowd.turn()
    crowd.send("a,quiet", b"?")
    assert crowd.turn() == order


@pytest.mark.parametrize("seconds", [BUSY_SECONDS / 2, 2 * BUSY_SECONDS])
def test_turns_that_last_long_leave_connections_busy(crowd: Crowd, seconds: float) -> None:
    crowd.open_busy("a", "b", seconds=seconds, more=b"m" * 2 * MOST)
    assert [crowd.turn() for _ in range(4)] == ["a", "b", "a", "b"]


def test_a_first_turn_of_long_reads_finds_all_of_them_busy(crowd: Crowd) -> None:
    names = "a,b,c"
    for name in names.split(","):
        crowd.open(name, seconds=2 * BUSY_SECONDS)
    crowd.send(names, b"m" * 2 * MOST)
    assert crowd.turn() == names
    assert [crowd.turn() for _ in range(3)] == ["a", "b", "c"]


def test_a_busy_connection_that_another_pauses_or_ends_is_not_read(crowd: Crowd) -> None:
    crowd.open_busy("a", "b", "c", "d")
    a, b, c, _ = crowd.readers.values()

    def on_data() -> None:
        b.transport.pauseProducing()
        c.transport.abortConnection()

    a.on_data = on_data
    assert crowd.turn() == "a,d"
    b.transport.resumeProducing()
    assert crowd.turn() == "b"


def test_a_busy_connection_that_is_paused_while_it_has_output_is_not_read(crowd: Crowd) -> None:
    crowd.open_busy("a", "b", more=b"m" * 3 * MOST)
    a, b = crowd.readers.values()
    b.transport.write(b"o" * 2**24)
    while crowd.turn() != "a,b":  # the kernel takes output no more
        pass
    a.on_data = b.transport.pauseProducing
    assert crowd.turn() == "a"


def test_a_connection_that_gets_the_descriptor_of_a_busy_one_is_not_taken_for_it(
    crowd: Crowd, failures: list[object]
) -> None:
    crowd.open_busy("a", "b")
    b = crowd.readers["b"].transport
    descriptor = b.fileno()

    def on_data() -> None:
        b.connectionLost(Failure(ConnectionDone()))
        crowd.open("c")
        assert crowd.readers["c"].transport.fileno() == descriptor

    crowd.readers["a"].on_data = on_data
    assert crowd.turn() == "a"
    assert failures == []
    crowd.send("c", b"?")
    assert crowd.turn() == "c"


def test_many_busy_connections_do_not_hide_the_others(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "MAX_EVENTS", 2)
    crowd.open_busy("a", "b", "c", "d", "e", seconds=2 * BUSY_READ_SECONDS, more=b"m" * 3 * MOST)
    assert [crowd.turn() for _ in range(5)] == ["a", "b", "c", "d", "e"]
    crowd.open("quiet")
    crowd.send("quiet", b"?")
    assert crowd.turn().startswith("quiet")


def test_what_is_read_may_take_a_turn(crowd: Crowd) -> None:
    crowd.open_busy("a", "b")
    crowd.readers["a"].on_data = lambda: crowd.reactor.doPoll(0)
    assert crowd.turn() == "a,b"


def test_what_fails_ends_its_connection_only(crowd: Crowd) -> None:
    crowd.open_busy("a", "b")

    def fail() -> None:
        raise ValueError("a mistake of ours")

    crowd.readers["a"].on_data = fail
    assert crowd.turn() == "a,b"
    assert not crowd.readers["a"].transport.connected
    crowd.sockets["b"].close()
    crowd.turn()
    assert not crowd.readers["b"].transport.connected


class Guests(ServerFactory):
    """Clients, each of which takes a time to accept."""

    def __init__(self, crowd: Crowd, seconds: float) -> None:
        self.crowd, self.seconds, self.count = crowd, seconds, 0

    def buildProtocol(self, addr: object) -> Protocol:
        self.count += 1
        self.crowd.now += self.seconds
        return Protocol()


@pytest.mark.parametrize("busy", [True, False])
def test_a_turn_that_reads_long_accepts_for_a_share_of_that_time(crowd: Crowd, busy: bool) -> None:
    seconds = BUSY_READ_SECONDS * ACCEPT_SHARE / (2 * MAX_ACCEPTS)
    guests = Guests(crowd, seconds)
    port = crowd.reactor.listenTCP(0, guests, interface="127.0.0.1")
    if busy:
        crowd.open_busy("a", seconds=BUSY_READ_SECONDS)
    for _ in range(3 * MAX_ACCEPTS):
        crowd.stack.enter_context(socket.create_connection(("127.0.0.1", port.getHost().port), WAIT_SECONDS))
    crowd.turn()
    assert guests.count == pytest.approx(2 * MAX_ACCEPTS if busy else MAX_ACCEPTS, abs=1)
