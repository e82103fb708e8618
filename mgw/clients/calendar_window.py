"""A calendar window: the totals of the current day, week or month, which outlive the process in a store.

A total has what requests came to and what those in progress hold; a row has room while both together are
below what it allows.  The store decides, since others may use the same one: it takes what a request counts in
all of its rows, or nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from math import isinf
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from mgw.clients.limits import Allowance, RowState, Unit
from mgw.clients.period import Period, period_of

T = TypeVar("T")
PART_MARK: Final = "@"
"""Stands in a store between a period and the name of a part of its total: what was used while other hosts
could not be told of it."""


class Total(Struct, eq=False, weakref=True):
    """What was counted in one period against one row.  Its store changes it, but for :attr:`warned`."""

    row: Allowance
    """The row as it was last seen."""
    period: Period
    used: int = 0
    held: int = 0
    """What requests in progress hold, of all processes."""
    warned: int = 0
    """The largest share at which a warning was given, in billionths."""
    resets: int = 0
    """How often somebody has set what is used."""

    def is_used_up(self, most: int, used: int | None = None) -> bool:
        """Whether a full total has room no sooner than its period ends.

        What requests in progress hold may be free again soon, except where requests are counted.

        :param used: what is used as the store has it; ``None``: as it is known here.
        """
        return (self.used if used is None else used) >= most or self.row.limit.unit is Unit.REQUEST


class Change(Struct, frozen=True, eq=False):
    """What a request adds to a total."""

    total: Total
    used: int
    held: int
    most: int | None = None
    """There is room while what is used and held is below this; ``None``: always."""


Changes = Sequence[Change]


class Reset(Struct, frozen=True):
    """What is used of some rows is to be set."""

    holder: str
    limit: str | None
    """The name of the row; ``None``: all rows of the holder."""
    amount: int
    now: float


class TotalStore(Protocol):
    """Keeps the totals of periods for the next process."""

    def find(self, row: Allowance, period: Period) -> Total:
        """Return the total of a period: the same object for as long as anybody has it."""
        ...

    def begin(self, changes: Changes, then: Callable[[Total | None], T]) -> T | Awaitable[T]:
        """Count a request that begins, if all totals have room.

        :param then: what to do with the total that has no room: of several that are used up, the one whose
            period ends last; ``None``: the request is counted.
        :returns: what that has returned, or the Deferred that will fire with it.
        """
        ...

    def settle(self, changes: Changes) -> None:
        """Count the end of a request; does not wait, and never raises."""
        ...

    def state(self, totals: Sequence[Total], now: float) -> list[RowState] | Awaitable[list[RowState]]:
        """Return the state of these totals, and of others of periods that are not over."""
        ...

    def reset(self, totals: Sequence[Total], reset: Reset) -> bool | Awaitable[bool]:
        """Set what is used; what is held stays.

        :param totals: all that are known here; there may be others.
        :returns: whether there are any.
        """
        ...


class NoStore:
    """Keeps nothing: another process, or another host, remembers the totals."""

    def find(self, row: Allowance, period: Period) -> Total:
        """Return a new one."""
        return Total(row, period)

    def begin(self, changes: Changes, then: Callable[[Total | None], T]) -> T:
        """Count a request that begins, if all totals have room."""
        found = total_without_room(changes)
        if found is None:
            add_changes(changes)
        return then(found)

    def settle(self, changes: Changes) -> None:
        """Count the end of a request."""
        add_changes(changes)

    def state(self, totals: Sequence[Total], now: float) -> list[RowState]:  # noqa: ARG002 (the interface's)
        """Return the state of these totals."""
        return [state_of(total) for total in totals]

    def reset(self, totals: Sequence[Total], reset: Reset) -> bool:
        """Set what is used of these."""
        for total in totals:
            total.used, total.warned, total.resets = reset.amount, 0, total.resets + 1
        return bool(totals)


def total_without_room(changes: Changes) -> Total | None:
    """Return the total that has no room: of several that are used up, the one whose period ends last."""
    found, longest = None, -1.0
    for change in changes:
        total, most = change.total, change.most
        if most is not None and total.used + total.held >= most:
            ends = total.period.ends if total.is_used_up(most) else 0.0
            if ends > longest:
                found, longest = total, ends
    return found


def add_changes(changes: Changes) -> None:
    """Add what a request counts to its totals."""
    for change in changes:
        total = change.total
        total.used = max(0, total.used + change.used)  # below 0 where somebody has set it meanwhile
        total.held += change.held


def state_of(total: Total) -> RowState:
    """Return the state of a total as it is known here."""
    row, period = total.row, total.period
    amounts = total.used, total.held, row.most
    return RowState(row.holder, row.limit, period.name, *amounts, end_of(period), row.refuses)


def end_of(period: Period) -> float | None:
    """Return when a period ends; ``None``: never."""
    return None if isinf(period.ends) else period.ends


_NEVER: Final = Period("", 0.0, 0.0)


class CalendarWindow:
    """Finds the total of the current period of a row."""

    __slots__ = ("_row", "_store", "_total")

    def __init__(self, row: Allowance, store: TotalStore) -> None:
        self._row = row
        self._store = store
        self._total = Total(row, _NEVER)

    def use(self, row: Allowance) -> None:
        """Find totals for a row that may allow another amount than before, or have another time zone."""
        if row.zone != self._row.zone:
            self._total = Total(row, _NEVER)
        self._row = self._total.row = row

    def current(self, now: float) -> Total:
        """Return the total of the period to which a moment belongs."""
        period = self._total.period
        if not period.begins <= now < period.ends:  # over, or somebody has set the clock back
            row = self._row
            self._total = self._store.find(row, period_of(row.limit.window, now, row.zone))
        return self._total
