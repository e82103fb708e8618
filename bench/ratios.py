"""Measure the gateway beside nginx, row by row: ``python -m bench.ratios [--rounds N] [--only WORD]``.

Two cores: the proxies have one, the load and the upstream the other.  Every step runs on its servers in turn,
round by round, and the least of the rounds counts.  Everything listens on the loopback address, nothing
outlives the run, nothing is asserted.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.load import Unary, open_streams, streams, unary
from bench.machines import NGINX as NGINX_PROGRAM
from bench.processes import Bench, Server
from bench.results import measuring
from bench.sides import (
    DIRECT,
    GATEWAY,
    LITELLM,
    MANY,
    MANY_ALIASES,
    MANY_KEYS,
    NGINX,
    ONE_ALIAS,
    PORTKEY,
    TLS_GATEWAY,
    TLS_NGINX,
    TRANSLATED,
    Sides,
)
from bench.steps import Found, Step, Value, measure
from bench.table import Table, number, ratio

LIMIT_SECONDS = 420
BEGIN_UNTIL_SECONDS = 270.0
OPEN = 5000
"""Streams that are open at a time, where there are many."""
OPENED_PER_SECOND = 1000
UNARY, ALONE, PACED, SLOW = "unary", "alone", "paced", "slow"
UNARY_TLS, PACED_TLS = "unary, TLS", "paced, TLS"
UNARY_4K, PACED_TRANSLATED = "unary, 4 kB", "paced, translated"
TRACED, UNKNOWN, BESIDE, LARGE = "traceparent", "unknown header", "beside open streams", "configured large"
RIVALS, PACED_RIVALS = "rivals", "paced, rivals"
_BOTH = (NGINX, GATEWAY)
_ALL = (DIRECT, *_BOTH)
_TLS = (TLS_NGINX, TLS_GATEWAY)


def _beside_open_streams(server: Server, folder: Path) -> Unary:
    with open_streams(server, folder, OPEN, "-r", str(OPENED_PER_SECOND)):
        return unary(server, folder, 1, 32, 2)


_LOADED = partial(unary, kib=1, connections=32, seconds=2)
_PACED = partial(streams, count=100, chunks=100, interval_ms=20)
_SLOW = partial(streams, count=OPEN, chunks=6, interval_ms=1000, opened_per_second=OPENED_PER_SECOND)
STEPS = (
    Step(UNARY, _BOTH, _LOADED),
    Step(ALONE, _ALL, partial(unary, kib=1, connections=1, seconds=1)),
    Step(PACED, _ALL, _PACED),
    Step(UNARY_TLS, _TLS, _LOADED),
    Step(PACED_TLS, _TLS, _PACED),
    Step(UNARY_4K, (*_BOTH, *TRANSLATED), partial(unary, kib=4, connections=32, seconds=2), 2),
    Step(PACED_TRANSLATED, (*TRANSLATED,), _PACED, 2),
    Step(TRACED, _BOTH, partial(_LOADED, own_header="traceparent"), 2),
    Step(UNKNOWN, _BOTH, partial(_LOADED, own_header="x-bench-number"), 2),
    Step(LARGE, (GATEWAY, ONE_ALIAS, MANY_ALIASES, MANY_KEYS), _LOADED, 2),
    Step(RIVALS, (GATEWAY, LITELLM, PORTKEY), partial(unary, kib=1, connections=4, seconds=6), 1),
    Step(PACED_RIVALS, (GATEWAY, LITELLM, PORTKEY), partial(streams, count=5, chunks=100, interval_ms=20), 1),
    Step(SLOW, _ALL, _SLOW, 1),
    Step(BESIDE, (GATEWAY,), _beside_open_streams, 1),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what is compared with what, and the target."""

    title: str
    base_name: str
    base: Callable[[Found], Value]
    value: Callable[[Found], Value]
    target: str = ""
    digits: int = 1


def _beside_nginx(title: str, step: str, attribute: str = "cpu_us", target: str = "") -> Row:
    base, own = _TLS if step in (UNARY_TLS, PACED_TLS) else _BOTH

    def read(server: str) -> Callable[[Found], Value]:
        return lambda found: found.best(step, server, attribute)

    return Row(title, "nginx", read(base), read(own), target)


