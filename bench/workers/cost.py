"""What a request costs in all processes of a gateway together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.results import Report
from bench.table import Table
from bench.workers.gateways import WORKER, Gateway, Gateways, request
from bench.workers.paced import Outcome, PacedClient

CONNECTIONS: Final = 32
WARM_SECONDS: Final = 0.3
SECONDS: Final = 1.6
LEAST_RATIO: Final = 1.8
_SETTLE: Final = 0.15
"""Seconds until what requests leave behind is written."""


@dataclass(frozen=True, slots=True)
class _Case:
    title: str
    workers: int | None
    times: int
    """The rate, to that of one process."""


@dataclass(frozen=True, slots=True)
class _Round:
    cpu: float
    """Seconds for a request, of all processes; ``workers`` is the part of these."""
    workers: float
    busiest: float
    """The share of the worker that used most."""
    p50: float
    p99: float
    failed: int


_ONE: Final = _Case("one process", None, 1)
_FULL: Final = _Case("2 workers, twice the rate", 2, 2)
_CASES: Final = (_ONE, _Case("1 worker", 1, 1), _Case("2 workers", 2, 1), _FULL)


def measure_cost(report: Report, gateways: Gateways, rounds: int, rate: int) -> None:
    """Load each gateway in turn, and say how many times as much two workers can do as one process."""
    running = {workers: gateways.start(_name(workers), workers) for workers in (None, 1, 2)}
    found: dict[_Case, list[_Round]] = {case: [] for case in _CASES}
    for number in range(rounds):
        for case in _CASES if number % 2 else reversed(_CASES):
            found[case].append(_round(running[case.workers], rate * case.times))
    header = ("all on", "requests/s", "us/request", "least", "of workers", "busiest", "p50 ms", "p99 ms")
    rows = [(case.title, f"{rate * case.times}", *_cells(several, case)) for case, several in found.items()]
    report.tables.append(Table(header, [*rows]))
    report.notes.append("CPU time of all processes for a request of 1 kB; medians of rounds")
    ratios = [2 * one.cpu / two.cpu for one, two in zip(found[_ONE], found[_FULL], strict=True)]
    ratio = median(ratios)
    least = 2 * min(one.cpu for one in found[_ONE]) / min(one.cpu for one in found[_FULL])
    report.notes.append(
        f"two cores with 2 workers to one with one process: {ratio:.2f} times as many requests "
        f"(rounds: {', '.join(f'{one:.2f}' for one in sorted(ratios))}; by the least of each: {least:.2f})"
    )
    report.promise(f"at least {LEAST_RATIO} times as many: {ratio:.2f}", is_kept=ratio >= LEAST_RATIO)
    failed = sum(one.failed for several in found.values() for one in several)
    report.promise(f"no request fails: {failed} did", is_kept=not failed)


def _name(workers: int | None) -> str:
    return "one process" if workers is None else f"workers {workers}"


def _cells(rounds: Sequence[_Round], case: _Case) -> tuple[str, ...]:
    def middle(name: str, factor: float) -> float:
        return median(getattr(one, name) for one in rounds) * factor

    is_shared = case.workers is not None
    return (
        f"{middle('cpu', 1e6):.1f}",
        f"{min(one.cpu for one in rounds) * 1e6:.1f}",
        f"{middle('workers', 1e6):.1f}" if is_shared else "–",
        f"{middle('busiest', 100):.0f} %" if is_shared else "–",
        f"{middle('p50', 1e3):.2f}",
        f"{middle('p99', 1e3):.2f}",
    )


def _round(gateway: Gateway, rate: int) -> _Round:
    with PacedClient(gateway.address, [request()], CONNECTIONS) as client:
        client.run(rate, WARM_SECONDS)
        time.sleep(_SETTLE)
        before = gateway.cpu()
        outcome = client.run(rate, SECONDS)
        time.sleep(_SETTLE)
        after = gateway.cpu()
        names = gateway.processes()
    return _summary(outcome, {pid: after[pid] - before[pid] for pid in after}, names)


def _summary(outcome: Outcome, used: dict[int, float], names: dict[int, str]) -> _Round:
    answered = len(outcome.seconds)
    of_workers = [seconds for pid, seconds in used.items() if names[pid].startswith(WORKER)]
    return _Round(
        cpu=sum(used.values()) / answered,
        workers=sum(of_workers) / answered,
        busiest=max(of_workers) / sum(of_workers) if of_workers else 1.0,
        p50=outcome.percentile(50),
        p99=outcome.percentile(99),
        failed=outcome.failed,
    )
