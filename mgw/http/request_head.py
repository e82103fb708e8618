"""The head of a request: parsed strictly, and rendered strictly.

``httptools`` checks every byte; it refuses bare line feeds, folded lines, spaces before the colon, control
characters, doubled or odd lengths, and a length together with a transfer coding.  It is fed as bytes arrive,
so garbage is refused at its first wrong byte.  It calls nothing of ours: the lines of a head that has passed
are taken apart here, all at once.  What it lets pass and a server must not is checked here, with the rule's
origin beside each check: other protocols that share its grammar (``RTSP/1.0``, ``ICE/1.0``, HTTP/0.9 and
2.0), spare blanks in the request line, targets of other forms, codings other than ``chunked``, and hosts.

A reader stops at the empty line: what follows belongs to the body (:mod:`mgw.http.body`) or to the next
request.  Requests that we send carry their body's length: every upstream takes that, and some refuse chunked
ones.
"""

from __future__ import annotations

import re
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.headers import RawHeaders

_END: Final = b"\r\n\r\n"
_OTHER_LINES: Final = 2
"""The request line and the empty one."""
_NO_TOKENS: Final[frozenset[bytes]] = frozenset()
_REQUEST_LINE: Final = re.compile(rb"([A-Z-]+) ([!-~]+) HTTP/(1\.[01])")
_ABSOLUTE: Final = re.compile(rb"(?i:https?)://([^/?#]+)((?:[/?][^#]*)?)")  # RFC 9112 3.2.2
# RFC 9110 4.2.3, 7.2
_IS_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?").fullmatch
_OTHER_PROTOCOLS: Final = frozenset({b"CONNECT", b"PRI", b"SOURCE"})
"""Methods of tunnels, of HTTP/2's preface and of Icecast, which the parser takes in HTTP/1.1 too."""

_SINGLE: Final = frozenset({b"host", b"content-length", b"transfer-encoding"})
_WATCHED: Final = _SINGLE | {b"connection", b"upgrade", b"expect", b"content-encoding"}

HTTP_1_0: Final = b"1.0"
WEBSOCKET: Final = b"websocket"
_ALWAYS_WITH_LENGTH: Final = frozenset({b"POST", b"PUT", b"PATCH"})  # RFC 9110 8.6


class RequestHead(Struct, frozen=True, kw_only=True):
    """A complete head that passed every check."""

    method: bytes
    target: bytes
    """The target as sent, in origin form: an absolute form is reduced once its authority equals the host."""
    version: bytes
    """``1.1`` or ``1.0``."""
    headers: RawHeaders
    host: bytes
    """The host; empty where an HTTP/1.0 client sent none."""
    has_body: bool
    content_length: int | None
    """``None`` without a body, and for a chunked one."""
    is_coded: bool
    """Whether the body has a content coding."""
    expects_continue: bool
    upgrade: bytes | None
    """``websocket`` or nothing: every other upgrade is ignored (RFC 9110 7.8)."""
    keep_alive: bool
    """Whether the client wants to go on using the connection."""

    def __repr__(self) -> str:  # headers and queries hold credentials
        path = self.target.partition(b"?")[0]
        return f"RequestHead({self.method!r}, {path!r})"


def malformed(message: str) -> GatewayError:
    """Return the refusal of an input that is no HTTP that we speak."""
    return GatewayError(Reason.MALFORMED, message)


class RequestHeadReader:
    """Read one head, however it arrives.

    :param max_bytes: the most that the head may measure, empty line included.
    :param max_headers: the most lines that it may have.
    """

    __slots__ = (
        "_line",
        "_line_feeds",
        "_max_bytes",
        "_max_headers",
        "_method",
        "_parser",
        "_pieces",
        "_size",
        "_tail",
        "_version",
        "target",
    )

    def __init__(self, max_bytes: int, max_headers: int) -> None:
        self.target: bytes | None = None
        """The target as sent, once the request line was read: a refusal may need it."""
        self._max_bytes = max_bytes
        self._max_headers = max_headers
        self._parser = HttpRequestParser(None)
        self._pieces: list[bytes] = []
        self._line = b""
        self._method = self._version = b""
        self._size = self._line_feeds = 0
        self._tail = b""

    def feed(self, data: bytes) -> int | None:
        """Take the next bytes.

        :returns: how many of them belong to the head if it is complete now, ``None`` if it goes on.
        :raises GatewayError: ``MALFORMED``, or ``HEAD_TOO_LARGE``.
        """
        at = -1 if self._tail else data.find(_END)
        end = at + len(_END) if at >= 0 else self._end_in(data)
        piece = data if end is None else data[:end]
        self._size += len(piece)
        if self.target is None:
            self._read_request_line(piece)
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:  # RFC 9110 7.8: whoever ignores an upgrade reads an ordinary request
            pass
        except HttpParserError as error:
            raise malformed(f"the request is malformed: {error}") from error
        self._pieces.append(piece)
        self._line_feeds += piece.count(b"\n")
        headers = self._line_feeds - (1 if end is None else _OTHER_LINES)
        if self._size > self._max_bytes or headers > self._max_headers:
            limits = f"{self._max_bytes} bytes in {self._max_headers} lines"
            raise GatewayError(Reason.HEAD_TOO_LARGE, f"the request head exceeds {limits}")
        return end

    def head(self) -> RequestHead:
        """Check the complete head and return it.

        :raises GatewayError: ``MALFORMED``.
        """
        assert self.target is not None
        headers, found = _read_lines(b"".join(self._pieces))
        version = self._version
        has_body, length = _framing(found, version)
        host, target = found.get(b"host"), self.target
        if host is None or _IS_HOST(host) is None:
            host = _no_host(host, version)
        connection = _tokens(found[b"connection"]) if b"connection" in found else _NO_TOKENS
        expects_continue = b"expect" in found and _expects_continue(found[b"expect"], version)
        upgrades = b"upgrade" in found and version != HTTP_1_0 and b"upgrade" in connection
        return RequestHead(
            method=self._method,
            # RFC 9112 3.2.1
            target=target if target[:1] == b"/" and b"#" not in target else _origin_form(target, host),
            version=version,
            headers=headers,
            host=host,
            has_body=has_body,
            content_length=length,
            is_coded=b"content-encoding" in found,
            expects_continue=expects_continue and has_body,
            upgrade=WEBSOCKET if upgrades and WEBSOCKET in _tokens(found[b"upgrade"]) else None,
            keep_alive=b"keep-alive" in connection if version == HTTP_1_0 else b"close" not in connection,
        )

    def _end_in(self, data: bytes) -> int | None:
        """Return where the head ends in ``data``; its empty line may have begun before."""
        tail = self._tail
        if tail:
            at = (tail + data[:3]).find(_END)
            if at >= 0:
                return at + len(_END) - len(tail)
        at = data.find(_END)
        if at >= 0:
            return at + len(_END)
        self._tail = data[-3:] if len(data) >= 3 else (tail + data)[-3:]
        return None

    def _read_request_line(self, piece: bytes) -> None:
        self._line += piece[: self._max_bytes]
        line, ended, _ = self._line.partition(b"\r\n")
        if not ended:
            return
        match = _REQUEST_LINE.fullmatch(line)
        if match is None or match[1] in _OTHER_PROTOCOLS:
            raise malformed("the request line is not a valid HTTP/1.1 or HTTP/1.0 request line")
        self._method, self.target, self._version = match.groups()
        self._line = b""


