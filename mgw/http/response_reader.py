"""Read one response of an upstream from bytes in any pieces (RFC 9112).

One :class:`ResponseReader` reads one response.  Node.js's parser reads its head, strict, without any of its
leniencies; what it lets pass and a gateway must not is refused here: other protocols and versions, transfer
codings other than ``chunked``, and an endless head, trailer or chunk extension.  A head of the same shape as
others that have passed is read by :mod:`mgw.http.head_shape`.  Bodies are only counted, and chunks are read
by :mod:`mgw.http.body`.

Framing, in the order of RFC 9112 6.3: no body for HEAD, 1xx, 204 and 304; chunked; Content-Length; else all
until the connection closes, which :meth:`ResponseReader.on_close` knows.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mgw.http.body import ChunkedResponseBody
from mgw.http.head_shape import HeadShapes
from mgw.http.response_head import HEAD_END, ResponseHead, judge_lines, read_response_head

MAX_HEAD_BYTES: Final = 64 * 1024
NOT_HTTP: Final = "sent something that is not HTTP"
_PROTOCOL: Final = b"HTTP/"
_HTTP_1_1: Final = b"HTTP/1.1 "
_HTTP_1_0: Final = b"HTTP/1.0 "
_TOO_LONG: Final = f"sent a head or trailer of more than {MAX_HEAD_BYTES} bytes"
_SWITCHED: Final = "switched to another protocol without being asked"
_NO_CONTENT: Final = (204, 304)


class ResponseReader:
    """Read one response: feed it bytes, then look at ``head``, ``pieces``, ``ended`` and ``fault``.

    ``pieces`` holds what was read of the body and not taken out.  ``fault`` says why the response is
    unreadable, once it is; pieces read before it stay.  ``reusable`` is true when another request may follow
    on the connection.  Interim responses (1xx) are skipped.

    :param shapes: of the provider's heads, which learn this one.
    """

    __slots__ = (
        "_begun",
        "_chunks",
        "_headless_bytes",
        "_is_headless",
        "_left",
        "_method",
        "_parser",
        "_shapes",
        "_until_close",
        "began",
        "ended",
        "fault",
        "head",
        "pieces",
        "reusable",
    )

    def __init__(self, method: bytes, shapes: HeadShapes | None = None) -> None:
        self.pieces: list[bytes] = []
        self._shapes = shapes
        self._method = method
        self._is_headless = True
        """Whether the head, or the rest of it, is what comes next."""
        self._parser: HttpResponseParser | None = None
        """Reads a head of no such shape."""
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
        """Read on, never nothing; bytes after the end or a fault only make the connection unfit for reuse."""
        while self._is_headless:
            data = self._read_head(data)
            if not data:
                return
        if self._chunks is not None:
            self._read_chunks(self._chunks, data)
        elif self._left is not None:
            self._read_counted(self._left, data)
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
        self._is_headless = False
        self._parser = self._chunks = self._left = None
        self.reusable = False

    def _read_head(self, data: bytes) -> bytes:
        """Read one head, an interim one or the final one; return what came behind it."""
        self.began = True
        if self._shapes is not None and not self._begun:
            for shape in self._shapes.tried:
                head = shape.read(data)
                if head is not None:
                    return self._on_head(head, data, len(head.raw))
        return self._parse_head(data)

    def _parse_head(self, data: bytes) -> bytes:
        parser = self._parser
        if parser is None:
            parser = self._parser = HttpResponseParser(None)  # it calls nothing of ours
        before = len(self._begun)
        begun = self._begun + data if before else data
        if not begun.startswith(_PROTOCOL) and not _PROTOCOL.startswith(begun):
            self._stop(NOT_HTTP)  # the parser takes RTSP and ICE, and leading line breaks
            return b""
        end = begun.find(HEAD_END, max(0, before - len(HEAD_END) + 1)) + len(HEAD_END)
        is_complete = end >= len(HEAD_END)
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
        return self._judge_head(parser.get_status_code(), begun[:end], data, cut)

    def _judge_head(self, status: int, raw: bytes, data: bytes, cut: int) -> bytes:
        """Take a complete head that ends at ``cut`` in ``data``; return what came behind it."""
        fault = _fault_of(raw, status)
        if fault is not None:
            self._stop(fault)
            return b""
        if status < 200:  # RFC 9110 15.2: 100, 102 and 103 come before the response, any number of times
            self._count_headless(cut)
            return data[cut:]
        lines = judge_lines(raw)
        head = read_response_head(status, raw, lines)
        fault = _fault_of_coding(head)
        if fault is not None:
            self._stop(fault)
            return b""
        if self._shapes is not None:
            self._shapes.learn(head, lines)
        return self._on_head(head, data, cut)

    def _on_head(self, head: ResponseHead, data: bytes, end: int) -> bytes:
        """Take note of the final head, which ends at ``end``; return what came behind it."""
        if len(head.raw) > MAX_HEAD_BYTES:
            self._stop(f"sent a head of more than {MAX_HEAD_BYTES} bytes")
            return b""
        self._headless_bytes += end
        self._is_headless = False
        self.head = head
        options, is_1_1 = head.connection_options, head.raw.startswith(_HTTP_1_1)
        # Not the parser's should_keep_alive(): once a message is complete, which one without a body is now,
        # it has forgotten the headers, and says that a 204 with ``Connection: close`` stays open.
        self.reusable = b"close" not in options and (is_1_1 or b"keep-alive" in options)
        # RFC 9112 6.3: these end with their head, whatever Content-Length says; a 304 has that of the 200.
        if self._method == b"HEAD" or head.status in _NO_CONTENT or head.content_length == 0:
            self._end(has_more=end < len(data))
            return b""
        if head.transfer_encoding is not None:
            self._chunks = ChunkedResponseBody(self.pieces)
        elif head.content_length is not None:
            self._left = head.content_length
        else:
            self._until_close = True
            self.reusable = False
        return data[end:]

    def _read_counted(self, left: int, data: bytes) -> None:
        size = len(data)
        if size < left:
            self._left = left - size
            self.pieces.append(data)
        else:
            self.pieces.append(data if size == left else data[:left])
            self.ended = True
            self._left = None
            if size > left:
                self.reusable = False

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


def _fault_of(raw: bytes, status: int) -> str | None:
    """Return what is wrong with any head, whose status line the parser took."""
    if not raw.startswith((_HTTP_1_1, _HTTP_1_0)) or status < 100:
        return "sent an invalid status line"
    return _SWITCHED if status == 101 else None


def _fault_of_coding(head: ResponseHead) -> str | None:
    """Return what is wrong with the transfer coding of a response."""
    coding = head.transfer_encoding
    if coding is None:
        return None
    if coding.lower() != b"chunked":
        return "used a transfer coding that was not requested"
    if not head.raw.startswith(_HTTP_1_1):  # RFC 9112 6.1: its framing is faulty
        return "used a transfer coding, which HTTP/1.0 does not have"
    return None
