"""``GET /v1/dashboard/requests``: the requests in progress, and those that have completed.

The latter are usage events: of the SQLite file if there is one, else the latest ones, which are in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.json import encode
from msgspec.structs import replace

from mgw.config.hooks import HooksSettings
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventDatabase, EventFile, EventQueries
from mgw.dashboard.request_query import cursor_of, parse_request_query
from mgw.dashboard.requests import Requests
from mgw.usage.event_search import EventSearch, Place, encode_event, find_events

MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
"""Of the events: a page ends with the one that goes beyond it."""
ADVICE: Final = "choose a shorter time range, or use `mgw requests`, which has no time limit"
"""For a query that takes too long."""


@dataclass(frozen=True, slots=True)
class DashboardRequests:
    """Answers with a page of events, from whatever has them; a reload may change that."""

    in_progress: Requests
    refresh: Callable[[], Awaitable[None]] | None
    """Asks other processes for their requests."""
    hooks: Callable[[], HooksSettings]
    """Those in use."""
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
        last = Place(event["time"], event["request_id"])
    return b',"requests":[' + b",".join(found) + rest
