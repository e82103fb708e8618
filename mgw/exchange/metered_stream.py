"""A stream that was asked for its usage in the client's place, which gets it as it would have been.

The meter sees all of the provider's bytes.  What was added for it is taken out behind the meter: an event
that has begun waits for its end, so that a stream which breaks within an event breaks before it.

Source: contract 5.8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import ChunkRemover
from mgw.exchange.chunk_lane import EventLookers
from mgw.exchange.passing_filters import PassthroughFilter
from mgw.exchange.received import Fault
from mgw.nouns.errors import GatewayError

OF_BYTES: Final = frozenset({b"content-length", b"etag", b"digest", b"content-digest", b"content-md5"})
"""Headers that speak of the very bytes of a body."""
_LINES_OF_BYTES: Final = re.compile(
    rb"^(?:%b):[^\r\n]*\r\n" % b"|".join(sorted(OF_BYTES)), re.IGNORECASE | re.MULTILINE
)


def without_lines_of_bytes(lines: bytes) -> bytes:
    """Return the header lines of a body that is changed."""
    return _LINES_OF_BYTES.sub(b"", lines)


@dataclass(slots=True, eq=False, repr=False)
class MeteredStreamFilter:
    """Hands a stream to the filter that it would have had, and takes out what was added."""

    _inner: PassthroughFilter
    _remover: ChunkRemover

    @property
    def ended(self) -> bool:
        """Whether the provider has sent its last event."""
        return self._inner.ended

    @property
    def finished(self) -> bool:
        """Whether the last word has been said."""
        return self._inner.finished

    @property
    def complete(self) -> bool:
        """Whether nothing is missing if the provider's body breaks now."""
        return self._inner.complete

    @property
    def sent_last_event(self) -> bool:
        """Whether what was returned ends with the last event."""
        return self._inner.sent_last_event and not self._remover.is_open

    def feed(self, data: bytes) -> bytes:
        """Return what passes; the same object where nothing has to be looked at."""
        return self._remover.feed(self._inner.feed(data))

    def finish(self) -> bytes:
        """Return what is left."""
        rest = self._inner.finish()
        before = self._remover.feed(rest) if rest else b""
        return before + self._remover.finish()

    def fail(self, error: GatewayError) -> bytes | None:
        """Let the inner filter have the last word; an event that has only begun is not sent."""
        return self._inner.fail(error)

    def fault(self) -> Fault | None:
        """Return what the stream says went wrong."""
        return self._inner.fault()

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._inner.usage()

    def keepalive(self) -> bytes:
        """Return what may stand between two events."""
        return b"" if self._remover.is_open else self._inner.keepalive()

    def event_lookers(self) -> EventLookers | None:
        """Nobody: something is taken out."""
        return None
