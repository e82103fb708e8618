"""A sliding window: the total of the last 60 seconds.

What is added counts from its own moment until exactly 60 s later, so no 60 s hold more than the limit,
wherever they begin.  The window keeps one entry for each addition.  To bound its memory, additions within
10 ms share an entry where there can be many: such an entry counts until 60 s after its last addition, up to
10 ms too long for the first of them, and never too short.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mgw.clients.limits import Allowance, Shares, Unit, share_reached

SECONDS: Final = 60.0
MAX_EXACT: Final = 6000
"""Up to this limit each addition of a single unit has its own entry."""
BUSY_SECONDS: Final = 1.0
"""The seconds after which a holder may try again that has too much in progress."""
SHARED_SECONDS: Final = 0.01
"""How far apart the additions of one entry are at most, beyond that: so there are some 6000 entries."""


class Entry:
    """Some additions to a window, which cease to count at one moment."""

    __slots__ = ("amount", "began", "expires")

    def __init__(self, now: float) -> None:
        self.began = now
        self.expires = now + SECONDS
        self.amount = 0


class SlidingWindow:
    """What was added in the last 60 seconds, and what requests in progress hold.

    :param row: there is room while the sum of both is below what it allows.
    """

    __slots__ = ("_counts_single", "_entries", "_is_exact", "_total", "_warned", "held", "row")

    def __init__(self, row: Allowance) -> None:
        self._counts_single = row.limit.unit is Unit.REQUEST
        """Whether all additions are of 1, and only where there is room."""
        self._is_exact = False
        self._total = 0
        self.held = 0
        """What requests in progress hold."""
        self.row = row
        self._warned = 0
        """The largest share that was reached and warned of, and that the sum has not been below since."""
        self._entries: deque[Entry] = deque()
        self.use(row)

    def use(self, row: Allowance) -> None:
        """Count for a row that may allow another amount than before."""
        self.row = row
        self._is_exact = self._counts_single and row.most <= MAX_EXACT

    @property
    def entries(self) -> int:
        """How many entries it keeps."""
        return len(self._entries)

    def wait(self, now: float, most: int) -> float:
        """Return how many seconds pass until there is room, if nothing is added; 0: there is some."""
        self._expire(now)
        excess = self._total + self.held - most
        if excess < 0:
            return 0.0
        for entry in self._entries:
            excess -= entry.amount
            if excess < 0:
                return entry.expires - now
        return BUSY_SECONDS  # what requests in progress hold is enough to fill it

    def hold(self, now: float, amount: int) -> Entry | int:
        """Count what a request holds: a request itself from now on, an estimate until it is settled."""
        if self._counts_single:
            return self.add(now, amount)
        self.held += amount
        return amount

    def settle(self, now: float, held: Entry | int | None, amount: int) -> None:
        """Count what a request came to in place of what it held.

        :param held: what :meth:`hold` has returned; ``None``: it held nothing.
        """
        if isinstance(held, Entry):
            if not amount:
                self.take_back(held, 1)
            return
        if held is not None:
            self.held -= held
        if amount:
            self.add(now, amount)

    def fall(self, now: float, shares: Shares) -> None:
        """Warn again of shares that the sum has fallen below; called before something is added."""
        self._expire(now)
        self._warned = min(self._warned, share_reached(shares, self._total))

    def reached(self, now: float, shares: Shares) -> tuple[int, int]:
        """Return the share that was warned of and the one that is reached now, which is warned of then."""
        self._expire(now)
        warned, reached = self._warned, share_reached(shares, self._total)
        self._warned = reached
        return warned, reached

    def add(self, now: float, amount: int) -> Entry:
        """Count something, and return the entry that holds it."""
        self._expire(now)
        entries = self._entries
        few = len(entries) < 2 * MAX_EXACT  # those taken back may linger
        exact = self._is_exact and few
        if entries and not exact and now - entries[-1].began < SHARED_SECONDS:
            entry = entries[-1]
            entry.expires = max(entry.expires, now + SECONDS)
        else:
            entry = Entry(now)
            entries.append(entry)
        entry.amount += amount
        self._total += amount
        return entry

    def take_back(self, entry: Entry, amount: int) -> None:
        """Count less in an entry; nothing happens where it has ceased to count."""
        if not entry.amount:
            return
        entry.amount -= amount
        self._total -= amount
        entries = self._entries
        while entries and not entries[-1].amount:
            entries.pop()

    def _expire(self, now: float) -> None:
        entries = self._entries
        if entries and entries[-1].began > now:  # somebody has set the clock back
            self._shift(entries[-1].began - now)
        while entries and entries[0].expires <= now:
            entry = entries.popleft()
            self._total -= entry.amount
            entry.amount = 0

    def _shift(self, seconds: float) -> None:
        for entry in self._entries:
            entry.began -= seconds
            entry.expires -= seconds
