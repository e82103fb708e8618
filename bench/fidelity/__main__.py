"""Count what a gateway loses: ``python -m bench.fidelity [--rivals] [--quick]``.

Within an API it compares bytes: what the client sent with what the provider received, and the answers the
other way, whole and streamed. Between two APIs it counts fields: each one of the vendors' own types is sent,
and must change what the provider receives, be reported by name, or be refused. Nothing leaves the loopback
address. The exit status is 1 where our gateway changed a byte or lost a field.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.fidelity.fields import Accounted, accounted
from bench.fidelity.passing import Passing, passing
from bench.fidelity.sides import Side, sides
from bench.fidelity.upstream import Provider, provider
from bench.machines import ROOT
from bench.processes import bound_run
from bench.rivals import LITELLM_PROGRAM

LIMIT_SECONDS: Final = 1200
QUICK_EVERY: Final = 10
_SHOWN: Final = 8


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.fidelity", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rivals", action="store_true", help="LiteLLM's proxy as well (make bench-rivals)")
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK_EVERY}th field only")
    options = parser.parse_args()
    if options.rivals and not LITELLM_PROGRAM.exists():
        sys.exit(f"{LITELLM_PROGRAM.relative_to(ROOT)} is not installed: make bench-rivals")
    bound_run(LIMIT_SECONDS, on_one_core=False)
    faults = 0
    with (
        tempfile.TemporaryDirectory(prefix="mgw-bench-") as name,
        provider() as upstream,
        sides(Path(name), upstream, with_rivals=options.rivals) as compared,
    ):
        for side in compared:
            found = _report(side, upstream, QUICK_EVERY if options.quick else 1)
            faults += found if side is compared[0] else 0
    return 1 if faults else 0


def _report(side: Side, upstream: Provider, every: int) -> int:
    print(f"{side.name}\n{'=' * len(side.name)}\n")
    faults = _report_bytes(passing(side, upstream))
    return faults + _report_fields(accounted(side, upstream, every))


def _report_bytes(found: dict[str, Passing]) -> int:
    print(f"{'bodies changed, same API':26} {'requests':>10} {'answers':>10} {'streams':>10}  fields lost")
    for wire, passed in found.items():
        three = (passed.requests, passed.whole, passed.streams)
        lost = sorted({path for part in three for path in part.lost})
        counts = " ".join(f"{f'{part.changed} of {part.bodies}':>10}" for part in three)
        print(f"{wire:26} {counts}  {', '.join(lost) or 'none'}")
        for problem in dict.fromkeys(problem for part in three for problem in part.failed):
            print(f"    failed: {problem}")
    print(flush=True)
    parts = [part for one in found.values() for part in (one.requests, one.whole, one.streams)]
    return sum(part.changed + len(part.failed) for part in parts)


def _report_fields(found: list[Accounted]) -> int:
    head = ("fields", "carried", "reported", "refused", "lost")
    print(f"{'fields, other API':26} " + " ".join(f"{word:>10}" for word in head))
    for row in found:
        counts = (row.fields, row.carried, row.reported, row.refused, len(row.lost))
        print(f"{f'{row.client} to {row.provider}':26} " + " ".join(f"{count:10,}" for count in counts))
        if row.lost:
            more = f" and {len(row.lost) - _SHOWN} more" if len(row.lost) > _SHOWN else ""
            print(f"    lost: {', '.join(row.lost[:_SHOWN])}{more}")
    lost = sum(len(row.lost) for row in found)
    print(f"{'all':26} {sum(row.fields for row in found):10,} {lost:43,}\n", flush=True)
    return lost


if __name__ == "__main__":
    sys.exit(main())
