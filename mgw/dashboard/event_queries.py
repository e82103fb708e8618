"""Queries about usage events, on a thread of their own.

The thread serves one query after the other, each within one transaction, so that it sees the same events from
its beginning to its end.  A query that takes longer than :data:`SECONDS` is given up, as is one that nobody
waits for any more.  SQLite does the work and hands on few rows: each one costs the reactor a wait for the
interpreter's lock.

The events are in the file of ``hooks.sqlite`` (:class:`EventFile`), which is opened for each query and cannot
be written to, or in memory (:mod:`mgw.dashboard.event_memory`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.daemon_threads import SerialRunner

T = TypeVar("T")

SECONDS: Final = 20.0
MAX_QUERIES: Final = 8
"""How many may wait, the one that runs included."""
INSTRUCTIONS: Final = 1_000_000
"""The instructions of SQLite between two looks at the time, which take some ten milliseconds."""
BUSY_SECONDS: Final = 1.0
_CACHE_KIB: Final = 16 * 1024
"""What a month's hours are sorted in; with less, SQLite writes parts of them to a temporary file."""

_log: Final = Logger()


class EventDatabase(Protocol):
    """Where usage events are."""

    def prepare(self) -> None:
        """Get ready for a query that is about to be given to the thread; runs on the reactor's thread."""
        ...

    def open(self) -> AbstractContextManager[sqlite3.Connection | None]:
        """Lend a connection, in the thread; ``None``: there are no events yet."""
        ...


@dataclass(frozen=True, slots=True)
class EventFile:
    """The file of ``hooks.sqlite``."""

    path: str

    def prepare(self) -> None:
        """Nothing has to be ready."""

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection | None]:
        """Open the file, if there is one."""
        if not os.path.exists(self.path):
            yield None
            return
        uri = f"file:{quote(os.path.abspath(self.path))}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        with closing(connection):
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            yield connection


@dataclass(slots=True, eq=False)
class EventQueries:
    """Answers queries about whatever events it is given."""

    runner: SerialRunner
    """A single thread."""
    seconds: float = SECONDS
    timer: Callable[[], float] = monotonic
    """Seconds, from any time on; asked in the thread."""
    instructions: int = INSTRUCTIONS
    _queries: int = 0
    _stopped: bool = False

    def ask(
        self, events: EventDatabase, read: Callable[[sqlite3.Connection | None], T], advice: str
    ) -> Deferred[T]:
        """Return what ``read`` makes of the events; cancel to hear no more of it.

        Fails with :class:`GatewayError` (``OVERLOADED``) where it takes too long, or they cannot be read.

        :param read: called in the thread, within a transaction.
        :param advice: what to do where it takes too long.
        """
        left: list[bool] = []
        done: Deferred[T] = Deferred(lambda _: left.append(True))

        def work() -> T | None:
            return None if left else self._read(events, read, left)

        def on_result(result: T | Exception | None) -> None:
            self._queries -= 1
            if done.called:  # whoever waited has left
                return
            if isinstance(result, Exception):
                done.errback(self._refusal(result, advice))
            else:
                done.callback(result)  # type: ignore[arg-type]  # None only where nobody waits

        if self._stopped:
            done.errback(GatewayError(Reason.DRAINING, "the gateway is stopping"))
            return done
        if self._queries >= MAX_QUERIES:
            done.errback(_overloaded("the dashboard is busy with other queries; try again"))
            return done
        events.prepare()
        try:
            self.runner.run(work, on_result)
        except OSError:
            done.errback(_overloaded("the system could not start a thread for this query; try again"))
            return done
        self._queries += 1
        return done

    def stop(self) -> None:
        """Let the thread end when the queries so far are answered; there are no others."""
        self._stopped = True
        self.runner.stop()

    def _read(
        self, events: EventDatabase, read: Callable[[sqlite3.Connection | None], T], left: list[bool]
    ) -> T:
        with events.open() as connection:
            if connection is None:
                return read(None)
            end = self.timer() + self.seconds
            connection.set_progress_handler(lambda: bool(left) or self.timer() > end, self.instructions)
            connection.execute("BEGIN")
            try:
                return read(connection)
            finally:
                connection.set_progress_handler(None, 0)
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def _refusal(self, error: Exception, advice: str) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            return _overloaded(f"this query takes more than {self.seconds:g} s: {advice}")
        # SQLite's words speak of files and tables, never of values.
        _log.warn("the dashboard cannot read the usage events: {error}", error=str(error))
        return _overloaded("the usage events cannot be read; see the process log")


def _overloaded(message: str) -> GatewayError:
    return GatewayError(Reason.OVERLOADED, message, retry_after=1.0)
