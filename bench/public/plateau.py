"""Whether memory has become steady: the public method's test, which each server is held to alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

DRIFT: Final = 0.01
"""The most by which the second half of a window may lie above the first, as a part of its mean."""
SPREAD: Final = 0.02
"""The most that lies between its least and its greatest."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory at a time, in seconds since the load began."""

    seconds: float
    mib: float


def window_of(samples: Sequence[Sample], seconds: float) -> Sequence[Sample]:
    """Return the last samples, of so many seconds; none while there are not so many seconds of them."""
    if not samples or samples[-1].seconds - samples[0].seconds < seconds:
        return []
    return [one for one in samples if one.seconds >= samples[-1].seconds - seconds]


def is_steady(window: Sequence[Sample]) -> bool:
    """Say whether a window neither rises nor swings."""
    if len(window) < 4:
        return False
    sizes = [one.mib for one in window]
    middle, mean = len(sizes) // 2, fmean(sizes)
    drift = fmean(sizes[middle:]) - fmean(sizes[:middle])
    return drift < DRIFT * mean and max(sizes) - min(sizes) < SPREAD * mean


def growth_per_minute(window: Sequence[Sample]) -> float:
    """Return by how many MiB a minute memory rises within a window, by least squares."""
    if len(window) < 2:
        return 0.0
    at, size = fmean(one.seconds for one in window), fmean(one.mib for one in window)
    spread = sum((one.seconds - at) ** 2 for one in window)
    rises = sum((one.seconds - at) * (one.mib - size) for one in window)
    return rises / spread * 60 if spread else 0.0
