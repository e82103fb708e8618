"""How long a test waits for what must happen: long, since a busy machine is no defect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

WAIT_SECONDS: Final = 60.0
"""Seconds.  What must *not* take long is shown by what else would have to pass first, or by CPU time."""
_POLL_SECONDS: Final = 0.005


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is true that no event tells of, such as a number in ``/proc``."""
    pause = threading.Event()
    for _ in range(int(WAIT_SECONDS / _POLL_SECONDS)):
        if condition():
            return
        pause.wait(_POLL_SECONDS)
    raise AssertionError(f"waited in vain for {what}")
