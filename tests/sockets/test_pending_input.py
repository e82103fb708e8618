"""What the kernel says of a connection at rest: silent, spoken to, or ended."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from twisted.internet.protocol import Protocol

from mgw.reactor.socket_state import InputProbe, PendingInput
from mgw.reactor.twisted_fast.tcp_transport import TcpTransport
from tests.support.raw_client import reset_connection


@dataclass
class Readers:
    """As much of a reactor as a connection at rest needs."""

    readers: list[object] = field(default_factory=list)

    def addReader(self, reader: object) -> None:
        self.readers.append(reader)


@dataclass
class Wrapped:
    """A transport around another one, as TLS is."""

    transport: object


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the two ends of a connection: ours and the provider's."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as provider:
        provider.connect(listener.getsockname())
        ours, _ = listener.accept()
        with ours:
            ours.setblocking(False)
            yield ours, provider


def transport_of(ours: socket.socket) -> TcpTransport:
    reactor: Any = Readers()  # Any: the reactor's interfaces are many
    return TcpTransport(ours, Protocol(), ("127.0.0.1", 1), None, 0, reactor)


def test_what_has_come_is_found_however_often_it_is_asked_for(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, provider = ends
    probe = InputProbe(transport_of(ours))
    assert [probe.find(), probe.find()] == [None, None]
    provider.send(b"unasked")
    assert [probe.find(), probe.find()] == [PendingInput.BYTES, PendingInput.BYTES]
    assert ours.recv(100) == b"unasked"
    assert probe.find() is None
    provider.close()
    assert [probe.find(), probe.find()] == [PendingInput.END, PendingInput.END]


def test_a_broken_connection_has_ended(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, provider = ends
    probe = InputProbe(transport_of(ours))
    assert probe.find() is None
    reset_connection(provider)
    assert probe.find() is PendingInput.END


def test_a_closed_connection_has_ended_though_another_has_its_number(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, _ = ends
    probe = InputProbe(transport_of(ours))
    assert probe.find() is None
    number = ours.fileno()
    ours.close()
    assert probe.find() is PendingInput.END
    one, other = socket.socketpair()
    with one, other:
        assert number in {one.fileno(), other.fileno()}
        assert probe.find() is PendingInput.END


def test_a_transport_of_another_make_says_nothing() -> None:
    assert InputProbe(object()).find() is None
    assert InputProbe(Wrapped(object())).find() is None
