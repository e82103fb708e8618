"""The beginning of a relayed stream, held until an event has content, since an error may follow.

Providers tell some of their failures within a stream that began with a good status: as its first event, or
behind events that announce the answer and hold none of it.  Where a request may be tried again, such a stream
counts as a response of the status that its error stands for, if it is one of ``retries.statuses``; until then
nothing of it, not even its head, has gone to the client.  A host that frames its streams refuses in the first
frame what others refuse with a status: there any error counts, whether or not anything is tried again.

What says nothing is a fact of the dialect
(:class:`~mgw.dialects.stream_end.StreamEvents`), and comments and empty lines say nothing anywhere.

All else passes as it came, from the first event that says something on, and so does a beginning that grows
large or takes long.  Of an array that arrives in pieces (Gemini's streams without ``alt=sse``) the elements
are its events.  Streams that are no answer of a model are held up to their first event, whatever it says.

Source: contract 2.19.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.dialects.refusal import AnswerError
from mgw.dialects.stream_end import StreamEvents
from mgw.exchange.outer_filter import OuterFilter
from mgw.exchange.received import stream_error
from mgw.exchange.response import (
    OVERLOAD_RETRY_SECONDS,
    OVERLOAD_STATUSES,
    EarlyFailure,
    FullResponse,
    StreamingResponse,
    with_retry_after,
)
from mgw.http.response_head import ResponseHead
from mgw.nouns.errors import Cause, GatewayError
from mgw.nouns.secret import Secret, overwritten, without
from mgw.upstream.failure import UpstreamFailure
from mgw.wire.headers import RawHeaders, response_headers, retry_after_of, value_of
from mgw.wire.json_array import ElementReader
from mgw.wire.media_types import JSON, is_event_stream
from mgw.wire.sse import Event, EventReader

MAX_HELD: Final = 64 * 1024
RenderError = Callable[[UpstreamError], tuple[int, bytes]]
"""Returns the status and the body of an error for the client."""
_EMPTY_LINE: Final = b"\n\n"
_OF_THE_STREAM: Final = frozenset({b"content-type", b"content-length", b"cache-control"})


class _Splitter(Protocol):
    """Cuts what comes into events."""

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete.

        :raises GatewayError: what comes is no such stream.
        """
        ...


class _Elements:
    """Takes each element of an array for an event."""

    def __init__(self) -> None:
        self._reader = ElementReader(MAX_HELD)

    def feed(self, data: bytes) -> list[Event]:
        """Return the elements that these bytes complete."""
        return [Event(b"", element) for element in self._reader.feed(data)]


@dataclass(slots=True, eq=False, repr=False)
class HeldEventsFilter(OuterFilter):
    """A filter before another, which gets nothing until an event says something that is no error."""

    statuses: Container[int]
    """Those of errors that count as a response."""
    events: StreamEvents
    is_array: bool = False
    is_answer: bool = True
    """Whether the events are those of an answer, so that some of them are known to say nothing."""
    early_keepalive: bytes = b""
    """What the client may hear before its head goes out; empty: nothing."""
    error: UpstreamError | None = None
    """What the stream says, if it is an error that counts as a response."""
    body: bytes = b""
    """That error as the body of a response; without one all of the stream that ended too early."""
    _held: bytearray | None = field(default_factory=bytearray)
    _splitter: _Splitter = field(init=False)

    def __post_init__(self) -> None:
        self._splitter = _Elements() if self.is_array else EventReader(bare=True)

    def awaits_words(self) -> bool:
        """Whether nothing has passed."""
        return self._held is not None

    def let_go(self) -> bytes:
        """Hold nothing any more; return what may pass of what was held."""
        held, self._held = self._held, None
        return self.inner.feed(bytes(held)) if held else b""

    def feed(self, data: bytes) -> bytes:
        """Return what may pass, which is everything once an event says something.

        :raises GatewayError: ``UPSTREAM_BROKEN``: an event is an error that counts as a response.
        """
        held = self._held
        if held is None:
            return self.inner.feed(data)
        held += data
        return b"" if self._says_nothing(data) and len(held) <= MAX_HELD else self.let_go()

    def finish(self) -> bytes:
        """Return what is left.

        :raises GatewayError: ``UPSTREAM_BROKEN``: it is an error, of which only the end is missing, or the
            stream ended too early and had said nothing.
        """
        held = self._held
        if held is None or not self._says_nothing(_EMPTY_LINE):
            return self.let_go() + self.inner.finish()
        passed = self.let_go() + self.inner.finish()
        fault = self.inner.fault()
        if fault is None:
            return passed
        self._held, self.body = held, passed  # nothing has passed
        raise fault.error

    def keepalive(self) -> bytes:
        """Return what may stand between two events, or before all of them."""
        return self.inner.keepalive() if self._held is None else self.early_keepalive

    def _says_nothing(self, data: bytes) -> bool:
        try:
            events = self._splitter.feed(data)
        except GatewayError:  # no such stream, or a large event
            return False
        for event in events:
            error = self.events.find_error(event)
            if error is not None and error.status in self.statuses:
                self.error = error
                body = self.events.error_body(event, error)
                self.body = b"[%b]" % body if self.is_array else body
                raise stream_error(error)
            if error is not None or not self.is_answer or not self.events.says_nothing(event):
                return False
        return True


