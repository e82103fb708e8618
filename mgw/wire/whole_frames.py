"""WebSocket frames that are whole (RFC 6455, section 5): render one, mask its payload, find where it ends."""

from __future__ import annotations

from typing import Final

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
CONTROL: Final = 0x08
"""Set in the first byte of frames that are no part of a message (5.5)."""

FINAL_BIT: Final = 0x80
MASK_BIT: Final = 0x80
OPCODE_BITS: Final = 0x0F
_MAX_REASON_BYTES: Final = 123
LONG_LENGTHS: Final = {126: (2, 126), 127: (8, 1 << 16)}
"""Lengths that say in how many bytes the length follows, and the least that needs so many (5.2)."""

_MASK_BLOCK: Final = 1 << 16


def mask(payload: bytes, key: bytes) -> bytes:
    """Return a payload masked, or unmasked, with a key of four bytes (5.3)."""
    size = len(payload)
    if size <= _MASK_BLOCK:
        keys = int.from_bytes((key * (size // 4 + 1))[:size], "little")
        return (int.from_bytes(payload, "little") ^ keys).to_bytes(size, "little")
    # Numbers of a bounded size: larger ones leave the processor's cache.
    keys = int.from_bytes(key * (_MASK_BLOCK // 4), "little")
    whole = size - size % _MASK_BLOCK
    blocks = [
        (int.from_bytes(payload[at : at + _MASK_BLOCK], "little") ^ keys).to_bytes(_MASK_BLOCK, "little")
        for at in range(0, whole, _MASK_BLOCK)
    ]
    return b"".join([*blocks, mask(payload[whole:], key)])


def render_frame(opcode: int, payload: bytes, key: bytes | None = None) -> bytes:
    """Return a whole message in one frame, or a control frame (5.2).

    :param key: masks the payload, as a client has to; four random bytes (5.3).
    """
    size = len(payload)
    mask_bit = 0 if key is None else MASK_BIT
    if size < 126:
        length = bytes((size | mask_bit,))
    elif size < 1 << 16:
        length = bytes((126 | mask_bit,)) + size.to_bytes(2, "big")
    else:
        length = bytes((127 | mask_bit,)) + size.to_bytes(8, "big")
    first = bytes((FINAL_BIT | opcode,))
    return first + length + (payload if key is None else key + mask(payload, key))


def render_close(code: int | None, reason: str, key: bytes | None = None) -> bytes:
    """Return a close frame; a reason of more than 123 bytes is cut (5.5.1), and none goes without a code."""
    if code is None:
        return render_frame(CLOSE, b"", key)
    said = reason.encode(errors="replace")[:_MAX_REASON_BYTES].decode(errors="ignore").encode()
    return render_frame(CLOSE, code.to_bytes(2, "big") + said, key)


def find_frame_end(raw: bytes, start: int) -> tuple[int, int] | None:
    """Return where the payload of the frame at ``start`` begins and ends, whether all of it is there or not.

    ``None`` where its header is not complete.
    """
    body = start + 2
    if body > len(raw):
        return None
    length = raw[start + 1] & ~MASK_BIT
    if length in LONG_LENGTHS:
        length_bytes, _ = LONG_LENGTHS[length]
        length = int.from_bytes(raw[body : body + length_bytes], "big")
        body += length_bytes
    if raw[start + 1] & MASK_BIT:
        body += 4
    return None if body > len(raw) else (body, body + length)


def read_pings(raw: bytes) -> list[bytes]:
    """Return the payloads of the pings among whole, legal frames, which are masked."""
    found: list[bytes] = []
    start = 0
    while (frame := find_frame_end(raw, start)) is not None:
        body, end = frame
        if raw[start] & OPCODE_BITS == PING:
            found.append(mask(raw[body:end], raw[body - 4 : body]))
        start = end
    return found
