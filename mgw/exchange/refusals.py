"""What a provider's refusal says: read from a copy while it passes, or from a response that nobody gets.

The client's bytes stay as they are.  A body is looked at once, where it has no more than :data:`MAX_BYTES`
and the operator has not switched that off (``hooks.error_messages``).  The body of a response after which
another attempt follows is given a moment to arrive, which that attempt does not wait for; and only where a
warning is due.

Source: contract 7.14.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace
from twisted.python.failure import Failure

from mgw.canonical.reply import TokenUsage, UpstreamError
from mgw.dialects import client_side_of, error_reader_of
from mgw.dialects.dialect import Meter, ReplyContext
from mgw.dialects.refusal import AnswerError, word_of
from mgw.exchange.exchange import Exchange
from mgw.exchange.received import Fault, status_error
from mgw.exchange.response import EarlyStream, FullResponse
from mgw.exchange.response_translation import gateway_headers_for
from mgw.exchange.wired import WiredRequest
from mgw.http.response_head import OF_BODY, ResponseHead
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import Secret, overwritten, without
from mgw.nouns.vocabulary import DialectName
from mgw.routing.resolve import Target
from mgw.upstream.client import UpstreamResponse
from mgw.upstream.wires.wire import ProviderWire
from mgw.usage.error_message import format_error_message
from mgw.usage.journal import ProviderFailure
from mgw.wire.encodings import decode_content
from mgw.wire.headers import RawHeaders, response_headers, value_of, values_of
from mgw.wire.media_types import JSON

MAX_BYTES: Final = 64 * 1024
"""A longer body is no error's."""
_LENGTH: Final = frozenset({b"content-length"})
_OF_BODY: Final = OF_BODY | {b"content-encoding"}
ARRIVAL_SECONDS: Final = 0.25
"""How long the body of a response that nobody gets may take: no pause before a repetition is shorter."""


class RefusalMeter:
    """A meter beside another, which keeps a copy of what may be an error.

    :param dialect: in which the provider is asked.
    """

    __slots__ = ("_dialect", "_kept", "_meter", "_room", "_status")

    def __init__(self, meter: Meter, dialect: DialectName, status: int) -> None:
        self._meter = meter
        self._dialect = dialect
        self._status = status
        self._kept = bytearray()  # not a list: pieces may be of one byte each
        self._room = MAX_BYTES

    def __repr__(self) -> str:  # what was kept stays out
        return f"RefusalMeter({self._status})"

    @property
    def usage(self) -> TokenUsage:
        """What the other knows."""
        return self._meter.usage

    def feed(self, data: bytes) -> None:
        """Look at the next bytes."""
        self._meter.feed(data)
        self._room -= len(data)
        if self._room >= 0:
            self._kept += data
        else:
            self._kept.clear()

    def finish(self) -> None:
        """Nothing more comes."""
        self._meter.finish()

    def fault(self) -> Fault:
        """Return what the event says of the refusal; the copy is let go."""
        body = bytes(self._kept)
        self._kept.clear()
        return Fault(refusal_error(self._dialect, self._status, body), self._status)


def refusal_error(
    dialect: DialectName, status: int, body: bytes, host_error: UpstreamError | None = None
) -> GatewayError:
    """Return the error that a refusal is, with what it says itself.

    :param host_error: what the host says in a form of its own.
    """
    if host_error is None and body:
        host_error = error_reader_of(dialect)(status, body)
    return status_error(status, None if host_error is None else host_error.own_message)


def complete_refusal(
    wired: WiredRequest, head: ResponseHead, secrets: Sequence[Secret], body: bytes
) -> FullResponse:
    """Return a refusal in the client's dialect if its host has another form for it, else as it came."""
    text = readable(head.headers, body)
    error = wired.wire.read_error(head.status, head.headers, text)
    dropped = _LENGTH if error is None else _OF_BODY
    headers = [
        (name, overwritten(value, secrets))
        for name, value in response_headers(head.headers)
        if name.lower() not in dropped
    ]
    if error is None:
        error = error_reader_of(wired.dialect)(head.status, text)
        return FullResponse(head.status, headers, overwritten(body, secrets), error=error)
    if error.retry_after is not None and value_of(headers, b"retry-after") is None:
        headers.append((b"Retry-After", b"%d" % math.ceil(error.retry_after)))
    error = replace(error, message=without(error.message, secrets, lambda _: "[key]"))
    status, body = client_side_of(wired.client).render_error(error, wired.request_id)
    return FullResponse(status, [*headers, (b"Content-Type", JSON)], body, error=error)


