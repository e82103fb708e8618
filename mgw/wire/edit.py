"""Cut members and elements out of a JSON body, or replace values, where they stand (contract 5.1, 5.4).

The body is never rebuilt: a :class:`Document` tells where things stand, :func:`cuts` what has to go with them
(one comma each), :func:`edited` joins what is left.  How a document is walked:

* It is checked whole when it is opened, so that the walk meets valid JSON only.
* One level is walked at a time, from sibling to sibling, and only what is asked for is opened.
* Where an array or object ends is found by ``msgspec``, which runs over several bytes in a nanosecond: it is
  shown all that begins there and names the byte at which it finds more than one value.  A pattern that does
  the same is a hundred times slower where brackets are nested.
* Steps are counted.  A body with more of them than any conversation has is not walked to its end, so the
  time is bounded whatever the brackets look like.
* Nothing calls itself: depth is ``msgspec``'s business, and it refuses what is nested too deeply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import DecodeError, Struct
from msgspec.json import decode

from mgw.errors import GatewayError, Reason
from mgw.wire.checked import next_after, readable
from mgw.wire.splice import Span

Edit = tuple[Span, bytes]
"""A span of the body, and what is to stand there instead."""


class Place(Struct, frozen=True, gc=False):
    """Where a member of an object or an element of an array stands."""

    start: int
    """The first byte of its key, or of its value where it has none."""
    value: int
    """The first byte of its value."""
    end: int
    """The byte behind its value."""
    comma: int | None = None
    """The comma before it; ``None``: it is the first."""
    following: int | None = None
    """Where the next sibling begins; ``None``: it is the last."""


class Document:
    """A JSON body, read by where its values stand.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON, what is nested too deeply, and from any
    method once more than ``max_places`` have been walked over.
    """

    def __init__(self, body: bytes, max_places: int = 200_000) -> None:
        # Of the same length as the body, so that places are those of the body.
        self._text = readable(body)
        self._view = memoryview(self._text)
        self._left = max_places
        start = self._skip_space(0)
        self.root: Final = Place(start, start, len(body))

    def members(self, place: Place) -> dict[str, list[Place]]:
        """Return the members of an object by their keys; none where there is no object.

        A key that is stated several times has several places, in the body's order, and the last one counts.
        """
        found: dict[str, list[Place]] = {}
        if self._text[place.value] == _BRACE:
            for member in self._items(place):
                found.setdefault(self._string(member.start), []).append(member)
        return found

    def elements(self, place: Place, holding: bytes) -> Iterator[Place]:
        """Yield the elements of an array in whose spelling some bytes occur; none where there is no array."""
        if self._text[place.value] != _BRACKET:
            return
        held = self._text.find(holding, place.value, place.end)
        if held < 0:
            return
        for element in self._items(place):
            if held < element.end:
                yield element
                held = self._text.find(holding, element.end, place.end)
                if held < 0:
                    return

    def string(self, place: Place) -> str | None:
        """Return a value that is a string."""
        return self._string(place.value) if self._text[place.value] == _QUOTE else None

    def spelled(self, place: Place) -> bytes:
        """Return a value as it is spelled."""
        return self._text[place.value : place.end]

    def _items(self, place: Place) -> Iterator[Place]:
        """Walk over what stands in an array or object."""
        text, is_object = self._text, self._text[place.value] == _BRACE
        comma, start = None, self._skip_space(place.value + 1)
        while text[start] not in _CLOSING:
            value = self._skip_space(self._skip_space(self._end(start)) + 1) if is_object else start
            end = self._end(value)
            after = self._skip_space(end)
            following = self._skip_space(after + 1) if text[after] == _COMMA else None
            yield Place(start, value, end, comma, following)
            if following is None:
                return
            comma, start = after, following

    def _end(self, start: int) -> int:
        """Return where the value that begins at ``start`` ends."""
        self._left -= 1
        if self._left < 0:
            raise GatewayError(Reason.MALFORMED, "the body has too many parts to be edited")
        if self._text[start] in _OPENING:
            return self._container_end(start)
        match = _SCALAR.match(self._text, start)
        assert match is not None, "the body has been checked"
        return match.end()

    def _container_end(self, start: int) -> int:
        behind = next_after(self._view, start)
        closing = b"}" if self._text[start] == _BRACE else b"]"
        return self._text.rindex(closing, start, behind) + 1

    def _skip_space(self, position: int) -> int:
        match = _SPACE.match(self._text, position)
        assert match is not None, "it may be empty"
        return match.end()

    def _string(self, start: int) -> str:
        match = _SCALAR.match(self._text, start)
        assert match is not None, "the body has been checked"
        literal = match[0]
        if b"\\" not in literal:
            return str(literal[1:-1], "utf-8", "replace")
        try:
            return decode(literal, type=str)
        except (DecodeError, UnicodeDecodeError):  # nothing that anybody looks for
            return "\ufffd"


def cuts(siblings: Sequence[Place]) -> list[Span]:
    """Return what to cut to be rid of members of one object, or elements of one array, in ascending order.

    A run of neighbours takes the commas between them along and the one behind it, with the white space after
    that; the last run has none behind it and takes the one before.
    """
    spans: list[Span] = []
    for first, last in _runs(siblings):
        if last.following is not None:
            spans.append((first.start, last.following))
        else:
            spans.append((first.start if first.comma is None else first.comma, last.end))
    return spans


def are_all(siblings: Sequence[Place]) -> bool:
    """Whether these are all members of their object, or all elements of their array."""
    runs = _runs(siblings)
    return len(runs) == 1 and runs[0][0].comma is None and runs[0][1].following is None


def _runs(siblings: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Return the first and the last of each run of neighbours."""
    runs: list[tuple[Place, Place]] = []
    for place in siblings:
        if runs and runs[-1][1].following == place.start:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def edited(body: bytes, edits: Sequence[Edit]) -> bytes:
    """Return ``body`` with the edits made, which do not overlap; the same object where there are none."""
    if not edits:
        return body
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    position = 0
    for (start, end), new in sorted(edits):
        pieces += (view[position:start], new)
        position = end
    pieces.append(view[position:])
    return b"".join(pieces)


_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_OPENING: Final = b"{["
_CLOSING: Final = b"}]"
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^ \t\r\n,\]}]++', re.DOTALL)
