"""The memory that the C library's allocator keeps: enough for a few large requests, and not for long.

glibc keeps what is freed for later, and after the first large block is freed it takes later ones from the
same heap, up to 32 MiB each (``mallopt(3)``, ``M_MMAP_THRESHOLD``): a few waves of large requests then leave
the process with gigabytes that nobody uses.  A threshold that is set does not move; nor does the other one
then, above which free memory at the end of the heap goes back, and which must be larger than what a request
takes and gives in one turn.

What goes back each time is as slow: the kernel clears all of its pages before they are used again.  So some
is kept at the end of the heap.  Large blocks come from there while there is room, else from blocks of their
own.  It costs no memory before it is used; and what a burst has used goes back a little later, the holes
between what is still in use too (:class:`HeapTrimmer`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from resource import getpagesize
from typing import Any, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

LARGE_BYTES: Final = 512 * 1024
TRIM_BYTES: Final = 8 * 1024 * 1024
KEPT_BYTES: Final = 16 * 1024 * 1024
INTERVAL: Final = 10.0
"""Seconds between two looks at the memory."""
GROWN_BYTES: Final = 16 * 1024 * 1024
"""It is trimmed once it has grown by so much: for less it is not worth the time."""
_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3


def tune_heap() -> bool:
    """Have the allocator keep :data:`KEPT_BYTES` and return the rest; false where it cannot be told.

    The pages are not used before they are needed.  To be called before much is allocated.
    """
    mallopt = _function("mallopt", ctypes.c_int, ctypes.c_int)
    if mallopt is None:
        return False
    settings = (_M_MMAP_THRESHOLD, LARGE_BYTES), (_M_TRIM_THRESHOLD, TRIM_BYTES), (_M_TOP_PAD, KEPT_BYTES)
    return all(mallopt(*setting) for setting in settings)


def trim_heap() -> None:
    """Return all that is free, wherever it is in the heap, as far as the allocator knows how."""
    malloc_trim = _function("malloc_trim", ctypes.c_size_t)
    if malloc_trim is not None:
        malloc_trim(0)


def resident_bytes() -> int:
    """Return how much memory the process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


@dataclass(slots=True, eq=False, repr=False)
class HeapTrimmer:
    """Returns what a burst has left, a few seconds after it.

    What is in use cannot go back: where the memory is as large as before, it is looked at again once it has
    grown as much again.
    """

    clock: IReactorTime
    is_busy: Callable[[], bool]
    """Whether large requests are under way, which would only ask for the memory again."""
    resident: Callable[[], int] = resident_bytes
    trim: Callable[[], None] = trim_heap
    _least: int = 0
    """The least that the process has had since it was trimmed last."""
    _timer: IDelayedCall | None = None

    def start(self) -> None:
        """Begin to look."""
        self._least = self.resident()
        self._wait()

    def stop(self) -> None:
        """Look no more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _wait(self) -> None:
        self._timer = self.clock.callLater(INTERVAL, self._look)

    def _look(self) -> None:
        held = self.resident()
        self._least = min(self._least, held)
        if held > self._least + GROWN_BYTES and not self.is_busy():
            self.trim()
            self._least = self.resident()
        self._wait()


@cache
def _function(name: str, *types: Any) -> Callable[..., int] | None:  # Any: ctypes's
    """Return a function of the C library, unless that is another than glibc."""
    try:
        function = getattr(ctypes.PyDLL(None), name)
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = types
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]  # of the type that was just said
