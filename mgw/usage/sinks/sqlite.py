"""Usage events in a table of an SQLite file, which anybody can read meanwhile (``hooks.sqlite``)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from mgw.config.file_faults import shown_path, unwritable
from mgw.config.hooks import SqliteSettings
from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.outbox import DELIVERED, Outbox, OutboxOptions, Result, Verdict
from mgw.usage.sinks import SinkTools
from mgw.usage.spool_database import reason_of
from mgw.usage.usage_rollup import hour_of
from mgw.usage.usage_table import PURGED_AT_ONCE, UsageTable, is_busy

BATCH_MAX: Final = 1000
FLUSH_SECONDS: Final = 0.5
PURGE_SECONDS: Final = 3600.0
IMPROVE_SECONDS: Final = 60.0
"""Seconds after which making an index is tried again."""
ROLLUP_SECONDS: Final = 300.0
"""Seconds between two passes over the hours that are to be closed."""
ROLLUP_DELAY: Final = 5.0
"""Seconds from the start to the first pass."""
ROLLUP_PAUSE: Final = 0.05
"""Seconds between two pieces of a pass, so that a month of events holds nobody up."""
OPEN_SECONDS: Final = 600.0
"""An hour is closed so long after its end: most events are there by then, and a late one opens it again."""
CLOSE_SECONDS: Final = 1.0
"""How long the file may take to close."""
DAY_SECONDS: Final = 86_400.0

_log: Final = Logger()
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Database:
    """The table's thread, and what it is asked to do."""

    clock: IReactorTime
    wall: Callable[[], float]
    runner: SerialRunner
    table: UsageTable
    retention_days: float | None
    errors: int = 0
    """How many operations other than writing batches failed."""
    _timer: IDelayedCall | None = field(default=None, repr=False)
    _next_try: IDelayedCall | None = field(default=None, repr=False)
    """The timer of the next attempt to make an index."""
    _next_piece: IDelayedCall | None = field(default=None, repr=False)
    """The timer of the next piece of the rollup."""
    _is_closing: bool = False

    def start(self) -> None:
        """Open the file; purge it, and add up its hours, now and regularly."""
        self._start_purging()
        self._roll_up_in(ROLLUP_DELAY)

    def _start_purging(self) -> None:
        if self.retention_days is None:
            self._run(self.table.open, self._note)
            return
        self._timer = self.clock.callLater(PURGE_SECONDS, self._start_purging)
        self._purge()

    def improve(self) -> None:
        """Bring the indexes of a file of an older version up to date, one after the other.

        Each is a piece of work of its own, so that batches come in between.  They wait while one is made,
        which is given up when the sink is to close.
        """
        self._run(partial(self.table.improve, lambda: self._is_closing), self._on_improved)

    def stop_improving(self) -> None:
        """Give up what is made of the indexes: batches that wait are to be written."""
        self._is_closing = True
        if self._next_try is not None and self._next_try.active():
            self._next_try.cancel()

    def deliver(self, _: str, lines: list[bytes]) -> Deferred[Result]:
        """Add a batch."""
        done: Deferred[Result] = Deferred()

        def on_added(lost: int | Exception) -> None:
            if isinstance(lost, Exception):
                done.callback(Result(Verdict.RETRY, reason_of(lost)))
            else:
                done.callback(Result(Verdict.DELIVERED, "unreadable", lost) if lost else DELIVERED)

        self._run(partial(self.table.add, lines), on_added)
        return done

    def reopen(self) -> None:
        """Open the file anew, with the next batch."""
        self._run(self.table.close, self._note)

    def close(self) -> Deferred[None]:
        """Close the file, for which there is a second."""
        self._is_closing = True
        for timer in (self._timer, self._next_piece):
            if timer is not None and timer.active():
                timer.cancel()
        closed: Deferred[None] = Deferred()
        limit = self.clock.callLater(CLOSE_SECONDS, closed.callback, None)

        def on_closed(result: Exception | None) -> None:
            self._note(result)
            if limit.active():
                limit.cancel()
                closed.callback(None)

        self._run(self.table.close, on_closed)
        self.runner.stop()
        return closed

    def _purge(self) -> None:
        assert self.retention_days is not None
        before = self.wall() - self.retention_days * DAY_SECONDS
        self._run(partial(self.table.purge, before), self._on_purged)

    def _on_purged(self, result: int | Exception) -> None:
        self._note(result)
        if isinstance(result, int) and result >= PURGED_AT_ONCE and self._timer is not None:
            self._purge()  # batches come in between

    def _on_improved(self, result: str | Exception | None) -> None:
        if self._is_closing:
            return
        if not isinstance(result, Exception):
            if result is not None:
                self.improve()
            return
        if self._next_try is None:  # once: it is slow to search without, and nothing else
            _log.warn(
                "hooks.sqlite: an index for searches could not be created: {reason}; trying again every "
                "minute",
                reason=reason_of(result),
            )
        self._next_try = self.clock.callLater(IMPROVE_SECONDS, self.improve)

    def _roll_up_in(self, seconds: float) -> None:
        if not self._is_closing:
            self._next_piece = self.clock.callLater(seconds, self._roll_up)

    def _roll_up(self) -> None:
        if self._is_closing:
            return
        end = hour_of(self.wall() - OPEN_SECONDS)
        self._run(partial(self.table.roll_up, end), self._on_rolled_up)

    def _on_rolled_up(self, result: object) -> None:
        if result is True:
            self._roll_up_in(ROLLUP_PAUSE)  # batches come in between
            return
        if not (isinstance(result, sqlite3.Error) and is_busy(result)):
            self._note(result)
        self._roll_up_in(ROLLUP_SECONDS)

    def _note(self, result: object) -> None:
        if isinstance(result, Exception):
            self.errors += 1
            _log.error("usage events to hooks.sqlite: {reason}", reason=reason_of(result))

    def _run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        try:
            self.runner.run(work, then)
        except OSError as error:  # the system gives no thread
            self.clock.callLater(0, then, error)


