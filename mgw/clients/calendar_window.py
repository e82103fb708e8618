"""A calendar window: the total of the current day, week or month, which outlives the process in a store."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from mgw.clients.limits import Allowance
from mgw.clients.period import Period, period_of


class Total(Struct, eq=False, weakref=True):
    """What was counted in one period against one limit.  Its store alone changes it."""

    holder: str
    limit: str
    """The name of the limit."""
    period: Period
    used: int = 0


class TotalStore(Protocol):
    """Keeps the totals of periods for the next process."""

    def find(self, holder: str, limit: str, period: Period) -> Total:
        """Return the total of a period: the same object for as long as anybody has it."""
        ...

    def add(self, total: Total, amount: int) -> None:
        """Count something; does not wait, and never raises."""
        ...


class NoStore:
    """Keeps nothing: another process, or another host, remembers the totals."""

    def find(self, holder: str, limit: str, period: Period) -> Total:
        """Return a new one."""
        return Total(holder, limit, period)

    def add(self, total: Total, amount: int) -> None:
        """Count something."""
        total.used += amount


_NEVER: Final = Total("", "", Period("", 0.0, 0.0))


class CalendarWindow:
    """What was added in the current period.  There is room while the total is below what a row allows."""

    __slots__ = ("_row", "_store", "_total")

    def __init__(self, row: Allowance, store: TotalStore) -> None:
        self._row = row
        self._store = store
        self._total = _NEVER

    def use(self, row: Allowance) -> None:
        """Count for a row that may allow another amount than before, or have another time zone."""
        if row.zone != self._row.zone:
            self._total = _NEVER
        self._row = row

    def wait(self, now: float, most: int) -> float:
        """Return how many seconds pass until there is room, if nothing is added; 0: there is some."""
        total = self._current(now)
        return total.period.ends - now if total.used >= most else 0.0

    def hold(self, now: float, amount: int) -> Total:
        """Count what a request holds from its beginning on, and return the total to which it belongs."""
        total = self._current(now)
        if amount:
            self._store.add(total, amount)
        return total

    def settle(self, now: float, total: Total, held: int, amount: int) -> None:  # noqa: ARG002 (as other windows)
        """Count what a request came to in place of what was held.

        :param total: what :meth:`hold` has returned.
        """
        self._store.add(total, amount - held)

    def _current(self, now: float) -> Total:
        period = self._total.period
        if not period.begins <= now < period.ends:  # over, or somebody has set the clock back
            row = self._row
            self._total = self._store.find(
                row.holder, row.limit.name, period_of(row.limit.window, now, row.zone)
            )
        return self._total
