"""Find and replace one value of a JSON body at its own position (contract 5.1, 5.2).

The body is never rebuilt.  What is looked for is a top-level key whose value is a string, in whatever
spelling JSON allows, and where it stands.  How it is found, from quick to thorough:

1. ``msgspec`` checks several bytes of JSON in a nanosecond and knows a key in any spelling, but does not say
   where it stands.  A plain ``"model":"x"`` that a search came upon is the body's only one exactly if all
   before it, closed by ``"":0}``, is a valid object without that key, and all after it, opened by ``{"":0``,
   is one too.  Nearly every body ends here, after one pass.
2. Else the body as a whole is checked.  If it holds the key, every spelling of it that stands at depth 1 is
   found by counting the brackets between one candidate and the next.
3. ``msgspec`` refuses escapes of lone surrogates, which RFC 8259 8.2 lets pass.  Where the check fails, they
   are overwritten with escapes of the same length, and the check is made once more.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from mgw.errors import GatewayError, Reason
from mgw.wire.checked import (
    BLOCK_BYTES,
    invalid,
    next_after,
    too_deep,
    without_escaped_quotes,
    without_strings,
    without_surrogates,
)

Span = tuple[int, int]
"""Where something begins and where the bytes after it begin."""


MAX_STATED: Final = 1000
"""How often a body may state one key at the top; nobody does it twice on purpose."""
MAX_CANDIDATES: Final = 200_000
"""How often a body may have the key at any depth, where the likely places do not hold the one at the top."""


class FoundValue(Struct, frozen=True, gc=False):
    """A string value, and every place where it is stated (a JSON body: quotes included)."""

    value: str
    spans: tuple[Span, ...]


def find_model(body: bytes, key: str = "model") -> FoundValue | None:
    """Return the value of the top-level ``key`` of a JSON object, or ``None`` where it has none.

    Of several such keys the last one counts, and the spans of all are returned, whatever the others hold.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON object in UTF-8, and for a value that
    counts and is no string or no text.
    """
    return _finder(key).find(body)


def splice(body: bytes, found: FoundValue, new: str) -> bytes:
    """Return ``body`` with ``new`` at each of the spans; the same object where that changes nothing."""
    return body if new == found.value else replaced(body, found.spans, msgspec.json.encode(new))


def replaced(body: bytes, spans: tuple[Span, ...], new: bytes) -> bytes:
    """Return ``body`` with the bytes ``new`` in place of each of the spans, which are in ascending order."""
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    position = 0
    for start, end in spans:
        pieces += (view[position:start], new)
        position = end
    pieces.append(view[position:])
    return b"".join(pieces)


_SPACE: Final = rb"[ \t\r\n]*+"
_BEGINNING: Final = b'{"":0'
_END: Final = b'"":0}'
_EMPTY: Final = b"{" + _END
_HEAD_BYTES: Final = 128
"""Many clients write the model first: so far a search from the front is worth its time."""
_TRIES: Final = 4
_COPIED_BYTES: Final = 16 * 1024
"""Above this size one copy through a view is cheaper than two without."""
_SEARCHED_BYTES: Final = 1024 * 1024
"""A search holds the interpreter to its end, so that it goes over so much at once."""
_LONGEST_KEY: Final = 256
_COLON: Final = re.compile(rb"%b:%b" % (_SPACE, _SPACE))
_QUOTE: Final = ord('"')


class _Finder:
    """What finds one key: its patterns, and a decoder that checks all of a body and keeps only that key."""

    def __init__(self, key: str) -> None:
        assert key.isidentifier(), "a key that needs no escapes"
        name = key.encode()
        spelled = b"".join(_any_spelling(letter) for letter in name)
        keyed = msgspec.defstruct(
            "Keyed", [("value", Raw | UnsetType, UNSET)], rename={"value": key}, gc=False
        )
        self._key = key
        self._needle = b'"%b"' % name
        # A quote behind a backslash stands inside a string and begins none.
        self._plain = re.compile(rb'(?<!\\)"%b"%b:%b"([^"\\\x00-\x1f]*+)"' % (name, _SPACE, _SPACE))
        self._any = re.compile(rb'"%b"' % spelled)
        assert 6 * len(name) + 2 <= _LONGEST_KEY
        # Any: the checker cannot know the fields of a class that is made here.
        self._decode: Any = msgspec.json.Decoder(keyed).decode

    def find(self, body: bytes) -> FoundValue | None:
        if not body.isascii():
            _check_utf8(body)
        try:
            return self._find_plain(body) or self._find_any(body)
        except RecursionError:
            raise too_deep() from None

    def _find_plain(self, body: bytes) -> FoundValue | None:
        """Try the likely places for the only key, plainly spelled."""
        at = body.find(self._needle, 0, _HEAD_BYTES)
        if at < 0:
            at = body.rfind(self._needle)
        for _ in range(_TRIES):
            if at < 0:
                return None
            match = self._plain.match(body, at)
            if match is not None and self._is_only(body, at, match.end()):
                start, end = match.span(1)
                return FoundValue(match[1].decode(), ((start - 1, end + 1),))
            at = body.rfind(self._needle, 0, at)
        return None

    def _is_only(self, body: bytes, start: int, end: int) -> bool:
        """Whether the member between stands at the top of a valid object that has no other such key."""
        if len(body) < _COPIED_BYTES:
            before, after = body[:start] + _END, _BEGINNING + body[end:]
        else:
            view = memoryview(body)
            before, after = b"".join((view[:start], _END)), b"".join((_BEGINNING, view[end:]))
        decode = self._decode
        try:
            return (before == _EMPTY or decode(before).value is UNSET) and decode(after).value is UNSET
        except DecodeError:
            return False

    def _find_any(self, body: bytes) -> FoundValue | None:
        """Find every such key at the top, however it is spelled."""
        text = self._stating(body)
        if text is None:
            return None
        # Of the same length, so that positions stay, and now every quote begins or ends a string.
        plain = without_escaped_quotes(text)
        view = memoryview(plain)
        spans: list[Span] = []
        for start in self._value_starts(plain):
            if len(spans) == MAX_STATED:
                message = f"the body has {self._key!r} more than {MAX_STATED} times"
                raise GatewayError(Reason.MALFORMED, message, param=self._key)
            end = next_after(view, start)
            spans.append((start, start + len(plain[start:end].rstrip())))
        start, end = spans[-1]
        if body[start] != _QUOTE:
            raise GatewayError(Reason.MALFORMED, f"{self._key!r} must be a string", param=self._key)
        return FoundValue(self._text(body[start:end]), tuple(spans))

    def _stating(self, body: bytes) -> bytes | None:
        """Return a body as the checker reads it, once it is checked whole, where it holds the key."""
        try:
            return None if self._decode(body).value is UNSET else body
        except ValidationError:
            raise _no_object() from None
        except DecodeError:
            neutral = without_surrogates(body)
        try:
            return None if self._decode(neutral).value is UNSET else neutral
        except ValidationError:
            raise _no_object() from None
        except DecodeError as error:
            raise invalid(error) from None

    def _value_starts(self, plain: bytes) -> Iterator[int]:
        """Yield where the values of the key at depth 1 begin, in a valid body without escaped quotes."""
        depth = position = candidates = 0
        for start, end in self._keys(plain):
            colon = _COLON.match(plain, end)
            if colon is None:
                continue
            candidates += 1
            if candidates > MAX_CANDIDATES:
                message = f"the body has {self._key!r} in more than {MAX_CANDIDATES} places"
                raise GatewayError(Reason.MALFORMED, message, param=self._key)
            depth += _depth_between(plain, position, start)
            position = colon.end()
            if depth == 1:
                yield position

    def _keys(self, plain: bytes) -> Iterator[Span]:
        """Yield where the key stands, in any spelling, or a string that is the same."""
        position, size = 0, len(plain)
        for at in range(0, size, _SEARCHED_BYTES):
            end = min(at + _SEARCHED_BYTES, size)
            for match in self._any.finditer(plain, max(at, position), min(end + _LONGEST_KEY, size)):
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
def _finder(key: str) -> _Finder:
    return _Finder(key)


def _any_spelling(letter: int) -> bytes:
    """Return a pattern for a letter, plain or as the one escape that JSON has for it."""
    digits = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{letter:04x}")
    return b"(?:%c|\\\\u%b)" % (letter, digits.encode())


def _depth_between(plain: bytes, start: int, end: int) -> int:
    """Return how many more brackets are opened than closed between two places outside of strings."""
    return sum(
        outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
        for outside in without_strings(plain, start, end)
    )


def _no_object() -> GatewayError:
    return GatewayError(Reason.MALFORMED, "the body must be a JSON object")


def _check_utf8(body: bytes) -> None:
    """Refuse what is not UTF-8, in pieces that stay in the processor's cache."""
    view = memoryview(body)
    position, size = 0, len(body)
    try:
        while position < size:
            end = position + BLOCK_BYTES
            position += utf_8_decode(view[position:end], "strict", end >= size)[1]
    except UnicodeDecodeError:
        raise GatewayError(Reason.MALFORMED, "the body is not valid UTF-8") from None
