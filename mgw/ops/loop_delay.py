"""How late the reactor is: whatever blocks it delays every request.

Once a second a timer is due; how late it fires is what any other event would have waited at that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.ops import prometheus
from mgw.ops.exposition import HistogramTable, Table

INTERVAL: Final = 1.0
"""Seconds between two measurements."""
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""The upper bounds of the buckets, in seconds."""
_BOUNDS: Final = (*BUCKETS, float("inf"))


@dataclass(slots=True, eq=False, repr=False)
class LoopDelay:
    """Measures from :meth:`start` to :meth:`stop`."""

    clock: IReactorTime | None = None
    """The clock that is measured; ``None``: nothing is."""
    _counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    _total: float = 0.0
    _due: float = 0.0
    _timer: IDelayedCall | None = None

    def start(self) -> None:
        """Begin to measure."""
        if self.clock is not None and self._timer is None:
            self._wait(self.clock)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tables(self) -> tuple[Table]:
        """Return the numbers of the moment."""
        family = prometheus.HistogramMetricFamily(
            "mgw_event_loop_delay_seconds",
            "Delay of a timer that is due once a second.",
        )
        return (HistogramTable(family, _BOUNDS, [((), tuple(self._counts), self._total)]),)

    def _wait(self, clock: IReactorTime) -> None:
        self._due = clock.seconds() + INTERVAL
        self._timer = clock.callLater(INTERVAL, self._look, clock)

    def _look(self, clock: IReactorTime) -> None:
        late = max(0.0, clock.seconds() - self._due)
        self._counts[bisect_left(BUCKETS, late)] += 1
        self._total += late
        self._wait(clock)
