"""A provider's stream in, the client's stream out: the filter for translated streams.

What an answer begins with may be held back, since an error behind it can still lead to another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from mgw.canonical.reply import Began, Broke, Counted, Ended, ReplyEvent, TokenUsage, UpstreamError
from mgw.dialects.last_event import LastEvent
from mgw.dialects.refusal import UNREADABLE_EVENT, AnswerError
from mgw.dialects.stream import StreamReader, StreamWriter, incomplete
from mgw.dialects.tool_names import restore_names_in_events
from mgw.exchange.chunk_lane import EventLookers
from mgw.exchange.received import Fault, stream_error
from mgw.nouns.errors import Cause, GatewayError, Reason

OnUnknownStop = Callable[[str], None]
"""Takes a stop reason that nobody knows."""

SILENT_EVENTS: Final = frozenset[type]({Began, Counted})
"""Events that say nothing of the answer yet."""
NO_EVENTS: Final = frozenset[type]()
MAX_HELD: Final = 64 * 1024
"""How much of a provider's stream is read that says nothing before its head goes out all the same."""


@dataclass(slots=True, eq=False, repr=False)
class StreamFilter:
    """A provider's stream in, the client's stream out; the reader is the meter."""

    _reader: StreamReader
    _writer: StreamWriter
    _names: Mapping[str, str]
    _on_unknown_stop: OnUnknownStop
    _redact: Callable[[str], str]
    _last_event: LastEvent
    _silent: Set[type] = NO_EVENTS
    """Events behind which the stream is still held back."""
    _held: list[bytes] = field(default_factory=list)
    """What was written of those."""
    _held_bytes: int = 0
    """How many bytes of the provider's were read for them."""
    _unsent: bytes = b""
    """What came in one piece with the error that ended the stream."""
    error: UpstreamError | None = None
    """The provider's own error, where it ended the stream."""
    candidates: int = 1
    """How many were asked for."""
    needs_end: bool = False
    """Whether nothing less than the provider's last event completes the stream: its host sends it in frames,
    and says where they end."""
    ended: bool = False
    """Whether the provider's stream has had its last event."""
    finished: bool = False
    """Whether the last word of the last candidate has been said."""
    _has_words: bool = False
    """Something has come that is neither an error nor one of those."""

    @property
    def complete(self) -> bool:
        """Whether all of the response is there."""
        has_all = self.ended or (not self.needs_end and (self.finished or self.candidates == 1))
        return has_all and self.error is None and self._reader.complete

    @property
    def sent_last_event(self) -> bool:
        """Whether the client's stream has had its last event."""
        return self._last_event.passed

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete, in the client's grammar.

        :raises GatewayError: ``UPSTREAM_BROKEN``.
        """
        reader = self._reader
        events = reader.feed(data)
        self.ended = reader.ended
        translated = self._translate(events)
        self.finished = reader.finished >= self.candidates
        if not self._has_words:
            return self._hold(translated, len(data))
        if self._held:
            translated = self._release(translated)
        if translated:
            self._last_event.feed(translated)
        return translated

    def _hold(self, translated: bytes, size: int) -> bytes:
        """Keep what says nothing, while there is not too much of it."""
        if translated:
            self._held.append(translated)
        self._held_bytes += size
        return self.let_go() if self._silent and self._held_bytes > MAX_HELD else b""

    def let_go(self) -> bytes:
        """Hold nothing any more; return what was held."""
        self._has_words = True
        released = self._release(b"")
        if released:
            self._last_event.feed(released)
        return released

    def _release(self, behind: bytes) -> bytes:
        held, self._held = self._held, []
        return b"".join([*held, behind])

    def finish(self) -> bytes:
        """Return the end of the stream.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where the provider's stream stopped before its end.
        """
        if self.needs_end and not self.ended:
            raise incomplete()
        translated = self._translate(self._reader.finish())
        return self._check(self._release(translated) + self._writer.finish())

    def fail(self, error: GatewayError) -> bytes | None:
        """Return what shows the client that its stream broke: never a clean end."""
        unsent, self._unsent = self._unsent, b""
        said: GatewayError | UpstreamError = error
        if self.error is not None:
            said = self.error
        elif isinstance(error, AnswerError):  # the host said it in a form of its own
            said = replace(error.error, message=self._redact(error.error.message))
        return self._release(unsent) + self._writer.fail(said)

    def fault(self) -> Fault | None:
        """Nothing: what goes wrong is raised."""
        return None

    def awaits_words(self) -> bool:
        """Whether the provider has said nothing yet but perhaps why it fails."""
        return not self._has_words

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._reader.usage

    def keepalive(self) -> bytes:
        """Return a keep-alive; what was written ends with a whole event, so one may always follow."""
        return self._writer.keepalive()

    def event_lookers(self) -> EventLookers | None:
        """Nobody: none passes as it came."""
        return None

    def _translate(self, events: list[ReplyEvent]) -> bytes:
        if self._names:
            events = restore_names_in_events(events, self._names)
        for event in events:
            if type(event) is Ended:
                if event.unknown_stop is not None:
                    self._on_unknown_stop(event.unknown_stop)
            elif type(event) is Broke:
                before = events[: events.index(event)]
                if self._has_words or any(type(one) not in SILENT_EVENTS for one in before):
                    self._has_words = True
                    self._unsent = self._writer.write(before)
                self.error = replace(event.error, message=self._redact(event.error.message))
                raise _error_of(event)
        if not self._has_words:
            self._has_words = any(type(one) not in self._silent for one in events)
        translated = self._writer.write(events)
        return self._check(translated) if self._writer.broken else translated

    def _check(self, translated: bytes) -> bytes:
        if self._writer.broken:
            self._unsent = translated
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response cannot be translated")
        return translated


def _error_of(event: Broke) -> GatewayError:
    if event == UNREADABLE_EVENT:
        return GatewayError(Reason.UPSTREAM_BROKEN, event.error.message).because(Cause.UNREADABLE)
    return stream_error(event.error)
