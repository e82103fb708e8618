"""The simulator's own reading of HTTP/1.1 requests, strict and small (RFC 9112).

It shares no parser with the gateway, so that a request which only one of the two understands is found out.
What a careful origin server refuses is refused here: bare line feeds, folded lines, blanks before a colon,
two lengths, a length beside ``Transfer-Encoding``, anything but one ``Host``.

    HEAD -> LENGTH(n) -> HEAD              a body with Content-Length
    HEAD -> SIZE -> DATA(n) -> SIZE ...    a body in chunks, then trailers up to an empty line
"""

import re
from typing import Final

from msgspec import Struct

MAX_HEAD: Final = 256 * 1024
MAX_LINE: Final = 4096
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(rb"/[\x21-\x7e]*")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
HeaderPairs = tuple[tuple[bytes, bytes], ...]


class BadRequestError(Exception):
    """What came is no HTTP/1.1 request; the text says which rule it breaks."""


class Head(Struct, frozen=True):
    """The request line and the header fields, names in the case that they came in."""

    method: bytes
    target: bytes
    version: bytes
    headers: HeaderPairs

    def values(self, lower_name: bytes) -> list[bytes]:
        """Every value of a header field, in order."""
        return [value for name, value in self.headers if name.lower() == lower_name]

    def value(self, lower_name: bytes) -> bytes | None:
        """The first value of a header field, or None."""
        all_values = self.values(lower_name)
        return all_values[0] if all_values else None


class Data(Struct, frozen=True):
    """Some bytes of the request's body."""

    data: bytes


class End(Struct, frozen=True):
    """The request is complete."""


Event = Head | Data | End


def parse_head(block: bytes) -> Head:
    """Read what stands before the empty line.  Raises BadRequestError."""
    lines = block.split(b"\r\n")
    if any(b"\n" in line or b"\r" in line or b"\0" in line for line in lines):
        raise BadRequestError("a bare CR, LF or NUL in the head")
    words = lines[0].split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]):
        raise BadRequestError("the request line is not `METHOD target HTTP/1.1`")
    if not _TARGET.fullmatch(words[1]):
        raise BadRequestError("the target is not in origin-form")
    if words[2] not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise BadRequestError("the protocol is neither HTTP/1.1 nor HTTP/1.0")
    pairs = []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name):
            raise BadRequestError("a header line without a proper name")
        if not _VALUE.fullmatch(value):
            raise BadRequestError("a control character in a header value")
        pairs.append((name, value.strip(b" \t")))
    head = Head(words[0], words[1], words[2], tuple(pairs))
    if len(head.values(b"host")) != 1 and words[2] == b"HTTP/1.1":
        raise BadRequestError("expected exactly one Host header")
    return head


class RequestParser:
    """Cut a connection's bytes into heads, body pieces and ends; holds at most one head or one line."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._left = 0
        self._step = self._head

    def feed(self, data: bytes) -> list[Event]:
        """Take bytes as they arrive.  Raises BadRequestError, after which the reader is of no more use."""
        self._held += data
        events: list[Event] = []
        while self._step(events):
            pass
        return events

    def _head(self, events: list[Event]) -> bool:
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            if len(self._held) > MAX_HEAD:
                raise BadRequestError("the head is too large")
            return False
        head = parse_head(bytes(self._held[:end]))
        del self._held[: end + 4]
        lengths, codings = head.values(b"content-length"), head.values(b"transfer-encoding")
        events.append(head)
        if codings:
            if lengths or codings != [b"chunked"] or head.version != b"HTTP/1.1":
                raise BadRequestError("Transfer-Encoding is not exactly `chunked`, alone")
            self._step = self._size
        elif lengths:
            if len(lengths) != 1 or not re.fullmatch(rb"[0-9]{1,15}", lengths[0]):
                raise BadRequestError("Content-Length is not one number")
            self._left = int(lengths[0])
            self._step = self._length
        else:
            events.append(End())
        return True

    def _length(self, events: list[Event]) -> bool:
        self._take(events)
        if self._left:
            return False
        events.append(End())
        self._step = self._head
        return True

    def _take(self, events: list[Event]) -> None:
        piece = bytes(self._held[: self._left])
        if piece:
            del self._held[: len(piece)]
            self._left -= len(piece)
            events.append(Data(piece))

    def _line(self) -> bytes | None:
        end = self._held.find(b"\r\n")
        if end < 0:
            if len(self._held) > MAX_LINE:
                raise BadRequestError("a line of the chunked body is too long")
            return None
        line = bytes(self._held[:end])
        del self._held[: end + 2]
        return line

    def _size(self, events: list[Event]) -> bool:  # noqa: ARG002  one signature for every step
        line = self._line()
        if line is None:
            return False
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,12}", line):
            raise BadRequestError("a chunk size that is not a plain hexadecimal number")
        self._left = int(line, 16)
        self._step = self._data if self._left else self._trailers
        return True

    def _data(self, events: list[Event]) -> bool:
        self._take(events)
        if self._left or len(self._held) < 2:
            return False
        if self._held[:2] != b"\r\n":
            raise BadRequestError("a chunk is longer than its size")
        del self._held[:2]
        self._step = self._size
        return True

    def _trailers(self, events: list[Event]) -> bool:
        line = self._line()
        if line is None:
            return False
        if not line:
            events.append(End())
            self._step = self._head
        return True


def render_head(version: str, status: int, reason: str, headers: list[tuple[str, str]]) -> bytes:
    """The bytes of a response's head."""
    lines = [f"{version} {status} {reason}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")
