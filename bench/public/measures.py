"""What the public method measures of one server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.load import (
    NothingMeasuredError,
    Unary,
    body_file,
    key_line,
    path_of,
    result,
    streams_command,
    unary,
)
from bench.machines import process_tree, resident_bytes
from bench.processes import HERE, LOAD_CORE, Server, pinned
from bench.public.plateau import Sample, growth_per_minute, is_steady, window_of
from bench.public.search import Probe, Reading, next_load, reading
from bench.steps import wait_until_quiet

BOUNDS_MS: Final = (1, 5, 10, 50, 100)
CONNECTIONS: Final = 64
OPEN_CONNECTIONS: Final = 512
"""The most that the open loop keeps; a server that is behind has no more at once."""
PACE_MS: Final = 20
CHUNKS: Final = 64
STALL_US: Final = 10 * PACE_MS * 1000.0
"""A stream in which an event is later than this has stalled."""
MOST_STREAMS: Final = 2000.0
_FEWEST: Final = 200
"""Requests of a probe; a slow server gets more time for them, up to four seconds."""
_MOST_PROBES: Final = 18
_PARTS: Final = 64
"""A bound that is not kept at this part of the most that a server can do is not kept at all."""
_MANY: Final = 10
"""Requests of a connection, beside which the one under way is little; seconds that a slow server gets."""
_FEW_FOR_STREAMS: Final = 9
_SAMPLED_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Frontier:
    """The highest rates, and all that was tried for them."""

    unbounded: Unary
    """As fast as answers come, over so many connections."""
    readings: dict[int, Reading]
    """By the bound of the 99th percentile, in milliseconds."""
    probes: list[Probe]
    late_p99_us: float
    """How late the client itself was in the worst probe that counts."""
    is_exact: bool = True
    """Whether the search had time enough to end."""


@dataclass(frozen=True, slots=True)
class Held:
    """How many streams a server holds without a loss."""

    streams: Reading
    probes: list[Probe]
    is_exact: bool = True
    """Whether the search had time enough to end."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of all processes of a server, in MiB."""

    idle: float
    """Before its first request."""
    loaded: float
    """The mean of the last window under load."""
    after: float
    """Some seconds after the load."""
    is_steady: bool
    seconds_to_plateau: float
    growth_per_minute: float
    failed: float
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MemoryWindows:
    """How long memory is watched, in seconds."""

    idle: float = 2.0
    window: float = 10.0
    most: float = 30.0
    after: float = 5.0


@dataclass(frozen=True, slots=True)
class Loads:
    """What is tried in a search."""

    least: float
    first: float
    most: float
    probes: int
    """The most of them."""


def frontier(server: Server, folder: Path, until: float) -> Frontier:
    """Search the highest rates of a server, with an open loop.

    :param until: no probe begins later than this, on the monotonic clock.
    """
    best = _fastest(server, folder)
    probes: list[Probe] = []
    lates: dict[float, float] = {}

    def probe(rate: float) -> Probe:
        found = at_rate(server, folder, rate)
        lates[rate] = min(found["late_p99_us"], lates.get(rate, found["late_p99_us"]))
        return Probe(rate, found["p99_us"], found["failed"] + found["unfinished"])

    bounds = [bound * 1000.0 for bound in reversed(BOUNDS_MS)]
    most = best.per_second * 1.1
    is_exact = _search(probes, probe, bounds, Loads(most / _PARTS, most / 2, most, _MOST_PROBES), until)
    readings = {bound: reading(probes, bound * 1000.0) for bound in BOUNDS_MS}
    counted = {one.load for one in readings.values() if one.load}
    return Frontier(best, readings, probes, max((lates[rate] for rate in counted), default=0.0), is_exact)


def _fastest(server: Server, folder: Path) -> Unary:
    """Return the better of two runs, the second of which is long enough for a slow server.

    What is under way at the end of a run has used the CPU, too, but is not counted.
    """
    first = unary(server, folder, 1, CONNECTIONS, 1)
    second = unary(server, folder, 1, CONNECTIONS, 1 if first.requests > _MANY * CONNECTIONS else _MANY)
    if second.requests < _MANY * CONNECTIONS:
        return second
    return max(first, second, key=lambda one: one.per_second)


