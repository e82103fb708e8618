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

A damaged file is read as far as it can be; of each row a checksum is stored.

Sources: sqlite.org/lockingv3.html, sqlite.org/pragma.html, sqlite.org/rescode.html.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
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
_ADD: Final = "INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?)"
_JOURNAL_BYTES: Final = 1024 * 1024
"""The space of the journal; the largest batch takes half of it to be removed, in rows of one event each."""
_PRAGMAS: Final = (
    "locking_mode = EXCLUSIVE",
    "journal_mode = PERSIST",
    "synchronous = NORMAL",
    "secure_delete = OFF",
    f"journal_size_limit = {_JOURNAL_BYTES}",
)
_HEAD: Final = (
    "SELECT rowid, key, start, sink, events FROM batches NOT INDEXED WHERE typeof(key) = 'text' "
    "AND typeof(start) = 'integer' AND typeof(sink) = 'text' AND typeof(events) = 'integer' AND rowid"
)
_NEXT: Final = f"{_HEAD} > ? ORDER BY rowid LIMIT 1"
_BEFORE: Final = f"{_HEAD} < ? ORDER BY rowid DESC LIMIT 1"
"""One row at a time: a cursor that meets damage does not return the row before it."""
_LINES: Final = "SELECT checksum, lines FROM batches WHERE rowid = ?"
_LAST_ROW: Final = 2**63 - 1
_NOT_OURS: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
    }
)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SHRUNK_PAGES: Final = 4096
"""A file below this size, 16 MiB, is left as large as it is."""
_MOVED_PAGES: Final = 2048
"""The most that is moved in order to make a file smaller, 8 MiB."""


class StoredBatch(Struct, frozen=True):
    """A batch that was found in a file."""

    key: str
    count: int
    size: int
    """The size of the lines in bytes."""


class Piece(Struct, frozen=True):
    """Lines of a batch that were stored together."""

    key: str
    start: int
    """How many bytes of the batch come before."""
    sink: str
    count: int
    lines: bytes | None
    """``None``: they cannot be read any more."""


@dataclass(slots=True, eq=False)
class SpoolDatabase:
    """One open file; what fails raises ``sqlite3.Error`` or ``OSError``, and changes nothing."""

    path: str
    _connection: sqlite3.Connection = field(repr=False)
    _identity: tuple[int, int]

    def add(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Store all that can be read, or nothing at all; return what cannot be read."""
        lost = []
        with self._transaction():
            for piece in pieces:
                if piece.lines is None:
                    lost.append(piece)
                    continue
                key, start, sink, count, lines = astuple(piece)
                self._connection.execute(_ADD, (key, start, sink, count, _checksum(key, start, lines), lines))
        return lost

    def read(self, key: str) -> list[bytes]:
        """Return the lines of a batch, without those that were damaged."""
        found = self._connection.execute(
            "SELECT start, checksum, lines FROM batches WHERE key = ? ORDER BY start", (key,)
        )
        return [
            line
            for start, checksum, lines in found
            if _is_whole(key, start, checksum, lines)
            for line in lines.splitlines(keepends=True)
        ]

    def remove(self, keys: Sequence[str]) -> None:
        """Delete batches; those that are not there are no error."""
        try:
            self._remove(keys)
        except sqlite3.OperationalError:
            for key in keys:  # the journal of a full disk has room for one at a time
                self._remove((key,))
        with suppress(sqlite3.Error):
            self._shrink()

    def find(self, sink: str) -> list[StoredBatch]:
        """Return the batches of a sink."""
        found = self._connection.execute(
            "SELECT key, sum(events), sum(length(lines)) FROM batches "
            "WHERE sink = ? AND typeof(key) = 'text' AND typeof(events) = 'integer' GROUP BY key",
            (sink,),
        )
        return [StoredBatch(*row) for row in found]

    @property
    def is_empty(self) -> bool:
        """Whether it has no batches."""
        return self._connection.execute("SELECT 1 FROM batches LIMIT 1").fetchone() is None

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged; all of it is read."""
        try:
            ((found,),) = self._connection.execute("PRAGMA quick_check(1)")
        except sqlite3.DatabaseError:
            return False
        return bool(found == "ok")

    @property
    def is_in_place(self) -> bool:
        """Whether the file is where it was, and nobody has renamed or deleted it."""
        with suppress(FileNotFoundError):
            return self._identity == _identity_of(self.path)
        return False

    def close(self) -> None:
        """Close the file, and let go of its batches."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _remove(self, keys: Iterable[str]) -> None:
        with self._transaction():
            for key in keys:
                self._connection.execute("DELETE FROM batches WHERE key = ?", (key,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def _shrink(self) -> None:
        """Give space back where most of a large file is free."""
        ((pages,),) = self._connection.execute("PRAGMA page_count")
        ((free,),) = self._connection.execute("PRAGMA freelist_count")
        if pages >= _SHRUNK_PAGES and free >= pages * 3 // 4 and pages - free <= _MOVED_PAGES:
            self._connection.execute("VACUUM")


def open_spool(path: str) -> SpoolDatabase | None:
    """Open a file, which is made unless it is there; ``None``: it is somebody else's.

    :raises sqlite3.DatabaseError: it is damaged (:func:`is_damaged`).
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return None
    connection = _connect(path)
    try:
        if not _begin(connection):
            connection.close()
            return None
        _reserve_journal(path)
        return SpoolDatabase(path, connection, _identity_of(path))
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error) and _code_of(error) in _NOT_OURS:
            return None
        raise


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # damaged text is no error
    return connection


