"""A deadline that can be moved at the cost of one float.

Requests and chunks come by the thousand, expiries hardly ever.  So a deadline is a number with one timer
behind it: moving it to a later time leaves the timer alone, which looks again when it fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from twisted.internet.interfaces import IDelayedCall, IReactorTime


@dataclass(slots=True)
class Deadline:
    """Call ``on_expired`` once when the time given to :meth:`start` passes before it is moved or stopped."""

    clock: IReactorTime
    on_expired: Callable[[], None]
    _expires_at: float = inf
    _fires_at: float = inf
    _timer: IDelayedCall | None = field(default=None, repr=False)

    def start(self, seconds: float) -> None:
        """Expire ``seconds`` from now, whatever was set before."""
        expires_at = self.clock.seconds() + seconds
        self._expires_at = expires_at
        if expires_at < self._fires_at:
            if self._timer is not None:
                self._timer.cancel()
            self._schedule(seconds, expires_at)

    def stop(self) -> None:
        """Do not expire until the next :meth:`start`."""
        self._expires_at = inf

    def close(self) -> None:
        """Stop for good, leave no timer behind, and drop the reference to the callback."""
        self.on_expired = (
            _ignore  # the owner of a deadline is its callback: a cycle, and large things hang on it
        )
        self._expires_at = self._fires_at = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, seconds: float, at: float) -> None:
        self._fires_at = at
        self._timer = self.clock.callLater(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._fires_at = inf
        if self._expires_at == inf:
            return
        left = self._expires_at - self.clock.seconds()
        if left > 0:
            self._schedule(left, self._expires_at)
            return
        self._expires_at = inf
        self.on_expired()


def _ignore() -> None:
    """Nobody waits any more."""
