"""A provider's answer told in the client's dialect: piece by piece, or whole."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from mgw.canonical.renaming import events_with_names
from mgw.canonical.replay import events_of
from mgw.canonical.reply import Began, Broke, Counted, Ended, Reply, ReplyEvent, TokenUsage, UpstreamError
from mgw.dialects.dialect import ClientSide, ProviderSide
from mgw.dialects.last_event import LastEvent
from mgw.dialects.metering import media_type
from mgw.dialects.refusal import UNREADABLE_EVENT, AnswerError
from mgw.dialects.stream import StreamReader, StreamWriter
from mgw.errors import Cause, GatewayError, Reason
from mgw.exchange.delivery import MAX_ANSWER_BYTES, Gathered, Streamed, Unbegun, Whole
from mgw.secret import Secret, without
from mgw.upstream.client import Answer
from mgw.wire.counted import has_more
from mgw.wire.encodings import decoded
from mgw.wire.headers import RawHeaders, value_of

EVENT_STREAM: Final = b"text/event-stream"
JSON: Final = b"application/json"
_STREAMS: Final = frozenset({EVENT_STREAM, b"text/plain", b""})
"""What hosts call their streams."""
_KEPT: Final = frozenset({b"retry-after", b"retry-after-ms"})
"""Headers of the provider's answer that mean the same in every family."""
_NO_CACHE: Final = (b"Cache-Control", b"no-cache")
_OVERLOADED: Final = frozenset({503, 529})
_REST_SECONDS: Final = 5
"""``Retry-After`` of an overload that a stream tells, where there is no place for one."""
_NO_CONTENT: Final = frozenset({Began, Counted})
MAX_OBJECTS: Final = 400_000
MAX_VALUES: Final = 4_000_000
"""What a whole answer may hold: 2,048 embeddings of 1,536 numbers, or the twenty likeliest of each token."""
_FEW_VALUES: Final = 400_000
_BYTES_FOR_EACH: Final = 4
"""More values than these have to be so long: a number takes 32 bytes in Python."""
MAX_ERROR_BYTES: Final = 1024 * 1024
"""A refusal that is longer says nothing but its status."""

Convert = Callable[[bytes, bytes], tuple[bytes, bytes, TokenUsage]]
"""Makes the client's body, and its media type, of the provider's body and its media type.

Raises :class:`GatewayError` (``UPSTREAM_BROKEN``).
"""
Stopped = Callable[[str], None]
"""Takes a stop reason that nobody knows."""


def _nothing() -> None:
    """Nothing was found."""


@dataclass(slots=True)
class Telling(ABC):
    """How one request's answer is told; what all ways of it share."""

    client: ClientSide
    provider: ProviderSide
    request_id: str
    reported: RawHeaders
    """What the head says of the translation."""
    _secrets: tuple[Secret, ...] = field(init=False, default=(), repr=False)
    """What was sent, and no error may repeat."""
    afterwards: Callable[[], None] = field(init=False, default=_nothing, repr=False)
    """Tells the reactor's thread what was found while a whole answer was told."""

    @property
    def accept(self) -> bytes:
        """What the provider is asked to answer with."""
        return JSON

    @abstractmethod
    def delivery(self, answer: Answer) -> Streamed | Gathered:
        """Say how the answer is told.

        :raises GatewayError: ``UPSTREAM_BROKEN`` for an answer that nothing can be made of.
        """

    def hide(self, secrets: tuple[Secret, ...]) -> None:
        """Let no error of the provider's tell the credential that it was sent."""
        self._secrets = secrets

    def hidden(self, text: str) -> str:
        """Return a provider's words without the credential."""
        return without(text, self._secrets, lambda _: "[key]")

    def whole(self, answer: Answer, convert: Convert, *, stream: bool) -> Gathered:
        """Tell the answer, or the refusal that it is, once it is whole."""
        status, media_type = answer.status, value_of(answer.headers, b"content-type") or b""
        encodings = [value for name, value in answer.headers if name.lower() == b"content-encoding"]
        kept = _kept(answer)

        def complete(body: bytes) -> Whole:
            if encodings:
                body = _decoded(body, b",".join(encodings))
            if not 200 <= status < 300:
                return self._refused(status, body, kept)
            if _holds_too_much(body):
                raise _broken("has too many JSON values")
            try:
                told, own_type, usage = convert(body, media_type)
                return Whole(200, [(b"Content-Type", own_type), *self.reported], told, usage, stream)
            except AnswerError as refused:
                return self.refusal(refused.error, kept)
            except GatewayError as error:
                raise GatewayError(error.reason, self.hidden(error.message)) from None
            except RecursionError:
                raise _broken("is nested too deeply") from None

        return Gathered(complete, self.afterwards, bool(encodings))

    def refusal(self, error: UpstreamError, kept: RawHeaders) -> Whole:
        """Tell what the provider refused, with what is kept of its headers."""
        error = replace(error, message=self.hidden(error.message))
        if error.retry_after is not None and not kept:
            kept = [(b"Retry-After", b"%d" % math.ceil(error.retry_after))]
        status, told = self.client.render_error(error, self.request_id)
        return Whole(status, [(b"Content-Type", JSON), *kept, *self.reported], told)

    def _refused(self, status: int, body: bytes, kept: RawHeaders) -> Whole:
        if status < 400:
            message = f"the upstream answered with status {status}; check the provider's base_url"
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)
        error = self.provider.parse_error(status, body if len(body) <= MAX_ERROR_BYTES else b"")
        return self.refusal(error, kept)


