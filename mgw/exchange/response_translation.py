"""Translate a provider's response into the client's dialect: piece by piece, or whole."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import Reply, TokenUsage, UpstreamError
from mgw.dialects.dialect import ClientSide, ProviderSide
from mgw.dialects.last_event import LastEvent
from mgw.dialects.refusal import AnswerError
from mgw.dialects.renamed_tools import RestoredReader, RestoredStream, ToolPlaces, restore_answer
from mgw.dialects.stream import StreamReader, StreamWriter
from mgw.dialects.tool_name_map import ToolNameMap
from mgw.exchange.response import (
    MAX_BUFFERED_BYTES,
    OVERLOAD_RETRY_SECONDS,
    OVERLOAD_STATUSES,
    BufferedResponse,
    EarlyFailure,
    EarlyStream,
    Estimate,
    FullResponse,
    StreamingResponse,
    with_retry_after,
)
from mgw.exchange.stream_filter import NO_EVENTS, SILENT_EVENTS, OnUnknownStop, StreamFilter
from mgw.http.response_head import ResponseHead
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.nouns.families import FAMILIES
from mgw.nouns.secret import Secret, without
from mgw.nouns.vocabulary import Family
from mgw.upstream.client import UpstreamResponse
from mgw.usage.event import ELLIPSIS, MAX_DROPPED_NAMES
from mgw.wire.encodings import decode_content
from mgw.wire.headers import RawHeaders, retry_after_of, values_of
from mgw.wire.json_document import has_more_values
from mgw.wire.media_types import EVENT_STREAM, JSON, is_event_stream, may_be_event_stream

_RETRY_HEADERS: Final = frozenset({b"retry-after", b"retry-after-ms"})
"""Headers of the provider's response that mean the same in every family."""
_NO_CACHE: Final = (b"Cache-Control", b"no-cache")
MAX_OBJECTS: Final = 400_000
MAX_VALUES: Final = 4_000_000
"""A whole response may hold 2,048 embeddings of 1,536 numbers, or the twenty likeliest of each token."""
_FEW_VALUES: Final = 400_000
_BYTES_FOR_EACH: Final = 4
"""More values than these have to be so long: a number takes 32 bytes in Python."""
MAX_ERROR_BYTES: Final = 1024 * 1024
"""A refusal that is longer says nothing but its status."""

MAX_HEADER_NAMES: Final = 64
MAX_HEADER_BYTES: Final = 4096
"""Limits of ``X-Gateway-Dropped-Fields``."""
_UNQUOTED: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in ",%")
_ELLIPSIS: Final = quote(ELLIPSIS)
_NAMES_BYTES: Final = MAX_HEADER_BYTES - len(f", {_ELLIPSIS}")
UNCOUNTED: Final = frozenset({400, 404})
"""The statuses with which a host refuses a count that the model does not make."""
ESTIMATED: Final = (b"X-Gateway-Estimated", b"true")
"""Marks a token count that no provider was asked for."""

Convert = Callable[[bytes, bytes], tuple[bytes, bytes, TokenUsage]]
"""Makes the client's body, and its media type, of the provider's body and its media type.

Raises :class:`GatewayError` (``UPSTREAM_BROKEN``).
"""


def _do_nothing() -> None:
    """Nothing was found."""


