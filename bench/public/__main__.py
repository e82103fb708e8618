"""Measure the gateway by the public method: ``python -m bench.public [--only WORD] [--rivals] [--quick]``.

Users compare gateways by the tables of onthebench.ai. Its harness needs containers and a machine with eight
cores; these are its quantities, measured alike for each server, with this folder's upstream and clients on
one core and the server on the other. ``docs/public-benchmark.rst`` has what each row counts, and where the
method differs. Everything listens on the loopback address, and nothing outlives the run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from bench.machines import NGINX as NGINX_PROGRAM
from bench.machines import commit_of
from bench.public.measures import MemoryWindows
from bench.public.report import ALONE, grid_table, main_table, warnings
from bench.public.run import BESIDE_RIVALS, PARTS, PROTOCOLS, QUICK, Durations, Run
from bench.ratios import builds
from bench.results import Report, measuring
from bench.rivals import rival_versions
from bench.sides import DIRECT, GATEWAY, NGINX, RIVALS, on_debian
from bench.streams import NAMES

OURS: Final = (DIRECT, NGINX, GATEWAY, on_debian(GATEWAY))
BESIDE: Final = (DIRECT, GATEWAY, on_debian(GATEWAY), *RIVALS)


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line, or other arguments."""
    parser = argparse.ArgumentParser(prog="bench.public", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help=f"only one of: {', '.join(PARTS)}")
    parser.add_argument(
        "--rivals", action="store_true", help="beside the gateways of others (make bench-rivals)"
    )
    parser.add_argument(
        "--plateau", type=float, metavar="SECONDS", help="the most load on memory (30; with --rivals 20)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="see that all is measured; the values say little"
    )
    parser.add_argument(
        "--gateway-tree",
        type=_tree,
        metavar="PATH",
        help="measure the gateway of another checkout",
    )
    return parser.parse_args(arguments)


def _tree(path: str) -> str:
    if not (Path(path) / "mgw").is_dir():
        raise argparse.ArgumentTypeError(f"{path} is no checkout of the gateway")
    return str(Path(path).resolve())


def durations(options: argparse.Namespace) -> Durations:
    """Return how long is measured."""
    if options.quick:
        return QUICK
    usual = BESIDE_RIVALS if options.rivals else Durations()
    most: float | None = options.plateau
    return (
        usual if most is None else replace(usual, memory=MemoryWindows(window=max(5.0, most / 3), most=most))
    )


def main() -> int:
    """Run what the command line asks for."""
    options = read_options()
    lasting = durations(options)
    parts = [part for part in PARTS if options.only in part]
    if options.rivals and not options.only:
        parts.remove(PROTOCOLS)  # of ours alone, and known from the other run
    with measuring(
        "public", round(lasting.limit), NGINX_PROGRAM, "wrk", "gcc", "taskset", "setpriv"
    ) as report:
        servers = BESIDE if options.rivals else OURS
        until = time.monotonic() + lasting.limit - 60
        run = Run(servers, parts, lasting, until, options.gateway_tree or "")
        if run.tree:
            report.facts["commit of the gateway"] = commit_of(Path(run.tree))
        if options.quick:
            report.notes.append("a quick run: the values say little")
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