async def read_refusal(wired: WiredRequest, response: UpstreamResponse) -> UpstreamError:
    """Return what a refusal says whose body is still there for the client."""
    await response.read_ahead(MAX_BYTES)
    status, headers, body = response.status, response.headers, readable(response.headers, response.arrived)
    error = wired.wire.read_error(status, headers, body)
    return error_reader_of(wired.dialect)(status, body) if error is None else error


def early_stream_of(exchange: Exchange, seconds: float) -> EarlyStream:
    """Return what the client of a stream in the dialect of its route may hear before an answer."""
    route, request_id = exchange.route, exchange.request_id
    writer = client_side_of(route.dialect).stream_writer(ReplyContext(request_id, "", 0))
    headers = [
        (b"Content-Type", writer.content_type),
        (b"Cache-Control", b"no-cache"),
        *gateway_headers_for(route.family, request_id),
    ]
    write_error = partial(write_stream_error, route.dialect, request_id, ())
    return EarlyStream(seconds, writer.keepalive(), writer.content_type, headers, write_error)


def write_stream_error(
    client: DialectName, request_id: str, secrets: Sequence[Secret], error: GatewayError | UpstreamError
) -> bytes:
    """Return the event that ends a client's stream which broke."""
    said = error.error if isinstance(error, AnswerError) else error
    if isinstance(said, UpstreamError):
        said = replace(said, message=without(said.message, secrets, lambda _: "[key]"))
    return client_side_of(client).stream_writer(ReplyContext(request_id, "", 0)).fail(said)


def report_attempt(
    exchange: Exchange, target: Target, response: UpstreamResponse | None, error: Exception | None
) -> None:
    """Say in log and event why another attempt follows one, and let go of its response, which nobody gets.

    :param error: what went wrong, where no response says it.
    """
    if response is not None and error is None:
        report_refusal(exchange, target, response)
        exchange.attempt_failed(target, None)
        return
    exchange.attempt_failed(target, error)
    if response is not None:
        response.cancel()


def report_refusal(exchange: Exchange, target: Target, response: UpstreamResponse) -> None:
    """Warn of a refusal after which another attempt follows, and let the response go, now or in a moment."""
    generation, status, name = exchange.generation, response.status, target.provider.name
    error = status_error(status)
    word = word_of(error)
    suppressed = generation.failures.claim(name, word, exchange.clock)
    if suppressed is None:
        response.cancel()
        return
    failure = ProviderFailure(name, word, error.message, "", exchange.request_id)
    if not generation.error_messages:
        response.cancel()
        generation.failures.write(failure, suppressed)
        return
    write = partial(generation.failures.write, suppressed=suppressed)
    wire, dialect = generation.upstreams[name].wire, target.provider.row.dialect
    warning = _Warning(failure, dialect, wire, exchange.secrets(), write)
    reading = response.read_ahead(MAX_BYTES)
    _ = reading.addTimeout(ARRIVAL_SECONDS, exchange.clock).addBoth(warning.write_of, response)


@dataclass(slots=True, eq=False, repr=False)
class _Warning:
    """A warning that waits for the body of a response."""

    failure: ProviderFailure
    dialect: DialectName
    wire: ProviderWire
    secrets: Sequence[Secret]
    write: Callable[[ProviderFailure], None]

    def write_of(self, _: Failure | None, response: UpstreamResponse) -> None:
        """Warn, with what has arrived."""
        status, headers, body = response.status, response.headers, response.arrived
        response.cancel()
        body = readable(headers, body)
        host_error = self.wire.read_error(status, headers, body)
        said = refusal_error(self.dialect, status, body, host_error).provider_message
        message = None if said is None else format_error_message(said, self.secrets)
        self.write(replace(self.failure, message=message))


def readable(headers: RawHeaders, body: bytes) -> bytes:
    """Return the body of a refusal without its coding; empty where it is too long, or cannot be decoded."""
    if len(body) > MAX_BYTES:
        return b""
    try:
        return decode_content(body, b",".join(values_of(headers, b"content-encoding")), MAX_BYTES)
    except GatewayError:
        return b""
