"""Hold records of completed requests, and pass them on in batches.

::

    record(row)  ->  waiting records  -- after 20 ms, some slices per turn of the reactor -->  write_slice

A request only appends what it leaves behind.  Making events, numbers and lines of it costs several times as
much, and less where many are made in one loop, so that comes later: in slices, because a long loop would
delay every request in progress.

A turn writes one slice, or half of them where there are more.  So a record waits for 20 ms and some turns,
however many records a turn brings; were it one slice each, a turn that brings more would let them pile up,
and a process that is killed would lose seconds.  Where all come at once, a slice is written on the spot, so
fewer than :data:`MAX_WAITING` wait and none is dropped.

The order is kept: whatever a request stored first is in the same batch or in an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.usage.event import SettledExchange
from mgw.usage.record import EndedRequest

INTERVAL: Final = 0.02
"""Seconds that a record waits for others."""
SLICE: Final = 64
"""The number of records in a batch."""
MAX_WAITING: Final = 1024


@dataclass(slots=True)
class RecordQueue:
    """The records of a process; the module states its rules."""

    clock: IReactorTime
    record_settled: Callable[[Sequence[SettledExchange]], None]
    """Takes a batch of exchanges; never raises."""
    record_ended: Callable[[Sequence[EndedRequest]], None]
    """Takes a batch of requests, after the exchanges that ended before them; never raises."""
    _waiting: list[SettledExchange | EndedRequest] = field(default_factory=list, repr=False)
    _timer: IDelayedCall | None = field(default=None, repr=False)

    def record(self, record: SettledExchange | EndedRequest) -> None:
        """Take the record of an exchange, or of a request."""
        self._waiting.append(record)
        if self._timer is None or len(self._waiting) >= MAX_WAITING:
            self._on_pressing()

    @property
    def slices(self) -> int:
        """How many slices wait."""
        return -(-len(self._waiting) // SLICE)

    def write_slice(self) -> bool:
        """Hand on the oldest records, and return whether others wait."""
        batch = self._waiting[:SLICE]
        del self._waiting[:SLICE]
        settled = [record for record in batch if isinstance(record, SettledExchange)]
        if settled:
            self.record_settled(settled)
        if len(settled) < len(batch):
            self.record_ended([record for record in batch if isinstance(record, EndedRequest)])
        return bool(self._waiting)

    def flush(self) -> None:
        """Hand on all records now."""
        while self.write_slice():
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_pressing(self) -> None:
        """The first record waits, or too many do."""
        if self._timer is None:
            self._timer = self.clock.callLater(INTERVAL, self._on_timer)
        if len(self._waiting) >= MAX_WAITING:
            self.write_slice()

    def _on_timer(self) -> None:
        self._timer = self.clock.callLater(0, self._on_timer) if len(self._waiting) > SLICE else None
        for _ in range(max(1, self.slices // 2)):
            self.write_slice()
