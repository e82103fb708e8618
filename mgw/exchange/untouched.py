"""What a same-family answer walks through: the very same bytes come out, and a meter looks at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Meter
from mgw.dialects.last_event import LastEvent
from mgw.dialects.metering import BlindMeter
from mgw.errors import GatewayError
from mgw.secret import Secret, overwritten
from mgw.wire.encodings import Gunzip

MAX_ERROR_BYTES: Final = 64 * 1024
"""A longer body is no error's, and passes byte for byte."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END: Final = 4


@dataclass(slots=True)
class PassthroughFilter:
    """Give back the very same bytes, and let the meter look at them."""

    _meter: Meter
    _gunzip: Gunzip | None = field(default=None)
    _last_event: LastEvent | None = field(default=None)
    """For a stream."""
    done: bool = False
    """Never before its body has: the client gets what the provider sends."""
    whole: bool = False
    """Nor is anything known of what is missing."""

    def feed(self, data: bytes) -> bytes:
        """Return the same object."""
        text = data if self._gunzip is None else self._unzipped(data)
        self._meter.feed(text)
        if text and self._last_event is not None:
            self._last_event.feed(text)
        return data

    @property
    def handed_all(self) -> bool:
        """Whether the stream has had its last event; unknown, and so not, where it cannot be read."""
        return self._last_event is not None and self._last_event.passed

    def _unzipped(self, data: bytes) -> bytes:
        """Return what the meter is to see; one that has missed some knows nothing (contract 5.8)."""
        assert self._gunzip is not None, "the body is zipped"
        unzipped = self._gunzip.feed(data)
        if self._gunzip.given_up:
            self._meter = BlindMeter()
        return unzipped

    def finish(self) -> bytes:
        """Nothing is held back."""
        self._meter.finish()
        return b""

    def fail(self, error: GatewayError) -> bytes | None:  # noqa: ARG002  the interface's
        """A broken answer ends as a broken connection: the bytes are the upstream's, not ours to end."""
        self._meter.finish()
        return None

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._meter.usage

    def keepalive(self) -> bytes:
        """Add nothing to the provider's bytes."""
        return b""


@dataclass(slots=True)
class ErrorFilter(PassthroughFilter):
    """The same for an error, but for the operator's own credential, where the provider repeats it.

    The body waits for its end, or until it is too long for an error: from then on it passes as it comes.
    Each byte of the credential becomes a ``*``, so that the length stays what the head says.
    Source: contract 6.10.
    """

    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    _held: list[bytes] = field(default_factory=list, repr=False)
    _room: int = MAX_ERROR_BYTES

    def feed(self, data: bytes) -> bytes:
        """Hold the bytes back while they may be all of a short error."""
        PassthroughFilter.feed(self, data)
        if self._room < 0:
            return data
        self._held.append(data)
        self._room -= len(data)
        return b"" if self._room >= 0 else self._released()

    def finish(self) -> bytes:
        """Return the error without the credential."""
        PassthroughFilter.finish(self)
        return overwritten(self._released(), self.secrets) if self._held else b""

    def _released(self) -> bytes:
        held, self._held = b"".join(self._held), []
        return held


@dataclass(slots=True)
class PunctuatedFilter(PassthroughFilter):
    """The same for an event stream, with signs of life between its events where the operator wants them."""

    sign: bytes = b""
    _tail: bytes = b"\n\n"

    def feed(self, data: bytes) -> bytes:
        """Return the same object, and remember how it ended."""
        self._tail = data[-4:] if len(data) >= _LONGEST_END else (self._tail + data)[-4:]
        return PassthroughFilter.feed(self, data)

    def keepalive(self) -> bytes:
        """Return the sign where the last event has ended (contract 2.14: between events only)."""
        return self.sign if self._tail.endswith(_EVENT_ENDS) else b""