def _begin(connection: sqlite3.Connection) -> bool:
    """Lock a file, and make its table; return whether its format is known."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchone()
    connection.execute("BEGIN EXCLUSIVE")
    ((version,),) = connection.execute("PRAGMA user_version")
    if version == 0:
        connection.execute(_CREATE)
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
    connection.execute("COMMIT")
    return version in (0, _FORMAT)


def _reserve_journal(path: str) -> None:
    """Give the journal its space, unless the disk is full already; zeros are no journal to SQLite."""
    with suppress(OSError), os.fdopen(os.open(f"{path}-journal", os.O_WRONLY | os.O_CLOEXEC)) as journal:
        os.posix_fallocate(journal.fileno(), 0, _JOURNAL_BYTES)


def rescue(path: str, keep: Callable[[Iterator[Piece]], list[Piece]]) -> list[Piece] | None:
    """Have all kept that a damaged file still has, and move the file aside; return what cannot be read.

    ``None``: somebody else is at it.  Only one damaged file of a name is left, the latest.
    """
    connection = _connect(path)
    with closing(connection):
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
            connection.execute("PRAGMA writable_schema = ON")  # it is read although its end is missing
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if not is_damaged(error):
                return None
        lost = keep(_readable(connection))
        for ending in ("-journal", ""):  # the journal first: it must not be taken for the next file's
            with suppress(FileNotFoundError):
                os.replace(path + ending, f"{path}.damaged{ending}")
    return lost


def _readable(connection: sqlite3.Connection) -> Iterator[Piece]:
    """Yield all rows of a damaged file that can be found: from the beginning on, and from the end back."""
    heads: dict[int, tuple[str, int, str, int]] = {}
    for statement, at in ((_NEXT, -1), (_BEFORE, _LAST_ROW)):
        with suppress(sqlite3.DatabaseError):
            found = connection.execute(statement, (at,)).fetchone()
            while found is not None and found[0] not in heads:
                heads[found[0]] = found[1:]
                found = connection.execute(statement, found[:1]).fetchone()
    for row, (key, start, sink, count) in sorted(heads.items()):
        lines = None
        with suppress(sqlite3.DatabaseError):
            checksum, text = connection.execute(_LINES, (row,)).fetchone()
            lines = text if _is_whole(key, start, checksum, text) else None
        yield Piece(key, start, sink, count, lines)


def _checksum(key: str, start: int, lines: bytes) -> int:
    return crc32(lines, crc32(f"{key} {start}".encode()))


def _is_whole(key: str, start: int, checksum: object, lines: object) -> bool:
    """Whether a row is as it was stored."""
    return isinstance(lines, bytes) and _checksum(key, start, lines) == checksum


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


def _identity_of(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
