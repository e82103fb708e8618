"""Measure what large files cost the gateway: ``python -m bench.transfers [--quick]``.

Files of 30 MiB go up and come down, alone and eight at a time, fast and with a slow client or provider.
Everything listens on the loopback address, nothing outlives the run, nothing is asserted.  The results go to
``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.machines import clocks, description, disturbance
from bench.measure import progress
from bench.processes import HERE, DidNotStartError, bound_run
from bench.transfer_report import as_rst, as_text
from bench.transfer_run import Case, Measured, WrongBytesError, ground, measure, providers

LIMIT_SECONDS = 60
BEGIN_UNTIL_SECONDS = 42.0
"""No case begins later than this: a busy machine gets fewer of them."""
WHAT = ("upload", "upload, model last", "download")
CASES = [Case(what, slow, count) for what in WHAT for count in (1, 8) for slow in ("", "provider", "client")]
RESULTS = HERE / "results"
DISK = "/var/tmp"
"""Where the bodies wait: a disk, not memory (file hierarchy standard, 5.15)."""
ELSEWHERE = ("nginx", "wrk", "gcc")
"""Programs that have no part in this."""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="bench.transfers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only at full speed, about 10 s")
    quick = parser.parse_args().quick
    bound_run(LIMIT_SECONDS)
    facts, before = description(), clocks()
    with tempfile.TemporaryDirectory(prefix="mgw-bench-", dir=DISK) as name:
        facts["spool"] = f"{DISK}, {_filesystem(name)}"
        try:
            found = _measure([case for case in CASES if not (quick and case.slow)], Path(name))
        except (DidNotStartError, WrongBytesError, OSError) as problem:
            print(problem, file=sys.stderr)
            return 1
    after = clocks()
    facts["taken"] = f"{after.wall - before.wall:.0f} s, {len(found)} of {len(CASES)} cases"
    facts |= disturbance(before, after)
    _write(found, {name: fact for name, fact in facts.items() if name not in ELSEWHERE})
    return 0


def _measure(cases: list[Case], folder: Path) -> list[Measured]:
    found: list[Measured] = []
    until = time.monotonic() + BEGIN_UNTIL_SECONDS
    with providers() as both:
        for what in WHAT:
            progress(f"{what}: starting the gateway")
            with ground(folder, *both) as on:
                for case in [case for case in cases if case.what == what]:
                    if time.monotonic() > until:
                        progress("out of time: the cases that are left are not run")
                        return found
                    progress(str(case))
                    found.append(measure(case, on))
    return found


def _filesystem(path: str) -> str:
    said = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=False)
    return said.stdout.strip() or "unknown"


def _write(found: list[Measured], facts: dict[str, str]) -> None:
    text = as_text(found, facts)
    RESULTS.mkdir(exist_ok=True)
    to = RESULTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S-transfers")
    to.with_suffix(".txt").write_text(text)
    to.with_suffix(".rst").write_text(as_rst(found))
    data = {"facts": facts, "cases": [asdict(one) for one in found]}
    to.with_suffix(".json").write_text(json.dumps(data, indent=1))
    print(f"{text}\nwritten: {to}.txt, {to}.rst, {to}.json")


if __name__ == "__main__":
    sys.exit(main())
