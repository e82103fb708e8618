"""Counters and a histogram of completed realtime sessions, by provider.

A session is no request of some seconds, so it is left out of the histograms of those.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mgw.ops import prometheus
from mgw.ops.exposition import HistogramTable, Table, ValueTable
from mgw.usage.event import SessionCounts

BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0)
"""The upper bounds of the buckets, in seconds."""
_BOUNDS: Final = (*BUCKETS, float("inf"))
_DIRECTIONS: Final = ("in", "out")


@dataclass(slots=True, eq=False, repr=False)
class _Totals:
    """What went through the sessions of one provider."""

    lengths: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    seconds: float = 0.0
    frames: list[int] = field(default_factory=lambda: [0, 0])
    payload_bytes: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(slots=True, eq=False, repr=False)
class SessionMetrics:
    """The numbers of all sessions that have ended."""

    _totals: dict[str, _Totals] = field(default_factory=dict)

    def add(self, provider: str, session: SessionCounts) -> None:
        """Count a session.

        :param provider: one of a bounded set.
        """
        totals = self._totals.get(provider)
        if totals is None:
            totals = self._totals[provider] = _Totals()
        seconds = (session.minutes or 0.0) * 60
        totals.lengths[bisect_left(BUCKETS, seconds)] += 1
        totals.seconds += seconds
        for place, count in enumerate((session.frames_in, session.frames_out)):
            totals.frames[place] += count or 0
        for place, count in enumerate((session.bytes_in, session.bytes_out)):
            totals.payload_bytes[place] += count or 0

    def tables(self) -> Iterator[Table]:
        """Yield all of it, each table with the numbers of the moment."""
        yield self._lengths()
        yield self._by_direction("mgw_session_frames", "Data frames", lambda totals: totals.frames)
        what = "Bytes of payload"
        yield self._by_direction("mgw_session_bytes", what, lambda totals: totals.payload_bytes)

    def _lengths(self) -> Table:
        family = prometheus.HistogramMetricFamily(
            "mgw_session_seconds", "Length of completed realtime sessions.", labels=("provider",)
        )
        rows = [((name,), tuple(one.lengths), one.seconds) for name, one in self._totals.items()]
        return HistogramTable(family, _BOUNDS, rows)

    def _by_direction(self, name: str, what: str, counts: Callable[[_Totals], list[int]]) -> Table:
        family = prometheus.CounterMetricFamily(
            name,
            f"{what} relayed in completed realtime sessions; in means from the client.",
            labels=("provider", "direction"),
        )
        return ValueTable(
            family,
            [
                ((provider, direction), count)
                for provider, totals in self._totals.items()
                for direction, count in zip(_DIRECTIONS, counts(totals), strict=True)
            ],
        )
