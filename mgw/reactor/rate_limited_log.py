"""Log a repeated problem once a minute: a failing sink fails with every event."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from twisted.internet.interfaces import IReactorTime

REPORT_SECONDS: Final = 60.0


@dataclass(slots=True, eq=False, repr=False)
class RateLimitedLog:
    """Let the first report through, and then one per ``seconds``."""

    clock: IReactorTime
    seconds: float = REPORT_SECONDS
    suppressed: int = 0
    """How many reports were suppressed since the last one that was due."""
    _next: float = -inf

    def is_due(self) -> bool:
        """Tell whether to report now; a report that is not due is counted."""
        now = self.clock.seconds()
        if now < self._next:
            self.suppressed += 1
            return False
        self._next = now + self.seconds
        return True

    def take_suppressed(self) -> int:
        """Return how many reports were suppressed, and count anew."""
        suppressed, self.suppressed = self.suppressed, 0
        return suppressed
