"""Read one response of an upstream from bytes that arrive in any pieces (RFC 9112).

One :class:`ResponseReader` reads one response.  Node.js's parser reads its head, strict, without any of its
leniencies; what it lets pass and a gateway must not is refused here: other protocols and versions, transfer
codings other than ``chunked``, and an endless head, trailer or chunk extension.  Bodies are only counted, and
chunks are read by :mod:`mgw.http.body`.

Framing, in the order of RFC 9112 6.3: no body for HEAD, 1xx, 204 and 304; chunked; Content-Length; else all
until the connection closes, which :meth:`ResponseReader.on_close` knows.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mgw.http.body import ChunkedResponseBody
from mgw.http.response_head import ResponseHead

MAX_HEAD_BYTES: Final = 64 * 1024
NOT_HTTP: Final = "sent something that is not HTTP"
_PROTOCOL: Final = b"HTTP/"
_HTTP_1_1: Final = b"HTTP/1.1 "
_HTTP_1_0: Final = b"HTTP/1.0 "
_PHRASE: Final = len(b"HTTP/1.1 200 ")
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_TOO_LONG: Final = f"sent a head or trailer of more than {MAX_HEAD_BYTES} bytes"
_SWITCHED: Final = "switched to another protocol, which was not asked for"
_NO_CONTENT: Final = (204, 304)


class _Callbacks:
    """What the parser would call: nothing; each of its calls would cost more than what it tells."""

    __slots__ = ()


_CALLBACKS: Final = _Callbacks()


class ResponseReader:
    """Read one response: feed it bytes, then look at ``head``, ``pieces``, ``ended`` and ``fault``.

    ``pieces`` holds what was read of the body and not taken out.  ``fault`` says why the response is
    unreadable, once it is; pieces read before it stay.  ``reusable`` is true when another request may follow
    on the connection.  Interim responses (1xx) are skipped.
    """

    __slots__ = (
        "_begun",
        "_chunks",
        "_headless_bytes",
        "_left",
        "_method",
        "_parser",
        "_until_close",
        "began",
        "ended",
        "fault",
        "head",
        "pieces",
        "reusable",
    )

    def __init__(self, method: bytes) -> None:
        self.pieces: list[bytes] = []
        self._method = method
        self._parser: HttpResponseParser | None = HttpResponseParser(_CALLBACKS)
        self._begun = b""
        """The head so far, until it is complete."""
        self._chunks: ChunkedResponseBody | None = None
        self._left: int | None = None
        self._until_close = False
        self._headless_bytes = 0
        self.began = False
        """Whether any byte of the response has come."""
        self.head: ResponseHead | None = None
        self.ended = self.reusable = False
        self.fault: str | None = None

    def feed(self, data: bytes) -> None:
        """Read on; bytes after the end, or after a fault, only make the connection unfit for reuse."""
        if self._chunks is not None:
            self._read_chunks(self._chunks, data)
        elif self._left is not None:
            self._read_counted(self._left, data)
        elif self._parser is not None:
            rest = data
            while rest and self._parser is not None:
                rest = self._read_head(self._parser, rest)
            if rest:
                self.feed(rest)
        elif self._until_close:
            self.pieces.append(data)
        else:
            self.reusable = False

    def on_close(self) -> bool:
        """Take note that the connection closed in order; true if that is how this response ends."""
        whole, self._until_close = self._until_close, False
        if whole:
            self.ended = True
        self.close()
        return whole

    def close(self) -> None:
        """Read no more."""
        self._parser = self._chunks = self._left = None
        self.reusable = False

    def _read_head(self, parser: HttpResponseParser, data: bytes) -> bytes:
        """Read one head, an interim one or the final one; return what came behind it."""
        self.began = True
        before = len(self._begun)
        begun = self._begun + data if before else data
        if not begun.startswith(_PROTOCOL) and not _PROTOCOL.startswith(begun):
            self._stop(NOT_HTTP)  # the parser takes RTSP and ICE, and leading line breaks
            return b""
        end = begun.find(_HEAD_END, max(0, before - len(_HEAD_END) + 1)) + len(_HEAD_END)
        is_complete = end >= len(_HEAD_END)
        cut = end - before if is_complete else len(data)
        try:
            parser.feed_data(data if cut == len(data) else data[:cut])
        except HttpParserUpgrade:
            self._stop(_SWITCHED)
            return b""
        except HttpParserError as error:  # its texts are constants and hold nothing of the response
            self._stop(f"sent an unreadable response: {error}")
            return b""
        if not is_complete:
            self._begun = begun
            self._count_headless(len(data))
            return b""
        self._begun, self._parser = b"", None
        self._headless_bytes += cut
        fault = self._take_head(parser.get_status_code(), begun[:end])
        if fault is not None:
            self._stop(fault)
        elif self._left == 0:
            self._end(has_more=cut < len(data))
        elif cut < len(data):
            return data[cut:]
        return b""

    def _take_head(self, status: int, raw: bytes) -> str | None:
        """Take note of a complete head; return what is wrong with it."""
        is_1_1 = raw.startswith(_HTTP_1_1)
        if not (is_1_1 or raw.startswith(_HTTP_1_0)) or status < 100:
            return "sent an invalid status line"
        if status == 101:
            return _SWITCHED
        if status < 200:
            self._parser = HttpResponseParser(_CALLBACKS)
            return _TOO_LONG if self._headless_bytes > MAX_HEAD_BYTES else None
        if len(raw) > MAX_HEAD_BYTES:
            return f"sent a head of more than {MAX_HEAD_BYTES} bytes"
        lines = raw[: -len(_HEAD_END)].split(_LINE_END)
        status_line = lines.pop(0)
        head = ResponseHead(status, status_line[_PHRASE:], lines)
        coding = head.transfer_encoding
        if coding is not None and coding.lower() != b"chunked":
            return "used a transfer coding that was not asked for"
        if coding is not None and not is_1_1:  # RFC 9112 6.1: its framing is faulty
            return "used a transfer coding, which HTTP/1.0 does not have"
        self.head = head
        if self._method == b"HEAD" or status in _NO_CONTENT:
            self._left = 0
        elif coding is not None:
            self._chunks = ChunkedResponseBody(self.pieces)
        elif head.content_length is not None:
            self._left = int(head.content_length)
        else:
            self._until_close = True
        options = head.connection_options
        self.reusable = not self._until_close and (
            b"close" not in options if is_1_1 else b"keep-alive" in options and b"close" not in options
        )
        return None

    def _read_counted(self, left: int, data: bytes) -> None:
        size = len(data)
        if size < left:
            self._left = left - size
            self.pieces.append(data)
        else:
            self.pieces.append(data if size == left else data[:left])
            self._end(has_more=size > left)

    def _read_chunks(self, chunks: ChunkedResponseBody, data: bytes) -> None:
        chunks.feed(data)
        if chunks.fault is not None:
            self._stop(chunks.fault)
        elif chunks.ended:
            self._end(has_more=bool(chunks.rest))
        elif self.pieces:
            self._headless_bytes = 0
        else:
            self._count_headless(len(data))

    def _count_headless(self, size: int) -> None:
        """Bound what comes without any of a body."""
        self._headless_bytes += size
        if self._headless_bytes > MAX_HEAD_BYTES:
            self._stop(_TOO_LONG)

    def _end(self, *, has_more: bool) -> None:
        self.ended = True
        self._chunks = self._left = None
        if has_more:
            self.reusable = False

    def _stop(self, fault: str) -> None:
        self.close()
        self.fault = fault
