"""Totals of periods as one host of a fleet knows them: what Redis has said, and what it does not have yet.

While Redis answers, it counts, and nothing is written here.  While it does not, this host goes on with its
part of what was left: what a row allows, less what was known to be used, divided by the hosts.  What requests
come to meanwhile is kept in the host's own store, until Redis has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from twisted.logger import Logger

from mgw.clients.calendar_window import Change, Changes, Reset, Total, TotalStore, end_of
from mgw.clients.limits import Allowance, RowState
from mgw.clients.period import Period
from mgw.redis.link import RedisLink
from mgw.redis.replies import Sums

T = TypeVar("T")
_log: Final = Logger()


class HostTotal(Total, eq=False, weakref=True):
    """A total that Redis counts."""

    known: Sums = Sums(0, 0, 0)
    """What Redis has said last."""
    away: int = 0
    """What this host has counted since then that Redis has not."""
    in_file: Total | None = None
    """The total in this host's own store."""

    def is_used_up(self, most: int, used: int | None = None) -> bool:
        """Whether this is so; while Redis is away, nobody knows when this host's part has room again."""
        return used is None or Total.is_used_up(self, most, used)


@dataclass(slots=True, eq=False)
class HostTotals:
    """Finds totals, and decides while Redis is away (:class:`~mgw.clients.calendar_window.TotalStore`).

    :param file: keeps what was used meanwhile.
    """

    link: RedisLink
    file: TotalStore
    held: Counter[HostTotal] = field(default_factory=Counter)
    """What requests of this host hold, whoever has admitted them."""
    used_away: dict[HostTotal, int] = field(default_factory=dict)
    """What was used that Redis does not have."""
    sent: Counter[HostTotal] = field(default_factory=Counter)
    """What of it was sent, and not answered."""
    _totals: WeakValueDictionary[tuple[str, str, bool, str], HostTotal] = field(
        default_factory=WeakValueDictionary
    )

    def find(self, row: Allowance, period: Period) -> HostTotal:
        """Return the total of a period."""
        place = row.holder, row.limit.name, row.refuses, period.name
        total = self._totals.get(place)
        if total is None:
            self._totals[place] = total = HostTotal(row, period)
        return total

    def begin(self, changes: Changes, then: Callable[[Total | None], T]) -> T | Awaitable[T]:
        """Count a request that begins while Redis is away, if this host's part has room for it."""
        full: HostTotal | None = None
        for change in changes:
            total, most = _host_total(change.total), change.most
            if most is not None and not self._has_room(total, most):
                full = total if full is None or total.period.ends > full.period.ends else full
        if full is not None:
            return then(full)
        for change in changes:
            total = _host_total(change.total)
            total.away += change.used + change.held
            self.held[total] += change.held
        held = [Change(self._in_file(change.total), 0, change.used + change.held) for change in changes]
        return self.file.begin(held, then)

    def settle(self, changes: Changes) -> None:
        """Count the end of a request, as far as Redis does not."""
        if not self.link.is_up:
            for change in changes:
                _host_total(change.total).away += change.used + change.held

    def state(self, totals: Sequence[Total], now: float) -> list[RowState]:  # noqa: ARG002 (the interface's)
        """Return what is known while Redis is away."""
        return [state_of_host(_host_total(total)) for total in totals]

    def reset(self, totals: Sequence[Total], reset: Reset) -> bool:  # noqa: ARG002 (as above)
        """Set nothing: Redis would not know of it."""
        return False

    def learn(self, total: HostTotal, sums: Sums) -> None:
        """Know what Redis says."""
        known, row = total.known, total.row
        if sums.lost:
            _log.warn(
                "what requests of a host held that is gone counts in full: {holder} {limit} {amount}",
                holder=row.holder,
                limit=row.limit.name,
                amount=sums.lost,
            )
        is_newer = (sums.resets, sums.used) >= (known.resets, known.used)
        total.known = sums if is_newer else Sums(known.used, sums.held, known.resets)
        total.away = self.used_away.get(total, 0) + self.sent[total]

    def remember(self, total: HostTotal, used: int) -> None:
        """Keep what was used until Redis has it."""
        self.used_away[total] = self.used_away.get(total, 0) + used
        self.file.settle([Change(self._in_file(total), used, 0)])

    def release(self, total: Total, held: int) -> None:
        """Hold no more what a request held that was admitted here alone."""
        self.file.settle([Change(self._in_file(total), 0, -held)])

    def send(self) -> dict[HostTotal, int]:
        """Return what Redis is to be told."""
        used, self.used_away = self.used_away, {}
        self.sent.update(used)
        return used

    def drop(self, total: HostTotal) -> None:
        """Remember a total no longer of which this host holds nothing, as Redis has confirmed."""
        if not self.held[total]:
            del self.held[total]

    def keep(self, total: HostTotal, used: int) -> None:
        """Keep what was sent, and what Redis does not have."""
        self._take_back(total, used)
        self.used_away[total] = self.used_away.get(total, 0) + used

    def forget(self, total: HostTotal, used: int) -> None:
        """Keep no more what was sent, and what Redis has by now."""
        self._take_back(total, used)
        self.file.settle([Change(self._in_file(total), -used, 0)])

    def recall(self, rows: Sequence[RowState]) -> None:
        """Know what an earlier process of this host has kept."""
        for row in rows:
            if row.used:
                allowance = Allowance(row.limit, row.most or 1, row.holder, refuses=row.refuses)
                ends = inf if row.resets is None else row.resets
                total = self.find(allowance, Period(row.period, -inf, ends))
                self.used_away.setdefault(total, row.used)

    def _take_back(self, total: HostTotal, used: int) -> None:
        self.sent[total] -= used
        if not self.sent[total]:
            del self.sent[total]

    def _has_room(self, total: HostTotal, most: int) -> bool:
        room = most - total.known.used - total.known.held
        return room > 0 and total.away < max(1, room // max(1, self.link.hosts))

    def _in_file(self, total: Total) -> Total:
        total = _host_total(total)
        if total.in_file is None:
            total.in_file = self.file.find(total.row, total.period)
        return total.in_file


def state_of_host(total: HostTotal) -> RowState:
    """Return the state of a total as this host knows it."""
    row, period, known = total.row, total.period, total.known
    amounts = known.used + max(0, total.away), known.held, row.most
    return RowState(row.holder, row.limit, period.name, *amounts, end_of(period), row.refuses)


def _host_total(total: Total) -> HostTotal:
    assert isinstance(total, HostTotal), "it was found here"
    return total
