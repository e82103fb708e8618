"""One session, from the client's request to its single usage event.

::

    known model:   target ── slot ── credential ── dial ── provider's 101 ── the client's 101 ── relay ── end
    in a message:  slot ── the client's 101 ── first message ── target ── credential ── dial ── relay ── end

Up to the client's 101 every refusal is a plain HTTP response; behind it, a close frame: 1008 for what the
gateway refuses, 1011 for a provider that refuses or cannot be reached (contract 10.2, 10.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.bodies.budget import Reservation
from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.dialects import dialect_of
from mgw.dialects.dialect import SessionMessages
from mgw.exchange.exchange import Exchange, Fault
from mgw.exchange.refusals import refusal_error
from mgw.exchange.response import send_full
from mgw.exchange.response_channel import ResponseChannel
from mgw.exchange.target_resolution import MODEL, resolve_model
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import Cause, GatewayError, Reason, forget_frames
from mgw.nouns.vocabulary import Capability
from mgw.reactor.deadline import Deadline
from mgw.realtime.direction import Direction, ignore_messages
from mgw.realtime.ending import Ending, LastError, Side, settle
from mgw.realtime.first_message import FIRST_MESSAGE_BYTES, FIRST_MESSAGE_SECONDS, FirstMessage
from mgw.realtime.messages import MAX_MESSAGE_BYTES, HoldLimits, RewritingDirection
from mgw.realtime.relay import GOING_AWAY, POLICY_VIOLATION, RelayedConnection, SessionRelay, refusal_code
from mgw.realtime.session_models import SessionModels
from mgw.realtime.sessions import SessionFacts, Sessions, facts_of
from mgw.routing.model_source import ModelAt
from mgw.upstream.failure import Phase, upstream_broken
from mgw.wire.frames import FrameReader, Message
from mgw.wire.headers import RawHeaders
from mgw.wire.target import query_value
from mgw.wire.whole_frames import TEXT, render_close, render_frame

if TYPE_CHECKING:
    from mgw.realtime.handshake import ServerHandshake
    from mgw.realtime.upstream_socket import Answer, SwitchedUpstream


SWITCHING_PROTOCOLS: Final = 101
_MAX_METERED_BYTES: Final = 1024 * 1024
"""Longer messages are not searched for token counts."""


class ClientReceiver(Protocol):
    """Takes what a client sends behind its handshake."""

    def on_client_data(self, data: bytes) -> None:
        """Take bytes of frames."""
        ...

    def on_client_full(self) -> None:
        """The client takes less than is sent."""
        ...

    def on_client_drained(self) -> None:
        """The client has taken everything."""
        ...

    def on_client_ended(self) -> None:
        """The client sends nothing more than what it has sent, which is not read since reading is paused."""
        ...

    def on_client_lost(self) -> None:
        """The connection is gone."""
        ...


class ClientConnection(RelayedConnection, Protocol):
    """The client's connection."""

    def switch_protocols(self, response: bytes) -> None:
        """Send the response that switches protocols; what comes behind the request waits for a receiver."""
        ...

    def deliver_to(self, receiver: ClientReceiver) -> None:
        """Have ``receiver`` take what the client has sent, and sends from now on."""
        ...


@lru_cache(maxsize=64)
def _markers_of(usage: bytes, error: bytes | None) -> tuple[bytes, ...]:
    """Return both as one; sessions share it."""
    return (usage,) if error is None else (usage, error)


