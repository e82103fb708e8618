"""Writing at once keeps the order, whatever the kernel takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport

from mgw.reactor.eager_writer import EagerWriter


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
    pieces=st.lists(st.binary(min_size=1, max_size=5), max_size=12),
    takes=st.lists(st.integers(0, 5), max_size=12),
    drains=st.sets(st.integers(0, 12)),
)
def test_the_order_is_kept_whatever_the_kernel_takes(
    pieces: list[bytes], takes: list[int], drains: set[int]
) -> None:
    kernel = Kernel(takes)
    transport = Transport(kernel)
    writer = EagerWriter(transport)
    for index, piece in enumerate(pieces):
        writer.write(piece)
        if index in drains:
            transport.drain()
            writer.on_drained()
    transport.drain()
    assert b"".join(kernel.written) == b"".join(pieces)


def test_another_kind_of_transport_is_written_to_as_usual() -> None:
    transport = StringTransport()
    EagerWriter(transport).write(b"data")
    assert transport.value() == b"data"
