"""How a client's connection closes: in order, after lingering, or aborted.

The states of a connection::

      ┌──────────── finished, kept alive ────────────┐
    idle ── byte ──> head ── complete ──> serving ───┴─ finished, to be closed ──────────> closing ──> closed
                       └── refused ──────────┼─ finished before its body ended ──> lingering ─┘
                                             └─ another protocol ──> upgraded ──────────┘

Idle, with a head and serving, the channel is open.

Lingering (RFC 9112, 9.6): a client that still sends would lose its response to the reset that closing causes,
so the channel ends its own side, then reads and discards until the client has ended the other, for a while.
Behind TLS the ends of both sides are alerts, and the transport goes on reading by itself.  What is read and
discarded is bounded; beyond that the channel stops reading, and the client has to.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from mgw.http.request_head import RequestHeadReader
from mgw.reactor import socket_state
from mgw.reactor.deadline import Deadline
from mgw.reactor.transport import RelayTransport
from mgw.web.interfaces import ChannelContext, RequestReceiver
from mgw.web.response_sender import ResponseSender

LINGER_BYTES: Final = 1024 * 1024 * 1024
"""More than the largest files that vendors take: a client may send one whole before it reads the response."""
LINGER_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 0.2
"""How long an idle connection may bring another request when the gateway stops, and how long it lingers."""
CLOSE_SECONDS: Final = 15.0
"""How long a client that has everything may take to agree to the end, as TLS asks it to."""


class ChannelState(Enum):
    """What a connection is doing; the module draws the ways between the states."""

    OPEN = auto()
    UPGRADED = auto()
    LINGERING = auto()
    """Our side has ended, or will when everything is written; the client's has not."""
    CLOSING = auto()
    """What was written still goes out."""
    CLOSED = auto()


class ClosingChannel(ResponseSender):
    """Ends a connection; what is read of it meanwhile is another half's (:mod:`mgw.web.channel`)."""

    __slots__ = (
        *("_deadline", "_discarded", "_input", "_is_last_call", "_is_registered", "_limits", "_reader"),
        *("_state", "_transport", "is_secure"),
    )

    _transport: RelayTransport

    def __init__(self, context: ChannelContext) -> None:
        super().__init__(context)
        self.is_secure = False
        """Whether the client speaks TLS."""
        self._limits = context.limits
        self._deadline = Deadline(context.wheel, self._on_deadline)
        self._state = ChannelState.CLOSED
        self._input = b""
        """The bytes of the client that nobody has taken yet."""
        self._reader: RequestHeadReader | None = None
        """It reads a head that is not complete yet."""
        self._is_registered = self._is_last_call = False
        self._discarded = 0

    def abort(self) -> None:
        """Break the connection, so that the client cannot take what it has for a complete response."""
        if self._state is not ChannelState.CLOSED:
            self._end_serving()
            self._state = ChannelState.CLOSING
            self._deadline.close()
            self._transport.abortConnection()

    def close_after(self) -> None:
        """Close the connection after the response, which says so unless it has started."""
        self._keep_alive = False
        if self._is_idle():
            self._end()

    def drain(self) -> None:
        """Close an idle connection, after a moment for a request that may be on its way already."""
        if self._is_idle() and not self._is_last_call:
            self._is_last_call = True
            self._deadline.start(DRAIN_SECONDS)

    def _on_truncated(self) -> None:
        self._end_serving()
        self._end()

    def _is_idle(self) -> bool:
        return self._state is ChannelState.OPEN and not self._serving and self._reader is None

    def _end(self) -> None:
        """End a connection on which nothing is under way, once everything is written."""
        if self.is_secure or not hasattr(self._transport, "loseWriteConnection"):
            self._close()
        else:
            self._linger(DRAIN_SECONDS if self._context.draining else LINGER_SECONDS)

    def _linger(self, seconds: float) -> None:
        """End our side once everything is written, and read what the client still sends."""
        self._state = ChannelState.LINGERING
        self._input = b""
        self._update_reading()
        self._deadline.start(seconds)
        if hasattr(self._transport, "loseWriteConnection"):
            self._unregister_producer()
            (self._transport.loseConnection if self.is_secure else self._transport.loseWriteConnection)()

    def _close(self) -> None:
        """Close once everything is written."""
        self._state = ChannelState.CLOSING
        self._deadline.close()
        self._input = b""
        self._unregister_producer()
        self._transport.loseConnection()

    def _unregister_producer(self) -> None:
        """A transport with a producer waits for more to write and never ends."""
        if self._is_registered:
            self._is_registered = False
            self._transport.unregisterProducer()

    def _on_linger_timeout(self) -> None:
        """Close, unless the client is still busy with our response: a reset would take it away."""
        if socket_state.has_pending_output(self._transport):
            self._deadline.start(LINGER_SECONDS)
        elif self.is_secure:  # which would wait for the other side once more
            self.abort()
        else:
            self._close()

    def _discard(self, data: bytes) -> None:
        """Drop what comes while the connection lingers, up to a bound."""
        self._discarded += len(data)
        if self._discarded > LINGER_BYTES:
            self._transport.pauseProducing()

    def _on_deadline(self) -> None:
        """The deadline has passed."""
        raise NotImplementedError

    def _end_serving(self) -> RequestReceiver | None:
        """Forget the request that is being served; return who received it."""
        raise NotImplementedError

    def _update_reading(self) -> None:
        """Read, or stop reading, as the state asks for."""
        raise NotImplementedError
