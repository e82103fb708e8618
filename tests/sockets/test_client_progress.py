"""What the kernel says about a client that reads slowly, or not at all."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mgw.reactor.socket_state import PeerState, connection_state
from tests.support.raw_client import reset_connection
from tests.support.waiting import wait_until


@dataclass
class Transport:
    """As much of a TCP transport as is asked for its socket."""

    handle: object

    def getHandle(self) -> object:
        return self.handle


@dataclass
class Wrapped:
    """A transport around another one, as TLS is."""

    transport: Transport


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the two ends of a TCP connection with small buffers: ours and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        ours, _ = listener.accept()
        with ours:
            ours.setblocking(False)
            yield ours, client


def fill(ours: socket.socket) -> int:
    """Send until nothing more can be sent; return how much it was."""
    sent = 0
    try:
        while True:
            sent += ours.send(b"x" * 65536)
    except BlockingIOError:
        return sent


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")


def test_a_client_that_reads_nothing_has_something_waiting(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = ends
    sent = fill(ours)
    at = connection_state(Transport(ours))
    assert at is not None
    assert at.pending
    assert at.acknowledged < sent


def test_a_client_that_reads_moves_on(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, client = ends
    fill(ours)
    before = connection_state(Wrapped(Transport(ours)))
    assert before is not None
    for _ in range(1000):  # the kernel acknowledges as the window opens
        client.recv(65536)
        now = connection_state(Wrapped(Transport(ours)))
        assert now is not None
        if now.acknowledged > before.acknowledged:
            break
    else:
        pytest.fail("nothing was acknowledged")


def test_a_client_that_has_everything_has_nothing_waiting(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, client = ends
    ours.send(b"all")
    assert client.recv(3) == b"all"
    for _ in range(1000):  # the acknowledgement may be on its way
        at = connection_state(Transport(ours))
        if at is not None and not at.pending:
            break
    else:
        pytest.fail("something is waiting still")


def test_of_other_transports_nothing_is_known() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert connection_state(Transport(one)) is None
    assert connection_state(Transport(one)) is None
    assert connection_state(Transport("no socket")) is None
    assert connection_state(object()) is None


def test_a_client_that_closes_or_breaks_off_is_seen_without_reading(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, client = ends
    client.send(b"not read")

    def peer() -> PeerState:
        state = connection_state(Transport(ours))
        assert state is not None
        return state.peer

    assert peer() is PeerState.OPEN
    client.shutdown(socket.SHUT_WR)
    wait_until(lambda: peer() is PeerState.ENDED, "the end to be seen")
    reset_connection(client)
    wait_until(lambda: peer() is PeerState.GONE, "the reset to be seen")
