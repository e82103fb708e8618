"""Where the body of a request ends (RFC 9112, 6 and 7).

The two readers share one shape: ``feed`` takes the next bytes and returns the content in them and what stands
behind the body, ``ended`` says that it is over.  They never take a byte beyond the body, which is why chunks
are read here and not by ``httptools``: that parser runs on into the next message and does not say where it
began.

A chunked body is lines and content in turn.  A line ends with CRLF and nothing else; extensions and trailers
are checked, counted and dropped::

    SIZE ──"5;ext"──> content ──> CHUNK_END ──""──> SIZE
      └────"0"──> TRAILER ──"name: value"──> TRAILER ──""──> ended
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from mgw.web.head import RequestHead, malformed

MAX_CHUNK_EXTRAS: Final = 8 * 1024
"""The most bytes that the extensions and trailers of one body may have together."""

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*+"'  # RFC 9110 5.6.4
_BLANKS: Final = rb"[\t ]*+"
_EXTENSION: Final = rb"%(b)b;%(b)b%(t)b(?:%(b)b=%(b)b(?:%(t)b|%(q)b))?" % {
    b"b": _BLANKS,
    b"t": _TOKEN,
    b"q": _QUOTED,
}
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:%b)*+" % _EXTENSION)  # RFC 9112 7.1.1
_TRAILER_LINE: Final = re.compile(rb"%b:[\t -~\x80-\xff]*" % _TOKEN)


class _Expected(Enum):
    """What the next line of a chunked body has to be."""

    SIZE = auto()
    CHUNK_END = auto()
    TRAILER = auto()


class CountedBody:
    """A body of a length that is known."""

    __slots__ = ("_left", "ended")

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Take the next bytes; return the content in them, and what stands behind the body."""
        left = self._left
        self._left = max(0, left - len(data))
        self.ended = not self._left
        return data[:left], data[left:]


class ChunkedBody:
    """A body in chunks, in the states that the module describes."""

    __slots__ = ("_expected", "_extras", "_held", "_left", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._expected = _Expected.SIZE
        self._left = 0
        self._held = b""
        self._extras = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Take the next bytes; return the content in them, and what stands behind the body.

        :raises GatewayError: ``MALFORMED``; what the same bytes held before the fault is not returned.
        """
        found: list[bytes] = []
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                content = data[at : at + self._left]
                self._left -= len(content)
                at += len(content)
                found.append(content)
            else:
                at = self._collect(data, at)
        return b"".join(found), data[at:]

    def _collect(self, data: bytes, at: int) -> int:
        """Take from the line at ``at``; return where it ends."""
        end = data.find(b"\n", at) + 1
        self._held += data[at:end] if end else data[at:]
        if len(self._held) > MAX_CHUNK_EXTRAS:
            raise malformed("a line between chunks is too long")
        if not end:
            return len(data)
        line, self._held = self._held, b""
        if line[-2:] != b"\r\n":
            raise malformed("a line between chunks ends with a bare line feed")
        self._take(line[:-2])
        return end

    def _take(self, line: bytes) -> None:
        """Go from one state to the next."""
        if self._expected is _Expected.SIZE:
            match = _SIZE_LINE.fullmatch(line)
            if match is None:
                raise malformed("a chunk does not begin with its size")
            self._left = int(match[1], 16)
            self._extras += len(line) - len(match[1])
            self._expected = _Expected.CHUNK_END if self._left else _Expected.TRAILER
        elif self._expected is _Expected.CHUNK_END:
            if line:
                raise malformed("a chunk is longer than it says")
            self._expected = _Expected.SIZE
        elif not line:
            self.ended = True
        elif _TRAILER_LINE.fullmatch(line) is None:
            raise malformed("a trailer is not a header line")
        else:
            self._extras += len(line)
        if self._extras > MAX_CHUNK_EXTRAS:
            raise malformed("the chunk extensions and trailers are too long")


def body_of(head: RequestHead) -> CountedBody | ChunkedBody | None:
    """Return the reader of a request's body, if there is one."""
    if not head.has_body:
        return None
    return ChunkedBody() if head.content_length is None else CountedBody(head.content_length)
