"""Output of commands: tables for people, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final

Cell = str | int | float | None
"""``None``: nobody knows."""
FORMATS: Final = ("table", "csv", "json")


def print_rows(form: str, names: Sequence[str], rows: Sequence[Sequence[Cell]], nothing: str) -> None:
    """Print rows of text; in place of a table without any, say so on standard error.

    :param nothing: what to say then.
    """
    if rows or form != "table":
        sys.stdout.write(write_rows(form, names, rows))
    else:
        sys.stderr.write(f"{nothing}\n")


def write_sums(
    form: str,
    names: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    keys: int,
    quiet: Collection[str] = (),
) -> str:
    """Write rows whose first columns are keys, and all others sums: a table has a line for the total.

    :param form: one of :data:`FORMATS`.
    :param quiet: columns that a table leaves out while all their values are 0.
    """
    return _sums_table(names, rows, keys, quiet) if form == "table" else _for_programs(form, names, rows)


def write_rows(form: str, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Write rows of text."""
    return _aligned([names, *rows], len(names)) if form == "table" else _for_programs(form, names, rows)


def _for_programs(form: str, names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    return _csv(names, rows) if form == "csv" else _json(names, rows)


def _sums_table(
    names: Sequence[str], rows: Sequence[Sequence[Cell]], keys: int, quiet: Collection[str]
) -> str:
    """Write columns for people; those that nobody has a value for are left out, but for that of requests."""
    nothing = {name: (None, 0) if name in quiet else (None,) for name in names}
    shown = [
        index
        for index, name in enumerate(names)
        if index <= keys or any(row[index] not in nothing[name] for row in rows)
    ]
    totals: list[Cell] = ["total" if index == 0 and keys else "" for index in range(keys)]
    for index in range(keys, len(names)):
        found = [value for row in rows if isinstance(value := row[index], int | float)]
        totals.append(sum(found) if found else None)
    lines = [names, *rows, *([totals] if keys and rows else [])]
    return _aligned([[line[index] for index in shown] for line in lines], keys)


def _aligned(lines: Sequence[Sequence[Cell]], left: int) -> str:
    """Write columns, of which the first ones stand at the left."""
    cells = [[_plain(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in cells
    )


def _plain(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))  # a client chose it


def _csv(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None else _safe(value) for value in row] for row in rows])
    return text.getvalue()


def _safe(value: str | int | float) -> str | int | float:
    """Keep a spreadsheet from taking a name that a client chose for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value


def _json(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
