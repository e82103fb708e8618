"""What looks at the bodies of responses that pass as they come: meters, ends of streams, and errors.

A stream that comes out of a host's frames passes so, too, but for its end: where it breaks, an error event
says so, as the models' own vendor would have said it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Meter
from mgw.dialects.last_event import LastEvent
from mgw.dialects.metering import BlindMeter, EventStreamMeter
from mgw.dialects.stream import incomplete
from mgw.dialects.stream_end import StreamEnd
from mgw.exchange.chunk_lane import EventLookers
from mgw.exchange.received import Fault, stream_error
from mgw.exchange.refusals import RefusalMeter
from mgw.nouns.errors import Cause, GatewayError
from mgw.nouns.secret import Secret, overwritten
from mgw.wire.encodings import Gunzip

MAX_ERROR_BYTES: Final = 64 * 1024
"""A longer body is no error's, and passes byte for byte."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


@dataclass(slots=True, eq=False, repr=False)
class PassthroughFilter:
    """Give back the very same bytes, and let the meter look at them."""

    _meter: Meter
    _gunzip: Gunzip | None = field(default=None)
    _last_event: LastEvent | None = field(default=None)
    """The search for the last event of a stream."""
    _end: StreamEnd | None = field(default=None)
    """The end of a stream of which it is known how it should end; the meter shows it what there is."""
    ended: bool = False
    """Always false before the body has ended: the client gets what the provider sends."""
    finished: bool = False
    """Whether the last word has passed."""
    _body_ended: bool = False
    _refusal: RefusalMeter | None = None
    """The meter, where the body is an error's and is looked at."""

    def feed(self, data: bytes) -> bytes:
        """Return the same object."""
        text = data if self._gunzip is None else self._unzip(data)
        self._meter.feed(text)
        last_event, end = self._last_event, self._end
        if text and last_event is not None:
            last_event.feed(text)
            if end is not None:
                if self.finished:
                    end.look_behind(text)
                has_ended = last_event.passed and not last_event.went_on
                self.finished = has_ended or (end.complete and not end.went_on)
        return data

    @property
    def complete(self) -> bool:
        """Whether nothing is missing; unknown, and so not, where the stream cannot be read."""
        has_ended = self._end is not None and self._end.complete
        return has_ended or (self._last_event is not None and self._last_event.passed)

    @property
    def sent_last_event(self) -> bool:
        """Whether the stream has had its last event, be it an error; not, where it cannot be read."""
        has_failed = self._end is not None and self._end.error is not None
        return has_failed or (self._last_event is not None and self._last_event.passed)

    def fault(self) -> Fault | None:
        """Return the provider's own error that has passed, or that the stream ended too early."""
        if self._refusal is not None:
            return self._refusal.fault()
        end = self._end
        if end is None:
            return None
        if end.error is not None:
            return Fault(stream_error(end.error), end.error.status)
        if self._body_ended and not (self.complete or end.is_unknown):
            error = incomplete().because(Cause.TRUNCATED)
            return Fault(error, error.status)
        return None

    def _unzip(self, data: bytes) -> bytes:
        """Return what the meter is to see; one that has missed some knows nothing (contract 5.8)."""
        assert self._gunzip is not None, "the body is zipped"
        unzipped = self._gunzip.feed(data)
        if self._gunzip.given_up:
            self._meter = BlindMeter()
            self._end = None
        return unzipped

    def finish(self) -> bytes:
        """Nothing is held back."""
        self._meter.finish()
        self._body_ended = True
        return b""

    def fail(self, error: GatewayError) -> bytes | None:  # noqa: ARG002  the interface's
        """A broken response ends as a broken connection: the bytes are the upstream's, not ours to end."""
        self._meter.finish()
        return None

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._meter.usage

    def keepalive(self) -> bytes:
        """Add nothing to the provider's bytes."""
        return b""

    def event_lookers(self) -> EventLookers | None:
        """Return the two, where the stream is one of events that can be read."""
        meter, last_event = self._meter, self._last_event
        if self._gunzip is not None or last_event is None or not isinstance(meter, EventStreamMeter):
            return None
        return meter, last_event


@dataclass(slots=True, eq=False, repr=False)
class ErrorFilter(PassthroughFilter):
    """The same for an error, but for the operator's own credential, where the provider repeats it.

    The body waits for its end, or until it is too long for an error: from then on it passes as it comes.
    Each byte of the credential becomes a ``*``, so that the length stays what the head says.
    Source: contract 6.10.
    """

    secrets: tuple[Secret, ...] = ()
    _held: list[bytes] = field(default_factory=list)
    _room: int = MAX_ERROR_BYTES

    def feed(self, data: bytes) -> bytes:
        """Hold the bytes back while they may be all of a short error."""
        PassthroughFilter.feed(self, data)
        if self._room < 0:
            return data
        self._held.append(data)
        self._room -= len(data)
        return b"" if self._room >= 0 else self._release()

    def finish(self) -> bytes:
        """Return the error without the credential."""
        PassthroughFilter.finish(self)
        return overwritten(self._release(), self.secrets) if self._held else b""

    def event_lookers(self) -> EventLookers | None:
        """Nobody: it is held back."""
        return None

    def _release(self) -> bytes:
        held, self._held = b"".join(self._held), []
        return held


@dataclass(slots=True, eq=False, repr=False)
class KeepaliveFilter(PassthroughFilter):
    """The same for an event stream, with keep-alives between its events where the operator wants them."""

    keepalive_bytes: bytes = b""

    def keepalive(self) -> bytes:
        """Return a keep-alive where the last event has ended (contract 2.14: between events only)."""
        last_event = self._last_event
        may_stand = last_event is not None and last_event.tail.endswith(_EVENT_ENDS)
        return self.keepalive_bytes if may_stand else b""


def _no_error(_: GatewayError) -> bytes:
    return b""


@dataclass(slots=True, eq=False, repr=False)
class UnframedFilter(KeepaliveFilter):
    """The same for a stream that came in frames, whose end is ours to write."""

    write_error: Callable[[GatewayError], bytes] = _no_error
    """Returns the event that ends a stream which broke."""

    @property
    def complete(self) -> bool:
        """Whether the last event has passed: nothing less shows an SDK that it has all."""
        return self._last_event is not None and self._last_event.passed

    def finish(self) -> bytes:
        """Nothing is held back.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where the last event has not passed.
        """
        if not self.sent_last_event:
            raise incomplete()
        return PassthroughFilter.finish(self)

    def fail(self, error: GatewayError) -> bytes | None:
        """End the stream with an error event."""
        self._meter.finish()
        return self.write_error(error)
