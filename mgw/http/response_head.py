"""The head of an upstream's response: what a gateway has to know of it, and the lines that it relays.

The head is read in one pass over its lines, which stay the bytes that they are: a line that goes on to the
client is neither taken apart nor put together again.  What becomes of a line follows from its name, and is
remembered for a bounded number of names.  Which lines stay here is decided in :mod:`mgw.wire.headers`
(contract 5.7).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from mgw.wire.headers import IGNORED_OPTIONS, RawHeaders, is_relayed, options_of

_MAX_NAMES: Final = 1024
"""As many spellings of names are remembered; providers use a few dozen."""
_MAX_NAME: Final = 64
_BLANKS: Final = (b" ", b"\t")
_NO_OPTIONS: Final[frozenset[bytes]] = frozenset()
_NO_PHRASE: Final = re.compile(rb"[^\t -~\x80-\xff]").search  # RFC 9112 4


class _Use(IntEnum):
    """What a line is for."""

    RELAYED = 0
    DROPPED = 1
    CONTENT_LENGTH = 2
    CONTENT_TYPE = 3
    CONTENT_ENCODING = 4
    TRANSFER_ENCODING = 5
    CONNECTION = 6
    REQUEST_ID = 7


_USES: Final = {
    b"content-length": _Use.CONTENT_LENGTH,
    b"content-type": _Use.CONTENT_TYPE,
    b"content-encoding": _Use.CONTENT_ENCODING,
    b"transfer-encoding": _Use.TRANSFER_ENCODING,
    b"connection": _Use.CONNECTION,
    # OpenAI and most hosts of its API, Anthropic, Google, Azure
    b"x-request-id": _Use.REQUEST_ID,
    b"request-id": _Use.REQUEST_ID,
    b"x-goog-request-id": _Use.REQUEST_ID,
    b"apim-request-id": _Use.REQUEST_ID,
    b"x-ms-request-id": _Use.REQUEST_ID,
}


class _UseByName(dict[bytes, int]):
    """What a line is for, by its name as sent."""

    def __missing__(self, name: bytes) -> int:
        lower = name.lower()
        use = _USES.get(lower)
        if use is None:
            use = _Use.RELAYED if is_relayed(name) else _Use.DROPPED
        if len(self) < _MAX_NAMES and len(name) <= _MAX_NAME:
            self[name] = int(use)
        return int(use)


_use_of: Final = _UseByName()
_DROPPED: Final = int(_Use.DROPPED)
_CONTENT_LENGTH: Final = int(_Use.CONTENT_LENGTH)
_CONTENT_TYPE: Final = int(_Use.CONTENT_TYPE)
_TRANSFER_ENCODING: Final = int(_Use.TRANSFER_ENCODING)
_CONNECTION: Final = int(_Use.CONNECTION)
_REQUEST_ID: Final = int(_Use.REQUEST_ID)


class ResponseHead:
    """The final head of a response.

    :param lines: its header lines as received, which the parser has checked.
    """

    __slots__ = (
        "_lines",
        "_pairs",
        "connection_options",
        "content_encoding",
        "content_length",
        "content_type",
        "reason",
        "relayed_lines",
        "request_id",
        "status",
        "transfer_encoding",
    )

    def __init__(self, status: int, reason: bytes, lines: list[bytes]) -> None:
        self.status = status
        self.reason = b"" if reason and _NO_PHRASE(reason) else reason
        self._lines = lines
        self._pairs: RawHeaders | None = None
        self.content_type: bytes | None = None
        """The first one; ``None`` where there is none.  So are those that follow."""
        self.content_encoding: bytes | None = None
        self.content_length: bytes | None = None
        self.request_id: bytes | None = None
        """The provider's own id of the exchange, under one of the names that providers use."""
        self.transfer_encoding: bytes | None = None
        """All of them, joined by commas."""
        self.connection_options: frozenset[bytes] = _NO_OPTIONS
        """What ``Connection`` lists, in lower case."""
        self.relayed_lines: list[bytes] = []
        """The lines that the client gets, each ``Name: value``."""
        self._read(lines)

    @property
    def headers(self) -> RawHeaders:
        """The header pairs: names and order as received; made when somebody asks."""
        pairs = self._pairs
        if pairs is None:
            pairs = self._pairs = []
            for line in self._lines:
                name, _, value = line.partition(b":")
                pairs.append((name, value.lstrip(b" \t")))
        return pairs

    def forget_lines(self) -> None:
        """Let go of the lines: a stream may last for hours, and nobody asks for them any more."""
        self._lines, self._pairs, self.relayed_lines = [], None, []

    def _read(self, lines: list[bytes]) -> None:
        keep = self.relayed_lines.append
        connection: bytes | None = None
        for line in lines:
            name, _, value = line.partition(b":")
            if value[:1] != b" " or value[1:2] in _BLANKS:
                value = value.lstrip(b" \t")
                line = b"%b: %b" % (name, value)  # noqa: PLW2901  the same line, spaced as we write it
            else:
                value = value[1:]
            use = _use_of[name]
            if not use:
                keep(line)
            elif use == _CONTENT_TYPE:
                keep(line)
                if self.content_type is None:
                    self.content_type = value
            elif use == _CONTENT_LENGTH:
                keep(line)
                self.content_length = value
            elif use == _CONNECTION:
                connection = value if connection is None else connection + b"," + value
            elif use != _DROPPED:
                self._note(use, line, value)
        if connection is not None:
            self.connection_options = options_of(connection)
            self._drop_named(self.connection_options - IGNORED_OPTIONS)

    def _note(self, use: int, line: bytes, value: bytes) -> None:
        """Take note of a line that few responses have."""
        if use == _TRANSFER_ENCODING:
            before = self.transfer_encoding
            self.transfer_encoding = value if before is None else before + b"," + value
            return
        self.relayed_lines.append(line)
        if use == _REQUEST_ID:
            if self.request_id is None:
                self.request_id = value
        elif self.content_encoding is None:
            self.content_encoding = value

    def _drop_named(self, names: frozenset[bytes]) -> None:
        """Drop the lines that ``Connection`` names (RFC 9110 7.6.1)."""
        if names:
            self.relayed_lines = [
                line for line in self.relayed_lines if line.partition(b":")[0].lower() not in names
            ]
