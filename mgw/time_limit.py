"""A time limit that costs one float per touch.

Requests and chunks come by the thousand, expiries hardly ever.  So a limit keeps its deadline as a number and
one timer behind it: a later deadline leaves the timer alone, which looks again when it fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from twisted.internet.interfaces import IDelayedCall, IReactorTime


@dataclass(slots=True)
class TimeLimit:
    """Call ``expired`` once when the time given to :meth:`within` passes before it is moved or lifted."""

    clock: IReactorTime
    expired: Callable[[], None]
    _deadline: float = inf
    _fires_at: float = inf
    _timer: IDelayedCall | None = field(default=None, repr=False)

    def within(self, seconds: float) -> None:
        """Start, or start anew: expire ``seconds`` from now."""
        deadline = self.clock.seconds() + seconds
        self._deadline = deadline
        if deadline < self._fires_at:
            if self._timer is not None:
                self._timer.cancel()
            self._arm(seconds, deadline)

    def lift(self) -> None:
        """Stop: nothing expires until the next :meth:`within`."""
        self._deadline = inf

    def close(self) -> None:
        """Stop for good, leave no timer behind, and let go of whom it would have told."""
        self.expired = _nobody  # who owns a limit is what it tells: a circle, and large things hang on it
        self._deadline = self._fires_at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float, at: float) -> None:
        self._fires_at = at
        self._timer = self.clock.callLater(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        self._fires_at = inf
        if self._deadline == inf:
            return
        left = self._deadline - self.clock.seconds()
        if left > 0:
            self._arm(left, self._deadline)
            return
        self._deadline = inf
        self.expired()


def _nobody() -> None:
    """Nobody waits any more."""
