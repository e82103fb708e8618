"""Totals of the usage events in the ``hooks.sqlite`` file, for the dashboard.

SQLite adds everything up in the thread of the queries (:mod:`mgw.dashboard.event_queries`), and hands on a
few thousand rows at most.

1. The keys with most requests, where sums are wanted by key.
2. The sums of each step, by the first 20 of them and all others together.
3. Where there are more than 20 keys, the sums of the others up to the first 1,000.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred

from mgw.dashboard.event_queries import EventFile, EventQueries
from mgw.dashboard.usage_answer import (
    BOUNDS,
    MAX_GROUPS,
    MAX_KEY_BYTES,
    MAX_SERIES_GROUPS,
    OTHER,
    UsageRows,
    render_usage,
)
from mgw.dashboard.usage_query import UsageQuery, rfc3339
from mgw.usage.usage_sums import SUMS, is_overflow, sum_expression, time_condition, time_value
from mgw.usage.usage_table import TABLE

ADVICE: Final = "choose a shorter time range, or use `mgw usage`, which has no time limit"
"""For a query that takes too long."""


@dataclass(slots=True, eq=False)
class UsageFile:
    """Reads whatever file it is told to."""

    queries: EventQueries

    def answer(self, path: str, query: UsageQuery) -> Deferred[bytes]:
        """Return the answer in JSON; cancel to hear no more of it.

        Fails with :class:`GatewayError` (``OVERLOADED``) where it takes too long, or the file cannot be read.
        """
        return self.queries.ask(EventFile(path), partial(_answer, query), ADVICE)


class _Source(NamedTuple):
    """An open file, and what of it is asked for."""

    connection: sqlite3.Connection
    known: frozenset[str]
    """The columns of its table."""
    query: UsageQuery
    exact: bool
    """Whether sums are whole numbers."""

    @property
    def key(self) -> str:
        """The key in SQL."""
        by = self.query.by
        if by is None or by not in self.known:
            return "NULL"
        return f"CASE WHEN length(CAST({by} AS BLOB)) > {MAX_KEY_BYTES} THEN '{OTHER}' ELSE {by} END"

    def select(self, statement: str, *values: str | int) -> sqlite3.Cursor:
        """Run a statement about the events of the time that is asked for; ``{}`` stands for that."""
        condition, times = time_condition(rfc3339(self.query.since), rfc3339(self.query.until))
        return self.connection.execute(statement.format(condition), (*values, *times))


def _answer(query: UsageQuery, connection: sqlite3.Connection | None) -> bytes:
    rows = UsageRows()
    if connection is not None:
        connection.execute("SAVEPOINT sums")
        try:
            _read_table(connection, query, rows, exact=True)
        except sqlite3.Error as error:
            if not is_overflow(error):
                raise
            connection.execute("ROLLBACK TO sums")  # and the tables of its keys are gone
            rows = UsageRows()
            _read_table(connection, query, rows, exact=False)
    for _ in rows.fold():
        pass
    return b"".join(render_usage(query, "sqlite", rows))


def _read_table(connection: sqlite3.Connection, query: UsageQuery, rows: UsageRows, *, exact: bool) -> None:
    """Add up what is in the table."""
    known = frozenset(row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})"))
    if "time" in known:
        _read(_Source(connection, known, query, exact), rows)


def _read(source: _Source, rows: UsageRows) -> None:
    keys = _most_asked(source) if source.query.by is not None else []
    _name_keys(source.connection, "shown", keys[:MAX_SERIES_GROUPS])
    step = f"CAST(strftime('%s', time) AS INTEGER) / {source.query.step}"
    for number, key, *sums in _sums(source, step, "shown"):
        if number is not None:  # a time that is none, from who knows where
            rows.add(number, key, sums)
    if len(keys) > MAX_SERIES_GROUPS:
        _name_keys(source.connection, "listed", keys[MAX_SERIES_GROUPS:])
        rows.groups.pop(OTHER, None)
        others = _sums(source, "0", "listed", f"{source.key} NOT IN temp.shown")
        rows.groups.update((key, sums) for _, key, *sums in others)


def _most_asked(source: _Source) -> list[str]:
    found = source.select(
        f"SELECT {source.key} AS key FROM {TABLE} WHERE {{}} GROUP BY 1 "  # noqa: S608 (nothing in it comes from outside)
        f"HAVING key IS NOT NULL AND key <> '{OTHER}' ORDER BY count(*) DESC, key LIMIT {MAX_GROUPS}",
    )
    return [key for (key,) in found]


def _name_keys(connection: sqlite3.Connection, table: str, keys: Collection[str]) -> None:
    """Write keys that have sums of their own to a table of the connection."""
    connection.execute(f"CREATE TEMP TABLE {table} (key TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.executemany(f"INSERT INTO temp.{table} VALUES (?)", [(key,) for key in keys])  # noqa: S608 (ours)


def _sums(
    source: _Source, step: str, named: str, condition: str = "1"
) -> Iterator[tuple[Any, ...]]:  # Any: numbers, and text for the key
    """Return the step, the key and the row of each, one after the other.

    :param named: the table of the keys that have rows of their own.
    :param condition: which events count, in SQL.
    """
    known = source.known
    times = [f"sum({name}){_counts(name)}" for name in ("latency", "ttft")]
    sums = ", ".join([*(sum_expression(name, known, exact=source.exact) for name in SUMS), *times])
    shown = f"CASE WHEN key IS NULL OR key IN temp.{named} THEN key ELSE '{OTHER}' END"
    inner = [f"{step} AS step", f"{source.key} AS key"]
    inner += [f"{time_value(f'{name}_ms', known)} AS {name}" for name in ("latency", "ttft")]
    inner += sorted(known.intersection(chain.from_iterable(found.columns for found in SUMS.values())))
    # Without LIMIT, SQLite would work out what the inner one has anew for each of the sums.
    return source.select(
        f"SELECT step, {shown}, {sums} "  # noqa: S608 (nothing in it comes from outside)
        f"FROM (SELECT {', '.join(inner)} FROM {TABLE} WHERE {{}} AND {condition} LIMIT -1) GROUP BY 1, 2",
    )


def _counts(name: str) -> str:
    within = "".join(f", sum({name} <= {bound})" for bound in BOUNDS)
    return f"{within}, count({name})"
