"""Deliver a response to the client: as a stream, or whole once all of it is known.

A plan chooses one of three: :class:`StreamingResponse` is handed on piece by piece, :class:`BufferedResponse`
is read to its end before the first byte for the client is known, and :class:`FullResponse` is complete
without any provider.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, final

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.bodies.buffer import BodyBuffer
from mgw.bodies.source import BodySource
from mgw.canonical.reply import NO_USAGE, TokenUsage, UpstreamError
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import CODED_BYTES, LARGE_BYTES, maybe_offload
from mgw.exchange.received import Fault, status_error
from mgw.exchange.relay import BodyFilter
from mgw.exchange.response_channel import ResponseChannel
from mgw.exchange.wired import WiredRequest
from mgw.http.response_writer import date_header
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.routing.resolve import Target
from mgw.upstream.client import ResponseSink, Upstream, UpstreamResponse
from mgw.wire.headers import RawHeaders

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""The largest response that is buffered: some pictures in base64, and no more."""
_WITH_REQUEST_ID: Final = b"%bX-Gateway-Request-Id: %b\r\n"
_TIMING_LINE: Final = b"Server-Timing: %b\r\n"
_NO_STORE: Final = (b"Cache-Control", b"no-store")
OVERLOAD_STATUSES: Final = frozenset({503, 529})
OVERLOAD_RETRY_SECONDS: Final = 5
"""``Retry-After`` of an overload that a stream reports, which has no place for the header."""
SLICE_BYTES: Final = 256 * 1024
"""A response above this size is written in slices of it, as fast as the client takes them."""


def _do_nothing() -> None:
    """There is nothing to report."""


@final
class FullResponse(Struct, frozen=True):
    """A complete response."""

    status: int
    headers: RawHeaders
    body: bytes
    usage: TokenUsage = NO_USAGE
    stream: bool = False
    error: UpstreamError | None = None
    """What the provider said, if it is a refusal."""
    failure: GatewayError | None = None
    """What was wrong with the provider's response, where its status was a good one."""


class EarlyFailure(Struct, frozen=True):
    """Makes a response with a status of its own of a stream that breaks before it says anything."""

    awaits_words: Callable[[], bool]
    """Whether it has said nothing."""
    refuse: Callable[[GatewayError], FullResponse]
    """Makes the response of what broke the stream; raises it where it is the gateway's own error."""
    said: Callable[[], UpstreamError | None]
    """What the provider sent in place of an answer, if that was an error."""
    let_go: Callable[[], bytes] | None = None
    """Ends the waiting, and returns what was held; ``None``: it may last."""
    body_filter: BodyFilter | None = None
    """The filter from then on, if another."""


class EarlyStream(Struct, frozen=True):
    """What the client of a stream may hear before its provider answers."""

    seconds: float
    """The silence that a keep-alive breaks."""
    keepalive: bytes
    content_type: bytes
    headers: RawHeaders
    """The head that goes out with the first keep-alive."""
    write_error: Callable[[GatewayError | UpstreamError], bytes]
    """Returns the event that ends the stream with an error."""


class StreamingResponse(Struct, frozen=True):
    """The head of a response, and the filter for its body."""

    status: int
    reason: bytes
    headers: RawHeaders
    body_filter: BodyFilter
    stream: bool
    keepalive_seconds: float | None = None
    early_failure: EarlyFailure | None = None
    """``None``: the head goes out at once.  Else it waits for words, or for a keep-alive."""
    lines: bytes | None = None
    """The header lines of a head that is passed on as they are, in place of :attr:`headers`."""
    content_length: int | None = None
    """What those lines say of it."""
    is_proved: bool = False
    """As in :class:`~mgw.http.response_head.ResponseHead`."""


@final
class WholeResponse(Struct, frozen=True):
    """A response of the same family that is all there, and was metered."""

    status: int
    reason: bytes
    lines: bytes
    """The header lines as they are."""
    content_length: int | None
    """What those say of it."""
    body: bytes
    stream: bool
    usage: TokenUsage
    fault: Fault | None = None
    """What it says went wrong, where it is a stream."""
    is_proved: bool = False
    """As in :class:`~mgw.http.response_head.ResponseHead`."""


class Estimate(Struct, frozen=True):
    """Makes a response to a count that the model does not make."""

    make: Callable[[], FullResponse]
    """Raises :class:`GatewayError` for what is no conversation."""
    is_slow: bool
    """Whether it takes long."""


class BufferedResponse(Struct, frozen=True):
    """Makes a response of the provider's body, once all of it has arrived."""

    complete: Callable[[bytes], FullResponse]
    """May run in any thread; raises :class:`GatewayError`."""
    on_complete: Callable[[], None] = _do_nothing
    """Reports, in the reactor's thread, what :attr:`complete` found besides."""
    is_encoded: bool = False
    """Whether the body has a content coding, and may grow."""
    is_slow: bool = False
    """Whether :attr:`complete` takes long, whatever the body is."""
    max_bytes: int | None = None
    """The largest body of the provider that is read; ``None``: :data:`MAX_BUFFERED_BYTES`."""


