"""Write a response: its head, and the end of its body (RFC 9112, 6.3).

``Connection``, ``Keep-Alive`` and ``Transfer-Encoding`` belong to the connection: those of the caller are
left out, but a ``Connection: close`` is obeyed, and one that names ``Upgrade`` is sent.
"""

from __future__ import annotations

from email.utils import formatdate
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Protocol

from mgw.http.request_head import HTTP_1_0
from mgw.wire.headers import RawHeaders

_PHRASES: Final = MappingProxyType(
    {status.value: status.phrase.encode() for status in HTTPStatus} | {529: b"Overloaded"}
)
_LENGTHS: Final = frozenset(map(len, (b"content-length", b"connection", b"keep-alive", b"transfer-encoding")))
_STATUS_204: Final = 204
NO_CONTENT: Final = frozenset({_STATUS_204, 304})
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"


class BodyFraming(Enum):
    """What tells the client where the body of the response ends."""

    NO_BODY = auto()
    """There is no body, whatever is written: HEAD, 204, 304."""
    CONTENT_LENGTH = auto()
    CHUNKED = auto()
    UNTIL_CLOSE = auto()


# To look a member up in its Enum costs 0.1 us in Python 3.11: those that most responses need have names here.
_CONTENT_LENGTH: Final = BodyFraming.CONTENT_LENGTH
CHUNKED: Final = BodyFraming.CHUNKED


class RelayedHead(Protocol):
    """The head of a response that is passed on, but for its lines."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def reason(self) -> bytes:
        """The reason phrase; empty where the provider sent none."""
        ...

    @property
    def content_length(self) -> int | None:
        """What the lines say of it."""
        ...

    @property
    def is_proved(self) -> bool:
        """Whether the phrase and the lines are known to hold no line end but those between them."""
        ...


class ResponseHeadBuilder:
    """The head of one response: the headers that are sent, and what the others ask of the connection.

    ``framing`` and ``length`` follow from the headers and the request; ``close`` may be set until rendering.
    """

    __slots__ = ("_lines", "_status", "_upgrades", "_version", "close", "framing", "length")

    def __init__(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        self.close = False
        self.length = 0
        self.framing = CHUNKED
        self._status = status
        self._upgrades = False
        self._version = b""
        self._lines = [b"HTTP/1.1 %d %b" % (status, reason)]
        for pair in headers:
            if len(pair[0]) not in _LENGTHS or self._is_sent(pair[0].lower(), pair[1]):
                self._lines.append(b"%b: %b" % pair)

    @classmethod
    def of_lines(cls, relayed: RelayedHead, lines: bytes) -> ResponseHeadBuilder:
        """Return the head of a response that is passed on.

        :param lines: ``Name: value`` and a line end each, none of which speaks of the connection.
        """
        status, content_length = relayed.status, relayed.content_length
        head = cls(status, relayed.reason or reason_phrase(status), [])
        head._lines += lines.split(_LINE_END)[:-1]
        if content_length is not None:
            head.framing = _CONTENT_LENGTH
            head.length = content_length
            if status == _STATUS_204:  # RFC 9110 8.6
                head._lines = [line for line in head._lines if line[:15].lower() != b"content-length:"]
        return head

    def choose_framing(self, method: bytes, version: bytes) -> None:
        """Choose how the end of the body is marked in the response to this request."""
        self._version = version
        if method == b"HEAD" or self._status in NO_CONTENT:
            self.framing = BodyFraming.NO_BODY
        elif self.framing is CHUNKED:
            if version == HTTP_1_0:
                self.framing = BodyFraming.UNTIL_CLOSE
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
        elif self._version == HTTP_1_0:
            self._lines.append(b"Connection: keep-alive")
        head = b"\r\n".join(self._lines)
        ends = len(self._lines) - 1
        if head.count(b"\n") != ends or head.count(b"\r") != ends:
            raise ValueError("a header of the response holds a line end")
        return head + b"\r\n\r\n"

    def _is_sent(self, name: bytes, value: bytes) -> bool:
        if name == b"content-length":
            self.framing = _CONTENT_LENGTH
            self.length = int(value)
            return self._status != _STATUS_204  # RFC 9110 8.6: never in a 204; a 304 may have it
        if name == b"connection":
            self.close = self.close or b"close" in value.lower()
            self._upgrades = b"upgrade" in value.lower()
            return False
        return name not in {b"keep-alive", b"transfer-encoding"}


def render_relayed_head(head: RelayedHead, lines: bytes, body: bytes = b"") -> bytes:
    """Return the head of a response that is passed on, and what follows it: what :class:`ResponseHeadBuilder`
    makes in HTTP/1.1 of a response that has a body and leaves the connection open.

    :param lines: ``Name: value`` and a line end each, none of which speaks of the connection.
    :raises ValueError: one of them holds a line end of another kind, or nothing.
    """
    status, reason = head.status, head.reason or reason_phrase(head.status)
    if not head.is_proved:
        _check_line_ends(b"%b\r\n%b\r\n" % (reason, lines))
    if head.content_length is None:
        return b"HTTP/1.1 %d %b\r\n%bTransfer-Encoding: chunked\r\n\r\n%b" % (status, reason, lines, body)
    return b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (status, reason, lines, body)


def _check_line_ends(text: bytes) -> None:
    """Refuse lines that hold a line end of another kind, or nothing, but for the last one."""
    ends = text.count(_LINE_END)
    if text.count(b"\n") != ends or text.count(b"\r") != ends or text.find(_HEAD_END) != len(text) - 4:
        raise ValueError("a header of the response holds a line end")


def reason_phrase(status: int) -> bytes:
    """Return the reason phrase of a status."""
    return _PHRASES.get(status, b"Unknown")


def date_header(wall: float) -> tuple[bytes, bytes]:
    """Return the ``Date`` of a response that the gateway makes (RFC 9110 6.6.1), rendered once a second.

    :param wall: unix seconds.
    """
    return _date_header_at(int(wall))


@lru_cache(maxsize=4)
def _date_header_at(seconds: int) -> tuple[bytes, bytes]:
    return b"Date", formatdate(seconds, usegmt=True).encode()
