"""A calendar window: the total of the current day, week or month, which outlives the process in a store."""

from __future__ import annotations

from typing import Protocol

from mgw.clients.period import Period, Window, period_of


class SumStore(Protocol):
    """Keeps the totals of periods for the next process."""

    def read(self, holder: str, limit: str, period: Period) -> int:
        """Return what was counted in a period."""
        ...

    def add(self, holder: str, limit: str, period: Period, amount: int) -> None:
        """Count something; does not wait, and never raises."""
        ...


class NoStore:
    """Keeps nothing: another process, or another host, remembers the totals."""

    def read(self, holder: str, limit: str, period: Period) -> int:  # noqa: ARG002  the interface's
        """Return 0."""
        return 0

    def add(self, holder: str, limit: str, period: Period, amount: int) -> None:
        """Keep nothing."""


class CalendarWindow:
    """What was added in the current period.

    :param limit: there is room while the sum is below it.
    :param held: what a request counts from its beginning until its end.
    :param place: the holder and the name of the limit, as the store knows them.
    """

    __slots__ = ("_held", "_period", "_place", "_store", "_used", "_window", "limit")
    has_entries = True
    """Every request has one: the period in which it began."""

    def __init__(
        self, limit: int, held: int, window: Window, place: tuple[str, str], store: SumStore
    ) -> None:
        self.limit = limit
        self._held = held
        self._window = window
        self._place = place
        self._store = store
        self._period = Period("", 0.0, 0.0)
        self._used = 0

    def wait(self, now: float) -> float:
        """Return how many seconds pass until there is room, if nothing is added; 0: there is some."""
        period = self._current(now)
        return period.ends - now if self._used >= self.limit else 0.0

    def hold(self, now: float) -> Period:
        """Count a request that begins, and return the period to which it belongs."""
        period = self._current(now)
        self._add(period, self._held)
        return period

    def settle(self, now: float, period: Period | None, amount: int) -> None:
        """Count what a request came to in place of what was held.

        :param period: what :meth:`hold` has returned; ``None``: the request is older than the limit.
        """
        if period is not None:
            self._add(period, amount - self._held)
        elif not self._held:
            self._add(self._current(now), amount)

    def _current(self, now: float) -> Period:
        period = self._period
        if not period.begins <= now < period.ends:  # over, or somebody has set the clock back
            self._period = period = period_of(self._window, now)
            self._used = self._store.read(*self._place, period)
        return period

    def _add(self, period: Period, amount: int) -> None:
        if amount:
            if period == self._period:
                self._used += amount
            self._store.add(*self._place, period, amount)
