"""Thousands of deadlines behind one timer; moving one costs a single assignment.

Requests and chunks come by the thousand, expiries hardly ever.  So a deadline is a number and a place in a
*timer wheel* (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987): deadlines of about the same
time share a slot, and one timer of the reactor waits for the next slot.  Moving a deadline to a later time
leaves it in its slot, and it is looked at again when the slot's time comes.

A slot's time is at or after those of the deadlines in it, so nothing expires early.  Delays of a second and
more end at the next sixteenth of a second, which whole seconds are already; shorter ones are not rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, inf
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

TICKS_PER_SECOND: Final = 16
SLICE_SECONDS: Final = 0.001
"""How long the deadlines of a moment may hold the reactor before others have their turn."""


class TimerWheel:
    """The deadlines of one owner, and the one timer behind them while there are any."""

    __slots__ = ("_clock", "_count", "_fires_at", "_slots", "_timer", "_times", "now")

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.now: Callable[[], float] = clock.seconds
        self._slots: dict[float, dict[Deadline, None]] = {}
        self._times: list[float] = []
        """The times of all slots, as a heap."""
        self._count = 0
        self._fires_at = inf
        """When the timer fires; below all times while slots are emptied."""
        self._timer: IDelayedCall | None = None

    def insert(self, deadline: Deadline, seconds: float) -> None:
        """Put ``deadline`` into the slot for its time, which is ``seconds`` away, and out of its old one."""
        at = deadline.expires_at
        if seconds >= 1:
            at = ceil(at * TICKS_PER_SECOND) / TICKS_PER_SECOND
        old = deadline.slot_at
        if at == old:
            return
        slot = self._slots.get(at)
        if slot is None:
            slot = self._slots[at] = {}
            heappush(self._times, at)
        slot[deadline] = None
        deadline.slot_at = at
        if old == inf:
            self._count += 1
        else:
            del self._slots[old][deadline]
        if at < self._fires_at:
            self._schedule()

    def remove(self, deadline: Deadline) -> None:
        """Take ``deadline`` out of its slot."""
        del self._slots[deadline.slot_at][deadline]
        deadline.slot_at = inf
        self._count -= 1
        if not self._count and self._timer is not None:
            self._timer.cancel()
            self._clear()

    def _clear(self) -> None:
        self._timer = None
        self._fires_at = inf
        self._slots.clear()
        self._times.clear()

    def _schedule(self) -> None:
        """Let the timer fire at the time of the first slot."""
        self._fires_at = at = self._times[0]
        delay = max(0.0, at - self.now())
        if self._timer is None:
            self._timer = self._clock.callLater(delay, self._on_timer)
        else:
            self._timer.reset(delay)

    def _on_timer(self) -> None:
        self._timer = None
        self._fires_at = -inf
        try:
            self._empty_slots()
        finally:  # also after an exception, which the reactor logs
            self._fires_at = inf
            if self._count:
                self._schedule()
            else:
                self._clear()

    def _empty_slots(self) -> None:
        """Expire what is due, and put the rest of the slots that are due into later ones."""
        now = self.now()
        until = now + SLICE_SECONDS
        while self._times and (at := self._times[0]) <= now:
            slot = self._slots[at]
            if not slot:
                heappop(self._times)
                del self._slots[at]
                continue
            deadline, _ = slot.popitem()
            deadline.slot_at = inf
            self._count -= 1
            expires_at = deadline.expires_at
            if expires_at <= now:
                deadline.expires_at = inf
                deadline.on_expired()
            elif expires_at != inf:
                self.insert(deadline, expires_at - now)
            if self.now() > until:
                return


@dataclass(slots=True, eq=False, repr=False)
class Deadline:
    """Call ``on_expired`` once when the time given to :meth:`start` passes before it is moved or stopped."""

    wheel: TimerWheel
    on_expired: Callable[[], None]
    expires_at: float = field(default=inf, init=False)
    slot_at: float = field(default=inf, init=False)
    """When the wheel looks at it; infinite while it is in no slot."""

    def start(self, seconds: float) -> None:
        """Expire ``seconds`` from now, whatever was set before."""
        wheel = self.wheel
        self.expires_at = expires_at = wheel.now() + seconds
        if expires_at < self.slot_at:
            wheel.insert(self, seconds)

    def stop(self) -> None:
        """Do not expire until the next :meth:`start`."""
        self.expires_at = inf

    def close(self) -> None:
        """Stop for good, leave no timer behind, and drop the reference to the callback."""
        self.on_expired = (
            _ignore  # the owner of a deadline is its callback: a cycle, and large things hang on it
        )
        self.expires_at = inf
        if self.slot_at != inf:
            self.wheel.remove(self)


def _ignore() -> None:
    """Nobody waits any more."""
