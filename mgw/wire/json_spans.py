"""Find string values in a JSON body, and replace them in place (contract 5.1, 5.2, 5.4).

The body is never rebuilt.  :func:`find_string` looks for a key at the top, in any spelling that JSON allows:

1. ``msgspec`` checks several bytes of JSON in a nanosecond and knows a key in any spelling, but does not say
   where it stands.  A masked ``"model":"x"`` that a search came upon is the body's only one exactly if all
   before it, closed by ``"":0}``, is a valid object without that key, and all after it, opened by ``{"":0``,
   is one too.  Nearly every body ends here, after one pass.  To put something before or behind a part is to
   copy it.  Of a large body that begins with the key no copy is made: it is checked whole, and what
   ``msgspec`` then gives for the key is a view of the last value.  If that is the first, there is no other.
2. Else the body as a whole is checked.  If it holds the key, every spelling of it that stands at depth 1 is
   found by counting the brackets between one candidate and the next.
3. ``msgspec`` refuses escapes of lone surrogates, which RFC 8259 8.2 lets pass.  Where the check fails, they
   are overwritten with escapes of the same length, and the check is made once more.

"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError
from msgspec.json import encode

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.byte_search import position_of
from mgw.wire.json_document import (
    Span,
    check_utf8,
    invalid_json_error,
    iter_outside_strings,
    mask_escapes,
    neutralize_surrogates,
    skip_value,
    too_deep_error,
)

Edit = tuple[Span, bytes]
"""A span of the body, and what is to stand there instead."""
MAX_STATED: Final = 1000
"""How often a body may state one key at the top; nobody does it twice on purpose."""
MAX_CANDIDATES: Final = 200_000
"""How often a body may have the key at any depth, where the likely places do not hold the one at the top."""
_SPACE: Final = rb"[ \t\r\n]*+"
_BLANKS: Final = b" \t\r\n"
_OBJECT_START: Final = b'{"":0'
_OBJECT_END: Final = b'"":0}'
_EMPTY_OBJECT: Final = b"{" + _OBJECT_END
_HEAD_BYTES: Final = 128
"""Many clients write the model first: so far a search from the front is worth its time."""
_TRIES: Final = 4
_COPIED_BYTES: Final = 16 * 1024
"""Above this size one copy through a view is cheaper than two without."""
_VIEWED_BYTES: Final = 256 * 1024
"""Above this size it is cheaper to look where a view begins than to copy."""
_SEARCHED_BYTES: Final = 1024 * 1024
"""A search holds the interpreter to its end, so that it goes over so much at once."""
_LONGEST_KEY: Final = 256
_COLON: Final = re.compile(rb"%b:%b" % (_SPACE, _SPACE))
_QUOTE: Final = ord('"')


class FoundString(Struct, frozen=True, gc=False):
    """A string value, and every place where it is stated (a JSON body: quotes included)."""

    value: str
    spans: tuple[Span, ...]
    is_alone: bool = False
    """Whether the same object is known to have no such key in the plural, beside ``model`` no ``models``."""


def apply_edits(body: bytes, edits: Sequence[Edit]) -> bytes:
    """Return ``body`` with the edits made, which do not overlap; the same object where there are none."""
    return b"".join(edited_parts(body, edits)) if edits else body


def edited_parts(body: bytes, edits: Sequence[Edit]) -> list[bytes | memoryview]:
    """Return ``body`` with the edits made, which do not overlap, as the parts that it has then."""
    view = memoryview(body)
    parts: list[bytes | memoryview] = []
    position = 0
    for (start, end), new in sorted(edits):
        parts += (view[position:start], new)
        position = end
    parts.append(view[position:])
    return parts


def replace_string(body: bytes, found: FoundString, new: str) -> bytes:
    """Return ``body`` with ``new`` at each of the spans; the same object where that changes nothing."""
    return body if new == found.value else replace_spans(body, found.spans, encode(new))


def replace_spans(body: bytes, spans: tuple[Span, ...], literal: bytes) -> bytes:
    """Return ``body`` with ``literal`` at each of the spans."""
    if len(spans) == 1 and len(body) < _COPIED_BYTES:
        ((start, end),) = spans
        return b"%b%b%b" % (body[:start], literal, body[end:])
    return apply_edits(body, [(span, literal) for span in spans])


def find_string(body: bytes, key: str = "model") -> FoundString | None:
    """Return the value of the top-level ``key`` of a JSON object, or ``None`` where it has none.

    Of several such keys the last one counts, and the spans of all are returned, whatever the others hold.

    :raises GatewayError: ``MALFORMED`` for what is no JSON object in UTF-8, and for a value that
    counts and is no string or no text.
    """
    return _key_finder(key).find(body)


class _KeyFinder:
    """Finds one key: its patterns, and a decoder that checks all of a body and keeps only that key."""

    def __init__(self, key: str) -> None:
        assert key.isidentifier(), "a key that needs no escapes"
        name = key.encode()
        spelled = b"".join(_spelling_pattern(letter) for letter in name)
        keyed = msgspec.defstruct(
            "Keyed",
            [("value", Raw | UnsetType, UNSET), ("plural", Raw | UnsetType, UNSET)],
            rename={"value": key, "plural": f"{key}s"},
            gc=False,
        )
        self._key = key
        self._needle = b'"%b"' % name
        # A quote behind a backslash stands inside a string and begins none.
        self._literal = re.compile(rb'(?<!\\)"%b"%b:%b"([^"\\\x00-\x1f]*+)"' % (name, _SPACE, _SPACE))
        self._any = re.compile(rb'"%b"' % spelled)
        assert 6 * len(name) + 2 <= _LONGEST_KEY
        # Any: the checker cannot know the fields of a class that is made here.
        self._decode: Any = msgspec.json.Decoder(keyed).decode

    def find(self, body: bytes) -> FoundString | None:
        if not body.isascii():
            check_utf8(body)
        try:
            return self._find_literal(body) or self._find_any(body)
        except RecursionError:
            raise too_deep_error() from None

    def _find_literal(self, body: bytes) -> FoundString | None:
        """Try the likely places for the only key, spelled without escapes."""
        at = body.find(self._needle, 0, _HEAD_BYTES)
        if at < 0:
            at = body.rfind(self._needle)
        for _ in range(_TRIES):
            if at < 0:
                return None
            match = self._literal.match(body, at)
            if match is not None and (is_alone := self._only(body, match)) is not None:
                start, end = match.span(1)
                return FoundString(match[1].decode(), ((start - 1, end + 1),), is_alone)
            at = body.rfind(self._needle, 0, at)
        return None

    def _only(self, body: bytes, match: re.Match[bytes]) -> bool | None:
        """Say of the member that was found whether no plural is beside it.

        ``None``: it is not the only one at the top of a valid object.
        """
        start, end = match.span()
        if len(body) > _VIEWED_BYTES and start <= _HEAD_BYTES and body[:start].strip(_BLANKS) == b"{":
            return self._only_first(body, match.start(1) - 1)
        if len(body) < _COPIED_BYTES:
            before, after = body[:start] + _OBJECT_END, _OBJECT_START + body[end:]
        else:
            view = memoryview(body)
            before, after = b"".join((view[:start], _OBJECT_END)), b"".join((_OBJECT_START, view[end:]))
        decode = self._decode
        try:
            behind = decode(after)
            ahead = behind if before == _EMPTY_OBJECT else decode(before)
        except DecodeError:
            return None
        if ahead.value is UNSET and behind.value is UNSET:
            return ahead.plural is UNSET and behind.plural is UNSET
        return None

    def _only_first(self, body: bytes, start: int) -> bool | None:
        """Say the same of the first member, by the place of its value."""
        try:
            keyed = self._decode(body)
        except DecodeError:
            return None
        return keyed.plural is UNSET if position_of(keyed.value, body) == start else None

    def _find_any(self, body: bytes) -> FoundString | None:
        """Find every such key at the top, however it is spelled."""
        text = self._text_with_key(body)
        if text is None:
            return None
        # Of the same length, so that positions stay, and now every quote begins or ends a string.
        masked = mask_escapes(text)
        view = memoryview(masked)
        spans: list[Span] = []
        for start in self._value_starts(masked):
            if len(spans) == MAX_STATED:
                message = f"the body has {self._key!r} more than {MAX_STATED} times"
                raise GatewayError(Reason.MALFORMED, message, param=self._key)
            end = skip_value(view, start)
            spans.append((start, start + len(masked[start:end].rstrip())))
        start, end = spans[-1]
        if body[start] != _QUOTE:
            raise GatewayError(Reason.MALFORMED, f"{self._key!r} must be a string", param=self._key)
        return FoundString(self._text(body[start:end]), tuple(spans))

    def _text_with_key(self, body: bytes) -> bytes | None:
        """Return a body as the checker reads it, once it is checked whole, where it holds the key."""
        try:
            return None if self._decode(body).value is UNSET else body
        except ValidationError:
            raise _no_object_error() from None
        except DecodeError:  # perhaps only half of a surrogate pair, which clients cut emoji into
            neutral = neutralize_surrogates(body)
        try:
            return None if self._decode(neutral).value is UNSET else neutral
        except ValidationError:
            raise _no_object_error() from None
        except DecodeError as error:
            raise invalid_json_error(error) from None

    def _value_starts(self, masked: bytes) -> Iterator[int]:
        """Yield where the values of the key at depth 1 begin, in a valid body without escaped quotes."""
        depth = position = candidates = 0
        for start, end in self._keys(masked):
            colon = _COLON.match(masked, end)
            if colon is None:
                continue
            candidates += 1
            if candidates > MAX_CANDIDATES:
                message = f"the body has {self._key!r} in more than {MAX_CANDIDATES} places"
                raise GatewayError(Reason.MALFORMED, message, param=self._key)
            depth += _depth_between(masked, position, start)
            position = colon.end()
            if depth == 1:
                yield position

    def _keys(self, masked: bytes) -> Iterator[Span]:
        """Yield where the key stands, in any spelling, or a string that is the same."""
        position, size = 0, len(masked)
        for at in range(0, size, _SEARCHED_BYTES):
            end = min(at + _SEARCHED_BYTES, size)
            for match in self._any.finditer(masked, max(at, position), min(end + _LONGEST_KEY, size)):
                if match.start() >= end:
                    break
                position = match.end()
                yield match.span()

    def _text(self, literal: bytes) -> str:
        try:
            return msgspec.json.decode(literal, type=str)
        except DecodeError:
            raise GatewayError(
                Reason.MALFORMED, f"{self._key!r} contains an unpaired surrogate", param=self._key
            ) from None


@lru_cache(maxsize=16)
def _key_finder(key: str) -> _KeyFinder:
    return _KeyFinder(key)


def _spelling_pattern(letter: int) -> bytes:
    """Return a pattern for a letter, plain or as the one escape that JSON has for it."""
    digits = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{letter:04x}")
    return b"(?:%c|\\\\u%b)" % (letter, digits.encode())


def _depth_between(masked: bytes, start: int, end: int) -> int:
    """Return how many more brackets are opened than closed between two places outside of strings."""
    return sum(
        outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
        for outside in iter_outside_strings(masked, start, end)
    )


def _no_object_error() -> GatewayError:
    return GatewayError(Reason.MALFORMED, "the body must be a JSON object")


find_model: Final = _key_finder("model").find
"""What :func:`find_string` does for ``model``, in one call less for every request."""
