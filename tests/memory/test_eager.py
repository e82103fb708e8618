"""Writing at once keeps the order, whatever the kernel takes."""

from __future__ import annotations

import socket
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.tcp import Connection
from twisted.internet.testing import StringTransport

from mgw.eager import EagerWriter


class Kernel(Connection):
    """A TCP transport whose kernel takes what it is told to, and whose buffer is a list."""

    def __init__(self, takes: list[int]) -> None:
        self.takes = takes
        self.taken: list[bytes] = []
        self.buffered: list[bytes] = []
        super().__init__(socket.socket(), cast(Any, None), cast(Any, None))

    def writeSomeData(self, data: bytes) -> int:
        assert not self.buffered, "what is buffered must go first"
        count = min(self.takes.pop(0) if self.takes else len(data), len(data))
        self.taken.append(bytes(data[:count]))
        return count

    def write(self, data: bytes) -> None:
        self.buffered.append(bytes(data))

    def drain(self) -> None:
        self.taken += self.buffered
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
    writer = EagerWriter(kernel)
    for index, piece in enumerate(pieces):
        writer.write(piece)
        if index in drains:
            kernel.drain()
            writer.caught_up()
    kernel.drain()
    kernel.socket.close()
    assert b"".join(kernel.taken) == b"".join(pieces)


def test_another_kind_of_transport_is_written_to_as_usual() -> None:
    transport = StringTransport()
    EagerWriter(transport).write(b"data")
    assert transport.value() == b"data"
