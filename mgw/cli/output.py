"""Output of commands: tables for people, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

Cell = str | int | float | None
"""``None``: nobody knows."""
_LARGE: Final = 100
"""The value from which on two decimals are enough for people."""
FORMATS: Final = ("table", "csv", "json")


def print_rows(form: str, names: Sequence[str], rows: Sequence[Sequence[Cell]], nothing: str) -> None:
    """Print rows of text; in place of a table without any, say so on standard error.

    :param nothing: what to say then.
    """
    if rows or form != "table":
        sys.stdout.write(write_rows(form, names, rows))
    else:
        sys.stderr.write(f"{nothing}\n")


def print_json(found: object) -> None:
    """Print what programs read."""
    sys.stdout.write(_json_text(found))


class SumsTable(NamedTuple):
    """How a table for people shows sums."""

    totals: Sequence[Cell]
    titles: Mapping[str, str]
    """The titles of the columns that it has."""
    quiet: Collection[str] = ()
    """The columns that it leaves out while all their values are 0."""
    decimals: Mapping[str, int] = MappingProxyType({})
    """The decimals to which the values of a column are rounded."""


def write_sums(
    form: str, names: Sequence[str], rows: Sequence[Sequence[Cell]], keys: int, table: SumsTable
) -> str:
    """Write rows whose first columns are keys, and all others sums: a table has a line for the total.

    :param form: one of :data:`FORMATS`.
    """
    return _sums_table(names, rows, keys, table) if form == "table" else _for_programs(form, names, rows)


def write_rows(form: str, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Write rows of text."""
    return _aligned([names, *rows], len(names)) if form == "table" else _for_programs(form, names, rows)


def _for_programs(form: str, names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    return _csv(names, rows) if form == "csv" else _json(names, rows)


def _sums_table(names: Sequence[str], rows: Sequence[Sequence[Cell]], keys: int, table: SumsTable) -> str:
    """Write columns for people; those that nobody has a value for are left out, but for that of requests."""
    nothing = {name: (None, 0) if name in table.quiet else (None,) for name in names}
    shown = [
        index
        for index, name in enumerate(names)
        if index <= keys or (name in table.titles and any(row[index] not in nothing[name] for row in rows))
    ]
    head = [table.titles.get(name, name) for name in names]
    total = ["total" if index == 0 else "" for index in range(keys)]
    lines = [*rows, *([[*total, *table.totals]] if keys and rows else [])]
    places = [table.decimals.get(name) for name in names]
    return _aligned(
        [
            [head[index] for index in shown],
            *([_rounded(line[index], places[index]) for index in shown] for line in lines),
        ],
        keys,
    )


def _rounded(value: Cell, decimals: int | None) -> Cell:
    if not isinstance(value, float) or decimals is None:
        return value
    return round(value, decimals if value < _LARGE else min(decimals, 2))


def _aligned(lines: Sequence[Sequence[Cell]], left: int) -> str:
    """Write columns, of which the first ones stand at the left."""
    cells = [[_cell_text(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in cells
    )


def _cell_text(value: Cell) -> str:
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
    return _json_text([dict(zip(names, row, strict=True)) for row in rows])


def _json_text(found: object) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