ClientResponse = StreamingResponse | WholeResponse | BufferedResponse


class Plan(Protocol):
    """How a request is sent upstream, and how its response reaches the client."""

    @property
    def target(self) -> Target:
        """Where the request goes."""
        ...

    @property
    def body(self) -> bytes | BodySource:
        """The body as it is sent."""
        ...

    @property
    def early_stream(self) -> EarlyStream | None:
        """What the client may hear before an answer; ``None``: nothing."""
        ...

    @property
    def wired(self) -> WiredRequest | None:
        """How the wire of the provider has the request; ``None``: as the dialect has it."""
        ...

    def rewired(self, wired: WiredRequest, body: bytes) -> Plan:
        """Return how the same request is sent in another way.

        :param wired: the other way.
        """
        ...

    def send(
        self,
        credential: Credential,
        upstream: Upstream,
        sink: ResponseSink,
        *,
        fresh: bool,
        signing: Signing | None,
    ) -> Callable[[], None] | None:
        """Send the request with one credential, as :meth:`mgw.upstream.client.Upstream.start` says.

        :param signing: signs it, where the credential has a signer.
        """
        ...

    def client_response(self, response: UpstreamResponse, *, may_try_again: bool) -> ClientResponse:
        """Return how a response reaches the client.

        :param may_try_again: whether a stream is to be held back until it has begun well.
        :raises GatewayError: where it cannot.
        """
        ...


def with_retry_after(error: UpstreamError | None, seconds: float | None) -> UpstreamError | None:
    """Return an error of a stream with what the stream's own head says of another try."""
    if error is None or error.retry_after is not None:
        return error
    return replace(error, retry_after=seconds)


def complete_at_once(
    exchange: Exchange, response: UpstreamResponse, buffered: BufferedResponse
) -> FullResponse | None:
    """Return what :func:`complete_response` does if all of the body came with its head, else ``None``.

    :raises GatewayError: as :func:`complete_response` does.
    """
    is_quick = not (buffered.is_encoded or buffered.is_slow) and buffered.max_bytes is None
    body = response.take_whole() if is_quick else None
    if body is None:
        return None
    if body:
        exchange.received.first_byte_at = exchange.clock.seconds()
        if len(body) > MAX_BUFFERED_BYTES:
            raise _too_long(MAX_BUFFERED_BYTES)
        exchange.reserve(len(body))
    full = buffered.complete(body)
    buffered.on_complete()
    return full


async def complete_response(
    exchange: Exchange, response: UpstreamResponse, buffered: BufferedResponse
) -> FullResponse:
    """Read the body to its end, and return the complete response that it becomes.

    :raises GatewayError: as :func:`read_body` and :attr:`BufferedResponse.complete` do.
    """
    upstream_time = exchange.upstream_time
    if upstream_time is not None:
        upstream_time.begin()
    body = await read_body(exchange, response, buffered.max_bytes)
    if upstream_time is not None:
        upstream_time.end()
    large = buffered.is_slow or len(body) > (CODED_BYTES if buffered.is_encoded else LARGE_BYTES)
    complete = partial(buffered.complete, body)
    del body  # while threads work on it, nobody else needs it
    full = await maybe_offload(exchange.offload, complete, large=large)
    buffered.on_complete()
    return full


def note_error(exchange: Exchange, full: FullResponse, error: UpstreamError) -> None:
    """Say in the event what a response stands for that is the provider's error."""
    failure = full.failure
    if failure is not None:
        exchange.received.fault = Fault(failure.quoting(error.own_message), full.status)
    elif exchange.received.fault is None:
        exchange.received.fault = Fault(status_error(full.status, error.own_message), full.status)


def send_full(exchange: Exchange, full: FullResponse, channel: ResponseChannel) -> Deferred[None] | None:
    """Send a complete response, at the client's pace.

    :returns: fires when a large one was sent; cancel to stop.  ``None``: it was sent.
    """
    exchange.received.counted = full.usage
    exchange.stream = full.stream
    length = (b"Content-Length", b"%d" % len(full.body))
    _send_head(exchange, full.status, b"", [*full.headers, length], channel.start)
    if len(full.body) <= SLICE_BYTES:
        channel.write(full.body)
        channel.finish()
        return None
    return send_sliced(exchange, full.body, channel)


def send_sliced(exchange: Exchange, body: bytes, channel: ResponseChannel) -> Deferred[None]:
    """Send a large body behind its head, at the client's pace, and end the response.

    :returns: as :func:`send_full` does.
    """
    with suppress(GatewayError):  # the head is out; its room was there a moment ago
        exchange.reserve(len(body))
    sliced = _SlicedBody(channel, body)
    channel.register(sliced)
    sliced.resume()
    return sliced.done