def _read_lines(raw: bytes) -> tuple[RawHeaders, dict[bytes, bytes]]:
    """Return the headers of a whole head, and by their lower-case names those that are looked at here."""
    headers: RawHeaders = []
    found: dict[bytes, bytes] = {}
    for line in raw[: -len(_END)].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        value = value.strip(b" \t")  # RFC 9112 5: blanks around a value are no part of it
        headers.append((name, value))
        lower = name.lower()
        if lower not in _WATCHED:
            continue
        if lower not in found:
            found[lower] = value
        elif lower in _SINGLE:
            raise malformed(f"the request has more than one {lower.decode()} header")
        else:
            found[lower] += b"," + value
    return headers, found


def _framing(found: dict[bytes, bytes], version: bytes) -> tuple[bool, int | None]:
    """Say whether a body follows, and its length where it is counted (RFC 9112 6.1 to 6.3)."""
    coding = found.get(b"transfer-encoding")
    length = found.get(b"content-length")
    if coding is not None:
        if version == HTTP_1_0 or length is not None or coding.lower() != b"chunked":
            raise malformed(
                "the only supported transfer coding is chunked, in HTTP/1.1 and without a content length"
            )
        return True, None
    if length is None:
        return False, None
    if not length.isdigit():  # int() alone takes -1, +1, 1_0 and blanks, and others frame differently
        raise malformed("the content length is not a number")
    count = int(length)
    return count > 0, count


def _no_host(value: bytes | None, version: bytes) -> bytes:
    """Refuse what is no host, but where none is needed (RFC 9112 3.2: exactly one in HTTP/1.1)."""
    if value is not None:
        raise malformed("the host header is not a host with an optional port")
    if version != HTTP_1_0:
        raise malformed("the request has no host header")
    return b""


def _origin_form(target: bytes, host: bytes) -> bytes:
    """Return path and query of an absolute form, which must name the same authority as the host header."""
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise malformed("the target is neither a path nor an absolute address")
    if match[1].lower() != host.lower():
        raise malformed("the target names a different host than the host header")
    path = match[2]
    return path if path[:1] == b"/" else b"/" + path


def _tokens(value: bytes) -> frozenset[bytes]:
    return frozenset([token.strip().lower() for token in value.split(b",")])


def _expects_continue(value: bytes, version: bytes) -> bool:
    """Say whether the client waits for a 100 (RFC 9110 10.1.1: ignored in HTTP/1.0)."""
    if version == HTTP_1_0:
        return False
    if value.lower() != b"100-continue":
        raise malformed("the only supported expectation is 100-continue")
    return True


def render_request_head(
    method: bytes, target: bytes, headers: RawHeaders, host: bytes, content_length: int
) -> bytes:
    """Return the head of a request that we send, down to the empty line.

    :raises GatewayError: MALFORMED, where a part holds a line break, NUL or blank that would end it early.
    """
    parts = [method, b" ", target, b" HTTP/1.1\r\nHost: ", host]
    breaks = 3 + len(headers)
    for name, value in headers:
        parts += (b"\r\n", name, b": ", value)
    if content_length or method in _ALWAYS_WITH_LENGTH:
        parts.append(b"\r\nContent-Length: %d" % content_length)
        breaks += 1
    parts.append(b"\r\n\r\n")
    head = b"".join(parts)
    # Nothing that a client or a setting names may add a line (RFC 9112 11.1): the lines are counted.
    if (
        head.count(b"\n") != breaks
        or head.count(b"\r") != breaks
        or b"\0" in head
        or b" " in target
        or not target
    ):
        message = "a header or the path contains a line break, NUL or space that is not allowed there"
        raise GatewayError(Reason.MALFORMED, message)
    return head
