"""One worker on a reactor in memory: how it begins, drains and stops."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import ILogObserver, LogPublisher
from twisted.python.failure import Failure

from mgw.app.worker import Inherited, Worker
from mgw.web.channel import GatewayChannel
from mgw.web.ports import ListeningSocket
from mgw.workers.client_balance import LONGEST_PAUSE, ClientNumbers
from mgw.workers.messages import Begin, Done, Drain, Reload
from mgw.workers.pickled_config import pickle_config
from mgw.workers.rows import MAX_WAITING_BYTES
from tests.support.channels import channel_of, post
from tests.support.configs import THREE_FAMILIES, config
from tests.support.fleet import ChannelTransport, open_channel


class Port:
    """A listening port, as far as a worker touches it."""

    def __init__(self) -> None:
        self.is_reading = True

    def startReading(self) -> None:
        self.is_reading = True

    def stopReading(self) -> None:
        self.is_reading = False

    def stopListening(self) -> None:
        self.is_reading = False


class Reactor(MemoryReactorClock):
    """A reactor in memory that knows whether it was stopped."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self.stops = 0
        self.port = Port()

    def adoptStreamPort(self, fileno: int, addressFamily: object, factory: object) -> Any:  # Any: a port
        super().adoptStreamPort(fileno, addressFamily, factory)  # type: ignore[no-untyped-call]  # Twisted's
        return self.port

    def stop(self) -> None:
        self.stops += 1


@dataclass
class WorkerHarness:
    """A worker that serves, with a request under way that its provider does not answer."""

    reactor: Reactor
    worker: Worker
    transport: ChannelTransport
    log: list[ILogObserver]
    client: GatewayChannel
    received: StringTransport
    numbers: ClientNumbers

    def hang_up(self) -> None:
        self.client.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def harness() -> Iterator[WorkerHarness]:
    reactor, log, numbers = Reactor(), list[ILogObserver](), ClientNumbers()
    numbers.set(1, 1)  # another worker has one, too
    inherited = Inherited(
        sockets=[ListeningSocket(0, socket.AF_INET)],
        clients=numbers,
        divert_log=lambda redirect: log.append(redirect(LogPublisher())),
        use_secrets=lambda _secrets: None,
        use_log=lambda _settings: None,
    )
    worker = Worker(reactor, 0, inherited)
    worker.channel, transport = open_channel(worker, reactor)
    begin = Begin(0, 2, 1, pickle_config(config(THREE_FAMILIES + "\ndrain_seconds: 30\n")), "/run/none")
    assert worker.on_question(begin) == Done()
    factory: Any = reactor.adoptedPorts[0][2]  # Any: as Twisted has it
    client, received = channel_of(factory), StringTransport()
    client.makeConnection(received)  # type: ignore[no-untyped-call]  # Twisted's
    client.dataReceived(post(b'{"model": "gpt-5", "messages": []}', path="/v1/chat/completions"))
    found = WorkerHarness(reactor, worker, transport, log, client, received, numbers)
    assert not received.value()
    yield found
    found.hang_up()


def test_a_signal_to_all_processes_at_once_cuts_off_no_request(harness: WorkerHarness) -> None:
    """A service manager sends it to a whole control group, and then the supervisor says the same."""
    harness.worker.on_sigterm()
    harness.worker.on_message(Drain(30.0))
    harness.reactor.advance(1)

    assert not harness.received.value()


def test_a_supervisor_that_is_heard_before_the_signal_cuts_off_no_request(harness: WorkerHarness) -> None:
    harness.worker.on_message(Drain(30.0))
    harness.worker.on_sigterm()
    harness.reactor.advance(1)

    assert not harness.received.value()


def test_a_second_signal_ends_the_drain(harness: WorkerHarness) -> None:
    harness.worker.on_sigterm()
    harness.worker.on_sigterm()
    harness.reactor.advance(0)

    assert b" 503 " in harness.received.value()


def test_a_supervisor_without_patience_ends_the_drain(harness: WorkerHarness) -> None:
    harness.worker.on_message(Drain(30.0))
    harness.worker.on_message(Drain(0.0))
    harness.reactor.advance(0)

    assert b" 503 " in harness.received.value()


def test_a_worker_that_drains_by_itself_does_not_stand_against_a_reload(harness: WorkerHarness) -> None:
    harness.worker.on_sigterm()
    settings = pickle_config(config(THREE_FAMILIES))
    assert harness.worker.on_question(Reload(2, 2, settings)) == Done()


def test_a_worker_tells_where_a_message_comes_from(harness: WorkerHarness) -> None:
    (say,) = harness.log
    say({"log_time": 0.0, "log_text": "a bug\nT", "log_namespace": "mgw.app.worker", "log_message_length": 5})
    assert b"mgw.app.worker" in harness.transport.take()


def test_a_supervisor_that_hangs_is_sent_no_log_without_end(harness: WorkerHarness) -> None:
    (say,) = harness.log
    harness.transport.dataBuffer = b"x" * MAX_WAITING_BYTES
    say({"log_time": 0.0, "log_text": "the last"})
    assert harness.transport.take()

    harness.transport.dataBuffer += b"x"
    say({"log_time": 0.0, "log_text": "too much"})
    assert not harness.transport.take()


def test_a_worker_says_how_many_clients_it_has_and_leaves_more_to_others(harness: WorkerHarness) -> None:
    assert harness.numbers.least() == 1
    assert harness.reactor.port.is_reading
    factory: Any = harness.reactor.adoptedPorts[0][2]  # Any: as Twisted has it
    clients = [channel_of(factory) for _ in range(2)]
    for client in clients:
        client.makeConnection(StringTransport())  # type: ignore[no-untyped-call]  # Twisted's
    assert not harness.reactor.port.is_reading
    harness.reactor.advance(LONGEST_PAUSE)
    assert harness.reactor.port.is_reading
    for client in clients:
        client.connectionLost(Failure(ConnectionDone()))


def test_a_dismissed_worker_leaves_new_clients_to_those_that_go_on(harness: WorkerHarness) -> None:
    harness.worker.on_message(Drain(30.0, is_alone=True))
    harness.reactor.advance(1)
    assert not harness.reactor.port.is_reading


def test_a_service_that_stops_answers_clients_until_the_last_request(harness: WorkerHarness) -> None:
    harness.worker.on_message(Drain(30.0))
    harness.reactor.advance(1)
    assert harness.reactor.port.is_reading
    assert harness.numbers.least() == 1, "this worker counts no more"


def test_a_worker_that_is_told_alone_by_a_signal_leaves_clients_to_the_others(harness: WorkerHarness) -> None:
    """It would refuse them for as long as its last request takes."""
    harness.worker.on_sigterm()
    assert not harness.reactor.port.is_reading

    harness.worker.on_message(Drain(30.0))  # all are told: nobody else would take them
    assert harness.reactor.port.is_reading


def test_a_port_that_is_closed_is_not_opened_again(harness: WorkerHarness) -> None:
    harness.worker.on_sigterm()
    harness.hang_up()
    harness.reactor.advance(0)
    assert not harness.reactor.port.is_reading

    harness.worker.on_message(Drain(0.0))
    assert not harness.reactor.port.is_reading
