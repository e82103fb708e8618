"""One run of the public method: each part on each server, within its time."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.load import NothingMeasuredError, Unary, unary
from bench.processes import Bench
from bench.public.measures import MemoryWindows, cell, frontier, held, memory
from bench.public.report import ALONE, Outcome
from bench.results import progress
from bench.sides import DIRECT, GATEWAY, PREFIXES, Sides, on_debian
from bench.steps import Step, measure, wait_until_quiet
from tests.support.wires import WIRES

RATES, STREAMS, MEMORY, PROTOCOLS = "rates", "streams", "memory", "protocols"
PARTS: Final = (ALONE, RATES, STREAMS, MEMORY, PROTOCOLS)


@dataclass(frozen=True, slots=True)
class Durations:
    """How long is measured; the times of a search are for all servers, in equal shares.

    Behind its share, the search on a server begins no other probe.
    """

    limit: float = 595.0
    """Of the run; nothing begins within its last minute."""
    rounds: int = 5
    rates: float = 200.0
    streams: float = 100.0
    memory: MemoryWindows = field(default_factory=MemoryWindows)

    def search(self, part: str) -> float:
        """Return the seconds that a search has."""
        return {RATES: self.rates, STREAMS: self.streams}[part]


BESIDE_RIVALS: Final = Durations(
    limit=895.0, rates=280.0, streams=160.0, memory=MemoryWindows(window=20.0 / 3, most=20.0)
)
QUICK: Final = Durations(
    rounds=1, rates=32.0, streams=32.0, memory=MemoryWindows(idle=0.5, window=2.0, most=2.0, after=0.5)
)
"""Enough to see that each server is measured; the values say little."""


@dataclass(slots=True)
class Run:
    """What is measured, until when on the monotonic clock, and what was found."""

    servers: Sequence[str]
    parts: Sequence[str]
    durations: Durations
    until: float
    tree: str = ""
    """Where the source of the gateways is, if not beside this."""
    outcome: Outcome = field(default_factory=Outcome)
    problems: list[str] = field(default_factory=list)
    start_lines: dict[str, str] = field(default_factory=dict)

    def go(self) -> None:
        """Measure all parts: memory on servers that have just started, the others on one set of servers."""
        if set(self.parts) - {MEMORY}:
            with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder, self._bench(folder) as bench:
                self._measure(Sides(bench, problems=self.problems))
        if MEMORY in self.parts:
            self._each(MEMORY, [name for name in self.servers if name != DIRECT], self._memory)

    def _measure(self, sides: Sides) -> None:
        sides.start({*self.servers})
        self.start_lines |= sides.start_lines()
        sides.warm_up(8)
        started = [name for name in self.servers if name in sides.servers]
        if {ALONE, PROTOCOLS} & {*self.parts}:
            asked, rounds = started if ALONE in self.parts else [DIRECT], self.durations.rounds
            step = Step(ALONE, tuple(asked), partial(unary, kib=1, connections=1, seconds=1), rounds)
            measure(sides, [step], rounds, self.until - time.monotonic(), self.outcome.alone)
        self._each(
            PROTOCOLS, [name for name in started if name in (GATEWAY, on_debian(GATEWAY))], self._grid(sides)
        )
        self._each(RATES, started, self._rates(sides))
        self._each(STREAMS, started, self._streams(sides))

    def _each(self, part: str, names: Sequence[str], work: Callable[[str], None]) -> None:
        for name in names if part in self.parts else ():
            if time.monotonic() > self.until:
                self.problems.append(f"out of time: {part}, {name}")
                continue
            progress(f"{part}: {name}")
            try:
                work(name)
            except (NothingMeasuredError, OSError, subprocess.SubprocessError) as problem:
                self.problems.append(f"{part}, {name}: {type(problem).__name__}: {problem}")

    def _deadline(self, part: str) -> float:
        return min(self.until, time.monotonic() + self.durations.search(part) / len(self.servers))

    def _rates(self, sides: Sides) -> Callable[[str], None]:
        def work(name: str) -> None:
            wait_until_quiet(sides.servers[name])
            self.outcome.frontiers[name] = frontier(sides.servers[name], sides.folder, self._deadline(RATES))

        return work

    def _streams(self, sides: Sides) -> Callable[[str], None]:
        def work(name: str) -> None:
            wait_until_quiet(sides.servers[name])
            self.outcome.held[name] = held(sides.servers[name], sides.folder, self._deadline(STREAMS))

        return work

    def _grid(self, sides: Sides) -> Callable[[str], None]:
        def work(name: str) -> None:
            grid: dict[tuple[str, str], Unary] = self.outcome.grids.setdefault(name, {})
            for client in WIRES:
                for provider in WIRES:
                    server = replace(sides.servers[name], wire=client, model_prefix=PREFIXES[provider])
                    grid[client, provider] = cell(server, sides.folder)

        return work

    def _memory(self, name: str) -> None:
        with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder, self._bench(folder) as bench:
            sides = Sides(bench)
            sides.start({name})
            if name in sides.servers:
                self.outcome.memory[name] = memory(sides.servers[name], sides.folder, self.durations.memory)

    def _bench(self, folder: str) -> Bench:
        return Bench(Path(folder), programs=("upstream", "streams", "rate"), tree=self.tree)
