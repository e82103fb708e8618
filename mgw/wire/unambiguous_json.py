"""Find strings in a JSON document where all readers agree, and reject any other document.

A client that may use some models only is held to what the gateway reads, so the provider must read the same.
RFC 8259 leaves it to the reader which of several equal keys counts.  Go's decoder, and others that can be
configured so, ignore the case of letters; readers in C end a name at a NUL; others drop half a surrogate
pair, or take a single value for an array of one.  What :func:`find_unambiguous_strings` returns holds for all
of them:

* The document is JSON and nothing else: UTF-8 without a byte order mark, one value, no ``NaN``, no comment.
* In an object that a path leads through, a key of the path stands once, in whatever case and with whatever
  escapes, or each time with the same value.  It is not spelled in another case alone.
* What stands at the end of a path is a string or ``null``, and arrays and objects stand where the path has
  them.  Other scalars on the way, such as an identifier in place of an object, hold no model.
* An object that stands where a string may has a key of a longer path: LiteLLM takes ``{"a": ["b"]}`` for the
  models to fall back to from ``a``.

The search is that of :mod:`mgw.wire.json_spans`, with the same bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import count
from typing import Final

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import (
    Span,
    check_json,
    check_utf8,
    decode_string,
    skip_space,
    skip_value,
    string_end,
)
from mgw.wire.nested_strings import (
    MAX_FOUND,
    MAX_VALUES,
    JsonPath,
    NestedString,
    next_member_pattern,
    path_name,
    skip_key,
    too_many_models,
    too_many_values,
)
from mgw.wire.similar_names import fold_name

ValuePath = tuple[str | int, ...]
"""Keys from the top, and the indices of elements."""

_QUOTE: Final = ord('"')
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_CLOSING_BRACKET: Final = ord("]")
_NULL: Final = ord("n")
_SCALAR: Final = re.compile(rb"[^ \t\r\n,\]}]++")
_NEXT_ELEMENT: Final = re.compile(rb"[ \t\r\n]*+,[ \t\r\n]*+")
_LONGEST_KEY: Final = 256
"""Up to there a reader may end a key at a NUL, and take it for one of a path."""
_NO_TEXT: Final = "\ufffd"
_SHORT_MEMBERS: Final = 32
"""The short members that take as long to pass over as a value."""
_NAME_BYTES: Final = 256
"""The bytes of a name that take as long to read as a value."""


def find_unambiguous_strings(
    document: bytes, *paths: JsonPath, max_values: int = MAX_VALUES
) -> list[NestedString]:
    """Return each string value that stands at one of ``paths``, in the document's order.

    A key that is stated several times with one value is found each time, whatever its case, under the path's
    own spelling.

    :raises GatewayError: ``MALFORMED`` for a document that some reader reads in another way or not
    at all, for what is nested too deeply, and for more than ``max_values`` values on the paths.
    """
    search = _StrictSearch(document, max_values)
    search.run(_path_tree(paths))
    return search.found


def _next_wanted(wanted: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern that passes over short members if their keys are plain and fold to none of these."""
    names = b"|".join(re.escape(name.encode()) for name in wanted)
    return next_member_pattern(rb'"(?!(?i:%b)")[^"\\\x80-\xff]{0,99}+"' % names)


class _PathNode:
    """What some paths have in common: a place that they lead through, or end at."""

    def __init__(self, tails: list[JsonPath]) -> None:
        heads = {tail[0] for tail in tails if tail}
        below = {head: _PathNode([tail[1:] for tail in tails if tail[:1] == (head,)]) for head in heads}
        self.is_end: Final = () in tails
        self.element: Final = below.get(None)
        self.members: Final = {fold_name(key): (key, node) for key, node in below.items() if key is not None}
        assert len(self.members) == len(heads - {None}), "no two keys differ in case alone"
        self.next_member: Final = _next_wanted(self.members).match
        self.holds_scalars: Final = self.is_end or (self.element is not None and self.element.is_end)

    @property
    def described(self) -> str:
        """What may stand where a name may, in words."""
        return " or ".join(["a string", *(f"an object with {key!r}" for key, _ in self.members.values())])

    @property
    def expected(self) -> str:
        """What may stand here, in words."""
        kinds = (
            ("a string", self.is_end),
            ("an object", bool(self.members)),
            ("an array", self.element is not None),
        )
        return " or ".join(kind for kind, may_be in kinds if may_be)


@lru_cache(maxsize=64)
def _path_tree(paths: tuple[JsonPath, ...]) -> _PathNode:
    return _PathNode(list(paths))


