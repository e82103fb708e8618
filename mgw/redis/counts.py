"""Limits of keys and of sessions across hosts, counted in Redis.

What Redis admits is counted here too (:mod:`mgw.identity.shared_counts`): so when Redis returns after an
outage, it learns what is under way here by then, and what was used meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.clients.limits import AMOUNTS, Allowance, Limit, LimitReached, Limits, RowState, Taken, Unit
from mgw.clients.local_counts import LocalCounts, LocalPermit
from mgw.clients.period import Period, Window, period_of
from mgw.redis.link import GIVEN_UP, RedisLink
from mgw.redis.protocol import UNREADABLE, Argument, RedisError
from mgw.redis.replies import MAX_PERIOD_MS, MAX_WAIT_MS, Begun
from mgw.redis.scripts import BEGIN, COARSE_MS, END, FINE_LIMIT, FINE_MS, FLIGHT_MS

IN_FLIGHT: Final = Limit("in_flight", Unit.IN_FLIGHT, Window.NONE)
"""What is under way is counted where nothing limits it, too: a reload may say that something does."""
_MAX_AWAY_SECONDS: Final = 60.0
"""What was used longer ago counts in no minute."""


Place = tuple[str, Limit, Period | None]
"""What is counted: for which holder, against which limit, and in which period, if the limit has some."""


class _Row(Struct, frozen=True):
    """A row as Redis counts it."""

    allowance: Allowance
    most: int
    """0: it refuses nothing."""
    held: int
    width: int = COARSE_MS


class _Change(Struct, frozen=True):
    """What is to be added to one row."""

    place: Place
    amount: int
    bucket: str = ""
    """Where it was counted before; empty: nowhere."""


def _rows_of(limits: Limits, held: Taken) -> list[_Row]:
    """Return all rows that Redis counts: what each holder has in flight is one, where it has no limit too."""
    flights, minutes, periods = list[_Row](), list[_Row](), list[_Row]()
    holders = {row.holder: True for row in limits}
    for row in limits:
        most = row.most if row.refuses else 0
        if row.limit.window is Window.NONE:
            if most:
                flights.append(_Row(row, most, int(holders[row.holder])))
                holders[row.holder] = False
            continue
        amount = AMOUNTS[row.limit.unit](held) if row.holds else 0
        is_minute = row.limit.window is Window.MINUTE
        (minutes if is_minute else periods).append(_Row(row, most, amount, _width_of(row)))
    missing = [holder for holder, is_missing in holders.items() if is_missing]
    flights += [_Row(Allowance(IN_FLIGHT, 0, holder), 0, 1) for holder in missing]
    return [*flights, *minutes, *periods]


@dataclass(slots=True, eq=False)
class RedisTallies:
    """Asks Redis, which counts for all hosts (:class:`~mgw.identity.shared_counts.SharedTallies`).

    A ticket is the buckets of Redis' windows in which a request is counted, by the places of their rows.
    """

    link: RedisLink
    local: LocalCounts
    """What is counted here at the same time."""
    keeps_refusals: bool = False
    _away: dict[Place, int] = field(default_factory=dict)
    """What was used while Redis was away."""
    _away_since: float = 0.0

    @property
    def parts(self) -> int:
        """How many hosts there were when that was last known."""
        return self.link.hosts

    def begin(self, limits: Limits, held: Taken) -> Deferred[tuple[str, ...] | LimitReached | None] | None:
        """Ask whether something may begin."""
        link = self.link
        if not link.is_up:
            return None
        rows = _rows_of(limits, held)
        keys, arguments = [link.hosts_key], list[Argument]([link.host])
        for row in rows:
            limit, period = row.allowance.limit, self._period(row.allowance)
            keys += self._keys(row.allowance.holder, limit, period)
            size = row.width if period is None else round(period.ends * 1000)
            arguments += [limit.window.value, row.most, row.held, size]
        return link.run(BEGIN, keys, *arguments).addCallbacks(self._on_begun, _trap, (rows,))

    def end(self, permit: LocalPermit, ticket: tuple[str, ...] | None, taken: Taken) -> None:
        """Tell of the end, or remember what it came to until Redis is back."""
        changes = self._changes(permit, ticket, taken)
        if self.link.is_up:
            flight = [_Change((tally.holder, IN_FLIGHT, None), -1) for tally in permit.plan.tallies]
            self._change([*flight, *changes])
        else:
            self._remember(changes)

    def add(self, permit: LocalPermit, taken: Taken) -> None:
        """Tell of a request that Redis has never counted, or remember it likewise."""
        changes = self._changes(permit, None, taken)
        if not self.link.is_up:
            self._remember(changes)
        elif changes:
            self._change(changes)

    def state(self) -> Deferred[list[RowState]] | None:
        """Return what is used of the rows longer than a minute."""
        return None

    def reset(self, holder: str, limit: str | None, amount: int) -> Deferred[bool] | None:
        """Set what is used of rows longer than a minute in their current period."""
        return None

    def went_down(self) -> None:
        """Redis is away from now on."""
        self._away_since = self.local.clock()

    def came_up(self) -> None:
        """Say what is under way here, and what was used meanwhile."""
        for tally in self.local.tallies:
            self._register(tally.holder, tally.in_flight)
        away, self._away = self._away, {}
        is_recent = self.local.clock() - self._away_since < _MAX_AWAY_SECONDS
        changes = [
            _Change(place, amount)
            for place, amount in away.items()
            if is_recent or place[1].window is not Window.MINUTE
        ]
        if changes:
            self._change(changes)

    def kept_keys(self) -> Iterator[str]:
        """Yield the keys of what is under way here."""
        for tally in self.local.tallies:
            if tally.in_flight:
                yield self._key(tally.holder, "under-way")

    def _changes(self, permit: LocalPermit, ticket: tuple[str, ...] | None, taken: Taken) -> list[_Change]:
        """Return what the end of a request adds to its rows, but for what is in flight."""
        changes = list[_Change]()
        for place, row in enumerate(permit.plan.minutes):
            amount, held = row.amount_of(taken), row.amount_of(permit.held)
            where: Place = (row.allowance.holder, row.allowance.limit, None)
            if row.is_request:  # it counts when it begins, or not at all
                if ticket is not None:
                    changes.append(_Change(where, amount - held, ticket[place]))
                continue
            if ticket is not None and row.is_reserved:
                changes.append(_Change(where, -held, ticket[place]))
            changes.append(_Change(where, amount))
        for period_row, total in zip(permit.plan.periods, permit.totals, strict=True):
            allowance = period_row.allowance
            holds = ticket is not None and allowance.holds
            held = period_row.amount_of(permit.held) if holds else 0
            where = allowance.holder, allowance.limit, total.period
            changes.append(_Change(where, period_row.amount_of(taken) - held))
        return [change for change in changes if change.amount]

    def _change(self, changes: Sequence[_Change]) -> None:
        keys, arguments = [self.link.hosts_key], list[Argument]([self.link.host])
        for change in changes:
            holder, limit, period = change.place
            keys += self._keys(holder, limit, period)
            size = COARSE_MS if period is None else round(period.ends * 1000)
            arguments += [limit.window.value, change.bucket, change.amount, size]
        _ = self.link.run(END, keys, *arguments).addErrback(self._on_lost, changes)

    def _on_lost(self, failure: Failure, changes: Sequence[_Change]) -> None:
        """Tell it again when Redis is back, if it still counts then: better twice than never."""
        failure.trap(RedisError)
        self._remember([change for change in changes if change.place[2] is not None])

    def _remember(self, changes: Sequence[_Change]) -> None:
        away, now = self._away, self.local.clock()
        for place in [place for place in away if place[2] is not None and place[2].ends <= now]:
            del away[place]  # nobody asks for it any more
        for change in changes:
            away[change.place] = away.get(change.place, 0) + change.amount

    def _register(self, holder: str, count: int) -> None:
        """Say how many are under way here, under an id that is new to Redis."""
        if count:
            key = self._key(holder, "under-way")
            self.link.tell("HSET", key, self.link.host, count)
            self.link.tell("PEXPIRE", key, FLIGHT_MS)

    def _on_begun(self, answer: Begun, rows: Sequence[_Row]) -> tuple[str, ...] | LimitReached | None:
        if not self.link.is_up:
            return None  # this host has left meanwhile, and what it had there with it
        if answer.admitted == 1 and len(answer.buckets) == len(rows):
            return tuple(
                bucket
                for row, bucket in zip(rows, answer.buckets, strict=True)
                if row.allowance.limit.window is Window.MINUTE
            )
        row = rows[answer.row].allowance if answer.row < len(rows) else None
        if answer.admitted == 0 and row is not None and row.most and _is_possible(answer, row.limit):
            seconds = answer.milliseconds / 1000
            resets = self.local.clock() + seconds if row.limit.window.is_calendar else None
            return LimitReached(row.holder, row.limit, row.most, seconds, resets)
        self.link.fault(GIVEN_UP if answer.admitted < 0 else UNREADABLE)
        return None

    def _period(self, row: Allowance) -> Period | None:
        """Return the period of the moment, if a row has periods."""
        if not row.limit.window.is_calendar:
            return None
        return period_of(row.limit.window, self.local.clock(), row.zone)

    def _key(self, holder: str, name: str) -> str:
        return f"{self.link.prefix}{holder}:{name}"

    def _keys(self, holder: str, limit: Limit, period: Period | None) -> tuple[str, str]:
        """Return the two keys of a limit; most need but one."""
        if limit.window is Window.NONE:
            name = "under-way"
        elif period is None:
            name = f"{limit.unit.value}s"
            return self._key(holder, f"{name}:order"), self._key(holder, f"{name}:amounts")
        else:
            name = f"{limit.unit.value}s:{period.name}"
        return self._key(holder, name), self._key(holder, name)


def _is_possible(answer: Begun, limit: Limit) -> bool:
    """Whether a limit can make anybody wait for so long."""
    return answer.milliseconds <= (MAX_PERIOD_MS if limit.window.is_calendar else MAX_WAIT_MS)


def _width_of(row: Allowance) -> int:
    """Return the width of the buckets of a window, in milliseconds."""
    fine = row.limit.unit is Unit.REQUEST and row.most <= FINE_LIMIT
    return FINE_MS if fine else COARSE_MS


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
