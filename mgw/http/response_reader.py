"""Read one response of an upstream from bytes that arrive in any pieces (RFC 9112).

One :class:`ResponseReader` reads one response.  Node.js's parser reads its head, strict, without any of its
leniencies; what it lets pass and a gateway must not is refused here: other protocols and versions, transfer
codings other than ``chunked``, and an endless head, trailer or chunk extension.  Bodies are only counted, and
chunks are read by :mod:`mgw.http.body`.

Framing, in the order of RFC 9112 6.3: no body for HEAD, 1xx, 204 and 304; chunked; Content-Length; else all
until the connection closes, which :meth:`ResponseReader.on_close` knows.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mgw.http.body import ChunkedResponseBody
from mgw.http.response_head import ResponseHead

MAX_HEAD_BYTES: Final = 64 * 1024
NOT_HTTP: Final = "sent something that is not HTTP"
_PROTOCOL: Final = b"HTTP/"
_HTTP_1_0: Final = b"HTTP/1.0 "
_VERSIONS: Final = (b"HTTP/1.1 ", _HTTP_1_0)
_PHRASE: Final = len(b"HTTP/1.1 200 ")
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_TOO_LONG: Final = f"sent a head or trailer of more than {MAX_HEAD_BYTES} bytes"
_SWITCHED: Final = "switched to another protocol, which was not asked for"
_NO_CONTENT: Final = (204, 304)


class _HeadParser:
    """Has a head checked, and knows what the parser makes of it."""

    __slots__ = ("_parser", "keep_alive", "pieces", "size", "status", "tail")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.tail = b""
        """The last bytes of a head that has not ended, in which its end may have begun."""
        self.status = 0
        self.keep_alive = False
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        """Called by the parser at the end of the head, and not again: the body is not its own."""
        parser, self._parser = self._parser, None
        assert parser is not None
        self.status = parser.get_status_code()
        self.keep_alive = parser.should_keep_alive()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the head.

        :raises HttpParserError: it is malformed.
        """
        parser = self._parser
        assert parser is not None
        self.pieces.append(data)
        self.size += len(data)
        parser.feed_data(data)

    def is_http(self, data: bytes) -> bool:
        """Whether a head that goes on with ``data`` may be one of HTTP."""
        begun = b"".join((*self.pieces, data[: len(_PROTOCOL)]))[: len(_PROTOCOL)]
        return _PROTOCOL.startswith(begun)

    def close(self) -> None:
        """Break the cycle between the parser and what it calls."""
        self._parser = None


class ResponseReader:
    """Read one response: feed it bytes, then look at ``head``, ``pieces``, ``ended`` and ``fault``.

    ``pieces`` holds what was read of the body and not taken out.  ``fault`` says why the response is
    unreadable, once it is; pieces read before it stay.  ``reusable`` is true when another request may follow
    on the connection.  Interim responses (1xx) are skipped.
    """

    __slots__ = (
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
        self.pieces: deque[bytes] = deque()
        self._method = method
        self._parser: _HeadParser | None = _HeadParser()
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
            self._read_head(self._parser, data)
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
        if self._parser is not None:
            self._parser.close()
        self._parser = self._chunks = self._left = None
        self.reusable = False

    def _read_head(self, parser: _HeadParser, data: bytes) -> None:
        """Read heads up to the final one, and of the body what came with it."""
        self.began = True
        if parser.size < len(_PROTOCOL) and not parser.is_http(data):
            self._stop(NOT_HTTP)  # the parser takes RTSP and ICE, and leading line breaks
            return
        begun = parser.tail + data if parser.tail else data
        at = begun.find(_HEAD_END)
        cut = len(data) if at < 0 else at + len(_HEAD_END) - len(parser.tail)
        try:
            parser.feed(data if cut == len(data) else data[:cut])
        except HttpParserUpgrade:
            self._stop(_SWITCHED)
            return
        except HttpParserError as error:  # its texts are constants and hold nothing of the response
            self._stop(f"sent an unreadable response: {error}")
            return
        if at < 0:
            parser.tail = begun[1 - len(_HEAD_END) :]
            self._count_headless(len(data))
            return
        self._headless_bytes += cut
        fault = self._take_head(parser)
        if fault is not None:
            self._stop(fault)
        elif cut < len(data) or self._left == 0:
            self._read_rest(data[cut:])

    def _read_rest(self, rest: bytes) -> None:
        """Read what came with a head."""
        if self._chunks is None and self.head is not None and self._left == 0:
            self._end(has_more=bool(rest))
        elif self._headless_bytes > MAX_HEAD_BYTES:
            self._stop(_TOO_LONG)
        else:
            self.feed(rest)

    def _take_head(self, parser: _HeadParser) -> str | None:
        """Take note of a complete head; return what is wrong with it."""
        self._parser = None
        raw = parser.pieces[0] if len(parser.pieces) == 1 else b"".join(parser.pieces)
        status = parser.status
        if not raw.startswith(_VERSIONS) or status < 100:
            return "sent an invalid status line"
        if status == 101:
            return _SWITCHED
        if status < 200:
            self._parser = _HeadParser()
            return _TOO_LONG if self._headless_bytes > MAX_HEAD_BYTES else None
        if len(raw) > MAX_HEAD_BYTES:
            return f"sent a head of more than {MAX_HEAD_BYTES} bytes"
        lines = raw[: -len(_HEAD_END)].split(_LINE_END)
        head = ResponseHead(status, lines[0][_PHRASE:], lines[1:])
        coding = head.transfer_encoding
        if coding is not None and coding.lower() != b"chunked":
            return "used a transfer coding that was not asked for"
        if coding is not None and raw.startswith(_HTTP_1_0):  # RFC 9112 6.1: its framing is faulty
            return "used a transfer coding, which HTTP/1.0 does not have"
        self.head = head
        self.reusable = parser.keep_alive
        self._choose_framing(head)
        return None

    def _choose_framing(self, head: ResponseHead) -> None:
        if self._method == b"HEAD" or head.status in _NO_CONTENT:
            self._left = 0
        elif head.transfer_encoding is not None:
            self._chunks = ChunkedResponseBody(self.pieces)
        elif head.content_length is not None:
            self._left = int(head.content_length)
        else:
            self._until_close = True

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
