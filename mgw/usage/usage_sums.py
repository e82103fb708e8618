"""Totals of usage events in SQL, for ``mgw usage`` and the dashboard.

Every sum is one of whole numbers, nanodollars where it is money, so that it is exact in whatever order and
groups events are added, and the same for all who ask.  Only where a provider counts nonsense are they more
than SQLite's whole numbers hold: it then gives up (:func:`is_overflow`), and near sums can be had.

A column that a file does not have, because another version made it, is unknown in each of its events.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.usage.event import NANODOLLARS

THOUSANDTHS: Final = 1000
"""Of a minute, or of a millisecond: events have three decimals."""


class Sum(Struct, frozen=True):
    """One of the sums."""

    column: str
    """That it needs."""
    aggregate: str
    """The sum in SQL, a whole number; ``{}`` stands for the value of one event."""
    value: str = "{}"
    """The value in SQL; ``{}`` stands for the column."""
    scale: int = 1
    """How many of the sum's units make one of the event's."""

    def shown(self, whole: int | None) -> int | float | None:
        """Return a sum in the event's unit."""
        return whole if whole is None or self.scale == 1 else whole / self.scale


def _total(column: str, scale: int = 1) -> Sum:
    return Sum(column, "sum({})", whole_units("{}", scale), scale)


def whole_units(value: str, scale: int) -> str:
    """Return in SQL how many whole units a value has."""
    return value if scale == 1 else f"CAST(round({value} * {scale}) AS INTEGER)"


SUMS: Final = MappingProxyType(
    {
        "requests": Sum("request_id", "count(*)"),
        "failed": Sum("status", "count({})", "CASE WHEN {} <> 'ok' THEN 1 END"),
        "tokens_in": _total("tokens_in"),
        "tokens_out": _total("tokens_out"),
        "cache_read_tokens": _total("cache_read_tokens"),
        "cache_write_tokens": _total("cache_write_tokens"),
        "reasoning_tokens": _total("reasoning_tokens"),
        "session_minutes": _total("session_minutes", THOUSANDTHS),
        "cost_usd": _total("cost_usd", NANODOLLARS),
    }
)
"""By the names that answers and tables have for them, in their order."""


def sum_expression(name: str, known: Collection[str], *, exact: bool = True) -> str:
    """Return a sum in SQL, of a table that has these columns.

    :param exact: else it is as near as a double can be, and never too large.
    """
    found = SUMS[name]
    if found.column not in known:
        return "NULL"
    value = found.value.format(found.column)
    return found.aggregate.format(value if exact else f"{value} * 1.0")


def is_overflow(error: sqlite3.Error) -> bool:
    """Whether a query failed since an exact sum is too large."""
    return str(error) == "integer overflow"


def time_condition(since: str | None, until: str | None) -> tuple[str, tuple[str, ...]]:
    """Return what holds for events from one time on and before another, and the values in it."""
    limits = [(f"time {sign} ?", time) for sign, time in ((">=", since), ("<", until)) if time is not None]
    return " AND ".join(condition for condition, _ in limits) or "1", tuple(time for _, time in limits)
