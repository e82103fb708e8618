"""Read one response of an upstream from bytes that arrive in any pieces (RFC 9112; the parser is Node.js's).

One :class:`ResponseReader` reads one response; chunks are read by :mod:`mgw.http.body`.  Strict, without
any of the parser's leniencies; what the parser lets pass and a gateway must not is refused here: other
protocols and versions, transfer codings other than ``chunked``, and an endless head, trailer or chunk
extension.

Framing, in the order of RFC 9112 6.3: no body for HEAD, 1xx, 204 and 304; chunked; Content-Length; else all
until the connection closes, which :meth:`ResponseReader.on_close` knows.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

from mgw.http.body import ChunkedResponseBody
from mgw.wire.headers import RawHeaders

MAX_HEAD_BYTES: Final = 64 * 1024
NOT_HTTP: Final = "sent something that is not HTTP"
_PROTOCOL: Final = b"HTTP/"
_HEAD_END: Final = b"\r\n\r\n"
_NO_PHRASE: Final = re.compile(rb"[^\t -~\x80-\xff]").search  # RFC 9112 4


class _UnreadableError(Exception):
    """Raised within the parser's callbacks; its text says what is wrong with the response."""


class ResponseHead(Struct, frozen=True):
    """The final head of a response: names and order as received."""

    status: int
    reason: bytes
    headers: RawHeaders


