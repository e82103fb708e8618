"""Totals of usage events in SQL, for ``mgw usage`` and the dashboard.

What the figures mean stands in :mod:`mgw.usage.figures`.  Every sum is one of whole numbers, nanodollars
where it is money, so that it is exact in whatever order and groups events are added, and the same for all who
ask.  Only where a provider counts nonsense are they more than SQLite's whole numbers hold: it then gives up
(:func:`is_overflow`), and near sums can be had.

A column that a file does not have, because another version made it, is unknown in each of its events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.usage.event import NANODOLLARS
from mgw.usage.figures import (
    FIGURES,
    IS_TIMED,
    IS_UNCOUNTED,
    IS_UNPRICED,
    TIMED_COLUMNS,
    UNCOUNTED_COLUMNS,
    UNPRICED_COLUMNS,
)

EVENTS: Final = "usage_events"
"""The table of events."""
THOUSANDTHS: Final = 1000
"""Thousandths of a minute or of a millisecond: events have three decimals."""


class Sum(Struct, frozen=True):
    """One of the sums."""

    columns: tuple[str, ...]
    """The columns that the sum needs."""
    aggregate: str
    """The sum in SQL, a whole number; ``{}`` stands for the value of one event."""
    value: str
    """The value of the sum, in SQL."""
    scale: int = 1
    """How many of the sum's units make one of the event's."""
    is_count: bool = False
    """Whether it counts events, so that without any it is 0 and not unknown."""

    def shown(self, whole: int | None) -> int | float | None:
        """Return a sum in the event's unit."""
        return whole if whole is None or self.scale == 1 else whole / self.scale


def _total(column: str, scale: int = 1) -> Sum:
    return Sum((column,), "sum({})", whole_units(column, scale), scale)


def _count(condition: str, *columns: str) -> Sum:
    return Sum(columns, "count({})", f"CASE WHEN {condition} THEN 1 END", is_count=True)


def whole_units(value: str, scale: int) -> str:
    """Return in SQL how many whole units a value has."""
    return value if scale == 1 else f"CAST(round({value} * {scale}) AS INTEGER)"


SUMS: Final = MappingProxyType(
    {
        "requests": Sum(("request_id",), "count(*)", "", is_count=True),
        **{name: _count(f"status = '{outcome}'", "status") for outcome, name in FIGURES.items()},
        "tokens_in": _total("tokens_in"),
        "tokens_out": _total("tokens_out"),
        "cache_read_tokens": _total("cache_read_tokens"),
        "cache_write_tokens": _total("cache_write_tokens"),
        "reasoning_tokens": _total("reasoning_tokens"),
        "session_minutes": _total("session_minutes", THOUSANDTHS),
        "cost_usd": _total("cost_usd", NANODOLLARS),
        "unpriced": _count(IS_UNPRICED, *UNPRICED_COLUMNS),
        "uncounted": _count(IS_UNCOUNTED, *UNCOUNTED_COLUMNS),
    }
)
"""The sums by the names that answers and tables have for them, in their order."""


def sum_expression(name: str, known: Collection[str], *, exact: bool = True) -> str:
    """Return a sum in SQL, of a table that has these columns.

    :param exact: else it is as near as a double can be, and never too large.
    """
    found = SUMS[name]
    if not set(found.columns).issubset(known):
        return "NULL"
    return found.aggregate.format(found.value if exact else f"{found.value} * 1.0")


def sum_of_groups(name: str) -> str:
    """Return a sum in SQL, of a table whose rows stand for several events that are alike.

    ``events`` says for how many; amounts are added up already, in whole units.
    """
    found = SUMS[name]
    if found.is_count:
        return f"ifnull(sum({found.value or '1'} * events), 0)"
    return f"sum({found.columns[0]})"


def time_value(column: str, known: Collection[str]) -> str:
    """Return in SQL the microseconds of ``latency_ms`` or ``ttft_ms`` that count; else there is no value."""
    if not {column, *TIMED_COLUMNS}.issubset(known):
        return "NULL"
    return if_timed(whole_units(column, THOUSANDTHS))


def if_timed(value: str) -> str:
    """Return a value in SQL where times count; else there is none."""
    return f"CASE WHEN {IS_TIMED} THEN {value} END"


def columns_of(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """Return the columns that a table has, in small letters: SQL takes all letters for these."""
    return frozenset(row[1].lower() for row in connection.execute(f"PRAGMA table_info({table})"))


def is_overflow(error: sqlite3.Error) -> bool:
    """Whether a query failed since an exact sum is too large."""
    return str(error) == "integer overflow"


def time_condition(since: str | None, until: str | None) -> tuple[str, tuple[str, ...]]:
    """Return what holds for events from one time on and before another, and the values in it."""
    limits = [(f"time {sign} ?", time) for sign, time in ((">=", since), ("<", until)) if time is not None]
    return " AND ".join(condition for condition, _ in limits) or "1", tuple(time for _, time in limits)
