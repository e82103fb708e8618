"""Count tokens in passing bytes: the machinery that all dialects share.

A dialect brings a :data:`UsageReader`, which knows one JSON document of its API: the whole body of a unary
answer, or the data of one event of a stream.  The meters here bring the document to it, however the bytes
were cut (contract 5.8: metering reads a copy).

Almost every chunk of a stream is whole events that say nothing of usage.  Such a chunk costs some looks at
its bytes and is not touched otherwise.  One that differs in nothing but a word from a chunk in which nothing
was found costs fewer: there is nothing in it, either.

A quote inside JSON text is escaped, so the bytes ``"usage"`` stand where the key stands and hardly elsewhere;
there, the reader decides.  (A key spelled with escapes would be missed; nobody spells it so.)  In the same
way a meter finds the events that tell how the stream ends, for whoever wants to know
(:mod:`mgw.dialects.stream_end`).

Event streams follow the WHATWG HTML standard, 9.2.6: lines end with CR LF, LF or CR, and a blank line ends
an event.  Hence an event ends where one of the byte pairs LF LF, LF CR or CR CR stands, and line ends that
are left over at the begin of the next event mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final

from msgspec import Meta, MsgspecError

from mgw.bodies.buffer import BodyBuffer
from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage
from mgw.dialects.stream_end import StreamEnd
from mgw.dialects.usage_parts import add_parts, merge_parts, subtract_parts
from mgw.wire.json_outline import shorten_piece
from mgw.wire.media_types import is_event_stream, is_json
from mgw.wire.sse import Event

MAX_BODY_BYTES: Final = 8 * 2**20
"""What a meter keeps of a unary body before it gives up; long texts and numbers do not count."""
MAX_EVENT_BYTES: Final = 2**20
"""What a meter keeps of one event before it skips that event; long texts do not count."""
LARGE_EVENT_BYTES: Final = 64 * 1024
"""What is kept of an event as it came: errors, whose messages are shown, are far shorter."""
MAX_LOOKS: Final = 20_000
"""How many events with usage a meter reads at once before it gives up; each takes some microseconds."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of tokens that can be believed; it fits into every sink."""

UsageReader = Callable[[bytes, TokenUsage], TokenUsage]
"""What one JSON document adds to what was known before it; may raise what :func:`try_read_usage` catches."""

_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
"""What a document raises that is no JSON, or nested without end."""
_WHOLE_EVENTS: Final = (b"\n\n", b"\n\r\n")
_WORD: Final = re.compile(
    rb'"(?:content|text|thinking|reasoning|reasoning_content|partial_json|arguments)": ?"([^"]*)"'
)
"""A part of an answer.  It is no key and no name, so nothing is told by it, whatever it says."""
_MAX_SHAPED_BYTES: Final = 4096
MAX_SHAPES: Final = 16
"""How often a meter looks for what the chunks of a stream have in common."""
_NO_SHAPE: Final = (b"\0", b"\0")
_BARE: Final = (b"{", b"[")
_MOST_LINE_ENDS: Final = 4
"""CR LF CR may close a held event."""


def merge_usage(before: TokenUsage, now: TokenUsage) -> TokenUsage:
    """Return ``now`` with what it does not know taken from ``before``: counts are cumulative, never added.

    Reasoning of one and output of the other, which cannot hold it, do add up.
    """
    if before is NO_USAGE:
        return now
    tokens_out, reasoning = now.tokens_out, now.reasoning
    if tokens_out is None or reasoning is None:
        tokens_out = before.tokens_out if tokens_out is None else tokens_out
        reasoning = before.reasoning if reasoning is None else reasoning
        tokens_out = add_outer_reasoning(tokens_out, reasoning)
    return TokenUsage(
        before.tokens_in if now.tokens_in is None else now.tokens_in,
        tokens_out,
        before.cache_read if now.cache_read is None else now.cache_read,
        before.cache_write if now.cache_write is None else now.cache_write,
        reasoning,
        before.billed if now.billed is None else now.billed,
        before.parts if now.parts is None else merge_parts(before.parts, now.parts),
        before.service_tier if now.service_tier is None else now.service_tier,
    )