class _StrictSearch:
    """The search of one document.  Methods that walk return the position behind what they walked over."""

    def __init__(self, document: bytes, max_values: int) -> None:
        self.found: Final[list[NestedString]] = []
        if not document.isascii():
            check_utf8(document)
        self._document = document
        # Of the same length as the document, so that positions are those of the document.
        self._text = check_json(document)
        self._view = memoryview(self._text)
        self._max_values = self._left = max_values

    def run(self, node: _PathNode) -> None:
        start = skip_space(self._text, 0)
        if node.members and self._text[start] != _BRACE:
            raise _not_one(f"the body must be {node.expected}", ())
        self._value(node, start, ())

    def _value(self, node: _PathNode, start: int, place: ValuePath) -> int:
        """Walk over a value that a path leads to."""
        self._left -= 1
        if self._left < 0:
            raise too_many_values(self._max_values)
        first = self._text[start]
        if first == _QUOTE and node.is_end:
            return self._string(start, place)
        if first == _BRACE and node.members:
            return self._object(node, start + 1, place)
        if first == _BRACKET and node.element is not None:
            return self._array(node.element, start + 1, place)
        if first in (_BRACE, _BRACKET) or (first != _NULL and node.holds_scalars):
            raise _not_one(f"{path_name(place)!r} must be {node.expected}", place)
        return self._scalar_end(start)

    def _scalar_end(self, start: int) -> int:
        """Return where a scalar ends, without the white space behind it, which may be as long as the body."""
        if self._text[start] == _QUOTE:
            return string_end(self._text, self._view, start)
        match = _SCALAR.match(self._text, start)
        assert match is not None, "the document has been checked"
        return match.end()

    def _string(self, start: int, place: ValuePath) -> int:
        value, span = self._text_at(start, place)
        if "\0" in value:
            raise _not_one(f"{path_name(place)!r} contains a NUL", place)
        if len(self.found) == MAX_FOUND:
            raise too_many_models()
        self.found.append(NestedString(value, span, place))
        return span[1]

    def _key(self, literal: bytes, start: int, place: ValuePath) -> str:
        """Return what a key says."""
        if b"\\" in literal:  # in the document itself there may be a surrogate
            return self._text_at(start, place)[0]
        return literal[1:-1].decode()

    def _text_at(self, start: int, place: ValuePath) -> tuple[str, Span]:
        """Return what a string says, and where it stands."""
        end = string_end(self._text, self._view, start)
        value = decode_string(self._document[start:end])
        if value == _NO_TEXT:
            raise _not_one(f"{path_name(place) or 'a key'!r} contains an unpaired surrogate", place)
        return value, (start, end)

    def _object(self, node: _PathNode, position: int, place: ValuePath) -> int:
        text, next_member, members = self._text, node.next_member, node.members
        stated: dict[str, Span] = {}
        exact: set[str] = set()
        while True:
            match = next_member(text, position)
            assert match is not None, "the document has been checked"
            short = text.count(b",", position, match.end()) // _SHORT_MEMBERS
            if short:
                self._count(short)
            position = match.end()
            if match[1] is not None:
                if len(match[1]) >= _NAME_BYTES:
                    self._count(len(match[1]) // _NAME_BYTES)
                spelled = self._key(match[1], match.start(1), place)
            elif match[2] is None:
                break
            else:
                spelled, position = self._long_key(position - 1, place)
            wanted = members.get(spelled) or members.get(fold_name(spelled))
            if wanted is None:
                self._count(1)
                position = skip_value(self._view, position)
                continue
            key, child = wanted
            if spelled == key:
                exact.add(key)
            start, position = position, self._value(child, position, (*place, key))
            before = stated.setdefault(key, (start, position))
            if before[0] != start:
                self._check_equal(before, (start, position), (*place, key))
        self._check_keys(node, stated.keys() - exact, place, is_empty=not stated)
        return position

    def _check_keys(self, node: _PathNode, odd: set[str], place: ValuePath, *, is_empty: bool) -> None:
        """Refuse keys in another case alone, and an object without any in place of a string."""
        if odd:
            key = (*place, min(odd))
            raise _not_one(f"{path_name(key)!r} is spelled with different capitalization", key)
        if node.is_end and is_empty:
            raise _not_one(f"{path_name(place)!r} must be {node.described}", place)

    def _long_key(self, start: int, place: ValuePath) -> tuple[str, int]:
        """Return what a long key says at its beginning, and where the value behind it begins."""
        spelled = self._text_at(start, place)[0][:_LONGEST_KEY]
        end = skip_key(self._text, self._view, start)
        self._count((end - start) // _NAME_BYTES)
        return spelled, end

    def _check_equal(self, one: Span, other: Span, place: ValuePath) -> None:
        """Refuse values of one key that are not the same; strings may be spelled in two ways."""
        literals = [self._document[start:end] for start, end in (one, other)]
        if literals[0] == literals[1]:
            return
        if not all(literal[:1] == b'"' for literal in literals) or len(set(map(decode_string, literals))) > 1:
            message = f"{path_name(place)!r} appears more than once with different values"
            raise _not_one(message, place)

    def _array(self, node: _PathNode, position: int, place: ValuePath) -> int:
        text, next_element = self._text, _NEXT_ELEMENT.match
        position = skip_space(text, position)
        if text[position] == _CLOSING_BRACKET:
            return position + 1
        for index in count():
            position = self._value(node, position, (*place, index))
            match = next_element(text, position)
            if match is None:
                break
            position = match.end()
        return skip_space(text, position) + 1

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise too_many_values(self._max_values)


def _not_one(message: str, place: ValuePath) -> GatewayError:
    return GatewayError(Reason.MALFORMED, message, param=path_name(place) or None)
