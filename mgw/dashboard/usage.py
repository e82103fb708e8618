"""``GET /v1/dashboard/usage``: totals of events, from the SQLite file if there is one, else from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from mgw.config.hooks import HooksSettings
from mgw.dashboard.usage_memory import UsageMemory
from mgw.dashboard.usage_query import parse_usage_query
from mgw.dashboard.usage_sql import UsageFile


@dataclass(frozen=True, slots=True)
class DashboardUsage:
    """Whatever has the events; a reload may change that."""

    hooks: Callable[[], HooksSettings]
    """Those in use."""
    memory: UsageMemory
    file: UsageFile
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
            return await self.memory.answer(query)
        return await self.file.answer(sqlite.path, query)