def add_counts(*counts: int | None) -> int | None:
    """Return the sum of what is known; ``None`` when nothing is."""
    total: int | None = None
    for count in counts:
        if count is not None:
            total = count if total is None else total + count
    return total


def add_usage(before: TokenUsage, now: TokenUsage) -> TokenUsage:
    """Return the sum of two counts of different work, as of two turns of a session."""
    return TokenUsage(
        add_counts(before.tokens_in, now.tokens_in),
        add_counts(before.tokens_out, now.tokens_out),
        add_counts(before.cache_read, now.cache_read),
        add_counts(before.cache_write, now.cache_write),
        add_counts(before.reasoning, now.reasoning),
        now.billed if before.billed is None else _add_billed(before.billed, now.billed),
        now.parts if before.parts is None else add_parts(before.parts, now.parts),
        before.service_tier if now.service_tier is None else now.service_tier,
    )


def subtract_usage(before: TokenUsage, now: TokenUsage) -> TokenUsage:
    """Return what came since ``before``, of counts that add up; words are the latest."""
    if before is NO_USAGE:
        return now
    return TokenUsage(
        _subtract(before.tokens_in, now.tokens_in),
        _subtract(before.tokens_out, now.tokens_out),
        _subtract(before.cache_read, now.cache_read),
        _subtract(before.cache_write, now.cache_write),
        _subtract(before.reasoning, now.reasoning),
        None,
        subtract_parts(before.parts, now.parts),
        now.service_tier,
    )


def _subtract(before: int | None, now: int | None) -> int | None:
    return now if now is None or before is None else now - before


def _add_billed(before: Billed, now: Billed | None) -> Billed:
    if now is None:
        return before
    return Billed(
        add_counts(before.nanodollars, now.nanodollars),
        add_counts(before.images, now.images),
        add_counts(before.milliseconds, now.milliseconds),
    )


def cap_count(part: int | None, whole: int | None) -> int | None:
    """Return the count of a part, which is no more than the whole: some hosts count wrongly."""
    return part if part is None or whole is None else min(part, whole)


def add_outer_reasoning(tokens_out: int | None, reasoning: int | None) -> int | None:
    """Return the output with reasoning that is more than it, and so cannot be part of it (Vercel)."""
    if tokens_out is None or reasoning is None or reasoning <= tokens_out:
        return tokens_out
    return tokens_out + reasoning


def try_read_usage(read: UsageReader, document: bytes, before: TokenUsage) -> TokenUsage:
    """Read ``document``, or return ``before`` where it is no JSON, is cut off, or has another shape."""
    try:
        return read(document, before)
    except _UNREADABLE:
        return before


def meter_whole(content_type: bytes, read: UsageReader, body: bytes) -> TokenUsage:
    """Return what a dialect's meter would find in a body that is all there and is no stream of events.

    :param read: the dialect's reader of a whole JSON body.
    """
    if not is_json(content_type):
        return NO_USAGE
    if len(body) > MAX_BODY_BYTES:
        body = shorten_piece(body)
        if len(body) > MAX_BODY_BYTES:
            return NO_USAGE
    try:
        return read(body, NO_USAGE)
    except _UNREADABLE:
        return NO_USAGE


@dataclass(slots=True, eq=False, repr=False)
class BlindMeter:
    """Meters a body that says nothing of tokens, such as audio."""

    usage: TokenUsage = NO_USAGE

    def feed(self, data: bytes) -> None:
        """Look away."""

    def finish(self) -> None:
        """Know nothing still."""


