"""The head of a WAVE file, to stand before raw samples.

Source: "Multimedia Programming Interface and Data Specifications 1.0" (IBM and Microsoft, 1991), RIFF and
WAVE; samples of 16 bits are signed there, and all numbers little-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

MAX_SAMPLES_BYTES: Final = 2**32 - 1 - 36
"""More does not fit into the head's own numbers."""

_HEAD: Final = Struct("<4sI4s4sIHHIIHH4sI")
_BEHIND_SIZE: Final = 36
"""What of the head follows the size of the whole."""
_FORMAT_BYTES: Final = 16
_PCM: Final = 1
_BITS: Final = 16


def wave_head(size: int, rate: int, channels: int = 1) -> bytes:
    """Return the 44 bytes that make a file of ``size`` bytes of 16-bit samples which follow unchanged.

    :param rate: samples of one channel in a second.
    """
    frame = channels * _BITS // 8
    return _HEAD.pack(
        b"RIFF",
        _BEHIND_SIZE + size,
        b"WAVE",
        b"fmt ",
        _FORMAT_BYTES,
        _PCM,
        channels,
        rate,
        rate * frame,
        frame,
        _BITS,
        b"data",
        size,
    )
