"""Read a body in chunks, with all that RFC 9112 7.1 lets a sender write between them.

The parser of answers refuses blanks around the parts of a chunk extension, which are valid (``; a=b``), so
chunks are read here.  Extensions and trailers are checked and dropped; how long they may be is the caller's
business, who sees that no content comes.

::

    LINE ──"5;ext"──> content ──CRLF──> LINE
     └───"0"──> TRAILER ──"name: value"──> TRAILER ──""──> ended
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*+"'
_EXTENSION: Final = rb"[\t ]*;[\t ]*+%b(?:[\t ]*=[\t ]*+(?:%b|%b))?+" % (_TOKEN, _TOKEN, _QUOTED)
_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:%b)*+\r\n" % _EXTENSION)
_TRAILER: Final = re.compile(rb"%b:[\t -~\x80-\xff]*+\r\n" % _TOKEN)
_END: Final = b"\r\n"


class ChunkedReader:
    """Feed it bytes; content goes to ``pieces``, and ``ended``, ``fault`` and ``rest`` say how it went.

    ``rest`` is what stands behind the body, once it has ended.
    """

    __slots__ = ("_held", "_in_trailer", "_left", "_pieces", "ended", "fault", "rest")

    def __init__(self, pieces: deque[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        """The begin of a line that has not ended."""
        self._left = 0
        """Of a chunk, its line end included."""
        self._in_trailer = False
        self.ended = False
        self.fault: str | None = None
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Read on."""
        at, size = 0, len(data)
        while at < size and self.fault is None:
            if self.ended:
                self.rest = data[at:]
                return
            if self._left:
                at = self._take_content(data, at)
                continue
            whole = None if self._held or self._in_trailer else _LINE.match(data, at)
            if whole is None:
                at = self._take_line(data, at)
                continue
            at = whole.end()
            self._begin_chunk(int(whole[1], 16))
            stop = at + self._left
            if self._left and data[stop - 2 : stop] == _END and stop <= size:  # as nearly always
                self._pieces.append(data[at : stop - 2])
                self._left, at = 0, stop

    def _begin_chunk(self, size: int) -> None:
        self._in_trailer = not size
        self._left = size + len(_END) if size else 0

    def _take_content(self, data: bytes, at: int) -> int:
        """Take from the chunk, then from the line end behind it; return where that ends."""
        content = self._left - len(_END)
        if content > 0:
            found = data[at : at + content]
            self._pieces.append(found)
        else:
            found = data[at : at + self._left]
            if not _END[-self._left :].startswith(found):
                self.fault = "sent a chunk that is longer than it says"
        self._left -= len(found)
        return at + len(found)

    def _take_line(self, data: bytes, at: int) -> int:
        """Take from a line that came in pieces, or is no plain one; return where it ends."""
        end = data.find(b"\n", at) + 1
        if not end:
            self._held += data[at:]
            return len(data)
        line, self._held = self._held + data[at:end], b""
        if not self._in_trailer:
            begun = _LINE.fullmatch(line)
            if begun is None:
                self.fault = "sent a chunk that does not begin with its size"
            else:
                self._begin_chunk(int(begun[1], 16))
        elif line == _END:
            self.ended = True
        elif _TRAILER.fullmatch(line) is None:
            self.fault = "sent a trailer that is not a header line"
        return end
