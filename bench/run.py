"""Measure the gateway beside nginx and beside a Klein and treq proxy: ``python -m bench.run [--quick]``.

Two cores are enough: the proxies have one, the load and the upstream the other.  Everything listens on the
loopback address, nothing outlives the run, nothing is asserted.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.load import NothingMeasuredError
from bench.machines import NGINX, clocks, description, disturbance
from bench.measure import QUICK, Found, Plan, measure
from bench.processes import COMMANDS, HERE, Bench, DidNotStartError, bound_run, need
from bench.profiling import profile
from bench.report import as_data, as_text, table

LIMIT_SECONDS = 240
RESULTS = HERE / "results"


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    need(NGINX, "wrk", "gcc", "taskset", "setpriv")
    bound_run(LIMIT_SECONDS)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder:
        if options.profile:
            return _profile(Path(folder), options.profile)
        plan = QUICK if options.quick else Plan()
        _measure(Path(folder), options.targets.split(","), plan)
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
    everything = ",".join(["direct", *COMMANDS])
    parser.add_argument("--targets", default=everything, help=f"what to measure (default: {everything})")
    return parser.parse_args()


def _profile(folder: Path, what: str) -> int:
    try:
        with Bench(folder) as bench:
            profile(bench, what)
    except (DidNotStartError, NothingMeasuredError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _measure(folder: Path, names: list[str], plan: Plan) -> None:
    facts = description()
    before = clocks()
    with Bench(folder) as bench:
        found = measure(bench, names, plan)
    after = clocks()
    rounds = max(len(one.streams.get("flat", ())) for one in found.values())
    facts["taken"] = f"{after.wall - before.wall:.0f} s, {rounds} of {plan.rounds} rounds"
    facts |= disturbance(before, after)
    if "gateway" in found:
        facts["usage events"] = _events(folder, found["gateway"])
    lines = table(found)
    text = as_text(lines, facts, {name: one.problems for name, one in found.items()})
    RESULTS.mkdir(exist_ok=True)
    to = RESULTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S")
    to.with_suffix(".txt").write_text(text)
    to.with_suffix(".json").write_text(json.dumps(as_data(lines, facts, found), indent=1))
    print(f"{text}\nwritten: {to}.txt, {to}.json")


def _events(folder: Path, found: Found) -> str:
    """How many usage events the gateway wrote for how many finished requests; those cut off have one too."""
    written = folder / "usage.jsonl"
    events = written.read_bytes().count(b"\n") if written.exists() else 0
    finished = sum(run.requests for runs in found.unary.values() for run in runs)
    return f"{events:,} written, {finished:,.0f} whole answers measured"


if __name__ == "__main__":
    sys.exit(main())
