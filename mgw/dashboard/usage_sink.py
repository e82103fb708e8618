"""The dashboard's usage sink, which passes completed requests to all interested parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred, succeed

from mgw.usage.record import SettledExchange


@dataclass(slots=True)
class DashboardSink:
    """Tells each part of each batch; a part does nothing with a row that takes time."""

    parts: Sequence[Callable[[Sequence[SettledExchange]], None]]
    name: str = field(default="dashboard", init=False)
    errors: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    waiting: int = field(default=0, init=False)

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Take the rows of a batch."""
        batch = list(rows)
        for record in self.parts:
            record(batch)

    def flush(self) -> None:
        """Nothing waits."""

    def reopen(self) -> None:
        """Nothing is open."""

    def close(self) -> Deferred[None]:
        """Nothing is open."""
        return succeed(None)