def send_head(exchange: Exchange, streaming: StreamingResponse, channel: ResponseChannel) -> None:
    """Send the head of a response that is handed on piece by piece."""
    exchange.stream = streaming.stream
    if streaming.lines is None:
        _send_head(exchange, streaming.status, streaming.reason, streaming.headers, channel.start)
        return
    exchange.http_status = streaming.status
    lines = _WITH_REQUEST_ID % (streaming.lines, exchange.request_id.encode())
    if exchange.upstream_time is not None:
        lines += _TIMING_LINE % exchange.upstream_time.server_timing()
    channel.relay_head(streaming, lines)


def send_early_head(exchange: Exchange, headers: RawHeaders, channel: ResponseChannel) -> None:
    """Send the head of a translated stream of which nothing is known yet."""
    exchange.stream = True
    _send_head(exchange, 200, b"OK", headers, channel.start_early)


def send_whole(exchange: Exchange, whole: WholeResponse, channel: ResponseChannel) -> None:
    """Send all of a response that is passed on and is there already."""
    received = exchange.received
    if whole.body:
        received.first_byte_at = exchange.clock.seconds()
    received.counted = whole.usage
    if received.fault is not whole.fault:  # to set a field costs far more than to compare it
        received.fault = whole.fault
    if exchange.stream is not whole.stream:
        exchange.stream = whole.stream
    exchange.http_status = whole.status
    lines = _WITH_REQUEST_ID % (whole.lines, exchange.request_id.encode())
    if exchange.upstream_time is not None:
        lines += _TIMING_LINE % exchange.upstream_time.server_timing()
    channel.relay_whole(whole, lines, whole.body)


def _send_head(
    exchange: Exchange,
    status: int,
    reason: bytes,
    headers: RawHeaders,
    start: Callable[[int, bytes, RawHeaders], None],
) -> None:
    exchange.http_status = status
    own: RawHeaders = [(b"X-Gateway-Request-Id", exchange.request_id.encode())]
    if exchange.upstream_time is not None:
        own.append((b"Server-Timing", exchange.upstream_time.server_timing()))
    if exchange.translated:  # a response of the same family is the provider's, its date included
        own.append(date_header(exchange.now()))
        if status >= 400:
            own.append(_NO_STORE)
    start(status, reason, [*headers, *own])


@dataclass(slots=True, eq=False, repr=False)
class _SlicedBody:
    """A large response on its way, slice by slice; ``done`` fires behind the last."""

    channel: ResponseChannel
    body: bytes
    done: Deferred[None] = field(init=False)
    _position: int = 0
    _paused: bool = True
    _writing: bool = False

    def __post_init__(self) -> None:
        self.done = Deferred(lambda _: self.pause())

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._writing:
            return  # the loop below goes on
        self._writing = True
        while not self._paused and self._position < len(self.body):
            start, self._position = self._position, self._position + SLICE_BYTES
            self.channel.write(self.body[start : self._position])
        self._writing = False
        if self._position >= len(self.body) and not self.done.called:
            self.channel.unregister()
            self.channel.finish()
            self.done.callback(None)


@dataclass(slots=True, eq=False, repr=False)
class _BodyReader:
    """Reads the body of an upstream's response to its end; ``done`` fires with it."""

    exchange: Exchange
    response: UpstreamResponse
    max_bytes: int | None
    done: Deferred[bytes] = field(init=False)
    _buffer: BodyBuffer = field(default_factory=BodyBuffer)
    _size: int = 0

    def __post_init__(self) -> None:
        self.done = Deferred(lambda _: self.response.cancel())

    def on_body_data(self, data: bytes) -> None:
        if self.exchange.received.first_byte_at is None:
            self.exchange.received.first_byte_at = self.exchange.clock.seconds()
        self._buffer.append(data)
        self._size += len(data)
        try:
            max_bytes = MAX_BUFFERED_BYTES if self.max_bytes is None else self.max_bytes
            if self._size > max_bytes:
                raise _too_long(max_bytes)
            self.exchange.reserve(len(data))
        except GatewayError as error:
            self._buffer.clear()
            self.response.cancel()
            self.done.errback(error)

    def on_body_end(self) -> None:
        self.done.callback(self._buffer.take())

    def on_body_error(self, error: GatewayError) -> None:
        self._buffer.clear()
        self.done.errback(error)


def read_body(exchange: Exchange, response: UpstreamResponse, max_bytes: int | None) -> Deferred[bytes]:
    """Read a response to its end; cancel to stop.

    The Deferred fails with a :class:`GatewayError` where the body breaks or is too large.
    """
    reader = _BodyReader(exchange, response, max_bytes)
    response.deliver_body(reader)
    return reader.done


def _too_long(max_bytes: int) -> GatewayError:
    message = f"the upstream's response has more than {max_bytes} bytes"
    return GatewayError(Reason.UPSTREAM_BROKEN, message).because(Cause.LIMIT)
