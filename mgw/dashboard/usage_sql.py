"""Totals of the usage events in the ``hooks.sqlite`` file, for the dashboard.

The file is read on a thread of its own, through a connection that cannot write and that lives for one query.
SQLite adds everything up and hands on a few thousand rows at most: each one costs the reactor a wait for the
interpreter's lock.  A query that takes longer than :data:`SECONDS` is given up, as is one that nobody waits
for any more.

1. The keys with most requests, where sums are wanted by key.
2. The sums of each step, by the first 20 of them and all others together.
3. Where there are more than 20 keys, the sums of the others up to the first 1,000.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.dashboard.usage_answer import (
    BOUNDS,
    MAX_GROUPS,
    MAX_KEY_BYTES,
    MAX_SERIES_GROUPS,
    OTHER,
    UsageRows,
    render_usage,
)
from mgw.dashboard.usage_query import UsageQuery, rfc3339
from mgw.errors import GatewayError, Reason
from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.usage_sums import SUMS, THOUSANDTHS, is_overflow, sum_expression, time_condition, whole_units
from mgw.usage.usage_table import TABLE

SECONDS: Final = 20.0
MAX_QUERIES: Final = 4
"""How many may wait, the one that runs included."""
INSTRUCTIONS: Final = 1_000_000
"""So many of SQLite's, some ten milliseconds, between two looks at the time."""
BUSY_SECONDS: Final = 1.0

_log: Final = Logger()


