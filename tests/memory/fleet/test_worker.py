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

from mgw.fleet.messages import Begin, Done, Drain
from mgw.fleet.pickled_config import pickle_config
from mgw.fleet.rows import MAX_WAITING_BYTES
from mgw.web.channel import GatewayChannel
from mgw.web.ports import ListeningSocket
from mgw.worker import Inherited, Worker
from tests.support.channels import channel_of, post
from tests.support.configs import THREE_FAMILIES, config
from tests.support.fleet import ChannelTransport, open_channel


class Reactor(MemoryReactorClock):
    """A reactor in memory that knows whether it was stopped."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self.stops = 0

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

    def hang_up(self) -> None:
        self.client.connectionLost(Failure(ConnectionDone()))


@pytest.fixture
def harness() -> Iterator[WorkerHarness]:
    reactor, log = Reactor(), list[ILogObserver]()
    inherited = Inherited(
        sockets=[ListeningSocket(0, socket.AF_INET)],
        divert_log=lambda redirect: log.append(redirect(LogPublisher())),
        use_secrets=lambda _secrets: None,
    )
    worker = Worker(reactor, 0, inherited)
    worker.channel, transport = open_channel(worker, reactor)
    begin = Begin(0, 2, 1, pickle_config(config(THREE_FAMILIES + "\ndrain_seconds: 30\n")), "/run/none")
    assert worker.on_question(begin) == Done()
    factory: Any = reactor.adoptedPorts[0][2]  # Any: as Twisted has it
    client, received = channel_of(factory), StringTransport()
    client.makeConnection(received)  # type: ignore[no-untyped-call]  # Twisted's
    client.dataReceived(post(b'{"model": "gpt-5", "messages": []}', path="/v1/chat/completions"))
    found = WorkerHarness(reactor, worker, transport, log, client, received)
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


def test_a_supervisor_that_hangs_is_sent_no_log_without_end(harness: WorkerHarness) -> None:
    (say,) = harness.log
    harness.transport.dataBuffer = b"x" * MAX_WAITING_BYTES
    say({"log_time": 0.0, "log_text": "the last"})
    assert harness.transport.take()

    harness.transport.dataBuffer += b"x"
    say({"log_time": 0.0, "log_text": "too much"})
    assert not harness.transport.take()
