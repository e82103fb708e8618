"""The latest usage events in memory, which become rows of the database when somebody asks for them.

For every exchange of the gateway nothing is done but to keep its record, which holds neither body nor
connection.  At most :data:`MAX_EVENTS` records wait, and as many events are in the table: the oldest go.  A
record with unusually long names becomes text at once.  No more than :data:`MAX_TEXT_BYTES` of that waits, and
the table holds no more than :data:`MAX_TABLE_BYTES` of events.

Records refer to prices of the configuration that they ended under, so a reload makes rows of those that wait.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mgw.dashboard.event_memory import Work
from mgw.dashboard.event_ring import is_long, may_be_long
from mgw.usage.event import SettledExchange
from mgw.usage.record import encode_settled
from mgw.usage.usage_table import TABLE, create_table, insert_lines

MAX_EVENTS: Final = 10_000
MAX_TEXT_BYTES: Final = 4 * 1024 * 1024
MAX_TABLE_BYTES: Final = 16 * 1024 * 1024
LINES_AT_ONCE: Final = 256
"""Written in one go, and forgotten together where there is too much text."""

_Waiting = deque[SettledExchange | bytes]


@dataclass(slots=True, eq=False, repr=False)
class RecentEvents:
    """The events, as a part of :class:`~mgw.dashboard.event_memory.EventMemory`."""

    wanted: Callable[[], bool]
    """Whether events are to be kept: not while they are in a file."""
    _waiting: _Waiting = field(default_factory=deque)
    _text_bytes: int = 0
    """The size of the text that waits."""
    _written: deque[tuple[int, int]] = field(default_factory=deque)
    """What is in the table, the oldest first: the last row that was written together, and how much text that
    was.  It belongs to the thread."""

    def record_all(self, rows: Sequence[SettledExchange]) -> None:
        """Keep the records of exchanges."""
        if not self.wanted():
            return
        waiting = self._waiting
        if may_be_long(rows):
            lines = [encode_settled(row) if is_long(row) else row for row in rows]
            self._text_bytes += sum([len(line) for line in lines if isinstance(line, bytes)])
            waiting.extend(lines)
        else:
            waiting.extend(rows)
        while len(waiting) > MAX_EVENTS or self._text_bytes > MAX_TEXT_BYTES:
            oldest = waiting.popleft()
            if oldest.__class__ is bytes:
                self._text_bytes -= len(oldest)

    def create(self, connection: sqlite3.Connection) -> None:
        """Make the table."""
        self._written.clear()
        create_table(connection)

    def hand_over(self) -> Work | None:
        """Return what makes rows of the records that wait."""
        if not self._waiting:
            return None
        waiting, self._waiting, self._text_bytes = self._waiting, deque(), 0
        return lambda connection: self._write(connection, waiting)

    def forget(self) -> None:
        """Drop the records that wait."""
        self._waiting, self._text_bytes = deque(), 0

    def _write(self, connection: sqlite3.Connection, waiting: _Waiting) -> None:
        while waiting:
            rows = [waiting.popleft() for _ in range(min(LINES_AT_ONCE, len(waiting)))]
            lines = [row if isinstance(row, bytes) else encode_settled(row) for row in rows]
            insert_lines(connection, lines)
            ((last,),) = connection.execute(f"SELECT max(rowid) FROM {TABLE}")  # noqa: S608 (a name of ours)
            self._written.append((last, sum(map(len, lines))))
        self._drop_oldest(connection)

    def _drop_oldest(self, connection: sqlite3.Connection) -> None:
        last = self._written[-1][0]
        first, size = last - MAX_EVENTS + 1, sum(size for _, size in self._written)
        while self._written and (size > MAX_TABLE_BYTES or self._written[0][0] < first):
            dropped, less = self._written.popleft()
            first, size = max(first, dropped + 1), size - less
        connection.execute(f"DELETE FROM {TABLE} WHERE rowid < ?", (first,))  # noqa: S608 (a name of ours)
