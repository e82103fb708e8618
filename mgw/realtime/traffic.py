"""What passes in an open session: which messages are looked at, and what becomes of them.

The provider's are metered, and their errors remembered.  A client's name models, which are replaced by the
provider's own names, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from os import urandom
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mgw.bodies.budget import Reservation
from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.dialects.dialect import SessionMessages
from mgw.dialects.refusal import word_of
from mgw.exchange.exchange import Exchange
from mgw.nouns.errors import GatewayError, Reason, forget_frames
from mgw.reactor.deadline import Deadline
from mgw.realtime.direction import Direction, ignore_messages
from mgw.realtime.ending import Ending, LastError, Side
from mgw.realtime.first_message import FIRST_MESSAGE_BYTES
from mgw.realtime.messages import MAX_MESSAGE_BYTES, HoldLimits, RewritingDirection
from mgw.realtime.relay import POLICY_VIOLATION, RelayedConnection, SessionRelay, refusal_code
from mgw.realtime.session_limits import Counting, ResponseLimits, SessionLimits
from mgw.realtime.session_models import SessionModels
from mgw.routing.model_source import ModelAt
from mgw.wire.frames import FrameReader, Message
from mgw.wire.whole_frames import TEXT, render_frame

if TYPE_CHECKING:
    from mgw.realtime.upstream_socket import SwitchedUpstream

_MASK_BYTES: Final = 4
_MAX_METERED_BYTES: Final = 1024 * 1024
"""Longer messages are not searched for token counts."""


@lru_cache(maxsize=64)
def _markers_of(usage: bytes, error: bytes | None) -> tuple[bytes, ...]:
    """Return both as one; sessions share it."""
    return (usage,) if error is None else (usage, error)


@dataclass(slots=True, eq=False, repr=False)  # what it holds holds keys
class SessionTraffic:
    """The messages of one session."""

    exchange: Exchange
    messages: SessionMessages
    models: SessionModels
    memory: Reservation
    """The memory for messages that are not whole."""
    relay: SessionRelay = field(init=False)
    """Passes them."""
    counting: Counting | None = None
    """Counts what the client's limits do; ``None``: there are none."""
    _usage: TokenUsage = NO_USAGE
    _last_error: LastError | None = None
    """The latest error that the provider has sent, if it has sent one."""

    def relay_between(
        self, client: RelayedConnection, upstream: SwitchedUpstream, on_end: Callable[[Ending], None]
    ) -> SessionRelay:
        """Return what relays from now on.

        :param on_end: called once, when the session is over.
        """
        exchange, socket, messages = self.exchange, upstream.socket, self.messages
        config = exchange.generation.config
        if upstream.request_id is not None:
            exchange.upstream_request_id = upstream.request_id
        relay = SessionRelay(client, socket, exchange.wheel, config.timeouts.write_stall, on_end)
        client_limits = () if exchange.client is None else exchange.client.limits
        if client_limits:
            self.counting = self._counting_of(socket.write)
        relay.to_upstream = self._client_direction(relay, socket.write)
        counting = self.counting
        counts_messages = isinstance(counting, ResponseLimits)
        reads_errors = exchange.generation.error_messages or counts_messages
        markers = _markers_of(messages.usage_marker, messages.error_marker if reads_errors else None)
        if isinstance(counting, ResponseLimits):
            markers = () if counting.reads_answers else (*markers, messages.response_marker)
        limit = MAX_MESSAGE_BYTES if counts_messages else _MAX_METERED_BYTES
        reader = FrameReader(masked=False, message_limit=limit, markers=markers)
        relay.to_client = Direction(reader, client.write, self._meter, relay.on_direction_end)
        self.relay = relay
        return relay

    def end(self, ending: Ending, seconds: float) -> Ending:
        """Note what has passed, and return how the session ended, with what the provider said of it.

        :param seconds: how long it lasted.
        """
        relay, error = self.relay, self._last_error
        if self.counting is not None:
            self.counting.end()
        self.exchange.received.counted = self._usage
        self.exchange.session = relay.counts(seconds / 60)
        if error is not None and error.message is not None and error.frame == relay.to_client.frames:
            return replace(ending, said=error.message)  # nothing followed
        return ending

    def _client_direction(self, relay: SessionRelay, write: Callable[[bytes], None]) -> Direction:
        messages, on_end = self.messages, relay.on_direction_end
        is_counted = self.exchange.route.counts_messages and self.counting is not None
        if self.exchange.is_restricted or is_counted:
            reader = FrameReader(masked=True, message_limit=MAX_MESSAGE_BYTES, every_message=True)
            return RewritingDirection(reader, write, on_end, self._rewrite, self._hold_limits())
        models, target = self.exchange.route.models, self.exchange.target
        is_renamed = target is not None and target.upstream_model != target.asked_model  # else they repeat it
        names_its_own = models.at is ModelAt.MESSAGE or messages.replaces_http
        if not models.paths or not (names_its_own or is_renamed):
            return Direction(FrameReader(masked=True), write, ignore_messages, on_end)
        limit = MAX_MESSAGE_BYTES if messages.replaces_http else FIRST_MESSAGE_BYTES
        first_only = messages.first_only and not models.optional
        reader = FrameReader(masked=True, message_limit=limit, head_marker=messages.repeat_marker)
        direction = RewritingDirection(
            reader, write, on_end, self._rewrite, self._hold_limits(), first_only=first_only
        )
        direction.passes_others = not messages.replaces_http
        return direction

    def _hold_limits(self) -> HoldLimits:
        exchange = self.exchange
        deadline = Deadline(exchange.wheel, self._on_message_stopped)
        return HoldLimits(self.memory, deadline, exchange.generation.config.timeouts.client_body_idle)

    def _meter(self, messages: Sequence[Message]) -> None:
        marker, usage_marker = self.messages.error_marker, self.messages.usage_marker
        for message in messages:
            before = self._usage
            if usage_marker in message.payload:
                self._usage = self.messages.update_usage(message.payload, before)
            if self._usage is not before:
                self.exchange.bill_response(before, self._usage)
                if self.counting is not None:
                    self.counting.on_usage(self._usage)
            if self.counting is not None:
                self.counting.on_message(message.payload, self._usage)
            if marker is not None and marker in message.payload:
                self._note_error(message.payload)

    def _note_error(self, payload: bytes) -> None:
        error = self.messages.find_error(payload)
        if error is not None:
            self._last_error = LastError(error.own_message, self.relay.to_client.frames)

    def _rewrite(self, payload: bytes) -> bytes | None:
        """Return what is sent in place of a client's message, or refuse it."""
        try:
            new = self.models.rewrite(payload)
        except GatewayError as error:
            forget_frames(error)
            self._refuse_message(error)
            return None
        counting = self.counting
        return counting.pass_message(new) if isinstance(counting, ResponseLimits) else new

    def _counting_of(self, write: Callable[[bytes], None]) -> Counting | None:
        exchange, client = self.exchange, self.exchange.client
        if exchange.route.counts_messages:
            assert client is not None, "it has limits"
            send = partial(_send_message, write)
            return ResponseLimits(exchange, client, self.messages, send, self._refuse_message, self._give_up)
        return None if exchange.place is None else SessionLimits(exchange, self._end_full)

    def _end_full(self, error: GatewayError) -> None:
        """End the session: what it has come to has used up a limit."""
        self.relay.close(Ending(Side.GATEWAY, refusal=error), POLICY_VIOLATION, word_of(error))

    def _give_up(self, error: GatewayError) -> None:
        self.relay.refuse(error, refusal_code(error))

    def _refuse_message(self, error: GatewayError) -> None:
        render = self.messages.render_error
        if render is None:
            self.relay.refuse(error, POLICY_VIOLATION)
        else:
            self.relay.answer(render_frame(TEXT, render(error)), error)

    def _on_message_stopped(self) -> None:
        """The client sends nothing more of a message that is held."""
        seconds = self.exchange.generation.config.timeouts.client_body_idle
        message = f"a message stopped arriving: nothing more was received for {seconds:g} s"
        self.relay.give_up_client(GatewayError(Reason.CLIENT_TOO_SLOW, message))


def _send_message(write: Callable[[bytes], None], payload: bytes) -> None:
    """Send a provider a message that was held, in one frame."""
    write(render_frame(TEXT, payload, urandom(_MASK_BYTES)))
