"""The fast event loop does what Twisted's does with whatever happens on a reactor's descriptors."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Final

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.process import reapAllProcesses
from twisted.internet.protocol import ProcessProtocol, Protocol, ServerFactory, connectionDone
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.reactor.twisted_fast.event_loop import EventLoop
from tests.support.waiting import WAIT_SECONDS

ROOT: Final = Path(__file__).resolve().parents[4]
NAMES: Final = ("doPoll", "doIteration", "iterate")
BAD: Final = b"bad"


@implementer(IHalfCloseableProtocol)
class Recorder(Protocol):
    """Sends back what comes, and remembers what happens to it."""

    transport: Any  # Any: TCP's

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.received = b""
        self.lost: list[type[BaseException] | None] = []
        self.half_closed = False

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        if data == BAD:
            raise ValueError("a mistake of ours")
        self.connections.on_data(self)
        self.transport.write(data)

    def readConnectionLost(self) -> None:
        self.half_closed = True
        self.transport.write(b"the rest")
        self.transport.loseConnection()

    def writeConnectionLost(self) -> None:
        """Nothing more can be written."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost.append(reason.type)


@dataclass
class Connections(ServerFactory):
    """The connections so far, and what else is done when one of them has data."""

    made: list[Recorder] = field(default_factory=list)
    on_data: Callable[[Recorder], object] = lambda _: None

    def buildProtocol(self, addr: object) -> Recorder:
        self.made.append(Recorder(self))
        return self.made[-1]


@implementer(ILogObserver)
@dataclass
class Log:
    """What is logged."""

    events: list[LogEvent] = field(default_factory=list)

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)

    @property
    def texts(self) -> list[str]:
        return [formatEvent(event) for event in self.events]

    def failures(self) -> list[type[BaseException]]:
        """The types of the exceptions that were logged, by the old interface."""
        return [event["failure"].type for event in self.events if "failure" in event]


@pytest.fixture
def log() -> Iterator[Log]:
    found = Log()
    globalLogPublisher.addObserver(found)
    yield found
    globalLogPublisher.removeObserver(found)


@dataclass
class Turns:
    """A reactor whose turns the test takes."""

    reactor: Any  # Any: Twisted types its reactors as modules

    def until(self, condition: Callable[[], object]) -> None:
        """Take turns until a condition holds."""
        ends = monotonic() + WAIT_SECONDS
        while not condition():
            assert monotonic() < ends
            self.once()

    def once(self) -> None:
        """Take one turn, as ``mainLoop`` does, of at most a hundredth of a second."""
        self.reactor.callLater(0.01, lambda: None)
        self.reactor.runUntilCurrent()
        self.reactor.doIteration(self.reactor.timeout())

    def dial(self, connections: Connections, port: Any) -> socket.socket:  # Any: a listening port
        """Connect, and wait until the other side has noticed."""
        count = len(connections.made)
        client = socket.create_connection(("127.0.0.1", port.getHost().port), timeout=WAIT_SECONDS)
        self.until(lambda: len(connections.made) > count)
        return client


@pytest.fixture
def turns() -> Iterator[Turns]:
    """A reactor of its own, which seems to run."""
    found = Turns(EPollReactor())
    found.reactor.running = True
    yield found
    for descriptor in [*found.reactor.removeAll(), found.reactor.waker]:
        descriptor.connectionLost(Failure(ConnectionDone()))


@pytest.fixture(params=["fast", "stock"])
def loop(request: pytest.FixtureRequest, turns: Turns) -> Turns:
    """The same with both loops."""
    EventLoop(turns.reactor).use(fast=request.param == "fast")
    assert all((name in vars(turns.reactor)) == (request.param == "fast") for name in NAMES)
    return turns


@pytest.fixture
def connections() -> Connections:
    return Connections()


@pytest.fixture
def port(loop: Turns, connections: Connections) -> Any:  # Any: a listening port
    return loop.reactor.listenTCP(0, connections, interface="127.0.0.1")


def test_what_many_connections_send_is_received(loop: Turns, connections: Connections, port: Any) -> None:
    clients = [loop.dial(connections, port) for _ in range(20)]
    for number, client in enumerate(clients):
        client.sendall(b"%d" % number)
    loop.until(lambda: all(made.received for made in connections.made))
    loop.once()
    assert [client.recv(9) for client in clients] == [b"%d" % number for number in range(20)]
    for client in clients:
        client.close()


def test_an_exception_is_logged_and_ends_its_connection_only(
    loop: Turns, connections: Connections, port: Any, log: Log
) -> None:
    bad, good = loop.dial(connections, port), loop.dial(connections, port)
    bad.sendall(BAD)
    loop.until(lambda: connections.made[0].lost)
    assert connections.made[0].lost == [ValueError]
    assert log.failures() == [ValueError]
    assert log.events[-1]["log_system"] == "Recorder,0,127.0.0.1"
    good.sendall(b"still here")
    loop.until(lambda: connections.made[1].received)
    assert connections.made[1].lost == []
    bad.close()
    good.close()


