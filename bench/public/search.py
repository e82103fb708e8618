"""The search for the highest load that a server carries within a bound.

All bounds share one set of probes: a rate that was tried for one says something of the others.  A probe
that failed and was near is repeated once, since whatever disturbs a probe makes it worse, and the better
one counts.  A bound's search ends when the lowest rate that failed is within :data:`PRECISION` of the
highest that passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

PRECISION: Final = 1.08
TRIES: Final = 2
NEAR: Final = 3
"""A probe that missed its bound by more than this factor is not repeated."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One load, and what became of it."""

    load: float
    """Requests in a second, or streams at a time."""
    worst_us: float
    """The percentile, or the greatest delay, that the bound is about."""
    failed: float

    def keeps(self, bound_us: float) -> bool:
        """Say whether all was answered within the bound."""
        return not self.failed and self.worst_us <= bound_us


@dataclass(frozen=True, slots=True)
class Reading:
    """The highest load that kept a bound."""

    load: float
    """0: none did."""
    worst_us: float
    """What it really came to."""
    is_floor: bool
    """Whether no higher load was tried: the server may carry more."""


def reading(probes: Sequence[Probe], bound_us: float) -> Reading:
    """Return the highest load below the first one that never kept the bound."""
    load, ceiling = _span(probes, bound_us)
    worst = min((probe.worst_us for probe in probes if probe.load == load), default=0.0)
    return Reading(load, worst, load > 0 and ceiling == inf)


def next_load(probes: Sequence[Probe], bounds_us: Sequence[float], most: float, least: float) -> float | None:
    """Return the load to try next, or nothing once all bounds are known.

    :param bounds_us: the loosest first, since a search without time enough then leaves out the strictest.
    :param most: no higher load is tried.
    :param least: no lower load is tried; a bound that is not kept at this one is not kept at all.
    """
    for bound in bounds_us:
        load = _next_for(probes, bound, most, least)
        if load is not None:
            return load
    return None


def _next_for(probes: Sequence[Probe], bound_us: float, most: float, least: float) -> float | None:
    passed, failed = _span(probes, bound_us)
    if failed < inf and _is_worth_another([probe for probe in probes if probe.load == failed], bound_us):
        return failed
    if passed >= most or failed / max(passed, least) <= PRECISION:
        return None
    if not probes:
        return most / 2
    if failed == inf:
        return min(passed * 1.5, most)
    return sqrt(passed * failed) if passed else max(failed / 3, least)


def _is_worth_another(failed: Sequence[Probe], bound_us: float) -> bool:
    return len(failed) < TRIES and min(probe.worst_us for probe in failed) <= NEAR * bound_us


def _span(probes: Sequence[Probe], bound_us: float) -> tuple[float, float]:
    """Return the highest load that passed below the lowest that failed, and that one."""
    kept = {probe.load for probe in probes if probe.keeps(bound_us)}
    failed = min((probe.load for probe in probes if probe.load not in kept), default=inf)
    return max((load for load in kept if load < failed), default=0.0), failed
