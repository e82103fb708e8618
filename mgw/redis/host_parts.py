"""What one host has counted of periods during outages of Redis, until Redis has it.

It is kept by outages: each has a name, and its part of each total is a total of its own in the host's store,
whose period has that name behind it.  Redis remembers the names.  So a host that is killed between the moment
at which Redis has taken a part and the one at which the store forgets it may send it again.

What requests hold that were admitted in an outage is held in a part as well.  When its host is back, Redis
takes over its parts and what it holds in one step; if the host is killed before, Redis has the holds of its
last connection, and the store has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from secrets import token_hex

from msgspec import Struct

from mgw.clients.calendar_window import PART_MARK, Change, Total, TotalStore
from mgw.clients.limits import Allowance, RowState
from mgw.clients.period import Period
from mgw.redis.replies import Sums


class HostTotal(Total, eq=False, weakref=True):
    """A total that Redis counts."""

    known: Sums = Sums(0, 0, 0)
    """What Redis has said last."""
    away: int = 0
    """What this host has counted since then that Redis has not."""
    kept: int = 0
    """What of it stands in this host's own store until Redis has it."""
    here: int = 0
    """What requests of this host hold, whoever has admitted them."""
    requests: int = 0
    """How many do."""

    def is_used_up(self, most: int, used: int | None = None) -> bool:
        """Whether this is so; while Redis is away, nobody knows when this host's part has room again."""
        return used is None or Total.is_used_up(self, most, used)


def host_total(total: Total) -> HostTotal:
    """Return a total as one that this host has found."""
    assert isinstance(total, HostTotal), "it was found here"
    return total


FindTotal = Callable[[Allowance, Period], HostTotal]


class Amounts(Struct):
    """What a part adds to a total."""

    used: int = 0
    in_file: int = 0
    """Less than that by what Redis still takes for held: if this process ends, it counts that in full."""


Part = tuple[str, dict[HostTotal, Amounts]]


@dataclass(slots=True, eq=False)
class HostParts:
    """The parts that Redis does not have, as far as is known.

    :param file: keeps them.
    """

    file: TotalStore
    _name: str = ""
    """That of the part to which is added now; empty: nothing was."""
    _parts: dict[str, dict[HostTotal, Amounts]] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)
    """Those that were sent on this connection."""

    @property
    def name(self) -> str:
        """Return the name of the part to which is added now."""
        if not self._name:
            self._name = token_hex(8)
            self._parts[self._name] = {}
        return self._name

    def remember(self, total: HostTotal, used: int, held: int) -> None:
        """Keep what was used until Redis has it.

        :param held: what the request holds in Redis.
        """
        name = self.name
        self._add(name, total, Amounts(used, used - held))
        self.file.settle([Change(self.in_part(name, total), used - held, 0)])

    def send(self) -> list[Part]:
        """Return what Redis is to be told; what is used from now on belongs to another part."""
        self._name = ""
        parts = [(name, part) for name, part in self._parts.items() if name not in self._sent]
        self._sent.update(self._parts)
        return parts

    def send_again(self) -> None:
        """Know that whatever has no answer by now gets none."""
        self._sent.clear()

    def forget(self, name: str) -> None:
        """Keep no more what Redis has."""
        changes = []
        for total, amounts in self._parts.pop(name, {}).items():
            total.kept -= amounts.used
            changes.append(Change(self.in_part(name, total), -amounts.in_file, 0))
        if changes:
            self.file.settle(changes)

    def recall(self, rows: Sequence[RowState], find: FindTotal, then: Callable[[], None]) -> None:
        """Know what earlier processes of this host have kept.

        What their requests held, which counts in full, is made a part as well.

        :param then: called when the store has written that.
        """
        own, held = set(self._parts), dict[HostTotal, int]()
        for row in rows:
            period, _, name = row.period.partition(PART_MARK)
            if not row.used or name in own:
                continue
            ends = inf if row.resets is None else row.resets
            allowance = Allowance(row.limit, row.most or 1, row.holder, refuses=row.refuses)
            total = find(allowance, Period(period, -inf, ends))
            if name:
                self._add(name, total, Amounts(row.used, row.used))
            else:
                held[total] = held.get(total, 0) + row.used
        if held:
            self._make_part(held, then)
        else:
            then()

    def _make_part(self, held: Mapping[HostTotal, int], then: Callable[[], None]) -> None:
        """Keep what requests held as a part; that is known once the store has it."""
        name, changes = token_hex(8), list[Change]()
        for total, used in held.items():
            changes.append(Change(self.file.find(total.row, total.period), -used, 0))
            changes.append(Change(self.in_part(name, total), used, 0))

        def on_written(_: Total | None) -> None:
            for total, used in held.items():
                self._add(name, total, Amounts(used, used))
            then()

        self.file.begin(changes, on_written)

    def _add(self, name: str, total: HostTotal, more: Amounts) -> None:
        amounts = self._parts.setdefault(name, {}).setdefault(total, Amounts())
        amounts.used += more.used
        amounts.in_file += more.in_file
        total.kept += more.used

    def in_part(self, name: str, total: HostTotal) -> Total:
        """Return the part of a total in the store."""
        period = total.period
        named = Period(f"{period.name}{PART_MARK}{name}", period.begins, period.ends)
        return self.file.find(total.row, named)