class ResponseReader:
    """Read one response: feed it bytes, then look at ``head``, ``pieces``, ``ended`` and ``fault``.

    ``pieces`` holds what was read of the body and not taken out.  ``fault`` says why the response is
    unreadable, once it is; pieces read before it stay.  ``reusable`` is true when another request may follow
    on the connection.  Interim responses (1xx) are skipped.
    """

    __slots__ = (
        "_chunked",
        "_chunks",
        "_headers",
        "_headless_bytes",
        "_length_known",
        "_method",
        "_parser",
        "_reason",
        "_seen",
        "_tail",
        "ended",
        "fault",
        "head",
        "on_body",
        "on_status",
        "pieces",
        "reusable",
    )

    def __init__(self, method: bytes) -> None:
        self._method = method
        self._headers: RawHeaders = []
        self._reason: list[bytes] = []
        self._seen = b""
        self._tail = b""
        """The last bytes of a head that has not ended, in which its end may have begun."""
        self._chunks: ChunkedResponseBody | None = None
        self._headless_bytes = 0
        self._chunked = self._length_known = False
        self.head: ResponseHead | None = None
        self.pieces: deque[bytes] = deque()
        self.ended = self.reusable = False
        self.fault: str | None = None
        self.on_body = self.pieces.append
        self.on_status = self._reason.append
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    @property
    def began(self) -> bool:
        """Whether any byte of the response has come."""
        return bool(self._seen)

    def feed(self, data: bytes) -> None:
        """Read on; bytes after the end, or after a fault, only make the connection unfit for reuse."""
        if self._parser is None and self._chunks is None:
            self.reusable = False
            return
        if len(self._seen) < len(_PROTOCOL):
            self._seen += data[: len(_PROTOCOL) - len(self._seen)]
            if not _PROTOCOL.startswith(self._seen):  # the parser takes RTSP and ICE, and leading line breaks
                self._stop(NOT_HTTP)
                return
        rest = data
        while self.head is None and rest and self._parser is not None:
            rest = self._parse_head(rest)
        if self._chunks is not None:
            self._read_chunks(self._chunks, rest)
        elif rest:
            self._parse(rest)
        if self.ended:
            self._end()
        elif self.pieces:
            self._headless_bytes = 0
        else:
            self._headless_bytes += len(data)
            if self._headless_bytes > MAX_HEAD_BYTES:
                self._stop(f"sent a head or trailer of more than {MAX_HEAD_BYTES} bytes")

    def on_close(self) -> bool:
        """Take note that the connection closed in order; true if that is how this response ends."""
        whole = not (self.head is None or self.ended or self.fault or self._chunked or self._length_known)
        if whole:
            self.ended = True
        self.close()
        return whole

    def close(self) -> None:
        """Read no more, and break the cycle between the parser and its reader."""
        self._parser = self._chunks = None
        self.reusable = False

    def on_message_begin(self) -> None:
        """Called by the parser at a status line."""
        if self.ended:
            raise _UnreadableError("sent more than one response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header, and for each trailer, which is dropped."""
        if self.head is not None:
            return
        self._headers.append((name, value))
        if len(name) == 14 and name.lower() == b"content-length":
            self._length_known = True
        elif len(name) == 17 and name.lower() == b"transfer-encoding":
            if self._chunked or value.lower() != b"chunked":
                raise _UnreadableError("used a transfer coding that was not asked for")
            self._chunked = True

    def on_headers_complete(self) -> None:
        """Called by the parser at the end of a head."""
        parser = self._parser
        assert parser is not None
        status = parser.get_status_code()
        version = parser.get_http_version()
        if version not in {"1.1", "1.0"} or status < 100:
            raise _UnreadableError("sent an invalid status line")
        if status == 101:
            raise _UnreadableError("switched to another protocol, which was not asked for")
        if status < 200:
            self._headers, self._chunked, self._length_known = [], False, False
            self._reason.clear()
            return
        if self._chunked and version == "1.0":  # RFC 9112 6.1: its framing is faulty
            raise _UnreadableError("used a transfer coding, which HTTP/1.0 does not have")
        if sum(len(name) + len(value) + 4 for name, value in self._headers) > MAX_HEAD_BYTES:
            raise _UnreadableError(f"sent a head of more than {MAX_HEAD_BYTES} bytes")
        self.head = ResponseHead(status, _phrase(b"".join(self._reason)), self._headers)
        self.reusable = parser.should_keep_alive()
        if self._method == b"HEAD":
            self.ended = True  # the parser cannot know, and waits for a body

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a response, interim ones included."""
        if self.head is not None:
            self.ended = True

    def _parse_head(self, data: bytes) -> bytes:
        """Parse up to the end of a head; return what stands behind it, as chunks are not the parser's."""
        begun = self._tail + data
        end = begun.find(_HEAD_END)
        cut = len(data) if end < 0 else end + len(_HEAD_END) - len(self._tail)
        self._tail = begun[1 - len(_HEAD_END) :] if end < 0 else b""
        self._parse(data[:cut])
        if self.head is not None and self._chunked and not self.ended and self.fault is None:
            self._parser, self._chunks = None, ChunkedResponseBody(self.pieces)
        return data[cut:]

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self.reusable = False
            return
        try:
            parser.feed_data(data)
        except HttpParserUpgrade:
            self._stop("switched to another protocol, which was not asked for")
        except HttpParserError as error:
            self._stop(_describe(error))

    def _read_chunks(self, chunks: ChunkedResponseBody, data: bytes) -> None:
        chunks.feed(data)
        if chunks.fault is not None:
            self._stop(chunks.fault)
        elif chunks.ended:
            self.ended, self._chunks = True, None
            if chunks.rest:
                self.reusable = False

    def _end(self) -> None:
        if self._method == b"HEAD" and self.pieces:
            self.pieces.clear()
            self.reusable = False
        self._parser = None

    def _stop(self, fault: str) -> None:
        self.close()
        if not self.ended:
            self.fault = fault


def _phrase(reason: bytes) -> bytes:
    """Return a reason phrase, or none where it holds what may not stand there: nobody needs one."""
    return b"" if _NO_PHRASE(reason) else reason


def _describe(error: HttpParserError) -> str:
    """Say what is wrong; the parser's own texts are constants and hold nothing of the response."""
    cause = error.__context__
    if cause is None:
        return f"sent an unreadable response: {error}"
    if isinstance(cause, _UnreadableError):
        return str(cause)
    raise cause
