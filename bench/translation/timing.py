"""Processor time of one piece of work, measured often."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from time import process_time

CORE = 1
SAMPLE_SECONDS = 0.02


def settle() -> None:
    """Stay on one core, and take what is loaded by now out of the garbage collector's sight."""
    os.sched_setaffinity(0, {CORE})
    gc.collect()
    gc.freeze()


def samples(work: Callable[[], object], count: int) -> list[float]:
    """Microseconds of processor time for one call, ``count`` times measured over many calls each.

    The garbage collector runs as ever: what a program leaves behind is part of its cost.
    """
    calls = _calls_in_a_sample(work)
    return [_seconds(work, calls) / calls * 1e6 for _ in range(count)]


def _calls_in_a_sample(work: Callable[[], object]) -> int:
    calls = 1
    while (spent := _seconds(work, calls)) < SAMPLE_SECONDS / 2:
        calls *= 2 if spent > SAMPLE_SECONDS / 16 else 8
    return max(1, round(calls * SAMPLE_SECONDS / spent))


def _seconds(work: Callable[[], object], calls: int) -> float:
    began = process_time()
    for _ in range(calls):
        work()
    return process_time() - began
