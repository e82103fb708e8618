"""How an answer goes onto the wire: its head, and what marks the end of its body (RFC 9112, 6.3).

``Connection``, ``Keep-Alive`` and ``Transfer-Encoding`` are the channel's own business: those of the caller
are left out, but for a ``Connection: close``, which is obeyed, and one that names ``Upgrade``, which is said.
"""

from __future__ import annotations

from enum import Enum, auto
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from mgw.reactor.eager_writer import Writer
from mgw.web.head import OLD
from mgw.wire.headers import RawHeaders

_PHRASES: Final = MappingProxyType(
    {status.value: status.phrase.encode() for status in HTTPStatus} | {529: b"Overloaded"}
)
_LENGTHS: Final = frozenset(map(len, (b"content-length", b"connection", b"keep-alive", b"transfer-encoding")))
_NO_CONTENT: Final = frozenset({204, 304})
_LARGE: Final = 64 * 1024
"""A piece of that size is not copied to stand in one write with its chunk's frame."""
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Framing(Enum):
    """What tells the client where the body of the answer ends."""

    NOTHING = auto()
    """There is no body, whatever is written: HEAD, 204, 304."""
    COUNTED = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()


class AnswerHead:
    """The head of one answer, sorted into what is sent and what is obeyed.

    ``framing`` and ``length`` follow from the headers and the request; ``close`` may be set until rendering.
    """

    __slots__ = ("_lines", "_status", "_upgrades", "_version", "close", "framing", "length")

    def __init__(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        self.close = False
        self.length = 0
        self.framing = Framing.CHUNKED
        self._status = status
        self._upgrades = False
        self._version = b""
        self._lines = [b"HTTP/1.1 %d %b" % (status, reason)]
        for pair in headers:
            if len(pair[0]) not in _LENGTHS or self._is_sent(pair[0].lower(), pair[1]):
                self._lines.append(b"%b: %b" % pair)

    def answer_to(self, method: bytes, version: bytes) -> None:
        """Choose how the end of the body is marked for this request."""
        self._version = version
        if method == b"HEAD" or self._status in _NO_CONTENT:
            self.framing = Framing.NOTHING
        elif self.framing is Framing.CHUNKED:
            if version == OLD:
                self.framing = Framing.UNTIL_CLOSE
                self.close = True
            else:
                self._lines.append(b"Transfer-Encoding: chunked")

    def render(self) -> bytes:
        """Return the bytes of the head.

        :raises ValueError: a header holds a line end; what follows it would be read as ours.
        """
        if self._upgrades:
            self._lines.append(b"Connection: close, Upgrade" if self.close else b"Connection: Upgrade")
        elif self.close:
            self._lines.append(b"Connection: close")
        elif self._version == OLD:
            self._lines.append(b"Connection: keep-alive")
        head = b"\r\n".join(self._lines)
        ends = len(self._lines) - 1
        if head.count(b"\n") != ends or head.count(b"\r") != ends:
            raise ValueError("a header of the answer holds a line end")
        return head + b"\r\n\r\n"

    def _is_sent(self, name: bytes, value: bytes) -> bool:
        if name == b"content-length":
            self.framing = Framing.COUNTED
            self.length = int(value)
            return self._status != HTTPStatus.NO_CONTENT  # RFC 9110 8.6
        if name == b"connection":
            self.close = self.close or b"close" in value.lower()
            self._upgrades = b"upgrade" in value.lower()
            return False
        return name not in {b"keep-alive", b"transfer-encoding"}


class AnswerWriter:
    """Write the answers of one connection, one after another.

    The head of a counted answer waits for the first bytes of its body, so that both go out together.
    """

    __slots__ = ("_framing", "_head", "_left", "_transport")

    def __init__(self, transport: Writer) -> None:
        self._transport = transport
        self._framing: Framing | None = None
        self._head = b""
        self._left = 0

    @property
    def begun(self) -> bool:
        """Whether the head of the answer has been given."""
        return self._framing is not None

    def reset(self) -> None:
        """Forget the answer: the next one may begin."""
        self._framing = None
        self._head = b""

    def begin(self, head: AnswerHead) -> None:
        """Write the head.

        :raises RuntimeError: an answer has begun already.
        """
        if self._framing is not None:
            raise RuntimeError("an answer has begun already")
        rendered = head.render()
        self._framing = head.framing
        if head.framing is Framing.COUNTED:
            self._left = head.length
            self._head = rendered
        else:
            self._transport.write(rendered)

    def write(self, data: bytes) -> bool:
        """Write a piece of the body; say whether it fits what the head announced.

        :raises RuntimeError: the answer has not begun.
        """
        framing = self._framing
        if framing is Framing.CHUNKED:
            if len(data) < _LARGE:
                self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            else:
                self._transport.write(b"%x\r\n" % len(data))
                self._transport.write(data)
                self._transport.write(b"\r\n")
        elif framing is Framing.COUNTED:
            self._left -= len(data)
            if self._left < 0:
                return False
            if self._head:
                data = self._head + data
                self._head = b""
            self._transport.write(data)
        elif framing is Framing.UNTIL_CLOSE:
            self._transport.write(data)
        elif framing is None:
            raise RuntimeError("the answer has not begun")
        return True

    def flush(self) -> None:
        """Write a head that is still held."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def finish(self) -> bool:
        """Mark the end of the body; say whether it is what the head announced.

        :raises RuntimeError: the answer has not begun.
        """
        if self._framing is Framing.CHUNKED:
            self._transport.write(_LAST_CHUNK)
        elif self._framing is Framing.COUNTED:
            if self._left:
                return False
            self.flush()
        elif self._framing is None:
            raise RuntimeError("the answer has not begun")
        return True

    def break_off(self) -> bool:
        """Write what waits; say whether an orderly close now tells the client that the rest is missing."""
        self.flush()
        if self._framing is Framing.COUNTED:
            return self._left > 0
        return self._framing is Framing.CHUNKED


def phrase(status: int) -> bytes:
    """Return the reason phrase of a status."""
    return _PHRASES.get(status, b"Unknown")
