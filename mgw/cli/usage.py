"""``mgw usage``: what the events in an SQLite file add up to (``hooks.sqlite``)."""

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
from typing import Any, Final
from urllib.parse import quote

from mgw.cli.output import FORMATS, Cell, write_sums
from mgw.config.load import read_text
from mgw.config.problems import ConfigError, Report
from mgw.config.yaml_document import read
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


class UsageReportError(Exception):
    """There is nothing to report; the text says why."""


def add_arguments(parser: argparse.ArgumentParser, default_file: str) -> None:
    """Declare the options of the command."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        default=default_file,
        help="the configuration whose hooks.sqlite.path is read (%(default)s)",
    )
    source.add_argument("--database", metavar="FILE", help="the SQLite file itself")
    parser.add_argument(
        "--by",
        metavar="WHAT",
        default="model",
        help=f"one or more of {', '.join(GROUPS)}, separated by commas (%(default)s)",
    )
    times = "a time such as 2026-01-31, 2026-01-31T12:00:00Z, 7d or 12h (that long ago); times are in UTC"
    parser.add_argument("--since", metavar="TIME", help=f"only events from then on: {times}")
    parser.add_argument("--until", metavar="TIME", help="only events before then")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(%(default)s)")


def report(said: argparse.Namespace) -> int:
    """Print the sums; return the exit status."""
    try:
        groups = _groups(said.by)
        now = datetime.now(UTC)
        since, until = (_moment(text, now) for text in (said.since, said.until))
        path = Path(said.database) if said.database else _configured(said.config)
        rows = _query(path, groups, since, until)
    except UsageReportError as error:
        sys.stderr.write(f"mgw usage: {error}\n")
        return 1
    sys.stdout.write(write_sums(said.format, (*groups, *SUMS), rows, len(groups)))
    return 0


def _groups(text: str) -> tuple[str, ...]:
    groups = tuple(dict.fromkeys(filter(None, text.split(","))))
    for name in groups:
        if name not in GROUPS:
            raise UsageReportError(f"--by: expected {', '.join(GROUPS)}, found {name!r}")
    return groups


def _moment(text: str | None, now: datetime) -> str | None:
    """Return a time as events have it."""
    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            hours = int(ago[1]) * (24 if ago[2] == "d" else 1)
            moment = now - timedelta(hours=hours)
        else:
            moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageReportError(f"not a time: {text!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _configured(file: str) -> Path:
    """Return the file that a configuration names; what else is in it is not looked at."""
    report = Report(file)
    try:
        value: Any = read(read_text(file), report).value  # Any: YAML
        report.raise_if_any()
    except OSError as error:
        raise UsageReportError(f"{file} cannot be read: {error.strerror}; or name the --database") from None
    except ConfigError as error:
        raise UsageReportError(str(error)) from None
    for key in ("hooks", "sqlite", "path"):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise UsageReportError(f"{file} has no hooks.sqlite.path; name the --database")
    return Path(value)


def _query(path: Path, groups: Sequence[str], since: str | None, until: str | None) -> list[list[Cell]]:
    if not path.is_file():
        raise UsageReportError(f"{path} does not exist yet, or is no file")
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
            known = {row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})")}
            if not known:
                raise UsageReportError(f"{path} has no table {TABLE}")
            try:
                found = connection.execute(*_statement(known, groups, since, until)).fetchall()
            except sqlite3.Error as error:
                if not is_overflow(error):
                    raise
                found = connection.execute(*_statement(known, groups, since, until, exact=False)).fetchall()
            return [_shown(row, len(groups)) for row in found]
    except sqlite3.Error as error:
        raise UsageReportError(f"{path}: {error}") from None


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
