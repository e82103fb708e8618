"""What ``msgspec`` knows of a JSON body without building it: whether it is valid, and where a value ends.

It checks several bytes in a nanosecond and holds the interpreter meanwhile, at most a tenth of a second for
the largest body.  All that is done here beside is done in blocks, between which others get their turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from mgw.errors import GatewayError, Reason

BLOCK_BYTES: Final = 64 * 1024
"""Long bodies are walked in blocks that stay in the processor's cache."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_SURROGATE_BYTES: Final = 6
_BACKSLASH: Final = ord("\\")
_BACKSLASHES: Final = re.compile(rb"\\*+")
_MORE: Final = re.compile(r"trailing characters \(byte (\d+)\)")
"""What the checker says of what it meets behind a value, and where, counted from 1."""
_check: Final = Decoder(Raw).decode


def next_after(view: memoryview, start: int) -> int:
    """Return where something that is no white space follows the value at ``start`` of a valid document.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON, or nested too deeply.
    """
    try:
        _check(view[start:])
    except DecodeError as error:
        more = _MORE.search(str(error))
        if more is None:
            raise invalid(error) from None
        return start + int(more[1]) - 1
    except RecursionError:
        raise too_deep() from None
    return len(view)


def readable(body: bytes) -> bytes:
    """Return valid JSON of the same length whose strings, but for what spells surrogates, say the same.

    The same object where the checker takes the body as it is.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no JSON, or nested too deeply.
    """
    try:
        _check(body)
    except DecodeError:
        neutral = without_surrogates(body)
    except RecursionError:
        raise too_deep() from None
    else:
        return body
    try:
        _check(neutral)
    except DecodeError as error:
        raise invalid(error) from None
    except RecursionError:
        raise too_deep() from None
    return neutral


def without_surrogates(body: bytes) -> bytes:
    """Return ``body`` with other escapes of the same length for all that spell halves of surrogate pairs.

    RFC 8259 8.2 lets lone ones pass, the checker does not.
    """
    if rb"\u" not in body:
        return body
    neutral = bytearray(body)
    size = len(body)
    for at in range(0, size, BLOCK_BYTES):
        _neutralise(neutral, at, min(at + BLOCK_BYTES, size))
    for at in range(BLOCK_BYTES, size, BLOCK_BYTES):  # those that the blocks have cut
        _neutralise(neutral, at - _SURROGATE_BYTES + 1, min(at + _SURROGATE_BYTES - 1, size))
    return bytes(neutral)


def _neutralise(body: bytearray, start: int, end: int) -> None:
    block = body[start:end]
    changed = _SURROGATE.sub(rb"\\u0020", block)
    if changed != block:
        body[start:end] = changed


def without_strings(plain: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield in blocks what stands outside of strings, where no string holds an escaped quote."""
    inside = 0
    for at in range(start, end, BLOCK_BYTES):
        pieces = plain[at : min(at + BLOCK_BYTES, end)].split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= 1 - len(pieces) % 2


def structure_of(body: bytes) -> Iterator[bytes]:
    """Yield in blocks what stands outside of the strings of a JSON body."""
    start = inside = 0
    while start < len(body):
        end = min(start + BLOCK_BYTES, len(body))
        if body[end - 1] == _BACKSLASH:  # what it escapes belongs to the same block
            escapes = _BACKSLASHES.match(body, end)
            assert escapes is not None, "there may be none"
            end = escapes.end() + 1
        pieces = without_escaped_quotes(body[start:end]).split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= 1 - len(pieces) % 2
        start = end


def without_escaped_quotes(body: bytes) -> bytes:
    """Return ``body`` with other escapes of the same length for backslashes and quotes."""
    return body.replace(rb"\\", rb"\n").replace(rb"\"", rb"\n")


def too_deep() -> GatewayError:
    """Return the refusal of what is nested too deeply."""
    return GatewayError(Reason.MALFORMED, "the body is nested too deeply")


def invalid(error: DecodeError) -> GatewayError:
    """Return the refusal of what is no JSON."""
    return GatewayError(Reason.MALFORMED, f"the body is not valid JSON: {error}")
