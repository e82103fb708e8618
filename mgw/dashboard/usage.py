"""``GET /v1/dashboard/usage``: totals of events, from the SQLite file if there is one, else from memory.

SQLite adds everything up in the thread of the queries (:mod:`mgw.dashboard.event_queries`), and hands on a
few thousand rows at most.

Where there are few keys, it is one query; where that finds many, it is given up for others:

1. The keys with most requests.
2. The sums of each step, by the first 20 of them and all others together.
3. The sums of the others up to the first 1,000.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from twisted.internet.defer import Deferred

from mgw.config.hooks import HooksSettings
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventFile, EventQueries
from mgw.dashboard.usage_answer import (
    MAX_GROUPS,
    MAX_SERIES_GROUPS,
    UsageRows,
    render_usage,
)
from mgw.dashboard.usage_query import UsageQuery, parse_usage_query, rfc3339
from mgw.dashboard.usage_spans import MINUTE, open_spans
from mgw.usage.usage_read import (
    MAX_KEY_BYTES,
    OTHER,
    Key,
    UsageRange,
    UsageReader,
    add_rows,
    key_of,
    open_period,
    read_sums,
)

ADVICE: Final = "choose a shorter time range, or use `mgw usage`, which has no time limit"
"""The advice for a query that takes too long."""
ROWS: Final = 5000
"""The most sums, one for each step and key; SQLite adds up those of most keys where there are more."""
_BOUNDED: Final = f"CASE WHEN length(CAST({{0}} AS BLOB)) > {MAX_KEY_BYTES} THEN '{OTHER}' ELSE {{0}} END"
_NAMED: Final = f"CASE WHEN {{{{0}}}} IS NULL OR {{{{0}}}} IN temp.{{}} THEN {{{{0}}}} ELSE '{OTHER}' END"
_NO_KEY: Final = Key("", "NULL", "NULL")

OpenReader = Callable[[sqlite3.Connection, UsageRange], UsageReader]


@dataclass(frozen=True, slots=True)
class DashboardUsage:
    """Whatever has the events; a reload may change that."""

    hooks: Callable[[], HooksSettings]
    """The settings of hooks that are in use."""
    queries: EventQueries
    memory: EventMemory
    wall: Callable[[], float]
    """Unix seconds."""

    @property
    def source(self) -> Literal["sqlite", "memory"]:
        """Where the sums come from."""
        return "memory" if self.hooks().sqlite is None else "sqlite"

    async def answer(self, parameters: Mapping[str, str]) -> bytes:
        """Return the answer to a request in JSON.

        :raises GatewayError: a parameter is wrong, or it takes too long.
        """
        query = parse_usage_query(parameters, self.wall())
        sqlite = self.hooks().sqlite
        if sqlite is None:
            return await ask_memory(self.queries, self.memory, query)
        return await ask_file(self.queries, sqlite.path, query)


def ask_file(queries: EventQueries, path: str, query: UsageQuery) -> Deferred[bytes]:
    """Return the answer from a file in JSON; cancel to hear no more of it.

    Fails with :class:`GatewayError` (``OVERLOADED``) where it takes too long, or the file cannot be read.
    """
    return queries.ask(EventFile(path), partial(answer_usage, query, "sqlite", open_period), ADVICE)


def ask_memory(queries: EventQueries, memory: EventMemory, query: UsageQuery) -> Deferred[bytes]:
    """Return the answer from the database in memory, which knows no times within a minute."""
    query = query.in_whole_steps_of(MINUTE)
    reader = partial(open_spans, since=query.since, until=query.until)
    return queries.ask(memory, partial(answer_usage, query, "memory", reader), ADVICE)


def answer_usage(
    query: UsageQuery, source: str, open_reader: OpenReader, connection: sqlite3.Connection | None
) -> bytes:
    """Return the answer to a query in JSON; to be called within a transaction.

    :param connection: ``None``: there are no events.
    """
    rows = UsageRows()
    if connection is not None:
        period = UsageRange(rfc3339(query.since), rfc3339(query.until), query.step, query.filters)
        rows = read_sums(open_reader(connection, period), partial(_read, query))
    rows.fold()
    return render_usage(query, source, rows)


def _read(query: UsageQuery, reader: UsageReader) -> UsageRows:
    if query.by is None:
        return _read_all(reader, _NO_KEY)
    key = key_of(query.by)
    assert key is not None, "the query was checked"
    bounded = key.wrapped(_BOUNDED)
    rows = _read_few(reader, bounded, max(MAX_SERIES_GROUPS, ROWS // query.points))
    rows = rows or _read_most_asked(reader, bounded)
    if key.has_several:  # each event once, not once for each key
        rows.totals = add_rows(row for _, _, row in reader.rows([])) or None
    return rows


def _read_few(reader: UsageReader, key: Key, most: int) -> UsageRows | None:
    """Read the sums of each step and key; ``None``: there are too many keys for that."""
    rows = UsageRows()
    for step, (value,), row in reader.rows([key]):
        if step is not None:  # a time that is none, from who knows where
            rows.add(step, value, row)
            if len(rows.groups) > most:
                return None
    return rows


def _read_all(reader: UsageReader, key: Key) -> UsageRows:
    """Read the sums of each step and key, of which there are few."""
    rows = _read_few(reader, key, MAX_SERIES_GROUPS + 2)  # and "other", and none
    assert rows is not None
    return rows


def _read_most_asked(reader: UsageReader, key: Key) -> UsageRows:
    """Read those of the keys with most requests, and what is left as one."""
    found = reader.most_asked(key, MAX_GROUPS + 1)  # "other" may be among them
    keys = [value for value in found if value != OTHER][:MAX_GROUPS]
    _name_keys(reader.connection, "shown", keys[:MAX_SERIES_GROUPS])
    _name_keys(reader.connection, "listed", keys[MAX_SERIES_GROUPS:])
    rows = _read_all(reader, key.wrapped(_NAMED.format("shown")))
    rows.groups.pop(OTHER, None)
    others = key.wrapped("{0} NOT IN temp.shown")
    for _, (value,), row in reader.rows([key.wrapped(_NAMED.format("listed"))], others):
        rows.add_group(value, row)
    return rows


def _name_keys(connection: sqlite3.Connection, table: str, keys: Collection[str]) -> None:
    """Write keys that have sums of their own to a table of the connection."""
    connection.execute(f"CREATE TEMP TABLE {table} (key TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.executemany(f"INSERT INTO temp.{table} VALUES (?)", [(key,) for key in keys])  # noqa: S608 (ours)
