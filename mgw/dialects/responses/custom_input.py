"""The input of a custom tool, taken out of the arguments of the function that stands for it.

The function takes ``{"input": string}`` (contract 11.5).  Arguments that begin like that object are decoded
as they come, and what follows the string is not read.  Anything else is kept to its end: an object that has
the string in another place gives it, and what is no such object is the input itself.  An empty object is no
input, as no arguments are: Anthropic's wire has the one in whole answers and the other in streams.

The result depends on the whole text alone, not on how it was cut.  What was broken off in the string gives
its beginning; an escape that JSON does not have stands for itself, as models write those of regular
expressions; half of a surrogate pair is U+FFFD.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from mgw.dialects.arguments import is_empty

_LONGEST_BEGIN: Final = 64
"""Characters in which the string must begin to be decoded as it comes."""
_BEGIN: Final = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
_CUT: Final = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?)?\Z"
    r"|\\(?P<whole>.)",
    re.DOTALL,
)
"""An escape at the end that may go on, or one that is whole."""
_LONGEST_CUT: Final = 12
_NO_ESCAPE: Final = re.compile(r'\\(?!["/bfnrt]|u[0-9a-fA-F]{4})')
_BACKSLASH: Final = "\\u005c"
_BACKSLASH_TEMPLATE: Final = "\\" + _BACKSLASH
_HALF: Final = re.compile("[\ud800-\udfff]")


class _Input(Struct):
    input: str


_DECODER: Final = Decoder(_Input)
_STRING: Final = JSONDecoder(strict=False)
"""Takes halves of surrogate pairs, too, and says where the string ends."""
_UNREADABLE: Final = (MsgspecError, UnicodeError, RecursionError)


class CustomInput:
    """Decodes the input of one call, piece by piece."""

    __slots__ = ("_held", "_is_string", "_tail")

    def __init__(self) -> None:
        self._held: list[str] = []
        """What is not decoded yet."""
        self._is_string: bool | None = None
        """Whether the string is decoded as it comes; ``None``: not known yet."""
        self._tail: str | None = ""
        """An escape that may go on; ``None``: the string has ended."""

    def feed(self, arguments: str) -> str:
        """Return what more of the arguments adds to the input."""
        if self._is_string:
            return self._decode(arguments)
        self._held.append(arguments)
        if self._is_string is False:
            return ""
        begun = "".join(self._held)
        found = _BEGIN.match(begun[:_LONGEST_BEGIN])
        if found is None:
            self._held = [begun]
            self._is_string = False if len(begun) >= _LONGEST_BEGIN else None
            return ""
        self._is_string = True
        self._held.clear()
        return self._decode(begun[found.end() :])

    def finish(self) -> str:
        """Return what the end of the arguments adds to the input."""
        if self._is_string:
            return ""
        text = "".join(self._held)
        self._held.clear()
        if is_empty(text) or (len(text) <= _LONGEST_BEGIN and text.split() == ["{}"]):
            return ""
        try:
            return _DECODER.decode(text).input
        except _UNREADABLE:
            return text

    def _decode(self, piece: str) -> str:
        """Return what a piece of the string says."""
        if self._tail is None:
            return ""
        text = self._tail + piece
        cut = _find_cut(text)
        whole, self._tail = text[:cut], text[cut:]
        try:
            said, end = _STRING.raw_decode(f'"{whole}"')
        except ValueError:  # escapes that JSON does not have
            whole = _NO_ESCAPE.sub(_BACKSLASH_TEMPLATE, whole.replace("\\\\", _BACKSLASH))
            said, end = _STRING.raw_decode(f'"{whole}"')
        if end < len(whole) + 2:
            self._tail = None
        return said if said.isascii() else _HALF.sub("\ufffd", said)


def _find_cut(text: str) -> int:
    """Return where the last escape begins, if it may go on, else the end."""
    start = max(0, len(text) - _LONGEST_CUT)
    start -= (start - len(text[:start].rstrip("\\"))) % 2  # not between a backslash and what it escapes
    for escape in _CUT.finditer(text, start):
        if escape["whole"] is None:
            return escape.start()
    return len(text)
