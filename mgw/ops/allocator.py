"""Memory that large bodies took goes back to the system when they are gone.

glibc keeps what is freed for later, and after the first large block is freed it takes later ones from the
same heap, up to 32 MiB each (``mallopt(3)``, ``M_MMAP_THRESHOLD``): a few waves of large requests then leave
the process with gigabytes that nobody uses.  A threshold that is set does not move; nor does the other one
then, above which free memory at the end of the heap goes back, and which must be larger than what a request
takes and gives in one turn.
"""

from __future__ import annotations

import ctypes
from typing import Final

LARGE_BYTES: Final = 512 * 1024
KEPT_BYTES: Final = 8 * 1024 * 1024
_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


def give_large_blocks_back() -> bool:
    """Have blocks above :data:`LARGE_BYTES` returned once they are freed; false where that is unknown."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
