"""``GET /v1/dashboard/usage``: totals of events, from the SQLite file if there is one, else from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from twisted.internet.defer import Deferred

from mgw.config.hooks import HooksSettings
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventFile, EventQueries
from mgw.dashboard.usage_query import UsageQuery, parse_usage_query
from mgw.dashboard.usage_spans import MINUTE, open_spans
from mgw.dashboard.usage_sql import ADVICE, answer_usage
from mgw.usage.usage_read import open_period


@dataclass(frozen=True, slots=True)
class DashboardUsage:
    """Whatever has the events; a reload may change that."""

    hooks: Callable[[], HooksSettings]
    """Those in use."""
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
