"""Over which time a limit counts: none, any minute, or a period of the calendar.

A day begins at the first instant of its local date, so some have 23 or 25 hours, and one may begin at 01:00.
Where a clock that is set back returns to the day before, that day is over all the same.  A request belongs to
the period in which it was admitted, however late it ends.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Final
from zoneinfo import ZoneInfo

from msgspec import Struct


class Window(StrEnum):  # not Enum, whose members are hashed in Python: rows are looked up for each request
    """The time over which a limit counts."""

    NONE = "none"
    """What is in progress, at any moment."""
    MINUTE = "minute"
    """Any 60 seconds."""
    DAY = "day"
    WEEK = "week"
    """From Monday."""
    MONTH = "month"
    TOTAL = "total"
    """From the beginning on, without an end."""

    @property
    def is_calendar(self) -> bool:
        """Whether it is a period of the calendar: what was counted in it outlives a process."""
        return self not in (Window.NONE, Window.MINUTE)


class Period(Struct, frozen=True):
    """One day, week or month, or all time."""

    name: str
    """Such as ``2026-11-27``, ``2026-W48``, ``2026-11`` or ``total``."""
    begins: float
    """Unix seconds, as :attr:`ends`."""
    ends: float
    """The first moment that no longer belongs to it."""


TOTAL: Final = Period("total", -inf, inf)
"""The one period of what never begins anew."""
_DAY: Final = timedelta(days=1)
_MOST_REMEMBERED: Final = 64
"""At one moment, thousands of rows have a few periods between them: each is found once."""


@lru_cache(maxsize=_MOST_REMEMBERED)
def period_of(window: Window, unix_seconds: float, zone: str = "UTC") -> Period:
    """Return the period of a calendar window to which a moment belongs.

    :param zone: IANA name of the time zone.
    :raises zoneinfo.ZoneInfoNotFoundError: the system does not know it.
    """
    if window is Window.TOTAL:
        return TOTAL
    of_zone = ZoneInfo(zone)
    day = datetime.fromtimestamp(unix_seconds, of_zone).date()
    if _begin_of(day + _DAY, of_zone) <= unix_seconds:  # the clock was set back over midnight
        day += _DAY
    if window is Window.DAY:
        begins, ends, name = day, day + _DAY, f"{day:%Y-%m-%d}"
    elif window is Window.WEEK:
        begins = day - timedelta(days=day.weekday())
        ends, name = begins + timedelta(days=7), f"{begins:%G-W%V}"
    else:
        assert window is Window.MONTH, "no other window is a period of the calendar"
        begins = day.replace(day=1)
        ends, name = (begins + timedelta(days=31)).replace(day=1), f"{begins:%Y-%m}"
    return Period(name, _begin_of(begins, of_zone), _begin_of(ends, of_zone))


def _begin_of(day: date, zone: ZoneInfo) -> float:
    """Return the first instant of a date, or of the next one where a zone has left it out."""
    midnight = datetime.combine(day, time(), zone)
    latest = midnight.timestamp()
    if datetime.fromtimestamp(latest, zone).replace(tzinfo=None) == midnight.replace(tzinfo=None):
        return latest
    # No clock shows this midnight.  PEP 495: with fold 0 a gap is read with the offset before it, with fold 1
    # with the one after it; the clock is put forward somewhere between the two.
    earliest = midnight.replace(fold=1).timestamp()
    while latest - earliest > 1:
        middle = (earliest + latest) // 2
        if datetime.fromtimestamp(middle, zone).date() < day:
            earliest = middle
        else:
            latest = middle
    return latest
