"""How one row is measured: its time, its calls of Python functions, and what it leaves to the collector."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import thread_time
from types import FrameType

from tests.support.in_memory.work import Work

BATCH = 100
"""Requests or chunks between two turns of the reactor."""
_OWN = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Row:
    """What one request or chunk costs."""

    microseconds: float
    calls: float
    left: float
    """Objects in cycles, which wait for the collector."""


def measure(work: Work, rounds: int) -> Row:
    """Measure one row."""
    return Row(fastest(work, rounds), count_calls(work), sum(count_cycles(work).values()) / 1000)


def warm_up(work: Work) -> None:
    """Have every cache filled."""
    work.prepare(BATCH)
    work.run()
    work.check()


def fastest(work: Work, rounds: int) -> float:
    """Return the CPU time of one request or chunk in the fastest round, in microseconds."""
    warm_up(work)
    best = float("inf")
    for _ in range(rounds):
        work.prepare(BATCH)
        with collector_off():
            began = thread_time()
            work.run()
            best = min(best, thread_time() - began)
        work.check()
    return best / BATCH * 1e6


def count_calls(work: Work) -> float:
    """Return how many calls of Python functions one request or chunk makes."""
    return sum(calls_by_function(work).values())


def calls_by_function(work: Work) -> dict[str, float]:
    """Return the calls that one request or chunk makes, by file and function."""
    found: Counter[tuple[str, int, str]] = Counter()

    def on_event(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            found[code.co_filename, code.co_firstlineno, code.co_qualname] += 1

    warm_up(work)
    work.prepare(BATCH)
    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work.run()
    finally:
        sys.setprofile(before)
    work.check()
    return {
        f"{file}:{line} {name}": count / BATCH
        for (file, line, name), count in found.most_common()
        if not file.startswith(_OWN)
    }


def count_cycles(work: Work, count: int = 1000) -> Counter[str]:
    """Return the objects, by their type, that so many requests or chunks leave in cycles.

    Where any are found, the work is done once more, and what is left then counts: in a process that does
    other things, one of them may let go of its own meanwhile, and will not do so twice.
    """
    warm_up(work)
    return _count_cycles(work, count) and _count_cycles(work, count)


def _count_cycles(work: Work, count: int) -> Counter[str]:
    work.prepare(count)
    with collector_off():
        work.run()
        work.check()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            gc.collect()
        finally:
            gc.set_debug(0)
        found = Counter(type(one).__qualname__ for one in gc.garbage)
        gc.garbage.clear()
    return found


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect first, and not again meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
