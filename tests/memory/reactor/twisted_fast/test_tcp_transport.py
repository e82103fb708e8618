"""The promises of mgw.reactor.twisted_fast.tcp_transport, on a reactor whose turns the test takes."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol, ServerFactory, connectionDone
from twisted.internet.tcp import Server
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.twisted_fast.event_loop import EventLoop
from mgw.reactor.twisted_fast.tcp_transport import (
    LARGE_READ,
    MAX_ACCEPTS,
    TcpTransport,
    accept_clients,
    choose_transport,
    close_quiet,
    read_much,
    transport_class,
    transport_of,
)
from tests.support.calls import count_calls
from tests.support.upstreams import MemoryTransport
from tests.support.waiting import WAIT_SECONDS

END_CALLS: Final = 20
"""The most calls of a turn in which a connection ends, with those of the test's own protocol."""


class Recorder(Protocol):
    """Remembers what happens to it."""

    transport: Any  # Any: TCP's

    def __init__(self, happened: list[str]) -> None:
        self.happened = happened
        self.on_data: Callable[[], object] = lambda: None

    def connectionMade(self) -> None:
        self.happened.append("made")

    def dataReceived(self, data: bytes) -> None:
        self.happened.append(data.decode())
        self.on_data()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.happened.append(reason.type.__name__ if reason.type else "")


@dataclass
class Producer:
    """Remembers whether it was stopped."""

    stopped: bool = False

    def stopProducing(self) -> None:
        self.stopped = True

    def pauseProducing(self) -> None:
        """Nothing is produced."""

    def resumeProducing(self) -> None:
        """Nothing is produced."""


@dataclass
class Recorders(ServerFactory):
    """Makes recorders, or something else."""

    happened: list[str] = field(default_factory=list)
    made: list[Recorder] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)  # Any: addresses
    make: Callable[[list[str]], Recorder | None] = Recorder

    def buildProtocol(self, addr: object) -> Recorder | None:
        self.peers.append(addr)
        made = self.make(self.happened)
        if made is not None:
            self.made.append(made)
        return made


@dataclass
class Loop:
    """A reactor with the fast event loop."""

    reactor: Any  # Any: Twisted types its reactors as modules
    stack: ExitStack

    def until(self, condition: Callable[[], object]) -> None:
        ends = monotonic() + WAIT_SECONDS
        while not condition():
            assert monotonic() < ends
            self.reactor.runUntilCurrent()
            self.reactor.doPoll(0.01)

    def listen(self, factory: Recorders, interface: str = "127.0.0.1") -> Any:  # Any: a port
        return self.reactor.listenTCP(0, factory, interface=interface)

    def dial(self, port: Any) -> socket.socket:  # Any: as above
        address = port.getHost()
        return self.stack.enter_context(
            socket.create_connection((address.host, address.port), timeout=WAIT_SECONDS)
        )


@pytest.fixture
def loop() -> Iterator[Loop]:
    reactor: Any = EPollReactor()  # Any: as above
    reactor.running = True
    with ExitStack() as stack:
        EventLoop(reactor).use(fast=True)
        yield Loop(reactor, stack)
    for descriptor in [*reactor.removeAll(), reactor.waker]:
        descriptor.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def factory() -> Recorders:
    return Recorders()


@pytest.fixture
def failures() -> Iterator[list[object]]:
    """The types of the exceptions that are logged."""
    found: list[object] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        if "log_failure" in event:
            found.append(event["log_failure"].type)

    globalLogPublisher.addObserver(observe)
    yield found
    globalLogPublisher.removeObserver(observe)


def test_it_is_used_with_the_twisted_that_is_installed() -> None:
    assert transport_class() is TcpTransport


@pytest.mark.parametrize("fails", [False, True])
def test_a_transport_of_twisteds_that_differs_is_used_as_it_is(fails: bool) -> None:
    class Other(Server):
        def __init__(self, *args: Any) -> None:  # Any: Twisted's
            if fails:
                raise TypeError("one argument more")
            super().__init__(*args)
            self.other = None

    assert choose_transport(Other) is Other


