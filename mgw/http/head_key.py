"""Recognise the head of a request that has come before, but for the length of its body.

Clients repeat their heads byte for byte, and a head that was found in order once is so again.  What is known
of it is kept under its *key*: its bytes without the digits of its ``Content-Length``.  No two heads that are
in order have the same key unless they differ in those digits alone: the length stands in one place, and a
head that says it twice is refused (RFC 9112 6.3).
"""

from __future__ import annotations

import re
from typing import Final

MAX_KEY_BYTES: Final = 8 * 1024
"""The heads of clients have one or two thousand; a longer one is read anew each time."""
_END: Final = b"\r\n\r\n"
_find_length: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([1-9][0-9]{0,8})\r\n").search

HeadKey = tuple[bytes, int, int]
"""The key, where the head ends, and the length of the body."""


def key_of_head(data: bytes) -> HeadKey | None:
    """Return the key of the head that ``data`` begins with, if it is complete and says a body's length."""
    end = data.find(_END, 0, MAX_KEY_BYTES)
    if end < 0:
        return None
    found = _find_length(data, 0, end + 2)
    if found is None:
        return None
    start, stop = found.span(1)
    return data[:start] + data[stop:end], end + 4, int(found[1])
