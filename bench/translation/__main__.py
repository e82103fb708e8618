"""Measure translation: ``python -m bench.translation [--quick]``.

The conversions are measured alone, beside passing through and beside LiteLLM's and LLM-Rosetta's, then in
the running gateway.  Everything listens on the loopback address, nothing outlives the run, nothing is
asserted.  The results go to ``bench/results``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.machines import ROOT, clocks, description, disturbance
from bench.processes import HERE, bound_run, need
from bench.translation import gateway, pure, summary
from bench.translation.report import OURS, RIVALS, as_data, conversions, served

LIMIT_SECONDS = 900
RESULTS = HERE / "results"
RIVALS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
QUICK = gateway.Plan(rounds=1, unary_seconds=1)


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    need("wrk", "gcc", "taskset", "setpriv")
    bound_run(LIMIT_SECONDS)
    facts, before = description(), clocks()
    texts: list[str] = []
    tables: list[str] = []
    alone: dict[str, pure.Found] = {}
    running: dict[gateway.Direction, gateway.Found] = {}
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name:
        folder = Path(name)
        if options.only != "gateway":
            rounds, samples = (1, 5) if options.quick else (3, 7)
            alone = pure.measure(_pythons(options.rivals), folder, rounds, samples)
            texts.append(conversions(alone))
            tables.append(summary.conversions(alone))
        if options.only != "conversions":
            running = gateway.measure(folder, QUICK if options.quick else gateway.Plan())
            texts.append(served(running))
            tables.append(summary.served(running))
    after = clocks()
    facts["taken"] = f"{after.wall - before.wall:.0f} s"
    facts |= disturbance(before, after)
    texts.append("\n".join(f"{fact}: {value}" for fact, value in facts.items()) + "\n")
    _write("\n".join(texts), "\n".join(tables), as_data(facts, alone, running))
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
        found |= dict.fromkeys(RIVALS, rivals)
    else:
        print(f"{rivals} is not there: LiteLLM and LLM-Rosetta are left out", file=sys.stderr)
    return found


def _write(text: str, tables: str, data: dict[str, object]) -> None:
    RESULTS.mkdir(exist_ok=True)
    to = RESULTS / datetime.now(UTC).strftime("%Y-%m-%d-%H%M%S-translation")
    to.with_suffix(".txt").write_text(text)
    to.with_suffix(".rst").write_text(tables)
    to.with_suffix(".json").write_text(json.dumps(data, indent=1))
    print(f"{text}\nwritten: {to}.txt, {to}.rst, {to}.json")


if __name__ == "__main__":
    sys.exit(main())
