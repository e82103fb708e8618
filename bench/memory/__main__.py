"""Measure what a request costs in memory: ``python -m bench.memory [--calls N] [--cycles] [--rounds N]``.

No kernel, no reactor, no rivals: the whole gateway between two connections in memory.  It takes seconds and
is the way to judge a change on a busy machine: the calls do not depend on it at all, and the time is the
thread's own in the fastest of many rounds.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator

from bench.memory.cases import cases, refused_cases, stream_cases
from bench.memory.gateway import MemoryGateway
from bench.memory.measure import Chunks, Refusals, Requests, Work, calls_by_function, count_cycles, measure

_HEAD = f"{'per request, or per chunk':44} {'us':>8} {'calls':>8} {'left':>8}"


def main() -> None:
    """Print the table, or what the command line asks for."""
    options = _options()
    gateway = MemoryGateway()
    gc.collect()
    gc.freeze()
    if not options.calls and not options.cycles:
        print(_HEAD)
    for name, work in rows(gateway):
        if options.only not in name:
            continue
        if options.calls:
            print(name)
            for function, count in list(calls_by_function(work).items())[: options.calls]:
                print(f"{count:10.2f}  {function}")
        elif options.cycles:
            print(name, dict(count_cycles(work)) or "leaves nothing")
        else:
            row = measure(work, name, options.rounds)
            print(f"{row.name:44} {row.microseconds:8.1f} {row.calls:8.1f} {row.left:8.3f}", flush=True)
    gateway.close()


def rows(gateway: MemoryGateway) -> Iterator[tuple[str, Work]]:
    """Every row, each ready to run when it is asked for."""
    for case in cases():
        yield case.name, Requests(gateway, case)
    for refused in refused_cases():
        yield refused.name, Refusals(gateway, refused)
    for stream_case in stream_cases():
        chunks = Chunks(gateway, stream_case)
        yield stream_case.name, chunks
        chunks.finish()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of 100; the fastest counts")
    parser.add_argument("--only", default="", help="only rows with this in their name")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="print the N most called functions")
    parser.add_argument("--cycles", action="store_true", help="print what is left in cycles, by type")
    return parser.parse_args()


if __name__ == "__main__":
    main()
