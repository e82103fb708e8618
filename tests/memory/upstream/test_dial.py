"""The promises of mgw.upstream.dial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IConnector, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.upstream.dial import (
    ADDRESS_SECONDS,
    DIRECT_SECONDS,
    Attempt,
    Dialler,
    EndpointDialler,
    NameDialler,
    TcpDialler,
)
from tests.support.upstreams import connect_with

FACTORY = Factory.forProtocol(Protocol)


class MemoryTransport(StringTransport):
    """A transport in memory that knows its protocol, as Twisted's own do."""

    protocol: object = None


@implementer(IStreamClientEndpoint)
@dataclass(eq=False)
class ByName:
    """The full treatment of a name, played by the test."""

    pending: list[tuple[IProtocolFactory, Deferred[IProtocol]]] = field(default_factory=list)
    cancelled: int = 0

    def connect(self, protocol_factory: IProtocolFactory) -> Deferred[IProtocol]:
        attempt: Deferred[IProtocol] = Deferred(self._count)
        self.pending.append((protocol_factory, attempt))
        return attempt

    def _count(self, _: object) -> None:
        self.cancelled += 1


class Dialling:
    """A dialler, what came of its attempts, and the network below it."""

    def __init__(self, name: bool) -> None:
        self.reactor: Any = MemoryReactorClock()
        self.by_name = ByName()
        self.dialler: Dialler = (
            NameDialler(self.reactor, 80, self.by_name) if name else TcpDialler(self.reactor, "10.0.0.1", 80)
        )
        self.connected: list[IProtocol] = []
        self.errors: list[Exception] = []

    def dial(self) -> Attempt:
        return self.dialler.dial(FACTORY, self.connected.append, self.errors.append)

    @property
    def dialled(self) -> list[str]:
        """The addresses that were dialled without the full treatment."""
        return [host for host, *_ in self.reactor.tcpClients]

    def accept(self, host: str = "10.0.0.1") -> MemoryTransport:
        """Let the newest attempt at an address succeed."""
        return connect(self.reactor.tcpClients[-1][2], host)

    def refuse(self) -> None:
        """Let it fail."""
        self.reactor.tcpClients[-1][2].clientConnectionFailed(cast(IConnector, None), Failure(Refused()))

    def accept_by_name(self, host: str) -> MemoryTransport:
        """Let the newest full treatment succeed."""
        factory, attempt = self.by_name.pending.pop()
        transport = connect(factory, host)
        attempt.callback(cast(IProtocol, factory))
        return transport

    def knowing(self) -> None:
        """Make a connection by the name, so that its address is known."""
        self.dial()
        self.accept_by_name("10.0.0.2")


def connect(factory: Any, host: str) -> MemoryTransport:
    transport = MemoryTransport(peerAddress=IPv4Address("TCP", host, 80))  # type: ignore[no-untyped-call]  # Twisted's
    protocol = factory.buildProtocol(IPv4Address("TCP", host, 80))
    transport.protocol = protocol
    protocol.makeConnection(transport)
    return transport


@pytest.mark.parametrize("name", [False, True])
def test_the_protocol_and_nothing_else_is_on_the_connection(name: bool) -> None:
    d = Dialling(name)
    d.dial()
    transport = d.accept_by_name("10.0.0.2") if name else d.accept()
    (protocol,) = d.connected
    assert type(protocol) is Protocol
    assert transport.protocol is protocol
    assert protocol.transport is transport
    assert not d.reactor.getDelayedCalls()


def test_an_address_is_dialled_once_and_its_error_told() -> None:
    d = Dialling(name=False)
    d.dial()
    d.refuse()
    assert d.dialled == ["10.0.0.1"]
    assert [type(error) for error in d.errors] == [Refused]


def test_what_no_socket_can_have_is_an_error_too() -> None:
    d = Dialling(name=False)
    d.reactor.connectTCP = None
    d.dial()
    assert len(d.errors) == 1


@pytest.mark.parametrize("name", [False, True])
def test_cancelling_stops_the_attempt_and_calls_nobody(name: bool) -> None:
    d = Dialling(name)
    d.dial().cancel()
    if name:
        assert d.by_name.cancelled == 1
    else:
        assert d.reactor.connectors[0].stoppedConnecting
        d.refuse()  # as Twisted does then
    assert (d.connected, d.errors, d.reactor.getDelayedCalls()) == ([], [], [])


