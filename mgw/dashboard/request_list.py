"""``GET /v1/dashboard/requests``: the requests in progress, and those that have completed.

The latter are usage events: of the SQLite file if there is one, else the latest ones, which are in memory.

The query has filters, the size of a page, and a cursor to the next one.  Times are half-open,
``since <= time < until``.  All other filters are exact, but for a class of statuses.  A cursor names the last
event of a page, so later pages stay the same while new events arrive, and it works after a restart.  It holds
a checksum: one that was cut or made up is refused.
"""

from __future__ import annotations

import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final

from msgspec import DecodeError
from msgspec.json import decode, encode
from msgspec.structs import replace

from mgw.config.hooks import HooksSettings
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventDatabase, EventFile, EventQueries
from mgw.dashboard.requests import Requests
from mgw.dashboard.usage_query import parse_time, rfc3339
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event_search import (
    FILTERS,
    STATUS_HINT,
    EventPosition,
    EventSearch,
    encode_event,
    find_events,
    is_status,
)

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
PARAMETERS: Final = ("since", "until", "status", *FILTERS, "limit", "cursor")
_MAX_CURSOR_CHARS: Final = 1024
_CHECKSUM_BYTES: Final = 6
_PURPOSE: Final = b"mgw-cursor"
MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""The most bytes of events in a page, which ends with the one that goes beyond it."""
ADVICE: Final = "choose a shorter time range, or use `mgw requests`, which has no time limit"
"""The advice for a query that takes too long."""


@dataclass(frozen=True, slots=True)
class DashboardRequests:
    """Answers with a page of events, from whatever has them; a reload may change that."""

    in_progress: Requests
    refresh: Callable[[], Awaitable[None]] | None
    """Asks other processes for their requests."""
    hooks: Callable[[], HooksSettings]
    """The settings of hooks that are in use."""
    queries: EventQueries
    memory: EventMemory

    async def answer(self, parameters: Mapping[str, str]) -> bytes:
        """Return the answer to a request in JSON.

        :raises GatewayError: a parameter is wrong, or it takes too long.
        """
        search = parse_request_query(parameters)
        sqlite = self.hooks().sqlite
        events: EventDatabase = self.memory if sqlite is None else EventFile(sqlite.path)
        if self.refresh is not None and search.after is None:
            await self.refresh()
        head = {"source": "memory" if sqlite is None else "sqlite", **self.in_progress.answer()}
        if search.after is not None:  # whoever reads on has them from the first page
            head["in_progress"] = []
        if not search.limit:  # whoever polls what is in progress: nothing waits for events, nor do they move
            return encode({**head, "requests": []})
        # Only now: a request that completes meanwhile is in both lists, and not in none.
        page = await self.queries.ask(events, partial(read_page, search), ADVICE)
        return encode(head)[:-1] + page


def read_page(search: EventSearch, connection: sqlite3.Connection | None) -> bytes:
    """Return the rest of the answer, in the thread: the events, and the cursor to the next page."""
    found: list[bytes] = []
    size, last, rest = 0, None, b"]}"
    asked = replace(search, limit=search.limit + 1)  # the one more says whether there is a next page
    for event in () if connection is None else find_events(connection, asked):
        if last is not None and (len(found) == search.limit or size > MAX_PAGE_BYTES):
            rest = b'],"next":%b}' % encode(cursor_of(last))
            break
        found.append(encode_event(event))
        size += len(found[-1])
        last = EventPosition(event["time"], event["request_id"])
    return b',"requests":[' + b",".join(found) + rest


def parse_request_query(parameters: Mapping[str, str]) -> EventSearch:
    """Return what the parameters of a request ask for.

    :raises GatewayError: one of them is wrong, or there is no such parameter.
    """
    for name, value in parameters.items():
        if name not in PARAMETERS:
            raise _wrong(None, f"unknown parameter; expected one of {', '.join(PARAMETERS)}")
        if not value:
            raise _wrong(name, f"{name} must not be empty; leave it out to search for any value")
    status = parameters.get("status")
    if status is not None and not is_status(status):
        raise _wrong("status", f"status must be {STATUS_HINT}")
    since, until = (
        rfc3339(parse_time(name, parameters[name])) if name in parameters else None
        for name in ("since", "until")
    )
    if since is not None and until is not None and since >= until:
        raise _wrong("since", "since must be before until")
    return EventSearch(
        since=since,
        until=until,
        status=status,
        exact=tuple((column, parameters[name]) for name, column in FILTERS.items() if name in parameters),
        after=_position(parameters["cursor"]) if "cursor" in parameters else None,
        limit=_limit(parameters["limit"]) if "limit" in parameters else DEFAULT_LIMIT,
    )


def cursor_of(position: EventPosition) -> str:
    """Return the cursor to what comes behind an event."""
    text = encode(position)
    return urlsafe_b64encode(_checksum(text) + text).rstrip(b"=").decode()


def _position(cursor: str) -> EventPosition:
    try:
        if len(cursor) > _MAX_CURSOR_CHARS:
            raise ValueError
        found = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        position = EventPosition(*decode(found[_CHECKSUM_BYTES:], type=tuple[str, str]))
        if cursor_of(position) != cursor:  # the checksum, and letters outside base64, which it skips
            raise ValueError
    except (ValueError, DecodeError):
        message = "cursor must be the value of `next` in an earlier response; leave it out for the first page"
        raise _wrong("cursor", message) from None
    return position


def _checksum(text: bytes) -> bytes:
    return blake2b(text, digest_size=_CHECKSUM_BYTES, person=_PURPOSE).digest()


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIMIT)) and int(text) <= MAX_LIMIT:
        return int(text)
    raise _wrong("limit", f"limit must be a whole number from 0 to {MAX_LIMIT}")


def _wrong(param: str | None, message: str) -> GatewayError:
    return GatewayError(Reason.MALFORMED, message, param=param)
