"""Frames as a reader that shares nothing with the gateway's cuts them: whole ones, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RawFrame:
    """One frame: its first byte, and its payload without the mask."""

    first: int
    payload: bytes

    @property
    def is_control(self) -> bool:
        """Whether it is no part of a message."""
        return bool(self.first & 0x08)


def split_frames(data: bytes) -> tuple[list[RawFrame], bytes]:
    """Return the whole frames at the front, and the bytes behind them."""
    raw, rest = split_raw_frames(data)
    return [_unmasked(one) for one in raw], rest


def split_raw_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole frames at the front as they came, and the bytes behind them."""
    found, at = [], 0
    while (end := _end(data, at)) is not None and end <= len(data):
        found.append(data[at:end])
        at = end
    return found, data[at:]


def _end(data: bytes, at: int) -> int | None:
    """Return where a frame ends, if its header is there."""
    body = at + 2
    if len(data) < body:
        return None
    size = data[at + 1] & 0x7F
    if size >= 126:
        width = 2 if size == 126 else 8
        size, body = int.from_bytes(data[body : body + width], "big"), body + width
    if data[at + 1] & 0x80:
        body += 4
    return None if len(data) < body else body + size


def _unmasked(frame: bytes) -> RawFrame:
    size = frame[1] & 0x7F
    body = {126: 4, 127: 10}.get(size, 2)
    if not frame[1] & 0x80:
        return RawFrame(frame[0], frame[body:])
    key, payload = frame[body : body + 4], frame[body + 4 :]
    return RawFrame(frame[0], bytes(byte ^ key[number % 4] for number, byte in enumerate(payload)))


def messages_of(frames: Sequence[RawFrame]) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return the kind and the payload of each whole message, and what there is of an unfinished one."""
    found: list[tuple[int, bytes]] = []
    kind, parts = 0, b""
    for one in frames:
        if one.is_control:
            continue
        opcode = one.first & 0x0F
        assert bool(opcode) is not bool(kind), "a message begins where none is unfinished"
        kind, parts = opcode or kind, parts + one.payload
        if one.first & 0x80:
            found.append((kind, parts))
            kind, parts = 0, b""
    return found, parts
