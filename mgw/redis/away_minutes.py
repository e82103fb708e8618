"""Usage in rows of a minute during an outage of Redis, which then counts it for the rest of its minute.

It is kept by tenths of a second, each of which counts from its end on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor
from typing import Final

from mgw.redis.limit_rows import Keys, RowChange

_PARTS: Final = 10
"""The parts of a second."""
_MINUTE: Final = 60 * _PARTS
_SWEPT: Final = 1000
"""The number of rows from which on those are looked for that have nothing left."""


@dataclass(slots=True, eq=False)
class AwayMinutes:
    """What Redis does not have.

    :param clock: as that of the counts.
    """

    clock: Callable[[], float]
    _rows: dict[Keys, tuple[int, dict[int, int]]] = field(default_factory=dict)
    """By the keys of a row the width of its buckets, and amounts by the ends of parts of seconds."""
    _sweep_at: int = _SWEPT

    def add(self, keys: Keys, width: int, amount: int, at: float) -> None:
        """Remember what was used at a moment, or with a negative amount that it was not."""
        row = self._rows.get(keys)
        if row is None:
            if len(self._rows) >= self._sweep_at:
                self._sweep()
            row = self._rows[keys] = width, {}
        amounts, end = row[1], floor(at * _PARTS) + 1
        amounts[end] = amounts.get(end, 0) + amount
        if len(amounts) > 2 * _MINUTE:
            self._forget_old(amounts)

    def add_again(self, change: RowChange, at: float) -> None:
        """Remember what was told at a moment and did not arrive."""
        if change.kind == "aged":
            for end, amount in change.used:
                self.add(change.keys, change.size, amount, (end - 1) / _PARTS)
        elif change.amount > 0:
            self.add(change.keys, change.size, change.amount, at)

    def take(self) -> list[RowChange]:
        """Return what Redis is to be told, and forget it."""
        rows, self._rows, self._sweep_at = self._rows, {}, _SWEPT
        now, changes = self.clock(), list[RowChange]()
        for keys, (width, amounts) in rows.items():
            self._forget_old(amounts)
            used = tuple([(end, amount) for end, amount in sorted(amounts.items()) if amount > 0])
            ages = [f"{max(0, round(1000 * (now - end / _PARTS)))}:{amount}" for end, amount in used]
            if used:
                changes.append(RowChange(keys, "aged", 0, bucket=",".join(ages), size=width, used=used))
        return changes

    def _sweep(self) -> None:
        for _, amounts in self._rows.values():
            self._forget_old(amounts)
        self._rows = {keys: row for keys, row in self._rows.items() if row[1]}
        self._sweep_at = max(_SWEPT, 2 * len(self._rows))

    def _forget_old(self, amounts: dict[int, int]) -> None:
        last = floor(self.clock() * _PARTS) - _MINUTE
        for end in [end for end in amounts if end <= last]:
            del amounts[end]
