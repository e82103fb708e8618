"""Leave out what fills large JSON documents: long texts, and long lists of numbers.

An image in base64, or an embedding, is nearly all of its answer and says nothing about it.  What is left of
the document has the same objects, arrays and keys, the same short values, and is valid where the document is.
It is made piece by piece, however the document was cut, and nothing is remembered between pieces:

* Between two quotation marks, escaped ones included, all is inside one string, or all is outside of strings.
  What begins with a backslash, or another byte that only strings can hold, or soon has one, is inside: its
  middle is left out, cut where no escape is cut.
* Else it may be numbers.  From the first comma to the last one behind an opening bracket, where no other
  bracket and no brace stands between them, there are whole elements of one array.  In a string it is text,
  of which no escape has a comma.

The bytes are searched a few times by functions of C, which takes a tenth of the time of decoding them.  What
has many quotation marks is left as it is behind the first of them, so that no piece takes long.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.wire.json_document import Span

LONG_BYTES: Final = 1024
"""Shorter parts are never worth a look."""
MOST_PARTS: Final = 128
"""How many parts of a piece are looked at; others are seldom long."""
_FIRST_BYTES: Final = 64
"""Where a text shows that it is none of numbers."""
_NEAR_BYTES: Final = 256
"""How far from its ends a part is cut at most."""
_ONLY_IN_STRINGS: Final = re.compile(rb"[^\s\d.,:+\-eE\[\]{}truefalsn]")
_NO_ESCAPE: Final = re.compile(rb"[^\\]{6}(?![\x80-\xbf])")
"""Behind so many bytes no escape is open: the longest has six.  Nor does it end within a character."""


def shorten_piece(data: bytes) -> bytes:
    """Return a piece of a JSON document without the middle of what is long in it; itself where nothing is."""
    kept: list[bytes] = []
    size, done, begin = len(data), 0, 0
    for _ in range(MOST_PARTS):
        if size - begin < LONG_BYTES:
            break
        end = data.find(b'"', begin)
        if end < 0:
            end = size
        if end - begin >= LONG_BYTES:
            is_text = _ONLY_IN_STRINGS.search(data, begin, begin + _FIRST_BYTES) is not None
            first, last = (_middle_of_text if is_text else _middle_of_numbers)(data, begin, end)
            if first < last:
                kept.append(data[done:first])
                done = last
        begin = end + 1
    if not kept:
        return data
    kept.append(data[done:])
    return b"".join(kept)


def _middle_of_text(data: bytes, begin: int, end: int) -> Span:
    """Return what may be left out in the middle of a string."""
    first = _NO_ESCAPE.search(data, begin, begin + _NEAR_BYTES)
    last = _NO_ESCAPE.search(data, end - _NEAR_BYTES, end)
    return (0, 0) if first is None or last is None else (first.end(), last.end())


def _middle_of_numbers(data: bytes, begin: int, end: int) -> Span:
    """Return what may be left out in the middle of the last array that begins or goes on here."""
    begin = max(begin, data.rfind(b"[", begin, end) + 1)
    closed = data.find(b"]", begin, end)
    end = end if closed < 0 else closed
    first, last = data.find(b",", begin, begin + _NEAR_BYTES), data.rfind(b",", end - _NEAR_BYTES, end)
    is_flat = data.find(b"{", begin, end) < 0 and data.find(b"}", begin, end) < 0
    return (first, last) if is_flat and first >= 0 else (0, 0)