@dataclass(slots=True, eq=False, repr=False)
class UnaryMeter:
    """Meters a body that is one JSON document, read when it has ended."""

    read: UsageReader
    max_bytes: int = MAX_BODY_BYTES
    usage: TokenUsage = NO_USAGE
    end: StreamEnd | None = None
    """Takes the document, where a stream was to come."""
    _kept: BodyBuffer = field(default_factory=BodyBuffer)
    _size: int = 0
    """How much is kept."""
    _given_up: bool = False

    def feed(self, data: bytes) -> None:
        """Keep what comes while the body is not too long, but for what is long in it and says nothing."""
        if self._given_up:
            return
        if self.end is None:
            data = shorten_piece(data)
        self._size += len(data)
        if self._size <= self.max_bytes:
            self._kept.append(data)
            return
        self._given_up = True
        self._kept.clear()
        forget_end(self.end)

    def finish(self) -> None:
        """Read the document."""
        if self._size and not self._given_up:
            document = self._kept.take()
            self.usage = try_read_usage(self.read, document, self.usage)
            if self.end is not None and has_mark(self.end, document):
                self.end.read(Event(b"", document))


def _last_end(data: bytes) -> int:
    """Return where the last event of ``data`` has ended; 0 when none has."""
    found = max(data.rfind(b"\n\n"), data.rfind(b"\n\r"), data.rfind(b"\r\r"))
    return found + 2 if found >= 0 else 0


def _first_end(data: bytes) -> int:
    """Return where the first event of ``data`` has ended; 0 when none has."""
    found = [place for pair in (b"\n\n", b"\n\r", b"\r\r") if (place := data.find(pair)) >= 0]
    return min(found) + 2 if found else 0


def _events(data: bytes) -> list[bytes]:
    """Cut ``data`` at each end of an event."""
    if b"\r" not in data:
        return data.split(b"\n\n")
    return [c for a in data.split(b"\n\n") for b in a.split(b"\n\r") for c in b.split(b"\r\r")]


