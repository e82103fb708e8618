"""Write to a socket now, and not in the reactor's next turn.

Twisted's transports keep what they are given until the reactor finds the socket writable: a turn of the
reactor and two system calls for every small write, though the kernel nearly always has room.  Here the
kernel is asked first, and the transport gets what the kernel did not take.  Order is kept: as long as the
transport may hold something, all goes to the transport.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from twisted.internet.tcp import Connection


class Writer(Protocol):
    """What can be written to."""

    def write(self, data: bytes) -> None:
        """Send, in order and in time."""
        ...


@dataclass(slots=True)
class EagerWriter:
    """Write through one transport; one that is not plain TCP, as TLS, is written to as usual."""

    transport: Writer
    _send: Callable[[bytes], int] | None = field(init=False, repr=False)
    _behind: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        transport = self.transport
        self._send = transport.getHandle().send if isinstance(transport, Connection) else None

    def write(self, data: bytes) -> None:
        """Send ``data``."""
        if self._send is None or self._behind:
            self.transport.write(data)
            return
        try:
            sent = self._send(data)
        except OSError:  # full, or gone: the transport meets the same, and waits or ends the connection
            sent = 0
        if sent != len(data):
            self._behind = True
            self.transport.write(data[sent:] if sent else data)

    def caught_up(self) -> None:
        """Note that the transport holds nothing, which its producer is told."""
        self._behind = False
