"""Limits of keys and of sessions across hosts, counted in Redis.

What Redis admits is counted here too (:mod:`mgw.identity.shared_counts`): so when Redis returns after an
outage, it learns what is under way here by then, and what was used meanwhile (:mod:`mgw.redis.host_totals`).

A script that was sent on a connection that was lost may have been executed.  What begins is therefore
counted among what a host holds, which it states anew under its next id; what ends has a number, and Redis
remembers the last one of each id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.limits import (
    LIMITS_BY_NAME,
    LimitReached,
    Limits,
    RowState,
    Taken,
    Unit,
    Warnings,
    share_of_limits,
    warnings_of,
)
from mgw.clients.local_counts import LocalCounts, LocalPermit, reached_of
from mgw.clients.tally import CountingPlan, MinuteRow, PeriodRow
from mgw.redis.host_totals import HostTotal, HostTotals, state_of_host
from mgw.redis.limit_rows import (
    AskedRow,
    Keys,
    RowChange,
    Ticket,
    describe,
    end_in_ms,
    flight_keys,
    is_possible,
    place_of,
    row_keys,
    state_in_redis,
    width_of,
)
from mgw.redis.link import GIVEN_UP, RedisLink
from mgw.redis.protocol import UNREADABLE, Argument, RedisError
from mgw.redis.replies import Begun, Sums, TotalRow
from mgw.redis.scripts import BEGIN, END, FLIGHT_MS, RESET, RETURN, STATE

_MAX_AWAY_SECONDS: Final = 60.0
"""What was used longer ago counts in no minute."""


@dataclass(slots=True, eq=False)
class RedisTallies:
    """Asks Redis, which counts for all hosts (:class:`~mgw.identity.shared_counts.SharedTallies`)."""

    link: RedisLink
    local: LocalCounts
    """What is counted here at the same time."""
    totals: HostTotals
    """Those that :attr:`local` has."""
    keeps_refusals: bool = False
    _away: Counter[Keys] = field(default_factory=Counter)
    """What was used in rows of a minute while Redis was away."""
    _away_since: float = 0.0
    _registered: set[HostTotal] = field(default_factory=set)
    """The totals in which it may hold something under an id that it had before."""
    _ids: list[str] = field(default_factory=list)
    """These ids."""
    _number: int = 0
    """That of the last end."""
    _unsure: dict[str, list[tuple[int, list[RowChange]]]] = field(default_factory=dict)
    """Ends that had no answer, by the ids under which they were told."""
    _has_recalled: bool = False

    @property
    def _totals_key(self) -> str:
        return f"{self.link.prefix}totals"

    @property
    def parts(self) -> int:
        """How many hosts there were when that was last known."""
        return self.link.hosts

    def share(self, limits: Limits) -> Limits:
        """Return what this host may use alone; of periods, its totals know it."""
        parts = share_of_limits(limits, self.parts)
        return tuple(
            [row if row.limit.window.is_calendar else part for row, part in zip(limits, parts, strict=True)]
        )

    def begin(self, limits: Limits, held: Taken) -> Deferred[Ticket | LimitReached | None] | None:
        """Ask whether something may begin."""
        link = self.link
        if not link.is_up:
            return None
        rows = self._rows_of(self.local.plan(limits), held)
        keys = [link.hosts_key, self._totals_key, *(key for row in rows for key in row.keys)]
        arguments = [argument for row in rows for argument in row.arguments()]
        asked = link.run(BEGIN, keys, link.host, *arguments)
        return asked.addCallbacks(self._on_begun, self._on_not_begun, (rows, link.host), {}, (rows,))

    def end(self, permit: LocalPermit, ticket: Ticket | None, taken: Taken) -> Deferred[Warnings] | None:
        """Tell of the end, or remember what it came to until Redis is back."""
        plan = permit.plan
        changes = self._minutes(permit, ticket, taken)
        totals = permit.totals if ticket is None else ticket.totals
        for row, total in zip(plan.periods, totals, strict=True):
            assert isinstance(total, HostTotal), "they are those of this host"
            held = row.amount_of(permit.held) if row.holds else 0
            self.totals.held[total] -= held
            if ticket is None and held:
                self.totals.release(total, held)
            keys = row_keys(self.link.prefix, row.allowance, total.period)
            amount = row.amount_of(taken)
            changes.append(RowChange(keys, "total", amount, held, "", total, row.allowance, row.shares))
        if not self.link.is_up:
            self._remember(changes)
            return None
        return self._tell([*self._flights(plan), *changes])

    def add(self, permit: LocalPermit, taken: Taken) -> None:
        """Tell of a request that Redis has never counted, or remember it likewise."""
        changes = list[RowChange]()
        for row in permit.plan.minutes:
            keys = row_keys(self.link.prefix, row.allowance, None)
            amount, width = row.amount_of(taken), width_of(row)
            changes.append(RowChange(keys, "added", amount, shares=row.shares, size=width))
        for period_row, total in zip(permit.plan.periods, permit.totals, strict=True):
            assert isinstance(total, HostTotal), "they are those of this host"
            keys = row_keys(self.link.prefix, period_row.allowance, total.period)
            changes.append(RowChange(keys, "total", period_row.amount_of(taken), 0, "", total))
        changes = [change for change in changes if change.amount]
        if not self.link.is_up:
            self._remember(changes)
        elif changes:
            _ = self._tell(changes)

    def state(self) -> Deferred[list[RowState]] | None:
        """Return what is used of the rows longer than a minute."""
        if not self.link.is_up:
            return None
        totals = [total for total in self.local.totals() if isinstance(total, HostTotal)]

        def on_state(rows: list[TotalRow]) -> list[RowState]:
            states = {place_of(total): state_of_host(total) for total in totals}
            for row in rows:
                if row.name in LIMITS_BY_NAME:
                    known = states.get((row.holder, row.name, row.refuses, row.period))
                    state = state_in_redis(row, known)
                    states[row.holder, row.name, row.refuses, row.period] = state
            return list(states.values())

        def on_failure(failure: Failure) -> list[RowState]:
            failure.trap(RedisError)
            return list(map(state_of_host, totals))

        asked = self.link.run(STATE, [self.link.hosts_key, self._totals_key])
        return asked.addCallbacks(on_state, on_failure)

    def reset(self, holder: str, limit: str | None, amount: int) -> Deferred[bool] | None:
        """Set what is used of rows longer than a minute in their current period."""
        if not self.link.is_up:
            return None
        totals = self.local.totals_of(holder, limit)
        keys = [row_keys(self.link.prefix, total.row, total.period)[0] for total in totals]
        about = [argument for total in totals for argument in (end_in_ms(total.period), describe(total))]
        arguments = [holder, limit or "", amount, *about]

        def on_failure(failure: Failure) -> bool:
            failure.trap(RedisError)
            return False

        asked = self.link.run(RESET, [self.link.hosts_key, self._totals_key, *keys], *arguments)
        return asked.addCallbacks(bool, on_failure)

    def went_down(self) -> None:
        """Redis is away from now on."""
        self._away_since = self.local.clock()
        self._ids.append(self.link.host)
        self._registered.update(self.totals.held)

    def came_up(self) -> None:
        """Say what is under way here, and what was used meanwhile."""
        for tally in self.local.tallies:
            self._register(flight_keys(self.link.prefix, tally.holder)[0], tally.in_flight)
        for keys, held in self._minutes_held():
            self._register(f"{keys[1]}:held", held)
        away, self._away = self._away, Counter()
        if away and self.local.clock() - self._away_since < _MAX_AWAY_SECONDS:
            _ = self._tell([RowChange(keys, "minute", amount) for keys, amount in away.items()])
        self._return()
        self._push()  # before anything else can begin; what is unsure follows with the answer

    def kept_keys(self) -> Iterator[str]:
        """Yield the keys of what is under way here."""
        for tally in self.local.tallies:
            if tally.in_flight:
                yield flight_keys(self.link.prefix, tally.holder)[0]
        for keys, held in self._minutes_held():
            if held:
                yield f"{keys[1]}:held"

    # What begins

    def _rows_of(self, plan: CountingPlan, held: Taken) -> list[AskedRow]:
        """Return all rows that Redis counts: what each holder has in flight is one, limited or not."""
        rows, counted = list[AskedRow](), set[str]()
        for flight in plan.flights:
            if flight.allowance.refuses:
                holder = flight.allowance.holder
                one = int(holder not in counted)
                rows.append(
                    AskedRow(
                        flight_keys(self.link.prefix, holder), "none", flight.most, one, 0, flight.allowance
                    )
                )
                counted.add(holder)
        for tally in plan.tallies:
            if tally.holder not in counted:
                rows.append(AskedRow(flight_keys(self.link.prefix, tally.holder), "none", 0, 1, 0))
        rows += [self._minute(row, held) for row in plan.minutes]
        now = self.local.clock() if plan.periods else 0.0
        return rows + [self._period(row, held, now) for row in plan.periods]

    def _minute(self, row: MinuteRow, held: Taken) -> AskedRow:
        kind = "reserved" if row.is_reserved else "minute"
        amount = row.amount_of(held) if row.is_request or row.is_reserved else 0
        keys, most = row_keys(self.link.prefix, row.allowance, None), row.most if row.refuses else 0
        return AskedRow(keys, kind, most, amount, width_of(row), row.allowance, None, row.shares)

    def _period(self, row: PeriodRow, held: Taken, now: float) -> AskedRow:
        total = row.window.current(now)
        assert isinstance(total, HostTotal), "they are those of this host"
        amount = row.amount_of(held) if row.holds else 0
        keys = row_keys(self.link.prefix, row.allowance, total.period)
        kind = "total" if row.allowance.limit.unit is Unit.REQUEST else "budget"
        return AskedRow(keys, kind, row.most or 0, amount, end_in_ms(total.period), row.allowance, total)

    def _on_begun(self, answer: Begun, rows: Sequence[AskedRow], host: str) -> Ticket | LimitReached | None:
        if not self.link.is_up or self.link.host != host:
            self._on_left(rows)
            return None  # this host has left meanwhile, and what it had there with it
        totals = [(row, row.total) for row in rows if row.total is not None]
        if answer.admitted >= 0 and len(answer.sums) == len(totals):
            for (_, total), sums in zip(totals, answer.sums, strict=True):
                self.totals.learn(total, sums)
            if answer.admitted and len(answer.buckets) == len(rows):
                for row, total in totals:
                    self.totals.held[total] += row.held
                pairs = zip(rows, answer.buckets, strict=True)
                buckets = tuple([bucket for row, bucket in pairs if row.kind in ("minute", "reserved")])
                return Ticket(buckets, tuple([total for _, total in totals]))
            asked = rows[answer.row] if answer.row < len(rows) else None
            if not answer.admitted and asked is not None and asked.most and is_possible(answer, asked):
                return self._reached(asked, answer.milliseconds / 1000)
        self.link.fault(GIVEN_UP if answer.admitted < 0 else UNREADABLE)
        return None

    def _on_not_begun(self, failure: Failure, rows: Sequence[AskedRow]) -> None:
        failure.trap(RedisError)
        self._on_left(rows)

    def _on_left(self, rows: Sequence[AskedRow]) -> None:
        """Redis may have counted what nobody here knows of: it is taken back when Redis is there."""
        self._registered.update(row.total for row in rows if row.total is not None)

    def _reached(self, asked: AskedRow, seconds: float) -> LimitReached:
        row = asked.row
        assert row is not None, "it limits something"
        if asked.total is not None:
            return reached_of(row, asked.total, self.local.clock(), asked.total.known.used)
        return LimitReached(row.holder, row.limit, asked.most, seconds)

    # What ends

    def _minutes(self, permit: LocalPermit, ticket: Ticket | None, taken: Taken) -> list[RowChange]:
        """Return what the end of a request adds to its rows of a minute."""
        changes = []
        for place, row in enumerate(permit.plan.minutes):
            keys = row_keys(self.link.prefix, row.allowance, None)
            amount, held, bucket = row.amount_of(taken), row.amount_of(permit.held), ""
            if row.is_request:  # it counts when it begins, or not at all
                bucket = "" if ticket is None else ticket.buckets[place]
                amount, held = 0 if ticket is None else amount - held, 0
            elif not row.is_reserved:
                held = 0
            if amount or held or row.shares:
                change = RowChange(keys, "minute", amount, held, bucket, None, row.allowance, row.shares)
                changes.append(change)
        return changes

    def _flights(self, plan: CountingPlan) -> list[RowChange]:
        """Return what the end of a request says of what is in flight: first what may be warned of."""
        prefix, changes = self.link.prefix, list[RowChange]()
        for flight in plan.flights:
            if flight.shares:
                keys = flight_keys(prefix, flight.allowance.holder)
                changes.append(RowChange(keys, "warn", 0, 0, "", None, flight.allowance, flight.shares))
        changes += [RowChange(flight_keys(prefix, tally.holder), "none", -1) for tally in plan.tallies]
        return changes

    def _tell(self, changes: list[RowChange]) -> Deferred[Warnings]:
        link = self.link
        self._number += 1
        keys = [link.hosts_key, self._totals_key, self._number_key(link.host)]
        keys += [key for change in changes for key in change.keys]
        arguments = [argument for change in changes for argument in change.arguments()]
        told = self._number, changes
        asked = link.run(END, keys, link.host, self._number, *arguments)
        return asked.addCallbacks(self._on_ended, self._on_lost, (told, link.host), {}, (told, link.host))

    def _on_ended(
        self,
        sums: tuple[Sums, ...] | None,
        told: tuple[int, list[RowChange]],
        host: str,
    ) -> Warnings:
        _, changes = told
        looked = [change for change in changes if change.total is not None or change.warned is not None]
        looked = [change for change in looked if change.total is not None or change.shares]
        if sums is None or len(sums) != len(looked):
            self._on_unsure(told, host)
            self.link.fault(GIVEN_UP if sums is None else UNREADABLE)
            return ()
        warnings = Warnings()
        for change, found in zip(looked, sums, strict=True):
            total, row = change.total, change.warned
            if total is not None:
                if change.is_kept:
                    self.totals.forget(total, change.amount)
                self.totals.learn(total, found)
                self.totals.drop(total)
            if row is not None and found.warned > found.warned_before:
                warnings += warnings_of(row, change.shares, found.warned_before, found.warned)
        return warnings

    def _on_lost(self, failure: Failure, told: tuple[int, list[RowChange]], host: str) -> Warnings:
        """Count what Redis may not have counted."""
        failure.trap(RedisError)
        self._on_unsure(told, host)
        for change in told[1]:
            if change.total is not None and not change.is_kept:
                change.total.away += max(0, change.amount - change.held)
        return ()

    def _on_unsure(self, told: tuple[int, list[RowChange]], host: str) -> None:
        """See when Redis is back whether it has counted an end; until then it may hold what that has left."""
        self._unsure.setdefault(host, []).append(told)
        self._registered.update(change.total for change in told[1] if change.total is not None)

    def _remember(self, changes: Sequence[RowChange]) -> None:
        for change in changes:
            if change.total is None:
                self._away[change.keys] += max(0, change.amount)
            elif change.amount:
                self.totals.remember(change.total, change.amount)

    # What Redis is told when it is back

    def _register(self, key: str, count: int) -> None:
        """Say how many are under way here, under an id that is new to Redis."""
        for host in self._ids:
            self.link.tell("HDEL", key, host)
        if count:
            self.link.tell("HSET", key, self.link.host, count)
            self.link.tell("PEXPIRE", key, FLIGHT_MS)

    def _return(self) -> None:
        """Say what this host holds, and learn which of the last ends were counted."""
        link, ids = self.link, self._ids[-100:]
        totals = list({*self._registered, *self.totals.held})
        keys = [link.hosts_key, self._totals_key, *map(self._number_key, ids)]
        keys += [row_keys(self.link.prefix, total.row, total.period)[0] for total in totals]
        arguments = list[Argument]([link.host, len(ids), *ids])
        for total in totals:
            arguments += [max(0, self.totals.held[total]), end_in_ms(total.period), describe(total)]
        asked = link.run(RETURN, keys, *arguments)
        _ = asked.addCallbacks(self._on_returned, _trap, (ids,))

    def _on_returned(self, numbers: list[int], ids: list[str]) -> None:
        if len(numbers) != len(ids):
            self.link.fault(UNREADABLE)
            return
        for host, last in zip(ids, numbers, strict=True):
            for number, changes in self._unsure.pop(host, []):
                self._resolve(changes, is_counted=number <= last)
        self._unsure.clear()
        del self._ids[:]
        self.totals.held = +self.totals.held
        self._registered = set()
        if self._has_recalled:
            self._push()
            return
        self._has_recalled = True
        kept = self.totals.file.state([], self.local.clock())
        if isinstance(kept, Deferred):
            _ = kept.addCallback(self._on_kept)
        else:
            self._push()

    def _on_kept(self, rows: list[RowState]) -> None:
        self.totals.recall(rows)
        if self.link.is_up:
            self._push()

    def _resolve(self, changes: Sequence[RowChange], *, is_counted: bool) -> None:
        """Know whether the end of a request was counted whose answer was lost."""
        for change in changes:
            total = change.total
            if total is None or not change.amount:
                continue
            if not is_counted and change.is_kept:
                self.totals.keep(total, change.amount)
            elif not is_counted:
                self.totals.remember(total, change.amount)
            elif change.is_kept:
                self.totals.forget(total, change.amount)

    def _push(self) -> None:
        """Add what was used while Redis was away."""
        changes = list[RowChange]()
        for total, amount in self.totals.send().items():
            if amount:
                keys = row_keys(self.link.prefix, total.row, total.period)
                changes.append(RowChange(keys, "total", amount, 0, "", total, is_kept=True))
        if changes:
            _ = self._tell(changes)

    def _minutes_held(self) -> Iterator[tuple[Keys, int]]:
        """Yield what requests of this host hold in rows of a minute."""
        for tally in self.local.tallies:
            for row, held in tally.minutes_held():
                yield row_keys(self.link.prefix, row, None), held

    def _number_key(self, host: str) -> str:
        return f"{self.link.prefix}last-end:{host}"


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