@dataclass(slots=True, eq=False, repr=False)  # what it holds holds keys
class Session:
    """One session."""

    exchange: Exchange
    request: ClientRequest
    subprotocols: Sequence[str]
    """The subprotocols that the client offers, without those that carry a key."""
    client: ClientConnection
    response: ResponseChannel
    """Takes a refusal of the provider's, in place of the 101."""
    sessions: Sessions
    memory: Reservation
    """The memory for messages that are not whole."""
    on_refused: Callable[[Exception], None]
    """Called where it ends before the client's 101, with what the client is to be told."""
    on_end: Callable[[], None]
    """Called where it ends otherwise; one of the two is called, once."""
    _is_over: bool = False
    _opening: Deferred[None] | None = None
    _relay: SessionRelay | None = None
    _first: FirstMessage | None = None
    _started: float | None = None
    """When the client was sent its 101; ``None`` before."""
    _usage: TokenUsage = NO_USAGE
    _last_error: LastError | None = None
    """The latest error that the provider has sent, if it has sent one."""
    _messages: SessionMessages = field(init=False)
    _models: SessionModels = field(init=False)
    _limit: Deadline = field(init=False)

    def __post_init__(self) -> None:
        messages = dialect_of(self.exchange.route.dialect).session
        assert messages is not None, "its family has sessions"
        self._messages = messages
        self._models = SessionModels(self.exchange, messages)
        self._limit = Deadline(self.exchange.wheel, self._on_limit)

    def start(self) -> None:
        """Begin to open the session."""
        self._opening = opening = Deferred.fromCoroutine(self._open())
        _ = opening.addCallbacks(self._on_opened, self._on_failed)

    def on_client_left(self) -> None:
        """The client has left while the session was being opened."""
        if self.stop_opening():
            self.exchange.client_left()
            self.on_end()

    def stop_opening(self) -> bool:
        """Open it no more, and tell nobody; return whether it was being opened."""
        opening, self._opening = self._opening, None
        if opening is None or self._is_over:
            return False
        self._is_over = True
        opening.cancel()
        self._free()
        return True

    def shut_down(self) -> None:
        """End the session in order: the gateway stops."""
        refusal = GatewayError(Reason.DRAINING, "the gateway has shut down")
        if self._relay is not None:
            ending = Ending(Side.GATEWAY, refusal=refusal)
            self._relay.close(ending, GOING_AWAY, "the gateway is shutting down")
        elif self._first is not None:
            self._first.refuse(refusal)

    def facts(self) -> SessionFacts:
        """Return what is known of it now."""
        return facts_of(self.exchange, None if self._relay is None else self._relay.counts(None))

    # Opening

    async def _open(self) -> None:
        self._models.check_query(self.request.raw_query)
        if self.exchange.pending_permit is not None:
            await self.exchange.granted()
        await self.sessions.prepare(self.exchange.offload)
        from mgw.realtime.handshake import ServerHandshake  # not before anybody wants a session

        handshake = ServerHandshake(self.request.headers)
        by_message = self.exchange.route.models.at is ModelAt.MESSAGE
        try:
            await (self._open_by_message if by_message else self._open_by_request)(handshake)
        finally:
            handshake.close()

    def _on_opened(self, _: None) -> None:
        self._opening = None

    def _on_failed(self, failure: Failure) -> None:
        """It could not be opened: the client has had no response, or there is a bug."""
        is_cancelled, self._opening = self._opening is None, None
        error = failure.value
        if is_cancelled or not isinstance(error, Exception):
            return  # whoever cancelled it has said so
        self._is_over = True
        self._free()
        if self._started is not None:
            self.client.abort()
        self.on_refused(error)

    async def _open_by_request(self, handshake: ServerHandshake) -> None:
        """Open a session whose model is known from the request."""
        from mgw.realtime.dial import dial, full_response, target_of  # as above
        from mgw.realtime.upstream_socket import SwitchedUpstream

        exchange, request = self.exchange, self.request
        in_query = exchange.route.models.at is ModelAt.QUERY
        asked = query_value(request.raw_query, MODEL) if in_query else request.path_model
        target = target_of(exchange, request, asked)
        waiting = self.sessions.take_slot(self)
        if waiting is not None:
            await waiting
        answer = await dial(exchange, request, target, self.subprotocols)
        if not isinstance(answer, SwitchedUpstream):
            _ = send_full(exchange, full_response(answer), self.response)
            error = refusal_error(exchange.route.family, answer.status, answer.body)
            exchange.fault = Fault(error, answer.status)
            exchange.responded()
            self._finish()
            return
        try:
            self._switch(handshake.accept(answer.subprotocol, self._own_headers(answer.headers)))
        except BaseException:  # a bug; nobody else knows the connection
            answer.socket.abort()
            raise
        self._start_relay(answer)

    async def _open_by_message(self, handshake: ServerHandshake) -> None:
        """Open a session whose first message names the model."""
        exchange = self.exchange
        self._check_for_realtime()
        waiting = self.sessions.take_slot(self)
        if waiting is not None:
            await waiting
        limit, seconds = self._first_limits()
        first = FirstMessage(limit, seconds, exchange.wheel, self.memory, self.client, self._on_dial_end)
        self._first = first
        self._switch(handshake.accept(None, self._own_headers([])))
        self.client.deliver_to(first)
        try:
            answer = await self._dial_by_message(await first.whole)
        except GatewayError as error:
            forget_frames(error)
            self._refuse_message(error, first)
            return
        self._first = None
        self._start_relay(answer, first.take())

    def _on_dial_end(self, error: GatewayError | None) -> None:
        """The client has left while its provider was dialled, or is refused."""
        if error is None:
            self.on_client_left()
            return
        opening, self._opening = self._opening, None
        if opening is not None and self._first is not None:
            opening.cancel()
            self._refuse_message(error, self._first)

    def _own_headers(self, headers: RawHeaders) -> RawHeaders:
        return [*headers, (b"X-Gateway-Request-Id", self.exchange.request_id.encode())]

    async def _dial_by_message(self, payload: bytes) -> SwitchedUpstream:
        from mgw.realtime.dial import dial  # as above
        from mgw.realtime.upstream_socket import SwitchedUpstream

        exchange = self.exchange
        target = resolve_model(exchange, self.request, self._models.find_first(payload))
        self._models.check_first()
        answer: Answer = await dial(exchange, self.request, target, ())
        if isinstance(answer, SwitchedUpstream):
            return answer
        what = f"rejected the session with status {answer.status}"
        cause = Cause.UPSTREAM_4XX if answer.status < 500 else Cause.UPSTREAM_5XX
        target = exchange.target or target
        said = refusal_error(target.family, answer.status, answer.body).provider_message
        raise upstream_broken(target.provider.name, what, Phase.HEAD, cause).quoting(said)

    def _check_for_realtime(self) -> None:
        """Have clients fall back to HTTP where the provider that they would get has no sessions."""
        exchange = self.exchange
        family = exchange.route.default_family
        name = exchange.generation.config.defaults.get(family)
        provider = None if name is None else exchange.generation.config.providers[name]
        if provider is None or Capability.REALTIME in provider.capabilities:
            return
        message = f"the capability realtime of provider {provider.name!r} is off"
        if self._messages.replaces_http:
            raise GatewayError(Reason.NO_WEBSOCKET, f"{message}: send an ordinary HTTP request")
        raise GatewayError(Reason.NOT_IMPLEMENTED, message, param="model")

    def _first_limits(self) -> tuple[int, float]:
        """Return how long the first message may be, and how long it may take."""
        if self._messages.replaces_http:
            config = self.exchange.generation.config
            return min(config.max_body_bytes, MAX_MESSAGE_BYTES), config.timeouts.client_idle
        return FIRST_MESSAGE_BYTES, FIRST_MESSAGE_SECONDS

    def _switch(self, response: bytes) -> None:
        exchange = self.exchange
        exchange.http_status = SWITCHING_PROTOCOLS
        self._started = exchange.clock.seconds()
        self._limit.start(exchange.generation.config.realtime.max_session_minutes * 60)
        self.client.switch_protocols(response)

    def _refuse_message(self, error: GatewayError, first: FirstMessage) -> None:
        """End a session whose first message leads nowhere."""
        if first.left is not None:
            settle(self.exchange, first.left, "")
        else:
            self.client.write(render_close(refusal_code(error), error.message))
            self.exchange.refused(error)
        self.client.close()
        first.stop()
        self._finish()

    # The relay

    def _start_relay(self, upstream: SwitchedUpstream, raw: bytes = b"") -> None:
        """Relay from now on.

        :param raw: what the client has sent already.
        """
        relay = self._build_relay(upstream)
        upstream.socket.start(relay)  # first: from then on it tells when it is full
        if raw:
            relay.on_client_data(raw)
        self.client.deliver_to(relay)

    def _build_relay(self, upstream: SwitchedUpstream) -> SessionRelay:
        exchange, client, socket = self.exchange, self.client, upstream.socket
        if upstream.request_id is not None:
            exchange.note_upstream_request_id(upstream.request_id)
        stall = exchange.generation.config.timeouts.write_stall
        relay = SessionRelay(client, socket, exchange.wheel, stall, self._on_relay_end)
        relay.to_upstream = self._client_direction(relay, socket.write)
        reader = FrameReader(masked=False, message_limit=_MAX_METERED_BYTES, markers=self._markers())
        relay.to_client = Direction(reader, client.write, self._meter, relay.on_direction_end)
        self._relay = relay
        return relay

    def _client_direction(self, relay: SessionRelay, write: Callable[[bytes], None]) -> Direction:
        messages, on_end = self._messages, relay.on_direction_end
        if self.exchange.is_restricted:
            reader = FrameReader(masked=True, message_limit=MAX_MESSAGE_BYTES, every_message=True)
            return RewritingDirection(reader, write, on_end, self._rewrite, self._hold_limits())
        if not self._rewrites:
            return Direction(FrameReader(masked=True), write, ignore_messages, on_end)
        limit = MAX_MESSAGE_BYTES if messages.replaces_http else FIRST_MESSAGE_BYTES
        first_only = messages.first_only and not self.exchange.route.models.optional
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

    @property
    def _rewrites(self) -> bool:
        """Whether messages of a client that may use every model may have to be changed."""
        route, target = self.exchange.route, self.exchange.target
        if not route.models.paths:
            return False
        if route.models.at is ModelAt.MESSAGE or self._messages.replaces_http:
            return True
        return target is not None and target.upstream_model != target.asked_model  # else they repeat it

    def _markers(self) -> tuple[bytes, ...]:
        """Return what stands in the provider's messages that are looked at."""
        error = self._messages.error_marker if self.exchange.generation.error_messages else None
        return _markers_of(self._messages.usage_marker, error)

    def _meter(self, messages: Sequence[Message]) -> None:
        marker = self._messages.error_marker
        for message in messages:
            self._usage = self._messages.update_usage(message.payload, self._usage)
            if marker is not None and marker in message.payload:
                self._note_error(message.payload)

    def _note_error(self, payload: bytes) -> None:
        error, relay = self._messages.find_error(payload), self._relay
        if error is not None and relay is not None:
            self._last_error = LastError(error.own_message, relay.to_client.frames)

    def _rewrite(self, payload: bytes) -> bytes | None:
        """Return what is sent in place of a client's message, or refuse it."""
        try:
            return self._models.rewrite(payload)
        except GatewayError as error:
            forget_frames(error)
            self._refuse_model(error)
            return None

    def _refuse_model(self, error: GatewayError) -> None:
        relay, render = self._relay, self._messages.render_error
        assert relay is not None
        if render is None:
            relay.refuse(error, POLICY_VIOLATION)
        else:
            relay.answer(render_frame(TEXT, render(error)), error)

    # The end

    def _on_limit(self) -> None:
        minutes = self.exchange.generation.config.realtime.max_session_minutes
        reason = f"the session has reached its limit of {minutes:g} minutes"
        if self._relay is not None:
            self._relay.close(Ending(Side.GATEWAY), GOING_AWAY, reason)
        elif self._first is not None:
            self._first.refuse(GatewayError(Reason.CLIENT_TOO_SLOW, reason))

    def _on_message_stopped(self) -> None:
        """The client sends nothing more of a message that is held."""
        seconds = self.exchange.generation.config.timeouts.client_body_idle
        message = f"a message stopped arriving: nothing more was received for {seconds:g} s"
        if self._relay is not None:
            self._relay.give_up_client(GatewayError(Reason.CLIENT_TOO_SLOW, message))

    def _on_relay_end(self, ending: Ending) -> None:
        exchange, relay, target = self.exchange, self._relay, self.exchange.target
        assert relay is not None
        assert target is not None
        exchange.counted = self._usage
        seconds = exchange.clock.seconds() - (self._started or exchange.started)
        exchange.session = relay.counts(seconds / 60)
        error = self._last_error
        if error is not None and error.message is not None and error.frame == relay.to_client.frames:
            ending = replace(ending, said=error.message)  # nothing followed
        settle(exchange, ending, target.provider.name)
        self._finish()

    def _finish(self) -> None:
        self._free()
        if not self._is_over:
            self._is_over = True
            self.on_end()

    def _free(self) -> None:
        self._limit.close()
        self.sessions.free_slot(self)
        self.memory.release_all()
        self._relay = self._first = None
