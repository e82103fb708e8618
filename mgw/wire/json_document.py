"""Read a JSON body without building it: its validity, its size, and the positions of its values.

* ``msgspec`` checks several bytes in a nanosecond and holds the interpreter meanwhile, at most a tenth of a
  second for the largest body.  All else that is done with a whole body is done in blocks, between which other
  threads get their turn.
* A value in Python takes up to thirty times the bytes that it has in JSON, and every object of a request is
  opened, read and written anew.  So bodies that are to be parsed are counted first: the commas and brackets
  outside of strings.  A body without many of them anywhere is not looked at any closer.
* A :class:`JsonDocument` tells where the members and elements of a body stand.  It is checked whole when it
  is opened, so that the walk meets valid JSON only.  One level is walked at a time, from sibling to sibling,
  and only what is asked for is opened.  Where an array or object ends is found by ``msgspec``: it is shown
  all that begins there and names the byte at which it finds more than one value.  A pattern that does the
  same is a hundred times slower where brackets are nested.  Steps are counted, so the time is bounded
  whatever the brackets look like, and nothing calls itself: depth is ``msgspec``'s business, and it refuses
  what is nested too deeply.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from mgw.nouns.errors import GatewayError, Reason

Span = tuple[int, int]
"""Where something begins and where the bytes after it begin."""

BLOCK_BYTES: Final = 64 * 1024
"""Long bodies are walked in blocks that stay in the processor's cache."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_SURROGATE_BYTES: Final = 6
_BACKSLASH: Final = ord("\\")
_BACKSLASHES: Final = re.compile(rb"\\*+")
_MORE: Final = re.compile(r"trailing characters \(byte (\d+)\)")
"""What the checker says of what it meets behind a value, and where, counted from 1."""
_check: Final = Decoder(Raw).decode
_decode_string: Final = Decoder(str).decode
_FEW: Final = 256
"""Finding so few of a character takes a tenth of the time that counting it in a large body takes."""
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_OPENING: Final = b"{["
_CLOSING: Final = b"}]"
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
BOUNDED_STRING: Final = rb'"(?:[^"\\]{1,4000}+|\\.){0,400}"'
"""A string of up to so many pieces between escapes; it may fail half-way, so it goes back a little."""
_BOUNDED_STRING: Final = re.compile(BOUNDED_STRING, re.DOTALL)
_WORD: Final = re.compile(rb"[^ \t\r\n,\]}]++")
"""A number, ``true``, ``false`` or ``null``."""


def skip_value(view: memoryview, start: int) -> int:
    """Return where something that is no white space follows the value at ``start`` of a valid document.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, or nested too deeply.
    """
    try:
        _check(view[start:])
    except DecodeError as error:
        more = _MORE.search(str(error))
        if more is None:
            raise invalid_json_error(error) from None
        return start + int(more[1]) - 1
    except RecursionError:
        raise too_deep_error() from None
    return len(view)


def skip_space(text: bytes, position: int) -> int:
    """Return where the white space at ``position`` ends, if there is any."""
    match = _SPACE.match(text, position)
    assert match is not None, "it may be empty"
    return match.end()


def string_end(text: bytes, view: memoryview, start: int) -> int:
    """Return where the string at ``start`` of a valid document ends; ``view`` is one of ``text``.

    A pattern would hold the interpreter to the end of a long one, however long it is.
    """
    match = _BOUNDED_STRING.match(text, start)
    if match is not None:
        return match.end()
    return text.rindex(b'"', start, skip_value(view, start)) + 1


def decode_string(literal: bytes) -> str:
    """Return what a string says; U+FFFD, which is nobody's name, where that is no text."""
    try:
        return _decode_string(literal)
    except (DecodeError, UnicodeDecodeError):  # half a surrogate pair, or no UTF-8
        return "\ufffd"


def check_json(body: bytes) -> bytes:
    """Return valid JSON of the same length whose strings, but for what spells surrogates, say the same.

    The same object where the checker takes the body as it is.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, or nested too deeply.
    """
    try:
        _check(body)
    except DecodeError:
        neutral = neutralize_surrogates(body)
    except RecursionError:
        raise too_deep_error() from None
    else:
        return body
    try:
        _check(neutral)
    except DecodeError as error:
        raise invalid_json_error(error) from None
    except RecursionError:
        raise too_deep_error() from None
    return neutral


