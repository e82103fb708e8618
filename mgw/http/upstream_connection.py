"""A connection to a provider as a value: HTTP/1.1's client side without clock and transport (RFC 9112).

A request is announced by :meth:`UpstreamConnection.send`; its bytes are the caller's to write.  What the
provider sends goes in by :meth:`~UpstreamConnection.receive`, and stands in ``head``, ``body`` and ``fault``.
Once the state is ``COMPLETE`` or ``LAST`` the response is whole; after :meth:`~UpstreamConnection.take`
another request may be sent.  The states and the ways between them are a table
(:mod:`mgw.http.upstream_state`).  Interim responses (1xx) are skipped.

Node.js's parser reads heads, strict, without any of its leniencies; what it lets pass and a gateway must not
is refused here: other protocols and versions, transfer codings other than ``chunked``, and an endless head,
trailer or chunk extension.  A head of the same shape as others that have passed is read by
:mod:`mgw.http.head_shape`.  Bodies are only counted, and chunks are read by :mod:`mgw.http.body`.

Framing, in the order of RFC 9112 6.3: no body for HEAD, 1xx, 204 and 304; chunked; Content-Length; else all
until the connection closes, of which :meth:`~UpstreamConnection.receive_end` takes note.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

from mgw.http.body import ChunkedResponseBody
from mgw.http.head_shape import HeadShapes
from mgw.http.response_head import HEAD_END, ResponseHead, judge_lines, read_response_head
from mgw.http.upstream_state import AWAITING, TRANSITIONS, UpstreamEvent, UpstreamState

MAX_HEAD_BYTES: Final = 64 * 1024
NOT_HTTP: Final = "sent something that is not HTTP"
_PROTOCOL: Final = b"HTTP/"
_HTTP_1_1: Final = b"HTTP/1.1 "
_HTTP_1_0: Final = b"HTTP/1.0 "
_TOO_LONG: Final = f"sent a head or trailer of more than {MAX_HEAD_BYTES} bytes"
_SWITCHED: Final = "switched to another protocol without being asked"
_NO_CONTENT: Final = (204, 304)
# To look a member up in its Enum costs 0.1 us in Python 3.11: those that every request needs have names here.
_BODY: Final = UpstreamState.BODY
_REQUEST: Final = UpstreamEvent.REQUEST
_HEAD: Final = UpstreamEvent.HEAD
_END: Final = UpstreamEvent.END
_TAKEN: Final = UpstreamEvent.TAKEN


class ResponseBody(Struct):
    """A response's body, as far as it has come."""

    pieces: list[bytes]
    """What was read of it and not taken out; after a fault, what was read before."""
    ended: bool = False
    """Whether the response is whole."""


