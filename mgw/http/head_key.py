"""Recognise the head of a request that has come before, but for what every request has of its own.

Clients repeat their heads byte for byte, and a head that was found in order once is so again.  What is known
of it is kept under its *key*: its bytes without the digits of its ``Content-Length``, and with a NUL in place
of the values of a few headers that name the request (:data:`VARYING`).  Two heads that are in order have the
same key only if they differ in nothing but those: the length stands in one place, since a head that says it
twice is refused (RFC 9112 6.3), and a head that holds a NUL has no key.
"""

from __future__ import annotations

import re
from typing import Final

MAX_KEY_BYTES: Final = 8 * 1024
"""The heads of clients have one or two thousand; a longer one is read anew each time."""
VARYING: Final = frozenset(
    {b"traceparent", b"tracestate", b"baggage", b"x-client-request-id", b"idempotency-key"}
)
"""Headers whose values are passed on, and mean nothing here."""
_END: Final = b"\r\n\r\n"
_find_own: Final = re.compile(
    rb"\r\n(?:[Cc]ontent-[Ll]ength: ([1-9][0-9]{0,8})|(?:[Tt]race(?:parent|state)|[Bb]aggage"
    rb"|[Xx]-[Cc]lient-[Rr]equest-[Ii]d|[Ii]dempotency-[Kk]ey): ([!-~]{1,512}))(?=\r\n)"
).finditer

HeadKey = tuple[bytes, int, int, tuple[bytes, ...]]
"""The key, where the head ends, the length of the body, and the values of the varying headers in order."""


def key_of_head(data: bytes) -> HeadKey | None:
    """Return the key of the head that ``data`` begins with, if it is complete and says a body's length."""
    end = data.find(_END, 0, MAX_KEY_BYTES)
    if end < 0 or data.find(b"\0", 0, end) >= 0:
        return None
    length, position = 0, 0
    pieces: list[bytes] = []
    values: tuple[bytes, ...] = ()
    for found in _find_own(data, 0, end + 2):
        digits, value = found.groups()
        if value is not None:
            values = (*values, value)
            pieces += (data[position : found.start(2)], b"\0")
        elif length:
            return None
        else:
            length = int(digits)
            pieces.append(data[position : found.start(1)])
        position = found.end()
    if not length:
        return None
    pieces.append(data[position:end])
    return b"".join(pieces), end + 4, length, values
