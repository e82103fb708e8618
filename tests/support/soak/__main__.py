"""Soak a gateway: ``python -m tests.support.soak [--exchanges N | --minutes N] [--clients N] [--seed N]``.

Mixed exchanges (passed through and translated, whole and streamed, clients that leave, providers that fail in
many ways, restricted keys that ask for forbidden models, sessions that are cut off anywhere) run through one
gateway process, which reloads its configuration all the while.  Behind each slice every exchange must have
had its own answer and left exactly one usage event that tells what became of it.

With ``--minutes`` it runs for a time: a probe asks small questions meanwhile, every 30 s it is said what the
gateway takes, and at the end how that compares with the beginning.

Everything listens on the loopback address, and ends with the run.  The exit status is 1 where anything was
wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.soak.exchanges import PROBES
from tests.support.soak.run import Soak, Wanted


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="tests.support.soak", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--exchanges", type=int, default=1_000_000, help="number of requests (1000000)")
    parser.add_argument("--slice", type=int, default=50_000, help="requests between two checks (50000)")
    parser.add_argument("--clients", type=int, default=48, help="number of clients (48)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random requests (1)")
    parser.add_argument("--minutes", type=float, help="run for so long, whatever number of requests that is")
    parser.add_argument(
        "--report", type=float, default=30.0, help="seconds between two reports of such a run (30)"
    )
    said = parser.parse_args()
    wanted = Wanted(said.exchanges, said.slice, said.clients, said.seed)
    if said.minutes is not None:
        endless = PROBES - 1
        wanted = Wanted(endless, endless, said.clients, said.seed, said.minutes, said.report, said.report)
    with tempfile.TemporaryDirectory(prefix="mgw-soak-") as folder:
        soak = Soak(wanted, Path(folder))
        return 0 if soak.run() else 1


if __name__ == "__main__":
    sys.exit(main())
