"""Batches of usage events in one SQLite file, which one process uses at a time.

A batch is the rows of its key, in the order of ``start``: each row has the lines that were stored together,
and says how many bytes of the batch stand before it.

* The connection holds SQLite's exclusive lock from the beginning to the end.  The kernel releases it when a
  process dies, so whoever gets the lock may have the batches, and no batch ever has two owners.
* The journal is a rollback journal.  With one, the file itself grows within the transaction, so a full disk
  refuses a batch before it is stored.  To remove one takes a few pages of the journal, which is never deleted
  and has its space beforehand.  With a write-ahead log, a batch would be in the log of a full disk, which has
  no room in the file for it, nor in the log for its removal.
* ``synchronous = NORMAL``: a power failure harms at most what was stored just before.
* SQLite has no checksums, so each row has one: nobody gets an event that the disk has changed.

Sources: sqlite.org/lockingv3.html, sqlite.org/atomiccommit.html (several files), sqlite.org/rescode.html.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from zlib import crc32

from msgspec import Struct
from msgspec.structs import astuple

_FORMAT: Final = 1
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS batches (key TEXT NOT NULL, start INTEGER NOT NULL, sink TEXT NOT NULL, "
    "events INTEGER NOT NULL, checksum INTEGER NOT NULL, lines BLOB NOT NULL, PRIMARY KEY (key, start))"
)
"""The lines come last, so that what stands before them is read without them."""
_ADD: Final = "INSERT OR REPLACE INTO main.batches VALUES (?, ?, ?, ?, ?, ?)"
_READ: Final = "SELECT start, checksum, lines FROM batches WHERE key = ? ORDER BY start"
_REMOVE: Final = "DELETE FROM batches WHERE key = ?"
_FIND: Final = (
    "SELECT key, sum(events), sum(length(lines)) FROM batches WHERE sink = ? GROUP BY key ORDER BY key"
)
_HEAD: Final = "SELECT rowid, key, start, sink, events, checksum FROM batches NOT INDEXED WHERE rowid"
_FROM_BOTH_ENDS: Final = (
    (f"{_HEAD} > ? ORDER BY rowid LIMIT 1", -1),
    (f"{_HEAD} < ? ORDER BY rowid DESC LIMIT 1", 2**63 - 1),
)
"""One row at a time: a cursor that meets damage does not return the row before it."""
_JOURNAL_BYTES: Final = 1024 * 1024
"""The space of the journal; the largest batch takes half of it to be removed, in rows of one event each."""
_PRAGMAS: Final = (
    "locking_mode = EXCLUSIVE",
    "journal_mode = PERSIST",
    "synchronous = NORMAL",
    "secure_delete = OFF",
    f"journal_size_limit = {_JOURNAL_BYTES}",
)
_NOT_OURS: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT})
_KEPT_PAGES: Final = 4096
"""So many free pages, 16 MiB, are kept for the next batches."""
_MOVED_PAGES: Final = 2048
"""The most that is moved in order to make a file smaller, 8 MiB."""

Row = tuple[str, int, str, int, int, bytes]


class StoredBatch(Struct, frozen=True):
    """A batch that was found in a file."""

    key: str
    count: int
    size: int
    """The size of the lines in bytes."""


class Piece(Struct, frozen=True):
    """Lines of a batch that are stored together."""

    key: str
    start: int
    """How many bytes of the batch come before."""
    sink: str
    count: int
    lines: bytes


@dataclass(slots=True, eq=False, repr=False)
class SpoolDatabase:
    """One open file; what fails raises ``sqlite3.Error`` or ``OSError``, and changes nothing."""

    path: str
    _connection: sqlite3.Connection
    _identity: os.stat_result

    def add(self, pieces: Iterable[Piece]) -> None:
        """Store lines of batches: all, or none."""
        self._add_rows(map(_row_of, pieces))

    def read(self, key: str) -> list[bytes]:
        """Return the lines of a batch, without those that were damaged."""
        return [
            line
            for start, checksum, lines in self._connection.execute(_READ, (key,))
            if isinstance(lines, bytes) and _checksum(key, start, lines) == checksum
            for line in lines.splitlines(keepends=True)
        ]

    def remove(self, keys: Sequence[str]) -> None:
        """Delete batches; those that are not there are no error."""
        try:
            self._remove(keys)
        except sqlite3.OperationalError:
            for key in keys:  # the journal of a full disk has room for one at a time
                self._remove((key,))
        ((pages,),) = self._connection.execute("PRAGMA page_count")
        ((free,),) = self._connection.execute("PRAGMA freelist_count")
        if free >= _KEPT_PAGES and pages - free <= _MOVED_PAGES:
            with suppress(sqlite3.Error):  # a full disk has no room for it
                self._connection.execute("VACUUM")

    def find(self, sink: str) -> list[StoredBatch]:
        """Return the batches of a sink, the oldest first."""
        found = self._connection.execute(_FIND, (sink,))
        return [StoredBatch(*row) for row in found if _types(row) == (str, int, int)]

    def take_from(self, path: str) -> None:
        """Move all batches of another file here at once, unless it is somebody else's.

        :raises sqlite3.DatabaseError: one of the two is damaged (:func:`is_damaged`).
        """
        execute = self._connection.execute
        try:
            execute("ATTACH ? AS other", (path,))
            with self._connection:
                execute("BEGIN EXCLUSIVE")
                if execute("PRAGMA other.user_version").fetchone() == (_FORMAT,):
                    execute("INSERT OR REPLACE INTO main.batches SELECT * FROM other.batches")
                    execute("DELETE FROM other.batches")
            if execute("PRAGMA other.freelist_count").fetchone() != (0,):
                execute("VACUUM other")
        except sqlite3.Error as error:
            if _code_of(error) not in _NOT_OURS:
                raise
        finally:
            with suppress(sqlite3.Error):  # it may not even be attached
                execute("DETACH other")
            _reserve_journal(self.path)  # a transaction over two files has emptied it

    def rescue(self, path: str) -> bool:
        """Keep all that a damaged file still has, and move it aside; return whether nobody else is at it.

        A row whose lines cannot be read is kept too, so that its events are counted when they are missing.
        Only one damaged file of a name is left, the latest.
        """
        identity = os.stat(path)
        with closing(_connect(path)) as other:
            try:
                other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
                other.execute("PRAGMA writable_schema = ON")  # it is read although its end is missing
                other.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                if not is_damaged(error):
                    return False
            self._add_rows(_readable(other))
            if not _is_same(path, identity):
                return False
            for ending in ("-journal", ""):  # the journal first: it must not be taken for the next file's
                with suppress(FileNotFoundError):
                    os.replace(path + ending, f"{path}.damaged{ending}")
        return True

    @property
    def is_in_place(self) -> bool:
        """Whether the file is where it was, and nobody has renamed or deleted it."""
        return _is_same(self.path, self._identity)

    def close(self) -> None:
        """Close the file, and let go of its batches."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _add_rows(self, rows: Iterable[Row]) -> None:
        with self._connection:
            self._connection.executemany(_ADD, rows)

    def _remove(self, keys: Sequence[str]) -> None:
        with self._connection:
            self._connection.executemany(_REMOVE, [(key,) for key in keys])


