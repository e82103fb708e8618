"""What is measured, in which order: all in turn, round by round, so that a bad minute hits all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from bench.load import Memory, NothingMeasuredError, Streams, Unary, idle, streams, unary
from bench.machines import cpu_seconds, resident_bytes
from bench.processes import Bench, DidNotStartError, Server

QUIET_SECONDS = 0.002
"""Processor time within a tenth of a second, below which a server counts as idle."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything; seconds are of one run."""

    rounds: int = 3
    starts: int = 3
    begin_until_seconds: float = 140.0
    """No round begins later than this: a busy machine gets fewer of them."""
    unary_seconds: int = 3
    single_seconds: int = 2
    connections: int = 32
    streams: int = 64
    paced_chunks: int = 200
    interval_ms: int = 10
    flat_chunks: int = 2000
    idle_streams: int = 1000
    settle_seconds: float = 1.0


QUICK = Plan(rounds=1, starts=1, unary_seconds=1, single_seconds=1, settle_seconds=0.3)


@dataclass(slots=True)
class Found:
    """What one target gave: a list with one entry for each round."""

    unary: dict[str, list[Unary]] = field(default_factory=dict)
    streams: dict[str, list[Streams]] = field(default_factory=dict)
    memory: Memory | None = None
    memory_after: int = 0
    start_seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def measure(bench: Bench, names: list[str], plan: Plan) -> dict[str, Found]:
    """Start the targets, measure each of them in every round, and give what was found by name."""
    found = {name: Found() for name in names}
    servers = {name: server for name in names if (server := _started(bench, name, found[name], plan.starts))}
    for name, server in servers.items():
        _try(found[name], partial(_warm_up, server, bench, plan, found[name]))
    began = time.monotonic()
    for number in range(plan.rounds):
        if time.monotonic() - began > plan.begin_until_seconds:
            progress("out of time: the rounds that are left are not run")
            break
        for name, server in servers.items():
            progress(f"round {number + 1} of {plan.rounds}: {name}")
            _try(found[name], partial(_round, server, bench, plan, found[name]))
    for name, server in servers.items():
        if name == "direct":
            continue
        if server.process.poll() is None:
            found[name].memory_after = resident_bytes(server.pid)
        else:
            found[name].problems.append(f"ended with {server.process.returncode}")
    return found


def progress(text: str) -> None:
    """Tell whoever waits what happens now."""
    print(text, file=sys.stderr, flush=True)


def wait_until_quiet(server: Server, limit_seconds: float = 5.0) -> None:
    """Let the server finish what the last run left it, such as a thousand clients that have gone at once."""
    until = time.monotonic() + limit_seconds
    used = -1.0
    while time.monotonic() < until and cpu_seconds(server.pid) - used > QUIET_SECONDS:
        used = cpu_seconds(server.pid)
        time.sleep(0.1)


def _try(found: Found, work: Callable[[], None]) -> None:
    """A target that fails is reported; the others are still measured."""
    try:
        work()
    except (NothingMeasuredError, OSError) as problem:
        found.problems.append(f"{type(problem).__name__}: {problem}")


def _started(bench: Bench, name: str, found: Found, times: int) -> Server | None:
    if name == "direct":
        return bench.servers[0]
    progress(f"starting {name}")
    try:
        server = bench.start(name)  # the first start compiles what nobody has imported before
        for _ in range(times):
            bench.stop(server)
            server = bench.start(name)
            found.start_seconds.append(server.start_seconds)
    except DidNotStartError as problem:
        found.problems.append(str(problem))
        return None
    return server


def _warm_up(server: Server, bench: Bench, plan: Plan, found: Found) -> None:
    """A few requests, the memory while the process is young, then all that a first crowd sets off."""
    unary(server, bench.folder, 1, 1, 1)
    if server.name != "direct":
        found.memory = idle(server, bench.folder, plan.idle_streams, plan.settle_seconds)
        wait_until_quiet(server)
    unary(server, bench.folder, 1, plan.connections, 1)


def _round(server: Server, bench: Bench, plan: Plan, found: Found) -> None:
    for kib in (1, 100):
        wait_until_quiet(server)
        loaded = unary(server, bench.folder, kib, plan.connections, plan.unary_seconds)
        wait_until_quiet(server)
        alone = unary(server, bench.folder, kib, 1, plan.single_seconds)
        found.unary.setdefault(f"{kib}k loaded", []).append(loaded)
        found.unary.setdefault(f"{kib}k alone", []).append(alone)
    wait_until_quiet(server)
    paced = streams(server, bench.folder, plan.streams, plan.paced_chunks, plan.interval_ms)
    wait_until_quiet(server)
    flat = streams(server, bench.folder, plan.streams, plan.flat_chunks, 0)
    found.streams.setdefault("paced", []).append(paced)
    found.streams.setdefault("flat", []).append(flat)
