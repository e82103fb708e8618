"""Measure the gateway beside nginx, row by row: ``python -m bench.ratios [--rounds N] [--only WORD]``.

Two cores: the proxies have one, the load and the upstream the other. Every step runs on its servers in
turn, round by round, in several short rounds; one table has the least of the rounds, another their median.
The gateway is measured twice: on the Python of this environment, and on Debian's, which its package runs
on. Everything listens on the loopback address, nothing outlives the run, nothing is asserted. The results
go to ``bench/results``, and so do those of a run that was cut short.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from bench.interpreters import Build, build_of, facts_of
from bench.load import Unary, large_answer, open_streams, streams, unary
from bench.machines import NGINX as NGINX_PROGRAM
from bench.processes import Bench, Server
from bench.results import measuring
from bench.rivals import rival_versions
from bench.sides import (
    DEBIAN_PYTHON,
    DIRECT,
    GATEWAY,
    MANY,
    MANY_ALIASES,
    MANY_KEYS,
    NGINX,
    NGINX_DEFAULTS,
    NGINX_GATHERS,
    ONE_ALIAS,
    RIVALS,
    TLS_GATEWAY,
    TLS_NGINX,
    TRANSLATED,
    Sides,
    on_debian,
)
from bench.steps import Found, Step, Value, measure
from bench.table import Table, number, ratio

LIMIT_SECONDS = 580
BEGIN_UNTIL_SECONDS = 470.0
OPEN = 5000
"""Streams that are open at a time, where there are many."""
OPENED_PER_SECOND = 1000
UNARY, ALONE, PACED, SLOW = "unary", "alone", "paced", "slow"
UNARY_TLS, PACED_TLS = "unary, TLS", "paced, TLS"
UNARY_4K, PACED_TRANSLATED = "unary, 4 kB", "paced, translated"
TRACED, UNKNOWN, BESIDE, LARGE = "traceparent", "unknown header", "beside open streams", "configured large"
PEERS, PACED_PEERS = "rivals", "paced, rivals"
EMBEDDING, IMAGE = "1 MB down", "20 MB down"
UP: Final = {"200 kB up": 200, "0.9 MB up": 900, "2 MB up": 2048, "30 MB up": 30 * 1024}
"""Sizes of requests, in KiB: an agent's, from a middle turn to more than a vendor takes."""
_BOTH = (NGINX, GATEWAY, on_debian(GATEWAY))
_ALL = (DIRECT, *_BOTH)
_UPLOADED = (NGINX_DEFAULTS, NGINX_GATHERS, *_BOTH)
_TLS = (TLS_NGINX, TLS_GATEWAY, on_debian(TLS_GATEWAY))
_TRANSLATED = (*TRANSLATED, *map(on_debian, TRANSLATED))
_PEERS = (GATEWAY, on_debian(GATEWAY), *RIVALS)
Choose = Callable[[list[float]], float]


def _beside_open_streams(server: Server, folder: Path) -> Unary:
    with open_streams(server, folder, OPEN, "-r", str(OPENED_PER_SECOND)):
        return unary(server, folder, 1, 32, 1)