@dataclass(slots=True, eq=False, repr=False)
class ResponseTranslation(ABC):
    """How the response to one request is translated; what all ways of it share."""

    client: ClientSide
    provider: ProviderSide
    request_id: str
    gateway_headers: RawHeaders
    """Headers that tell the client about the translation."""
    _secrets: tuple[Secret, ...] = field(init=False, default=())
    """What was sent, and no error may repeat."""
    _renamed: tuple[ToolPlaces, ToolNameMap] | None = field(init=False, default=None)
    """Where the provider's response names tools, and what its names are."""
    read_host_error: Callable[[int, RawHeaders, bytes], UpstreamError | None] | None = field(
        init=False, default=None
    )
    """Reads a refusal that the host has in another form than the provider's dialect, where there are any."""
    estimate: Estimate | None = field(init=False, default=None)
    """What answers a count that the model does not make; ``None``: it is no such count."""
    on_complete: Callable[[], None] = field(init=False, default=_do_nothing)
    """Tells the reactor's thread what was found while a whole response was translated."""

    @property
    def accept(self) -> bytes:
        """The media type that the provider is asked for."""
        return JSON

    @abstractmethod
    def client_response(
        self, response: UpstreamResponse, *, may_try_again: bool, unframed: bool
    ) -> StreamingResponse | BufferedResponse:
        """Return the response for the client.

        :param may_try_again: whether a stream is held back until it says something.
        :param unframed: whether it comes out of a host's frames.
        :raises GatewayError: ``UPSTREAM_BROKEN`` for a response that nothing can be made of.
        """

    def set_secrets(self, secrets: tuple[Secret, ...]) -> None:
        """Keep the credential that the provider was sent out of its errors."""
        self._secrets = secrets

    def restore_names(self, places: ToolPlaces, names: ToolNameMap) -> None:
        """Give the tools in the response the names back that they had before a profile renamed them."""
        self._renamed = places, names

    def redact(self, text: str) -> str:
        """Return a provider's text without the credential."""
        return without(text, self._secrets, lambda _: "[key]")

    def buffer(self, response: UpstreamResponse, convert: Convert, *, stream: bool) -> BufferedResponse:
        """Return the response that is made once all of the provider's is known, or its refusal."""
        head, status = response.head, response.status
        media_type = head.content_type or b""
        coding = head.content_encoding
        if coding is not None:  # else nobody asks for its header pairs
            coding = b",".join(values_of(head.headers, b"content-encoding"))

        def complete(body: bytes) -> FullResponse:
            if coding is not None:
                body = _decode(body, coding)
            if not 200 <= status < 300:
                return self._render_error(head, body)
            if _has_too_many_values(body):
                raise _unusable("has too many JSON values")
            if self._renamed is not None:
                body = self._restore(body, media_type)
            try:
                translated, own_type, usage = convert(body, media_type)
                headers = [(b"Content-Type", own_type), *self.gateway_headers]
                return FullResponse(200, headers, translated, usage, stream)
            except AnswerError as refused:
                refusal = self.render_refusal(refused.error, _retry_headers(head))
                return replace(refusal, failure=_unreadable()) if _names_no_status(refused.error) else refusal
            except GatewayError as error:
                raise GatewayError(error.reason, self.redact(error.message)) from None
            except RecursionError:
                raise _unusable("is nested too deeply") from None

        is_slow = self.estimate is not None and self.estimate.is_slow and status in UNCOUNTED
        return BufferedResponse(complete, self.on_complete, coding is not None, is_slow)

    def _restore(self, body: bytes, content_type: bytes) -> bytes:
        assert self._renamed is not None, "the caller has checked"
        if not is_event_stream(content_type):
            return restore_answer(self._renamed[0], body, self._renamed[1])
        stream = RestoredStream(*self._renamed)
        return stream.feed(body) + stream.finish()

    def render_refusal(self, error: UpstreamError, retry_headers: RawHeaders) -> FullResponse:
        """Render a refusal of the provider's in the client's dialect."""
        error = replace(error, message=self.redact(error.message))
        if error.retry_after is not None and not retry_headers:
            retry_headers = [(b"Retry-After", b"%d" % math.ceil(error.retry_after))]
        status, body = self.client.render_error(error, self.request_id)
        headers = [(b"Content-Type", JSON), *retry_headers, *self.gateway_headers]
        return FullResponse(status, headers, body, error=error)

    def _render_error(self, head: ResponseHead, body: bytes) -> FullResponse:
        status = head.status
        if self.estimate is not None and status in UNCOUNTED:
            return self.estimate.make()
        if status < 400:
            message = f"the upstream returned status {status}; check the provider's base_url"
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)
        if len(body) > MAX_ERROR_BYTES:
            body = b""
        read = self.read_host_error
        error = None if read is None else read(status, head.headers, body)
        if error is None:
            error = self.provider.parse_error(status, body)
        return self.render_refusal(error, _retry_headers(head))


