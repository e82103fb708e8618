"""What a response says of the origin of the web page that asked: whether the page may read it.

Source: the Fetch standard, 3.3 (CORS protocol).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from mgw.wire.headers import RawHeaders

_OWN_PREFIX: Final = b"access-control-"
_replace_own: Final = re.compile(rb"(?im)^access-control-[^\n]*\n").sub


class CorsHeaders(Struct, frozen=True):
    """What the responses to one origin say of it."""

    pairs: RawHeaders
    lines: bytes
    """The same as lines."""

    @classmethod
    def of(cls, pairs: RawHeaders) -> CorsHeaders:
        """Return these headers."""
        return cls(pairs, b"".join([b"%b: %b\r\n" % pair for pair in pairs]))

    def add_to(self, headers: RawHeaders) -> RawHeaders:
        """Return the headers of a response with these, in place of a provider's."""
        return [pair for pair in headers if not pair[0].lower().startswith(_OWN_PREFIX)] + self.pairs

    def add_to_lines(self, lines: bytes) -> bytes:
        """Return the lines of a provider's response with these, in place of its own."""
        return _replace_own(b"", lines) + self.lines
