"""A stream that was asked for its usage in the client's place, which gets it as it would have been.

The meter sees all of the provider's bytes.  What was added for it is taken out behind the meter: an event
that has begun waits for its end, so that a stream which breaks within an event breaks before it.

Source: contract 5.8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mgw.dialects.dialect import ChunkRemover
from mgw.exchange.outer_filter import OuterFilter

OF_BYTES: Final = frozenset({b"content-length", b"etag", b"digest", b"content-digest", b"content-md5"})
"""Headers that speak of the very bytes of a body."""
_LINES_OF_BYTES: Final = re.compile(
    rb"^(?:%b):[^\r\n]*\r\n" % b"|".join(sorted(OF_BYTES)), re.IGNORECASE | re.MULTILINE
)


def without_lines_of_bytes(lines: bytes) -> bytes:
    """Return the header lines of a body that is changed."""
    return _LINES_OF_BYTES.sub(b"", lines)


@dataclass(slots=True, eq=False, repr=False)
class MeteredStreamFilter(OuterFilter):
    """Hands a stream to the filter that it would have had, and takes out what was added."""

    _remover: ChunkRemover

    @property
    def sent_last_event(self) -> bool:
        """Whether what was returned ends with the last event."""
        return self.inner.sent_last_event and not self._remover.is_open

    def feed(self, data: bytes) -> bytes:
        """Return what passes; the same object where nothing has to be looked at."""
        return self._remover.feed(self.inner.feed(data))

    def finish(self) -> bytes:
        """Return what is left."""
        rest = self.inner.finish()
        before = self._remover.feed(rest) if rest else b""
        return before + self._remover.finish()

    def keepalive(self) -> bytes:
        """Return what may stand between two events."""
        return b"" if self._remover.is_open else self.inner.keepalive()
