"""The head of an upstream's response: what a gateway needs from it, and the lines that it relays.

A line that goes on to the client stays as it came, but for the blanks behind its colon.  Which lines stay
here is decided in :mod:`mgw.wire.headers` (contract 5.7).  Each line is judged by :func:`judge_lines`, also
for the heads that :mod:`mgw.http.head_shape` reads faster.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.wire.headers import RawHeaders, connection_options, is_relayed, options_of

LINE_END: Final = b"\r\n"
HEAD_END: Final = b"\r\n\r\n"
_PHRASE: Final = len(b"HTTP/1.1 200 ")
_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_HTTP_1_1: Final = b"HTTP/1.1 "
REQUEST_ID: Final = rb"[!-~]{1,128}+"
"""What can be a provider's own id of an exchange."""
_is_request_id: Final = re.compile(REQUEST_ID).fullmatch
_find_date: Final = re.compile(rb"\r\n[Dd][Aa][Tt][Ee]:[ \t]*([!-~](?:[ -~]*[!-~])?)").search
_find_age: Final = re.compile(rb"\r\n[Aa][Gg][Ee]:").search
_NO_PHRASE: Final = re.compile(rb"[^\t -~\x80-\xff]").search  # RFC 9112 4

CONNECTION: Final = "connection_options"
CONTENT_LENGTH: Final = "content_length"
TRANSFER_ENCODING: Final = "transfer_encoding"
NOTED: Final = MappingProxyType(
    {
        b"connection": CONNECTION,
        b"transfer-encoding": TRANSFER_ENCODING,
        b"content-length": CONTENT_LENGTH,
        b"content-type": "content_type",
        b"content-encoding": "content_encoding",
        # OpenAI and most hosts of its API, Anthropic, Google, Azure, Amazon
        b"x-request-id": "request_id",
        b"request-id": "request_id",
        b"x-goog-request-id": "request_id",
        b"apim-request-id": "request_id",
        b"x-ms-request-id": "request_id",
        b"x-amzn-requestid": "request_id",
    }
)
"""The attribute of :class:`ResponseHead` that takes the value of a header, by the header's name."""
OF_BODY: Final = frozenset(
    {b"content-type", b"content-length", b"etag", b"digest", b"content-digest", b"content-md5"}
)
"""Headers that speak of the very bytes of a body."""
_JOINED: Final = frozenset({CONNECTION, TRANSFER_ENCODING})
"""The headers of which all values count; of the others the first does."""


class ResponseHead(Struct):
    """The final head of a response."""

    status: int
    reason: bytes
    raw: bytes
    """The head as received, with the empty line at its end."""
    relayed_lines: bytes
    """The lines that the client gets, each ``Name: value`` with its line end."""
    content_type: bytes | None = None
    """The first one; ``None`` where there is none.  So are those that follow."""
    content_encoding: bytes | None = None
    content_length: int | None = None
    request_id: str | None = None
    """The provider's own id of the exchange, under one of the names that providers use."""
    transfer_encoding: bytes | None = None
    """The values of all such headers, joined by commas."""
    connection_options: frozenset[bytes] = _NO_OPTIONS
    """What ``Connection`` lists, in lower case."""
    is_kept: bool = True
    """Whether the connection stays open behind the response, as far as the head says (RFC 9112 9.3)."""
    is_proved: bool = False
    """Whether every byte of the status line and of :attr:`relayed_lines` was matched with a known shape, so
    that nobody needs to look for line ends in them again."""
    _pairs: RawHeaders | None = None

    @property
    def headers(self) -> RawHeaders:
        """The header pairs: names and order as received; made when somebody asks."""
        if self._pairs is None:
            self._pairs = [(name, value) for name, value, *_ in judge_lines(self.raw)]
        return self._pairs

    @property
    def date(self) -> bytes | None:
        """When the host gave this answer; ``None`` where that is not said, or a cache gave it (``Age``)."""
        found = _find_date(self.raw)
        return None if found is None or _find_age(self.raw) is not None else found[1]

    def with_content_type(self, content_type: bytes) -> ResponseHead:
        """Return the head of the same response with its body in another form, of a length not known yet."""
        status_line, *lines = self.raw[: -len(HEAD_END)].split(LINE_END)
        kept = [line for line in lines if line.partition(b":")[0].lower() not in OF_BODY]
        raw = LINE_END.join([status_line, *kept, b"Content-Type: " + content_type]) + HEAD_END
        return read_response_head(self.status, raw, judge_lines(raw))

    def with_headers(self, added: RawHeaders) -> ResponseHead:
        """Return the head of the same response with some headers more."""
        lines = b"".join([b"%b: %b\r\n" % pair for pair in added])
        raw = self.raw[: -len(LINE_END)] + lines + LINE_END
        return read_response_head(self.status, raw, judge_lines(raw))

    def forget_lines(self) -> None:
        """Let go of the lines: a stream may last for hours, and nobody asks for them any more."""
        self.raw, self._pairs, self.relayed_lines = HEAD_END, None, b""


def is_encoded(head: ResponseHead) -> bool:
    """Whether the body of a response has a content coding."""
    encoding = head.content_encoding
    return encoding is not None and encoding.strip().lower() not in (b"identity", b"")


HeaderLine = tuple[bytes, bytes, str | None, bool]
"""Name and value of a line, the attribute that takes note of the value, and whether the line is relayed."""


def judge_lines(raw: bytes) -> list[HeaderLine]:
    """Say of each header line of a whole head what becomes of it."""
    found: list[tuple[bytes, bytes, bytes]] = []
    dropped: frozenset[bytes] = _NO_OPTIONS
    for line in raw[: -len(HEAD_END)].split(LINE_END)[1:]:
        name, _, value = line.partition(b":")
        lower = name.lower()
        found.append((name, lower, value.lstrip(b" \t")))
        if lower == b"connection":
            dropped |= connection_options(value)  # RFC 9110 7.6.1
    return [
        (name, value, NOTED.get(lower), is_relayed(name) and lower not in dropped)
        for name, lower, value in found
    ]


def read_response_head(status: int, raw: bytes, lines: list[HeaderLine]) -> ResponseHead:
    """Return what a gateway has to know of a head, which the parser has checked.

    :param lines: as they were judged.
    """
    notes: dict[str, bytes] = {}
    relayed: list[bytes] = []
    for name, value, attribute, goes_on in lines:
        if goes_on:
            relayed.append(b"%b: %b\r\n" % (name, value))
        if attribute is None:
            continue
        if attribute not in notes:
            notes[attribute] = value
        elif attribute in _JOINED:
            notes[attribute] += b"," + value
    reason = raw[_PHRASE : raw.index(LINE_END)]
    length, connection = notes.get(CONTENT_LENGTH), notes.get(CONNECTION)
    options = _NO_OPTIONS if connection is None else options_of(connection)
    is_1_1, request_id = raw.startswith(_HTTP_1_1), notes.get("request_id")
    return ResponseHead(
        status,
        b"" if _NO_PHRASE(reason) else reason,
        raw,
        b"".join(relayed),
        notes.get("content_type"),
        notes.get("content_encoding"),
        None if length is None else int(length),
        None if request_id is None or _is_request_id(request_id) is None else request_id.decode("ascii"),
        notes.get(TRANSFER_ENCODING),
        options,
        # Not the parser's should_keep_alive(): once a message is complete, which one without a body is with
        # its head, it has forgotten the headers, and says that a 204 with ``Connection: close`` stays open.
        b"close" not in options and (is_1_1 or b"keep-alive" in options),
    )
