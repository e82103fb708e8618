"""How many Python functions something calls: what a fast path saves, measured without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object]) -> int:
    """Return how many Python functions run, but for the work itself.

    Generators count each time that they go on.  Do the work once before you count, so that what is kept for
    the next time is there.
    """
    count = 0

    def on_event(_frame: FrameType, event: str, _value: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count - 1
