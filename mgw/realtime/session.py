"""One session, from the client's request to its single usage event: how it opens, and how it ends.

::

    known model:   target ── slot ── credential ── dial ── provider's 101 ── the client's 101 ── relay ── end
    in a message:  slot ── the client's 101 ── first message ── target ── credential ── dial ── relay ── end

Up to the client's 101 every refusal is a plain HTTP response; behind it, a close frame: 1008 for what the
gateway refuses, 1011 for a provider that refuses or cannot be reached (contract 10.2, 10.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.bodies.budget import Reservation
from mgw.dialects import dialect_of
from mgw.dialects.dialect import SessionMessages
from mgw.exchange.exchange import Exchange
from mgw.exchange.received import Fault
from mgw.exchange.refusals import refusal_error
from mgw.exchange.response import send_full
from mgw.exchange.response_channel import ResponseChannel
from mgw.exchange.target_resolution import MODEL, resolve_model
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import Cause, GatewayError, Reason, forget_frames
from mgw.nouns.vocabulary import Capability
from mgw.reactor.deadline import Deadline
from mgw.realtime.ending import Ending, Side, settle
from mgw.realtime.first_message import FIRST_MESSAGE_BYTES, FIRST_MESSAGE_SECONDS, FirstMessage
from mgw.realtime.messages import MAX_MESSAGE_BYTES
from mgw.realtime.relay import GOING_AWAY, RelayedConnection, refusal_code
from mgw.realtime.session_models import SessionModels
from mgw.realtime.sessions import SessionFacts, Sessions, facts_of
from mgw.realtime.traffic import SessionTraffic
from mgw.routing.model_source import ModelAt
from mgw.upstream.failure import Phase, upstream_broken
from mgw.wire.headers import RawHeaders
from mgw.wire.target import query_value
from mgw.wire.whole_frames import render_close

if TYPE_CHECKING:
    from mgw.realtime.handshake import ServerHandshake
    from mgw.realtime.upstream_socket import Answer, SwitchedUpstream


SWITCHING_PROTOCOLS: Final = 101


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
    _traffic: SessionTraffic | None = None
    """What passes, once it is open."""
    _first: FirstMessage | None = None
    _started: float | None = None
    """When the client was sent its 101; ``None`` before."""
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
        if self._traffic is not None:
            ending = Ending(Side.GATEWAY, refusal=refusal)
            self._traffic.relay.close(ending, GOING_AWAY, "the gateway is shutting down")
        elif self._first is not None:
            self._first.refuse(refusal)

    def cut(self, error: GatewayError) -> None:
        """End the session in order: the client may not go on."""
        if self._traffic is not None:
            ending = Ending(Side.GATEWAY, refusal=error)
            self._traffic.relay.close(ending, refusal_code(error), error.message)
        elif self._first is not None:
            self._first.refuse(error)

    def facts(self) -> SessionFacts:
        """Return what is known of it now."""
        return facts_of(self.exchange, None if self._traffic is None else self._traffic.relay.counts(None))

    # Opening

    async def _open(self) -> None:
        self._models.check_query(self.request.raw_query)
        place = self.exchange.place
        if place is not None and place.pending is not None:
            await place.granted()
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
            dialect = (exchange.target or target).provider.row.dialect
            error = refusal_error(dialect, answer.status, answer.body)
            exchange.received.fault = Fault(error, answer.status)
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
        said = refusal_error(target.provider.row.dialect, answer.status, answer.body).provider_message
        raise upstream_broken(target.provider.name, what, Phase.HEAD, cause).quoting(said)

    def _check_for_realtime(self) -> None:
        """Have clients fall back to HTTP where the provider that they would get has no sessions."""
        exchange = self.exchange
        family = exchange.route.default_family
        name = exchange.generation.config.defaults.get(family)
        provider = None if name is None else exchange.generation.config.providers[name]
        if provider is None or provider.is_vertex or Capability.REALTIME in provider.capabilities:
            return  # on Vertex AI the first message may name another provider, which has them
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
        try:
            self.client.close()
            first.stop()
        finally:
            self._finish()

    # The relay

    def _start_relay(self, upstream: SwitchedUpstream, raw: bytes = b"") -> None:
        """Relay from now on.

        :param raw: what the client has sent already.
        """
        traffic = SessionTraffic(self.exchange, self._messages, self._models, self.memory)
        relay = traffic.relay_between(self.client, upstream, self._on_relay_end)
        self._traffic = traffic
        upstream.socket.start(relay)  # first: from then on it tells when it is full
        if raw:
            relay.on_client_data(raw)
        self.client.deliver_to(relay)

    # The end

    def _on_limit(self) -> None:
        minutes = self.exchange.generation.config.realtime.max_session_minutes
        reason = f"the session has reached its limit of {minutes:g} minutes"
        if self._traffic is not None:
            self._traffic.relay.close(Ending(Side.GATEWAY), GOING_AWAY, reason)
        elif self._first is not None:
            self._first.refuse(GatewayError(Reason.CLIENT_TOO_SLOW, reason))

    def _on_relay_end(self, ending: Ending) -> None:
        exchange, traffic, target = self.exchange, self._traffic, self.exchange.target
        assert traffic is not None
        assert target is not None
        seconds = exchange.clock.seconds() - (self._started or exchange.started)
        settle(exchange, traffic.end(ending, seconds), target.provider.name)
        self._finish()

    def _finish(self) -> None:
        try:
            self._free()
        finally:
            if not self._is_over:
                self._is_over = True
                self.on_end()

    def _free(self) -> None:
        self._limit.close()
        self.sessions.free_slot(self)
        self.memory.release_all()
        self._traffic = self._first = None