def test_cancelling_a_connection_that_stands_does_nothing() -> None:
    d = Dialling(name=False)
    attempt = d.dial()
    d.accept()
    attempt.cancel()
    assert not d.reactor.connectors[0].stoppedConnecting


def test_the_address_of_a_name_is_dialled_directly_for_a_while() -> None:
    d = Dialling(name=True)
    d.knowing()
    d.reactor.advance(ADDRESS_SECONDS - 0.1)
    d.dial()
    d.accept()
    assert (d.dialled, len(d.connected), d.by_name.pending) == (["10.0.0.2"], 2, [])
    assert not d.reactor.getDelayedCalls()


def test_a_name_is_resolved_again_however_often_its_address_was_dialled() -> None:
    d = Dialling(name=True)
    d.knowing()
    for _ in range(3):
        d.reactor.advance(ADDRESS_SECONDS / 3)
        d.dial()
        if not d.by_name.pending:
            d.accept()
    assert (len(d.dialled), len(d.by_name.pending)) == (2, 1)


def test_an_address_that_fails_is_forgotten_and_the_name_gets_the_full_treatment() -> None:
    d = Dialling(name=True)
    d.knowing()
    d.dial()
    d.refuse()
    assert (d.errors, len(d.by_name.pending)) == ([], 1)
    d.by_name.pending.pop()[1].errback(Refused())
    assert [type(error) for error in d.errors] == [Refused]
    d.dial()
    assert (len(d.dialled), len(d.by_name.pending)) == (1, 1)


def test_cancelling_reaches_the_full_treatment_where_the_address_failed_at_once() -> None:
    d = Dialling(name=True)
    d.knowing()
    d.reactor.connectTCP = None
    d.dial().cancel()
    assert (d.by_name.cancelled, d.errors, d.reactor.getDelayedCalls()) == (1, [], [])


def test_an_address_that_takes_long_is_given_up_for_the_full_treatment() -> None:
    d = Dialling(name=True)
    d.knowing()
    d.dial()
    d.reactor.advance(DIRECT_SECONDS)
    assert d.reactor.connectors[0].stoppedConnecting
    d.refuse()  # as Twisted does then
    d.accept_by_name("10.0.0.3")
    assert (len(d.connected), d.errors) == (2, [])
    d.dial()
    assert d.dialled == ["10.0.0.2", "10.0.0.3"]


def test_a_connection_that_took_long_is_no_reason_to_dial_its_address_alone() -> None:
    d = Dialling(name=True)
    d.dial()
    d.reactor.advance(DIRECT_SECONDS)
    d.accept_by_name("10.0.0.2")
    d.dial()
    assert (d.dialled, len(d.by_name.pending)) == ([], 1)


@pytest.mark.parametrize("fails_first", [False, True])
def test_cancelling_reaches_the_attempt_at_hand(fails_first: bool) -> None:
    d = Dialling(name=True)
    d.knowing()
    attempt = d.dial()
    if fails_first:
        d.refuse()
    attempt.cancel()
    assert (d.by_name.cancelled, d.reactor.connectors[0].stoppedConnecting) == (fails_first, not fails_first)
    assert (len(d.connected), d.errors, d.reactor.getDelayedCalls()) == (1, [], [])


def test_a_dialler_is_an_endpoint_for_what_is_put_on_top() -> None:
    d = Dialling(name=False)
    attempt = connect_with(d.dialler, FACTORY)
    _ = attempt.addCallback(d.connected.append)
    d.accept()
    assert type(d.connected[0]) is Protocol


def test_a_dialler_may_be_made_of_any_endpoint() -> None:
    by_name, connected, errors = ByName(), list[IProtocol](), list[Exception]()
    dialler = EndpointDialler(by_name)
    dialler.dial(FACTORY, connected.append, errors.append)
    by_name.pending[0][1].callback(cast(IProtocol, "a protocol"))
    dialler.dial(FACTORY, connected.append, errors.append)
    by_name.pending[1][1].errback(Refused())
    assert connected == [cast(IProtocol, "a protocol")]
    assert [type(error) for error in errors] == [Refused]
