"""Counts of this process alone: for each holder a tally, with a window for each of its rows.

The rows of a request are looked up once for each tuple of them (a plan), so a request costs a loop over them.
Rows of the calendar are decided by their store: where that is a file, a request waits for it.  Whatever else
the request counts is counted meanwhile, and taken back where the store refuses it.

Tallies of holders that nobody has said to be in use, such as clients that only a token names, are kept up to
a number of them; those that were used last stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from mgw.clients.calendar_window import Change, NoStore, Reset, Total, TotalStore, end_of
from mgw.clients.client_limits import OF_ISSUER, holder_of_refusals
from mgw.clients.limits import (
    ONE_REQUEST,
    Allowance,
    LimitReached,
    Limits,
    Permit,
    RowState,
    Taken,
    Warnings,
    share_reached,
    warnings_of,
)
from mgw.clients.tally import CountingPlan, PeriodRow, Tally, plan_of
from mgw.clients.window import BUSY_SECONDS

MAX_IDLE_HOLDERS: Final = 10_000
"""How many holders are remembered whose rows are in use by nobody."""
_FORGOTTEN_AT_ONCE: Final = 500
_SOON: Final = 0.001


class LocalPermit(Permit, eq=False):
    """A request that :class:`LocalCounts` has counted."""

    plan: CountingPlan
    held: Taken
    entries: list[Any]  # Any: each window has entries of its own, which it alone reads
    """What it holds in each row of a minute; ``None``: nothing."""
    totals: list[Total]
    """Those of the periods to which it belongs, by the places of the rows of the calendar."""


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
        self._plans: dict[Limits, CountingPlan] = {}
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
            self._tally(holder).users += 1
            self._idle.pop(holder, None)
        for holder in {row.holder for row in before}:
            tally = self._tally(holder)
            tally.users -= 1
            if not tally.users:
                self._idle[holder] = tally
        self._forget_plans()

    def begin(
        self, limits: Limits, held: Taken
    ) -> LocalPermit | LimitReached | Awaitable[LocalPermit | LimitReached]:
        """Count a request that begins, or say what stands against it longest."""
        plan = self._plans.get(limits) or self._plan(limits)
        plan.last_use = self._number = self._number + 1
        now = self.clock() if plan.counts_time else 0.0
        found, longest = self._stands_against(plan, now)
        if found is not None:
            return self._refuse(plan, now, found, longest)
        permit = self._hold(plan, held, now)
        return self._begin_periods(permit, now) if plan.periods else permit

    def find_full(self, limits: Limits) -> LimitReached | None:
        """Return what is known at once to stand against a request; rows of the calendar are not asked.

        What is known of those may have been reset in their store since.
        """
        plan = self._plans.get(limits) or self._plan(limits)
        now = self.clock() if plan.counts_time else 0.0
        found, longest = self._stands_against(plan, now)
        return None if found is None else self._refuse(plan, now, found, longest)

    def _stands_against(self, plan: CountingPlan, now: float) -> tuple[Allowance | None, float]:
        """Return which row stands against a request longest, and how long, but for those of the calendar."""
        found: Allowance | None = None
        longest = 0.0
        for flight in plan.flights:
            if flight.tally.in_flight >= flight.most and found is None and flight.allowance.refuses:
                found, longest = flight.allowance, BUSY_SECONDS
        for row in plan.minutes:
            if row.refuses:
                seconds = row.window.wait(now, row.most)
                if seconds > longest:
                    found, longest = row.allowance, seconds
        return found, longest

    def admit(self, limits: Limits, held: Taken) -> LocalPermit:
        """Count a request that begins, whatever stands against it: somebody else has admitted it."""
        plan = self._plans.get(limits) or self._plan(limits)
        now = self.clock()
        permit = self._hold(plan, held, now)
        if plan.periods:
            self._store.settle(_beginning(permit, now))
        return permit

    def end(self, permit: Permit, taken: Taken) -> Warnings:
        """Count the end of a request, and what it came to."""
        assert isinstance(permit, LocalPermit), "it was counted here"
        plan = permit.plan
        now = self.clock() if plan.counts_time else 0.0
        for row, entry in zip(plan.minutes, permit.entries, strict=True):
            amount = row.amount_of(taken)
            if row.shares:
                row.window.fall(now, row.shares)
            if (not amount) if row.is_request else (amount or entry):
                row.window.settle(now, entry, amount)
        warnings = self._settle_periods(permit, taken) if plan.periods else ()
        if plan.warns:
            warnings = _warnings_of_moments(plan, now) + warnings
        for tally in plan.tallies:
            tally.in_flight -= 1
        return warnings

    def add(self, limits: Limits, taken: Taken) -> None:
        """Count a request that was begun and has ended elsewhere; the next one that ends here warns of it."""
        permit = self.admit(limits, ONE_REQUEST)
        plan, now = permit.plan, self.clock()
        for row, entry in zip(plan.minutes, permit.entries, strict=True):
            if row.shares:
                row.window.fall(now, row.shares)
            row.window.settle(now, entry, row.amount_of(taken))
        totals = zip(plan.periods, permit.totals, strict=True)
        if plan.periods:
            self._store.settle([_ending(row, total, ONE_REQUEST, taken) for row, total in totals])
        for tally in plan.tallies:
            tally.in_flight -= 1

    def state(self) -> list[RowState] | Awaitable[list[RowState]]:
        """Return what is used of the rows longer than a minute that were used."""
        now = self.clock()
        return self._store.state(self.totals(), now)

    def totals(self) -> list[Total]:
        """Return the totals of the current periods of all rows that requests have brought.

        Others are not looked up for it: for thousands of clients that would take most of a second.
        """
        now = self.clock()
        return [total for tally in self._tallies.values() for total in tally.totals(now)]

    def totals_of(self, holder: str, limit: str | None) -> list[Total]:
        """Return those of a holder, used or not.

        :param limit: the name of the row; ``None``: all of them.
        """
        self._plan_all()
        tally = self._tallies.get(holder)
        totals = [] if tally is None else tally.totals(self.clock())
        return [total for total in totals if limit in (None, total.row.limit.name)]

    def plan(self, limits: Limits) -> CountingPlan:
        """Return what counts for rows."""
        return self._plans.get(limits) or self._plan(limits)

    def reset(self, holder: str, limit: str | None, amount: int) -> bool | Awaitable[bool]:
        """Set what is used of rows longer than a minute in their current period; what is held stays."""
        totals = self.totals_of(holder, limit)
        return self._store.reset(totals, Reset(holder, limit, amount, self.clock()))

    def count_refusal(self, row: Allowance | LimitReached) -> None:
        """Count a request that was not admitted."""
        self._refusals[holder_of_refusals(row.holder), row.limit.name] += 1

    def _refuse(
        self, plan: CountingPlan, now: float, found: Allowance | None, longest: float
    ) -> LimitReached:
        """Name the row that stands longest against a request: this one, or one of the calendar.

        What an earlier process has left in the store is not known here before a request asks for it.
        """
        reached = None if found is None else LimitReached(found.holder, found.limit, found.most, longest)
        for row in plan.periods:
            total = row.window.current(now)
            if row.most is not None and total.used + total.held >= row.most:
                other = reached_of(row.allowance, total, now)
                if reached is None or other.seconds > reached.seconds:
                    reached = other
        assert reached is not None, "something stands against it"
        self.count_refusal(reached)
        return reached

    def _hold(self, plan: CountingPlan, held: Taken, now: float) -> LocalPermit:
        """Count a request that begins, but for rows of the calendar."""
        entries: list[Any] = []  # Any: as above
        for row in plan.minutes:
            if row.shares and row.is_request:
                row.window.fall(now, row.shares)
            if row.is_request or row.is_reserved:
                entries.append(row.window.hold(now, row.amount_of(held)))
            else:
                entries.append(None)
        for tally in plan.tallies:
            tally.in_flight += 1
        return LocalPermit(plan, held, entries, [])

    def _begin_periods(
        self, permit: LocalPermit, now: float
    ) -> LocalPermit | LimitReached | Awaitable[LocalPermit | LimitReached]:
        """Count a request in rows of the calendar as well, or take back where it is counted already."""

        def on_decision(full: Total | None) -> LocalPermit | LimitReached:
            if full is None:
                return permit
            self._take_back(permit)
            self.count_refusal(full.row)
            rows = zip(permit.plan.periods, permit.totals, strict=True)
            row = next((row.allowance for row, total in rows if total is full), full.row)
            return reached_of(row, full, now)

        return self._store.begin(_beginning(permit, now), on_decision)

    def _take_back(self, permit: LocalPermit) -> None:
        now = self.clock()
        for row, entry in zip(permit.plan.minutes, permit.entries, strict=True):
            row.window.settle(now, entry, 0)
        for tally in permit.plan.tallies:
            tally.in_flight -= 1

    def _settle_periods(self, permit: LocalPermit, taken: Taken) -> Warnings:
        changes, warnings = list[Change](), Warnings()
        for row, total in zip(permit.plan.periods, permit.totals, strict=True):
            change = _ending(row, total, permit.held, taken)
            used = total.used + change.used
            reached = share_reached(row.shares, used) if used >= row.first_share else 0
            if reached > total.warned:
                warnings += warnings_of(row.allowance, row.shares, total.warned, reached)
                total.warned = reached
            elif not change.used and not change.held:
                continue
            changes.append(change)
        if changes:
            self._store.settle(changes)
        return warnings

    def _plan_all(self) -> None:
        """Look up all rows that are in use, so that their holders have windows for them."""
        for limits in self._users.values():
            if limits not in self._plans:
                self._plan(limits)

    def _plan(self, limits: Limits) -> CountingPlan:
        """Look up the rows of a request, and remember where they are counted."""
        if len(self._idle) >= MAX_IDLE_HOLDERS or len(self._plans) >= 2 * MAX_IDLE_HOLDERS:
            self._forget()
        self._plans[limits] = plan = plan_of(limits, self._tally, self._store)
        return plan

    def _forget(self) -> None:
        """Forget the holders that were used least recently, but for those with something in flight."""
        self._forget_plans()
        idle = [tally for tally in self._idle.values() if not tally.in_flight]
        idle.sort(key=attrgetter("last_use"))
        for tally in idle[: max(0, len(self._idle) - MAX_IDLE_HOLDERS + _FORGOTTEN_AT_ONCE)]:
            del self._idle[tally.holder], self._tallies[tally.holder]
        for key in [key for key in self._refusals if key[0] not in self._tallies]:
            if not key[0].endswith(OF_ISSUER):  # there are as many as entries, and metrics never fall
                del self._refusals[key]

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


def reached_of(row: Allowance, total: Total, now: float, used: int | None = None) -> LimitReached:
    """Return what a total without room says to a request.

    :param row: that of the request: its most may be another than that of the latest row of the total.
    :param used: as in :meth:`~mgw.clients.calendar_window.Total.is_used_up`.
    """
    if not total.is_used_up(row.most, used):
        return LimitReached(row.holder, row.limit, row.most, BUSY_SECONDS)
    seconds = max(total.period.ends - now, _SOON)
    return LimitReached(row.holder, row.limit, row.most, seconds, end_of(total.period))


def _beginning(permit: LocalPermit, now: float) -> list[Change]:
    """Return what a request counts in rows of the calendar from its beginning on."""
    changes = []
    for row in permit.plan.periods:
        total = row.window.current(now)
        permit.totals.append(total)
        changes.append(Change(total, 0, row.amount_of(permit.held) if row.holds else 0, row.most))
    return changes


def _ending(row: PeriodRow, total: Total, held: Taken, taken: Taken) -> Change:
    """Return what the end of a request adds to a row of the calendar."""
    return Change(total, row.amount_of(taken), -row.amount_of(held) if row.holds else 0)


def _warnings_of_moments(plan: CountingPlan, now: float) -> Warnings:
    """Return the warnings of rows without periods.

    What is in flight includes the request that ends.  A share warns again only after the row was below it.
    """
    warnings = Warnings()
    for row in plan.minutes:
        if row.shares:
            warned, reached = row.window.reached(now, row.shares)
            warnings += warnings_of(row.allowance, row.shares, warned, reached)
    for flight in plan.flights:
        if flight.shares:
            place, number = (flight.allowance.limit.name, flight.allowance.refuses), flight.tally.in_flight
            warned, reached = flight.tally.warned.get(place, 0), share_reached(flight.shares, number)
            warnings += warnings_of(flight.allowance, flight.shares, warned, reached)
            flight.tally.warned[place] = share_reached(flight.shares, number - 1)
    return warnings
