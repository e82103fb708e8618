"""Usage events in an SQLite database in memory, for a gateway without ``hooks.sqlite``.

The database has the same tables as the file of ``hooks.sqlite``, so that the same statements read both.  It
lives on the thread of the queries (:mod:`mgw.dashboard.event_queries`), which alone uses its connection, and
begins with the first of them.

What a part of the dashboard keeps of events waits on the reactor's thread, where it costs next to nothing,
until somebody asks: the part then hands it over as a piece of work that writes it to its tables.

::

    record (reactor)  ->  waits in a part  -- prepare() -->  pieces of work  -- open() (thread) -->  rows

Where a reload brings ``hooks.sqlite``, everything here is forgotten; where it takes that away, the database
begins anew.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from twisted.logger import Logger

from mgw.config.settings import Config
from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.event import SettledExchange

_log: Final = Logger()

Work = Callable[[sqlite3.Connection], None]
MAX_WORK: Final = 16
"""The most pieces that wait for the thread; parts keep theirs while there are more."""


class MemoryPart(Protocol):
    """What keeps something in the database."""

    def record_all(self, rows: Sequence[SettledExchange]) -> None:
        """Keep what it needs of exchanges that have ended; runs on the reactor's thread."""
        ...

    def create(self, connection: sqlite3.Connection) -> None:
        """Make its tables in an empty database; runs in the thread."""
        ...

    def hand_over(self) -> Work | None:
        """Return what writes all that waits, which the part then lets go of; runs on the reactor's thread.

        The piece of work runs in the thread, between two queries and outside of any transaction, after those
        before it and never at the same time as another.  What waits grows meanwhile, so it shares nothing
        with the part that both change.
        """
        ...

    def forget(self) -> None:
        """Drop what waits; runs on the reactor's thread."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class EventMemory:
    """The database; it is an :class:`~mgw.dashboard.event_queries.EventDatabase`."""

    runner: SerialRunner
    """The single thread of the queries."""
    parts: Sequence[MemoryPart]
    _work: deque[Work] = field(default_factory=deque)
    """Appended to on the reactor's thread, and emptied in the other one."""
    _connection: sqlite3.Connection | None = None
    """The thread's."""

    def record_all(self, rows: Sequence[SettledExchange]) -> None:
        """Keep exchanges that have ended."""
        for part in self.parts:
            part.record_all(rows)

    def prepare(self) -> None:
        """Have all that waits written before the next query."""
        self._hand_over(self.parts)

    def write(self, *parts: MemoryPart) -> None:
        """Have all that waits in these parts, or in all, written now.

        Without a thread, it waits for the next query.
        """
        self._hand_over(parts or self.parts)
        if self._work:
            with suppress(OSError):
                self.runner.run(self._write, _note)

    def follow(self, config: Config) -> None:
        """Follow another configuration: records refer to prices of the one before, and become rows.

        Where it has ``hooks.sqlite``, everything is forgotten.
        """
        if config.hooks.sqlite is None:
            self.write()
        else:
            self.forget()

    def forget(self) -> None:
        """Forget everything."""
        for part in self.parts:
            part.forget()
        self._work.clear()
        if self._connection is not None:
            with suppress(OSError):
                self.runner.run(self._close, _note)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection, in the thread, when all work is done that has been handed over."""
        yield self._write()

    def _hand_over(self, parts: Iterable[MemoryPart]) -> None:
        for part in parts:
            if len(self._work) < MAX_WORK:
                work = part.hand_over()
                if work is not None:
                    self._work.append(work)

    def _write(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            connection = sqlite3.connect(":memory:", isolation_level=None)
            for part in self.parts:
                part.create(connection)
            self._connection = connection
        try:
            while self._work:
                self._work.popleft()(connection)
        except IndexError:  # forgotten meanwhile
            pass
        finally:
            if connection.in_transaction:  # a piece has failed
                connection.execute("ROLLBACK")
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _note(result: object) -> None:
    if isinstance(result, Exception):
        # SQLite's words speak of tables, never of values.
        _log.warn("the dashboard cannot store usage events in memory: {error}", error=str(result))
