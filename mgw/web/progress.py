"""Whether a client takes what is written to it.

A transport says when its buffer is full and when it is empty, and nothing in between: a slow reader looks
like one that has stopped.  The kernel knows better.  On Linux ``TCP_INFO`` counts the bytes that the other
side has acknowledged (RFC 4898, ``tcpEStatsAppHCThruOctetsAcked``) and says whether more are waiting; so it
also covers what the transport has handed over already.  Elsewhere the transport's word has to do.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from struct import unpack_from
from typing import Final

from msgspec import Struct

# linux/tcp.h, struct tcp_info; its beginning never changes
_SEGMENTS_IN_FLIGHT: Final = 24  # u32
_BYTES_ACKNOWLEDGED: Final = 120  # u64
_BYTES_NOT_SENT: Final = 144  # u32
_SIZE: Final = 148
_TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)


class Taken(Struct, frozen=True):
    """How far a client has come."""

    total: int
    """Grows whenever the client takes something."""
    waiting: bool
    """Whether there is something left for it to take."""


def taken(transport: object) -> Taken | None:
    """Return how far the client behind a transport has come, ``None`` where that cannot be known.

    :param transport: a TCP transport, or one wrapped around it as TLS is.
    """
    handle = _socket_of(transport)
    if _TCP_INFO is None or handle is None:
        return None
    try:
        info = handle.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SIZE)
    except OSError:  # a UNIX socket, or one that is closed
        return None
    if len(info) < _SIZE:
        return None
    waiting = unpack_from("=I", info, _SEGMENTS_IN_FLIGHT)[0] or unpack_from("=I", info, _BYTES_NOT_SENT)[0]
    return Taken(unpack_from("=Q", info, _BYTES_ACKNOWLEDGED)[0], waiting=bool(waiting))


def is_owed_something(transport: object) -> bool:
    """Whether the client behind a transport has still something to take, as far as that can be known."""
    at = taken(transport)
    return at is not None and at.waiting


def holds_input(transport: object) -> bool:
    """Whether the client behind a transport has sent something that nobody has read."""
    handle = _socket_of(transport)
    if handle is None:
        return False
    try:
        return bool(handle.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:  # nothing there, or nobody
        return False


def _socket_of(transport: object) -> socket.socket | None:
    while (inner := getattr(transport, "transport", None)) is not None:
        transport = inner
    handle = transport.getHandle() if hasattr(transport, "getHandle") else None
    return handle if isinstance(handle, socket.socket) else None


@dataclass(slots=True)
class Progress:
    """Since when a client has done nothing, though something was waiting for it."""

    _since: float
    _total: int = 0
    _owed: bool = False

    def idle_seconds(self, total: int, now: float, *, owed: bool) -> float:
        """Return how long it was, as far as the calls of this method saw it: never more than it is.

        :param total: what the client has taken until now.
        :param owed: whether there is something that it should do.
        """
        if total != self._total or not (owed and self._owed):
            self._total = total
            self._since = now
        self._owed = owed
        return now - self._since
