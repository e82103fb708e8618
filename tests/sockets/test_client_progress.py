"""What the kernel says about a client that reads slowly, or not at all."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mgw.web.progress import taken


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
    at = taken(Transport(ours))
    assert at is not None
    assert at.waiting
    assert at.total < sent


def test_a_client_that_reads_moves_on(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, client = ends
    fill(ours)
    before = taken(Wrapped(Transport(ours)))
    assert before is not None
    for _ in range(1000):  # the kernel acknowledges as the window opens
        client.recv(65536)
        now = taken(Wrapped(Transport(ours)))
        assert now is not None
        if now.total > before.total:
            break
    else:
        pytest.fail("nothing was acknowledged")


def test_a_client_that_has_everything_has_nothing_waiting(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, client = ends
    ours.send(b"all")
    assert client.recv(3) == b"all"
    for _ in range(1000):  # the acknowledgement may be on its way
        at = taken(Transport(ours))
        if at is not None and not at.waiting:
            break
    else:
        pytest.fail("something is waiting still")


def test_of_other_transports_nothing_is_known() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert taken(Transport(one)) is None
    assert taken(Transport(one)) is None
    assert taken(Transport("no socket")) is None
    assert taken(object()) is None
