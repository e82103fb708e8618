"""Tables: as text for people, and as they stand in the documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

UNKNOWN = "–"
SMALL = 0.1
"""Ratios below this read better as a fraction."""


@dataclass(slots=True)
class Table:
    """A header and rows of the same length; the first column says what a row is."""

    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def text(self) -> str:
        """Return it with columns of even width."""
        rows = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            first, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  ".join([first, *(cell.strip().rjust(len(cell)) for cell in others)]).rstrip())
        return "\n".join(lines) + "\n"

    def rst(self) -> str:
        """Return it as a table of reStructuredText."""
        rows = ["   " + ", ".join(f'"{cell}"' for cell in row) for row in [self.header, *self.rows]]
        return "\n".join([".. csv-table::", "   :header-rows: 1", "", *rows]) + "\n"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number, or a dash where it is not known."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def ratio(value: float | None, base: float | None) -> str:
    """Return one number as a multiple of another, as a fraction where it is small, or a dash."""
    if value is None or base is None or base <= 0:
        return UNKNOWN
    is_small = 0 < value / base < SMALL
    return f"1/{base / value:,.0f}" if is_small else f"{value / base:.2f}"
