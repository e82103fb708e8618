"""The SQLite file with the totals of calendar periods, as one process reads and writes it in a thread.

Each transaction reads the totals that it changes, so what another process has added, or somebody has set, is
seen.  A request is counted only if all of its totals have room then.  What requests in progress hold stands
in the file by the process that they belong to.  A process keeps a lock on a file of its own for as long as it
lives, however it ends: whoever finds that lock free counts what it held in full.

If somebody deletes or replaces the file, SQLite goes on with the old one, which nobody sees any more.  So the
path is looked at once a second, and a new file gets what this process knows of the old one.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from secrets import token_hex
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct

from mgw.clients.calendar_window import PART_MARK, Changes, Reset, Total
from mgw.clients.limits import LIMITS_BY_NAME, Limit, RowState

BUSY_SECONDS: Final = 2.0
"""How long the thread waits for somebody who holds the file."""
KEPT_SECONDS: Final = 40 * 86_400.0
"""How long a total is kept after the end of its period."""
CARE_SECONDS: Final = 3600.0
"""How often old totals are deleted, and processes looked for that are gone."""
LOOK_SECONDS: Final = 1.0
"""How often the path is looked at at most."""
_VERSION: Final = 1

_SCHEMA: Final = (
    "DROP TABLE IF EXISTS totals",
    """CREATE TABLE totals (
  holder TEXT NOT NULL, name TEXT NOT NULL, refuses INTEGER NOT NULL, period TEXT NOT NULL,
  ends REAL NOT NULL, most INTEGER NOT NULL,
  used INTEGER NOT NULL, warned INTEGER NOT NULL, resets INTEGER NOT NULL,
  PRIMARY KEY (holder, name, refuses, period)
) WITHOUT ROWID""",
    """CREATE TABLE holds (
  holder TEXT NOT NULL, name TEXT NOT NULL, refuses INTEGER NOT NULL, period TEXT NOT NULL,
  process TEXT NOT NULL, held INTEGER NOT NULL,
  PRIMARY KEY (holder, name, refuses, period, process)
) WITHOUT ROWID""",
    "CREATE TABLE processes (process TEXT PRIMARY KEY, requests INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA user_version = {_VERSION}",
)
_PLACE: Final = "holder = ? AND name = ? AND refuses = ? AND period = ?"
_READ: Final = f"SELECT used, warned, resets FROM totals WHERE {_PLACE}"  # noqa: S608  no value in it
_READ_HELD: Final = f"SELECT coalesce(sum(held), 0) FROM holds WHERE {_PLACE}"  # noqa: S608  likewise
_WRITE: Final = """
INSERT INTO totals (holder, name, refuses, period, ends, most, used, warned, resets)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (holder, name, refuses, period) DO UPDATE
SET ends = excluded.ends, most = excluded.most, used = excluded.used, warned = excluded.warned
"""
_COUNT_HELD: Final = f"UPDATE totals SET used = used + ? WHERE {_PLACE}"  # noqa: S608  likewise
_HOLD: Final = """
INSERT INTO holds (holder, name, refuses, period, process, held) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (holder, name, refuses, period, process) DO UPDATE SET held = held + excluded.held
"""
_REGISTER: Final = """
INSERT INTO processes (process, requests) VALUES (?, ?)
ON CONFLICT (process) DO UPDATE SET requests = excluded.requests
"""
_STATE: Final = """
SELECT holder, name, refuses, period, ends, most, used,
  (SELECT coalesce(sum(held), 0) FROM holds
   WHERE holds.holder = totals.holder AND holds.name = totals.name
     AND holds.refuses = totals.refuses AND holds.period = totals.period)
FROM totals WHERE ends > ?
"""
_DELETE_PARTS: Final = """
DELETE FROM totals WHERE used = 0 AND instr(period, ?) > 0
  AND (holder, name, refuses, period) NOT IN (SELECT holder, name, refuses, period FROM holds WHERE held > 0)