_LOADED = partial(unary, kib=1, connections=32, seconds=1)
_UPLOAD = partial(unary, kib=1, connections=4, seconds=1)
_DOWNLOAD = partial(large_answer, connections=4, seconds=1)
_PACED = partial(streams, count=100, chunks=60, interval_ms=20)
_SLOW = partial(streams, count=OPEN, chunks=6, interval_ms=1000, opened_per_second=OPENED_PER_SECOND)
STEPS = (
    Step(UNARY, _BOTH, _LOADED, 7),
    Step(ALONE, _ALL, partial(unary, kib=1, connections=1, seconds=1), 5),
    Step(PACED, _ALL, _PACED, 5),
    *(Step(name, _UPLOADED, partial(_UPLOAD, up_kib=kib), 3) for name, kib in UP.items()),
    Step(EMBEDDING, _BOTH, partial(_DOWNLOAD, kind="embed", kib=1024), 3),
    Step(IMAGE, _BOTH, partial(_DOWNLOAD, kind="image", kib=20 * 1024), 3),
    Step(SLOW, _ALL, _SLOW, 1),
    Step(UNARY_TLS, _TLS, _LOADED),
    Step(PACED_TLS, _TLS, _PACED),
    Step(UNARY_4K, (*_BOTH, *_TRANSLATED), partial(unary, kib=4, connections=32, seconds=1)),
    Step(PACED_TRANSLATED, _TRANSLATED, _PACED),
    Step(TRACED, _BOTH, partial(_LOADED, own_header="traceparent")),
    Step(UNKNOWN, _BOTH, partial(_LOADED, own_header="x-bench-number")),
    Step(LARGE, (GATEWAY, ONE_ALIAS, MANY_ALIASES, MANY_KEYS), _LOADED),
    Step(PEERS, _PEERS, partial(unary, kib=1, connections=4, seconds=2)),
    Step(PACED_PEERS, _PEERS, partial(streams, count=5, chunks=100, interval_ms=20), 2),
    Step(BESIDE, (GATEWAY, on_debian(GATEWAY)), _beside_open_streams, 1),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of one server."""

    step: str
    server: str
    attribute: str = "cpu_us"
    is_added: bool = False
    """Whether it is what a proxy adds to the direct way."""

    def read(self, found: Found, choose: Choose) -> Value:
        """Return the number, chosen from those of all rounds."""
        read = found.added if self.is_added else found.best
        return read(self.step, self.server, self.attribute, choose)

    @property
    def on_debian(self) -> Cell:
        """The same of the gateway on Debian's Python."""
        return replace(self, server=on_debian(self.server))


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what is compared with what, and the target."""

    title: str
    base_name: str
    base: Cell
    own: Cell
    target: str = ""
    digits: int = 1
    is_within: bool = False
    """Whether the gateway is compared with itself, so that each interpreter has a base of its own."""

    def cells(self, found: Found, choose: Choose) -> list[str]:
        """Return the numbers of a line, or none where the gateway has none."""
        base, value = self.base.read(found, choose), self.own.read(found, choose)
        on = self.own.on_debian.read(found, choose)
        if value is None and on is None:
            return []
        beside = self.base.on_debian.read(found, choose) if self.is_within else base
        numbers = [number(base, self.digits), number(value, self.digits), ratio(value, base)]
        return [self.title, self.base_name, *numbers, number(on, self.digits), ratio(on, beside), self.target]


def _beside_nginx(title: str, step: str, attribute: str = "cpu_us", target: str = "") -> Row:
    base, own = (TLS_NGINX, TLS_GATEWAY) if step in (UNARY_TLS, PACED_TLS) else (NGINX, GATEWAY)
    return Row(title, "nginx", Cell(step, base, attribute), Cell(step, own, attribute), target)


def _uploaded(name: str, target: str) -> list[Row]:
    title = f"CPU, {name}, 4 connections, µs/request"
    others = ((NGINX_GATHERS, ""), (NGINX_DEFAULTS, target))
    rows = [Row(title, other, Cell(name, other), Cell(name, GATEWAY), aim) for other, aim in others]
    return [_beside_nginx(title, name), *rows]


def _added(title: str, step: str, attribute: str, target: str = "") -> Row:
    base, own = (Cell(step, server, attribute, is_added=True) for server in (NGINX, GATEWAY))
    return Row(title, "nginx", base, own, target, 0)


def _within(title: str, base: tuple[str, str], own: tuple[str, str], base_name: str, target: str) -> Row:
    return Row(title, base_name, Cell(*base), Cell(*own), target, is_within=True)


def _translated(direction: str) -> list[Row]:
    asked, streamed = f"CPU, 4 kB, {direction}, µs/request", f"CPU, 100 × 50 chunks/s, {direction}, µs/chunk"
    return [
        _within(asked, (UNARY_4K, GATEWAY), (UNARY_4K, direction), "relayed", "2.5"),
        _within(streamed, (PACED, GATEWAY), (PACED_TRANSLATED, direction), "relayed", "5 µs more"),
    ]


def _grown(title: str, base: tuple[str, str], own: tuple[str, str]) -> Row:
    return _within(f"CPU, 1 kB, {title}, µs/request", base, own, base[1], "1.1")


def _beside_peer(name: str, target: str = "") -> list[Row]:
    streamed = "CPU, 5 streams × 50 chunks/s, µs/chunk"
    return [
        Row("CPU, 1 kB, 4 connections, µs/request", name, Cell(PEERS, name), Cell(PEERS, GATEWAY), target),
        Row(streamed, name, Cell(PACED_PEERS, name), Cell(PACED_PEERS, GATEWAY)),
    ]


_OPEN = f"{OPEN:,} slow streams"
_UP_TARGETS: Final = {"200 kB up": "2", "0.9 MB up": "2.5", "2 MB up": "2.5", "30 MB up": "3"}
"""In multiples of what nginx takes with its defaults."""
_TARGETS: Final = {"LiteLLM's proxy": "1/200"}
ROWS = [
    _beside_nginx("CPU, 1 kB, 32 connections, µs/request", UNARY, target="3.5"),
    _beside_nginx("CPU, 4 kB, 32 connections, µs/request", UNARY_4K),
    *(row for name in UP for row in _uploaded(name, _UP_TARGETS[name])),
    _beside_nginx("CPU, an embedding of 1 MB down, 4 connections, µs/request", EMBEDDING),
    _beside_nginx("CPU, an image of 20 MB down, 4 connections, µs/request", IMAGE),
    _added("added p50, 1 kB, 1 connection, µs", ALONE, "p50_us", "1.5"),
    _added("added p99, 1 kB, 1 connection, µs", ALONE, "p99_us"),
    _beside_nginx("CPU, 100 streams × 50 chunks/s, µs/chunk", PACED, target="1.6"),
    _added("added p50 of such a chunk, µs", PACED, "p50_us"),
    _added("added p99 of such a chunk, µs", PACED, "p99_us"),
    _beside_nginx(f"CPU, {_OPEN}, µs/chunk", SLOW, target="1.4"),
    _added(f"added p50, {_OPEN}, µs", SLOW, "p50_us"),
    _added(f"added p99, {_OPEN}, µs", SLOW, "p99_us", "30 ms"),
    _added(f"added p99 of the first event, {_OPEN}, µs", SLOW, "first_p99_us"),
    _beside_nginx(f"memory, {_OPEN}, KiB/stream", SLOW, "kib_per_stream", "8 KiB"),
    _beside_nginx("CPU, TLS upstream, 1 kB, µs/request", UNARY_TLS, target="3.5"),
    _beside_nginx("CPU, TLS, 100 streams × 50 chunks/s, µs/chunk", PACED_TLS, target="3"),
    *(row for direction in TRANSLATED for row in _translated(direction)),
    *(row for name in RIVALS for row in _beside_peer(name, _TARGETS.get(name, ""))),
    _beside_nginx("CPU, 1 kB, a new traceparent each, µs/request", TRACED),
    _beside_nginx("CPU, 1 kB, a new unknown header each, µs/request", UNKNOWN),
    _grown(f"{OPEN:,} streams open", (UNARY, GATEWAY), (BESIDE, GATEWAY)),
    _grown(f"{MANY:,} aliases", (LARGE, ONE_ALIAS), (LARGE, MANY_ALIASES)),
    _grown(f"{MANY:,} gateway keys", (LARGE, GATEWAY), (LARGE, MANY_KEYS)),
]


def table(found: Found, choose: Choose = min, own: str = "gateway", debian: str = "Debian's Python") -> Table:
    """Return the rows that the gateway has a number in.

    :param choose: what becomes of the numbers of all rounds.
    :param own: what stands above the gateway's numbers, and above those on Debian's interpreter.
    """
    result = Table(["", "compared with", "its value", own, "ratio", debian, "ratio", "target"])
    result.rows += filter(None, (row.cells(found, choose) for row in ROWS))
    return result


def builds() -> dict[str, Build]:
    """Return how the interpreters of both columns were built."""
    pythons = {GATEWAY: Path(sys.executable)}
    if DEBIAN_PYTHON.exists():
        pythons["Debian's Python"] = DEBIAN_PYTHON
    return {name: build_of(facts_of(python)) for name, python in pythons.items()}


def chosen(steps: Iterable[Step], word: str) -> list[Step]:
    """Return the steps that the command line asks for."""
    return [step for step in steps if word in step.name]


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.ratios", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="the most rounds of any step (7)")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps with this in their name")
    options = parser.parse_args()
    steps = chosen(STEPS, options.only)
    with measuring("ratios", LIMIT_SECONDS, NGINX_PROGRAM, "wrk", "gcc", "taskset", "setpriv") as report:
        found, pythons = Found(), builds()
        report.facts |= {f"Python, {name}": str(build) for name, build in pythons.items()} | rival_versions()
        with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder, Bench(Path(folder)) as bench:
            sides = Sides(bench)
            try:
                sides.start({server for step in steps for server in step.servers})
                sides.warm_up(8)
                measure(sides, steps, options.rounds, BEGIN_UNTIL_SECONDS, found)
            finally:
                report.facts |= sides.start_lines()
                found.report(report, sides.problems)
                columns = [f"{name}, {build.short}" for name, build in pythons.items()]
                report.tables += [table(found, min, *columns), table(found, median, *columns)]
    return 0


if __name__ == "__main__":
    sys.exit(main())