@dataclass(slots=True, eq=False, repr=False)
class JsonTranslation(ResponseTranslation):
    """A JSON document made of another."""

    convert: Convert
    accepted: bytes = JSON

    @property
    def accept(self) -> bytes:
        """What the operation asks for."""
        return self.accepted

    def client_response(
        self,
        response: UpstreamResponse,
        *,
        may_try_again: bool,  # noqa: ARG002  it is held back to its end
        unframed: bool,  # noqa: ARG002  its end is that of its body
    ) -> BufferedResponse:
        """Return the response that is made once all of the provider's is known."""
        return self.buffer(response, self.convert, stream=False)


@dataclass(slots=True, eq=False, repr=False)
class StreamTranslation(ResponseTranslation):
    """A stream made of another, where the client asked for one."""

    convert: Convert
    """The conversion of a refusal, which is no stream."""
    parse: Callable[[bytes, bytes], Reply]
    reader: Callable[[], StreamReader]
    new_writer: Callable[[], StreamWriter]
    names: Mapping[str, str]
    """Tools that the provider knows by another name than the client."""
    on_unknown_stop: OnUnknownStop
    last_event: LastEvent
    keepalive_seconds: float | None
    candidates: int
    """How many the client asked for."""
    writer: StreamWriter = field(init=False)

    def __post_init__(self) -> None:
        self.writer = self.new_writer()

    @property
    def stream_headers(self) -> RawHeaders:
        """The headers of the client's stream."""
        return [(b"Content-Type", self.writer.content_type), _NO_CACHE, *self.gateway_headers]

    @property
    def accept(self) -> bytes:
        """A stream."""
        return EVENT_STREAM

    @property
    def early_stream(self) -> EarlyStream | None:
        """What the client may hear before the provider answers."""
        seconds, writer = self.keepalive_seconds, self.writer
        if seconds is None:
            return None
        headers, new_writer = self.stream_headers, self.new_writer
        return EarlyStream(
            seconds, writer.keepalive(), writer.content_type, headers, lambda error: new_writer().fail(error)
        )

    def client_response(
        self, response: UpstreamResponse, *, may_try_again: bool, unframed: bool
    ) -> StreamingResponse | BufferedResponse:
        """Translate a stream piece by piece; replay as a stream what is none, once it is whole.

        :raises GatewayError: ``UPSTREAM_BROKEN`` for a stream in a coding that was not asked for.
        """
        if not 200 <= response.status < 300:
            return self.buffer(response, self.convert, stream=False)
        head = response.head
        if not may_be_event_stream(head.content_type):
            return self.buffer(response, self._replay, stream=True)
        coding = (head.content_encoding or b"identity").strip().lower()
        if coding != b"identity":
            message = "the upstream compressed a stream although the request did not allow it"
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)
        silent = SILENT_EVENTS if may_try_again else NO_EVENTS
        body_filter = self._open_filter(silent, needs_end=unframed)
        retry_headers = _retry_headers(head)
        seconds = retry_after_of(head.headers) if retry_headers else None
        return StreamingResponse(
            200,
            b"OK",
            self.stream_headers,
            body_filter,
            stream=True,
            keepalive_seconds=self.keepalive_seconds,
            early_failure=EarlyFailure(
                body_filter.awaits_words,
                partial(self._render_early_failure, body_filter, retry_headers),
                lambda: with_retry_after(body_filter.error, seconds),
                body_filter.let_go if may_try_again else None,
            ),
        )

    def _open_filter(self, silent: frozenset[type], *, needs_end: bool) -> StreamFilter:
        """Return what translates the stream.

        :param silent: events that say nothing yet, behind which another attempt is still possible.
        :param needs_end: whether the stream is complete with its last event alone.
        """
        reader = self.reader()
        if self._renamed is not None:
            reader = RestoredReader(reader, RestoredStream(*self._renamed))
        return StreamFilter(
            reader,
            self.writer,
            self.names,
            self.on_unknown_stop,
            self.redact,
            self.last_event,
            silent,
            candidates=self.candidates,
            needs_end=needs_end,
        )

    def _render_early_failure(
        self, body_filter: StreamFilter, retry_headers: RawHeaders, cause: GatewayError
    ) -> FullResponse:
        """Render an error that is the first thing in the stream as a refusal."""
        error = body_filter.error
        if error is None and isinstance(cause, AnswerError):
            error = cause.error
        if error is None:
            raise cause
        if error.retry_after is None and error.status in OVERLOAD_STATUSES:
            error = replace(error, retry_after=OVERLOAD_RETRY_SECONDS)
        return replace(self.render_refusal(error, retry_headers), usage=body_filter.usage())

    def _replay(self, body: bytes, content_type: bytes) -> tuple[bytes, bytes, TokenUsage]:
        reply = self.parse(body, content_type)
        events = self.writer.write(replay_reply(reply)) + self.writer.finish()
        return events, self.writer.content_type, reply.usage


