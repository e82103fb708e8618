"""Sums of closed hours beside the events of an SQLite file, so that a month is added up as quickly as a day.

``usage_hours`` has a row for each hour and each combination of :data:`LABELS` in it: the sums of
:data:`~mgw.usage.usage_sums.SUMS`, and for both times their sum and their counts in buckets
(:mod:`mgw.usage.buckets`).  ``usage_hours_closed`` says for which hours these rows are all that there is to
know; an hour that is not in there, or is there with another format, is read from its events.

* Whatever adds, changes or removes an event of a closed hour reopens it, by triggers of the file itself: a
  version of the gateway that knows nothing of hours does so, too.
* An hour is read in slices, outside of any transaction.  Meanwhile it stands in ``usage_hours_closed`` with
  the format :data:`_UNFINISHED`.  If that row is gone in the end, an event came in between, and the hour is
  left for the next pass.
* No row of either table refers to a row of ``usage_events``, so ``VACUUM`` may number those anew.
* Hours are ranges of text: ``2026-01-31T12 <= time < 2026-01-31T13``.  An hour with a time of another form
  than the gateway's is never closed.

All of this is derived: tables with other columns are made anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from mgw.usage.buckets import add_up, bucket_sql, text_of
from mgw.usage.event import timestamp
from mgw.usage.usage_sums import EVENTS, SUMS, is_overflow, sum_expression, time_value

HOURS: Final = "usage_hours"
CLOSED: Final = "usage_hours_closed"
FORMAT: Final = 1
"""The format of an hour's rows; a change of what sums and buckets mean gets another number."""
LABELS: Final = (
    *("client", "provider", "model", "route", "status", "error", "key_hash"),
    *("client_groups", "tags"),  # as JSON
)
TIMES: Final = ("latency", "ttft")
SLICE: Final = 20_000
"""How many events are read at once."""
CLEANED_AT_ONCE: Final = 5000
_UNFINISHED: Final = 0
_TIME_COLUMNS: Final = tuple((f"{name}_us INTEGER", f"{name}_counts TEXT") for name in TIMES)
COLUMNS: Final = (
    "hour TEXT NOT NULL",
    *(f"{label} TEXT" for label in LABELS),
    *(f"{name} INTEGER" for name in SUMS),
    *(column for columns in _TIME_COLUMNS for column in columns),
)
"""Sums are in whole units: nanodollars, thousandths of a minute, microseconds."""
COLUMN_NAMES: Final = tuple(column.partition(" ")[0] for column in COLUMNS)
_WIDTH: Final = len(LABELS)
_REOPEN: Final = (
    f"DELETE FROM {CLOSED} "  # noqa: S608 (names of ours, here and below)
    f"WHERE hour = (SELECT max(hour) FROM {CLOSED} WHERE hour <= {{0}}.time) AND ends > {{0}}.time;"
)
_TRIGGERS: Final = (
    ("added", "INSERT", ("NEW",)),
    ("changed", "UPDATE", ("OLD", "NEW")),
    ("removed", "DELETE", ("OLD",)),
)
_NEXT_HOUR: Final = f"""
WITH RECURSIVE found(hour) AS (
  SELECT substr(min(time), 1, 13) FROM {EVENTS} WHERE time > ?1
  UNION
  SELECT (SELECT substr(min(time), 1, 13) FROM {EVENTS} WHERE time > found.hour || char(1114111))
  FROM found WHERE found.hour < ?2
)
SELECT hour, strftime('%Y-%m-%dT%H', hour || ':00', '+1 hour') FROM found
WHERE hour < ?2 AND strftime('%Y-%m-%dT%H', hour || ':00') = hour
AND hour NOT IN (SELECT hour FROM {CLOSED} WHERE format = {FORMAT}) LIMIT 1
"""  # noqa: S608
"""A query that goes from one hour that has events to the next, by the index of their times."""
_SLICE_END: Final = (
    f"SELECT time FROM {EVENTS} WHERE time >= ? AND time < ? ORDER BY time LIMIT 1 OFFSET {SLICE}"  # noqa: S608
)
_CLEAN: Final = (
    f"DELETE FROM {HOURS} WHERE rowid IN (SELECT rowid FROM {HOURS} "  # noqa: S608
    f"WHERE hour NOT IN (SELECT hour FROM {CLOSED}) LIMIT {CLEANED_AT_ONCE})"
)
_OPEN: Final = f"INSERT OR REPLACE INTO {CLOSED} (hour, ends, format) VALUES (?, ?, {_UNFINISHED})"  # noqa: S608
_CLOSE: Final = f"UPDATE {CLOSED} SET format = {FORMAT} WHERE hour = ? AND format = {_UNFINISHED}"  # noqa: S608
_CLEAR: Final = f"DELETE FROM {HOURS} WHERE hour = ?"  # noqa: S608
KEEP: Final = f"INSERT INTO {HOURS} ({', '.join(COLUMN_NAMES)}) VALUES ({', '.join('?' * len(COLUMN_NAMES))})"  # noqa: S608
_USUAL_TIME: Final = ":[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9]Z"
_Labels = tuple[str | None, ...]
_Sums = list[Any]  # Any: whole numbers, and text for counts


def hour_of(unix_seconds: float) -> str:
    """Return the name of an hour, such as ``2026-01-31T12``."""
    return timestamp(unix_seconds)[:13]


