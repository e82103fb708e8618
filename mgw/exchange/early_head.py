"""Keep-alives of a translated stream, which may be sent before the provider has answered.

A keep-alive is no byte of an answer: the first one brings a head of the gateway's own, and behind it goes on
what could go on without it, such as another credential, another attempt, or another target.  What fails in
the end is then an error event, since the status is out.  A stream that passes through has none before its
head, which is the provider's; if such a stream answers behind keep-alives, its body follows the head that is
out.

::

    waiting ──silence──> head sent ──words──> open
       └──────────words───────────────────────┘

The head says what is known of the target that is asked when it goes out; the usage event speaks of the one
that answers.  Source: contract 2.14.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.dialects import provider_side_of
from mgw.exchange.exchange import Exchange
from mgw.exchange.passthrough import Passthrough
from mgw.exchange.response import (
    SLICE_BYTES,
    BufferedResponse,
    ClientResponse,
    EarlyStream,
    FullResponse,
    Plan,
    StreamingResponse,
    WholeResponse,
    send_early_head,
    send_head,
    send_sliced,
)
from mgw.exchange.response_channel import ResponseChannel
from mgw.exchange.response_translation import MAX_ERROR_BYTES
from mgw.exchange.rewritten_names import RenamedPassthrough
from mgw.exchange.silence import Silence
from mgw.http.response_head import ResponseHead, is_encoded
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.nouns.secret import without
from mgw.upstream.client import UpstreamResponse
from mgw.wire.media_types import media_type

_FIRST_ERROR_STATUS: Final = 400


class EarlyHead:
    """The head of one translated stream, and what its client hears before an answer."""

    __slots__ = (
        "_channel",
        "_exchange",
        "_is_open",
        "_keepalive",
        "_last_stream",
        "_stream",
        "silence",
        "was_sent",
    )

    def __init__(self, exchange: Exchange, channel: ResponseChannel, stream: EarlyStream) -> None:
        self._exchange = exchange
        self._channel = channel
        self._stream: EarlyStream | None = stream
        """That of the attempt that is under way; ``None``: it passes through as the provider sends it."""
        self._last_stream = stream
        self._keepalive = stream.keepalive
        self.was_sent = False
        self._is_open = False
        """Whether the answer has begun."""
        self.silence = Silence(exchange.wheel, stream.seconds, self._break_silence)
        self.silence.begin(exchange.clock.seconds() - exchange.started)

    def plan(self, plan: Plan) -> None:
        """Know how the next attempt is made."""
        self._stream = stream = plan.early_stream
        if stream is not None:
            self._last_stream = stream
        elif self.was_sent and isinstance(plan, Passthrough):
            plan.readable = True  # its body follows a head that speaks of no coding

    def send(self) -> None:
        """Send the head of a keep-alive, unless it is out."""
        if not self.was_sent:
            self.was_sent = True
            send_early_head(self._exchange, self._last_stream.headers, self._channel)

    def open(self, streaming: StreamingResponse) -> None:
        """Begin the answer, with its head where none is out."""
        self._is_open = True
        if self.was_sent:
            self._channel.forget_request()
        else:
            send_head(self._exchange, streaming, self._channel)

    def client_response(
        self, plan: Plan, response: UpstreamResponse, *, may_try_again: bool
    ) -> ClientResponse:
        """Return how a response reaches a client who may have a head already.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where it cannot follow that head; as the plan does.
        """
        if not self.was_sent or self._stream is not None:
            return plan.client_response(response, may_try_again=may_try_again)
        head = response.head
        if head.status >= _FIRST_ERROR_STATUS:
            return BufferedResponse(partial(self._read_refusal, plan, head), max_bytes=MAX_ERROR_BYTES)
        found = plan.client_response(response, may_try_again=may_try_again)
        if isinstance(found, BufferedResponse) or not self._follows(response.head):
            message = (
                "the upstream's response is not a stream, but the client has already received the head of one"
            )
            raise GatewayError(Reason.UPSTREAM_BROKEN, message).because(Cause.UNREADABLE)
        return found

    def full_of(self, whole: WholeResponse) -> FullResponse:
        """Return a stream that passes through and is all there as one that follows the head that is out."""
        self._exchange.received.fault = whole.fault
        return FullResponse(200, [], whole.body, whole.usage, stream=True)

    def send_full(self, full: FullResponse) -> Deferred[None] | None:
        """Send a complete response as the rest of the stream: a refusal as the error event that ends it.

        :returns: as :func:`mgw.exchange.response.send_full` does.
        :raises GatewayError: ``UPSTREAM_BROKEN`` where it is neither a stream nor a refusal.
        """
        exchange, body = self._exchange, full.body
        exchange.received.counted = full.usage
        if full.error is not None:
            body = self._last_stream.write_error(full.error)
        elif not full.stream:
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is not a stream")
        self._is_open = True
        self._channel.forget_request()
        if len(body) > SLICE_BYTES:
            return send_sliced(exchange, body, self._channel)
        self._channel.finish(body)
        return None

    def fail(self, error: Exception) -> None:
        """End the stream with an error, if nothing else of it is out than its head."""
        if not self.was_sent or self._is_open:
            return
        self._is_open = True
        if not isinstance(error, GatewayError):
            error = GatewayError(Reason.INTERNAL, "internal gateway error")
        self._channel.finish(self._last_stream.write_error(error))

    def close(self) -> None:
        """Break the silence no more."""
        self.silence.close()

    def _break_silence(self) -> None:
        """Send a keep-alive while no response is relayed."""
        if self._stream is not None:
            self.send()
        if self.was_sent:
            self._channel.write(self._keepalive)
            self._channel.flush()

    def _follows(self, head: ResponseHead) -> bool:
        """Whether the body of a stream that passes through is of the kind that the head announced."""
        announced = media_type(self._last_stream.content_type)
        return media_type(head.content_type or b"") == announced and not is_encoded(head)

    def _read_refusal(self, plan: Plan, head: ResponseHead, body: bytes) -> FullResponse:
        """Return the refusal of a provider of the client's own family, for an error event."""
        wire = self._exchange.generation.upstreams[plan.target.provider.name].wire
        error = wire.read_error(head.status, head.headers, body)
        if error is None:
            error = provider_side_of(self._exchange.route.dialect).parse_error(head.status, body)
        passing = plan.plan if isinstance(plan, RenamedPassthrough) else plan
        if isinstance(passing, Passthrough):
            error = replace(error, message=without(error.message, passing.secrets(), lambda _: "[key]"))
        return FullResponse(head.status, [], b"", error=error)


def silence_for(early: EarlyHead | None, exchange: Exchange, streaming: StreamingResponse) -> Silence | None:
    """Return the silence that whoever relays a stream is to break."""
    if early is not None:
        return early.silence
    if streaming.keepalive_seconds is None:
        return None
    silence = Silence(exchange.wheel, streaming.keepalive_seconds)
    silence.begin()
    return silence
