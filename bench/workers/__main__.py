"""Measure several workers as one service, and end with 1 where a promise is broken::

    python -m bench.workers [cost] [memory] [--rounds 5] [--rate 400]

``cost``: the CPU time of all processes of a gateway for one request, without workers, with one and with two,
at rates far below what they can do, in turns.  A core that works all the time answers one by that time, so
two workers on two cores should answer 1.8 times as much as one process on one.  ``memory``: what one, two and
four workers take in all, above one process.  Without a word: both, in less than two minutes.  The
results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.processes import Bench, DidNotStartError
from bench.results import measuring, progress
from bench.workers.cost import measure_cost
from bench.workers.gateways import Gateways
from bench.workers.memory import measure_memory
from bench.workers.paced import StalledError

LIMIT_SECONDS = 170
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
    try:
        with (
            measuring("workers", LIMIT_SECONDS, "gcc", "taskset", "setpriv", on_one_core=False) as report,
            tempfile.TemporaryDirectory(prefix="mgw-workers-") as folder,
            Bench(Path(folder)) as bench,
        ):
            for part in options.parts or PARTS:
                progress(part)
                if part == "cost":
                    measure_cost(report, Gateways(bench), options.rounds, options.rate)
                else:
                    measure_memory(report, Gateways(bench))
                for server in bench.servers[1:]:
                    bench.stop(server)
    except (DidNotStartError, StalledError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0 if report.is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
