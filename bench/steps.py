"""Loads on servers in turn, round by round, so that a bad minute hits all of them; the best round counts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.load import NothingMeasuredError
from bench.machines import tree_cpu_seconds
from bench.processes import Server
from bench.results import Report, progress
from bench.sides import DIRECT, Sides
from bench.table import Table, number, ratio

QUIET_SECONDS = 0.002
"""Processor time within a tenth of a second, below which a server counts as idle."""
Value = float | None


class Run(Protocol):
    """What one load on one server gave; a dataclass with more numbers."""

    @property
    def failed(self) -> float:
        """How many requests, streams or sessions failed."""

    @property
    def whole(self) -> float:
        """How many responses, chunks or frames came; 0 where nothing was measured."""


@dataclass(frozen=True, slots=True)
class Step:
    """One load, the servers that it is put on in turn, and how often."""

    name: str
    servers: tuple[str, ...]
    run: Callable[[Server, Path], Run]
    rounds: int = 3


@dataclass(slots=True)
class Found:
    """The runs of each step on each server."""

    runs: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # Any: of different dataclasses

    def best(
        self, step: str, server: str, attribute: str, choose: Callable[[list[float]], float] = min
    ) -> Value:
        """Return the best number of all rounds: whatever disturbs a run makes it worse."""
        values = [getattr(run, attribute) for run in self.runs.get((step, server), [])]
        return choose(values) if values else None

    def added(
        self, step: str, server: str, attribute: str, choose: Callable[[list[float]], float] = min
    ) -> Value:
        """Return what a proxy adds to the direct way."""
        whole, direct = (self.best(step, one, attribute, choose) for one in (server, DIRECT))
        return None if whole is None or direct is None or server == DIRECT else whole - direct

    def failures(self) -> dict[str, str]:
        """Return how many failed by step and server, where any did."""
        counts = {where: sum(run.failed for run in runs) for where, runs in self.runs.items()}
        return {f"failed, {', '.join(where)}": f"{count:.0f}" for where, count in counts.items() if count}

    def report(self, report: Report, problems: Sequence[str]) -> None:
        """Put every run, failure and problem into a report."""
        report.facts |= self.failures()
        report.facts |= {f"problem {count}": text for count, text in enumerate(problems, 1)}
        report.data["runs"] = [
            {"step": step, "server": server, "runs": list(map(asdict, runs))}
            for (step, server), runs in self.runs.items()
        ]


def measure(
    sides: Sides, steps: Sequence[Step], rounds: int, until_seconds: float, found: Found | None = None
) -> Found:
    """Run the steps.

    :param rounds: the most of any step.
    :param until_seconds: no step begins later than this; a busy machine leaves some out.
    :param found: where the runs go, for a caller that reports those of a measurement that was cut short.
    """
    found, began = Found() if found is None else found, time.monotonic()
    for number_of_round in range(rounds):
        for step in steps:
            if number_of_round >= step.rounds:
                continue
            if time.monotonic() - began > until_seconds:
                sides.problems.append(f"out of time: round {number_of_round + 1} of {step.name!r}")
                continue
            progress(f"round {number_of_round + 1} of {min(rounds, step.rounds)}: {step.name}")
            names = [name for name in step.servers if name in sides.servers]
            for name in reversed(names) if number_of_round % 2 else names:
                _run(step, name, sides, found)
    return found


def _run(step: Step, name: str, sides: Sides, found: Found) -> None:
    server = sides.servers[name]
    wait_until_quiet(server)
    try:
        run = step.run(server, sides.folder)
        if run.whole <= 0:
            raise NothingMeasuredError(f"nothing came whole, {run.failed:.0f} failed")
        found.runs.setdefault((step.name, name), []).append(run)
    except (
        NothingMeasuredError,
        OSError,
        subprocess.TimeoutExpired,
    ) as problem:  # it is reported; the others are still measured
        sides.problems.append(f"{step.name}, {name}: {type(problem).__name__}: {problem}")


def wait_until_quiet(server: Server, limit_seconds: float = 5.0) -> None:
    """Let the server finish what the last run left it, such as a thousand clients that have gone at once."""
    until = time.monotonic() + limit_seconds
    used = -1.0
    while time.monotonic() < until and tree_cpu_seconds(server.pid) - used > QUIET_SECONDS:
        used = tree_cpu_seconds(server.pid)
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Across:
    """A row with one number of each server."""

    title: str
    step: str
    attribute: str
    choose: Callable[[list[float]], float] = min
    digits: int = 0
    is_added: bool = False
    """Whether it is what a proxy adds to the direct way."""
    of_proxies: bool = False
    """Whether the direct way has no such number: its process is the upstream."""
    target: str = ""

    def value(self, found: Found, server: str) -> Value:
        """Return the number of a server."""
        if self.is_added:
            return found.added(self.step, server, self.attribute)
        if self.of_proxies and server == DIRECT:
            return None
        return found.best(self.step, server, self.attribute, self.choose)


def table_across(
    rows: Sequence[Across], found: Found, servers: Sequence[str], beside: Sequence[str], own: str
) -> Table:
    """Return the rows that the gateway has a number in, each with its ratios to the servers ``beside``."""
    table = Table(["", *servers, *(f"{own} to {name}" for name in beside), "target"])
    for row in rows:
        values = {name: row.value(found, name) for name in servers}
        if values.get(own) is not None:
            cells = [number(value, row.digits) for value in values.values()]
            ratios = [ratio(values[own], values.get(name)) for name in beside]
            table.rows.append([row.title, *cells, *ratios, row.target])
    return table