@dataclass(slots=True, eq=False, repr=False)
class EventStreamMeter:
    """Meters a ``text/event-stream``: each event that has ``mark`` in it is read, all else passes by.

    ``mark`` is the begin of the key that usage stands under, with its opening quote.  ``null`` is that key
    with nothing in it, as OpenAI sends it in every chunk but the last.
    """

    read: UsageReader
    mark: bytes = b'"usage"'
    null: bytes = b'"usage":null'
    max_event_bytes: int = MAX_EVENT_BYTES
    usage: TokenUsage = NO_USAGE
    end: StreamEnd | None = None
    """Takes the events that may tell how the stream ends."""
    is_open: bool = False
    """An event has begun that has not ended."""
    _held: bytearray = field(default_factory=bytearray)
    _last: bytes = b""
    """The last byte of the open event, which may be the first half of its end."""
    _skipping: bool = False
    """The open event is too long."""
    _given_up: bool = False
    shape: tuple[bytes, bytes] = _NO_SHAPE
    """What stood before and behind the word of a chunk in which nothing was found."""
    _shapes_left: int = MAX_SHAPES

    def feed(self, data: bytes) -> None:
        """Pass whole events without usage by; look at the others."""
        before, behind = self.shape
        if (
            data.endswith(behind)
            and data.startswith(before)
            and b'"' not in data[len(before) : -len(behind)]
            and not self.is_open
        ):
            return
        if self._given_up:
            return
        if self.is_open or not data.endswith(_WHOLE_EVENTS):
            self._take(data)
        elif not self.finds_nothing(data):
            self._look_at_each(data)

    def finds_nothing(self, data: bytes) -> bool:
        """Whether a piece behind whole events is whole events itself, with nothing in them to look at."""
        if self._given_up:
            return True
        if not data.endswith(_WHOLE_EVENTS):
            return False
        if self.mark in data and data.count(self.mark) != data.count(self.null):
            return False
        if self.end is None:
            return True
        for mark in self.end.marks:
            if mark in data:
                return False
        if self._shapes_left and len(data) <= _MAX_SHAPED_BYTES:
            self._learn_shape(data)
        return True

    def finish(self) -> None:
        """Read the last event even without the blank line that should end it."""
        if self.is_open:
            self._close()

    def _learn_shape(self, data: bytes) -> None:
        """Remember a chunk in which nothing was found, for those that say another word."""
        self._shapes_left -= 1
        word = _WORD.search(data)
        if word is not None:
            self.shape = data[: word.start(1)], data[word.end(1) :]

    def _take(self, data: bytes) -> None:
        if self.is_open and b"\n" not in data and b"\r" not in data:  # a part of one line, so of one document
            self._hold(shorten_piece(data) if len(self._held) > LARGE_EVENT_BYTES else data)
            return
        if self.is_open:
            end = 1 if self._last + data[:1] in (b"\n\n", b"\n\r", b"\r\r") else _first_end(data)
            self._hold(data[:end] if end else data)
            if not end:
                return
            self._close()
            data = data[end:]
        end = _last_end(data)
        if self.mark in data or (self.end is not None and has_mark(self.end, data)):
            self._look_at_each(data[:end])
        self._hold(data[end:].lstrip(b"\r\n"))

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self.is_open = True
        self._last = piece[-1:]
        if self._skipping or len(self._held) + len(piece) > self.max_event_bytes + _MOST_LINE_ENDS:
            self._skipping = True
            self._held.clear()
            forget_end(self.end)
        else:
            self._held += piece

    def _close(self) -> None:
        self._look(bytes(self._held))
        self._held.clear()
        self.is_open = self._skipping = False

    def _look_at_each(self, events: bytes) -> None:
        if len(events) > MAX_LOOKS and self._count_marks(events) > MAX_LOOKS:
            self._given_up = True
            self.usage = NO_USAGE
            self._held.clear()
            forget_end(self.end)
            return
        for event in _events(events):
            if event:
                self._look(event)

    def _count_marks(self, events: bytes) -> int:
        marks = (self.mark,) if self.end is None else (self.mark, *self.end.marks)
        return sum(map(events.count, marks))

    def _look(self, event: bytes) -> None:
        is_metered = self.mark in event and event.count(self.mark) != event.count(self.null)
        end = self.end if self.end is not None and has_mark(self.end, event) else None
        if not is_metered and end is None:
            return
        event = event.strip(b"\r\n")
        if len(event) > self.max_event_bytes:
            forget_end(end)
            return
        lines = event.splitlines()
        document = b"\n".join([line[5:] for line in lines if line.startswith(b"data:")])
        if is_metered:
            self.usage = try_read_usage(self.read, document, self.usage)
        if end is not None:
            if not document and event.startswith(_BARE):  # an error may stand without a field
                document = event
            end.read(Event(_name_of(lines) if b"event:" in event else b"", document))


def has_mark(end: StreamEnd, data: bytes) -> bool:
    """Whether something in these bytes may tell how the stream ends."""
    for mark in end.marks:  # noqa: SIM110  each step of a generator is a call
        if mark in data:
            return True
    return False


def forget_end(end: StreamEnd | None) -> None:
    """Note that something passes that cannot be shown."""
    if end is not None:
        end.is_unknown = True


def _name_of(lines: list[bytes]) -> bytes:
    """Return the type of an event."""
    names = [line[6:].removeprefix(b" ") for line in lines if line.startswith(b"event:")]
    return names[-1] if names else b""


def meter_of(
    content_type: bytes, read: UsageReader, end: StreamEnd | None = None
) -> BlindMeter | UnaryMeter | EventStreamMeter:
    """Return the meter for a response of ``content_type`` whose usage stands under ``usage``."""
    if is_event_stream(content_type):
        return EventStreamMeter(read, end=end)
    if is_json(content_type):
        return UnaryMeter(read, end=end)
    forget_end(end)
    return BlindMeter()
