"""One run of a program: its limit of time, what the machine did meanwhile, and where its results go."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bench.machines import clocks, description, disturbance
from bench.processes import HERE, bound_run, need
from bench.table import Table

RESULTS = HERE / "results"


@dataclass(slots=True)
class Report:
    """What a run found."""

    name: str
    facts: dict[str, str]
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, object] = field(default_factory=dict)
    """All single values, as JSON has them."""
    promises: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether all promises were kept."""
        return all(is_kept for _, is_kept in self.promises)

    def promise(self, text: str, *, is_kept: bool) -> None:
        """Say what was promised, with what was found, and whether that is so."""
        self.promises.append((text, is_kept))

    def text(self) -> str:
        """Return all of it for people."""
        lines = [table.text() for table in self.tables]
        lines += [*self.notes, *(f"{'kept' if kept else 'BROKEN'}: {text}" for text, kept in self.promises)]
        return "\n".join([*lines, *(f"{name}: {fact}" for name, fact in self.facts.items()), ""])

    def write(self) -> None:
        """Print it, and write it to ``bench/results``."""
        RESULTS.mkdir(exist_ok=True)
        to = RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{self.name}"
        to.with_suffix(".txt").write_text(self.text())
        to.with_suffix(".rst").write_text("\n".join(table.rst() for table in self.tables))
        to.with_suffix(".json").write_text(json.dumps({"facts": self.facts, **self.data}, indent=1))
        print(f"{self.text()}\nwritten: {to}.txt, .rst, .json")


@contextmanager
def measuring(name: str, limit_seconds: int, *programs: str, on_one_core: bool = True) -> Iterator[Report]:
    """Measure within the block; behind it, the report is printed and written, and so it is when time is over.

    :param programs: what the measurement needs beside Python.
    """
    need(*programs)
    bound_run(limit_seconds, on_one_core=on_one_core)
    report, before = Report(name, description()), clocks()
    try:
        yield report
    except SystemExit as ended:  # by a signal: what was measured until then is worth having
        report.facts["not complete"] = str(ended)
        raise
    finally:
        if sys.exc_info()[0] in (None, SystemExit):
            after = clocks()
            report.facts["taken"] = f"{after.wall - before.wall:.0f} s"
            report.facts |= disturbance(before, after)
            report.write()


def progress(text: str) -> None:
    """Tell whoever waits what happens now."""
    print(text, file=sys.stderr, flush=True)
