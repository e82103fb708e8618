"""The transport of one client's connection: the pauses on both sides of it, and how it ends.

The next request is looked at when the response before it is finished and the client has received most of it.
Until then the transport goes on reading, so as to notice that the client has disconnected, but holds at most
:data:`MAX_HELD` bytes of what comes behind the request.

A client that still sends would lose its response to the reset that closing causes.  So our side ends first,
and what the client sends is read and discarded until it has ended the other, for a while (RFC 9112 9.6).
Behind TLS the ends of both sides are alerts, and the transport goes on reading by itself.  What is read and
discarded is bounded; beyond that nothing is read, and the client has to close.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import ITCPTransport

from mgw.exchange.response_channel import Producer
from mgw.reactor import socket_state
from mgw.reactor.socket_state import PeerState
from mgw.reactor.transport import RelayTransport
from mgw.reactor.twisted_fast.eager_writer import EagerWriter
from mgw.reactor.twisted_fast.tcp_transport import read_much

MAX_HELD: Final = 64 * 1024
"""The most bytes behind a request that wait for its response; beyond that the channel stops reading."""
LARGE_BYTES: Final = 64 * 1024
"""While more than that of a body has not come, more than usual is read at once."""
LINGER_BYTES: Final = 1024 * 1024 * 1024
"""More than the largest files that vendors take: a client may send one whole before it reads the response."""
LINGER_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 0.2
"""How long an idle connection may bring another request when the gateway stops, and how long it lingers."""
CLOSE_SECONDS: Final = 15.0
"""How long a client that has everything may take to agree to the end, as TLS asks it to."""


class Reading(Enum):
    """Whether the transport reads."""

    ON = auto()
    OFF = auto()
    """It reads again as soon as little enough is held."""
    BODY_PAUSED = auto()
    """It waits for whoever paused the body."""


READING: Final = Reading.ON
"""Every request needs it, and to look a member up in its Enum costs 0.1 us in Python 3.11."""


class ClientTransport:
    """Reads and writes at the pace of both sides, and ends.

    :param now: the clock's time.
    """

    __slots__ = (
        *("_discarded", "_drained_count", "_reads_much", "_stall_timer"),
        *("is_full", "out", "producer", "reading", "transport"),
    )

    def __init__(self, transport: RelayTransport, now: float) -> None:
        self.transport = transport
        self.out = EagerWriter(transport)
        self.is_full = False
        """Whether the client has not received what was written last."""
        self.producer: Producer | None = None
        """It is paused while the client receives less than is written."""
        self._drained_count = 0
        """How often the client has received everything."""
        self._stall_timer = socket_state.StallTimer(now)
        self.reading = Reading.ON
        self._reads_much = False
        """Whether more than usual is read at once."""
        self._discarded = 0
        if isinstance(transport.getPeer(), IPv4Address | IPv6Address) and ITCPTransport.providedBy(transport):
            # A token does not wait until the client has acknowledged the one before (RFC 9293 3.7.4).
            transport.setTcpNoDelay(True)

    # Writing

    def register(self, producer: Producer) -> None:
        """Name what is paused while the client receives less than is written."""
        self.producer = producer
        if self.is_full:
            producer.pause()

    def on_full(self) -> None:
        """The transport's buffer is full."""
        self.is_full = True
        if self.producer is not None:
            self.producer.pause()

    def on_drained(self) -> None:
        """The transport's buffer is empty."""
        self.is_full = False
        self._drained_count += 1
        self.out.on_drained()
        if self.producer is not None:
            self.producer.resume()

    def peer_state(self, now: float, write_stall: float, *, is_closing: bool) -> PeerState:
        """Return what the client has done: nothing for too long is the same as to be gone.

        :param write_stall: how many seconds it may receive nothing although something is written.
        :param is_closing: whether it only has to agree to the end.
        """
        state = socket_state.connection_state(self.transport)
        state = state or socket_state.ConnectionState(self._drained_count, self.is_full or is_closing)
        idle = self._stall_timer.idle_seconds(state.acknowledged, now, pending=state.pending or is_closing)
        limit = write_stall if state.pending else CLOSE_SECONDS
        return PeerState.GONE if idle >= limit else state.peer

    # Reading

    def pause_body(self) -> None:
        """Read nothing until ``reading`` is set to ``OFF`` and updated."""
        if self.reading is Reading.ON:
            self.transport.pauseProducing()
        self.reading = Reading.BODY_PAUSED

    def resume_body(self) -> bool:
        """Read again when that is updated; return whether the body was paused."""
        if self.reading is not Reading.BODY_PAUSED:
            return False
        self.reading = Reading.OFF
        return True

    def release(self) -> None:
        """Nothing is paused any more: neither what wrote the response, nor the body of the request."""
        self.producer = None
        if self.reading is Reading.BODY_PAUSED:
            self.reading = Reading.OFF

    def update_reading(self, held_bytes: int) -> None:
        """Read, or stop reading, as what is held asks for."""
        # While reading is paused, epoll does not tell that the client has left: peer_state asks.
        wanted = Reading.ON if held_bytes <= MAX_HELD else Reading.OFF
        if wanted is not self.reading and self.reading is not Reading.BODY_PAUSED:
            self.reading = wanted
            (self.transport.resumeProducing if wanted is Reading.ON else self.transport.pauseProducing)()

    def expect(self, body_bytes: int) -> None:
        """Read as much at once as suits what has not come of a body."""
        much = body_bytes > LARGE_BYTES
        if much is not self._reads_much:
            self._reads_much = much
            read_much(self.transport, much=much)

    # The end

    @property
    def can_half_close(self) -> bool:
        """Whether our side can end before the client's."""
        return hasattr(self.transport, "loseWriteConnection")

    def end_our_side(self, *, is_secure: bool) -> None:
        """End our side once everything is written, where it can end alone; the client's is read on.

        :param is_secure: whether the client speaks TLS, which ends its own side by itself.
        """
        self.transport.unregisterProducer()  # with one it would wait for more to write and never end
        if self.can_half_close:
            (self.transport.loseConnection if is_secure else self.transport.loseWriteConnection)()

    def discard(self, data: bytes) -> None:
        """Drop what comes behind the end of our side, up to a bound."""
        self._discarded += len(data)
        if self._discarded > LINGER_BYTES:
            self.transport.pauseProducing()