def check_utf8(body: bytes) -> None:
    """Refuse what is not UTF-8, in pieces that stay in the processor's cache.

    :raises GatewayError: ``MALFORMED``.
    """
    view = memoryview(body)
    position, size = 0, len(body)
    try:
        while position < size:
            end = position + BLOCK_BYTES
            position += utf_8_decode(view[position:end], "strict", end >= size)[1]
    except UnicodeDecodeError:
        raise GatewayError(Reason.MALFORMED, "the body is not valid UTF-8") from None


def neutralize_surrogates(body: bytes) -> bytes:
    """Return ``body`` with other escapes of the same length for all that spell halves of surrogate pairs.

    RFC 8259 8.2 lets lone ones pass, the checker does not.
    """
    if rb"\u" not in body:
        return body
    neutral = bytearray(body)
    size = len(body)
    for at in range(0, size, BLOCK_BYTES):
        _neutralize(neutral, at, min(at + BLOCK_BYTES, size))
    for at in range(BLOCK_BYTES, size, BLOCK_BYTES):  # those that the blocks have cut
        _neutralize(neutral, at - _SURROGATE_BYTES + 1, min(at + _SURROGATE_BYTES - 1, size))
    return bytes(neutral)


def _neutralize(body: bytearray, start: int, end: int) -> None:
    block = body[start:end]
    changed = _SURROGATE.sub(rb"\\u0020", block)
    if changed != block:
        body[start:end] = changed


