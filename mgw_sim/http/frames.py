"""Frames of WebSockets as no library writes them (RFC 6455 5): the illegal ones, and those cut anywhere."""

import struct
from collections.abc import Iterator, Mapping
from typing import Final

_FINAL: Final = 0x80
_MASKED: Final = 0x80
CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
_RSV2: Final = 0x20
_UNKNOWN_OPCODE: Final = 0x3
_MASK: Final = b"\x01\x02\x03\x04"


def render_frame(opcode: int, payload: bytes, *, is_final: bool = True, reserved_bits: int = 0) -> bytes:
    """One frame, not masked; it need not be legal."""
    first = opcode | reserved_bits | (_FINAL if is_final else 0)
    if len(payload) < 126:
        return bytes((first, len(payload))) + payload
    if len(payload) < 65536:
        return struct.pack("!BBH", first, 126, len(payload)) + payload
    return struct.pack("!BBQ", first, 127, len(payload)) + payload


def render_close(code: int, reason: str) -> bytes:
    """A close frame with any code; 1005 says that there is none (RFC 6455 7.4.1), and gives one without."""
    payload = b"" if code == 1005 else struct.pack("!H", code) + reason.encode()
    return render_frame(CLOSE, payload)


def cut_message(message: str | bytes, max_bytes: int) -> Iterator[bytes]:
    """The frames of a message with so many bytes each, in the midst of a character, too."""
    payload = message.encode() if isinstance(message, str) else message
    opcode = TEXT if isinstance(message, str) else BINARY
    for at in range(0, max(1, len(payload)), max_bytes):
        is_final = at + max_bytes >= len(payload)
        yield render_frame(opcode, payload[at : at + max_bytes], is_final=is_final)
        opcode = CONTINUATION


def _render_masked(payload: bytes) -> bytes:
    masked = bytes(byte ^ _MASK[at % 4] for at, byte in enumerate(payload))
    return bytes((_FINAL | TEXT, _MASKED | len(payload))) + _MASK + masked


BAD_FRAMES: Final[Mapping[str, bytes]] = {
    "rsv": render_frame(TEXT, b"{}", reserved_bits=_RSV2),  # 5.2: no extension has given it a meaning
    "opcode": render_frame(_UNKNOWN_OPCODE, b"{}"),
    "masked": _render_masked(b"{}"),  # 5.1: a server must not mask
    "big-control": render_frame(PING, bytes(126)),  # 5.5: 125 bytes at most
    "cut-control": render_frame(PING, b"a", is_final=False),  # 5.5: never fragmented
    "continuation": render_frame(CONTINUATION, b"{}"),  # 5.4: of nothing
    "interrupted": render_frame(TEXT, b"{", is_final=False) + render_frame(TEXT, b"}"),  # 5.4
    "utf8": render_frame(TEXT, b'"\xff"'),  # 8.1
    "length": struct.pack("!BBH", _FINAL | TEXT, 126, 2) + b"{}",  # 5.2: the shortest form is the only one
    "close-length": render_frame(CLOSE, b"\x03"),  # 5.5.1: nothing, or a whole code
}
"""The damaged frames by the value of ``sim-bad-frame``."""
