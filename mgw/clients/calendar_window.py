"""A calendar window: the total of the current day, week or month, which outlives the process in a store."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from mgw.clients.period import Period, Window, period_of


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
    """What was added in the current period.

    :param limit: there is room while the total is below it.
    :param held: what a request counts from its beginning until its end.
    :param place: the holder and the name of the limit, as the store knows them.
    """

    __slots__ = ("_held", "_place", "_store", "_total", "_window", "limit")
    has_entries = True
    """Every request has one: the total of the period in which it began."""

    def __init__(
        self, limit: int, held: int, window: Window, place: tuple[str, str], store: TotalStore
    ) -> None:
        self.limit = limit
        self._held = held
        self._window = window
        self._place = place
        self._store = store
        self._total = _NEVER

    def wait(self, now: float) -> float:
        """Return how many seconds pass until there is room, if nothing is added; 0: there is some."""
        total = self._current(now)
        return total.period.ends - now if total.used >= self.limit else 0.0

    def hold(self, now: float) -> Total:
        """Count a request that begins, and return the total to which it belongs."""
        total = self._current(now)
        if self._held:
            self._store.add(total, self._held)
        return total

    def settle(self, now: float, total: Total | None, amount: int) -> None:
        """Count what a request came to in place of what was held.

        :param total: what :meth:`hold` has returned; ``None``: the request is older than the limit.
        """
        if total is not None:
            self._store.add(total, amount - self._held)
        elif not self._held:
            self._store.add(self._current(now), amount)

    def _current(self, now: float) -> Total:
        period = self._total.period
        if not period.begins <= now < period.ends:  # over, or somebody has set the clock back
            self._total = self._store.find(*self._place, period_of(self._window, now))
        return self._total
