"""Write to a socket now instead of in the reactor's next iteration.

Twisted's transports keep what they are given until the reactor finds the socket writable: a turn of the
reactor and two system calls for every small write, though the kernel nearly always has room.  Here the
kernel is asked first, and the transport gets what the kernel did not take.  The order is kept: while the
transport may hold something, everything goes to the transport.

Twisted tells a producer, and nobody else, when a transport holds nothing any more.  So its buffers are looked
at, which are not documented; where there are none by these names, only a producer knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from twisted.internet.tcp import Connection


class Writer(Protocol):
    """Anything with a transport's ``write``."""

    def write(self, data: bytes) -> None:
        """Send ``data`` behind all that was written before."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class EagerWriter:
    """Write through one transport; if it is not plain TCP (TLS is not), use its own ``write``."""

    transport: Writer
    _send: Callable[[bytes], int] | None = field(init=False)
    _transport_holds_data: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        transport = self.transport
        self._send = transport.getHandle().send if isinstance(transport, Connection) else None

    def write(self, data: bytes) -> None:
        """Send ``data``."""
        if self._send is None or (self._transport_holds_data and self._has_pending_data()):
            self.transport.write(data)
            return
        try:
            sent = self._send(data)
        except OSError:  # full, or gone: the transport meets the same, and waits or ends the connection
            sent = 0
        self._transport_holds_data = sent != len(data)
        if self._transport_holds_data:
            self.transport.write(data[sent:] if sent else data)

    def write_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send all of the parts, of which only what the kernel does not take at once is copied."""
        if self._send is None or (self._transport_holds_data and self._has_pending_data()):
            self.transport.write(b"".join(parts))
            return
        assert isinstance(self.transport, Connection)
        try:
            sent = self.transport.getHandle().sendmsg(parts)
        except OSError:  # as above
            sent = 0
        left = [part for part in _parts_behind(parts, sent) if part]
        self._transport_holds_data = bool(left)
        if left:
            self.transport.write(b"".join(left))

    def on_drained(self) -> None:
        """Write to the kernel again: the transport has told its producer that it holds nothing."""
        self._transport_holds_data = False

    def _has_pending_data(self) -> bool:
        transport = self.transport
        return bool(getattr(transport, "_tempDataBuffer", True) or getattr(transport, "dataBuffer", True))


def _parts_behind(parts: Sequence[bytes | memoryview], sent: int) -> Iterator[memoryview]:
    """Yield what is left of parts of which so many bytes were sent."""
    for part in parts:
        yield memoryview(part)[sent:]
        sent = max(0, sent - len(part))


def count_held_bytes(transport: object) -> int:
    """Return how many bytes a transport of Twisted's holds that the kernel has not taken yet."""
    held = len(getattr(transport, "dataBuffer", b"")) - int(getattr(transport, "offset", 0))
    return held + int(getattr(transport, "_tempDataLen", 0))
