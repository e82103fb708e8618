"""An open session: frames in both directions until one side, an error or the gateway ends it.

::

    open ── a close frame, or close() ──> closing ── both sides have closed, or too late ──> closed
      └──── something illegal, or a connection lost ──────────────────────────────────────────┘

In an orderly end each side has had a close frame and has sent one; those of the sides pass unchanged, code
and reason included.  Where one side just leaves or breaks the rules, the gateway says so to the other, behind
a whole frame; where it owes the other the rest of a frame, the connection breaks visibly.
"""

from __future__ import annotations

from collections.abc import Callable
from os import urandom
from typing import Final, Protocol

from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.realtime.direction import Direction
from mgw.realtime.ending import Ending, Side
from mgw.usage.event import SessionCounts
from mgw.wire.whole_frames import render_close

CLOSE_SECONDS: Final = 5.0
"""How long the sides may take to agree to the end."""
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013
MAX_UNREAD_ANSWERS: Final = 64
"""A session ends when more refusals of single messages wait for a client that does not read them."""
_MASK_BYTES: Final = 4


_BY_REASON: Final = {
    Reason.DRAINING: GOING_AWAY,
    Reason.OVERLOADED: TRY_AGAIN_LATER,
    Reason.NOT_IMPLEMENTED: POLICY_VIOLATION,
}
"""Close codes of the gateway's own refusals that have a status of 500 or above."""


def refusal_code(error: GatewayError) -> int:
    """Return the code of a close that stands for a response of its own (contract 10.3)."""
    by_status = POLICY_VIOLATION if error.status < 500 else INTERNAL_ERROR
    return _BY_REASON.get(error.reason, by_status)


class RelayedConnection(Protocol):
    """One side's connection, once it speaks WebSocket."""

    def write(self, data: bytes) -> None:
        """Send ``data`` behind all that was written before."""
        ...

    def pause_reading(self) -> None:
        """Deliver nothing until :meth:`resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Go on delivering."""
        ...

    def close(self) -> None:
        """Close in order, when everything is written."""
        ...

    def abort(self) -> None:
        """Break the connection."""
        ...