def _has_too_many_values(body: bytes) -> bool:
    values = min(MAX_VALUES, max(_FEW_VALUES, len(body) // _BYTES_FOR_EACH))
    return has_more_values(body, MAX_OBJECTS, values)


def _names_no_status(error: UpstreamError) -> bool:
    """Whether an error in a response of good status names none, and so is any JSON that is no answer."""
    return error.status == Reason.UPSTREAM_BROKEN.status


def _unreadable() -> GatewayError:
    """Return what becomes of such a response in the event; the provider's words are the client's alone."""
    return _unusable("cannot be read").because(Cause.UNREADABLE)


def _unusable(why: str) -> GatewayError:
    return GatewayError(Reason.UPSTREAM_BROKEN, f"the upstream's response {why}")


def _retry_headers(head: ResponseHead) -> RawHeaders:
    return [pair for pair in head.headers if pair[0].lower() in _RETRY_HEADERS]


def _decode(body: bytes, codings: bytes) -> bytes:
    try:
        return decode_content(body, codings, MAX_BUFFERED_BYTES)
    except GatewayError as error:
        message = f"the upstream's response cannot be read: {error.message}"
        raise GatewayError(Reason.UPSTREAM_BROKEN, message) from None


def first_names(paths: Set[str]) -> list[str]:
    """Return as many of the sorted paths as are reported, and one more where there are more."""
    limit = MAX_DROPPED_NAMES + 1
    return sorted(paths) if len(paths) <= limit else nsmallest(limit, paths)  # not one long call for all


def gateway_headers_for(
    client: Family, request_id: str, dropped: Sequence[str] = (), cache_targets: Sequence[str] = ()
) -> RawHeaders:
    """Return the headers that tell a client about the translation (contract 8.4, 8.26, 8.27).

    :param dropped: names of fields that did not arrive; empty where the operator does not observe them.
    :param cache_targets: the targets that got an automatic cache breakpoint.
    """
    headers: RawHeaders = []
    name = FAMILIES[client].request_id_header
    if name is not None:
        headers.append((name, request_id.encode()))
    if dropped:
        headers.append((b"X-Gateway-Dropped-Fields", format_dropped_fields(dropped)))
    if cache_targets:
        headers.append((b"X-Gateway-Cache-Auto", ", ".join(cache_targets).encode()))
    return headers


def format_dropped_fields(dropped: Sequence[str]) -> bytes:
    """Return the value of ``X-Gateway-Dropped-Fields``: at most 64 names and 4 KiB, then an ellipsis."""
    names: list[str] = []
    size = 0
    for name in dropped:
        encoded = quote(name, safe=_UNQUOTED, errors="replace")
        size += len(encoded) + 2
        if len(names) == MAX_HEADER_NAMES or size > _NAMES_BYTES:
            names.append(_ELLIPSIS)
            break
        names.append(encoded)
    return ", ".join(names).encode()
