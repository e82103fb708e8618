"""A JSON array that arrives in pieces: how Gemini streams without ``alt=sse``.

The reader cuts the array into its elements, each as soon as it is complete, and leaves their meaning, and
whether each is valid in itself, to whoever parses them.  Its states, white space between elements skipped::

    BEFORE --[--> FIRST --]--------------------> AFTER
                    |                              ^
                  (value)                          |
                    v                              |
              ELEMENT or WORD --(its end)--> BETWEEN --]
                    ^                              |
                    +--(value)-- NEXT <-----,------+
"""

from __future__ import annotations

import re
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import has_more_values

MAX_ELEMENT_BYTES: Final = 32 * 1024 * 1024
"""How much of one element is held by default: an image in base64 travels as one element."""
MAX_OBJECTS: Final = 50_000
MAX_VALUES: Final = 400_000
"""How many of them one element may hold; no reader builds more at once."""


class _State(Enum):
    BEFORE = auto()
    FIRST = auto()
    NEXT = auto()
    ELEMENT = auto()
    """The reader is within an object, an array or a string."""
    WORD = auto()
    """The reader is within a number or a literal."""
    BETWEEN = auto()
    AFTER = auto()


_MOVES: Final = MappingProxyType(
    {
        (_State.BEFORE, b"["): _State.FIRST,
        (_State.FIRST, b"]"): _State.AFTER,
        (_State.BETWEEN, b","): _State.NEXT,
        (_State.BETWEEN, b"]"): _State.AFTER,
    }
)
_IN_VALUE: Final = frozenset({_State.ELEMENT, _State.WORD})
_EXPECTING_VALUE: Final = (_State.FIRST, _State.NEXT)
_NO_VALUE: Final = b",]}:"
_BACKSLASH: Final = ord("\\")
_SPACES: Final = re.compile(rb"[ \t\r\n]*+")
_TO_A_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+', re.DOTALL)
_REST_OF_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_REST_OF_WORD: Final = re.compile(rb'[^ \t\r\n,:"\[\]{}]*+')


class ElementReader:
    """Cut a top-level JSON array into its elements, however it arrives.

    Holds the bytes of one unfinished element, at most ``max_bytes`` of them, and takes time in proportion to
    its input.
    """

    __slots__ = ("_depth", "_escaped", "_held", "_in_string", "_max_bytes", "_state")

    def __init__(self, max_bytes: int = MAX_ELEMENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._state = _State.BEFORE
        self._held = bytearray()
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the elements that these bytes complete, without the white space around them.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where this is no array, or an element is larger
        than the limit.
        """
        elements: list[bytes] = []
        position, size = 0, len(data)
        while position < size:
            if self._state in _IN_VALUE:
                start = position
                position = self._find_end(data, start)
                self._hold(data[start:position])
                if self._state is _State.BETWEEN:
                    elements.append(self._take_element())
            else:
                position = self._read_between(data, position)
        return elements

    def finish(self) -> None:
        """Say that nothing follows.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where the array has not ended.
        """
        if self._state is not _State.AFTER:
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, "the upstream's response ended in the middle of its array"
            )

    def _read_between(self, data: bytes, position: int) -> int:
        """Take one character outside of elements, after white space; return where to go on."""
        position = _match_end(_SPACES, data, position)
        character = data[position : position + 1]
        if not character:
            return position
        move = _MOVES.get((self._state, character))
        if move is not None:
            self._state = move
        elif self._state in _EXPECTING_VALUE and character not in _NO_VALUE:
            self._begin(character)
        else:
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is not a JSON array")
        return position + 1

    def _begin(self, character: bytes) -> None:
        self._depth = 1 if character in b"{[" else 0
        self._in_string = character == b'"'
        self._state = _State.ELEMENT if self._depth or self._in_string else _State.WORD
        self._hold(character)

    def _find_end(self, data: bytes, position: int) -> int:
        """Return where the element ends, and say so in the state, or the end of the data."""
        if self._state is _State.WORD:
            position = _match_end(_REST_OF_WORD, data, position)
            if position < len(data):
                self._state = _State.BETWEEN
            return position
        if self._in_string:
            position = self._find_string_end(data, position)
        while self._depth and not self._in_string:
            position = _match_end(_TO_A_BRACKET, data, position)
            if position == len(data):
                return position
            character = data[position : position + 1]
            position += 1
            if character == b'"':
                self._in_string = True
                position = self._find_string_end(data, position)
            else:
                self._depth += 1 if character in b"{[" else -1
        if not self._in_string:
            self._state = _State.BETWEEN
        return position

    def _find_string_end(self, data: bytes, position: int) -> int:
        """Return where a string that is not closed yet ends, or the end of the data."""
        if self._escaped:
            self._escaped = False
            position += 1
        position = _match_end(_REST_OF_STRING, data, position)
        if position == len(data):
            return position
        self._escaped = data[position] == _BACKSLASH  # the last byte: what it escapes has not come yet
        self._in_string = self._escaped
        return position + 1

    def _take_element(self) -> bytes:
        element = bytes(self._held)
        self._held = bytearray()
        if has_more_values(element, MAX_OBJECTS, MAX_VALUES):
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream sent an element with too many values")
        return element

    def _hold(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > self._max_bytes:
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, f"the upstream sent an element of more than {self._max_bytes} bytes"
            )


class ArrayWriter:
    """Write elements as one JSON array, each as soon as it is there."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = False

    def element(self, element: bytes) -> bytes:
        """Return an element with what goes before it."""
        before = b",\n" if self._begun else b"["
        self._begun = True
        return before + element

    def finish(self) -> bytes:
        """Return the end of the array, all of it where it has no element."""
        return b"]" if self._begun else b"[]"


def _match_end(pattern: re.Pattern[bytes], data: bytes, position: int) -> int:
    match = pattern.match(data, position)
    assert match is not None, "these patterns match the empty string, too"
    return match.end()