def iter_outside_strings(masked: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield in blocks what stands outside of strings, where no string holds an escaped quote."""
    inside = 0
    for at in range(start, end, BLOCK_BYTES):
        pieces = masked[at : min(at + BLOCK_BYTES, end)].split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= 1 - len(pieces) % 2


def iter_structure(body: bytes) -> Iterator[bytes]:
    """Yield in blocks what stands outside of the strings of a JSON body."""
    start = inside = 0
    while start < len(body):
        end = min(start + BLOCK_BYTES, len(body))
        if body[end - 1] == _BACKSLASH:  # what it escapes belongs to the same block
            escapes = _BACKSLASHES.match(body, end)
            assert escapes is not None, "there may be none"
            end = escapes.end() + 1
        pieces = mask_escapes(body[start:end]).split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= 1 - len(pieces) % 2
        start = end


def mask_escapes(body: bytes) -> bytes:
    """Return ``body`` with other escapes of the same length for backslashes and quotes."""
    return body.replace(rb"\\", rb"\n").replace(rb"\"", rb"\n")


def has_more_values(body: bytes, max_objects: int, max_values: int) -> bool:
    """Whether a JSON body has more objects, or more values in all, than these; whatever, where it is none."""
    # An object takes three bytes with its comma, and two marks at least so many.
    if len(body) < max(2 * max_objects, min(3 * max_objects, 3 * max_values // 2)):
        return False
    objects = _count(body, b"{")
    if objects <= max_objects and objects + _count(body, b"[") + _count(body, b",") <= max_values:
        return False
    objects = values = 0
    for outside in iter_structure(body):
        opened = outside.count(b"{")
        objects += opened
        values += opened + outside.count(b"[") + outside.count(b",")
        if objects > max_objects or values > max_values:
            return True
    return False


def _count(body: bytes, mark: bytes) -> int:
    """Return how often a mark stands in a body, within strings or without."""
    at = -1
    for found in range(_FEW):
        at = body.find(mark, at + 1)
        if at < 0:
            return found
    return body.count(mark)


class JsonNode(Struct, frozen=True, gc=False):
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


class JsonDocument:
    """A JSON body, checked, and read by where its values stand.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, what is nested too deeply, and from any
    method once more than ``max_nodes`` have been walked over.
    """

    def __init__(self, body: bytes, max_nodes: int = 200_000) -> None:
        self._body = body
        # Of the same length as the body, so that positions are those of the body.
        self._text = check_json(body)
        self._view = memoryview(self._text)
        self._left = max_nodes
        start = skip_space(self._text, 0)
        self.root: Final = JsonNode(start, start, len(body))

    def members(self, node: JsonNode) -> dict[str, list[JsonNode]]:
        """Return the members of an object by their keys; none where there is no object.

        A key that is stated several times has several nodes, in the body's order, and the last one counts.
        """
        found: dict[str, list[JsonNode]] = {}
        if self._text[node.value] == _BRACE:
            for member in self._items(node):
                found.setdefault(self._string(member.start), []).append(member)
        return found

    def elements(self, node: JsonNode, holding: bytes) -> Iterator[JsonNode]:
        """Yield the elements of an array in whose spelling some bytes occur; none where there is no array."""
        if self._text[node.value] != _BRACKET:
            return
        held = self._text.find(holding, node.value, node.end)
        if held < 0:
            return
        for element in self._items(node):
            if held < element.end:
                yield element
                held = self._text.find(holding, element.end, node.end)
                if held < 0:
                    return

    def string(self, node: JsonNode) -> str | None:
        """Return a value that is a string."""
        return self._string(node.value) if self._text[node.value] == _QUOTE else None

    def raw(self, node: JsonNode) -> bytes:
        """Return a value as it is spelled."""
        return self._text[node.value : node.end]

    def original(self, node: JsonNode) -> bytes:
        """Return a value as the body spells it, surrogates included."""
        return self._body[node.value : node.end]

    def begins_with(self, node: JsonNode, opening: bytes) -> bool:
        """Whether a value begins with one of these bytes, as objects and arrays do with their brackets."""
        return self._text[node.value] in opening

    def _items(self, node: JsonNode) -> Iterator[JsonNode]:
        """Walk over what stands in an array or object."""
        text, is_object = self._text, self._text[node.value] == _BRACE
        comma, start = None, skip_space(text, node.value + 1)
        while text[start] not in _CLOSING:
            value = skip_space(text, skip_space(text, self._end(start)) + 1) if is_object else start
            end = self._end(value)
            after = skip_space(text, end)
            following = skip_space(text, after + 1) if text[after] == _COMMA else None
            yield JsonNode(start, value, end, comma, following)
            if following is None:
                return
            comma, start = after, following

    def _end(self, start: int) -> int:
        """Return where the value that begins at ``start`` ends."""
        self._left -= 1
        if self._left < 0:
            raise GatewayError(Reason.MALFORMED, "the body has too many parts to be edited")
        first = self._text[start]
        if first in _OPENING:
            return self._container_end(start)
        if first == _QUOTE:
            return string_end(self._text, self._view, start)
        match = _WORD.match(self._text, start)
        assert match is not None, "the body has been checked"
        return match.end()

    def _container_end(self, start: int) -> int:
        behind = skip_value(self._view, start)
        closing = b"}" if self._text[start] == _BRACE else b"]"
        return self._text.rindex(closing, start, behind) + 1

    def _string(self, start: int) -> str:
        literal = self._body[start : string_end(self._text, self._view, start)]
        if b"\\" not in literal:
            return str(literal[1:-1], "utf-8", "replace")
        return decode_string(literal)


def removal_spans(siblings: Sequence[JsonNode]) -> list[Span]:
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


def are_all_siblings(siblings: Sequence[JsonNode]) -> bool:
    """Whether these are all members of their object, or all elements of their array."""
    runs = _runs(siblings)
    return len(runs) == 1 and runs[0][0].comma is None and runs[0][1].following is None


def _runs(siblings: Sequence[JsonNode]) -> list[tuple[JsonNode, JsonNode]]:
    """Return the first and the last of each run of neighbours."""
    runs: list[tuple[JsonNode, JsonNode]] = []
    for node in siblings:
        if runs and runs[-1][1].following == node.start:
            runs[-1] = (runs[-1][0], node)
        else:
            runs.append((node, node))
    return runs


def too_deep_error() -> GatewayError:
    """Return the refusal of what is nested too deeply."""
    return GatewayError(Reason.MALFORMED, "the body is nested too deeply")


def invalid_json_error(error: DecodeError) -> GatewayError:
    """Return the refusal of what is no JSON."""
    return GatewayError(Reason.MALFORMED, f"the body is not valid JSON: {error}")
