"""A block of memory that a body grows into, made for all of it once it is known how long it will be.

The system clears the pages of new memory one by one, when each is first written to: for 30 MB in pages of
4 KiB that takes longer than to receive and to send them.  Linux gives pages of 2 MiB to those who ask for
them (``madvise(2)``, ``MADV_HUGEPAGE``).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Final

HUGE_PAGE: Final = 2 * 1024 * 1024
"""What such a page has, on most processors."""
HUGE_BYTES: Final = 4 * HUGE_PAGE
"""From this size on a block asks for large pages; of a smaller one they could be a large part."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""No block is made larger, whatever its body is said to be: it grows as it has to."""
_ADVICE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


def block_of(size: int) -> BytesIO:
    """Return a block to be written from its beginning, with room for so many bytes, or for the first of them.

    Whoever writes less cuts the rest off.  Where the system has no room for it, or promises none to anybody
    who may not use it (``vm.overcommit_memory``, ``ulimit -v``), the block is empty and grows as it has to.
    """
    size = min(size, MOST_BYTES)
    try:
        block = BytesIO(bytes(size))
    except MemoryError:
        return BytesIO()
    if size >= HUGE_BYTES:
        _ask_for_large_pages(block, size)
    return block


def _ask_for_large_pages(block: BytesIO, size: int) -> None:
    madvise = _madvise()
    if madvise is not None and _ADVICE is not None:
        address = ctypes.addressof(ctypes.c_char.from_buffer(block.getbuffer()))
        start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
        madvise(start, (address + size - start) // mmap.PAGESIZE * mmap.PAGESIZE, _ADVICE)


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """Return the C library's function, if it has one."""
    try:
        found = ctypes.PyDLL(None).madvise
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found
