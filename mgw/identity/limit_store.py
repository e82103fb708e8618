"""An SQLite file with the totals of calendar periods: what counts against a month outlives a process.

A total is read when somebody is first counted in a period; that is one look-up by key, which does not wait,
and only for holders of such a limit.  Additions are written in a thread, all that have come meanwhile in one
transaction, each as an addition to the total in the file: two processes that take turns at a restart lose
nothing of one another.  While the file cannot be used, counting goes on in memory, and what is to be written
waits; each write answers what the file says, so a total that could not be read is known from then on.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from mgw.clients.calendar_window import Total
from mgw.clients.period import Period
from mgw.config.file_faults import shown_path
from mgw.reactor.daemon_threads import SerialRunner
from mgw.reactor.rate_limited_log import RateLimitedLog

WRITE_SECONDS: Final = 2.0
"""How long the thread waits for somebody who holds the file; the event loop does not wait at all."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 1.0
"""How long the process waits at its end for what is not written yet."""
KEPT_SECONDS: Final = 40 * 86_400.0
"""How long a total is kept after the end of its period."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS totals (
  holder TEXT NOT NULL, name TEXT NOT NULL, period TEXT NOT NULL, ends REAL NOT NULL, used INTEGER NOT NULL,
  PRIMARY KEY (holder, name, period)
) WITHOUT ROWID
"""
_READ: Final = "SELECT used FROM totals WHERE holder = ? AND name = ? AND period = ?"
_ADD: Final = """
INSERT INTO totals (holder, name, period, ends, used) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (holder, name, period) DO UPDATE SET used = used + excluded.used
RETURNING used
"""
_PURGE: Final = "DELETE FROM totals WHERE ends < ?"

_log: Final = Logger()


Amounts = Mapping[Total, int]


def open_totals(path: str, seconds: float) -> sqlite3.Connection:
    """Open the file, or make it for this user alone.

    :param seconds: how long to wait for somebody who holds it.
    :raises OSError: it cannot be made.
    :raises sqlite3.Error: it cannot be used.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _SCHEMA):
            connection.execute(statement)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@dataclass(slots=True, eq=False, repr=False)
class _Writer:
    """The connection of the thread that writes."""

    path: str
    connection: sqlite3.Connection | None = None

    def write(self, amounts: Amounts, now: float) -> Amounts:
        """Add all of these, or none, and return what the totals are in the file."""
        if self.connection is None:
            self.connection = open_totals(self.path, WRITE_SECONDS)
            self.connection.execute(_PURGE, (now - KEPT_SECONDS,))
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = {total: _add(connection, total, amount) for total, amount in amounts.items()}
            connection.execute("COMMIT")
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return found

    def close(self) -> None:
        """Let go of the file."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _add(connection: sqlite3.Connection, total: Total, amount: int) -> int:
    place = (total.holder, total.limit, total.period.name, total.period.ends)
    return int(connection.execute(_ADD, (*place, amount)).fetchone()[0])


@dataclass(slots=True, eq=False, repr=False)
class LimitStore:
    """Keeps the totals of periods (:class:`~mgw.clients.calendar_window.TotalStore`).

    Nothing is opened before somebody has a limit of a period.

    :param runner: writes, in order and in a thread.
    """

    path: str
    runner: SerialRunner
    clock: IReactorTime
    _totals: WeakValueDictionary[tuple[str, str, str], Total] = field(default_factory=WeakValueDictionary)
    """Those that a window, a request in progress or a write has, by holder, limit and period."""
    _waiting: dict[Total, int] = field(default_factory=dict)
    """What is not being written yet."""
    _leaving: Amounts = field(default_factory=dict)
    """What is being written."""
    _reader: sqlite3.Connection | None = None
    _writer: _Writer = field(init=False)
    _is_writing: bool = False
    _retry: IDelayedCall | None = None
    _closed: Deferred[None] | None = None
    """Fires when everything is written, once that is waited for."""
    _reports: RateLimitedLog = field(init=False)

    def __post_init__(self) -> None:
        self._writer = _Writer(self.path)
        self._reports = RateLimitedLog(self.clock)

    def find(self, holder: str, limit: str, period: Period) -> Total:
        """Return the total of a period: 0 until the file can be read."""
        place = (holder, limit, period.name)
        total = self._totals.get(place)
        if total is None:
            self._totals[place] = total = Total(holder, limit, period)
            try:
                total.used = self._read(place)
            except (OSError, sqlite3.Error) as error:
                self._report("read", error)
                self.add(total, 0)  # the answer to which is the total
        return total

    def add(self, total: Total, amount: int) -> None:
        """Count something."""
        total.used += amount
        self._waiting[total] = self._waiting.get(total, 0) + amount
        self._write()

    def close(self) -> Deferred[None]:
        """Write what waits, within a second, and close the file."""
        self._closed = closed = Deferred[None]()
        if self._reader is None and self._writer.connection is None and not self._is_writing:
            closed.callback(None)  # nobody has such a limit
            return closed
        limit = self.clock.callLater(CLOSE_SECONDS, closed.callback, None)

        def on_closed(_: None) -> None:
            for timer in (limit, self._retry):
                if timer is not None and timer.active():
                    timer.cancel()
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            self.runner.stop()
            lost = len({*self._waiting, *self._leaving})
            if lost:
                _log.error(
                    "{path}: what was added to {count} totals of limits could not be written",
                    path=shown_path(self.path),
                    count=lost,
                )

        self._finish()
        return closed.addCallback(on_closed)

    def _read(self, place: tuple[str, str, str]) -> int:
        if self._reader is None:
            self._reader = open_totals(self.path, 0.0)
        row = self._reader.execute(_READ, place).fetchone()
        return 0 if row is None else int(row[0])

    def _write(self) -> None:
        if self._is_writing or not self._waiting:
            return
        self._is_writing, self._leaving, self._waiting = True, self._waiting, {}
        work = partial(self._writer.write, self._leaving, self.clock.seconds())
        try:
            self.runner.run(work, self._on_written)
        except OSError as error:
            self._on_written(error)

    def _on_written(self, result: Amounts | Exception) -> None:
        if self._closed is not None and self._closed.called:
            return  # nobody has waited for it
        amounts, self._leaving = self._leaving, {}
        if not isinstance(result, Exception):
            for total, used in result.items():
                total.used = used + self._waiting.get(total, 0)
            self._is_writing = False
            self._write()
            self._finish()
            return
        self._report("written", result)
        for total, amount in amounts.items():
            self._waiting[total] = self._waiting.get(total, 0) + amount
        self._retry = self.clock.callLater(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._is_writing = False
        self._write()

    def _finish(self) -> None:
        """Close the file where that is waited for and nothing is left to be written."""
        closed = self._closed
        if closed is not None and not self._is_writing and not closed.called:
            self._is_writing = True
            self.runner.run(self._writer.close, lambda _: None if closed.called else closed.callback(None))

    def _report(self, done: str, error: Exception) -> None:
        if self._reports.is_due():
            _log.error(
                "{path} cannot be {done} ({reason}): limits of periods are counted in memory until it can",
                path=shown_path(self.path),
                done=done,
                reason=str(error),
            )
