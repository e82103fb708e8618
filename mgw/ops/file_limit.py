"""How many clients the process has file descriptors for."""

from __future__ import annotations

import resource
from typing import Final

LEAST_RESERVE: Final = 128
"""For listeners, logs, sinks, connections at rest to providers, and clients that are being turned away."""
_RESERVED_SHARE: Final = 8
"""One in so many on top, for what grows with the traffic: files of large uploads, spare connections."""
FILES_PER_CLIENT: Final = 2
"""Its own connection, and one to a provider."""
LEAST_CLIENTS: Final = 16
_UNLIMITED: Final = 1024 * 1024


def file_limit() -> int:
    """Return how many files and sockets the process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, _UNLIMITED)


def clients_within(files: int) -> int:
    """Return how many clients so many files are enough for."""
    reserve = max(LEAST_RESERVE, files // _RESERVED_SHARE)
    return max(LEAST_CLIENTS, (files - reserve) // FILES_PER_CLIENT)
