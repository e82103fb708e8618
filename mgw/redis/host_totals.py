"""Totals of periods as one host of a fleet knows them: what Redis has said, and what it does not have yet.

While Redis answers, it counts, and nothing is written here.  While it does not, this host goes on with its
part of what was left: what a row allows, less what was known to be used, divided by the hosts.  What requests
come to meanwhile is kept in the host's own store, until Redis has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from twisted.logger import Logger

from mgw.clients.calendar_window import Change, Changes, Reset, Total, TotalStore, end_of
from mgw.clients.limits import Allowance, RowState
from mgw.clients.period import Period
from mgw.redis.host_parts import HostParts, HostTotal, host_total
from mgw.redis.link import RedisLink
from mgw.redis.replies import Sums

T = TypeVar("T")
_log: Final = Logger()


@dataclass(slots=True, eq=False)
class HostTotals:
    """Finds totals, and decides while Redis is away (:class:`~mgw.clients.calendar_window.TotalStore`).

    :param file: keeps what was used meanwhile.
    """

    link: RedisLink
    file: TotalStore
    holding: set[HostTotal] = field(default_factory=set)
    """Those in which requests of this host hold something."""
    alone: dict[object, str] = field(default_factory=dict)
    """The requests in progress that are held in the store, with the names of the parts."""
    parts: HostParts = field(init=False)
    """What was used that Redis does not have."""
    _totals: WeakValueDictionary[tuple[str, str, bool, str], HostTotal] = field(
        default_factory=WeakValueDictionary
    )

    def __post_init__(self) -> None:
        self.parts = HostParts(self.file)

    def find(self, row: Allowance, period: Period) -> HostTotal:
        """Return the total of a period."""
        place = row.holder, row.limit.name, row.refuses, period.name
        total = self._totals.get(place)
        if total is None:
            self._totals[place] = total = HostTotal(row, period)
        return total

    def hold(self, total: HostTotal, amount: int) -> None:
        """Know that a request of this host holds something."""
        total.here += amount
        total.requests += 1
        self.holding.add(total)

    def drop(self, total: HostTotal, amount: int) -> None:
        """Know that a request holds it no more."""
        total.here -= amount
        total.requests -= 1
        if not total.requests:
            self.holding.discard(total)

    def begin(self, changes: Changes, then: Callable[[Total | None], T]) -> T | Awaitable[T]:
        """Count a request that begins while Redis is away, if this host's part has room for it."""
        full: HostTotal | None = None
        for change in changes:
            total, most = host_total(change.total), change.most
            if most is not None and not self._has_room(total, most):
                full = total if full is None or total.period.ends > full.period.ends else full
        if full is not None:
            return then(full)
        name, held = self.parts.name, list[Change]()
        for change in changes:
            total = host_total(change.total)
            total.away += change.used + change.held
            if change.held:
                self.hold(total, change.held)
            held.append(Change(self.parts.in_part(name, total), 0, change.used + change.held))

        def on_written(full: Total | None) -> T:
            found = then(full)
            self.alone[found] = name
            return found

        return self.file.begin(held, on_written)

    def settle(self, changes: Changes) -> None:
        """Count the end of a request, as far as Redis does not."""
        if not self.link.is_up:
            for change in changes:
                host_total(change.total).away += change.used + change.held

    def state(self, totals: Sequence[Total], now: float) -> list[RowState]:  # noqa: ARG002 (the interface's)
        """Return what is known while Redis is away."""
        return [state_of_host(host_total(total)) for total in totals]

    def reset(self, totals: Sequence[Total], reset: Reset) -> bool:  # noqa: ARG002 (as above)
        """Set nothing: Redis would not know of it."""
        return False

    def learn(self, total: HostTotal, sums: Sums) -> None:
        """Know what Redis says."""
        known, row = total.known, total.row
        if sums.lost:
            _log.warn(
                "{requests} requests of a host that is gone count in full with what they held: "
                "{holder} {limit} {amount}",
                requests=sums.requests,
                holder=row.holder,
                limit=row.limit.name,
                amount=sums.lost,
            )
        is_newer = (sums.resets, sums.used) >= (known.resets, known.used)
        total.known = sums if is_newer else Sums(known.used, sums.held, known.resets)
        total.away = total.kept

    def release(self, request: object, held: Sequence[tuple[HostTotal, int]]) -> None:
        """Hold no more in the store what a request held that was admitted here alone."""
        name = self.alone.pop(request, None)
        if name is not None:
            changes = [
                Change(self.parts.in_part(name, total), 0, -amount) for total, amount in held if amount
            ]
            if changes:
                self.file.settle(changes)

    def _has_room(self, total: HostTotal, most: int) -> bool:
        room = most - total.known.used - total.known.held
        return room > 0 and total.away < max(1, room // max(1, self.link.hosts))


def state_of_host(total: HostTotal) -> RowState:
    """Return the state of a total as this host knows it."""
    row, period, known = total.row, total.period, total.known
    amounts = known.used + max(0, total.away), known.held, row.most
    return RowState(row.holder, row.limit, period.name, *amounts, end_of(period), row.refuses)