@dataclass(slots=True, eq=False)
class UsageFile:
    """Reads whatever file it is told to."""

    runner: SerialRunner
    """A thread of its own."""
    seconds: float = SECONDS
    timer: Callable[[], float] = monotonic
    """Seconds, from any time on; asked in the thread."""
    instructions: int = INSTRUCTIONS
    _queries: int = 0
    _stopped: bool = False

    def answer(self, path: str, query: UsageQuery) -> Deferred[bytes]:
        """Return the answer in JSON; cancel to hear no more of it.

        Fails with :class:`GatewayError` (``OVERLOADED``) where it takes too long, or the file cannot be read.
        """
        left: list[bool] = []
        done: Deferred[bytes] = Deferred(lambda _: left.append(True))

        def work() -> bytes:
            return b"" if left else _answer(path, query, self._limit(left), self.instructions)

        def on_result(result: bytes | Exception) -> None:
            self._queries -= 1
            if done.called:  # whoever waited has left
                return
            if isinstance(result, bytes):
                done.callback(result)
            else:
                done.errback(self._refusal(result))

        if self._stopped:
            done.errback(GatewayError(Reason.DRAINING, "the gateway is stopping"))
            return done
        if self._queries >= MAX_QUERIES:
            done.errback(_overloaded("the dashboard is busy with other queries; try again"))
            return done
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

    def _limit(self, left: list[bool]) -> Callable[[], bool]:
        """Return what says whether a query that begins now has to end."""
        end = self.timer() + self.seconds
        return lambda: bool(left) or self.timer() > end

    def _refusal(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            return _overloaded(
                f"adding up these events takes more than {self.seconds:g} s: choose a shorter time range, "
                "or use `mgw usage`, which has no time limit"
            )
        # SQLite's words speak of files and tables, never of values.
        _log.warn("the dashboard cannot read the hooks.sqlite file: {error}", error=str(error))
        return _overloaded("the hooks.sqlite file cannot be read; see the process log")


def _overloaded(message: str) -> GatewayError:
    return GatewayError(Reason.OVERLOADED, message, retry_after=1.0)


class _Source(NamedTuple):
    """An open file, and what of it is asked for."""

    connection: sqlite3.Connection
    known: frozenset[str]
    """The columns of its table."""
    query: UsageQuery
    exact: bool
    """Whether sums are whole numbers."""

    @property
    def key(self) -> str:
        """The key in SQL."""
        by = self.query.by
        if by is None or by not in self.known:
            return "NULL"
        return f"CASE WHEN length(CAST({by} AS BLOB)) > {MAX_KEY_BYTES} THEN '{OTHER}' ELSE {by} END"

    def select(self, statement: str, *values: str | int) -> sqlite3.Cursor:
        """Run a statement about the events of the time that is asked for; ``{}`` stands for that."""
        condition, times = time_condition(rfc3339(self.query.since), rfc3339(self.query.until))
        return self.connection.execute(statement.format(condition), (*values, *times))


def _answer(path: str, query: UsageQuery, is_over: Callable[[], bool], instructions: int) -> bytes:
    rows = UsageRows()
    if os.path.exists(path):
        try:
            _read_file(path, query, (is_over, instructions), rows, exact=True)
        except sqlite3.Error as error:
            if not is_overflow(error):
                raise
            rows = UsageRows()
            _read_file(path, query, (is_over, instructions), rows, exact=False)
    for _ in rows.fold():
        pass
    return b"".join(render_usage(query, "sqlite", rows))


def _read_file(
    path: str, query: UsageQuery, limit: tuple[Callable[[], bool], int], rows: UsageRows, *, exact: bool
) -> None:
    """Add up what is in a file.

    :param limit: says whether to end, and after how many of SQLite's instructions it is asked again.
    """
    with closing(_connect(path)) as connection:
        connection.set_progress_handler(*limit)
        connection.execute("BEGIN")  # all that follows sees the same events
        known = frozenset(row[1] for row in connection.execute(f"PRAGMA table_info({TABLE})"))
        if "time" in known:
            _read(_Source(connection, known, query, exact), rows)


def _connect(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _read(source: _Source, rows: UsageRows) -> None:
    keys = _most_asked(source) if source.query.by is not None else []
    _name_keys(source.connection, "shown", keys[:MAX_SERIES_GROUPS])
    step = f"CAST(strftime('%s', time) AS INTEGER) / {source.query.step}"
    for number, key, *sums in _sums(source, step, "shown"):
        if number is not None:  # a time that is none, from who knows where
            rows.add(number, key, sums)
    if len(keys) > MAX_SERIES_GROUPS:
        _name_keys(source.connection, "listed", keys[MAX_SERIES_GROUPS:])
        rows.groups.pop(OTHER, None)
        others = _sums(source, "0", "listed", f"{source.key} NOT IN temp.shown")
        rows.groups.update((key, sums) for _, key, *sums in others)


def _most_asked(source: _Source) -> list[str]:
    found = source.select(
        f"SELECT {source.key} AS key FROM {TABLE} WHERE {{}} GROUP BY 1 "  # noqa: S608 (nothing in it comes from outside)
        f"HAVING key IS NOT NULL AND key <> '{OTHER}' ORDER BY count(*) DESC, key LIMIT {MAX_GROUPS}",
    )
    return [key for (key,) in found]


def _name_keys(connection: sqlite3.Connection, table: str, keys: Collection[str]) -> None:
    """Write keys that have sums of their own to a table of the connection."""
    connection.execute(f"CREATE TEMP TABLE {table} (key TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.executemany(f"INSERT INTO temp.{table} VALUES (?)", [(key,) for key in keys])  # noqa: S608 (ours)


def _sums(
    source: _Source, step: str, named: str, condition: str = "1"
) -> Iterator[tuple[Any, ...]]:  # Any: numbers, and text for the key
    """Return the step, the key and the row of each, one after the other.

    :param named: the table of the keys that have rows of their own.
    :param condition: which events count, in SQL.
    """
    known = source.known
    times = [f"sum({name}){_counts(name)}" for name in ("latency", "ttft")]
    sums = ", ".join([*(sum_expression(name, known, exact=source.exact) for name in SUMS), *times])
    shown = f"CASE WHEN key IS NULL OR key IN temp.{named} THEN key ELSE '{OTHER}' END"
    inner = [f"{step} AS step", f"{source.key} AS key"]
    inner += [f"{_time(f'{name}_ms', known)} AS {name}" for name in ("latency", "ttft")]
    inner += sorted({found.column for found in SUMS.values() if found.column in known})
    # Without LIMIT, SQLite would work out what the inner one has anew for each of the sums.
    return source.select(
        f"SELECT step, {shown}, {sums} "  # noqa: S608 (nothing in it comes from outside)
        f"FROM (SELECT {', '.join(inner)} FROM {TABLE} WHERE {{}} AND {condition} LIMIT -1) GROUP BY 1, 2",
    )


def _time(column: str, known: Collection[str]) -> str:
    """Return microseconds; those of a session are no latency."""
    if column not in known:
        return "NULL"
    value = whole_units(column, THOUSANDTHS)
    return f"CASE WHEN transport = 'http' THEN {value} END" if "transport" in known else value


def _counts(name: str) -> str:
    within = "".join(f", sum({name} <= {bound})" for bound in BOUNDS)
    return f"{within}, count({name})"
