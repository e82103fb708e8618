"""The table ``usage_events`` in an SQLite file: a column for each field, a row for each event.

All of this may block, so it runs on a thread of its own, which alone uses the connection.  Readers can open
the file at any time (write-ahead logging).  An event that is there already is left as it is, so adding a
batch twice does no harm.  A column that an older version did not have is added; unknown ones are left alone.

Sources: sqlite.org/wal.html, sqlite.org/lang_altertable.html, sqlite.org/howtocorrupt.html (2.2: a file that
is open must not be opened and closed beside the connection, which would release its locks).
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from msgspec import DecodeError
from msgspec.json import Decoder

from mgw.usage.event import UsageEvent, timestamp

TABLE: Final = "usage_events"
BUSY_SECONDS: Final = 0.5
"""How long a writer waits for another one."""
PURGED_AT_ONCE: Final = 5000
_KEY: Final = "request_id"
_MAX_INTEGER: Final = 2**63 - 1
_TYPES: Final = {int: "INTEGER", bool: "INTEGER", float: "REAL"}
_DECODER: Final = Decoder(dict[str, Any])


def _sql_type(annotation: Any) -> str:  # Any: an annotation has no type of its own
    parts = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
    return next((_TYPES[part] for part in parts if part in _TYPES), "TEXT")


COLUMNS: Final = {
    name: _sql_type(annotation)
    for name, annotation in get_type_hints(UsageEvent).items()
    if name in UsageEvent.__struct_fields__
} | {"time": "TEXT"}
"""The type of each column, in the order of the event's fields (contract 7.2)."""
_VALUE: Final = "json_extract(value, '$.{}')"
_INSERT: Final = (
    f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) "  # noqa: S608 (names of ours)
    f"SELECT {', '.join(map(_VALUE.format, COLUMNS))} FROM json_each(?) "
    f"WHERE true ON CONFLICT ({_KEY}) DO NOTHING"
)
"""One statement for a batch: SQLite releases the interpreter's lock with each step, and to get it back costs
whoever else runs more than a row does."""
_PURGE: Final = (
    f"DELETE FROM {TABLE} WHERE rowid IN (SELECT rowid FROM {TABLE} WHERE time < ? LIMIT {PURGED_AT_ONCE})"  # noqa: S608 (as above)
)


@dataclass(slots=True)
class UsageTable:
    """The table of one file; what fails raises ``sqlite3.Error`` or ``OSError``, and can be tried again."""

    path: str
    _connection: sqlite3.Connection | None = field(default=None, repr=False)
    _identity: tuple[int, int] | None = None

    def open(self) -> None:
        """Open the file, and make or extend its table."""
        if self._connection is not None and self._identity == _identity_of(self.path):
            return
        self.close()  # the file was renamed or deleted
        if not os.path.exists(self.path):
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        elif not os.path.isfile(self.path):
            raise OSError(errno.EINVAL, "not a regular file", self.path)
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = NORMAL")
            _extend(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, _identity_of(self.path)

    def add(self, lines: list[bytes]) -> int:
        """Add events; return how many could not be read."""
        sound = lines
        try:
            self._write(_INSERT, _array_of(lines))
        except sqlite3.Error:
            sound = list(filter(_is_event, lines))
            if len(sound) == len(lines):
                raise
            self._write(_INSERT, _array_of(sound))
        return len(lines) - len(sound)

    def purge(self, before: float) -> int:
        """Delete events from before a Unix time, but not too many at once; return how many."""
        return self._write(_PURGE, timestamp(before))

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, statement: str, value: str) -> int:
        self.open()
        connection = self._connection
        assert connection is not None
        try:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(statement, (value,))
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            ):
                self._discard()
            raise
        except BaseException:  # a file that is damaged, or no database, may be replaced by another
            self._discard()
            raise
        return found.rowcount

    def _discard(self) -> None:
        with suppress(sqlite3.Error):
            self.close()


def _extend(connection: sqlite3.Connection) -> None:
    """Make the table, or add the columns that it lacks."""
    connection.execute("BEGIN IMMEDIATE")
    columns = ", ".join(
        f"{name} {kind}{' PRIMARY KEY NOT NULL' if name == _KEY else ''}" for name, kind in COLUMNS.items()
    )
    connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")
    known = {row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})")}
    for name, kind in COLUMNS.items():
        if name not in known:
            connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN {name} {kind}")
    connection.execute(f"CREATE INDEX IF NOT EXISTS {TABLE}_time ON {TABLE} (time)")
    connection.execute("COMMIT")


def _array_of(lines: list[bytes]) -> str:
    return f"[{b','.join(lines).decode()}]"


def _is_event(line: bytes) -> bool:
    try:
        return isinstance(_DECODER.decode(line).get(_KEY), str)
    except (DecodeError, UnicodeDecodeError):
        return False


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
