"""Measure realtime sessions, server beside server: ``python -m bench.realtime [--rounds N] [--only WORD]``.

Two cores: the proxies have one, the load and the upstream the other.  Every step runs on the servers in turn,
round by round, and the best of the rounds counts.  The upstream sends each frame back, so that the proxies
relay both ways.  Everything listens on the loopback address, nothing outlives the run, nothing is asserted.
The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from bench.load import NothingMeasuredError
from bench.machines import NGINX as NGINX_PROGRAM
from bench.processes import Bench
from bench.results import measuring
from bench.rivals import autobahn_version
from bench.sessions import AUDIO, BINARY, SMALL, Load, run
from bench.sides import DECODING, DIRECT, SESSIONS_GATEWAY, SESSIONS_NGINX, Sides
from bench.steps import Across, Step, measure, table_across

LIMIT_SECONDS = 300
BEGIN_UNTIL_SECONDS = 220.0
SERVERS = (DIRECT, SESSIONS_NGINX, DECODING, SESSIONS_GATEWAY)
KINDS = (SMALL, AUDIO, BINARY)
SESSIONS, IDLE_SESSIONS, INTERVAL_MS = 100, 1000, 50
IDLE = f"{IDLE_SESSIONS:,} idle sessions"


def alone(kind: str) -> str:
    """Name the step of one session, whose next frame is sent as soon as the last has come back."""
    return f"1 session, {kind}"


def paced(kind: str) -> str:
    """Name the step of many sessions with a pause between frames."""
    return f"{SESSIONS} sessions, paced, {kind}"


def flat(kind: str) -> str:
    """Name the step of many sessions at full speed."""
    return f"{SESSIONS} sessions, full speed, {kind}"


def _step(name: str, load: Load, rounds: int = 3) -> Step:
    return Step(name, SERVERS, partial(run, load=load), rounds)


STEPS = (
    # The first, since memory that others have left would be used again.
    _step(IDLE, Load(SMALL, IDLE_SESSIONS, 0, 0, settle_seconds=1.0), 1),
    *(_step(alone(kind), Load(kind, 1, 0, 1)) for kind in KINDS),
    *(_step(paced(kind), Load(kind, SESSIONS, INTERVAL_MS, 2)) for kind in KINDS),
    *(_step(flat(kind), Load(kind, SESSIONS, 0, 1)) for kind in KINDS),
)


def _rows(kind: str) -> list[Across]:
    target = "20 µs, 0.3" if kind == AUDIO else ""
    full, rate = f"{SESSIONS} sessions at full speed", f"{SESSIONS} sessions × {1000 // INTERVAL_MS}/s"
    cpu = partial(Across, attribute="cpu_us", digits=1, of_proxies=True, target=target)
    frames = partial(Across, attribute="frames_per_second", choose=max)
    return [
        cpu(f"{kind}: CPU, {full}, µs/frame", flat(kind)),
        cpu(f"{kind}: CPU, {rate}, µs/frame", paced(kind)),
        frames(f"{kind}: frames, {full}, 1/s", flat(kind)),
        frames(f"{kind}: frames, 1 session, 1/s", alone(kind)),
        Across(f"{kind}: added p50, 1 session, µs", alone(kind), "p50_us", is_added=True),
        Across(f"{kind}: added p99, 1 session, µs", alone(kind), "p99_us", is_added=True),
        Across(f"{kind}: added p50, {rate}, µs", paced(kind), "p50_us", is_added=True),
        Across(f"{kind}: added p99, {rate}, µs", paced(kind), "p99_us", is_added=True),
    ]


ROWS = [
    *(row for kind in KINDS for row in _rows(kind)),
    Across(f"{IDLE}: memory, KiB/session", IDLE, "kib_per_session", min, 1, of_proxies=True, target="16 KiB"),
]


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.realtime", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="the most rounds of any step (3)")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps with this in their name")
    options = parser.parse_args()
    steps = [step for step in STEPS if options.only in step.name]
    with measuring("realtime", LIMIT_SECONDS, NGINX_PROGRAM, "gcc", "taskset", "setpriv") as report:
        report.facts["autobahn"] = autobahn_version()
        with (
            tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder,
            Bench(Path(folder), programs=("echo", "sessions")) as bench,
        ):
            sides = Sides(bench)
            sides.start(set(SERVERS))
            _warm_up(sides)
            found = measure(sides, steps, options.rounds, BEGIN_UNTIL_SECONDS)
        found.report(report, sides.problems)
        report.tables.append(table_across(ROWS, found, SERVERS, [DECODING], SESSIONS_GATEWAY))
    return 0


def _warm_up(sides: Sides) -> None:
    for name in [*sides.servers]:
        try:
            run(sides.servers[name], sides.folder, Load(SMALL, 1, 0, 1))
        except NothingMeasuredError as problem:
            sides.problems.append(f"{name}: {problem}")
            del sides.servers[name]


if __name__ == "__main__":
    sys.exit(main())
