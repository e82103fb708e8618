"""Measure translation: ``python -m bench.translation [--quick]``.

The conversions are measured alone, beside passing through and beside LiteLLM's and LLM-Rosetta's, then in
the running gateway, where one process serves all: which provider the model names decides whether its answer
is relayed or translated.  Everything listens on the loopback address, nothing outlives the run, nothing is
asserted.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.load import streams, unary
from bench.machines import ROOT
from bench.processes import Bench
from bench.results import measuring
from bench.rivals import RIVALS_PYTHON
from bench.sides import DIRECTIONS, Sides
from bench.steps import Found, Step, measure
from bench.table import Table, number, ratio
from bench.translation import pure
from bench.translation.side import ANSWER, REQUEST, STREAM, key

LIMIT_SECONDS = 900
OURS, RIVALS = "ours", ("litellm", "rosetta")
UNARY = "request and answer"
CASES = (
    ("4 kB", "chat", UNARY, 0),
    ("200 kB", "agent", UNARY, 0),
    ("a chunk", "text", STREAM, 1),
    ("a chunk of text and calls", "calls", STREAM, 1),
)
SERVED = {"a request of 4 kB": "unary", "a chunk every 10 ms": "paced", "a chunk, at full speed": "flat"}
"""The columns of the running gateway, and their steps."""


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    with (
        measuring("translation", LIMIT_SECONDS, "wrk", "gcc", "taskset", "setpriv") as report,
        tempfile.TemporaryDirectory(prefix="mgw-bench-") as name,
    ):
        folder = Path(name)
        if options.only != "gateway":
            rounds, samples = (1, 5) if options.quick else (3, 7)
            alone = pure.measure(_pythons(options.rivals), folder, rounds, samples)
            report.tables.append(conversions(alone))
            report.notes += remarks(alone)
            report.data["conversions"] = {side: asdict(one) for side, one in alone.items()}
        if options.only != "conversions":
            with Bench(folder) as bench:
                sides = Sides(bench)
                sides.start({*DIRECTIONS})
                found = measure(
                    sides, steps(1 if options.quick else 2), 1 if options.quick else 3, LIMIT_SECONDS
                )
            report.tables.append(served(found))
            found.report(report, sides.problems)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.translation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rivals",
        type=Path,
        default=RIVALS_PYTHON,
        metavar="PYTHON",
        help=f"an interpreter that has LiteLLM and LLM-Rosetta (default: {RIVALS_PYTHON.relative_to(ROOT)})",
    )
    parser.add_argument("--only", choices=["conversions", "gateway"], help="measure only this part")
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    return parser.parse_args()


def _pythons(rivals: Path) -> dict[str, Path]:
    found = {OURS: Path(sys.executable)}
    if rivals.exists():
        return found | dict.fromkeys(RIVALS, rivals)
    print(f"{rivals} is not there: LiteLLM and LLM-Rosetta are left out", file=sys.stderr)
    return found


def conversions(found: dict[str, pure.Found]) -> Table:
    """Return the table of the conversions alone; a * marks an output that lacks something or has too much."""
    names = [OURS, *(name for name in RIVALS if name in found)]
    table = Table(["µs of CPU", "passing", "gateway", *(found[name].version for name in names[1:])])
    for title, case, what, digits in CASES:
        for client, provider in DIRECTIONS.values():
            if client == provider:
                continue
            passing = _passing(found[OURS], case, what, client, provider)
            cells = [number(passing, digits)]
            for name in names:
                value = _time(found[name], case, what, client, provider)
                cells.append(number(value, digits) + _mark(found[name], case, what, client, provider))
            table.rows.append([f"{title}, {client} → {provider}", *cells])
    return table


def _keys(case: str, what: str, client: str, provider: str) -> list[str]:
    """Return the names of one thing, or of a request and its answer."""
    return [key(case, client, provider, one) for one in ((REQUEST, ANSWER) if what == UNARY else (what,))]


def _time(found: pure.Found, case: str, what: str, client: str, provider: str) -> float | None:
    times = [found.microseconds(name) for name in _keys(case, what, client, provider)]
    return None if None in times else sum(filter(None, times))


def _passing(ours: pure.Found, case: str, what: str, client: str, provider: str) -> float | None:
    """Return what passing the same bytes costs: the client's request, the provider's answer."""
    if what != UNARY:
        return _time(ours, case, what, provider, provider)
    answered = _time(ours, case, ANSWER, provider, provider)
    return None if answered is None else answered + (_time(ours, case, REQUEST, client, client) or 0)


def _mark(found: pure.Found, case: str, what: str, client: str, provider: str) -> str:
    return "*" if found.wrong.keys() & {*_keys(case, what, client, provider)} else ""


def remarks(found: dict[str, pure.Found]) -> list[str]:
    """Return what each program was, how its times spread, and what it did wrong."""
    said = []
    for name, one in found.items():
        said.append(f"{name}: {one.version}; half of the samples are within {one.spread():.0%} of the median")
        said += [f"  {what}: {'; '.join(wrong)}" for what, wrong in one.wrong.items()]
        said += [f"  {problem}" for problem in one.problems]
    return said


def steps(seconds: int) -> list[Step]:
    """Return what is run on the gateway in each direction."""
    directions = tuple(DIRECTIONS)
    return [
        Step("unary", directions, partial(unary, kib=4, connections=32, seconds=seconds)),
        Step("paced", directions, partial(streams, count=100, chunks=200, interval_ms=10)),
        Step("flat", directions, partial(streams, count=64, chunks=1000, interval_ms=0)),
    ]


def served(found: Found) -> Table:
    """Return the table of the running gateway; what is relayed has its provider's wire on both sides."""
    table = Table(["µs of CPU of the process", *SERVED])
    for name, (client, provider) in DIRECTIONS.items():
        cells = []
        for step in SERVED.values():
            value = found.best(step, name, "cpu_us")
            relayed = found.best(step, f"{provider} to {provider}", "cpu_us")
            cells.append(number(value, 1) + (f" ({ratio(value, relayed)})" if client != provider else ""))
        title = f"{client}, relayed" if client == provider else f"{client} → {provider}"
        table.rows.append([title, *cells])
    return table


if __name__ == "__main__":
    sys.exit(main())