def test_the_end_of_the_input_is_a_half_close(loop: Turns, connections: Connections, port: Any) -> None:
    client = loop.dial(connections, port)
    client.shutdown(socket.SHUT_WR)
    loop.until(lambda: connections.made[0].lost)
    assert connections.made[0].half_closed
    assert connections.made[0].lost == [ConnectionDone]
    assert client.recv(99) == b"the rest"
    client.close()


def test_a_reset_is_a_lost_connection(loop: Turns, connections: Connections, port: Any) -> None:
    client = loop.dial(connections, port)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    loop.until(lambda: connections.made[0].lost)
    assert connections.made[0].lost == [ConnectionLost]
    assert not connections.made[0].half_closed


def test_a_connection_that_another_aborts_in_the_same_turn_receives_nothing(
    loop: Turns, connections: Connections, port: Any, log: Log
) -> None:
    clients = [loop.dial(connections, port) for _ in range(2)]

    def abort_the_other(first: Recorder) -> None:
        (other,) = (made for made in connections.made if made is not first)
        other.transport.abortConnection()

    connections.on_data = abort_the_other
    for client in clients:
        client.sendall(b"now")
    loop.until(lambda: any(made.lost for made in connections.made))
    assert sorted(made.received for made in connections.made) == [b"", b"now"]
    assert [made.lost for made in connections.made if not made.received] == [[ConnectionAborted]]
    assert log.failures() == []
    for client in clients:
        client.close()


def test_a_paused_connection_is_not_read(loop: Turns, connections: Connections, port: Any) -> None:
    client = loop.dial(connections, port)
    transport: Any = connections.made[0].transport  # Any: TCP's
    transport.pauseProducing()
    client.sendall(b"later")
    loop.once()
    assert connections.made[0].received == b""
    transport.resumeProducing()
    loop.until(lambda: connections.made[0].received == b"later")
    client.close()


def test_another_protocol_may_take_over(loop: Turns, connections: Connections, port: Any) -> None:
    client = loop.dial(connections, port)
    successor = Recorder(connections)
    successor.makeConnection(connections.made[0].transport)  # type: ignore[no-untyped-call]  # Twisted's
    connections.on_data = lambda made: setattr(made.transport, "protocol", successor)
    client.sendall(b"one")
    loop.until(lambda: connections.made[0].received)
    client.sendall(b"two")
    loop.until(lambda: successor.received)
    assert (connections.made[0].received, successor.received) == (b"one", b"two")
    client.close()


def test_a_client_of_ours_is_read_and_a_refused_one_fails(
    loop: Turns, connections: Connections, port: Any
) -> None:
    failed: list[Failure] = []

    class Factory(ServerFactory):
        def buildProtocol(self, addr: object) -> Recorder:
            self.protocol_made = Recorder(Connections(on_data=lambda made: made.transport.loseConnection()))
            return self.protocol_made

        def startedConnecting(self, connector: object) -> None:
            """Nothing to do."""

        def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
            failed.append(reason)

        def clientConnectionLost(self, connector: object, reason: Failure) -> None:
            """Its protocol remembers it."""

    factory, number = Factory(), port.getHost().port
    loop.reactor.connectTCP("127.0.0.1", number, factory)
    loop.until(lambda: connections.made)
    connections.made[0].transport.write(b"hello")
    loop.until(lambda: connections.made[0].lost)
    assert factory.protocol_made.received == b"hello"
    port.stopListening()
    loop.until(lambda: not port.connected)
    loop.reactor.connectTCP("127.0.0.1", number, factory)
    loop.until(lambda: failed)


def test_unix_sockets_are_read(loop: Turns, connections: Connections, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    loop.reactor.listenUNIX(path, connections)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"hello")
        loop.until(lambda: connections.made and connections.made[0].received == b"hello")


def test_one_turn_ends_when_something_else_is_to_be_done(
    loop: Turns, connections: Connections, port: Any
) -> None:
    """However many events are left: a timer, a call from a thread, the stop of the reactor."""
    done: list[str] = []
    reactor = loop.reactor
    ways: dict[str, Callable[[], object]] = {
        "timer": lambda: reactor.callLater(0, done.append, "timer"),
        "thread": lambda: reactor.callFromThread(done.append, "thread"),
        "stop": lambda: setattr(reactor, "_justStopped", True),
        "crash": lambda: setattr(reactor, "running", False),
    }
    for name, act in ways.items():
        client = loop.dial(connections, port)
        received: list[bytes] = []

        def on_data(made: Recorder, client: Any = client, act: Any = act, received: Any = received) -> None:
            received.append(made.received)
            client.sendall(b"again")  # there is always another event
            if len(received) == 3:
                act()

        connections.on_data = on_data
        client.sendall(b"first")
        loop.until(lambda received=received: len(received) >= 3)  # type: ignore[misc]  # of this turn's name
        assert len(received) == 3, name
        reactor.running, reactor._justStopped = True, False
        connections.on_data = lambda _: None
        loop.once()
        client.close()
    assert done == ["timer", "thread"]


