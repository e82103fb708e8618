"""Whether anything came on a connection that nobody reads from: what the reactor has not seen yet.

A provider may send what it was not asked for, and the reactor reads it a turn later than a connection is lent
out.  So the kernel is asked first.  Under TLS bytes need not be words: session tickets and key updates come
at any time (RFC 8446 4.6).  They are handed to the TLS layer, and what it makes of them counts: words for us
reach the connection's protocol, and a goodbye closes the transport.

The names of Twisted's that are not documented are in this module only.  Where one is missing, or a transport
is of another make, nothing is found and all is written as usual.
"""

from __future__ import annotations

from enum import Enum
from socket import MSG_DONTWAIT, MSG_PEEK
from typing import Final

from twisted.internet.tcp import Connection as TcpConnection
from twisted.protocols.policies import ProtocolWrapper

_MOST_READS: Final = 8
"""A provider that has more to say at rest than this many reads hold is not silent."""


class PendingInput(Enum):
    """What has arrived on a connection and was not read."""

    NOTHING = "nothing"
    BYTES = "bytes"
    END = "end"
    """The other side has closed, or the connection is broken."""


def peek_input(transport: object) -> PendingInput:
    """Return what has come; the connection's own protocol may hear of it before this returns."""
    tcp = _tcp_below(transport)
    if tcp is None:
        return PendingInput.NOTHING
    for _ in range(_MOST_READS):
        found = _peek_at(tcp)
        if found is not PendingInput.BYTES or tcp is transport:
            return found
        tcp.doRead()
        if tcp.disconnecting or tcp.disconnected:  # TLS heard a goodbye, or our protocol closed
            return PendingInput.END
    return PendingInput.BYTES


def flush_tls(transport: object) -> None:
    """Give the kernel what was written under TLS, which Twisted keeps for two turns of the reactor."""
    flush = getattr(getattr(transport, "_aggregator", None), "flush", None)
    tcp = _tcp_below(transport)
    if flush is None or tcp is None:
        return
    flush()
    if not tcp.disconnecting:
        tcp.doWrite()  # what it returns of an error the reactor meets in its next turn


def _tcp_below(transport: object) -> TcpConnection | None:
    while isinstance(transport, ProtocolWrapper):
        transport = transport.transport
    return transport if isinstance(transport, TcpConnection) else None


def _peek_at(tcp: TcpConnection) -> PendingInput:
    try:
        data = tcp.getHandle().recv(1, MSG_PEEK | MSG_DONTWAIT)
    except BlockingIOError:
        return PendingInput.NOTHING
    except OSError:
        return PendingInput.END
    return PendingInput.BYTES if data else PendingInput.END
