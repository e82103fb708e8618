"""Measure several workers as one service, and end with 1 where a promise is broken::

    python -m bench.workers [cost] [memory] [--rounds 5] [--rate 400]

``cost``: the CPU time of all processes of a gateway for one request, without workers, with one and with two,
at rates far below what they can do, in turns.  A core that works all the time answers one by that time, so
two workers on two cores should answer 1.8 times as much as one process on one.  ``memory``: what one, two and
four workers take in all (``Pss``), above one process.  Without a word: both, in less than two
minutes.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.machines import clocks, description, disturbance
from bench.measure import progress
from bench.processes import HERE, Bench, DidNotStartError, bound_run
from bench.workers.cost import measure_cost
from bench.workers.gateways import Gateways
from bench.workers.memory import measure_memory
from bench.workers.paced import StalledError
from bench.workers.report import Section

LIMIT_SECONDS = 170
RESULTS = HERE / "results"
PARTS = ("cost", "memory")


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.workers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="of cost")
    parser.add_argument(
        "--rate", type=int, default=400, help="requests in a second for each process, of cost"
    )
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    bound_run(LIMIT_SECONDS, on_one_core=False)
    facts, before = description(), clocks()
    with tempfile.TemporaryDirectory(prefix="mgw-workers-") as folder, Bench(Path(folder)) as bench:
        try:
            sections = _measure(Gateways(bench), options.parts or PARTS, options.rounds, options.rate)
        except (DidNotStartError, StalledError) as problem:
            print(problem, file=sys.stderr)
            return 1
    facts["taken"] = f"{clocks().wall - before.wall:.0f} s"
    facts |= disturbance(before, clocks())
    text = "\n".join(
        [*(section.text() for section in sections), *(f"{k}: {v}" for k, v in facts.items()), ""]
    )
    RESULTS.mkdir(exist_ok=True)
    to = RESULTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S-workers.txt")
    to.write_text(text)
    print(f"{text}\nwritten: {to}")
    return 0 if all(section.is_kept for section in sections) else 1


def _measure(gateways: Gateways, parts: list[str], rounds: int, rate: int) -> list[Section]:
    sections = []
    for part in PARTS:
        if part not in parts:
            continue
        progress(part)
        if part == "cost":
            sections.append(measure_cost(gateways, rounds, rate))
        else:
            sections.append(measure_memory(gateways))
        for gateway in list(gateways.running):
            gateways.stop(gateway)
    return sections


if __name__ == "__main__":
    sys.exit(main())