"""
_HELD_BY: Final = "SELECT holder, name, refuses, period, held FROM holds WHERE process = ? AND held > 0"
_RESET: Final = """
UPDATE totals SET used = ?, warned = 0, resets = resets + 1
WHERE holder = ? AND (? IS NULL OR name = ?) AND ends > ? AND instr(period, ?) = 0
"""
_JOIN_PARTS: Final = """
INSERT INTO totals (holder, name, refuses, period, ends, most, used, warned, resets)
SELECT holder, name, refuses, substr(period, 1, instr(period, ?) - 1) AS whole,
  max(ends), max(most), max(0, sum(used)), 0, 0
FROM totals WHERE instr(period, ?) > 0 GROUP BY holder, name, refuses, whole
ON CONFLICT (holder, name, refuses, period) DO UPDATE SET used = used + excluded.used
"""
"""Make parts, which nobody will ever be told of, the totals of this host alone."""

_Place = tuple[str, str, bool, str]
_Known = tuple[Limit, float, int, int, int]
"""A row in a period: its end, what it allows, what is used and what is held."""


class Increase(Struct):
    """What is to be added to a total."""

    used: int = 0
    held: int = 0


class LimitBatch(Struct, frozen=True):
    """What is written at a time."""

    sums: Mapping[Total, Increase]
    asked: Sequence[Changes]
    """What requests that begin count, each of them only if all of its totals have room."""
    requests: int
    """How many requests of this process hold something, without these."""


class Found(Struct):
    """A total as it is in the file."""

    used: int
    held: int
    warned: int
    resets: int
    added: int = 0
    """What this process holds more than before."""
    is_changed: bool = False


class Left(Struct, frozen=True):
    """What processes that are gone have left, which counts in full from now on."""

    requests: int
    amounts: Sequence[tuple[str, str, int]]
    """Holders, names of rows, and what was held."""


class Written(Struct, frozen=True):
    """What has become of a batch."""

    totals: Mapping[Total, Found]
    full: Sequence[Total | None]
    """For each request that was asked for, the total that has no room; ``None``: it is counted."""
    left: Left | None
    is_replaced: bool = False
    """Whether somebody has deleted or replaced the file before."""


def place_of(total: Total) -> _Place:
    """Return what identifies a total in the file."""
    row = total.row
    return row.holder, row.limit.name, row.refuses, total.period.name


def open_file(path: str) -> sqlite3.Connection:
    """Open the file, or make it for this user alone.

    :raises OSError: it cannot be made.
    :raises sqlite3.Error: it cannot be used.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE"):
            connection.execute(statement)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise sqlite3.DatabaseError("a newer version of mgw has written it")
        for statement in _SCHEMA if version < _VERSION else ():
            connection.execute(statement)
        connection.execute("COMMIT")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@dataclass(slots=True, eq=False, repr=False)