def extend_rollup(connection: sqlite3.Connection) -> None:
    """Make the tables and triggers that a file of events lacks."""
    create_hours(connection)
    for name, event, rows in _TRIGGERS:
        connection.execute(
            f"CREATE TRIGGER IF NOT EXISTS {EVENTS}_{name} AFTER {event} ON {EVENTS} "
            f"BEGIN {' '.join(map(_REOPEN.format, rows))} END"
        )


def create_hours(connection: sqlite3.Connection) -> None:
    """Make the tables, unless they are there as this version makes them."""
    known = tuple(row[1] for row in connection.execute(f"PRAGMA table_info({HOURS})"))
    if known != COLUMN_NAMES:
        connection.execute(f"DROP TABLE IF EXISTS {HOURS}")
        connection.execute(f"DROP TABLE IF EXISTS {CLOSED}")
        connection.execute(f"CREATE TABLE {HOURS} ({', '.join(COLUMNS)})")
        connection.execute(f"CREATE INDEX {HOURS}_hour ON {HOURS} (hour)")
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {CLOSED} "
        "(hour TEXT PRIMARY KEY NOT NULL, ends TEXT NOT NULL, format INTEGER NOT NULL) WITHOUT ROWID"
    )


def time_sums(name: str, number: str = "{}") -> tuple[str, str]:
    """Return in SQL the sum of a time of events and its counts as text.

    :param name: the microseconds of an event.
    :param number: turns them into what is added up.
    """
    return f"sum({number.format(name)})", f"group_concat({bucket_sql(name)}, '')"


def _slice_statement() -> str:
    known = frozenset(_EVENT_COLUMNS)
    times = chain.from_iterable(map(time_sums, TIMES))
    sums = [sum_expression(name, known) for name in SUMS]
    inner = [*LABELS, *(f"{time_value(f'{name}_ms', known)} AS {name}" for name in TIMES)]
    inner += sorted(known.difference(LABELS))
    return (
        f"SELECT sum(time NOT GLOB ?), {', '.join([*LABELS, *sums, *times])} FROM (SELECT {', '.join(inner)} "  # noqa: S608
        f"FROM {EVENTS} WHERE time >= ? AND time < ? LIMIT -1) GROUP BY {', '.join(LABELS)}"
    )


_EVENT_COLUMNS: Final = {"time", "transport", "latency_ms", "ttft_ms", *LABELS}.union(
    *(found.columns for found in SUMS.values())
)
_SLICE: Final = _slice_statement()


@dataclass(slots=True, eq=False, repr=False)
class HourRollup:
    """Closes the hours of a file, one piece of work after the other."""

    _after: str = ""
    """The hour that was looked at last in this pass."""
    _ends: str = ""
    """The end of the hour that is being read; empty between two hours."""
    _at: str = ""
    """Where the next slice begins."""
    _rows: dict[_Labels, _Sums] = field(default_factory=dict)

    def advance(self, connection: sqlite3.Connection, end: str) -> bool:
        """Do a piece of work; return whether there is more of it, or the pass is over.

        :param end: hours before this one are to be closed, such as ``2026-01-31T12``.
        """
        if not self._ends:
            return self._begin(connection, end)
        if self._at < self._ends:
            self._read(connection)
        else:
            self._finish(connection)
        return True

    def _begin(self, connection: sqlite3.Connection, end: str) -> bool:
        if not self._after and connection.execute(_CLEAN).rowcount >= CLEANED_AT_ONCE:
            return True
        after = f"{self._after}\U0010ffff" if self._after else ""
        found = connection.execute(_NEXT_HOUR, (after, end)).fetchone()
        if found is None:
            self._after = ""
            return False
        hour, ends = found
        connection.execute(_OPEN, (hour, ends))
        self._after = self._at = hour
        self._ends = ends
        self._rows = {}
        return True

    def _read(self, connection: sqlite3.Connection) -> None:
        """Add up the next slice."""
        found = connection.execute(_SLICE_END, (self._at, self._ends)).fetchone()
        until = found[0] if found is not None and found[0] > self._at else self._ends
        try:
            for unusual, *row in connection.execute(_SLICE, (self._after + _USUAL_TIME, self._at, until)):
                if unusual:
                    self._ends = ""
                    return
                self._add(tuple(row[:_WIDTH]), row[_WIDTH:])
        except sqlite3.OperationalError as error:
            if not is_overflow(error):
                raise
            self._ends = ""
            return
        self._at = until

    def _add(self, labels: _Labels, row: _Sums) -> None:
        before = self._rows.get(labels)
        self._rows[labels] = list(map(compact, row)) if before is None else add_sums(before, row)

    def _finish(self, connection: sqlite3.Connection) -> None:
        """Close the hour, unless an event came in between or its sums are too large."""
        hour = self._after
        rows = [(hour, *labels, *row) for labels, row in self._rows.items()]
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute(_CLOSE, (hour,)).rowcount:
            connection.execute(_CLEAR, (hour,))
            with suppress(OverflowError):
                connection.executemany(KEEP, rows)
                connection.execute("COMMIT")
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        self._ends = ""
        self._rows = {}


def compact(value: Any) -> Any:
    """Return counts in as few characters as can be, and a sum as it is."""
    return text_of(add_up(value)) if isinstance(value, str) else value


def add_sums(row: Iterable[Any], other: Iterable[Any]) -> _Sums:
    """Return the sums of two rows of sums and counts; what neither has a value for stays unknown."""
    return [
        compact(ours if theirs is None else theirs if ours is None else ours + theirs)
        for ours, theirs in zip(row, other, strict=True)
    ]
