"""Runs of base64 in a body: media, which models do not count by their bytes.

The search goes through a body in C, in time proportional to its length, whatever it holds.  Between two looks
no other thread runs, so a long body is best searched in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

RUN_BYTES: Final = 1024
"""From this length on, a run of the characters of base64 is media."""
TOKENS_A_RUN: Final = 1000
"""How many tokens a run is taken for."""
BYTES_A_TOKEN: Final = 4
"""How many bytes of other text are taken for a token."""
_BASE64: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=-")
_OTHER: Final = b"\x01"
_MARKS: Final = bytes([0 if byte in _BASE64 else 1 for byte in range(256)])
"""What stands for each byte: 0 for those of base64, 1 for the others."""


def find_runs(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each run.

    A window of a run's length ends a step further behind the last byte of it that is no base64.  Two steps
    together go at least a window ahead.
    """
    marks = body.translate(_MARKS)
    start, size = 0, len(marks)
    while start + RUN_BYTES <= size:
        last = marks.rfind(_OTHER, start, start + RUN_BYTES)
        if last >= 0:
            start = last + 1
            continue
        end = marks.find(_OTHER, start + RUN_BYTES)
        if end < 0:
            end = size
        yield start, end
        start = end + 1