@dataclass(slots=True)
class Retelling(Telling):
    """A JSON document made of another."""

    convert: Convert
    asks_for: bytes = JSON

    @property
    def accept(self) -> bytes:
        """What the operation asks for."""
        return self.asks_for

    def delivery(self, answer: Answer) -> Gathered:
        """Tell the answer once it is whole."""
        return self.whole(answer, self.convert, stream=False)


@dataclass(slots=True)
class StreamRetelling(Telling):
    """A stream made of another, where the client asked for one."""

    convert: Convert
    """For a refusal."""
    parse: Callable[[bytes, bytes], Reply]
    reader: Callable[[], StreamReader]
    writer: StreamWriter
    names: Mapping[str, str]
    """Tools that the provider knows by another name than the client."""
    stopped: Stopped
    last_event: LastEvent
    keepalive_seconds: float | None

    @property
    def accept(self) -> bytes:
        """A stream."""
        return EVENT_STREAM

    def delivery(self, answer: Answer) -> Streamed | Gathered:
        """Tell a stream piece by piece, and what is none as one when it is whole.

        :raises GatewayError: ``UPSTREAM_BROKEN`` for a stream in a coding that was not asked for.
        """
        if not 200 <= answer.status < 300:
            return self.whole(answer, self.convert, stream=False)
        content_type = self.writer.content_type
        if media_type(value_of(answer.headers, b"content-type") or b"") not in _STREAMS:
            return self.whole(answer, self._replayed, stream=True)
        coding = (value_of(answer.headers, b"content-encoding") or b"identity").strip().lower()
        if coding != b"identity":
            message = "the upstream compressed a stream although it was asked not to"
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)
        headers = [(b"Content-Type", content_type), _NO_CACHE, *self.reported]
        told = StreamFilter(
            self.reader(), self.writer, self.names, self.stopped, self.hidden, self.last_event
        )
        unbegun = Unbegun(told.unsaid, partial(self._unbegun, told, _kept(answer)))
        return Streamed(
            200, b"OK", headers, told, stream=True, keepalive_seconds=self.keepalive_seconds, unbegun=unbegun
        )

    def _unbegun(self, told: StreamFilter, kept: RawHeaders, broke: GatewayError) -> Whole:
        """Tell an error that is the first that the provider says as the refusal that it is."""
        if told.error is None:
            raise broke
        error = told.error
        if error.retry_after is None and error.status in _OVERLOADED:
            error = replace(error, retry_after=_REST_SECONDS)
        return replace(self.refusal(error, kept), usage=told.usage())

    def _replayed(self, body: bytes, content_type: bytes) -> tuple[bytes, bytes, TokenUsage]:
        reply = self.parse(body, content_type)
        events = self.writer.write(events_of(reply)) + self.writer.finish()
        return events, self.writer.content_type, reply.usage