def open_spool(path: str) -> SpoolDatabase | None:
    """Open a file, which is made unless it is there; ``None``: it is somebody else's.

    :raises sqlite3.DatabaseError: it is damaged (:func:`is_damaged`).
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    identity = os.lstat(path)
    if not stat.S_ISREG(identity.st_mode):
        return None
    connection = _connect(path)
    try:
        if _begin(connection) and _is_same(path, identity):
            _reserve_journal(path)
            return SpoolDatabase(path, connection, identity)
    except sqlite3.Error as error:
        if _code_of(error) not in _NOT_OURS:
            connection.close()
            raise
    connection.close()
    return None


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0, isolation_level="IMMEDIATE")
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # damaged text is no error
    return connection


def _begin(connection: sqlite3.Connection) -> bool:
    """Lock a file, and make its table; return whether its format is known."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchone()
    with connection:
        connection.execute("BEGIN EXCLUSIVE")
        ((version,),) = connection.execute("PRAGMA user_version")
        if version in (0, _FORMAT):
            connection.execute(_CREATE)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
    return version in (0, _FORMAT)


def _reserve_journal(path: str) -> None:
    """Give the journal its space, unless the disk is full already; zeros are no journal to SQLite."""
    with suppress(OSError), os.fdopen(os.open(f"{path}-journal", os.O_WRONLY | os.O_CLOEXEC)) as journal:
        os.posix_fallocate(journal.fileno(), 0, _JOURNAL_BYTES)


def _readable(connection: sqlite3.Connection) -> Iterator[Row]:
    """Yield all rows of a damaged file that can be found: from the beginning on, and from the end back."""
    seen = set[int]()
    for statement, end in _FROM_BOTH_ENDS:
        with suppress(sqlite3.DatabaseError):
            found = connection.execute(statement, (end,)).fetchone()
            while found is not None and found[0] not in seen:
                seen.add(found[0])
                if _types(found) == (int, str, int, str, int, int):
                    yield (*found[1:], _lines_of(connection, found[0]))
                found = connection.execute(statement, found[:1]).fetchone()


def _lines_of(connection: sqlite3.Connection, row: int) -> bytes:
    with suppress(sqlite3.DatabaseError):
        ((lines,),) = connection.execute("SELECT lines FROM batches WHERE rowid = ?", (row,))
        if isinstance(lines, bytes):
            return lines
    return b"?"  # to which no checksum belongs


def _row_of(piece: Piece) -> Row:
    key, start, sink, count, lines = astuple(piece)
    return key, start, sink, count, _checksum(key, start, lines), lines


def _types(row: Iterable[object]) -> tuple[type, ...]:
    """Return the types of a row's values: other ones where a damaged page was read without an error."""
    return tuple(map(type, row))


def _checksum(key: str, start: int, lines: bytes) -> int:
    return crc32(lines, crc32(f"{key} {start}".encode()))


def is_damaged(error: BaseException) -> bool:
    """Whether an operation failed since the file is damaged, or something else."""
    return isinstance(error, sqlite3.Error) and _code_of(error) in _DAMAGED


def reason_of(error: Exception) -> str:
    """Return what is wrong; SQLite's words speak of files and tables, never of values."""
    if isinstance(error, sqlite3.Error):
        return str(error)
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


def _code_of(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_same(path: str, identity: os.stat_result) -> bool:
    """Whether a file is still at its place."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), identity)
    return False
