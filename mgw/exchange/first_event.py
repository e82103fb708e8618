"""The first event of a stream that is passed on, held back until it is whole: it may be an error.

Providers tell some of their overloads as the first event of a stream that began with a good status.  Where a
request may be tried again, such a stream counts as a response of the status that its error stands for, if it
is one of ``retries.statuses``; until then nothing of it, not even its head, has gone to the client.  Anything
else passes as it came, and so does a first event that grows large: nothing is held for longer than it takes
to know.  Of an array that arrives in pieces (Gemini's streams without ``alt=sse``) the first element counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from mgw.canonical.reply import Broke, TokenUsage, UpstreamError
from mgw.dialects import provider_side_of
from mgw.dialects.metering import media_type
from mgw.dialects.refusal import UNREADABLE_EVENT
from mgw.errors import GatewayError
from mgw.exchange.exchange import Fault, stream_error
from mgw.exchange.relay import BodyFilter
from mgw.exchange.response import (
    OVERLOAD_RETRY_SECONDS,
    OVERLOAD_STATUSES,
    EarlyFailure,
    FullResponse,
    StreamingResponse,
    with_retry_after,
)
from mgw.families import text_dialect
from mgw.http.response_head import ResponseHead
from mgw.routing.resolve import Target
from mgw.secret import Secret, overwritten
from mgw.vocabulary import Family
from mgw.wire.headers import RawHeaders, response_headers, retry_after_of, value_of
from mgw.wire.json_array import ElementReader
from mgw.wire.sse import EventReader

MAX_HELD: Final = 64 * 1024
_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")
_LONGEST_END: Final = 3
_EMPTY_LINE: Final = b"\n\n"
_OF_THE_STREAM: Final = frozenset({b"content-type", b"content-length", b"cache-control"})


def error_in_first_event(family: Family, block: bytes) -> UpstreamError | None:
    """Return the error that the first event of a stream is; ``None``: it is something else.

    :param block: of the stream's bytes as many as end with that event.
    """
    if b"error" not in block:
        return None
    for event in provider_side_of(text_dialect(family)).stream_reader("").feed(block):
        return event.error if isinstance(event, Broke) and event != UNREADABLE_EVENT else None
    return None


FindFirst = Callable[[bytearray, bytes], bytes | None]
"""Takes all that is held, and the piece of it that came last; returns what ends with the first event, if any.

Nothing in that is an error where there is no such event, as in what is no array.
"""


def find_first_event(held: bytearray, piece: bytes) -> bytes | None:
    """Find the first event of an event stream, or what stands before it: a comment, or an empty line."""
    end = _EVENT_END.search(held, max(len(held) - len(piece) - _LONGEST_END, 0))
    return None if end is None else bytes(held[: end.end()])


def first_element_finder() -> FindFirst:
    """Return what finds the first element of an array, and returns an array of it alone."""
    reader = ElementReader(MAX_HELD)

    def find(_: bytearray, piece: bytes) -> bytes | None:
        try:
            elements = reader.feed(piece)
        except GatewayError:  # no array, or a large element
            return b""
        return b"[%b]" % elements[0] if elements else None

    return find


@dataclass(slots=True)
class FirstEventFilter:
    """A filter before another, which gets nothing until the first event is known to be no error."""

    target: Target
    """Where the stream comes from."""
    inner: BodyFilter
    find_first: FindFirst = find_first_event
    error: UpstreamError | None = None
    """What the first event says, if it is an error that counts as a response."""
    body: bytes = field(default=b"", repr=False)
    """Its data, or the array that it is."""
    _held: bytearray | None = field(default_factory=bytearray, repr=False)

    @property
    def ended(self) -> bool:
        """As the other says."""
        return self.inner.ended

    @property
    def complete(self) -> bool:
        """As the other says."""
        return self.inner.complete

    @property
    def sent_last_event(self) -> bool:
        """As the other says."""
        return self.inner.sent_last_event

    def awaits_first_event(self) -> bool:
        """Whether nothing has passed."""
        return self._held is not None

    def feed(self, data: bytes) -> bytes:
        """Return what may pass, which is everything once the first event has.

        :raises GatewayError: ``UPSTREAM_BROKEN``: the first event is an error.
        """
        held = self._held
        if held is None:
            return self.inner.feed(data)
        held += data
        first = self.find_first(held, data)
        if first is None and len(held) <= MAX_HELD:
            return b""
        if first is not None:
            self._check(first)
        self._held = None
        return self.inner.feed(bytes(held))

    def finish(self) -> bytes:
        """Return what is left.

        :raises GatewayError: ``UPSTREAM_BROKEN``: all of it is an error, of which only the end is missing.
        """
        held = self._held
        if held:
            self._check(bytes(held) + _EMPTY_LINE)
        self._held = None
        passed = self.inner.feed(bytes(held)) if held else b""
        return passed + self.inner.finish()

    def fail(self, error: GatewayError) -> bytes | None:
        """As the other does."""
        return self.inner.fail(error)

    def fault(self) -> Fault | None:
        """As the other says."""
        return self.inner.fault()

    def usage(self) -> TokenUsage:
        """Return the counts that the other has seen."""
        return self.inner.usage()

    def keepalive(self) -> bytes:
        """Nothing before the first event: the head has not gone out."""
        return self.inner.keepalive() if self._held is None else b""

    def _check(self, block: bytes) -> None:
        error = error_in_first_event(self.target.family, block)
        if error is not None and error.status in self.target.provider.retries.statuses:
            self.error = error
            self.body = next((event.data for event in EventReader().feed(block)), block.strip())
            raise stream_error()


def hold_first_event(
    response: StreamingResponse, head: ResponseHead, target: Target, secrets: Sequence[Secret]
) -> StreamingResponse:
    """Return a stream whose head waits for its first event.

    :param head: of the provider's response.
    :param target: where it comes from.
    :param secrets: what was sent, and no error may repeat.
    """
    is_array = media_type(head.content_type or b"") != b"text/event-stream"
    find_first = first_element_finder() if is_array else find_first_event
    held = FirstEventFilter(target, response.body_filter, find_first)
    headers = response_headers(head.headers)  # now: a head is forgotten when its body is relayed

    def said() -> UpstreamError | None:
        return with_retry_after(held.error, retry_after_of(headers))

    refuse = partial(_refuse, held, headers, tuple(secrets))
    early_failure = EarlyFailure(held.awaits_first_event, refuse, said)
    return replace(response, body_filter=held, early_failure=early_failure)


def _refuse(
    held: FirstEventFilter, headers: RawHeaders, secrets: tuple[Secret, ...], cause: GatewayError
) -> FullResponse:
    """Return the response that the provider would have sent, had it known before its head.

    :raises GatewayError: the stream broke without a word.
    """
    error = held.error
    if error is None:
        raise cause
    kept = [pair for pair in headers if pair[0].lower() not in _OF_THE_STREAM]
    headers = [(name, overwritten(value, secrets)) for name, value in kept]
    headers.append((b"Content-Type", b"application/json"))
    if error.status in OVERLOAD_STATUSES and value_of(headers, b"retry-after") is None:
        seconds = math.ceil(error.retry_after or OVERLOAD_RETRY_SECONDS)
        headers.append((b"Retry-After", b"%d" % seconds))
    return FullResponse(error.status, headers, overwritten(held.body, secrets))
