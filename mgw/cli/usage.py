"""``mgw usage``: what the events in an SQLite file add up to (``hooks.sqlite``)."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from mgw.config.problems import ConfigError, Report
from mgw.config.yaml_document import read

TABLE: Final = "usage_events"
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
SUMS: Final = MappingProxyType(
    {
        "requests": ("request_id", "count(*)"),
        "failed": ("status", "sum(status <> 'ok')"),
        "tokens_in": ("tokens_in", "sum(tokens_in)"),
        "tokens_out": ("tokens_out", "sum(tokens_out)"),
        "cache_read_tokens": ("cache_read_tokens", "sum(cache_read_tokens)"),
        "cache_write_tokens": ("cache_write_tokens", "sum(cache_write_tokens)"),
        "reasoning_tokens": ("reasoning_tokens", "sum(reasoning_tokens)"),
        "session_minutes": ("session_minutes", "round(sum(session_minutes), 3)"),
        # Whole nanodollars, so that a million events add up to what they cost.
        "cost_usd": ("cost_usd", "sum(cast(round(cost_usd * 1000000000) as integer)) / 1000000000.0"),
    }
)
"""What is summed up, in the same way."""
_AGO: Final = re.compile(r"(\d{1,5})([dh])")
_Cell = str | int | float | None


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
    parser.add_argument("--format", choices=tuple(_WRITERS), default="table", help="(%(default)s)")


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
    sys.stdout.write(_WRITERS[said.format]((*groups, *SUMS), rows))
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
        text = Path(file).read_bytes().decode("utf-8", "surrogateescape")
        value: Any = read(text, report).value  # Any: YAML
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


def _query(path: Path, groups: Sequence[str], since: str | None, until: str | None) -> list[list[_Cell]]:
    if not path.is_file():
        raise UsageReportError(f"{path} does not exist yet, or is no file")
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
            known = {row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})")}
            if not known:
                raise UsageReportError(f"{path} has no table {TABLE}")
            return [list(row) for row in connection.execute(*_statement(known, groups, since, until))]
    except sqlite3.Error as error:
        raise UsageReportError(f"{path}: {error}") from None


def _statement(
    known: set[str], groups: Sequence[str], since: str | None, until: str | None
) -> tuple[str, tuple[str, ...]]:
    """Return the query; a column that the file does not have is unknown in each event."""
    wanted = [*(GROUPS[name] for name in groups), *SUMS.values()]
    values = ", ".join(value if column in known else "NULL" for column, value in wanted)
    limits = [(f"time {sign} ?", time) for sign, time in ((">=", since), ("<", until)) if time is not None]
    where = " AND ".join(condition for condition, _ in limits) or "1"
    numbers = ", ".join(str(number + 1) for number in range(len(groups)))
    order = f" GROUP BY {numbers} ORDER BY {numbers}" if groups else ""
    text = f"SELECT {values} FROM {TABLE} WHERE {where}{order}"  # noqa: S608 (nothing in it comes from outside)
    return text, tuple(time for _, time in limits)


def _table(names: Sequence[str], rows: Iterable[Sequence[_Cell]]) -> str:
    """Write columns for people; those that nobody has a value for are left out."""
    listed = list(rows)
    first_sum = len(names) - len(SUMS)
    shown = [
        index
        for index in range(len(names))
        if index < first_sum + 2 or any(row[index] is not None for row in listed)
    ]
    totals: list[_Cell] = ["total" if index == 0 and first_sum else "" for index in range(first_sum)]
    for index in range(first_sum, len(names)):
        found = [value for row in listed if isinstance(value := row[index], int | float)]
        totals.append(sum(found) if found else None)
    lines = [names, *listed, *([totals] if first_sum and listed else [])]
    cells = [[_plain(line[index]) for index in shown] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "".join(
        "  ".join(
            cell.ljust(width) if index < first_sum else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in cells
    )


def _plain(value: _Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))  # a client chose it


def _csv(names: Sequence[str], rows: Iterable[Sequence[_Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None else _safe(value) for value in row] for row in rows])
    return text.getvalue()


def _safe(value: str | int | float) -> str | int | float:
    """Keep a spreadsheet from taking a name that a client chose for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value


def _json(names: Sequence[str], rows: Iterable[Sequence[_Cell]]) -> str:
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


_WRITERS: Final[dict[str, Callable[[Sequence[str], Iterable[Sequence[_Cell]]], str]]] = {
    "table": _table,
    "csv": _csv,
    "json": _json,
}
