"""Over which time a limit counts: none, any minute, or a period of the calendar.

Periods are those of UTC.  A request belongs to the period in which it began, however late it ends.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from math import inf
from typing import Final

from msgspec import Struct


class Window(Enum):
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
    def suffix(self) -> str:
        """What the name of a limit ends with."""
        return "total" if self is Window.TOTAL else f"per_{self.value}"

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


def period_of(window: Window, unix_seconds: float) -> Period:
    """Return the period of a calendar window to which a moment belongs."""
    if window is Window.TOTAL:
        return TOTAL
    moment = datetime.fromtimestamp(unix_seconds, UTC)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if window is Window.DAY:
        begins, ends, name = day, day + timedelta(days=1), f"{day:%Y-%m-%d}"
    elif window is Window.WEEK:
        begins = day - timedelta(days=day.weekday())
        ends, name = begins + timedelta(days=7), f"{begins:%G-W%V}"
    else:
        assert window is Window.MONTH, "no other window is a period of the calendar"
        begins = day.replace(day=1)
        ends, name = (begins + timedelta(days=31)).replace(day=1), f"{begins:%Y-%m}"
    return Period(name, begins.timestamp(), ends.timestamp())
