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


def _flight_of(limits: Limits) -> Limits:
    """Return all rows that Redis counts: first what is in flight, with 0 where it has no limit."""
    flight = [row for row in limits if row.limit.window is Window.NONE]
    return (*(flight or [Allowance(IN_FLIGHT, 0)]), *(row for row in limits if row not in flight))


class _Change(Struct, frozen=True):
    """What is to be added to one limit."""

    limit: Limit
    period: Period | None
    amount: int
    bucket: str = ""
    """Where it was counted before; empty: nowhere."""


@dataclass(slots=True, eq=False)
class RedisTallies:
    """Asks Redis, which counts for all hosts (:class:`~mgw.identity.shared_counts.SharedTallies`).

    A ticket is the bucket of Redis' window of requests in which a request was counted; empty: there is none.
    """

    link: RedisLink
    local: LocalCounts
    """What is counted here at the same time."""
    keeps_refusals: bool = False
    _away: dict[str, dict[tuple[Limit, Period | None], int]] = field(default_factory=dict)
    """What each holder has used while Redis was away."""
    _away_since: float = 0.0

    @property
    def parts(self) -> int:
        """How many hosts there were when that was last known."""
        return self.link.hosts

    def begin(self, holder: str, limits: Limits) -> Deferred[str | LimitReached | None] | None:
        """Ask whether something may begin."""
        link = self.link
        if not link.is_up:
            return None
        keys, arguments = [link.hosts_key], list[Argument]([link.host])
        for row in _flight_of(limits):
            limit, period = row.limit, self._period(row.limit)
            keys += self._keys(holder, limit, period)
            size = _width_of(row) if period is None else round(period.ends * 1000)
            arguments += [limit.window.value, limit.name, row.most, limit.unit.held, size]
        return link.run(BEGIN, keys, *arguments).addCallbacks(self._on_begun, _trap, (limits,))

    def end(self, permit: LocalPermit, ticket: str | None, taken: Taken) -> None:
        """Tell of the end, or remember what it came to until Redis is back."""
        holder, changes = permit.tally.holder, self._changes(permit, ticket, taken)
        if self.link.is_up:
            self._change(holder, [_Change(IN_FLIGHT, None, -1), *changes])
        else:
            self._remember(holder, changes)

    def add(self, permit: LocalPermit, taken: Taken) -> None:
        """Tell of a request that Redis has never counted, or remember it likewise."""
        holder, changes = permit.tally.holder, self._changes(permit, None, taken)
        if not self.link.is_up:
            self._remember(holder, changes)
        elif changes:
            self._change(holder, changes)

    def went_down(self) -> None:
        """Redis is away from now on."""
        self._away_since = self.local.clock()

    def came_up(self) -> None:
        """Say what is under way here, and what was used meanwhile."""
        for tally in self.local.tallies:
            self._register(tally.holder, tally.in_flight)
        away, self._away = self._away, {}
        is_recent = self.local.clock() - self._away_since < _MAX_AWAY_SECONDS
        for holder, amounts in away.items():
            changes = [
                _Change(limit, period, amount)
                for (limit, period), amount in amounts.items()
                if is_recent or limit.window is not Window.MINUTE
            ]
            if changes:
                self._change(holder, changes)

    def kept_keys(self) -> Iterator[str]:
        """Yield the keys of what is under way here."""
        for tally in self.local.tallies:
            if tally.in_flight:
                yield self._key(tally.holder, "under-way")

    def _changes(self, permit: LocalPermit, ticket: str | None, taken: Taken) -> list[_Change]:
        """Return what the end of a request adds to its limits, but for what is in flight."""
        changes = []
        for row in permit.tally.limits:
            limit = row.limit
            amount = _change_of(limit, permit, ticket, taken)
            if amount:
                bucket = (ticket or "") if limit.unit.held else ""
                period = permit.period(limit.name) or self._period(limit)
                changes.append(_Change(limit, period, amount, bucket))
        return changes

    def _change(self, holder: str, changes: Sequence[_Change]) -> None:
        keys, arguments = [self.link.hosts_key], list[Argument]([self.link.host])
        for change in changes:
            limit, period = change.limit, change.period
            keys += self._keys(holder, limit, period)
            size = COARSE_MS if period is None else round(period.ends * 1000)
            arguments += [limit.window.value, change.bucket, change.amount, size]
        _ = self.link.run(END, keys, *arguments).addErrback(self._on_lost, holder, changes)

    def _on_lost(self, failure: Failure, holder: str, changes: Sequence[_Change]) -> None:
        """Tell it again when Redis is back, if it still counts then: better twice than never."""
        failure.trap(RedisError)
        self._remember(holder, [change for change in changes if change.period is not None])

    def _remember(self, holder: str, changes: Sequence[_Change]) -> None:
        away, now = self._away.setdefault(holder, {}), self.local.clock()
        for place in [place for place in away if place[1] is not None and place[1].ends <= now]:
            del away[place]  # nobody asks for it any more
        for change in changes:
            place = change.limit, change.period
            away[place] = away.get(place, 0) + change.amount

    def _register(self, holder: str, count: int) -> None:
        """Say how many are under way here, under an id that is new to Redis."""
        if count:
            key = self._key(holder, "under-way")
            self.link.tell("HSET", key, self.link.host, count)
            self.link.tell("PEXPIRE", key, FLIGHT_MS)

    def _on_begun(self, answer: Begun, limits: Limits) -> str | LimitReached | None:
        if not self.link.is_up:
            return None  # this host has left meanwhile, and what it had there with it
        if answer.admitted == 1:
            return answer.text
        row = next((row for row in limits if row.limit.name == answer.text), None)
        if answer.admitted == 0 and row is not None and _is_possible(answer.milliseconds, row.limit):
            return LimitReached(answer.text, row.most, answer.milliseconds / 1000)
        self.link.fault(UNREADABLE if answer.admitted == 0 else GIVEN_UP)
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


def _change_of(limit: Limit, permit: LocalPermit, ticket: str | None, taken: Taken) -> int:
    """Return what the end of a request adds to what Redis has counted since its beginning."""
    if limit.window is Window.NONE:
        return 0
    held, amount = limit.unit.held, AMOUNTS[limit.unit](taken)
    if held and limit.name not in permit.entries:  # the limit is younger than the request
        return 0
    if held and limit.window is Window.MINUTE:  # a request counts when it begins, or not at all
        return amount - held if ticket else 0
    return amount if ticket is None else amount - held


def _is_possible(milliseconds: int, limit: Limit) -> bool:
    """Whether a limit can make anybody wait for so long."""
    return milliseconds <= (MAX_PERIOD_MS if limit.window.is_calendar else MAX_WAIT_MS)


def _width_of(row: Allowance) -> int:
    """Return the width of the buckets of a window, in milliseconds."""
    fine = row.limit.unit is Unit.REQUEST and row.most <= FINE_LIMIT
    return FINE_MS if fine else COARSE_MS


def _trap(failure: Failure) -> None:
    failure.trap(RedisError)
