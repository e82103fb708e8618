"""Sums of a time from closed hours and from events, for the dashboard and ``mgw usage``.

A time is cut into whole hours that are closed (:mod:`mgw.usage.usage_rollup`) and into what is left: the
pieces of hours at both ends, and hours that are open.  Sums of the former come from ``usage_hours``, those of
the latter from ``usage_events``.  Which is which stands in two tables of the connection, within whose
transaction all of this has to happen, so that no event counts twice.

The sums of both kinds are whole numbers that can be added up, so it does not matter which hours are closed.
A file without hours, or with those of another version, is read event by event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace as replace_fields

from mgw.usage.buckets import number_of, percentiles
from mgw.usage.usage_rollup import CLOSED, COLUMN_NAMES, FORMAT, HOURS, LABELS, TIMES, time_sums
from mgw.usage.usage_sums import (
    EVENTS,
    SUMS,
    THOUSANDTHS,
    columns_of,
    is_overflow,
    sum_expression,
    time_value,
)

T = TypeVar("T")

WIDTH: Final = len(SUMS) + 2 * len(TIMES)
"""The width of a row: the sums in order, then for each time its sum in microseconds and its counts."""
NAMES: Final = (
    *SUMS,
    *(f"{name}_ms{word}" for name in TIMES for word in ("", "_p50", "_p95")),
)
"""The names of the values that a row is shown as."""
_SHARES: Final = (0.5, 0.95)
Row = list[int | None]
NO_SUMS: Final = (*(0 if found.is_count else None for found in SUMS.values()), *[None] * (2 * len(TIMES)))
"""The row of no events."""
_COUNTS: Final = tuple(len(SUMS) + 2 * index + 1 for index in range(len(TIMES)))
HOUR_SECONDS: Final = 3600
OTHER: Final = "other"
"""The key of what has no place of its own."""
MAX_KEY_BYTES: Final = 512
"""The longest key; a longer one counts as ``other``, since a client can send any name of a model."""
_WHOLE: Final = "whole_hours"
_REST: Final = "open_times"
_LAST: Final = "\U0010ffff"
"""A text that sorts behind every time."""
_NO_STEP: Final = "0"
_ON_THE_HOUR: Final = ":00:00.000Z"
_PLAN: Final = (
    f"SELECT hour, ends, CAST(strftime('%s', hour || ':00') AS INTEGER) FROM {CLOSED} "  # noqa: S608 (names of ours)
    f"WHERE format = {FORMAT} AND hour || '{_ON_THE_HOUR}' >= ? AND ends || '{_ON_THE_HOUR}' <= ? "
    "ORDER BY hour"
)


class Key(Struct, frozen=True):
    """A field by which events can be summed up."""

    column: str
    """The column that it needs."""
    of_event: str
    """The value of an event, in SQL."""
    of_hour: str
    join: str = ""
    """What takes the column apart, in SQL, where that is JSON."""
    has_several: bool = False
    """Whether an event may have several values: it then counts for each of them."""

    def wrapped(self, template: str) -> Key:
        """Return a key made of this one; ``{0}`` stands for it."""
        of_event, of_hour = template.format(self.of_event), template.format(self.of_hour)
        return replace_fields(self, of_event=of_event, of_hour=of_hour)


def _label(column: str) -> Key:
    return Key(column, column, column)


def _part(column: str, alias: str, condition: str, *, has_several: bool) -> Key:
    """Return a key that stands in a column of JSON; in memory, what is too much there is ``other``."""
    value = f"CASE WHEN {column} = '{OTHER}' THEN '{OTHER}' ELSE {alias}.value END"
    parts = f"json_each(CASE WHEN json_valid({column}) THEN {column} END)"
    return Key(column, value, value, f"LEFT JOIN {parts} AS {alias} ON {condition}", has_several)


TAG: Final = "tag:"
"""What a key begins with that is a tag; its name follows."""
KEYS: Final = MappingProxyType(
    {
        **{name: _label(name) for name in ("client", "model", "provider", "status", "error", "route")},
        "key": _label("key_hash"),
        "group": _part("client_groups", "in_group", "1", has_several=True),
        "day": Key("time", "substr(time, 1, 10)", "substr(hour, 1, 10)"),
        "hour": Key("time", "substr(time, 1, 13) || ':00Z'", "substr(hour, 1, 13) || ':00Z'"),
    }
)
FILTERS: Final = MappingProxyType(
    {name: KEYS[name].column for name in ("client", "provider", "model", "route", "status", "error", "key")}
)
"""The columns that can be asked for a value, by the names of the parameters."""


def key_of(name: str) -> Key | None:
    """Return the key of a name: one of :data:`KEYS`, or a tag; ``None``: there is none."""
    tag = name.removeprefix(TAG)
    if tag == name or not tag:
        return KEYS.get(name)
    quoted = tag.replace("'", "''")
    return _part("tags", "tag", f"tag.key = '{quoted}'", has_several=False)


class UsageRange(Struct, frozen=True):
    """What is asked for; times are text, as events have them."""

    since: str | None = None
    until: str | None = None
    step: int | None = None
    """The length of a step in seconds."""
    filters: Mapping[str, str] = MappingProxyType({})
    """The wanted values, by the names of :data:`FILTERS`."""


@dataclass(frozen=True, slots=True)
class UsageReader:
    """Adds up what a connection has of a period."""

    connection: sqlite3.Connection
    period: UsageRange
    known: frozenset[str]
    """The columns of events; none where they do not count."""
    has_hours: bool
    """Whether there is the table of hours."""
    exact: bool = True
    """Whether sums are whole numbers; else they are as near as a double can be, and never too large."""

    def rows(
        self, keys: Sequence[Key], condition: Key | None = None
    ) -> Iterator[tuple[int | None, tuple[Any, ...], Row]]:  # Any: text, or what else a file holds
        """Return a step, the values of the keys, and a row; the same ones may come twice.

        :param condition: what else must be true.
        """
        statements = [self._of_hours(keys, condition)] if self.has_hours else []
        if "time" in self.known:
            statements.append(self._of_events(keys, condition))
        for statement in statements:
            for step, *found in self._execute(statement):
                yield step, tuple(found[: len(keys)]), _row(found[len(keys) :])

    def most_asked(self, key: Key, most: int) -> list[Any]:
        """Return the values of a key that have most requests, those first."""
        found = [
            f"SELECT {value} AS key, {number} AS number {source}"
            for value, number, source in self._sources(key)
        ]
        statement = (
            f"SELECT key FROM ({' UNION ALL '.join(found)}) WHERE key IS NOT NULL "  # noqa: S608 (nothing in it comes from outside, as below)
            f"GROUP BY key ORDER BY sum(number) DESC, key LIMIT {most:d}"
        )
        return [value for (value,) in self._execute(statement)] if found else []

    def _sources(self, key: Key) -> Iterator[tuple[str, str, str]]:
        """Return in SQL, for hours and for events, a key, how many requests there are, and where."""
        if self.has_hours:
            yield key.of_hour, "requests", self._hours([key], None)
        if "time" in self.known:
            yield self._value(key), "1", self._events([key], None)

    def _execute(self, statement: str) -> sqlite3.Cursor:
        return self.connection.execute(statement, dict(self.period.filters))

    def _of_hours(self, keys: Sequence[Key], condition: Key | None) -> str:
        number = "sum({})" if self.exact else "sum({} * 1.0)"
        times = ((number.format(f"{name}_us"), f"group_concat({name}_counts, '')") for name in TIMES)
        sums = [*map(number.format, SUMS), *chain.from_iterable(times)]
        found = ["step", *(key.of_hour for key in keys), *sums]
        return f"SELECT {', '.join(found)} {self._hours(keys, condition)} {_grouped(keys)}"

    def _of_events(self, keys: Sequence[Key], condition: Key | None) -> str:
        known, step = self.known, self.period.step
        number = "{}" if self.exact else "{} * 1.0"
        times = (time_sums(name, number) for name in TIMES)
        sums = [sum_expression(name, known, exact=self.exact) for name in SUMS]
        inner = [_NO_STEP if step is None else f"CAST(strftime('%s', time) AS INTEGER) / {step:d}"]
        inner[0] += " AS step"
        inner += [f"{self._value(key)} AS key{index}" for index, key in enumerate(keys)]
        inner += [f"{time_value(f'{name}_ms', known)} AS {name}" for name in TIMES]
        inner += sorted(known.intersection(chain.from_iterable(found.columns for found in SUMS.values())))
        outer = ["step", *(f"key{index}" for index in range(len(keys))), *sums, *chain.from_iterable(times)]
        # Without LIMIT, SQLite would work out what the inner one has anew for each of the sums.
        events = f"SELECT {', '.join(inner)} {self._events(keys, condition)} LIMIT -1"
        return f"SELECT {', '.join(outer)} FROM ({events}) {_grouped(keys)}"  # noqa: S608

    def _value(self, key: Key) -> str:
        return key.of_event if key.column in self.known else "NULL"

    def _hours(self, keys: Sequence[Key], condition: Key | None) -> str:
        return (
            f"FROM temp.{_WHOLE} AS whole CROSS JOIN {HOURS} AS summed ON summed.hour = whole.start "
            f"{_joins(keys, LABELS)} "
            f"WHERE {self._filter(LABELS)} AND {'1' if condition is None else condition.of_hour}"
        )

    def _events(self, keys: Sequence[Key], condition: Key | None) -> str:
        return (
            f"FROM temp.{_REST} AS rest CROSS JOIN {EVENTS} AS event "
            "ON event.time >= rest.first AND event.time < rest.behind "
            f"{_joins(keys, self.known)} "
            f"WHERE {self._filter(self.known)} AND {'1' if condition is None else condition.of_event}"
        )

    def _filter(self, known: Iterable[str]) -> str:
        columns = {name: FILTERS[name] for name in self.period.filters}
        # The sign keeps SQLite from making an index of all events for this one query.
        return " AND ".join(
            ["1", *(f"+{column} = :{name}" if column in known else "0" for name, column in columns.items())]
        )


def open_period(connection: sqlite3.Connection, period: UsageRange) -> UsageReader:
    """Return what adds up a period of a file; to be called within a transaction."""
    known = columns_of(connection, EVENTS)
    has_hours = columns_of(connection, HOURS) == set(COLUMN_NAMES) and bool(columns_of(connection, CLOSED))
    whole: list[tuple[str, int]] = []
    rest: list[tuple[str, str]] = []
    at, last = period.since or "", period.until or _LAST
    for hour, ends, start in connection.execute(_PLAN, (at, last)) if has_hours else ():
        if not _in_one_step(start, period.step):
            continue
        if at < hour:
            rest.append((at, hour))
        whole.append((hour, 0 if period.step is None else start // period.step))
        at = ends
    if at < last:
        rest.append((at, last))
    write_plan(connection, whole, rest)
    return UsageReader(connection, period, known, has_hours)


def write_plan(
    connection: sqlite3.Connection, whole: Iterable[tuple[str, int]], rest: Iterable[tuple[str, str]]
) -> None:
    """Say what is to be read: hours with the step of each, and the times that are read event by event."""
    connection.execute(f"CREATE TEMP TABLE {_WHOLE} (start TEXT NOT NULL, step INTEGER NOT NULL)")
    connection.executemany(f"INSERT INTO temp.{_WHOLE} VALUES (?, ?)", whole)  # noqa: S608
    connection.execute(f"CREATE TEMP TABLE {_REST} (first TEXT NOT NULL, behind TEXT NOT NULL)")
    connection.executemany(f"INSERT INTO temp.{_REST} VALUES (?, ?)", rest)  # noqa: S608


def read_sums(reader: UsageReader, read: Callable[[UsageReader], T]) -> T:
    """Return what is read of a period, exactly if that can be."""
    reader.connection.execute("SAVEPOINT sums")
    try:
        return read(reader)
    except sqlite3.Error as error:
        if not is_overflow(error):
            raise
        reader.connection.execute("ROLLBACK TO sums")  # and tables that were made meanwhile are gone
        return read(replace(reader, exact=False))


def add_rows(rows: Iterable[Row]) -> Row:
    """Return the sums of rows; what none has a value for stays unknown."""
    total: Row = [None] * WIDTH
    for row in rows:
        add_row(total, row)
    return total


def add_row(total: Row, row: Sequence[int | None]) -> None:
    """Add a row to another one."""
    for index, value in enumerate(row):
        if value is not None:
            before = total[index]
            total[index] = value if before is None else before + value


def shown_row(row: Row) -> list[int | float | None]:
    """Return the values of :data:`NAMES` in the events' units; what is unknown is ``None``."""
    values = [found.shown(whole) for found, whole in zip(SUMS.values(), row, strict=False)]
    for at in _COUNTS:
        total, counts = row[at - 1], row[at]
        if total is None or not counts:
            values += [None] * (1 + len(_SHARES))
        else:
            number, found = percentiles(counts, _SHARES)
            values += [round(value, 3) for value in (total / number / THOUSANDTHS, *found)]
    return values


def _joins(keys: Sequence[Key], known: Collection[str]) -> str:
    """Return what takes columns apart, where there are any."""
    return " ".join(dict.fromkeys(key.join for key in keys if key.column in known))


def _in_one_step(start: int, step: int | None) -> bool:
    return step is None or start // step == (start + HOUR_SECONDS - 1) // step


def _grouped(keys: Sequence[Key]) -> str:
    return f"GROUP BY {', '.join(str(number + 1) for number in range(len(keys) + 1))}"


def _row(found: Row) -> Row:
    """Return a row with its counts as numbers."""
    for index in _COUNTS:
        found[index] = number_of(found[index] or "")  # type: ignore[arg-type]  # text until then
    return found
