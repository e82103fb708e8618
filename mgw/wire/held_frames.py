"""Frames of a message that is held until complete, while control frames pass.

RFC 6455 5.4 lets control frames stand within a message in several frames, and before it they mean the same:
a ping wants its pong now, whatever becomes of the message.
"""

from __future__ import annotations

from mgw.wire.whole_frames import CONTROL, find_frame_end


class HeldFrames:
    """Legal frames of a message that waits for its rest: its own, since control frames go on meanwhile."""

    __slots__ = ("_frame_end", "framing_bytes", "raw")

    def __init__(self) -> None:
        self.raw = bytearray()
        self._frame_end = 0
        """Where the last frame whose header is complete ends; that may be more than there is."""
        self.framing_bytes = 0
        """How many bytes are headers of frames."""

    def add(self, piece: bytes) -> bytes:
        """Take what has come, and return the control frames that are whole with it."""
        raw, at = self.raw, self._frame_end
        raw += piece
        if at >= len(raw):
            return b""
        tail = bytes(raw[at:])
        kept: list[bytes] = []
        controls: list[bytes] = []
        start, size = 0, len(tail)
        kept_bytes = 0
        while start < size and (frame := find_frame_end(tail, start)) is not None:
            body, end = frame
            if not tail[start] & CONTROL:
                self.framing_bytes += body - start
                kept.append(tail[start:end])
                kept_bytes += end - start
            elif end <= size:
                controls.append(tail[start:end])
            else:
                break
            start = end
        self._frame_end = at + kept_bytes
        if controls:
            raw[at:] = b"".join((*kept, tail[start:]))
        return b"".join(controls)
