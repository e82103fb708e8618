"""What each holder has used, and the rows of a request with what counts for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from mgw.clients.calendar_window import CalendarWindow, Total, TotalStore
from mgw.clients.limits import AMOUNTS, Allowance, Amount, Limits, Shares, Unit, shares_of
from mgw.clients.period import Window
from mgw.clients.window import SlidingWindow

_NEVER: Final = 2**63


class Tally:
    """What one holder has used.  Requests in flight are counted whether or not a row limits them."""

    __slots__ = ("holder", "in_flight", "last_use", "users", "warned", "windows")

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.in_flight = 0
        self.last_use = 0
        """The number of the last request that brought a row of it."""
        self.users = 0
        """How many of those whose limits are in use have rows of this holder."""
        self.windows: dict[tuple[str, bool], SlidingWindow | CalendarWindow] = {}
        """By the name of the row, and whether it refuses."""
        self.warned: dict[tuple[str, bool], int] = {}
        """The largest share of what is in flight that was warned of, and not fallen below since, likewise."""

    def totals(self, now: float) -> list[Total]:
        """Return the totals of the current periods of its rows."""
        return [window.current(now) for window in self.windows.values() if isinstance(window, CalendarWindow)]

    def minutes_held(self) -> list[tuple[Allowance, int]]:
        """Return its rows of a minute that reserve, with what requests in progress hold."""
        windows = [window for window in self.windows.values() if isinstance(window, SlidingWindow)]
        return [(window.row, window.held) for window in windows if window.row.is_reserved]


class FlightRow(Struct, frozen=True, eq=False):
    """A row that limits what is in flight."""

    allowance: Allowance
    most: int
    tally: Tally
    shares: Shares


class MinuteRow(Struct, frozen=True, eq=False):
    """A row of a minute with what counts for it."""

    allowance: Allowance
    most: int
    window: SlidingWindow
    amount_of: Amount
    is_request: bool
    """Whether it counts requests, from their beginning on."""
    is_reserved: bool
    refuses: bool
    shares: Shares


class PeriodRow(Struct, frozen=True, eq=False):
    """A row of the calendar with what counts for it."""

    allowance: Allowance
    most: int | None
    """``None``: it refuses nothing."""
    window: CalendarWindow
    amount_of: Amount
    holds: bool
    """Whether a request counts from its beginning on."""
    shares: Shares
    first_share: int
    """The amount from which on there may be something to warn of."""


class CountingPlan(Struct, eq=False):
    """The rows of a request, and where they are counted."""

    limits: Limits
    tallies: tuple[Tally, ...]
    """One for each holder."""
    flights: tuple[FlightRow, ...]
    minutes: tuple[MinuteRow, ...]
    periods: tuple[PeriodRow, ...]
    counts_time: bool
    """Whether a row has a window."""
    warns: bool
    """Whether a row may give warnings, but for those of the calendar."""
    last_use: int = 0
    """The number of the last request that had it."""

    @property
    def counts_requests(self) -> bool:
        """Whether a row counts the requests of a minute."""
        for row in self.minutes:  # noqa: SIM110  a generator costs more than all the rest
            if row.is_request:
                return True
        return False

    @property
    def may_warn(self) -> bool:
        """Whether a row may give warnings."""
        return self.warns or bool(self.periods)


def plan_of(limits: Limits, tally_of: Callable[[str], Tally], store: TotalStore) -> CountingPlan:
    """Look up where the rows of a request are counted."""
    tallies = {row.holder: tally_of(row.holder) for row in limits}
    flights, minutes, periods = list[FlightRow](), list[MinuteRow](), list[PeriodRow]()
    for row in limits:
        tally, shares = tallies[row.holder], shares_of(row)
        if row.limit.window is Window.NONE:
            flights.append(FlightRow(row, row.most, tally, shares))
        elif row.limit.window is Window.MINUTE:
            minutes.append(_minute_row(row, tally, shares))
        else:
            periods.append(_period_row(row, tally, shares, store))
    return CountingPlan(
        limits,
        tuple(tallies.values()),
        tuple(flights),
        tuple(minutes),
        tuple(periods),
        counts_time=bool(minutes or periods),
        warns=any(row.shares for row in flights) or any(row.shares for row in minutes),
    )


def _minute_row(row: Allowance, tally: Tally, shares: Shares) -> MinuteRow:
    place, unit = (row.limit.name, row.refuses), row.limit.unit
    window = tally.windows.get(place)
    if not isinstance(window, SlidingWindow):
        tally.windows[place] = window = SlidingWindow(row)
    window.use(row)
    is_request = unit is Unit.REQUEST
    return MinuteRow(row, row.most, window, AMOUNTS[unit], is_request, row.is_reserved, row.refuses, shares)


def _period_row(row: Allowance, tally: Tally, shares: Shares, store: TotalStore) -> PeriodRow:
    place, unit = (row.limit.name, row.refuses), row.limit.unit
    window = tally.windows.get(place)
    if not isinstance(window, CalendarWindow):
        tally.windows[place] = window = CalendarWindow(row, store)
    window.use(row)
    most = row.most if row.refuses else None
    first = min((least for _, least in shares), default=_NEVER)
    return PeriodRow(row, most, window, AMOUNTS[unit], row.holds, shares, first)