def test_a_timer_is_called_in_the_middle_of_many_events(
    loop: Turns, connections: Connections, port: Any
) -> None:
    client = loop.dial(connections, port)
    connections.on_data = lambda _: client.sendall(b"again")
    client.sendall(b"first")
    called: list[None] = []
    loop.reactor.callLater(0.02, called.append, None)
    loop.until(lambda: called)
    connections.on_data = lambda _: None
    loop.once()
    client.close()


def test_the_reactor_may_be_iterated_by_a_protocol(loop: Turns, connections: Connections, port: Any) -> None:
    clients = [loop.dial(connections, port) for _ in range(2)]
    connections.on_data = lambda _: loop.reactor.iterate(0)
    for client in clients:
        client.sendall(b"x")
    loop.until(lambda: all(made.received for made in connections.made))
    for client in clients:
        client.close()


def test_a_thread_wakes_the_reactor(loop: Turns) -> None:
    called: list[None] = []
    thread = Thread(target=lambda: loop.reactor.callFromThread(called.append, None))
    thread.start()
    loop.until(lambda: called)
    thread.join()


def test_the_output_of_a_process_is_read(loop: Turns) -> None:
    class Output(ProcessProtocol):
        text = b""
        ended = False

        def outReceived(self, data: bytes) -> None:
            self.text += data

        def outConnectionLost(self) -> None:
            self.ended = True

    output = Output()
    loop.reactor.spawnProcess(output, sys.executable, [sys.executable, "-c", "print('hello')"], os.environ)
    loop.until(lambda: output.ended)
    assert output.text == b"hello\n"
    reapAllProcesses()


IN_A_PROCESS: Final = """
import os, signal, sys
from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol
from mgw.reactor.twisted_fast.event_loop import EventLoop

class Stopping(Protocol):
    def dataReceived(self, data):
        reactor.stop()
        self.transport.getHandle().send(b"stopped")

def begin():
    loop = EventLoop(reactor)
    loop.use(fast=True)
    assert "doPoll" in vars(reactor)
    signal.signal(signal.SIGHUP, lambda *_: reactor.callFromThread(print, "hung up", flush=True))
    reactor.addSystemEventTrigger("after", "shutdown", loop.restore)
    port = reactor.listenTCP(0, Factory.forProtocol(Stopping), interface="127.0.0.1")
    print(port.getHost().port, flush=True)

reactor.callWhenRunning(begin)
reactor.run()
assert "doPoll" not in vars(reactor)
print("ended", flush=True)
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", IN_A_PROCESS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as started:
        yield started
        started.kill()


def test_signals_reach_a_reactor_that_waits(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    assert process.stdout.readline() == "hung up\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "ended\n"


def test_a_reactor_may_be_stopped_in_the_middle_of_a_turn(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as client:
        client.sendall(b"x")
        assert client.recv(9) == b"stopped"
    assert process.stdout.readline() == "ended\n"


def test_the_reactor_is_left_as_it_was(turns: Turns, log: Log) -> None:
    loop = EventLoop(turns.reactor)
    before = turns.reactor.doPoll
    loop.use(fast=True)
    assert turns.reactor.doPoll != before
    assert log.texts == []
    loop.restore()
    assert turns.reactor.doPoll == before


def test_it_can_be_turned_off_and_on_again(turns: Turns, log: Log) -> None:
    loop = EventLoop(turns.reactor)
    for fast in (True, False, False, True):
        loop.use(fast=fast)
        assert all((name in vars(turns.reactor)) == fast for name in NAMES)
    assert log.texts == ["fast_event_loop is off: events are dispatched by Twisted"]


def test_another_reactor_keeps_its_loop(log: Log) -> None:
    reactor = MemoryReactorClock()
    EventLoop(reactor).use(fast=True)
    assert not any(name in vars(reactor) for name in NAMES)
    assert log.texts == ["fast_event_loop: events are dispatched by Twisted's MemoryReactorClock"]


class Deaf(list[object]):
    """A list that keeps nothing."""

    def append(self, item: object) -> None:
        """Forget it."""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("_poller", "AttributeError"),
        ("_newTimedCalls", "a new timer was not found"),
        ("_doReadOrWrite", "a connection was not served"),
        ("_disconnectSelectable", "a connection was not served"),
    ],
)
def test_a_reactor_that_works_otherwise_keeps_its_loop(turns: Turns, log: Log, name: str, why: str) -> None:
    other = {"_poller": None, "_newTimedCalls": Deaf()}.get(name, lambda *_: None)
    before = getattr(turns.reactor, name)
    setattr(turns.reactor, name, other)
    EventLoop(turns.reactor).use(fast=True)
    setattr(turns.reactor, name, before)
    assert not any(name in vars(turns.reactor) for name in NAMES)
    (text,) = log.texts
    assert text.startswith("fast_event_loop: the self-check failed; events are dispatched by Twisted")
    assert why in text