def at_rate(server: Server, folder: Path, rate: float) -> dict[str, float]:
    """Ask at a fixed rate, whether or not answers come.

    :raises NothingMeasuredError: the client ended without a word.
    """
    seconds = min(4.0, max(1.0, _FEWEST / rate))
    body = body_file(folder, server.wire, f"{server.model_prefix}bench-1k", 1)
    asked = (
        str(server.port),
        path_of(server, "bench-1k"),
        f"{rate:.3f}",
        f"{seconds:.3f}",
        str(OPEN_CONNECTIONS),
    )
    command = pinned(LOAD_CORE, str(folder / "rate"), *asked, key_line(server), str(body))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 20)
    return result(done.stdout or done.stderr)


def held(server: Server, folder: Path, until: float) -> Held:
    """Search how many streams a server holds: each event arrives, and none stalls."""
    probes: list[Probe] = []

    def probe(load: float) -> Probe:
        count = round(load)
        model, ramp = f"bench-stream-{CHUNKS}-{PACE_MS}", ("-r", str(max(20, 2 * count)))
        command = streams_command(server, folder, count, model, *ramp)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=70)
        found = result(done.stdout.splitlines()[-1] if done.stdout else done.stderr)
        missing = count * CHUNKS > found["events"]  # and those of its wire that begin and end a stream
        return Probe(load, found["delay_max_us"], found["failed"] + missing)

    is_exact = _search(probes, probe, [STALL_US], Loads(1.0, 128.0, MOST_STREAMS, _FEW_FOR_STREAMS), until)
    return Held(reading(probes, STALL_US), probes, is_exact)


def _search(
    probes: list[Probe], probe: Callable[[float], Probe], bounds_us: list[float], loads: Loads, until: float
) -> bool:
    """Probe until all bounds are known, or the probes or the time are used up; say whether they are known."""
    load: float | None = loads.first
    while load is not None and len(probes) < loads.probes and time.monotonic() < until:
        probes.append(probe(load))
        load = next_load(probes, bounds_us, loads.most, loads.least)
    return load is None


def memory(server: Server, folder: Path, windows: MemoryWindows) -> Memory:
    """Watch the memory of a server that has just started: idle, under a fixed load, and after it."""
    until = time.monotonic() + windows.idle
    idle = _tree_mib(server)
    while time.monotonic() < until:
        time.sleep(_SAMPLED_SECONDS)
        idle = _tree_mib(server)
    body = body_file(folder, server.wire, f"{server.model_prefix}bench-4k", 4)
    url = f"http://127.0.0.1:{server.port}{path_of(server, 'bench-4k')}"
    load = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{windows.most + 5:.0f}s", "--timeout", "10s"]
    script = ["-s", str(HERE / "post.lua"), url, "--", str(body), key_line(server)]
    with subprocess.Popen(pinned(LOAD_CORE, *load, *script), stdout=subprocess.PIPE, text=True) as client:
        samples = _watch(server, windows, client)
        client.send_signal(2)  # wrk then reports what it has
        said = client.communicate(timeout=20)[0]
    time.sleep(windows.after)
    found = result(next((line[5:] for line in said.splitlines() if line.startswith("JSON ")), said))
    if not found["requests"]:
        raise NothingMeasuredError("no request was answered")
    last = window_of(samples, windows.window) or samples
    return Memory(
        idle=idle,
        loaded=sum(one.mib for one in last) / len(last),
        after=_tree_mib(server),
        is_steady=is_steady(window_of(samples, windows.window)),
        seconds_to_plateau=samples[-1].seconds,
        growth_per_minute=growth_per_minute(last),
        failed=found["failed"],
        samples=samples,
    )


def _watch(server: Server, windows: MemoryWindows, client: subprocess.Popen[str]) -> list[Sample]:
    began, samples = time.monotonic(), list[Sample]()
    while client.poll() is None:
        samples.append(Sample(time.monotonic() - began, _tree_mib(server)))
        if samples[-1].seconds > windows.most or is_steady(window_of(samples, windows.window)):
            break
        time.sleep(_SAMPLED_SECONDS)
    return samples


def _tree_mib(server: Server) -> float:
    return sum(map(resident_bytes, process_tree(server.pid))) / 2**20


def cell(server: Server, folder: Path) -> Unary:
    """Ask on one wire for a model of another's provider: one at a time, then as many as keep it busy."""
    alone = unary(server, folder, 1, 1, 1)
    wait_until_quiet(server)
    return _with_latency(unary(server, folder, 1, CONNECTIONS, 1), alone)


def _with_latency(busy: Unary, alone: Unary) -> Unary:
    return Unary(
        busy.per_second,
        busy.cpu_us,
        busy.busy,
        alone.p50_us,
        alone.p99_us,
        busy.requests,
        busy.failed + alone.failed,
    )
