"""Measure what a request costs in memory: ``python -m bench.memory [--calls N] [--cycles] [--rounds N]``.

No kernel, no reactor, no rivals: the whole gateway between two connections in memory.  It takes seconds and
is the way to judge a change on a busy machine: the calls do not depend on it at all, and the time is the
thread's own in the fastest of many rounds.
"""

from __future__ import annotations

import argparse
import gc

from tests.support.in_memory.cases import cases
from tests.support.in_memory.gateway import MemoryGateway
from tests.support.in_memory.measure import calls_by_function, count_cycles, measure
from tests.support.in_memory.work import Work, work_of

_HEAD = f"{'per request, or per chunk':44} {'us':>8} {'calls':>8} {'left':>8}"


def main() -> None:
    """Print the table, or what the command line asks for."""
    options = _options()
    gateway = MemoryGateway()
    gc.collect()
    gc.freeze()
    if not options.calls and not options.cycles:
        print(_HEAD)
    for name, case in cases().items():
        if options.only in name:
            with work_of(case, gateway) as work:
                _report(name, work, options)
    gateway.close()


def _report(name: str, work: Work, options: argparse.Namespace) -> None:
    if options.calls:
        print(name)
        for function, count in list(calls_by_function(work).items())[: options.calls]:
            print(f"{count:10.2f}  {function}")
    elif options.cycles:
        print(name, dict(count_cycles(work)) or "leaves nothing")
    else:
        row = measure(work, options.rounds)
        print(f"{name:44} {row.microseconds:8.1f} {row.calls:8.1f} {row.left:8.3f}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of 100; the fastest counts")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="print the N most called functions")
    parser.add_argument("--cycles", action="store_true", help="print what is left in cycles, by type")
    return parser.parse_args()


if __name__ == "__main__":
    main()
