"""Say whether a large body holds a few bytes.

For ``in`` a megabyte takes longer than a check of all its JSON.  The C library's ``memmem`` takes a sixth of
that, whatever the body says, but a call of it as long as ``in`` for two kilobytes.  ISO C does not have it:
where it is missing, ``in`` has to do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Final, cast

LONG_BYTES: Final = 8 * 1024
"""Callers search what is no longer than this by ``in``, without a call."""


def holds(body: bytes, needle: bytes) -> bool:
    """Return what ``needle in body`` does; ``needle`` is short, and not empty."""
    search = memmem()
    return needle in body if search is None else search(body, len(body), needle, len(needle)) is not None


@cache
def memmem() -> Callable[[bytes, int, bytes, int], int | None] | None:
    """Return the C library's function, if it has one; it keeps the interpreter to itself, as ``in`` does."""
    try:
        found = ctypes.PyDLL(None).memmem
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    found.restype = ctypes.c_void_p
    return cast(Callable[[bytes, int, bytes, int], int | None], found)