def test_a_burst_of_clients_comes_after_the_data_of_those_who_are_there(
    loop: Loop, factory: Recorders
) -> None:
    port = loop.listen(factory)
    first = loop.dial(port)
    loop.until(lambda: factory.made)
    for _ in range(MAX_ACCEPTS + 1):
        loop.dial(port)
    first.sendall(b"data")
    factory.happened.clear()
    loop.reactor.doPoll(WAIT_SECONDS)
    assert factory.happened == ["data", *["made"] * MAX_ACCEPTS]
    loop.reactor.doPoll(WAIT_SECONDS)
    assert factory.happened[-1:] == ["made"]
    assert len(factory.made) == MAX_ACCEPTS + 2


def test_a_port_that_stops_in_a_turn_accepts_nobody_more(loop: Loop, factory: Recorders) -> None:
    port = loop.listen(factory)
    first = loop.dial(port)
    loop.until(lambda: factory.made)
    factory.made[0].on_data = port.stopListening
    loop.dial(port)
    first.sendall(b"stop")
    loop.reactor.doPoll(WAIT_SECONDS)
    loop.reactor.doPoll(0)
    assert len(factory.made) == 1
    loop.reactor.runUntilCurrent()


def test_a_client_that_is_not_wanted_is_closed(loop: Loop, factory: Recorders) -> None:
    factory.make = lambda _: None
    client = loop.dial(loop.listen(factory))
    loop.until(lambda: factory.peers)
    assert client.recv(9) == b""


def test_a_factory_that_fails_is_logged_and_its_port_goes_on(
    loop: Loop, factory: Recorders, failures: list[object]
) -> None:
    def fail(_: list[str]) -> None:
        factory.make = Recorder
        raise ValueError("a mistake of ours")

    factory.make = fail
    port = loop.listen(factory)
    loop.dial(port)
    loop.until(lambda: factory.peers)
    loop.dial(port)
    loop.until(lambda: factory.made)
    assert failures == [ValueError]


def test_what_the_kernel_refuses_is_twisteds_to_handle() -> None:
    class Port:
        handled = 0
        factory = object()

        def __init__(self) -> None:
            self.socket = self

        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        def doRead(self) -> None:
            self.handled += 1

    port: Any = Port()  # Any: as much of a port as that takes
    accept_clients(port)
    assert port.handled == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_transport_says_the_same_as_twisteds(loop: Loop, factory: Recorders, host: str) -> None:
    client = loop.dial(port := loop.listen(factory, host))
    loop.until(lambda: factory.made)
    ours: Any = factory.made[0].transport  # Any: TCP's
    assert type(ours).__name__ == "TcpTransport"
    address = client.getsockname()
    theirs: Any = Server(client, factory.made[0], address, port, 0, loop.reactor)
    loop.reactor.removeReader(theirs)
    assert (repr(ours), ours.logPrefix()) == (repr(theirs), theirs.logPrefix())
    assert ours.getPeer() == theirs.getPeer() == factory.peers[0]
    assert (ours.getHost().host, ours.getHost().port) == client.getpeername()[:2]


def connected(loop: Loop, happened: list[str]) -> tuple[socket.socket, Any]:  # Any: the transport
    ours, theirs = socket.socketpair()
    loop.stack.enter_context(theirs)
    theirs.settimeout(WAIT_SECONDS)
    ours.settimeout(0)
    protocol = Recorder(happened)
    transport = transport_of(ours, protocol, ("127.0.0.1", 1), loop.reactor)
    assert isinstance(transport, TcpTransport)
    assert repr(transport) == "<connection to 127.0.0.1>"
    protocol.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
    return theirs, transport


def test_a_quiet_connection_is_closed_at_once(loop: Loop) -> None:
    happened: list[str] = []
    other, transport = connected(loop, happened)
    assert close_quiet(transport)
    assert happened == ["made", "ConnectionDone"]
    assert other.recv(9) == b""
    assert transport not in loop.reactor.getReaders()


def end(how: str, transport: Any, other: socket.socket) -> None:  # Any: TCP's
    match how:
        case "abort":
            transport.abortConnection()
        case "lose":
            transport.loseConnection()
        case "quiet":
            close_quiet(transport)
        case "hang up":
            transport.loseWriteConnection()
            other.close()
        case "reset":
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            other.close()
        case _:
            other.close()