@dataclass(slots=True)
class StreamFilter:
    """A provider's stream in, the client's stream out; the reader is the meter."""

    _reader: StreamReader
    _writer: StreamWriter
    _names: Mapping[str, str]
    _stopped: Stopped
    _hidden: Callable[[str], str]
    _last_event: LastEvent
    _unsent: bytes = b""
    """What came in one piece with the error that ended the stream."""
    error: UpstreamError | None = None
    """The provider's own words, where they ended the stream."""
    _said: bool = False
    """An event other than an error has come."""

    @property
    def done(self) -> bool:
        """Whether the provider's stream has had its last event."""
        return self._reader.ended

    @property
    def whole(self) -> bool:
        """Whether all of the answer is there."""
        return self.error is None and self._reader.complete

    @property
    def handed_all(self) -> bool:
        """Whether the client's stream has had its last event."""
        return self._last_event.passed

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete, in the client's grammar.

        :raises GatewayError: ``UPSTREAM_BROKEN``.
        """
        told = self._told(self._reader.feed(data))
        if told:
            self._last_event.feed(told)
        return told

    def finish(self) -> bytes:
        """Return the end of the stream.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where the provider's stream stopped before its end.
        """
        told = self._told(self._reader.finish())
        return self._checked(told + self._writer.finish())

    def fail(self, error: GatewayError) -> bytes | None:
        """Return what shows the client that its stream broke: never a clean end."""
        unsent, self._unsent = self._unsent, b""
        return unsent + self._writer.fail(error if self.error is None else self.error)

    def unsaid(self) -> bool:
        """Whether the provider has said nothing yet but perhaps why it fails."""
        return not self._said

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._reader.usage

    def keepalive(self) -> bytes:
        """Return a sign of life; what was written ends with a whole event, so it may always stand."""
        return self._writer.keepalive()

    def _told(self, events: list[ReplyEvent]) -> bytes:
        if self._names:
            events = events_with_names(events, self._names)
        for event in events:
            if type(event) is Ended:
                if event.unknown_stop is not None:
                    self._stopped(event.unknown_stop)
            elif type(event) is Broke:
                before = events[: events.index(event)]
                if self._said or any(type(one) not in _NO_CONTENT for one in before):
                    self._said = True
                    self._unsent = self._writer.write(before)
                self.error = replace(event.error, message=self._hidden(event.error.message))
                raise _broke_by(event)
        self._said = self._said or bool(events)
        return self._checked(self._writer.write(events))

    def _checked(self, told: bytes) -> bytes:
        if self._writer.broken:
            self._unsent = told
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response cannot be translated")
        return told


def _broke_by(event: Broke) -> GatewayError:
    if event == UNREADABLE_EVENT:
        return GatewayError(Reason.UPSTREAM_BROKEN, event.error.message).because(Cause.UNREADABLE)
    error = GatewayError(Reason.UPSTREAM_BROKEN, "the upstream ended its stream with an error")
    return error.because(Cause.UPSTREAM_ERROR_EVENT)


def _holds_too_much(body: bytes) -> bool:
    values = min(MAX_VALUES, max(_FEW_VALUES, len(body) // _BYTES_FOR_EACH))
    return has_more(body, MAX_OBJECTS, values)


def _broken(how: str) -> GatewayError:
    return GatewayError(Reason.UPSTREAM_BROKEN, f"the upstream's response {how}")


def _kept(answer: Answer) -> RawHeaders:
    return [pair for pair in answer.headers if pair[0].lower() in _KEPT]


def _decoded(body: bytes, codings: bytes) -> bytes:
    try:
        return decoded(body, codings, MAX_ANSWER_BYTES)
    except GatewayError as error:
        message = f"the upstream's response cannot be read: {error.message}"
        raise GatewayError(Reason.UPSTREAM_BROKEN, message) from None