def hold_events(
    response: StreamingResponse,
    head: ResponseHead,
    held: HeldEventsFilter,
    secrets: Sequence[Secret],
    render: RenderError | None = None,
) -> StreamingResponse:
    """Return a stream whose head waits until its events say something.

    :param head: of the provider's response.
    :param secrets: what was sent, and no error may repeat.
    :param render: makes a response of an error that came in place of a frame, where the stream has frames.
    """
    headers = response_headers(head.headers)  # now: a head is forgotten when its body is relayed

    def said() -> UpstreamError | None:
        return with_retry_after(held.error, retry_after_of(headers))

    refuse = partial(_refuse, held, head.status, headers, tuple(secrets), render)
    early_failure = EarlyFailure(held.awaits_words, refuse, said, held.let_go, held.inner)
    return replace(response, body_filter=held, early_failure=early_failure)


def _without_keys(error: UpstreamError, secrets: tuple[Secret, ...]) -> UpstreamError:
    """Return an error whose message does not repeat what was sent."""
    return replace(error, message=without(error.message, secrets, lambda _: "[key]"))


def is_array(head: ResponseHead) -> bool:
    """Whether a stream is an array in pieces."""
    return not is_event_stream(head.content_type)


def _refuse(
    held: HeldEventsFilter,
    status: int,
    headers: RawHeaders,
    secrets: tuple[Secret, ...],
    render: RenderError | None,
    cause: GatewayError,
) -> FullResponse:
    """Return the response that the provider would have sent, had it known before its head.

    A stream that ended in order, though too early, is the client's as it came.

    :raises GatewayError: the stream broke without a word.
    """
    error, body = held.error, held.body
    if error is None and render is not None:
        if not isinstance(cause, AnswerError):
            raise cause
        rendered, body = render(cause.error)
        error = replace(cause.error, status=rendered)
    if error is None:
        if cause.cause is not Cause.TRUNCATED or isinstance(cause, UpstreamFailure):
            raise cause
        kept = [pair for pair in headers if pair[0].lower() != b"content-length"]
        return FullResponse(status, kept, held.body, held.usage(), stream=True)
    kept = [pair for pair in headers if pair[0].lower() not in _OF_THE_STREAM]
    headers = [(name, overwritten(value, secrets)) for name, value in kept]
    headers.append((b"Content-Type", JSON))
    if error.status in OVERLOAD_STATUSES and value_of(headers, b"retry-after") is None:
        seconds = math.ceil(error.retry_after or OVERLOAD_RETRY_SECONDS)
        headers.append((b"Retry-After", b"%d" % seconds))
    return FullResponse(
        error.status, headers, overwritten(body, secrets), error=_without_keys(error, secrets)
    )