class LimitFile:
    """The file, for one process; every method may block."""

    path: str
    connect: Callable[[str], sqlite3.Connection] = open_file
    process: str = field(default_factory=lambda: token_hex(8))
    """Names this process in the file; no other one ever has this name."""
    keeps_parts: bool = True
    """Whether what is there of parts of totals is for other hosts."""
    _connection: sqlite3.Connection | None = None
    _lock: int = -1
    _cared: float = float("-inf")
    _requests: int = -1
    """What the file says of this process."""
    _known: WeakKeyDictionary[Total, Found] = field(default_factory=WeakKeyDictionary)
    """The totals as they were in the file; ``added`` is what this process holds of them."""
    _identity: tuple[int, int] | None = None
    """Device and inode of the file."""
    _looked: float = float("-inf")
    _is_lost: bool = False
    """Whether that was another one, of which the next one has to know; it may get the same inode."""
    _is_replaced: bool = False
    """Whether nobody knows yet that the file was replaced."""

    def write(self, batch: LimitBatch, now: float) -> Written:
        """Write all of it, or nothing.

        :raises OSError: the file cannot be used; so does :class:`sqlite3.Error`.
        """
        connection = self._open(now)
        connection.execute("BEGIN IMMEDIATE")
        try:
            left = self._care(connection, now) if not 0 <= now - self._cared < CARE_SECONDS else None
            found: dict[Total, Found] = {}
            for total, added in batch.sums.items():
                self._add(_find(connection, found, total), total, added.used, added.held)
            full, requests = list[Total | None](), batch.requests
            for changes in batch.asked:
                without_room = self._begin(connection, found, changes)
                full.append(without_room)
                requests += without_room is None and any(change.held for change in changes)
            self._store(connection, found, requests)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._requests = -1
            raise
        self._remember(found)
        is_replaced, self._is_replaced = self._is_replaced, False
        return Written(found, full, left, is_replaced)

    def state(self, totals: Iterable[Total], now: float) -> list[RowState]:
        """Return the state of these totals, and of others of periods that are not over.

        :raises OSError: the file cannot be used; so does :class:`sqlite3.Error`.
        """
        states = dict[_Place, _Known]()
        for total in totals:
            states[place_of(total)] = total.row.limit, total.period.ends, total.row.most, 0, 0
        for *place, ends, most, used, held in self._open(now).execute(_STATE, (now,)):
            holder, name, refuses, period = place
            limit = LIMITS_BY_NAME.get(name)
            if limit is not None:
                key = holder, name, bool(refuses), period
                known = states.get(key)
                states[key] = limit, ends, most if known is None else known[2], used, held
        return [
            RowState(holder, limit, period, used, held, most, None if ends == float("inf") else ends, refuses)
            for (holder, _, refuses, period), (limit, ends, most, used, held) in states.items()
        ]

    def reset(self, totals: Iterable[Total], reset: Reset) -> bool:
        """Set what is used of rows in their current periods, and return whether there are any.

        :param totals: those that are known to be current, whether or not the file has them.
        :raises OSError: the file cannot be used; so does :class:`sqlite3.Error`.
        """
        connection = self._open(reset.now)
        connection.execute("BEGIN IMMEDIATE")
        try:
            found: dict[Total, Found] = {}
            known = list(totals)
            for total in known:
                _find(connection, found, total).is_changed = True
            self._store(connection, found, max(0, self._requests))
            name = reset.limit
            parameters = (reset.amount, reset.holder, name, name, reset.now, PART_MARK)
            changed = connection.execute(_RESET, parameters).rowcount
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        for total in known:
            if total in self._known:
                before = self._known[total]
                self._known[total] = Found(reset.amount, 0, 0, before.resets + 1, before.added)
        return changed > 0

    def close(self) -> None:
        """Let go of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._lock >= 0:
            self.release_lock()
            if self._requests <= 0:
                with suppress(OSError):
                    os.unlink(self._lock_path(self.process))

    def release_lock(self) -> None:
        """Let others find this process gone, as they do when it was killed."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, now: float) -> sqlite3.Connection:
        if self._connection is not None and not 0 <= now - self._looked < LOOK_SECONDS:
            self._looked = now
            if _identity_of(self.path) != self._identity:
                self._is_lost = True
                connection, self._connection = self._connection, None
                connection.close()
                self.release_lock()  # that may be deleted as well
        if self._lock < 0:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            self._lock = os.open(self._lock_path(self.process), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if self._connection is None:
            connection = self.connect(self.path)
            self._identity = _identity_of(self.path)
            if self._is_lost:
                self._restore(connection)
            self._connection, self._is_lost = connection, False
        return self._connection

    def _restore(self, connection: sqlite3.Connection) -> None:
        """Write what is known of a file into the one in its place, which may know more."""
        found: dict[Total, Found] = {}
        requests, self._requests = max(0, self._requests), -1
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM holds WHERE process = ?", (self.process,))  # the old file is back
            for total, known in self._known.items():
                row = _find(connection, found, total)
                row.used, row.warned = max(row.used, known.used), max(row.warned, known.warned)
                row.resets, row.added, row.is_changed = max(row.resets, known.resets), known.added, True
            self._store(connection, found, requests)
            connection.execute("COMMIT")
        except BaseException:
            self._requests = requests
            connection.close()
            raise
        self._is_replaced = True

    def _remember(self, found: Mapping[Total, Found]) -> None:
        """Know totals as they are in the file now."""
        for total, row in found.items():
            before = self._known.get(total)
            held = row.added + (0 if before is None else before.added)
            self._known[total] = Found(row.used, 0, row.warned, row.resets, held)

    def _lock_path(self, process: str) -> str:
        return f"{self.path}-{process}.lock"

    def _begin(
        self, connection: sqlite3.Connection, found: dict[Total, Found], changes: Changes
    ) -> Total | None:
        """Count a request, unless a total has no room: then return that one."""
        rows = [(change, _find(connection, found, change.total)) for change in changes]
        limited = [(change, row) for change, row in rows if change.most is not None]
        full = list[tuple[float, Total]]()
        for change, row in limited:
            total, most = change.total, change.most or 0
            if row.used + row.held >= most:
                full.append((_end_of(total) if total.is_used_up(most, row.used) else 0.0, total))
        if full:
            return max(full, key=itemgetter(0))[1]
        for change, row in rows:
            self._add(row, change.total, change.used, change.held)
        return None

    @staticmethod
    def _add(row: Found, total: Total, used: int, held: int) -> None:
        row.used += used
        if PART_MARK not in total.period.name:
            row.used = max(0, row.used)
        row.held += held
        row.added += held
        if total.resets == row.resets:
            row.warned = max(row.warned, total.warned)
        row.is_changed = True

    def _store(self, connection: sqlite3.Connection, found: Mapping[Total, Found], requests: int) -> None:
        for total, row in found.items():
            if row.is_changed:
                place, most = place_of(total), total.row.most
                connection.execute(
                    _WRITE, (*place, total.period.ends, most, row.used, row.warned, row.resets)
                )
                if row.added:
                    connection.execute(_HOLD, (*place, self.process, row.added))
        if requests != self._requests:
            connection.execute(_REGISTER, (self.process, requests))
            self._requests = requests

    def _care(self, connection: sqlite3.Connection, now: float) -> Left | None:
        """Delete what is old, and count in full what processes hold that are gone."""
        self._cared = now
        connection.execute("DELETE FROM totals WHERE ends < ?", (now - KEPT_SECONDS,))
        requests, amounts = 0, list[tuple[str, str, int]]()
        for process, open_requests in connection.execute("SELECT * FROM processes").fetchall():
            if process == self.process or not self._is_gone(process):
                continue
            requests += open_requests
            for *place, amount in connection.execute(_HELD_BY, (process,)).fetchall():
                connection.execute(_COUNT_HELD, (amount, *place))
                amounts.append((place[0], place[1], amount))
            connection.execute("DELETE FROM holds WHERE process = ?", (process,))
            connection.execute("DELETE FROM processes WHERE process = ?", (process,))
        if not self.keeps_parts:
            connection.execute(_JOIN_PARTS, (PART_MARK, PART_MARK))
            connection.execute("UPDATE totals SET used = 0 WHERE instr(period, ?) > 0", (PART_MARK,))
        connection.execute(_DELETE_PARTS, (PART_MARK,))
        connection.execute("DELETE FROM holds WHERE held = 0")
        return Left(requests, amounts) if requests or amounts else None

    def _is_gone(self, process: str) -> bool:
        """Whether nobody has the lock of a process, which is deleted then."""
        path = self._lock_path(process)
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        os.unlink(path)
        return True


def _find(connection: sqlite3.Connection, found: dict[Total, Found], total: Total) -> Found:
    """Return a total as it is in the file, with what this transaction has added."""
    row = found.get(total)
    if row is None:
        place = place_of(total)
        used, warned, resets = connection.execute(_READ, place).fetchone() or (0, 0, 0)
        held = connection.execute(_READ_HELD, place).fetchone()[0]
        found[total] = row = Found(used, held, warned, resets)
    return row


def _identity_of(path: str) -> tuple[int, int] | None:
    """Return which file is there; ``None``: none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _end_of(total: Total) -> float:
    return total.period.ends