class UpstreamConnection:
    """What a provider's bytes mean, request after request.

    :param shapes: of the provider's heads, which learn those that come.
    """

    __slots__ = (
        *("_begun", "_chunks", "_headless_bytes", "_left", "_method", "_parser", "_response_end", "_shapes"),
        *("at_chunk", "body", "fault", "head", "requests", "state"),
    )

    def __init__(self, shapes: HeadShapes | None = None) -> None:
        self.state = UpstreamState.CONNECTING
        self.requests = 0
        """How many requests have been sent."""
        self.head: ResponseHead | None = None
        """The final head of the response."""
        self.body = ResponseBody([])
        """Each response has its own, which stays its owner's when the connection goes on."""
        self.fault: str | None = None
        """Why the response is unreadable, once it is."""
        self.at_chunk = False
        """Whether a chunk of the body may begin, behind another one.  A caller who finds that the next bytes
        are one chunk and nothing else need not have them read."""
        self._shapes = shapes
        self._method = b""
        self._parser: HttpResponseParser | None = None
        """Reads a head of no known shape."""
        self._begun = b""
        """The head so far, until it is complete."""
        self._headless_bytes = 0
        self._response_end = UpstreamEvent.END
        """What the end of the response will be, once its head has come."""
        self._chunks: ChunkedResponseBody | None = None
        """Reads the body if it is chunked; else its bytes are counted."""
        self._left = 0

    def become_ready(self) -> None:
        """Take note that requests may be sent."""
        self.state = TRANSITIONS[self.state][UpstreamEvent.READY]

    def send(self, method: bytes) -> None:
        """Take note that a request is sent."""
        self.state = TRANSITIONS[self.state][_REQUEST]
        self.requests += 1
        self.body = ResponseBody([])
        self._method = method
        self._headless_bytes = 0

    def receive(self, data: bytes) -> None:
        """Read on, never nothing; bytes behind the response only make the connection unfit for another."""
        while self.state in AWAITING:
            data = self._read_head(data)
            if not data:
                return
        state = self.state
        if state is _BODY:
            if self._chunks is not None:
                self._read_chunks(self._chunks, data)
                return
            left, size = self._left, len(data)
            if size < left:
                self._left = left - size
                self.body.pieces.append(data)
                return
            self.body.pieces.append(data if size == left else data[:left])
            self.body.ended = True
            self.state = TRANSITIONS[state][UpstreamEvent.LAST_END if size > left else self._response_end]
        elif state is UpstreamState.UNTIL_CLOSE:
            self.body.pieces.append(data)
        elif state is UpstreamState.COMPLETE:
            self.state = TRANSITIONS[state][UpstreamEvent.EXCESS]

    def receive_end(self) -> None:
        """Take note that the provider has closed in order, which may be how the response ends."""
        if self.state is UpstreamState.UNTIL_CLOSE:
            self.body.ended = True
            self.state = TRANSITIONS[self.state][UpstreamEvent.LAST_END]

    def take(self) -> None:
        """Take note that a complete response was taken: another request may be sent."""
        self.state = TRANSITIONS[self.state][_TAKEN]
        self.head = None

    def leave(self, event: UpstreamEvent) -> None:
        """Go where nothing is sent or read any more."""
        self.state = TRANSITIONS[self.state][event]
        self.head = self._parser = self._chunks = None
        self._begun = b""
        self.at_chunk = False

    def _read_head(self, data: bytes) -> bytes:
        """Read one head, an interim one or the final one; return what came behind it."""
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
            self._on_part(len(data))
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
            self._on_part(cut)
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
        self.head = head
        self._response_end = response_end = _END if head.is_kept else UpstreamEvent.LAST_END
        # RFC 9112 6.3: these end with their head, whatever Content-Length says; a 304 has that of the 200.
        if self._method == b"HEAD" or head.status in _NO_CONTENT or head.content_length == 0:
            self.body.ended = True
            event = UpstreamEvent.LAST_END if end < len(data) else response_end
            self.state = TRANSITIONS[self.state][event]
            return b""
        event = _HEAD
        if head.transfer_encoding is not None:
            self._chunks = ChunkedResponseBody(self.body.pieces)
        elif head.content_length is not None:
            self._left = head.content_length
        else:
            event = UpstreamEvent.OPEN_HEAD
        self.state = TRANSITIONS[self.state][event]
        return data[end:]

    def _read_chunks(self, chunks: ChunkedResponseBody, data: bytes) -> None:
        chunks.feed(data)
        self.at_chunk = False
        if chunks.fault is not None:
            self._stop(chunks.fault)
        elif chunks.ended:
            self.body.ended = True
            self._chunks = None
            event = UpstreamEvent.LAST_END if chunks.rest else self._response_end
            self.state = TRANSITIONS[self.state][event]
        elif self.body.pieces:
            self._headless_bytes = 0
            self.at_chunk = chunks.at_chunk
        else:
            self._count_headless(len(data))

    def _on_part(self, size: int) -> None:
        """Take note of a part of a head, or of a head that comes before the final one."""
        self.state = TRANSITIONS[self.state][UpstreamEvent.BEGINNING]
        self._count_headless(size)

    def _count_headless(self, size: int) -> None:
        """Bound what comes without any of a body."""
        self._headless_bytes += size
        if self._headless_bytes > MAX_HEAD_BYTES:
            self._stop(_TOO_LONG)

    def _stop(self, fault: str) -> None:
        self.state = TRANSITIONS[self.state][UpstreamEvent.FAULT]
        self.fault = fault
        self._parser = self._chunks = None
        self._begun = b""
        self.at_chunk = False


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
