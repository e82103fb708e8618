"""Counts of this process alone: for each holder a tally, with a window for each of its rows.

The rows of a request are looked up once for each tuple of them (a plan), so a request costs a loop over them.
Tallies of holders that nobody has said to be in use, such as clients that only a token names, are kept up to
a number of them; those that were used last stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol

from msgspec import Struct

from mgw.clients.calendar_window import CalendarWindow, NoStore, Total, TotalStore
from mgw.clients.limits import AMOUNTS, Allowance, Amount, LimitReached, Limits, Permit, Taken, Unit, Warnings
from mgw.clients.period import Period, Window
from mgw.clients.window import SlidingWindow

BUSY_SECONDS: Final = 1.0
"""The seconds after which a holder may try again that has too many requests in flight."""
MAX_IDLE_HOLDERS: Final = 10_000
"""How many holders are remembered whose rows are in use by nobody."""
_FORGOTTEN_AT_ONCE: Final = 500


class _Counted(Protocol):
    """What was counted over some time."""

    def use(self, row: Allowance) -> None: ...
    def wait(self, now: float, most: int) -> float: ...
    def hold(
        self, now: float, amount: int
    ) -> Any: ...  # Any: each has entries of its own, which it alone reads
    def settle(self, now: float, entry: Any, held: int, amount: int) -> None: ...


class Tally:
    """What one holder has used.  Requests in flight are counted whether or not a row limits them."""

    __slots__ = ("holder", "in_flight", "last_use", "users", "windows")

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.in_flight = 0
        self.last_use = 0
        """The number of the last request that brought a row of it."""
        self.users = 0
        """How many of those whose limits are in use have rows of this holder."""
        self.windows: dict[tuple[str, bool], _Counted] = {}
        """By the name of the row, and whether it refuses."""


class CountedRow(Struct, frozen=True, eq=False):
    """A row with the window that counts for it."""

    allowance: Allowance
    window: _Counted
    amount_of: Amount
    holds: bool
    """Whether a request counts from its beginning on."""
    most: int
    refuses: bool


class Plan(Struct, eq=False):
    """The rows of a request, and where they are counted."""

    limits: Limits
    tallies: tuple[Tally, ...]
    """One for each holder."""
    in_flight: tuple[tuple[Allowance, Tally], ...]
    """The rows that limit what is in flight."""
    rows: tuple[CountedRow, ...]
    """All others."""
    holding: tuple[tuple[int, CountedRow], ...]
    """Those that have to know when a request began, with their places in :attr:`rows`."""
    last_use: int = 0
    """The number of the last request that had it."""


class LocalPermit(Permit, eq=False):
    """A request that :class:`LocalCounts` has counted."""

    plan: Plan
    held: Taken
    entries: list[Any]  # Any: as above
    """What it holds in windows, by the places of the rows; ``None`` where it holds nothing."""

    def period(self, place: int) -> Period | None:
        """Return the period to which the request belongs, if the row at this place has periods."""
        entry = self.entries[place]
        return entry.period if isinstance(entry, Total) else None


class LocalCounts:
    """The counts of this process alone.

    :param clock: unix seconds, of the process's clock.
    :param store: keeps the totals of calendar periods.
    """

    __slots__ = ("_idle", "_number", "_plans", "_refusals", "_store", "_tallies", "_users", "clock")

    def __init__(self, clock: Callable[[], float], store: TotalStore | None = None) -> None:
        self.clock = clock
        self._store: TotalStore = NoStore() if store is None else store
        self._tallies: dict[str, Tally] = {}
        self._idle: dict[str, Tally] = {}
        """Those that nobody uses."""
        self._users: dict[str, Limits] = {}
        self._plans: dict[Limits, Plan] = {}
        self._number = 0
        self._refusals: Counter[tuple[str, str]] = Counter()

    @property
    def tallies(self) -> Iterable[Tally]:
        """What each holder has used."""
        return self._tallies.values()

    def in_flight(self, holder: str) -> int:
        """Return how many requests of a holder are under way."""
        tally = self._tallies.get(holder)
        return 0 if tally is None else tally.in_flight

    def refusals(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests were refused, by the holder and the name of the row that was named."""
        return self._refusals

    def use(self, client: str, limits: Limits) -> None:
        """Know the rows of a client from now on; without any it is forgotten."""
        before = self._users.pop(client, ())
        if limits:
            self._users[client] = limits
        for holder in {row.holder for row in limits}:
            tally = self._tally(holder)
            tally.users += 1
            self._idle.pop(holder, None)
        for holder in {row.holder for row in before}:
            tally = self._tally(holder)
            tally.users -= 1
            if not tally.users:
                self._idle[holder] = tally
        self._forget_plans()

    def begin(self, limits: Limits, held: Taken) -> LocalPermit | LimitReached:
        """Count a request that begins, or say what stands against it longest."""
        plan = self._plans.get(limits) or self._plan(limits)
        plan.last_use = self._number = self._number + 1
        now = self.clock() if plan.rows else 0.0
        found: Allowance | None = None
        longest = 0.0
        for flight, tally in plan.in_flight:
            if tally.in_flight >= flight.most and longest < BUSY_SECONDS and flight.refuses:
                found, longest = flight, BUSY_SECONDS
        for row in plan.rows:
            if row.refuses:
                seconds = row.window.wait(now, row.most)
                if seconds > longest:
                    found, longest = row.allowance, seconds
        if found is None:
            return self._hold(plan, held, now)
        self.count_refusal(found)
        resets = now + longest if found.limit.window.is_calendar else None
        return LimitReached(found.holder, found.limit, found.most, longest, resets)

    def admit(self, limits: Limits, held: Taken) -> LocalPermit:
        """Count a request that begins, whatever stands against it: somebody else has admitted it."""
        plan = self._plans.get(limits) or self._plan(limits)
        return self._hold(plan, held, self.clock())

    def end(self, permit: Permit, taken: Taken) -> Warnings:
        """Count the end of a request, and what it came to."""
        assert isinstance(permit, LocalPermit), "it was counted here"
        plan, before = permit.plan, permit.held
        for tally in plan.tallies:
            tally.in_flight -= 1
        now = self.clock() if plan.rows else 0.0
        for row, entry in zip(plan.rows, permit.entries, strict=True):
            amount = row.amount_of(taken)
            held = row.amount_of(before) if row.holds else 0
            if amount != held:
                row.window.settle(now, entry, held, amount)
        return ()

    def add(self, limits: Limits, taken: Taken) -> None:
        """Count a request that was begun and has ended elsewhere."""
        self.end(self.admit(limits, Taken()), taken)

    def count_refusal(self, row: Allowance | LimitReached) -> None:
        """Count a request that was not admitted."""
        self._refusals[row.holder, row.limit.name] += 1

    def _hold(self, plan: Plan, held: Taken, now: float) -> LocalPermit:
        entries: list[Any] = [None] * len(plan.rows)  # Any: as above
        for place, row in plan.holding:
            entries[place] = row.window.hold(now, row.amount_of(held) if row.holds else 0)
        for tally in plan.tallies:
            tally.in_flight += 1
        return LocalPermit(plan, held, entries)

    def _plan(self, limits: Limits) -> Plan:
        """Look up the rows of a request, and remember where they are counted."""
        tallies = {row.holder: self._tally(row.holder) for row in limits}
        in_flight, rows = [], []
        for row in limits:
            if row.limit.window is Window.NONE:
                in_flight.append((row, tallies[row.holder]))
            else:
                window = self._window(row, tallies[row.holder])
                rows.append(
                    CountedRow(row, window, AMOUNTS[row.limit.unit], row.holds, row.most, row.refuses)
                )
        holding = [
            (place, row)
            for place, row in enumerate(rows)
            if row.holds or row.allowance.limit.window.is_calendar
        ]
        if len(self._idle) > MAX_IDLE_HOLDERS or len(self._plans) >= 2 * MAX_IDLE_HOLDERS:
            self._forget(tallies)
        self._plans[limits] = plan = Plan(
            limits, tuple(tallies.values()), tuple(in_flight), tuple(rows), tuple(holding)
        )
        return plan

    def _forget(self, kept: Mapping[str, Tally]) -> None:
        """Forget the holders that were used least recently, but for those with something in flight."""
        self._forget_plans()
        idle = [tally for tally in self._idle.values() if not tally.in_flight and tally.holder not in kept]
        idle.sort(key=attrgetter("last_use"))
        for tally in idle[: max(0, len(self._idle) - MAX_IDLE_HOLDERS + _FORGOTTEN_AT_ONCE)]:
            del self._idle[tally.holder], self._tallies[tally.holder]

    def _forget_plans(self) -> None:
        for plan in self._plans.values():
            for tally in plan.tallies:
                tally.last_use = max(tally.last_use, plan.last_use)
        self._plans.clear()

    def _tally(self, holder: str) -> Tally:
        tally = self._tallies.get(holder)
        if tally is None:
            self._tallies[holder] = self._idle[holder] = tally = Tally(holder)
        return tally

    def _window(self, row: Allowance, tally: Tally) -> _Counted:
        """Return what counts for a row: the same as before, where there was one."""
        limit, place = row.limit, (row.limit.name, row.refuses)
        window = tally.windows.get(place)
        if window is None:
            if limit.window is Window.MINUTE:
                window = SlidingWindow(row.most, counts_single=limit.unit is Unit.REQUEST)
            else:
                window = CalendarWindow(row, self._store)
            tally.windows[place] = window
        window.use(row)
        return window
