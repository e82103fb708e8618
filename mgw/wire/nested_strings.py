"""Find string values along paths in a JSON body: batches, settings of a session, a body with two models.

A body of many megabytes is checked whole first.  Only arrays and objects that a path leads through are
opened: a pattern made for the keys that are looked for passes over short other members, several at once;
``msgspec`` passes over all else.  Steps are counted, so the time is bounded, and functions call one another
as deep as the paths are, not as deep as the body is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from typing import Final

from msgspec import Struct

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import (
    BOUNDED_STRING,
    Span,
    check_json,
    decode_string,
    skip_space,
    skip_value,
    string_end,
)

JsonPath = tuple[str | None, ...]
"""Keys from the top, none of which needs escapes; ``None`` stands for every element of an array."""

MAX_VALUES: Final = 750_000
"""How many values are looked at one by one, at about two microseconds each.

A batch of Anthropic's has at most 100,000 requests, each with three values on the path and a few long ones.
"""

MAX_FOUND: Final = 200_000
"""How many values may be found; each costs a few hundred bytes, and is resolved."""

_SPACE: Final = rb"[ \t\r\n]*+"
_QUOTE: Final = ord('"')
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
_NEXT_ELEMENT: Final = re.compile(rb"%b,%b" % (_SPACE, _SPACE))
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_CLOSING_BRACKET: Final = ord("]")


class NestedString(Struct, frozen=True, gc=False):
    """A string value, and where it stands (quotes included)."""

    value: str
    span: Span
    path: tuple[str | int, ...]
    """Keys from the top, and the indices of elements."""

    @property
    def name(self) -> str:
        """The path as people write it, like ``requests[3].params.model``."""
        return path_name(self.path)


def path_name(path: tuple[str | int, ...]) -> str:
    """Return a path as people write it, like ``requests[3].params.model``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def find_nested_strings(body: bytes, *paths: JsonPath, max_values: int = MAX_VALUES) -> list[NestedString]:
    """Return each string value that stands at one of ``paths``, in the body's order.

    A key that is stated several times is found each time, and the last one counts.  A value that is no text
    reads as U+FFFD, which is nobody's name; one that is no string is passed over.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, for what is nested too deeply, and for
    more than ``max_values`` values on the paths, or too long to be passed over several at once, or more
    than :data:`MAX_FOUND` found.
    """
    search = _NestedSearch(body, max_values)
    search.run(_path_tree(paths))
    return search.found


def _next_wanted(wanted: Iterable[str]) -> re.Pattern[bytes]:
    names = b"|".join(re.escape(name.encode()) for name in wanted)
    return next_member_pattern(rb'"(?!(?:%b)")[^"\\]{0,99}+"' % names)


def skip_key(text: bytes, view: memoryview, start: int) -> int:
    """Return where the value behind the key at ``start`` of a valid document begins."""
    return skip_space(text, skip_value(view, start) + 1)


def next_member_pattern(key: bytes) -> re.Pattern[bytes]:
    """Return a pattern for the members of an object, up to the next that has to be looked at.

    It matches the comma before, short members that are not wanted, then the key of one that may be (its first
    group), or the quote that begins a long key (its second), or the object's end.

    :param key: a pattern for the keys of members that are not wanted.
    """
    others = rb"(?:%b%b:%b%b%b(?:,%b|(?=\}))){0,400}" % (key, _SPACE, _SPACE, _SHORT, _SPACE, _SPACE)
    return re.compile(
        rb"%b,?+%b%b(?:(%b)%b:%b|(\")|\})" % (_SPACE, _SPACE, others, BOUNDED_STRING, _SPACE, _SPACE),
        re.DOTALL,
    )


class _PathNode:
    """What some paths have in common: a place that they lead through, or end at."""

    def __init__(self, tails: list[JsonPath]) -> None:
        heads = {tail[0] for tail in tails if tail}
        below = {head: _PathNode([tail[1:] for tail in tails if tail[:1] == (head,)]) for head in heads}
        self.is_end: Final = () in tails
        self.element: Final = below.get(None)
        self.members: Final = {key: node for key, node in below.items() if key is not None}
        self.spelled: Final = {b'"%b"' % key.encode(): (key, node) for key, node in self.members.items()}
        self.next_member: Final = _next_wanted(self.members).match

    def match_escaped(self, literal: bytes) -> tuple[str, _PathNode] | None:
        """Return what is wanted by a key that may be spelled with escapes."""
        return self.spelled.get(b'"%b"' % decode_string(literal).encode()) if b"\\" in literal else None


@lru_cache(maxsize=64)
def _path_tree(paths: tuple[JsonPath, ...]) -> _PathNode:
    return _PathNode(list(paths))


class _NestedSearch:
    """The search of one body.  Methods that walk return the position behind what they walked over."""

    def __init__(self, body: bytes, max_values: int) -> None:
        self.found: Final[list[NestedString]] = []
        self._body = body
        # Of the same length as the body, so that positions are those of the body.
        self._text = check_json(body)
        self._view = memoryview(self._text)
        self._max_values = self._left = max_values

    def run(self, node: _PathNode) -> None:
        self._value(node, skip_space(self._text, 0), ())

    def _value(self, node: _PathNode, start: int, path: tuple[str | int, ...]) -> int:
        """Walk over a value that a path leads to."""
        self._left -= 1
        if self._left < 0:
            raise too_many_values(self._max_values)
        first = self._text[start]
        if first == _QUOTE and node.is_end:
            if len(self.found) == MAX_FOUND:
                raise too_many_models()
            end = string_end(self._text, self._view, start)
            self.found.append(NestedString(decode_string(self._body[start:end]), (start, end), path))
            return end
        if first == _BRACE and node.members:
            return self._object(node, start + 1, path)
        if first == _BRACKET and node.element is not None:
            return self._array(node.element, start + 1, path)
        return skip_value(self._view, start)

    def _object(self, node: _PathNode, position: int, path: tuple[str | int, ...]) -> int:
        text, next_member, spelled = self._text, node.next_member, node.spelled
        while True:
            match = next_member(text, position)
            assert match is not None, "the body has been checked"
            position = match.end()
            literal = match[1]
            if literal is not None:
                wanted = spelled.get(literal) or node.match_escaped(literal)
            elif match[2] is None:
                return position
            else:
                position, wanted = skip_key(text, self._view, position - 1), None
            if wanted is None:
                self._left -= 1
                if self._left < 0:
                    raise too_many_values(self._max_values)
                position = skip_value(self._view, position)
            else:
                key, child = wanted
                position = self._value(child, position, (*path, key))

    def _array(self, node: _PathNode, position: int, path: tuple[str | int, ...]) -> int:
        text, next_element = self._text, _NEXT_ELEMENT.match
        position = skip_space(text, position)
        if text[position] == _CLOSING_BRACKET:
            return position + 1
        for index in count():
            position = self._value(node, position, (*path, index))
            match = next_element(text, position)
            if match is None:
                break
            position = match.end()
        return skip_space(text, position) + 1


def too_many_models() -> GatewayError:
    """Return the refusal of a body with too many values that are found."""
    return GatewayError(Reason.MALFORMED, f"the body names more than {MAX_FOUND} models")


def too_many_values(limit: int) -> GatewayError:
    """Return the refusal of a body with too many values that are looked at."""
    return GatewayError(
        Reason.MALFORMED, f"the body has too many values to search for models: more than {limit}"
    )
