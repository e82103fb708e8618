"""Frames of ``application/vnd.amazon.eventstream``, the format of Amazon's streams, however they are cut.

::

    length of the frame │ length of the headers │ CRC-32 of both │ headers │ payload │ CRC-32 of all before it
         4 bytes        │        4 bytes        │    4 bytes     │         │         │        4 bytes

Numbers are big-endian.  The first sum is checked as soon as it is there, so that no length is believed that
was damaged on the way, and no more is held than the largest frame has.  Sources: Smithy's page
"Amazon Event Stream"; the limits are botocore's (``eventstream.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, NoReturn
from zlib import crc32

from mgw.nouns.errors import Cause, GatewayError, Reason

MAX_HEADER_BYTES: Final = 128 * 1024
MAX_PAYLOAD_BYTES: Final = 24 * 1024 * 1024

Frame = tuple[bytes, bytes]
"""The headers as they are written, and the payload."""

_PRELUDE: Final = struct.Struct(">III")
_SUM: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">H")
_AROUND: Final = _PRELUDE.size + _SUM.size
"""The bytes of a frame that has neither headers nor a payload."""
_SUMMED: Final = 8
"""The bytes of the two lengths."""
_TEXT: Final = 7
_SIZES: Final = MappingProxyType({0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16})
"""The bytes that values of the other types take: truths, numbers, times and UUIDs."""
_WITH_LENGTH: Final = frozenset({6, _TEXT})


class AmazonFrameReader:
    """Cuts a body into frames; holds the bytes of one frame that is not complete."""

    __slots__ = ("_held", "_needed")

    def __init__(self) -> None:
        self._held = bytearray()
        self._needed = 0
        """How many bytes the frame that is held has in all; 0 while its lengths have not come."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete, one after the other.

        :raises GatewayError: ``UPSTREAM_BROKEN``, behind the frames that are in order.
        """
        if self._held:
            self._held += data
            if len(self._held) < (self._needed or _PRELUDE.size):
                return
            data = bytes(self._held)
            self._held.clear()
        start, size = 0, len(data)
        while size - start >= _PRELUDE.size:
            total, header_size, expected = _PRELUDE.unpack_from(data, start)
            sum_of_lengths = crc32(data[start : start + _SUMMED])
            if sum_of_lengths != expected:
                _break("the lengths of a frame do not match their checksum")
            if header_size > MAX_HEADER_BYTES or not 0 <= total - header_size - _AROUND <= MAX_PAYLOAD_BYTES:
                _break(f"a frame with lengths of {total} and {header_size} bytes", Cause.LIMIT)
            end = start + total
            if end > size:
                self._needed = total
                break
            # the second sum goes on where the first one ended
            (expected,) = _SUM.unpack_from(data, end - _SUM.size)
            if crc32(data[start + _SUMMED : end - _SUM.size], sum_of_lengths) != expected:
                _break("a frame does not match its checksum")
            payload = start + _PRELUDE.size + header_size
            yield data[start + _PRELUDE.size : payload], data[payload : end - _SUM.size]
            start, self._needed = end, 0
        self._held += data[start:] if start else data

    def finish(self) -> None:
        """Nothing more comes.

        :raises GatewayError: ``UPSTREAM_BROKEN``: that is within a frame.
        """
        if self._held:
            self._held.clear()
            _break("the response ended within a frame", Cause.TRUNCATED)


def read_headers(headers: bytes) -> dict[str, str]:
    """Return the headers of a frame whose values are texts, by their names; others are passed over.

    :raises GatewayError: ``UPSTREAM_BROKEN``: they cannot be read.
    """
    try:
        return dict(_texts(headers))
    except (IndexError, KeyError, struct.error, UnicodeDecodeError):
        _break("the headers of a frame cannot be read")


def _texts(headers: bytes) -> Iterator[tuple[str, str]]:
    """Yield names and values; whatever cannot be read raises."""
    position = 0
    while position < len(headers):
        end = position + 1 + headers[position]
        name, kind = str(headers[position + 1 : end], "utf-8"), headers[end]
        position = end + 1
        if kind in _WITH_LENGTH:
            (size,) = _LENGTH.unpack_from(headers, position)
            position += _LENGTH.size
        else:
            size = _SIZES[kind]
        value = headers[position : position + size]
        if len(value) < size:
            raise IndexError
        if kind == _TEXT:
            yield name, str(value, "utf-8")
        position += size


def _break(what: str, cause: Cause = Cause.UNREADABLE) -> NoReturn:
    raise GatewayError(Reason.UPSTREAM_BROKEN, f"the upstream's stream is broken: {what}").because(cause)
