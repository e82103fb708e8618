"""``mgw usage``: totals of the events in an SQLite file (``hooks.sqlite``)."""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mgw.cli.arguments import add_file, add_format
from mgw.cli.output import FORMATS, Cell, write_sums
from mgw.config.load import read_text
from mgw.config.location import AS_WHOM, describe_unreadable
from mgw.config.problems import ConfigError, Report
from mgw.config.yaml_document import read
from mgw.regular_file import open_regular_file, read_up_to
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
_AGO: Final = re.compile(r"(\d{1,5})([dh])")
_SQLITE: Final = b"SQLite format 3"
"""What each of its files begins with."""


class _Found(NamedTuple):
    rows: list[list[Cell]]
    last: str | None
    """The time of the last event, if it was not among those asked for."""


class UsageReportError(Exception):
    """There is nothing to report; the text says why."""


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
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_moment,
        help="only events since then: a date such as 2026-01-31, a time such as 2026-01-31T12:00:00Z, or "
        "an age such as 7d or 12h; times are in UTC",
    )
    parser.add_argument("--until", metavar="TIME", type=_moment, help="only events before this time")
    add_format(parser, FORMATS)


def report(said: argparse.Namespace) -> int:
    """Print the sums; return the exit status."""
    if said.database and said.names_file:
        sys.stderr.write("mgw usage: a configuration file and --database: name only one\n")
        return 2
    try:
        path = Path(said.database) if said.database else _configured(said.config)
        found = _query(path, said)
    except UsageReportError as error:
        sys.stderr.write(f"mgw usage: {error}\n")
        return 1
    if not found.rows and said.format == "table":
        since = f" in this period; the last one is from {found.last}" if found.last else f" yet in {path}"
        sys.stderr.write(f"no usage events{since}\n")
    else:
        sys.stdout.write(write_sums(said.format, (*said.by, *SUMS), found.rows, len(said.by)))
    return 0


def _groups(text: str) -> tuple[str, ...]:
    groups = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in groups:
        if name not in GROUPS:
            raise argparse.ArgumentTypeError(
                f"unknown column {name!r}; expected one or more of {', '.join(GROUPS)}"
            )
    return groups


def _moment(text: str) -> str:
    """Return a time as events have it."""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            hours = int(ago[1]) * (24 if ago[2] == "d" else 1)
            moment = datetime.now(UTC) - timedelta(hours=hours)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"not a time: {text!r}; expected one such as 2026-01-31, 2026-01-31T12:00:00Z, 7d or 12h"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _configured(file: str) -> Path:
    """Return the SQLite file that a configuration names; no other setting is looked at."""
    report = Report(file)
    try:
        with open_regular_file(file) as opened:
            if read_up_to(opened, len(_SQLITE)) == _SQLITE:
                raise UsageReportError(f"{file} is an SQLite file; to read it: mgw usage --database {file}")
        value: Any = read(read_text(file), report).value  # Any: YAML
        report.raise_if_any()
    except OSError as error:
        raise UsageReportError(describe_unreadable(file, error, "mgw usage")) from None
    except ConfigError as error:
        raise UsageReportError(str(error)) from None
    for key in ("hooks", "sqlite", "path"):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise UsageReportError(
            f"{file} has no hooks.sqlite.path, so its gateway keeps no usage events in SQLite; to read "
            "another file: mgw usage --database FILE"
        )
    return Path(value)


def _query(path: Path, said: argparse.Namespace) -> _Found:
    """Read the file.

    :raises UsageReportError: it cannot be read.
    """
    _check_file(path)
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
            known = {row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})")}
            if not known and said.database:
                raise UsageReportError(f"{path} has no table {TABLE}: it does not come from hooks.sqlite")
            if not known:
                return _Found([], None)
            rows = _sums(connection, known, said)
            if rows:
                return _Found([_shown(row, len(said.by)) for row in rows], None)
            ((last,),) = connection.execute(f"SELECT max(time) FROM {TABLE}")  # noqa: S608 (a constant)
            return _Found([], last)
    except sqlite3.Error as error:
        raise UsageReportError(f"{path}: {error}") from None


def _check_file(path: Path) -> None:
    try:
        exists, is_file = path.exists(), path.is_file()
    except OSError as error:
        raise UsageReportError(f"{path}: {error.strerror}; {AS_WHOM}") from None
    if not exists:
        raise UsageReportError(f"{path} does not exist yet; a gateway with hooks.sqlite creates it")
    if not is_file:
        raise UsageReportError(f"{path} is not a file")


def _sums(connection: sqlite3.Connection, known: set[str], said: argparse.Namespace) -> list[Any]:
    """Return the rows of the report; Any: what SQLite has."""
    arguments = known, said.by, said.since, said.until
    try:
        return connection.execute(*_statement(*arguments)).fetchall()
    except sqlite3.Error as error:
        if not is_overflow(error):
            raise
        return connection.execute(*_statement(*arguments, exact=False)).fetchall()


def _statement(
    known: set[str], groups: Sequence[str], since: str | None, until: str | None, *, exact: bool = True
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
