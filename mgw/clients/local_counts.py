"""Counts of this process alone: for each holder a tally, with a window for each of its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from mgw.clients.calendar_window import CalendarWindow, NoStore, Total, TotalStore
from mgw.clients.limits import AMOUNTS, Allowance, Amount, LimitReached, Limits, Permit, Taken, Unit
from mgw.clients.period import Period, Window
from mgw.clients.window import SlidingWindow

BUSY_SECONDS: Final = 1.0
"""The seconds after which a holder may try again that has too many requests in flight."""


class _Counted(Protocol):
    """What was counted over some time."""

    limit: int

    @property
    def has_entries(self) -> bool: ...
    def wait(self, now: float) -> float: ...
    def hold(self, now: float) -> Any: ...  # Any: each has entries of its own, which it alone reads
    def settle(self, now: float, entry: Any, amount: int) -> None: ...


class _Row(Struct, frozen=True, eq=False):
    """A limit with a window, as a tally has it."""

    name: str
    most: int
    window: _Counted
    held: int
    amount_of: Amount


class Tally:
    """What one holder has used.  Requests in flight are counted whether or not they are limited."""

    __slots__ = (
        "_by_name",
        "_holding",
        "holder",
        "in_flight",
        "in_flight_rows",
        "limits",
        "refusals",
        "rows",
    )

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.limits: Limits = ()
        self.in_flight = 0
        self.refusals: dict[str, int] = {}
        self._by_name: dict[str, _Counted] = {}
        self.in_flight_rows: tuple[Allowance, ...] = ()
        self.rows: tuple[_Row, ...] = ()
        """All limits but those on what is in flight."""
        self._holding: tuple[_Row, ...] = ()
        """Those that have to know when a request began."""

    def use(self, limits: Limits, store: TotalStore) -> None:
        """Obey other limits from now on; what was counted stays."""
        self.limits = limits
        self.in_flight_rows = tuple(row for row in limits if row.limit.window is Window.NONE)
        self.rows = tuple(self._row(row, store) for row in limits if row.limit.window is not Window.NONE)
        self._holding = tuple(row for row in self.rows if row.window.has_entries)
        for row in limits:
            self.refusals.setdefault(row.limit.name, 0)

    def hold(self, now: float) -> LocalPermit:
        """Count a request that begins."""
        self.in_flight += 1
        entries: dict[str, Any] = {}  # Any: as above
        for row in self._holding:
            entries[row.name] = row.window.hold(now)
        return LocalPermit(self, entries)

    def _row(self, row: Allowance, store: TotalStore) -> _Row:
        """Return a limit with its window: the one before, where there is one."""
        limit, place = row.limit, (self.holder, row.limit.name)
        window = self._by_name.get(limit.name)
        if window is None:
            if limit.window is Window.MINUTE:
                window = SlidingWindow(row.most, counts_single=limit.unit is Unit.REQUEST)
            else:
                window = CalendarWindow(row.most, limit.unit.held, limit.window, place, store)
            self._by_name[limit.name] = window
        window.limit = row.most
        return _Row(limit.name, row.most, window, limit.unit.held, AMOUNTS[limit.unit])


class LocalPermit(Permit, eq=False):
    """A request that :class:`LocalCounts` has counted."""

    tally: Tally
    entries: dict[str, Any]  # Any: as above
    """What it holds in windows, by the names of the limits that there were when it began."""

    def period(self, limit: str) -> Period | None:
        """Return the period to which the request belongs, if the limit has periods."""
        entry = self.entries.get(limit)
        return entry.period if isinstance(entry, Total) else None


class LocalCounts:
    """The counts of this process alone.

    :param clock: unix seconds, of the process's clock.
    :param store: keeps the totals of calendar periods.
    """

    __slots__ = ("_store", "_tallies", "clock")

    def __init__(self, clock: Callable[[], float], store: TotalStore | None = None) -> None:
        self.clock = clock
        self._store: TotalStore = NoStore() if store is None else store
        self._tallies: dict[str, Tally] = {}

    @property
    def tallies(self) -> Iterable[Tally]:
        """What each holder has used."""
        return self._tallies.values()

    def in_flight(self, holder: str) -> int:
        """Return how many requests of a holder are under way."""
        tally = self._tallies.get(holder)
        return 0 if tally is None else tally.in_flight

    def limits(self, holder: str) -> Limits:
        """Return the limits of a holder; empty: it is unknown."""
        tally = self._tallies.get(holder)
        return () if tally is None else tally.limits

    def refusals(self, holder: str) -> Mapping[str, int]:
        """Return how many requests were not admitted, by the limit that stood against them."""
        tally = self._tallies.get(holder)
        return {} if tally is None else tally.refusals

    def use(self, holder: str, limits: Limits) -> None:
        """Know the limits of a holder from now on; without any it is forgotten."""
        if limits:
            self._tally(holder, limits)
        else:
            self._tallies.pop(holder, None)

    def begin(self, holder: str, limits: Limits) -> LocalPermit | LimitReached:
        """Count a request that begins, or say what stands against it longest."""
        tally = self._tallies.get(holder)
        if tally is None or tally.limits is not limits:
            tally = self._tally(holder, limits)
        now = self.clock() if tally.rows else 0.0
        name, most, longest = "", 0, 0.0
        for flight in tally.in_flight_rows:
            if tally.in_flight >= flight.most and longest < BUSY_SECONDS:
                name, most, longest = flight.limit.name, flight.most, BUSY_SECONDS
        for row in tally.rows:
            seconds = row.window.wait(now)
            if seconds > longest:
                name, most, longest = row.name, row.most, seconds
        if not longest:
            return tally.hold(now)
        tally.refusals[name] += 1
        return LimitReached(name, most, longest)

    def admit(self, holder: str, limits: Limits) -> LocalPermit:
        """Count a request that begins, whatever stands against it: somebody else has admitted it."""
        tally = self._tally(holder, limits)
        return tally.hold(self.clock())

    def end(self, permit: Permit, taken: Taken) -> None:
        """Count the end of a request, and what it came to."""
        assert isinstance(permit, LocalPermit), "it was counted here"
        tally = permit.tally
        tally.in_flight -= 1
        now = self.clock() if tally.rows else 0.0
        for row in tally.rows:
            amount = row.amount_of(taken)
            if amount != row.held:
                row.window.settle(now, permit.entries.get(row.name), amount)

    def add(self, holder: str, limits: Limits, taken: Taken) -> None:
        """Count a request that was begun and has ended elsewhere."""
        self.end(self.admit(holder, self.limits(holder) or limits), taken)

    def count_refusal(self, holder: str, limit: str) -> None:
        """Count a request that somebody else did not admit."""
        tally = self._tallies.get(holder)
        if tally is not None:
            tally.refusals[limit] = tally.refusals.get(limit, 0) + 1

    def _tally(self, holder: str, limits: Limits) -> Tally:
        """Return what a holder has used, to which these limits apply from now on."""
        tally = self._tallies.get(holder)
        if tally is None:
            tally = self._tallies[holder] = Tally(holder)
        if tally.limits != limits:
            tally.use(limits, self._store)
        return tally