WAYS_TO_END: Final = {
    "abort": "ConnectionAborted",
    "lose": "ConnectionDone",
    "quiet": "ConnectionDone",
    "hang up": "ConnectionDone",
    "reset": "ConnectionLost",
    "close": "ConnectionDone",
}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize(("how", "reason"), WAYS_TO_END.items(), ids=WAYS_TO_END)
def test_a_connection_ends_once_and_the_reactor_forgets_it(
    loop: Loop, factory: Recorders, how: str, reason: str, paused: bool
) -> None:
    other = loop.dial(loop.listen(factory))
    loop.until(lambda: factory.made)
    transport = factory.made[0].transport
    producer = Producer()
    transport.registerProducer(producer, True)
    if paused and how in {"abort", "lose", "quiet"}:
        transport.pauseProducing()
    transport.unregisterProducer() if how in {"lose", "quiet"} else None
    end(how, transport, other)
    loop.until(lambda: factory.happened[-1] != "made")
    transport.connectionLost(Failure(ConnectionDone()))
    loop.reactor.doPoll(0)
    assert factory.happened == ["made", reason]
    assert producer.stopped == (how not in {"lose", "quiet"})
    assert transport not in [*loop.reactor.getReaders(), *loop.reactor.getWriters()]
    assert (transport.connected, transport.disconnected) == (0, 1)


def test_who_is_aborted_gets_a_reset(loop: Loop, factory: Recorders) -> None:
    other = loop.dial(loop.listen(factory))
    loop.until(lambda: factory.made)
    factory.made[0].transport.abortConnection()
    loop.until(lambda: factory.happened[-1] == "ConnectionAborted")
    with pytest.raises(ConnectionResetError):
        other.recv(9)


@pytest.mark.parametrize("half_closed", [False, True])
def test_the_end_of_a_connection_takes_few_calls(loop: Loop, factory: Recorders, half_closed: bool) -> None:
    port = loop.listen(factory)
    for _ in range(2):  # the first one warms up
        factory.made.clear()
        other = loop.dial(port)
        loop.until(lambda: factory.made)
        if half_closed:  # then the kernel says "hung up" beside "input"
            factory.made[0].transport.loseWriteConnection()
            loop.reactor.doPoll(0)
            assert other.recv(9) == b""
        other.close()
        count = count_calls(lambda: loop.reactor.doPoll(WAIT_SECONDS))
        assert factory.happened[-1] == "ConnectionDone"
    assert count <= END_CALLS


def test_another_reactor_is_asked_as_twisted_asks_it() -> None:
    one, other = socket.socketpair()
    asked: list[str] = []

    class Reactor:
        def addReader(self, _: object) -> None:
            asked.append("read")

        def removeReader(self, _: object) -> None:
            asked.append("do not read")

        def removeWriter(self, _: object) -> None:
            asked.append("do not write")

    with other:
        transport = TcpTransport(one, Recorder([]), ("127.0.0.1", 1), None, 0, Reactor())
        transport.connectionLost(connectionDone)
    assert asked == ["read", "do not read", "do not write"]


def test_a_connection_that_has_something_to_write_writes_it_first(loop: Loop) -> None:
    happened: list[str] = []
    other, transport = connected(loop, happened)
    transport.write(b"last words")
    assert not close_quiet(transport)
    loop.until(lambda: happened[-1] == "ConnectionDone")
    assert other.recv(99) == b"last words"


def test_more_is_read_at_once_only_while_that_is_asked_for(loop: Loop, factory: Recorders) -> None:
    client = loop.dial(loop.listen(factory))
    loop.until(lambda: factory.made)
    transport, asked = factory.made[0].transport, list[int]()

    class Handle:
        def recv(self, size: int) -> bytes:
            asked.append(size)
            return b""

    connected, transport.socket = transport.socket, Handle()
    for much in (None, True, False):
        if much is not None:
            read_much(transport, much=much)
        transport.doRead()
    transport.socket = connected
    assert asked == [transport.bufferSize, LARGE_READ, transport.bufferSize]
    assert client.fileno() >= 0


def test_another_transport_reads_as_it_does() -> None:
    read_much(MemoryTransport(), much=True)  # type: ignore[no-untyped-call]  # Twisted has no types here
