"""``mgw usage``: totals of the events in an SQLite file (``hooks.sqlite``)."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from mgw.cli.arguments import add_file, add_format
from mgw.cli.event_file import EventFileError, configured_file, open_events
from mgw.cli.moments import add_times
from mgw.cli.output import FORMATS, Cell, write_sums
from mgw.usage.usage_sums import SUMS, is_overflow, sum_expression, time_condition
from mgw.usage.usage_table import TABLE

GROUPS: Final = MappingProxyType(
    {
        "client": ("client", "client"),
        "model": ("model", "model"),
        "day": ("time", "substr(time, 1, 10)"),
        "provider": ("provider", "provider"),
        "status": ("status", "status"),
    }
)
"""By what can be summed up: the column that this needs, and its value in SQL."""


class _Found(NamedTuple):
    rows: list[list[Cell]]
    last: str | None
    """The time of the last event, if it was not among those asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file(parser, "the configuration file with hooks.sqlite.path")
    parser.add_argument("--database", metavar="FILE", help="an SQLite file, instead of a configuration")
    parser.add_argument(
        "--by",
        metavar="COLUMNS",
        type=_groups,
        default="model",
        help=f"one or more of {', '.join(GROUPS)}, separated by commas (default: %(default)s)",
    )
    add_times(parser)
    add_format(parser, FORMATS)


def report(said: argparse.Namespace) -> int:
    """Print the sums; return the exit status."""
    if said.database and said.names_file:
        sys.stderr.write("mgw usage: a configuration file and --database: name only one\n")
        return 2
    try:
        path = Path(said.database) if said.database else configured_file(said.config, "mgw usage")
        found = _query(path, said)
    except EventFileError as error:
        sys.stderr.write(f"mgw usage: {error}\n")
        return 1
    if not found.rows and said.format == "table":
        since = f" in this period; the last one is from {found.last}" if found.last else f" yet in {path}"
        sys.stderr.write(f"no usage events{since}\n")
    else:
        names, quiet = (*said.by, *SUMS), ("unpriced", "uncounted")
        sys.stdout.write(write_sums(said.format, names, found.rows, len(said.by), quiet))
    return 0


def _groups(text: str) -> tuple[str, ...]:
    groups = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in groups:
        if name not in GROUPS:
            raise argparse.ArgumentTypeError(
                f"unknown column {name!r}; expected one or more of {', '.join(GROUPS)}"
            )
    return groups


def _query(path: Path, said: argparse.Namespace) -> _Found:
    """Read the file.

    :raises EventFileError: it cannot be read.
    """
    with open_events(path, is_named=bool(said.database)) as (connection, known):
        if not known:
            return _Found([], None)
        rows = _sums(connection, known, said)
        if rows:
            return _Found([_shown(row, len(said.by)) for row in rows], None)
        ((last,),) = connection.execute(f"SELECT max(time) FROM {TABLE}")  # noqa: S608 (a constant)
        return _Found([], last)


def _sums(connection: sqlite3.Connection, known: Collection[str], said: argparse.Namespace) -> list[Any]:
    """Return the rows of the report; Any: what SQLite has."""
    arguments = known, said.by, said.since, said.until
    try:
        return connection.execute(*_statement(*arguments)).fetchall()
    except sqlite3.Error as error:
        if not is_overflow(error):
            raise
        return connection.execute(*_statement(*arguments, exact=False)).fetchall()


def _statement(
    known: Collection[str], groups: Sequence[str], since: str | None, until: str | None, *, exact: bool = True
) -> tuple[str, tuple[str, ...]]:
    """Return the query; a column that the file does not have is unknown in each event."""
    keys = [value if column in known else "NULL" for column, value in (GROUPS[name] for name in groups)]
    values = ", ".join([*keys, *(sum_expression(name, known, exact=exact) for name in SUMS)])
    where, times = time_condition(since, until)
    numbers = ", ".join(str(number + 1) for number in range(len(groups)))
    order = f" GROUP BY {numbers} ORDER BY {numbers}" if groups else ""
    return f"SELECT {values} FROM {TABLE} WHERE {where}{order}", times  # noqa: S608 (nothing in it comes from outside)


def _shown(row: Sequence[Any], keys: int) -> list[Cell]:  # Any: what SQLite has
    """Return a row with its sums in the event's units."""
    sums = zip(SUMS.values(), row[keys:], strict=True)
    return [*row[:keys], *(found.shown(whole) for found, whole in sums)]
