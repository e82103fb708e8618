"""Where a chunked body ends (RFC 9112, 7).

The reader of requests never takes a byte beyond the body, which is why chunks are read here and not by
``httptools``: that parser runs on into the next message and does not say where it began.  It also refuses
blanks around the parts of a chunk extension, which are valid (``; a=b``), so the chunks of responses are read
here too.

A chunked body is lines and content in turn.  A line ends with CRLF and nothing else; extensions and trailers
are checked and dropped.  In a request they are also counted; in a response the caller sees that no content
comes::

    SIZE ──"5;ext"──> content ──> CHUNK_END ──""──> SIZE
      └────"0"──> TRAILER ──"name: value"──> TRAILER ──""──> ended
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from mgw.http.request_head import malformed

MAX_CHUNK_EXTRAS: Final = 8 * 1024
"""The most bytes that the extensions and trailers of one request body may have together."""

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*+"'  # RFC 9110 5.6.4
_EXTENSION: Final = rb"[\t ]*+;[\t ]*+%b(?:[\t ]*+=[\t ]*+(?:%b|%b))?" % (_TOKEN, _TOKEN, _QUOTED)
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:%b)*+" % _EXTENSION)  # RFC 9112 7.1.1
_TRAILER_LINE: Final = re.compile(rb"%b:[\t -~\x80-\xff]*+" % _TOKEN)
_SIZE_LINE_WITH_END: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:%b)*+\r\n" % _EXTENSION)
_TRAILER_LINE_WITH_END: Final = re.compile(_TRAILER_LINE.pattern + rb"\r\n")
_LINE_END: Final = b"\r\n"


class _Expected(Enum):
    """What the next line of a chunked body has to be."""

    SIZE = auto()
    CHUNK_END = auto()
    TRAILER = auto()


class ChunkedRequestBody:
    """A request body in chunks, in the states that the module describes."""

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
            self._left = int(match[1], 16)  # at most 16 digits: a server that counts in 64 bits agrees
            self._extras += len(line) - len(match[1])
            self._expected = _Expected.CHUNK_END if self._left else _Expected.TRAILER
        elif self._expected is _Expected.CHUNK_END:
            if line:
                raise malformed("a chunk is longer than its stated size")
            self._expected = _Expected.SIZE
        elif not line:
            self.ended = True
        elif _TRAILER_LINE.fullmatch(line) is None:
            raise malformed("a trailer is not a header line")
        else:  # RFC 9110 6.5.1: dropped, as a trailer could pass for a header that nobody has checked
            self._extras += len(line)
        if self._extras > MAX_CHUNK_EXTRAS:
            raise malformed("the chunk extensions and trailers are too long")


class ChunkedResponseBody:
    """A response body in chunks.

    Content goes to ``pieces``; ``ended`` says that the body is over, ``fault`` why it cannot be read, and
    ``rest`` is what stands behind the body, once it has ended.
    """

    __slots__ = ("_held", "_in_trailer", "_left", "_pieces", "at_chunk", "ended", "fault", "rest")

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        """The beginning of a line that has not ended."""
        self._left = 0
        """How many bytes of a chunk are left, its line end included."""
        self._in_trailer = False
        self.at_chunk = False
        """Whether a chunk has ended, and nothing has come behind it."""
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
            whole = None if self._held or self._in_trailer else _SIZE_LINE_WITH_END.match(data, at)
            if whole is None:
                at = self._take_line(data, at)
                continue
            at = whole.end()
            self._begin_chunk(int(whole[1], 16))
            stop = at + self._left
            if self._left and data[stop - 2 : stop] == _LINE_END and stop <= size:  # as nearly always
                self._pieces.append(data[at : stop - 2])
                self._left, at = 0, stop
        self.at_chunk = not (self._left or self._held or self._in_trailer)

    def _begin_chunk(self, size: int) -> None:
        self._in_trailer = not size
        self._left = size + len(_LINE_END) if size else 0

    def _take_content(self, data: bytes, at: int) -> int:
        """Take from the chunk, then from the line end behind it; return where that ends."""
        content = self._left - len(_LINE_END)
        if content > 0:
            found = data[at : at + content]
            self._pieces.append(found)
        else:
            found = data[at : at + self._left]
            if not _LINE_END[-self._left :].startswith(found):
                self.fault = "sent a chunk that is longer than its stated size"
        self._left -= len(found)
        return at + len(found)

    def _take_line(self, data: bytes, at: int) -> int:
        """Take from a line that came in pieces, or is not in one; return where it ends."""
        end = data.find(b"\n", at) + 1
        if not end:
            self._held += data[at:]
            return len(data)
        line, self._held = self._held + data[at:end], b""
        if not self._in_trailer:
            begun = _SIZE_LINE_WITH_END.fullmatch(line)
            if begun is None:
                self.fault = "sent a chunk that does not begin with its size"
            else:
                self._begin_chunk(int(begun[1], 16))
        elif line == _LINE_END:
            self.ended = True
        elif _TRAILER_LINE_WITH_END.fullmatch(line) is None:
            self.fault = "sent a trailer that is not a header line"
        return end
