"""Hold records of completed requests, and pass them on in batches.

::

    record(row)  ->  waiting records  -- after 15 ms, some slices per turn of the reactor -->  write_slice

A request appends one record when it ends, with its exchange, which has settled in the same call.
Making events, numbers and lines of it costs several times as much, and less where many are made in one loop,
so that comes later: in slices, because a long loop would delay every request in progress.

A turn writes one slice, or after a long turn as many, in one batch, as let all that wait go within 5 ms.
So a record waits for 20 ms and a turn, however many records a turn brings; were it one slice each, a turn
that brings more would let them pile up, and a process that is killed would lose seconds.  Where all come at
once, a slice is written on the spot, so fewer than :data:`MAX_WAITING` wait and none is dropped.

The order is kept: whatever a request stored first is in the same batch or in an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.usage.record import EndedRequest

INTERVAL: Final = 0.015
"""Seconds that a record waits for others."""
SLICE: Final = 8
"""The fewest records in a batch, which take about 0.1 ms: what a request that comes meanwhile may wait."""
FLUSHED_SLICES: Final = 4
DRAIN_SECONDS: Final = 0.005
"""In what time all that wait are written."""
MAX_WAITING: Final = 512


@dataclass(slots=True, eq=False, repr=False)
class RecordQueue:
    """The records of a process; the module states its rules."""

    clock: IReactorTime
    record_all: Callable[[Sequence[EndedRequest]], None]
    """Takes a batch; never raises."""
    _waiting: list[EndedRequest] = field(default_factory=list)
    _timer: IDelayedCall | None = None
    _due: float = 0.0
    """When the next slice was to be written."""

    def record(self, ended: EndedRequest) -> None:
        """Take the record of a request."""
        self._waiting.append(ended)
        if self._timer is None or len(self._waiting) >= MAX_WAITING:
            self._on_pressing()

    @property
    def slices(self) -> int:
        """How many slices wait."""
        return -(-len(self._waiting) // SLICE)

    def write_slice(self, count: int = 1) -> bool:
        """Hand on the oldest records, of so many slices in one batch, and return whether others wait."""
        size = count * SLICE
        batch = self._waiting[:size]
        del self._waiting[:size]
        if batch:
            self.record_all(batch)
        return bool(self._waiting)

    def flush(self) -> None:
        """Hand on all records now."""
        while self.write_slice(FLUSHED_SLICES):
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_pressing(self) -> None:
        """The first record waits, or too many do."""
        if self._timer is None:
            self._timer = self.clock.callLater(INTERVAL, self._on_timer)
            self._due = self.clock.seconds() + INTERVAL
        if len(self._waiting) >= MAX_WAITING:
            self.write_slice()

    def _on_timer(self) -> None:
        now, slices = self.clock.seconds(), self.slices
        turn_seconds, self._due = now - self._due, now
        count = min(slices, max(1, ceil(slices * turn_seconds / DRAIN_SECONDS)))
        self._timer = self.clock.callLater(0, self._on_timer) if count < slices else None
        self.write_slice(count)
