"""Find string values deep in a JSON body, at their own positions.

For routes whose models stand somewhere else than at the top: batches, settings of a session, a body that
repeats the model of its path.  How a body of many megabytes is walked:

* It is checked whole first, so that the walk meets valid JSON only.
* Only arrays and objects that a path leads through are opened.  A pattern made for the keys that are looked
  for passes over short other members, several at once; ``msgspec`` passes over all else (see
  :mod:`mgw.wire.checked`).
* Steps are counted, so the time is bounded whatever the body looks like.
* Functions call one another as deep as the paths are, not as deep as the body is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from typing import Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from mgw.errors import GatewayError, Reason
from mgw.wire.checked import next_after, readable
from mgw.wire.splice import Span

Path = tuple[str | None, ...]
"""Keys from the top, none of which needs escapes; ``None`` stands for every element of an array."""

MAX_VALUES: Final = 750_000
"""How many values are looked at one by one, at about two microseconds each.

A batch of Anthropic's has at most 100,000 requests, each with three values on the path and a few long ones.
"""

MAX_FOUND: Final = 200_000
"""How many values may be found; each costs a few hundred bytes, and is resolved."""


class Nested(Struct, frozen=True, gc=False):
    """A string value, and where it stands (quotes included)."""

    value: str
    span: Span
    path: tuple[str | int, ...]
    """Keys from the top, and the indices of elements."""

    @property
    def name(self) -> str:
        """The path as people write it, like ``requests[3].params.model``."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "".join(steps).removeprefix(".")


def find_values(body: bytes, *paths: Path) -> list[Nested]:
    """Return each string value that stands at one of ``paths``, in the body's order.

    A key that is stated several times is found each time, and the last one counts.  A value that is no text
    reads as U+FFFD, which is nobody's name; one that is no string is passed over.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON, for what is nested too deeply, and for
    more than :data:`MAX_VALUES` values on the paths, or too long to be passed over several at once, or more
    than :data:`MAX_FOUND` found.
    """
    walk = _Walk(body)
    walk.document(_tree(paths))
    return walk.found


_SPACE: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
# Groups that may fail half-way are not possessive: Python 3.11 before 3.11.5 goes on from there (gh-106052).
# They are bounded, so going back costs little.
_SHORT_STRING: Final = rb'"[^"\\]{0,99}+"'
_FLAT: Final = rb'[\[{](?:[^"\[\]{}]++|%b){0,40}[\]}]' % _SHORT_STRING
_SHORT: Final = rb'(?:%b|[-+.0-9A-Za-z]++|[\[{](?:[^"\[\]{}]++|%b|%b){0,40}[\]}])' % (
    _SHORT_STRING,
    _SHORT_STRING,
    _FLAT,
)
"""Values that a pattern passes over sooner than the checker does: scalars, and few of them together."""
_ANY_SPACE: Final = re.compile(_SPACE)
_NEXT_ELEMENT: Final = re.compile(rb"%b,%b" % (_SPACE, _SPACE))
_ANY_STRING: Final = re.compile(_STRING, re.DOTALL)
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_QUOTE: Final = ord('"')
_CLOSING_BRACKET: Final = ord("]")
_decode_text: Final = Decoder(str).decode


def _next_member(wanted: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern for the members of an object, up to the next that has to be looked at.

    It matches the comma before, short members that are not wanted, then the key of one that may be, or the
    object's end.
    """
    names = b"|".join(re.escape(name.encode()) for name in wanted)
    key = rb'"(?!(?:%b)")[^"\\]{0,99}+"' % names
    others = rb"(?:%b%b:%b%b%b(?:,%b|(?=\}))){0,400}" % (key, _SPACE, _SPACE, _SHORT, _SPACE, _SPACE)
    return re.compile(
        rb"%b,?+%b%b(?:(%b)%b:%b|\})" % (_SPACE, _SPACE, others, _STRING, _SPACE, _SPACE), re.DOTALL
    )


class _Node:
    """What some paths have in common: a place that they lead through, or end at."""

    def __init__(self, tails: list[Path]) -> None:
        below = {
            tail[0]: _Node([other[1:] for other in tails if other[:1] == tail[:1]]) for tail in tails if tail
        }
        self.is_end: Final = () in tails
        self.element: Final = below.get(None)
        self.members: Final = {key: node for key, node in below.items() if key is not None}
        self.spelled: Final = {b'"%b"' % key.encode(): (key, node) for key, node in self.members.items()}
        self.next_member: Final = _next_member(self.members).match

    def respelled(self, literal: bytes) -> tuple[str, _Node] | None:
        """Return what is wanted by a key that may be spelled with escapes."""
        return self.spelled.get(b'"%b"' % _string(literal).encode()) if b"\\" in literal else None


@lru_cache(maxsize=64)
def _tree(paths: tuple[Path, ...]) -> _Node:
    return _Node(list(paths))


class _Walk:
    """One body on its way to be searched.  What walks returns the position behind what it walked over."""

    def __init__(self, body: bytes) -> None:
        self.found: Final[list[Nested]] = []
        self._body = body
        # Of the same length as the body, so that positions are those of the body.
        self._text = readable(body)
        self._view = memoryview(self._text)
        self._left = MAX_VALUES

    def document(self, node: _Node) -> None:
        self._value(node, self._after_space(0), ())

    def _value(self, node: _Node, start: int, path: tuple[str | int, ...]) -> int:
        """Walk over a value that a path leads to."""
        self._left -= 1
        if self._left < 0:
            raise _too_many()
        first = self._text[start]
        if first == _QUOTE and node.is_end:
            match = _ANY_STRING.match(self._body, start)
            assert match is not None, "the body has been checked"
            if len(self.found) == MAX_FOUND:
                raise GatewayError(Reason.MALFORMED, f"the body names more than {MAX_FOUND} models")
            self.found.append(Nested(_string(match[0]), match.span(), path))
            return match.end()
        if first == _BRACE and node.members:
            return self._object(node, start + 1, path)
        if first == _BRACKET and node.element is not None:
            return self._array(node.element, start + 1, path)
        return next_after(self._view, start)

    def _object(self, node: _Node, position: int, path: tuple[str | int, ...]) -> int:
        text, next_member, spelled = self._text, node.next_member, node.spelled
        while True:
            match = next_member(text, position)
            assert match is not None, "the body has been checked"
            position = match.end()
            literal = match[1]
            if literal is None:
                return position
            wanted = spelled.get(literal) or node.respelled(literal)
            if wanted is None:
                self._left -= 1
                if self._left < 0:
                    raise _too_many()
                position = next_after(self._view, position)
            else:
                key, child = wanted
                position = self._value(child, position, (*path, key))

    def _array(self, node: _Node, position: int, path: tuple[str | int, ...]) -> int:
        text, next_element = self._text, _NEXT_ELEMENT.match
        position = self._after_space(position)
        if text[position] == _CLOSING_BRACKET:
            return position + 1
        for index in count():
            position = self._value(node, position, (*path, index))
            match = next_element(text, position)
            if match is None:
                break
            position = match.end()
        return self._after_space(position) + 1

    def _after_space(self, position: int) -> int:
        match = _ANY_SPACE.match(self._text, position)
        assert match is not None, "it may be empty"
        return match.end()


def _too_many() -> GatewayError:
    return GatewayError(
        Reason.MALFORMED, f"the body has too many values to search for models: more than {MAX_VALUES}"
    )


def _string(literal: bytes) -> str:
    try:
        return _decode_text(literal)
    except (DecodeError, UnicodeDecodeError):  # half a surrogate pair, or no UTF-8: nobody's name
        return "\ufffd"
