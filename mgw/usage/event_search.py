"""A search for usage events in SQL, for the dashboard and ``mgw requests``: newest first, by exact values.

The index :data:`~mgw.usage.usage_table.SEARCH_INDEX` has the time, and behind it every column that can be
asked for.  So any combination of filters is decided within the index, from the newest event on, and a row of
the table is read for each match alone.  The ids of requests have indexes of their own.  A file whose gateway
has not made them yet is searched without, which takes longer.

A column that a file does not have, because another version made it, is unknown in each of its events.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Encoder, decode

from mgw.usage.event import FIELDS, MONEY, Outcome, nanodollars_of, usd_text
from mgw.usage.event_field import EventField, FieldType
from mgw.usage.usage_sums import columns_of, time_condition
from mgw.usage.usage_table import SEARCH_INDEX, TABLE, UPSTREAM_INDEX

FILTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "client": "client",
        "provider": "provider",
        "model": "model",
        "route": "route",
        "error": "error",
        "key": "key_hash",
        "request_id": "request_id",
        "upstream_request_id": "upstream_request_id",
    }
)
"""The columns by whose exact values one can search, by the names that they are asked for with."""
STATUS_HINT: Final = f"one of {', '.join(Outcome)}, an HTTP status such as 503, or a class such as 5xx"
_STATUS: Final = re.compile(r"[1-5](?:[0-9][0-9]|xx)", re.IGNORECASE)
_MOST_DOLLARS: Final = 1e15
_ENCODER: Final = Encoder()
_JSON_TYPES: Final[Mapping[FieldType, Any]] = MappingProxyType(  # Any: types
    {FieldType.NAMES: list[str], FieldType.TAGS: dict[str, str]}
)
"""What stands in a column as JSON text."""
_CONVERTED: Final = (FieldType.FLAG, *_JSON_TYPES)


class EventPosition(NamedTuple):
    """The position of an event in the order of events, which is by time."""

    time: str
    request_id: str


class EventSearch(Struct, frozen=True, kw_only=True):
    """What is asked for; ``None`` where it does not matter."""

    since: str | None = None
    """The earliest time, in the form of events."""
    until: str | None = None
    status: str | None = None
    """An outcome, an HTTP status or a class (:func:`is_status`)."""
    exact: tuple[tuple[str, str], ...] = ()
    """The columns to compare, and the value of each."""
    after: EventPosition | None = None
    """The position behind which events are wanted."""
    limit: int


def is_status(text: str) -> bool:
    """Whether a text says something of a status."""
    return text in tuple(Outcome) or _STATUS.fullmatch(text) is not None


def find_events(
    connection: sqlite3.Connection, search: EventSearch, fields: Sequence[EventField] = FIELDS
) -> Iterator[dict[str, Any]]:
    """Yield events, the newest first, as JSON has them; what is not known is left out.

    :raises sqlite3.Error: the file cannot be read.
    """
    known = columns_of(connection, TABLE)
    if "time" not in known or "request_id" not in known:
        return
    indexes = {row[1] for row in connection.execute(f"PRAGMA index_list({TABLE})")}
    columns = [field.name for field in fields if field.name in known]
    converted = [field for field in fields if field.type in _CONVERTED]
    for row in connection.execute(*search_statement(search, columns, indexes)):
        yield _event(columns, row, converted)


def encode_event(event: Mapping[str, Any]) -> bytes:  # Any: JSON
    """Return an event as JSON, without an exponent in its amounts."""
    for name in MONEY:
        amount = event.get(name)
        if isinstance(amount, int | float) and abs(amount) < _MOST_DOLLARS:
            event = {**event, name: Raw(usd_text(nanodollars_of(amount)).encode())}
    return _ENCODER.encode(event)


def search_statement(
    search: EventSearch, columns: Sequence[str], indexes: Collection[str]
) -> tuple[str, tuple[str | int, ...]]:
    """Return the query and the values in it.

    :param columns: of the table.
    :param indexes: of the table, by name.
    """
    conditions, values = ["time IS NOT NULL"], list[str | int]()
    until = search.until
    if search.after is not None and until is not None and search.after.time < until:
        until = None  # with both, SQLite might begin at the later one, and step over all pages before
    for condition, found in (
        time_condition(search.since, until),
        _status_condition(search.status, columns),
        *(_exact_condition(column, value, columns) for column, value in search.exact),
    ):
        conditions.append(condition)
        values += found
    if search.after is not None:
        conditions.append("(time, request_id) < (?, ?)")
        values += search.after
    where = " AND ".join(condition for condition in conditions if condition != "1")
    statement = (
        f"SELECT {', '.join(columns)} FROM {TABLE}{_index(search, indexes)} "  # noqa: S608 (names of ours)
        f"WHERE {where} ORDER BY time DESC, request_id DESC LIMIT ?"
    )
    return statement, (*values, search.limit)


def _index(search: EventSearch, indexes: Collection[str]) -> str:
    """Name the index: SQLite has no numbers of how many events share a value, and might choose another."""
    asked = {column for column, _ in search.exact}
    if "request_id" in asked:
        return ""  # the primary key
    index = UPSTREAM_INDEX if "upstream_request_id" in asked else SEARCH_INDEX
    return f" INDEXED BY {index}" if index in indexes else ""


def _exact_condition(column: str, value: str, columns: Collection[str]) -> tuple[str, tuple[str, ...]]:
    return (f"{column} = ?", (value,)) if column in columns else ("0", ())


def _status_condition(status: str | None, columns: Collection[str]) -> tuple[str, tuple[str | int, ...]]:
    if status is None:
        return "1", ()
    if status in tuple(Outcome):
        return _exact_condition("status", status, columns)
    if "http_status" not in columns:
        return "0", ()
    if status.isdigit():
        return "http_status = ?", (int(status),)
    first = int(status[0]) * 100
    return "http_status BETWEEN ? AND ?", (first, first + 99)


def _event(
    columns: Sequence[str], row: Sequence[Any], converted: Sequence[EventField]
) -> dict[str, Any]:  # Any: what SQLite has, and JSON
    event = {name: value for name, value in zip(columns, row, strict=True) if value is not None}
    for field in converted:
        value = event.get(field.name)
        if value is None:
            continue
        if field.type is FieldType.FLAG:
            event[field.name] = bool(value)
            continue
        try:
            event[field.name] = decode(value, type=_JSON_TYPES[field.type])
        except (DecodeError, TypeError):  # another program has written it
            del event[field.name]
    return event
