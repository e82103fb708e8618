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

from mgw.clients.limits import AMOUNTS, Allowance, Limit, LimitReached, Limits, Taken, Unit
from mgw.clients.local_counts import CountedRow, LocalCounts, LocalPermit
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

    holder: str
    limit: Limit
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
    rows, holders = list[_Row](), {row.holder: True for row in limits}
    for row in limits:
        most = row.most if row.refuses else 0
        if row.limit.window is not Window.NONE:
            amount = AMOUNTS[row.limit.unit](held) if row.holds else 0
            rows.append(_Row(row.holder, row.limit, most, amount, _width_of(row)))
        elif most:
            rows.append(_Row(row.holder, row.limit, most, int(holders[row.holder])))
            holders[row.holder] = False
    return rows + [_Row(holder, IN_FLIGHT, 0, 1) for holder, is_missing in holders.items() if is_missing]


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
            limit, period = row.limit, self._period(row.limit)
            keys += self._keys(row.holder, limit, period)
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
        changes = []
        for place, row in enumerate(permit.plan.rows):
            limit = row.allowance.limit
            where = row.allowance.holder, limit, permit.period(place) or self._period(limit)
            bucket = ticket[place] if ticket else ""
            changes += [
                _Change(where, amount, bucket) for amount in _changes_of(row, permit, ticket, taken) if amount
            ]
        return changes

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
                if row.limit.window is not Window.NONE
            )
        row = rows[answer.row] if answer.row < len(rows) else None
        if (
            answer.admitted == 0
            and row is not None
            and row.most
            and _is_possible(answer.milliseconds, row.limit)
        ):
            seconds = answer.milliseconds / 1000
            resets = self.local.clock() + seconds if row.limit.window.is_calendar else None
            return LimitReached(row.holder, row.limit, row.most, seconds, resets)
        self.link.fault(GIVEN_UP if answer.admitted < 0 else UNREADABLE)
        return None

    def _period(self, limit: Limit) -> Period | None:
        """Return the period of the moment, if a limit has periods."""
        return period_of(limit.window, self.local.clock()) if limit.window.is_calendar else None

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


def _changes_of(
    row: CountedRow, permit: LocalPermit, ticket: tuple[str, ...] | None, taken: Taken
) -> tuple[int, ...]:
    """Return what the end of a request adds to what Redis has counted since its beginning."""
    amount, held = row.amount_of(taken), row.amount_of(permit.held) if row.holds else 0
    is_request, is_minute = (
        row.allowance.limit.unit is Unit.REQUEST,
        row.allowance.limit.window is Window.MINUTE,
    )
    if ticket is None:  # a request of a minute counts when it begins, or not at all
        return () if is_request and is_minute else (amount,)
    return (-held, amount) if is_minute and not is_request else (amount - held,)


def _is_possible(milliseconds: int, limit: Limit) -> bool:
    """Whether a limit can make anybody wait for so long."""
    return milliseconds <= (MAX_PERIOD_MS if limit.window.is_calendar else MAX_WAIT_MS)


def _width_of(row: Allowance) -> int:
    """Return the width of the buckets of a window, in milliseconds."""
    fine = row.limit.unit is Unit.REQUEST and row.most <= FINE_LIMIT
    return FINE_MS if fine else COARSE_MS


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
