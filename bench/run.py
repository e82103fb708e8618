"""Measure the gateway beside nginx and beside a Klein and treq proxy: ``python -m bench.run [--quick]``.

Two cores are enough: the proxies have one, the load and the upstream the other.  Everything listens on the
loopback address, nothing outlives the run, nothing is asserted.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.load import NothingMeasuredError, idle, streams, unary
from bench.machines import NGINX as NGINX_PROGRAM
from bench.processes import Bench, DidNotStartError, bound_run
from bench.profiling import profile
from bench.results import measuring
from bench.sides import DIRECT, GATEWAY, KLEIN, NGINX, Sides
from bench.steps import Across, Found, Step, measure, table_across

LIMIT_SECONDS = 240
BEGIN_UNTIL_SECONDS = 140.0
PROGRAMS = (NGINX_PROGRAM, "wrk", "gcc", "taskset", "setpriv")
SERVERS = (DIRECT, NGINX, KLEIN, GATEWAY)
CONNECTIONS, STREAMS, IDLE_STREAMS = 32, 64, 1000


def steps(servers: tuple[str, ...], *, is_quick: bool) -> list[Step]:
    """Return what is run; memory comes first, while the processes are young."""
    loaded, alone, settle = (1, 1, 0.3) if is_quick else (3, 2, 1.0)
    proxies = tuple(name for name in servers if name != DIRECT)
    found = [Step("idle", proxies, partial(idle, count=IDLE_STREAMS, settle_seconds=settle), 1)]
    for kib in (1, 100):
        found += [
            Step(f"{kib} kB", servers, partial(unary, kib=kib, connections=CONNECTIONS, seconds=loaded)),
            Step(f"{kib} kB alone", servers, partial(unary, kib=kib, connections=1, seconds=alone)),
        ]
    paced = partial(streams, count=STREAMS, chunks=200, interval_ms=10)
    flat = partial(streams, count=STREAMS, chunks=2000, interval_ms=0)
    return [*found, Step("paced", servers, paced), Step("flat", servers, flat)]


def _unary_rows(kib: int) -> list[Across]:
    size, alone = f"{kib} kB", f"{kib} kB alone"
    return [
        Across(f"{size}, 32 connections: requests/s", size, "per_second", max),
        Across(f"{size}: CPU, µs/request", size, "cpu_us", digits=1, of_proxies=True),
        Across(f"{size}: core busy, share", size, "busy", digits=2, of_proxies=True),
        Across(f"{size}: latency under load p50, µs", size, "p50_us"),
        Across(f"{size}: latency under load p99, µs", size, "p99_us"),
        Across(f"{size}: added latency p50, 1 connection, µs", alone, "p50_us", is_added=True),
        Across(f"{size}: added latency p99, 1 connection, µs", alone, "p99_us", is_added=True),
    ]


ROWS = [
    *_unary_rows(1),
    *_unary_rows(100),
    Across("64 streams, a chunk every 10 ms: CPU, µs/chunk", "paced", "cpu_us", digits=1, of_proxies=True),
    Across("the same: core busy, share", "paced", "busy", digits=2, of_proxies=True),
    Across("the same: added delay of a chunk p50, µs", "paced", "p50_us", is_added=True),
    Across("the same: added delay of a chunk p99, µs", "paced", "p99_us", is_added=True),
    Across("64 streams, at full speed: chunks/s", "flat", "chunks_per_second", max),
    Across("the same: CPU, µs/chunk", "flat", "cpu_us", digits=2, of_proxies=True),
    Across("resident memory, no stream, MiB", "idle", "mib_before", digits=1),
    Across("resident memory, 1,000 idle streams, MiB", "idle", "mib", digits=1),
    Across("memory for each idle stream, KiB", "idle", "kib_per_stream", digits=1),
]


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    if options.profile:
        return _profile(options.profile)
    servers = tuple(options.targets.split(","))
    with measuring("run", LIMIT_SECONDS, *PROGRAMS) as report:
        with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, Bench(Path(name)) as bench:
            sides = Sides(bench)
            sides.start(set(servers))
            sides.warm_up(CONNECTIONS)
            wanted = steps(servers, is_quick=options.quick)
            found = measure(sides, wanted, 1 if options.quick else 3, BEGIN_UNTIL_SECONDS)
            bench.stop_all()
            report.facts["usage events"] = _events(Path(name), found)
        found.report(report, sides.problems)
        report.tables.append(table_across(ROWS, found, servers, [NGINX, KLEIN], GATEWAY))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, about 40 s")
    parser.add_argument(
        "--profile",
        nargs="?",
        const="unary",
        choices=["unary", "large", "streams"],
        help="profile only the gateway with cProfile, with 1 kB bodies, 100 kB bodies, or streams",
    )
    everything = ",".join(SERVERS)
    parser.add_argument("--targets", default=everything, help=f"what to measure (default: {everything})")
    return parser.parse_args()


def _profile(what: str) -> int:
    bound_run(LIMIT_SECONDS)
    try:
        with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder, Bench(Path(folder)) as bench:
            profile(bench, what)
    except (DidNotStartError, NothingMeasuredError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _events(folder: Path, found: Found) -> str:
    """How many usage events the gateway wrote for how many finished requests; those cut off have one too."""
    written = folder / "usage.jsonl"
    events = written.read_bytes().count(b"\n") if written.exists() else 0
    runs = [
        run
        for (step, server), runs in found.runs.items()
        if "kB" in step and server == GATEWAY
        for run in runs
    ]
    return f"{events:,} written, {sum(run.requests for run in runs):,.0f} whole answers measured"


if __name__ == "__main__":
    sys.exit(main())
