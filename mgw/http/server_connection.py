"""One client's connection as a value: HTTP/1.1's server side without clock and transport (RFC 9112).

Bytes of the client go in by :meth:`ServerConnection.receive`.  What they mean comes out as

- a :class:`~mgw.http.request_head.RequestHead` of :meth:`~ServerConnection.read_head`; the state says whether
  a body follows,
- ``bytes`` of :meth:`~ServerConnection.read_body`, a piece of a body; behind the last one the state is
  ``RESPONDING``, and that piece is empty where the body's end comes alone,
- a :class:`Refused` of either, which is the last.

What answers them goes in by :meth:`~ServerConnection.start`, :meth:`~ServerConnection.write` and
:meth:`~ServerConnection.finish`, or by the two for responses that are passed on, and comes out as the bytes
to send.  Responses go out strictly in order, since the next request is not read before the response to the
one before has ended.  The states and the ways between them are a table (:mod:`mgw.http.server_state`).

Heads are read by :mod:`mgw.http.request_head`.  A head that came before need not be read again: whoever knows
it by its key (:mod:`mgw.http.head_key`) says so with :meth:`~ServerConnection.take_known`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from mgw.http.body import ChunkedRequestBody
from mgw.http.head_key import HeadKey, RepeatedHead, key_of_head
from mgw.http.request_head import HTTP_1_0, RequestHead, RequestHeadReader
from mgw.http.response_writer import (
    NO_CONTENT,
    BodyFraming,
    RelayedHead,
    ResponseHeadBuilder,
    render_relayed_head,
)
from mgw.http.server_state import RECEIVING, SERVING, TRANSITIONS, ServerEvent, ServerState
from mgw.nouns.errors import GatewayError
from mgw.wire.headers import RawHeaders

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_LARGE: Final = 64 * 1024
"""A piece of that size is not copied to join it with the size line of its chunk."""
_NOTHING: Final[tuple[bytes, ...]] = ()
# To look a member up in its Enum costs 0.1 us in Python 3.11: those that every request needs have names here.
_NEW: Final = ServerState.NEW
_IDLE: Final = ServerState.IDLE
_RESPONDING: Final = ServerState.RESPONDING
_REQUEST: Final = ServerEvent.REQUEST
_RESPONSE: Final = ServerEvent.RESPONSE
_LAST_RESPONSE: Final = ServerEvent.LAST_RESPONSE
_CHUNKED: Final = BodyFraming.CHUNKED
_CONTENT_LENGTH: Final = BodyFraming.CONTENT_LENGTH


class Refused(Struct, frozen=True):
    """What has come is not a request: the response to it is the last."""

    error: GatewayError
    target: bytes | None
    """As the client sent it, where the request line could be read."""


class ServerConnection:
    """What a client's bytes mean, and how what answers them is sent.

    :param max_head_bytes: the most that a head may measure.
    :param max_headers: the most lines that it may have.
    """

    __slots__ = (
        *("_chunks", "_head", "_left_to_write", "_likely_head"),
        *("_max_head_bytes", "_max_headers", "_method", "_reader", "_response_end", "_version"),
        *("framing", "held", "left_to_read", "requests", "state"),
    )

    def __init__(self, max_head_bytes: int, max_headers: int) -> None:
        self.state = ServerState.NEW
        self.held = b""
        """The bytes of the client that no event has taken yet."""
        self.requests = 0
        """How many requests have been opened, counting refusals."""
        self._max_head_bytes = max_head_bytes
        self._max_headers = max_headers
        # the request
        self._reader: RequestHeadReader | None = None
        """It reads a head that is not complete yet."""
        self._likely_head: RepeatedHead | None = None
        """The head of the request before, if it is easy to recognize."""
        self._method = self._version = b""
        self._chunks: ChunkedRequestBody | None = None
        """Reads the body if it is chunked; else its bytes are counted."""
        self.left_to_read = 0
        """How many bytes of a body that is counted have not been read."""
        # the response
        self._response_end = _RESPONSE
        """What the end of the response will be."""
        self.framing: BodyFraming | None = None
        """How the end of the response's body is marked, once its head was given."""
        self._head = b""
        """A head with a content length, which waits for the first bytes of its body."""
        self._left_to_write = 0

    # What the client sends

    def receive(self, data: bytes) -> HeadKey | None:
        """Take the next bytes of the client.

        :returns: the key of the head, if they are a whole request with nothing before or behind it.
        """
        state = self.state
        if self.held or (state is not _IDLE and state is not _NEW):
            self.held += data
            return None
        self.held = data
        key = key_of_head(data, self._likely_head)
        return None if key is None or len(data) != key[1] + key[2] else key

    def head_key(self) -> HeadKey | None:
        """Return the key of the head that is to be read next, if all of it has come and it has one."""
        return None if self.state is ServerState.HEAD else key_of_head(self.held, self._likely_head)

    def take_known(self, head: RequestHead, repeated: RepeatedHead | None, key: HeadKey) -> bytes | None:
        """Take a request whose head is known, and need not be read.

        :param head: the one that came before; its length may be another.
        :param key: what :meth:`receive` or :meth:`head_key` has returned for this one.
        :returns: the body if all of it has come; then the request is complete.
        """
        _, end, length, _ = key
        held, stop = self.held, end + length
        self.requests += 1
        self._likely_head = repeated
        self._method, self._version = head.method, head.version
        self._response_end = _RESPONSE if head.keep_alive else _LAST_RESPONSE
        if len(held) < stop:
            self.state = TRANSITIONS[self.state][ServerEvent.HEAD]
            self.left_to_read = length
            self.held = held[end:]
            return None
        self.state = TRANSITIONS[self.state][_REQUEST]
        self.held = held[stop:] if len(held) > stop else b""
        return held[end:stop]

    def take_back(self, held: bytes) -> None:
        """Read a head after all that :meth:`take_known` took; ``held`` is what was held then."""
        self.state = TRANSITIONS[self.state][ServerEvent.WITHDRAWAL]
        self.held = held

    def read_head(self) -> RequestHead | Refused | None:
        """Return the head that comes next; ``None`` if not all of it has come."""
        reader = self._reader
        if reader is None:
            self.held = self.held.lstrip(b"\r\n")  # RFC 9112 2.2: empty lines before a request
            if not self.held:
                return None
            self._reader = reader = RequestHeadReader(self._max_head_bytes, self._max_headers)
        try:
            end = reader.feed(self.held)
            head = None if end is None else reader.head()
        except GatewayError as error:
            return self.refuse(error)
        if head is None:
            self.held = b""
            if self.state is not ServerState.HEAD:
                self.state = TRANSITIONS[self.state][ServerEvent.BEGINNING]
            return None
        self.held = self.held[end:]
        self._reader = None
        self.requests += 1
        self._method, self._version = head.method, head.version
        self._response_end = _RESPONSE if head.keep_alive else _LAST_RESPONSE
        event = _REQUEST
        if head.has_body:
            event = ServerEvent.EXPECTATION if head.expects_continue else ServerEvent.HEAD
            if head.content_length is None:
                self._chunks = ChunkedRequestBody()
            else:
                self.left_to_read = head.content_length
        self.state = TRANSITIONS[self.state][event]
        return head

    def read_body(self) -> bytes | Refused | None:
        """Return the piece of the body that comes next; ``None`` if there is nothing of it."""
        content, chunks = self.held, self._chunks
        if chunks is not None:
            try:
                content, self.held = chunks.feed(content)
            except GatewayError as error:
                return self._stop(error, None)
            is_end = chunks.ended
        else:
            left = self.left_to_read
            is_end = len(content) >= left
            content, self.held = content[:left], content[left:]
            self.left_to_read -= len(content)
        if is_end:
            self._chunks = None
        self.state = TRANSITIONS[self.state][ServerEvent.END if is_end else ServerEvent.PIECE]
        return content if content or is_end else None

    def take_whole_body(self) -> bytes | None:
        """Return the body if its length is known and all of it has come; then the request is complete."""
        left = self.left_to_read
        if self.state not in RECEIVING or self._chunks is not None or len(self.held) < left:
            return None
        content, self.held = self.held[:left], self.held[left:]
        self.state = TRANSITIONS[self.state][ServerEvent.END]
        return content

    def skip_body(self) -> bool:
        """Drop the body of the request that is being refused, if all of it has come; whether it has."""
        if self.state in RECEIVING and self._chunks is not None:
            self.read_body()
        else:
            self.take_whole_body()
        return self.state not in RECEIVING and self.state is not ServerState.REFUSED

    def refuse(self, error: GatewayError) -> Refused:
        """Read nothing more: what has come is not a request, or took too long."""
        target = None if self._reader is None else self._reader.target
        self.requests += 1
        self._reader = None
        self._method, self._version = b"", b"1.1"
        return self._stop(error, target)

    def _stop(self, error: GatewayError, target: bytes | None) -> Refused:
        self.held = b""
        self._response_end = _LAST_RESPONSE
        self.state = TRANSITIONS[self.state][ServerEvent.FAULT]
        return Refused(error, target)

    # What we send

    @property
    def is_last(self) -> bool:
        """Whether the connection closes after the response, or without one if there is no request."""
        return self._response_end is _LAST_RESPONSE

    def make_last(self) -> None:
        """Close the connection after the response, which says so unless it has started."""
        self._response_end = _LAST_RESPONSE

    def send_continue(self) -> bytes:
        """Return what lets a client that waits for it send its body; nothing if none waits."""
        if self.state is not ServerState.EXPECTING or self.framing is not None:
            return b""
        self.state = TRANSITIONS[self.state][ServerEvent.CONTINUE]
        return _CONTINUE

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> bytes:
        """Start the response.

        The end of the body is marked by a ``Content-Length`` among the headers; without one by chunks, in
        HTTP/1.0 by the end of the connection.  A head with a content length waits for the first bytes of the
        body.

        :raises RuntimeError: a response has started already.
        :raises ValueError: a header holds a line end.
        """
        if self.state not in SERVING:
            return b""
        return self._start(ResponseHeadBuilder(status, reason, headers))

    def relay_head(self, head: RelayedHead, lines: bytes) -> bytes:
        """Start a response that is passed on.

        :param lines: ``Name: value`` and a line end each, none of which speaks of the connection.
        :raises RuntimeError: a response has started already.
        :raises ValueError: a header holds a line end of another kind.
        """
        if self.state not in SERVING:
            return b""
        if not lines or not self._may_relay_lines(head.status):
            return self._start(ResponseHeadBuilder.of_lines(head, lines))
        rendered = render_relayed_head(head, lines)
        if head.content_length is None:
            self.framing = _CHUNKED
            return rendered
        self.framing = _CONTENT_LENGTH
        self._head, self._left_to_write = rendered, head.content_length
        return b""

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> bytes | None:
        """Return all of a response that is passed on, and end it; ``None`` where something is unusual.

        Then it has to be sent by :meth:`relay_head`, :meth:`write` and :meth:`finish`.
        """
        length = head.content_length
        fits = length is None or length == len(body)
        if not fits or not lines or not self._may_relay_lines(head.status):
            return None
        if length is not None:
            response = render_relayed_head(head, lines, body)
        elif body:
            rendered = render_relayed_head(head, lines)
            response = b"%b%x\r\n%b\r\n%b" % (rendered, len(body), body, _LAST_CHUNK)
        else:
            response = render_relayed_head(head, lines, _LAST_CHUNK)
        self.state = TRANSITIONS[self.state][_RESPONSE]
        return response

    def write(self, data: bytes) -> tuple[bytes, ...] | None:
        """Return what is to be sent of a piece of the body; ``None``: more than the head has announced.

        :raises RuntimeError: the response has not started.
        """
        framing = self.framing
        if not data:
            return _NOTHING
        if framing is _CHUNKED:
            if len(data) < _LARGE:
                return (b"%x\r\n%b\r\n" % (len(data), data),)
            return b"%x\r\n" % len(data), data, b"\r\n"
        if framing is _CONTENT_LENGTH:
            if len(data) > self._left_to_write:
                return None
            self._left_to_write -= len(data)
            if self._head:
                data = self._head + data
                self._head = b""
            return (data,)
        if framing is None and self.state in SERVING:
            raise RuntimeError("the response has not started")
        return (data,) if framing is BodyFraming.UNTIL_CLOSE else _NOTHING

    def flush(self) -> bytes:
        """Return a head that waits for the first bytes of its body."""
        head, self._head = self._head, b""
        return head

    def finish(self, last_piece: bytes) -> tuple[bytes, ...] | None:
        """End the response behind a last piece of the body, if there is one; return what is to be sent.

        ``None``: that is not the length which the head has announced, and the response goes on.

        :raises RuntimeError: the response has not started.
        """
        framing = self.framing
        if framing is _CONTENT_LENGTH:
            if len(last_piece) != self._left_to_write:
                return None
            end = self._head + last_piece
            pieces = (end,) if end else _NOTHING
            self._head = b""
        elif framing is None:
            raise RuntimeError("the response has not started")
        elif framing is not _CHUNKED:
            pieces = self.write(last_piece) or _NOTHING
        elif 0 < len(last_piece) < _LARGE:
            pieces = (b"%x\r\n%b\r\n%b" % (len(last_piece), last_piece, _LAST_CHUNK),)
        else:
            pieces = (*(self.write(last_piece) or _NOTHING), _LAST_CHUNK)
        self.framing = None
        self.state = TRANSITIONS[self.state][self._response_end]
        return pieces

    def truncate(self) -> bool:
        """End a response that will stay incomplete, if an orderly close tells the client so; whether it does.

        A head that waits has to be sent before.
        """
        is_short = self.framing is _CONTENT_LENGTH and self._left_to_write > 0
        if not is_short and self.framing is not _CHUNKED:
            return False
        self.framing = None
        self.state = TRANSITIONS[self.state][ServerEvent.TRUNCATION]
        return True

    # The end

    def leave(self, event: ServerEvent) -> None:
        """Go where no request is read any more: what is held is dropped, on either side."""
        self.state = TRANSITIONS[self.state][event]
        self.held = self._head = b""
        self._reader = self._chunks = self.framing = None

    def _may_relay_lines(self, status: int) -> bool:
        """Whether a provider's header lines may be sent as they are: HTTP/1.1's framing, nothing to close."""
        return (
            self.state is _RESPONDING
            and self._response_end is _RESPONSE
            and self.framing is None
            and self._method != b"HEAD"
            and self._version != HTTP_1_0
            and status not in NO_CONTENT
        )

    def _start(self, head: ResponseHeadBuilder) -> bytes:
        head.choose_framing(self._method, self._version)
        if self.state is not _RESPONDING or self._response_end is _LAST_RESPONSE:
            head.close = True
        if head.close:
            self._response_end = _LAST_RESPONSE
        if self.framing is not None:
            raise RuntimeError("a response has started already")
        rendered = head.render()
        self.framing = head.framing
        if head.framing is not _CONTENT_LENGTH:
            return rendered
        self._head, self._left_to_write = rendered, head.length
        return b""
