"""Sums of minutes and hours in the database in memory, for a gateway without ``hooks.sqlite``.

They are rows of ``usage_hours`` as a file has them (:mod:`mgw.usage.usage_rollup`), but the last hours have a
row for each minute, ``2026-01-31T12:05``.  All of this runs in the thread of the database, which alone uses
it.

Names that clients choose are bounded: each minute and each hour has at most :data:`MAX_NAMES` of a kind, and
what more there are is ``other``.  So are rows and bytes: where there are too many, the oldest times go first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mgw.usage.event import timestamp
from mgw.usage.usage_read import HOUR_SECONDS, OTHER, UsageRange, UsageReader, write_plan
from mgw.usage.usage_rollup import COLUMN_NAMES, HOURS, KEEP, LABELS, add_sums, create_hours, hour_of

MINUTE: Final = 60
MINUTES: Final = 180
"""Events at least that young are counted by the minute."""
KEPT_HOURS: Final = 24 * 30
MAX_NAMES: Final = 100
MAX_ROWS: Final = 40_000
MAX_BYTES: Final = 24 * 1024 * 1024
MAX_SPANS: Final = 16
"""The names of so many minutes and hours are remembered; others are read again."""
_LOOSE_ROWS: Final = 64
_ROW_BYTES: Final = 64
"""The size of a row beside its text, of which a letter has two bytes or less."""
_MINUTE_CHARS: Final = len("2026-01-31T12:05")
_READ: Final = f"SELECT {', '.join(COLUMN_NAMES[1:])} FROM {HOURS} WHERE hour = ?"  # noqa: S608 (names of ours, as below)
_DELETE: Final = f"DELETE FROM {HOURS} WHERE hour = ?"  # noqa: S608
_SPANS: Final = (
    f"SELECT hour, CAST(strftime('%s', substr(hour || ':00', 1, {_MINUTE_CHARS})) AS INTEGER) "  # noqa: S608
    f"FROM (SELECT DISTINCT hour FROM {HOURS})"
)
_Labels = tuple[str | None, ...]
_Sums = Sequence[Any]  # Any: whole numbers, and text for counts
Summed = tuple[int, _Labels, _Sums]
"""A minute, the labels, and the sums in the order of the table."""
_Names = list[set[str | None]]


@dataclass(slots=True, eq=False, repr=False)
class _Span:
    """The rows of a minute or an hour."""

    rows: int = 0
    at_once: int = 0
    """How many of them were left when the same ones were last added up."""
    size: int = 0
    """The size in bytes, roughly."""


@dataclass(slots=True, eq=False, repr=False)
class UsageSpans:
    """What is in the database, and what is too much."""

    _spans: dict[str, _Span] = field(default_factory=dict)
    _names: dict[str, _Names] = field(default_factory=dict)
    """The names in the minutes and hours that were added to last."""

    def create(self, connection: sqlite3.Connection) -> None:
        """Make the tables in an empty database."""
        create_hours(connection)
        self._spans.clear()
        self._names.clear()

    def add(self, connection: sqlite3.Connection, found: Iterable[Summed], now: int) -> None:
        """Add sums, and forget what is too old or too much.

        :param now: Unix seconds.
        """
        connection.execute("BEGIN")
        touched = set()
        for minute, labels, sums in found:
            span = _span_of(minute, now)
            if span is not None:
                self._insert(connection, span, [(labels, sums)])
                touched.add(span)
        for name in touched:
            if self._spans[name].rows > 2 * self._spans[name].at_once + _LOOSE_ROWS:
                self._merge(connection, name, [name])
        self._close_hours(connection, now)
        self._forget(connection, now)
        connection.execute("COMMIT")

    def _insert(
        self, connection: sqlite3.Connection, name: str, found: Sequence[tuple[_Labels, _Sums]]
    ) -> None:
        names = self._names_of(connection, name)
        rows = [(name, *_bounded(labels, names), *sums) for labels, sums in found]
        connection.executemany(KEEP, rows)
        span = self._spans.setdefault(name, _Span())
        span.rows += len(rows)
        span.size += sum(map(_size_of, rows))

    def _merge(self, connection: sqlite3.Connection, name: str, parts: Sequence[str]) -> None:
        """Add up rows with the same labels.

        :param name: to which minute or hour they belong then.
        """
        found: dict[_Labels, _Sums] = {}
        width, names = len(LABELS), _no_names()
        for part in parts:
            for row in connection.execute(_READ, (part,)):
                labels = _bounded(row[:width], names)
                before = found.get(labels)
                found[labels] = row[width:] if before is None else add_sums(before, row[width:])
            self._drop(connection, part)
        self._insert(connection, name, list(found.items()))
        self._spans[name].at_once = len(found)

    def _close_hours(self, connection: sqlite3.Connection, now: int) -> None:
        """Add up the minutes of hours all of which are old enough."""
        first = _first_by_minute(now)
        hours: dict[str, list[str]] = {}
        for name in self._spans:
            if len(name) == _MINUTE_CHARS and name < first:
                hours.setdefault(name[: len(first)], []).append(name)
        for hour, minutes in hours.items():
            self._merge(connection, hour, [hour, *minutes])

    def _forget(self, connection: sqlite3.Connection, now: int) -> None:
        last = hour_of(now - KEPT_HOURS * HOUR_SECONDS)
        for name in sorted(self._spans):
            if name > last and not self._is_too_much():
                return
            self._drop(connection, name)

    def _is_too_much(self) -> bool:
        spans = self._spans.values()
        return sum(span.rows for span in spans) > MAX_ROWS or sum(span.size for span in spans) > MAX_BYTES

    def _drop(self, connection: sqlite3.Connection, name: str) -> None:
        connection.execute(_DELETE, (name,))
        self._spans.pop(name, None)
        self._names.pop(name, None)

    def _names_of(self, connection: sqlite3.Connection, name: str) -> _Names:
        names = self._names.pop(name, None)
        if names is None:
            names = _no_names()
            for row in connection.execute(_READ, (name,)) if name in self._spans else ():
                _bounded(row[: len(LABELS)], names)
            while len(self._names) >= MAX_SPANS:
                del self._names[next(iter(self._names))]
        self._names[name] = names  # it is the newest now
        return names


def open_spans(connection: sqlite3.Connection, period: UsageRange, *, since: int, until: int) -> UsageReader:
    """Return what adds up the minutes and hours that a time touches, each of which counts at its start.

    :param since: Unix milliseconds, as the end.
    """
    whole = []
    assert period.step is not None
    for name, start in connection.execute(_SPANS).fetchall():
        seconds = MINUTE if len(name) == _MINUTE_CHARS else HOUR_SECONDS
        if start * 1000 < until and (start + seconds) * 1000 > since:
            whole.append((name, start // period.step))
    write_plan(connection, whole, [])
    return UsageReader(connection, period, known=frozenset(), has_hours=True)


def _span_of(minute: int, now: int) -> str | None:
    """Return where sums of a minute belong; ``None`` where they are too old."""
    name = timestamp(minute * MINUTE)[:_MINUTE_CHARS]
    if name >= _first_by_minute(now):
        return name
    hour = hour_of(minute * MINUTE)
    return hour if hour > hour_of(now - KEPT_HOURS * HOUR_SECONDS) else None


def _first_by_minute(now: int) -> str:
    """Return the first hour whose minutes are kept as such."""
    return hour_of(now - MINUTES * MINUTE)


def _bounded(labels: Iterable[str | None], names: _Names) -> _Labels:
    """Return labels, with ``other`` for each that would be one too many; the rest are added to the names."""
    found = []
    for label, known in zip(labels, names, strict=True):
        if label in known or len(known) < MAX_NAMES:
            known.add(label)
            found.append(label)
        else:
            found.append(OTHER)
    return tuple(found)


def _no_names() -> _Names:
    return [set() for _ in LABELS]


def _size_of(row: Sequence[Any]) -> int:
    return _ROW_BYTES + sum(2 * len(value) for value in row if isinstance(value, str))
