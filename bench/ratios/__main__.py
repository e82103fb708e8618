"""Measure the gateway beside nginx, row by row: ``python -m bench.ratios [--rounds N] [--only WORD]``.

Two cores: the proxies have one, the load and the upstream the other.  Every step runs on its servers in turn,
round by round, and the least of the rounds counts.  Everything listens on the loopback address, nothing
outlives the run, nothing is asserted.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.load import NothingMeasuredError, Unary, unary
from bench.machines import NGINX, clocks, description, disturbance
from bench.measure import progress, wait_until_quiet
from bench.processes import HERE, Bench, bound_run, need
from bench.ratios.sides import Sides
from bench.ratios.steps import STEPS, Step
from bench.ratios.table import Found, as_rst, as_text, failures, table

LIMIT_SECONDS = 420
BEGIN_UNTIL_SECONDS = 270.0
"""No step begins later than this: a busy machine leaves some out."""
RESULTS = HERE / "results"


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    need(NGINX, "wrk", "gcc", "taskset", "setpriv")
    bound_run(LIMIT_SECONDS)
    facts, before = description(), clocks()
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder, Bench(Path(folder)) as bench:
        steps = [step for step in STEPS if options.only in step.name]
        sides = Sides(bench)
        sides.start({server for step in steps for server in step.servers})
        found = measure(sides, steps, options.rounds)
    after = clocks()
    facts["taken"] = f"{after.wall - before.wall:.0f} s"
    facts |= disturbance(before, after)
    facts |= {f"failed, {where}": f"{count:.0f}" for where, count in failures(found).items()}
    facts |= {f"problem {number}": text for number, text in enumerate(sides.problems, 1)}
    _write(found, facts)
    return 0


def measure(sides: Sides, steps: list[Step], rounds: int) -> Found:
    """Run the steps in turn, round by round, so that a bad minute hits all of them.

    :param rounds: the most of any step.
    """
    found: Found = {}
    began = time.monotonic()
    for server in sides.servers.values():
        unary(server, sides.folder, 1, 8, 1)
    for number in range(rounds):
        for step in steps:
            if number >= step.rounds:
                continue
            if time.monotonic() - began > BEGIN_UNTIL_SECONDS:
                sides.problems.append(f"out of time: round {number + 1} of {step.name!r} was not run")
                continue
            progress(f"round {number + 1} of {min(rounds, step.rounds)}: {step.name}")
            _run(step, number, sides, found)
    return found


def _run(step: Step, number: int, sides: Sides, found: Found) -> None:
    names = [name for name in step.servers if name in sides.servers]
    for name in reversed(names) if number % 2 else names:
        server = sides.servers[name]
        wait_until_quiet(server)
        try:
            run = step.run(server, sides.folder)
            if run.failed >= (run.requests if isinstance(run, Unary) else max(run.chunks, 1)):
                raise NothingMeasuredError(f"no answer was whole, {run.failed:.0f} failed")
            found.setdefault((step.name, name), []).append(run)
        except (NothingMeasuredError, OSError) as problem:
            sides.problems.append(f"{step.name}, {name}: {type(problem).__name__}: {problem}")


def _write(found: Found, facts: dict[str, str]) -> None:
    lines = table(found)
    text = as_text(lines, facts)
    runs = [
        {"step": step, "server": server, "runs": [asdict(run) for run in runs]}
        for (step, server), runs in found.items()
    ]
    RESULTS.mkdir(exist_ok=True)
    to = RESULTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S-ratios")
    to.with_suffix(".txt").write_text(text)
    to.with_suffix(".rst").write_text(as_rst(lines))
    data = {"facts": facts, "table": [asdict(line) for line in lines], "runs": runs}
    to.with_suffix(".json").write_text(json.dumps(data, indent=1))
    print(f"{text}\nwritten: {to}.txt, {to}.rst, {to}.json")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.ratios", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2, help="the most rounds of any step (2)")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps with this in their name")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
