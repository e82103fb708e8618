"""Writing at once keeps the order, whatever the kernel takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from socket import socket
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.protocol import Protocol
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport

from mgw.reactor.twisted_fast.eager_writer import EagerWriter


@dataclass
class Kernel:
    """A socket that takes what it is told to: a number of bytes, or an error in place of 0."""

    takes: list[int]
    written: list[bytes] = field(default_factory=list)

    def send(self, data: bytes) -> int:
        count = min(self.takes.pop(0) if self.takes else len(data), len(data))
        if not count:
            raise BlockingIOError
        self.written.append(bytes(data[:count]))
        return count

    def sendmsg(self, parts: Sequence[bytes | memoryview]) -> int:
        return self.send(b"".join(parts))


class Transport(Connection):
    """A TCP transport over such a socket, whose buffer is a list."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffered: list[bytes] = []

    def getHandle(self) -> Any:  # Any: half a socket
        return self.kernel

    def write(self, data: bytes) -> None:
        assert type(data) is bytes, "Twisted takes nothing else"
        self.buffered.append(data)

    def drain(self) -> None:
        self.kernel.written += self.buffered
        self.buffered = []


@given(
    pieces=st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4).filter(any), max_size=12),
    takes=st.lists(st.integers(0, 5), max_size=12),
    drains=st.sets(st.integers(0, 12)),
)
def test_the_order_is_kept_whatever_the_kernel_takes(
    pieces: list[list[bytes]], takes: list[int], drains: set[int]
) -> None:
    kernel = Kernel(takes)
    transport = Transport(kernel)
    writer = EagerWriter(transport)
    for index, parts in enumerate(pieces):
        if len(parts) == 1:
            writer.write(parts[0])
        else:
            writer.write_parts([memoryview(part) if part else part for part in parts])
        if index in drains:
            transport.drain()
            writer.on_drained()
    transport.drain()
    assert b"".join(kernel.written) == b"".join(part for parts in pieces for part in parts)


def test_another_kind_of_transport_is_written_to_as_usual() -> None:
    transport = StringTransport()
    EagerWriter(transport).write(b"data")
    EagerWriter(transport).write_parts([b" and ", memoryview(b"more")])
    assert transport.value() == b"data and more"


class Buffers(Transport):
    """With the buffers that Twisted's transports have, emptied when the reactor finds the socket writable."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._tempDataBuffer: list[bytes] = []
        self.dataBuffer = b""

    def write(self, data: bytes) -> None:
        self._tempDataBuffer.append(data)

    def drain(self, count: int | None = None) -> None:
        """Send, or no more than ``count`` bytes."""
        data = self.dataBuffer + b"".join(self._tempDataBuffer)
        count = len(data) if count is None else count
        self.kernel.written.append(data[:count])
        self.dataBuffer, self._tempDataBuffer = data[count:], []


def test_a_transport_that_was_drained_is_passed_over_again_without_being_told() -> None:
    kernel = Kernel([2])
    transport = Buffers(kernel)
    writer = EagerWriter(transport)
    writer.write(b"abcd")
    writer.write(b"ef")
    assert kernel.written == [b"ab"]
    transport.drain(3)
    writer.write(b"gh")
    assert kernel.written == [b"ab", b"cde"]
    transport.drain()
    writer.write(b"ij")
    writer.write(b"kl")
    assert b"".join(kernel.written) == b"abcdefghijkl"
    assert not transport._tempDataBuffer


def test_the_buffers_of_twisteds_transports_have_the_names_that_are_looked_for() -> None:
    transport = Connection(socket(), Protocol())
    try:
        assert (transport.dataBuffer, transport._tempDataBuffer) == (b"", [])
    finally:
        transport.getHandle().close()
