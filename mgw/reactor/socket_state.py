"""What the kernel knows about a connection and Twisted's transport does not expose.

*Unread input.*  A provider may send what it was not asked for, and the reactor reads it a turn later than a
connection is used again.  So the kernel is asked first.  Under TLS bytes need not be data: session tickets
and key updates come at any time (RFC 8446 4.6).  They are handed to the TLS layer, and what it makes of them
counts: data for us reach the connection's protocol, and a close notification closes the transport.

*Unacknowledged output.*  A transport says when its buffer is full and when it is empty, and nothing in
between: a slow reader looks like one that has stopped.  On Linux ``TCP_INFO`` counts the bytes that the other
side has acknowledged (RFC 4898, ``tcpEStatsAppHCThruOctetsAcked``) and says whether more are waiting; so it
also covers what the transport has handed over already.  Elsewhere the transport's word has to do.

*The other side's leaving.*  A transport that is paused reads nothing, so it does not see that its other side
has closed or reset the connection.  ``TCP_INFO`` tells the state of the connection (RFC 9293 3.3.2).

The names of Twisted's that are not documented are in this module only.  Where one is missing, or a transport
is of another make, nothing is found and everything is written as usual.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from enum import Enum
from select import POLLIN, poll
from socket import MSG_DONTWAIT, MSG_PEEK
from struct import unpack_from
from typing import Final

from msgspec import Struct
from twisted.internet.tcp import Connection as TcpConnection

_PEEK: Final = int(MSG_PEEK | MSG_DONTWAIT)
_MOST_READS: Final = 8
"""A provider that has more to say at rest than this many reads hold is not silent."""
# linux/tcp.h, struct tcp_info; its beginning never changes
_STATE: Final = 0  # u8
_SEGMENTS_IN_FLIGHT: Final = 24  # u32
_BYTES_ACKNOWLEDGED: Final = 120  # u64
_BYTES_NOT_SENT: Final = 144  # u32
_SIZE: Final = 148
# linux/tcp_states.h
_TCP_CLOSE: Final = 7
_TCP_CLOSE_WAIT: Final = 8
_TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)


class PendingInput(Enum):
    """What has arrived on a connection and was not read."""

    BYTES = "bytes"
    END = "end"
    """The other side has closed, or the connection is broken."""


class InputProbe:
    """Finds what has come on one connection and was not read.

    Each connection keeps one: to make and fill a poll object costs as much as to poll.

    :param transport: a TCP transport, or one wrapped around it as TLS is, with its connection made.
    """

    __slots__ = ("_descriptor", "_handle", "_is_wrapped", "_poll", "_tcp")

    def __init__(self, transport: object) -> None:
        tcp = _innermost(transport)
        self._is_wrapped = tcp is not transport
        self._tcp: TcpConnection | None = tcp if isinstance(tcp, TcpConnection) else None
        if self._tcp is not None:
            self._handle: socket.socket = self._tcp.getHandle()
            self._descriptor = self._handle.fileno()
            state = poll()
            state.register(self._descriptor, POLLIN)
            self._poll = state.poll

    def find(self) -> PendingInput | None:
        """Return what has come, if anything has; the connection's own protocol may hear of it before."""
        tcp = self._tcp
        if tcp is None:
            return None
        for _ in range(_MOST_READS):
            found = self._peek()
            if found is None or not self._is_wrapped or found is PendingInput.END:
                return found
            tcp.doRead()
            if tcp.disconnecting or tcp.disconnected:  # TLS heard a goodbye, or our protocol closed
                return PendingInput.END
        return PendingInput.BYTES

    def _peek(self) -> PendingInput | None:
        handle = self._handle
        if handle.fileno() != self._descriptor:  # closed, and the number may be another connection's by now
            return PendingInput.END
        if not self._poll(0):  # which takes half as long as a read that raises
            return None
        try:
            return PendingInput.BYTES if handle.recv(1, _PEEK) else PendingInput.END
        except BlockingIOError:
            return None
        except OSError:
            return PendingInput.END


class PeerState(Enum):
    """What the other side of a connection has done."""

    OPEN = "open"
    ENDED = "ended"
    """The other side sends nothing more.  Some of what it has sent may not have been read yet."""
    GONE = "gone"
    """The other side has broken the connection, or what was written to it has."""


_PEER_STATES: Final = {_TCP_CLOSE: PeerState.GONE, _TCP_CLOSE_WAIT: PeerState.ENDED}


class ConnectionState(Struct, frozen=True):
    """What the other side of a connection has received and done."""

    acknowledged: int
    """Grows whenever the other side receives something."""
    pending: bool
    """Whether there is something left for it to receive."""
    peer: PeerState = PeerState.OPEN


def connection_state(transport: object) -> ConnectionState | None:
    """Return what the other side of a transport has received and done; ``None`` if that cannot be known.

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
    pending = unpack_from("=I", info, _SEGMENTS_IN_FLIGHT)[0] or unpack_from("=I", info, _BYTES_NOT_SENT)[0]
    acknowledged = unpack_from("=Q", info, _BYTES_ACKNOWLEDGED)[0]
    return ConnectionState(acknowledged, bool(pending), _PEER_STATES.get(info[_STATE], PeerState.OPEN))


def has_pending_output(transport: object) -> bool:
    """Whether the other side of a transport has not received everything, as far as that can be known."""
    state = connection_state(transport)
    return state is not None and state.pending


def has_unread_input(transport: object) -> bool:
    """Whether the other side of a transport has sent something that nobody has read."""
    handle = _socket_of(transport)
    if handle is None:
        return False
    try:
        return bool(handle.recv(1, _PEEK))
    except OSError:  # nothing there, or nobody
        return False


def _innermost(transport: object) -> object:
    """Return what a transport is wrapped around, or itself."""
    while (inner := getattr(transport, "transport", None)) is not None:
        transport = inner
    return transport


def _socket_of(transport: object) -> socket.socket | None:
    transport = _innermost(transport)
    handle = transport.getHandle() if hasattr(transport, "getHandle") else None
    return handle if isinstance(handle, socket.socket) else None


@dataclass(slots=True, eq=False, repr=False)
class StallTimer:
    """Measures how long the other side has received nothing although something is pending."""

    _since: float
    _acknowledged: int = 0
    _pending: bool = False

    def idle_seconds(self, acknowledged: int, now: float, *, pending: bool) -> float:
        """Return how long it is, as far as the calls of this method saw it: never more than it is.

        :param acknowledged: what the other side has received until now.
        :param pending: whether there is something that it should do.
        """
        if acknowledged != self._acknowledged or not (pending and self._pending):
            self._acknowledged = acknowledged
            self._since = now
        self._pending = pending
        return now - self._since