@dataclass(slots=True)
class SqliteSink:
    """A usage sink that fills a table; :mod:`mgw.usage.outbox` states its rules."""

    database: Database
    outbox: Outbox
    name: str = "sqlite"

    @property
    def errors(self) -> int:
        """How many writes failed."""
        return self.outbox.errors + self.database.errors

    @property
    def dropped(self) -> int:
        """How many events were lost."""
        return self.outbox.dropped

    @property
    def waiting(self) -> int:
        """How many events are not delivered yet, in memory and on disk."""
        return self.outbox.waiting

    def record_lines(self, lines: Sequence[bytes]) -> None:
        """Take lines, which are in the table after half a second."""
        self.outbox.record_lines(lines)

    def flush(self) -> None:
        """Write what waits."""
        self.outbox.flush()

    def reopen(self) -> None:
        """Open the file anew: it may have been renamed."""
        self.database.reopen()

    def close(self) -> Deferred[None]:
        """Write what waits, store what cannot be written, and close the file."""
        self.database.stop_improving()
        return self.outbox.close().addCallback(lambda _: self.database.close())


def open_sink(settings: SqliteSettings, tools: SinkTools) -> SqliteSink:
    """Begin to write to ``hooks.sqlite``.

    :raises ValueError: the file cannot be there.  One that is locked or damaged is waited for.
    """
    path = os.path.abspath(settings.path)
    problem = place_problem(path)
    if problem is not None:
        raise ValueError(f"hooks.sqlite.path: {problem}")
    database = Database(
        tools.reactor, tools.wall, tools.runner("mgw-sqlite"), UsageTable(path), settings.retention_days
    )
    options = OutboxOptions(BATCH_MAX, FLUSH_SECONDS, save_first=False)
    outbox = tools.outbox("sqlite", database.deliver, options)
    database.start()
    database.improve()
    outbox.start()
    return SqliteSink(database, outbox)


def place_problem(path: str) -> str | None:
    """Say why no file can be written there; the file itself is not opened (:mod:`mgw.usage.usage_table`)."""
    problem = unwritable(path)
    if problem is None and os.path.exists(path) and not os.path.isfile(path):
        return f"{shown_path(path)} cannot be written: not a regular file"
    return problem
