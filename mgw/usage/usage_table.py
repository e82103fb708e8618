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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from mgw.usage.event import FIELDS, timestamp
from mgw.usage.event_field import EventField
from mgw.usage.usage_rollup import HourRollup, extend_rollup
from mgw.usage.usage_sums import EVENTS, columns_of

TABLE: Final = EVENTS
BUSY_SECONDS: Final = 0.5
"""How long a writer waits for another one."""
PURGED_AT_ONCE: Final = 5000
INSTRUCTIONS: Final = 100_000
"""SQLite's instructions, about a millisecond, between two checks whether an index is still to be made."""
SEARCH_INDEX: Final = f"{TABLE}_search"
UPSTREAM_INDEX: Final = f"{TABLE}_upstream"
INDEXES: Final = MappingProxyType(
    {
        SEARCH_INDEX: "(time, client, provider, model, route, status, http_status, error, key_hash)",
        UPSTREAM_INDEX: "(upstream_request_id) WHERE upstream_request_id IS NOT NULL",
    }
)
"""The first one answers any search of :mod:`mgw.usage.event_search`.  It grows at its end, as the table does,
so it costs a batch less than indexes of single columns, and a third of their space."""
_OLD_INDEX: Final = f"{TABLE}_time"
"""The index of older versions; the search index begins with the time, too."""
_KEY: Final = "request_id"
_DECODER: Final = Decoder(dict[str, Any])


class EventSchema(Struct, frozen=True):
    """The columns of a table, which come from the fields of events, and the statement that adds a batch.

    Columns are only ever added.  A newer version adds those that a file lacks, and an older one names those
    that it knows, so that the others are empty.
    """

    columns: Mapping[str, str]
    """The type of each column, in the order of the event's fields (contract 7.2)."""
    insert: str
    """One statement for a batch: SQLite releases the interpreter's lock with each step, and to get it back
    costs whoever else runs more than a row does."""


def schema_of(fields: Sequence[EventField]) -> EventSchema:
    """Return the schema for a table of fields."""
    names = [field.name for field in fields]
    values = ", ".join(f"json_extract(value, '$.{name}')" for name in names)
    return EventSchema(
        MappingProxyType({field.name: field.type.sql for field in fields}),
        f"INSERT INTO {TABLE} ({', '.join(names)}) SELECT {values} FROM json_each(?) "  # noqa: S608 (names of ours)
        f"WHERE true ON CONFLICT ({_KEY}) DO NOTHING",
    )


SCHEMA: Final = schema_of(FIELDS)
COLUMNS: Final = SCHEMA.columns
_PURGE: Final = (
    f"DELETE FROM {TABLE} WHERE rowid IN (SELECT rowid FROM {TABLE} WHERE time < ? LIMIT {PURGED_AT_ONCE})"  # noqa: S608 (names of ours)
)


@dataclass(slots=True, eq=False, repr=False)
class UsageTable:
    """The table of one file; what fails raises ``sqlite3.Error`` or ``OSError``, and can be tried again."""

    path: str
    schema: EventSchema = SCHEMA
    _connection: sqlite3.Connection | None = None
    _identity: tuple[int, int] | None = None
    _rollup: HourRollup = field(default_factory=HourRollup)

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
            create_table(connection, self.schema)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, _identity_of(self.path)
        self._rollup = HourRollup()

    def add(self, lines: list[bytes]) -> int:
        """Add events; return how many could not be read."""
        sound = lines
        try:
            self._write(self.schema.insert, _array_of(lines))
        except sqlite3.Error:
            sound = list(filter(_is_event, lines))
            if len(sound) == len(lines):
                raise
            self._write(self.schema.insert, _array_of(sound))
        return len(lines) - len(sound)

    def improve(self, is_over: Callable[[], bool], instructions: int = INSTRUCTIONS) -> str | None:
        """Make one of the indexes that a file of an older version lacks, or drop one that it no longer needs.

        It takes seconds where there are millions of events, and other writers wait meanwhile.

        :param is_over: asked now and then; it is given up then, and leaves nothing behind.
        :return: what was done, after which there may be more; ``None``: there was nothing to do.
        """
        self.open()
        connection = self._connection
        assert connection is not None
        found = {row[1] for row in connection.execute(f"PRAGMA index_list({TABLE})")}
        statements = [_create(name) for name in INDEXES if name not in found]
        if _OLD_INDEX in found:
            statements.append(f"DROP INDEX IF EXISTS {_OLD_INDEX}")
        if not statements or is_over():
            return None
        connection.set_progress_handler(is_over, instructions)
        try:
            connection.execute(statements[0])
        finally:
            connection.set_progress_handler(None, 0)
        with suppress(sqlite3.Error):  # the log has grown by a whole index
            # Only TRUNCATE gives the space back.  A reader in its way is no error: the row says so, unread.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return statements[0]

    def purge(self, before: float) -> int:
        """Delete events from before a Unix time, but not too many at once; return how many."""
        return self._write(_PURGE, timestamp(before))

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def roll_up(self, end: str) -> bool:
        """Do a piece of work that closes hours before this one; return whether there is more to do."""
        with self._opened() as connection:
            return self._rollup.advance(connection, end)

    def _write(self, statement: str, value: str) -> int:
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(statement, (value,))
            connection.execute("COMMIT")
            return found.rowcount

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection, and leave no transaction behind."""
        self.open()
        connection = self._connection
        assert connection is not None
        try:
            yield connection
        except sqlite3.OperationalError as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if not is_busy(error):
                self._discard()
            raise
        except BaseException:  # a file that is damaged, or no database, may be replaced by another
            self._discard()
            raise

    def _discard(self) -> None:
        with suppress(sqlite3.Error):
            self.close()


def create_table(connection: sqlite3.Connection, schema: EventSchema = SCHEMA) -> None:
    """Make the table, or add the columns that it lacks; an empty one gets its indexes, too."""
    connection.execute("BEGIN IMMEDIATE")
    columns = ", ".join(
        f"{name} {kind}{' PRIMARY KEY NOT NULL' if name == _KEY else ''}"
        for name, kind in schema.columns.items()
    )
    connection.execute(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})")
    known = columns_of(connection, TABLE)
    for name, kind in schema.columns.items():
        if name not in known:
            connection.execute(f"ALTER TABLE {TABLE} ADD COLUMN {name} {kind}")
    if connection.execute(f"SELECT 1 FROM {TABLE} LIMIT 1").fetchone() is None:  # noqa: S608 (a name of ours)
        for name in INDEXES:
            connection.execute(_create(name))
    extend_rollup(connection)
    connection.execute("COMMIT")


def insert_lines(connection: sqlite3.Connection, lines: list[bytes]) -> None:
    """Add events that have been encoded here, each of which can be read."""
    connection.execute(SCHEMA.insert, (_array_of(lines),))


def _create(index: str) -> str:
    return f"CREATE INDEX IF NOT EXISTS {index} ON {TABLE} {INDEXES[index]}"


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else uses the file just now."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


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