def _added(title: str, step: str, attribute: str, target: str = "") -> Row:
    def read(server: str) -> Callable[[Found], Value]:
        return lambda found: found.added(step, server, attribute)

    return Row(title, "nginx", read(NGINX), read(GATEWAY), target, 0)


def _cpu(title: str, base: tuple[str, str], own: tuple[str, str], base_name: str, target: str = "") -> Row:
    """Compare the CPU of two steps, each with its server."""

    def read(step: str, server: str) -> Callable[[Found], Value]:
        return lambda found: found.best(step, server, "cpu_us")

    return Row(title, base_name, read(*base), read(*own), target)


def _translated(direction: str) -> list[Row]:
    asked, streamed = f"CPU, 4 kB, {direction}, µs/request", f"CPU, 100 × 50 chunks/s, {direction}, µs/chunk"
    return [
        _cpu(asked, (UNARY_4K, GATEWAY), (UNARY_4K, direction), "relayed", "2.5"),
        _cpu(streamed, (PACED, GATEWAY), (PACED_TRANSLATED, direction), "relayed", "5 µs more"),
    ]


def _grown(title: str, base: tuple[str, str], own: tuple[str, str]) -> Row:
    return _cpu(f"CPU, 1 kB, {title}, µs/request", base, own, base[1], "1.1")


def _beside_rival(name: str, target: str) -> list[Row]:
    streamed = "CPU, 5 streams × 50 chunks/s, µs/chunk"
    return [
        _cpu("CPU, 1 kB, 4 connections, µs/request", (RIVALS, name), (RIVALS, GATEWAY), name, target),
        _cpu(streamed, (PACED_RIVALS, name), (PACED_RIVALS, GATEWAY), name),
    ]


_OPEN = f"{OPEN:,} slow streams"
ROWS = [
    _beside_nginx("CPU, 1 kB, 32 connections, µs/request", UNARY, target="3.5"),
    _beside_nginx("CPU, 4 kB, 32 connections, µs/request", UNARY_4K),
    _added("added p50, 1 kB, 1 connection, µs", ALONE, "p50_us", "1.5"),
    _added("added p99, 1 kB, 1 connection, µs", ALONE, "p99_us"),
    _beside_nginx("CPU, 100 streams × 50 chunks/s, µs/chunk", PACED, target="2"),
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
    *_beside_rival(LITELLM, "1/200"),
    *_beside_rival(PORTKEY, ""),
    _beside_nginx("CPU, 1 kB, a new traceparent each, µs/request", TRACED),
    _beside_nginx("CPU, 1 kB, a new unknown header each, µs/request", UNKNOWN),
    _grown(f"{OPEN:,} streams open", (UNARY, GATEWAY), (BESIDE, GATEWAY)),
    _grown(f"{MANY:,} aliases", (LARGE, ONE_ALIAS), (LARGE, MANY_ALIASES)),
    _grown(f"{MANY:,} gateway keys", (LARGE, GATEWAY), (LARGE, MANY_KEYS)),
]


def table(found: Found) -> Table:
    """Return the rows that the gateway has a number in."""
    result = Table(["", "compared with", "its value", "gateway", "ratio", "target"])
    for row in ROWS:
        base, value = row.base(found), row.value(found)
        if value is not None:
            numbers = [number(base, row.digits), number(value, row.digits), ratio(value, base)]
            result.rows.append([row.title, row.base_name, *numbers, row.target])
    return result


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.ratios", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2, help="the most rounds of any step (2)")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps with this in their name")
    options = parser.parse_args()
    steps = [step for step in STEPS if options.only in step.name]
    with measuring("ratios", LIMIT_SECONDS, NGINX_PROGRAM, "wrk", "gcc", "taskset", "setpriv") as report:
        with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder, Bench(Path(folder)) as bench:
            sides = Sides(bench)
            sides.start({server for step in steps for server in step.servers})
            sides.warm_up(8)
            found = measure(sides, steps, options.rounds, BEGIN_UNTIL_SECONDS)
        found.report(report, sides.problems)
        report.tables.append(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
