"""Find and replace one value of a JSON body at its own position (decisions, part 5).

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
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError

from mgw.errors import GatewayError, Reason

Span = tuple[int, int]
"""Where something begins and where the bytes after it begin."""


MAX_STATED: Final = 1000
"""How often a body may state one key at the top; nobody does it twice on purpose."""


class FoundValue(Struct, frozen=True, gc=False):
    """A string value, and every place where it is stated (a JSON body: quotes included)."""

    value: str
    spans: tuple[Span, ...]


def find_model(body: bytes, key: str = "model") -> FoundValue | None:
    """Return the value of the top-level ``key`` of a JSON object, or ``None`` where it has none.

    Of several such keys the last one counts, and the spans of all are returned.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON object in UTF-8, and for a value that is
    no string or no text.
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
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_BEGINNING: Final = b'{"":0'
_END: Final = b'"":0}'
_EMPTY: Final = b"{" + _END
_HEAD_BYTES: Final = 128
"""Many clients write the model first: so far a search from the front is worth its time."""
_TRIES: Final = 4
_COPIED_BYTES: Final = 16 * 1024
"""Above this size one copy through a view is cheaper than two without."""
_BLOCK_BYTES: Final = 64 * 1024
"""Long bodies are walked in blocks that stay in the processor's cache."""


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
        self._any = re.compile(rb'"%b"%b:%b' % (spelled, _SPACE, _SPACE))
        # Any: the checker cannot know the fields of a class that is made here.
        self._decode: Any = msgspec.json.Decoder(keyed).decode

    def find(self, body: bytes) -> FoundValue | None:
        if not body.isascii():
            _check_utf8(body)
        try:
            return self._find_plain(body) or self._find_any(body)
        except RecursionError:
            raise GatewayError(Reason.MALFORMED, "the body is nested too deeply") from None

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
        if not self._is_stated(body):
            return None
        # Of the same length, so that positions stay, and now every quote begins or ends a string.
        plain = _without_escaped_quotes(body)
        spans: list[Span] = []
        for start in self._value_starts(plain):
            if len(spans) == MAX_STATED:
                message = f"the body states {self._key!r} more than {MAX_STATED} times"
                raise GatewayError(Reason.MALFORMED, message, param=self._key)
            match = _STRING.match(body, start)
            if match is None:
                raise GatewayError(Reason.MALFORMED, f"{self._key!r} must be a string", param=self._key)
            spans.append(match.span())
        start, end = spans[-1]
        return FoundValue(self._text(body[start:end]), tuple(spans))

    def _is_stated(self, body: bytes) -> bool:
        """Whether a body, which is checked whole, holds the key."""
        try:
            return self._decode(body).value is not UNSET
        except ValidationError:
            raise GatewayError(Reason.MALFORMED, "the body must be a JSON object") from None
        except DecodeError:
            neutral = _SURROGATE.sub(rb"\\u0020", _without_escaped_quotes(body))
        try:
            return self._decode(neutral).value is not UNSET
        except ValidationError:
            raise GatewayError(Reason.MALFORMED, "the body must be a JSON object") from None
        except DecodeError as error:
            raise GatewayError(Reason.MALFORMED, f"the body is not valid JSON: {error}") from None

    def _value_starts(self, plain: bytes) -> list[int]:
        """Return where the values of the key at depth 1 begin, in a valid body without escaped quotes."""
        starts = []
        depth = position = 0
        for match in self._any.finditer(plain):
            depth += _depth_between(plain, position, match.start())
            position = match.end()
            if depth == 1:
                starts.append(position)
        return starts

    def _text(self, literal: bytes) -> str:
        try:
            return msgspec.json.decode(literal, type=str)
        except DecodeError:
            raise GatewayError(
                Reason.MALFORMED, f"{self._key!r} holds an unpaired surrogate", param=self._key
            ) from None


@lru_cache(maxsize=16)
def _finder(key: str) -> _Finder:
    return _Finder(key)


def _any_spelling(letter: int) -> bytes:
    """Return a pattern for a letter, plain or as the one escape that JSON has for it."""
    digits = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{letter:04x}")
    return b"(?:%c|\\\\u%b)" % (letter, digits.encode())


def _without_escaped_quotes(body: bytes) -> bytes:
    """Return ``body`` with other escapes of the same length for backslashes and quotes."""
    return body.replace(rb"\\", rb"\n").replace(rb"\"", rb"\n")


def _depth_between(plain: bytes, start: int, end: int) -> int:
    """Return how many more brackets are opened than closed between two places outside of strings."""
    depth = inside = 0
    for at in range(start, end, _BLOCK_BYTES):
        pieces = plain[at : min(at + _BLOCK_BYTES, end)].split(b'"')
        outside = b"".join(pieces[inside::2])
        inside ^= 1 - len(pieces) % 2
        depth += outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
    return depth


def _check_utf8(body: bytes) -> None:
    """Refuse what is not UTF-8, in pieces that stay in the processor's cache."""
    view = memoryview(body)
    position, size = 0, len(body)
    try:
        while position < size:
            end = position + _BLOCK_BYTES
            position += utf_8_decode(view[position:end], "strict", end >= size)[1]
    except UnicodeDecodeError:
        raise GatewayError(Reason.MALFORMED, "the body is not valid UTF-8") from None
