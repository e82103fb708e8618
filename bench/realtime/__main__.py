"""Measure realtime sessions, server beside server: ``python -m bench.realtime [--rounds N] [--only WORD]``.

Two cores: the proxies have one, the load and the upstream the other.  Every step runs on the servers in turn,
round by round, and the best of the rounds counts.  The upstream sends each frame back, so that the proxies
relay both ways.  Everything listens on the loopback address, nothing outlives the run, nothing is asserted.
The results go to ``bench/results``.
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

from bench.load import NothingMeasuredError
from bench.machines import NGINX, clocks, description, disturbance
from bench.measure import progress, wait_until_quiet
from bench.processes import HERE, Bench, bound_run, need
from bench.realtime.load import SMALL, Load, run
from bench.realtime.sides import NAMES, RIVALS_PYTHON, Sides
from bench.realtime.steps import STEPS, Step
from bench.realtime.table import Found, as_rst, as_text, failures, table

LIMIT_SECONDS = 300
BEGIN_UNTIL_SECONDS = 220.0
"""No step begins later than this: a busy machine leaves some out."""
RESULTS = HERE / "results"
_WARM_UP = Load(SMALL, 1, 0, 1)


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    need(NGINX, "gcc", "taskset", "setpriv")
    bound_run(LIMIT_SECONDS)
    facts, before = description(), clocks()
    facts["autobahn"] = _autobahn_version()
    with (
        tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder,
        Bench(Path(folder), programs=("echo", "sessions")) as bench,
    ):
        sides = Sides(bench)
        sides.start()
        found = measure(sides, [step for step in STEPS if options.only in step.name], options.rounds)
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
    for name in [*sides.servers]:
        try:
            run(sides.servers[name], sides.folder, _WARM_UP)
        except NothingMeasuredError as problem:
            sides.problems.append(f"{name}: {problem}")
            del sides.servers[name]
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
    names = [name for name in NAMES if name in sides.servers]
    for name in reversed(names) if number % 2 else names:
        server = sides.servers[name]
        wait_until_quiet(server)
        try:
            one = run(server, sides.folder, step.load)
        except (NothingMeasuredError, OSError) as problem:
            sides.problems.append(f"{step.name}, {name}: {type(problem).__name__}: {problem}")
            continue
        if one.failed >= step.load.sessions:
            sides.problems.append(f"{step.name}, {name}: no session was opened, or all have failed")
        else:
            found.setdefault((step.name, name), []).append(one)


def _autobahn_version() -> str:
    libraries = RIVALS_PYTHON.parent.parent / "lib"
    names = [path.name for path in libraries.glob("python3*/site-packages/autobahn-*.dist-info")]
    return names[0].removeprefix("autobahn-").removesuffix(".dist-info") if names else "not installed"


def _write(found: Found, facts: dict[str, str]) -> None:
    tables = table(found)
    text = as_text(tables, facts)
    runs = [
        {"step": step, "server": server, "runs": [asdict(run) for run in runs]}
        for (step, server), runs in found.items()
    ]
    RESULTS.mkdir(exist_ok=True)
    to = RESULTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S-realtime")
    to.with_suffix(".txt").write_text(text)
    to.with_suffix(".rst").write_text(as_rst(tables))
    to.with_suffix(".json").write_text(json.dumps({"facts": facts, "runs": runs}, indent=1))
    print(f"{text}\nwritten: {to}.txt, {to}.rst, {to}.json")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.realtime", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="the most rounds of any step (3)")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps with this in their name")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
