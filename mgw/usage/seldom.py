"""Say the same trouble seldom: a sink that fails, fails with every event."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from twisted.internet.interfaces import IReactorTime

REPORT_SECONDS: Final = 60.0


@dataclass(slots=True)
class Seldom:
    """Let the first report through, and then one per ``seconds``."""

    clock: IReactorTime
    seconds: float = REPORT_SECONDS
    quiet: int = 0
    """How many reports were kept back since the last one that went through."""
    _next: float = -inf

    def due(self) -> bool:
        """Tell whether to report now; a report that is not due is counted."""
        now = self.clock.seconds()
        if now < self._next:
            self.quiet += 1
            return False
        self._next = now + self.seconds
        return True

    def take_quiet(self) -> int:
        """Return how many reports were kept back, and count anew."""
        quiet, self.quiet = self.quiet, 0
        return quiet