class SessionRelay:
    """Relays between two connections whose handshakes are done.

    :param to_upstream: what the client sends.
    :param to_client: what the provider sends.
    :param write_stall: seconds after which a provider that takes nothing is given up.
    :param on_end: called once, when the session is over.
    """

    __slots__ = (
        "_client",
        "_client_has_ended",
        "_client_is_full",
        "_close_deadline",
        "_ending",
        "_is_over",
        "_on_end",
        "_stall_deadline",
        "_unread_answers",
        "_upstream",
        "_write_stall",
        "to_client",
        "to_upstream",
    )

    def __init__(
        self,
        client: RelayedConnection,
        upstream: RelayedConnection,
        wheel: TimerWheel,
        write_stall: float,
        on_end: Callable[[Ending], None],
    ) -> None:
        self._client = client
        self._upstream = upstream
        self.to_upstream: Direction
        self.to_client: Direction
        self._on_end: Callable[[Ending], None] | None = on_end
        self._ending: Ending | None = None
        """How it ended, as soon as that is known."""
        self._is_over = self._client_has_ended = self._client_is_full = False
        self._unread_answers = 0
        self._close_deadline = Deadline(wheel, self._finish)
        self._stall_deadline = Deadline(wheel, self._on_stall)
        self._write_stall = write_stall

    # What the connections call

    def on_client_data(self, data: bytes) -> None:
        """The client has sent something."""
        if self._is_over:
            return
        try:
            self.to_upstream.feed(data)
        except GatewayError as error:
            self.refuse(error, TOO_BIG if error.reason is Reason.BODY_TOO_LARGE else refusal_code(error))

    def on_upstream_data(self, data: bytes) -> None:
        """The provider has sent something."""
        if not self._is_over:
            self.to_client.feed(data)

    def on_client_ended(self) -> None:
        """The client has closed its side while the provider takes nothing: that may last a moment more.

        The client seldom waits for an answer then, and what it has sent may end with its close frame.
        """
        if not self._client_has_ended:
            self._client_has_ended = True
            self._stall_deadline.start(CLOSE_SECONDS)

    def on_client_lost(self) -> None:
        """The client's connection is gone."""
        self._on_lost(Side.CLIENT)

    def on_upstream_lost(self) -> None:
        """The provider's connection is gone."""
        self._on_lost(Side.UPSTREAM)

    def on_client_full(self) -> None:
        """The client takes less than is sent."""
        self._client_is_full = True
        self._upstream.pause_reading()

    def on_client_drained(self) -> None:
        """The client has taken everything."""
        self._client_is_full = False
        self._upstream.resume_reading()

    def on_upstream_full(self) -> None:
        """The provider takes less than is sent."""
        self._client.pause_reading()
        self.to_upstream.on_sender_paused()
        self._stall_deadline.start(self._write_stall)

    def on_upstream_drained(self) -> None:
        """The provider has taken everything."""
        self._client_has_ended = False  # as far as it has been read
        self.to_upstream.on_sender_resumed()
        self._client.resume_reading()
        self._stall_deadline.stop()

    # What the session calls

    def close(self, ending: Ending, code: int, reason: str) -> None:
        """End the session: both sides get a close frame.  Nothing happens where the end has begun."""
        if self._ending is None:
            self._begin_end(ending)
            self._tell(Side.CLIENT, code, reason)
            self._tell(Side.UPSTREAM, code, reason)

    def answer(self, frame: bytes, error: GatewayError) -> None:
        """Tell the client that one of its messages was refused; the session goes on.

        It ends where too many answers wait: for the client to read, or for the provider's message to end.
        """
        waits = self._client_is_full or self.to_client.is_waiting
        self._unread_answers = self._unread_answers + 1 if waits else 0
        if self._unread_answers > MAX_UNREAD_ANSWERS:
            self.refuse(error, POLICY_VIOLATION)
        else:
            self.to_client.send_message(frame)

    def refuse(self, error: GatewayError, code: int) -> None:
        """End the session for what the client has sent.  The provider does not learn what that was."""
        if self._ending is None:
            self._begin_end(Ending(Side.GATEWAY, refusal=error))
            self._tell(Side.CLIENT, code, error.message)
            self._tell(Side.UPSTREAM, code, "the gateway rejected a message from the client")

    def give_up_client(self, error: GatewayError) -> None:
        """End the session with a client that does not go on: for the provider it is as if it had left."""
        if self._ending is None:
            self._begin_end(Ending(Side.GATEWAY, refusal=error))
            self._tell(Side.CLIENT, refusal_code(error), error.message)
            self._tell(Side.UPSTREAM, *_NEWS[Side.CLIENT])

    def abort(self) -> None:
        """Break both connections."""
        if not self._is_over:
            self._begin_end(Ending(Side.GATEWAY))
            self._client.abort()
            self._upstream.abort()
            self._finish()

    def counts(self, minutes: float | None) -> SessionCounts:
        """Return what has passed, in so many minutes."""
        into, out = self.to_upstream, self.to_client
        return SessionCounts(minutes, into.payload_bytes, out.payload_bytes, into.frames, out.frames)

    def on_direction_end(self, direction: Direction) -> None:
        """The sender of a direction has sent its close frame, or something illegal."""
        sender = Side.CLIENT if direction is self.to_upstream else Side.UPSTREAM
        if direction.close is not None:
            self._begin_end(Ending(sender, direction.close.code, said=direction.close.reason or None))
            if self.to_upstream.close is not None and self.to_client.close is not None:
                self._finish()
        else:
            self._begin_end(Ending(sender, fault=direction.fault))
            self._tell(sender, PROTOCOL_ERROR, f"the gateway rejects {direction.fault}")
            self._leave_other(sender)

    # The end

    def _on_lost(self, side: Side) -> None:
        if not self._is_over:
            self._begin_end(Ending(side, is_lost=True))
            self._leave_other(side)

    def _leave_other(self, side: Side) -> None:
        """End the session for the other side: nothing more comes from this one."""
        self._tell(side.other, *_NEWS[side])
        self._finish()

    def _begin_end(self, ending: Ending) -> None:
        if self._ending is None:
            self._ending = ending
            self._close_deadline.start(CLOSE_SECONDS)

    def _tell(self, side: Side, code: int, reason: str) -> None:
        """Send a side a close frame, unless it has had one."""
        if side is Side.CLIENT:
            self.to_client.end_with(render_close(code, reason))
        else:
            # Only frames of our own need a mask: those of the client travel with theirs (RFC 6455 5.3).
            self.to_upstream.end_with(render_close(code, reason, urandom(_MASK_BYTES)))

    def _finish(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._close_deadline.close()
        self._stall_deadline.close()
        # Behind a part of a frame, a close frame would be read as payload: only a break is seen as one.
        (self._client.abort if self.to_client.is_cut else self._client.close)()
        (self._upstream.abort if self.to_upstream.is_cut else self._upstream.close)()
        self.to_client.stop()
        self.to_upstream.stop()
        on_end, self._on_end = self._on_end, None
        ending = self._ending
        assert ending is not None, "it has begun to end"
        if on_end is not None:
            on_end(ending)

    def _on_stall(self) -> None:
        """The provider has taken nothing for too long."""
        if self._client_has_ended:
            self._on_lost(Side.CLIENT)
            return
        self._begin_end(Ending(Side.UPSTREAM, is_stalled=True))
        self._upstream.abort()
        self._leave_other(Side.UPSTREAM)


_NEWS: Final = {
    Side.CLIENT: (GOING_AWAY, "the client disconnected"),
    Side.UPSTREAM: (INTERNAL_ERROR, "the connection to the provider broke"),
}
"""The close frame for the other side when one has left without a close frame of its own."""
