"""Measure the gateway by the public method: ``python -m bench.public [--only WORD] [--rivals]``.

Users compare gateways by the tables of onthebench.ai. Its harness needs containers and a machine with eight
cores; these are its quantities, measured alike for each server, with this folder's upstream and clients on
one core and the server on the other. ``docs/public-benchmark.rst`` has what each row counts, and where the
method differs. Everything listens on the loopback address, and nothing outlives the run.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Final

from bench.machines import NGINX as NGINX_PROGRAM
from bench.public.measures import MemoryWindows
from bench.public.report import ALONE, grid_table, main_table, warnings
from bench.public.run import PARTS, PROTOCOLS, Run
from bench.ratios import builds
from bench.results import Report, measuring
from bench.rivals import rival_versions
from bench.sides import DIRECT, GATEWAY, NGINX, RIVALS, on_debian
from bench.streams import NAMES

LIMIT_SECONDS: Final = 595
BEGIN_UNTIL_SECONDS: Final = 535.0
OURS: Final = (DIRECT, NGINX, GATEWAY, on_debian(GATEWAY))
BESIDE: Final = (DIRECT, GATEWAY, on_debian(GATEWAY), *RIVALS)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.public", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help=f"only one of: {', '.join(PARTS)}")
    parser.add_argument(
        "--rivals", action="store_true", help="beside the gateways of others (make bench-rivals)"
    )
    parser.add_argument(
        "--plateau", type=float, metavar="SECONDS", help="the most load on memory (30; with --rivals 20)"
    )
    options = parser.parse_args()
    parts = [part for part in PARTS if options.only in part]
    if options.rivals and not options.only:
        parts.remove(PROTOCOLS)  # of ours alone, and known from the other run
    most = options.plateau or (20.0 if options.rivals else 30.0)
    windows = MemoryWindows(window=max(5.0, most / 3), most=most)
    with measuring("public", LIMIT_SECONDS, NGINX_PROGRAM, "wrk", "gcc", "taskset", "setpriv") as report:
        servers = BESIDE if options.rivals else OURS
        run = Run(servers, parts, windows, time.monotonic() + BEGIN_UNTIL_SECONDS)
        try:
            run.go()
        finally:
            _fill(report, run)
    return 0


def _fill(report: Report, run: Run) -> None:
    outcome = run.outcome
    pythons = builds()
    report.facts |= {f"Python, {name}": str(build) for name, build in pythons.items()}
    report.facts |= rival_versions() | outcome.alone.failures() | run.start_lines
    report.facts |= {f"problem {count}": text for count, text in enumerate(run.problems, 1)}
    report.notes += warnings(outcome)
    whole = main_table(outcome, run.servers)
    report.tables += [whole] if whole.rows else []
    direct = outcome.alone.best(ALONE, DIRECT, "p99_us")
    report.tables += [grid_table(name, grid, NAMES, direct) for name, grid in outcome.grids.items()]
    report.data |= {
        "alone": {server: list(map(asdict, runs)) for (_, server), runs in outcome.alone.runs.items()},
        "rates": {name: asdict(one) for name, one in outcome.frontiers.items()},
        "streams": {name: asdict(one) for name, one in outcome.held.items()},
        "memory": {name: asdict(one) for name, one in outcome.memory.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
