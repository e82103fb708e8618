"""Completed requests with usage events that are not complete yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.exchange.exchange import Exchange
from mgw.usage.event import SettledExchange
from mgw.usage.record import EndedRequest


@dataclass(slots=True, eq=False, repr=False)
class LateRows:
    """Records each of them when it is complete."""

    _pending: int = 0
    _waiting: list[Deferred[None]] = field(default_factory=list)
    """Fire when none is left."""

    def add(self, exchange: Exchange, ended: EndedRequest, record: Callable[[EndedRequest], None]) -> None:
        """Record a request as soon as its event is complete."""
        self._pending += 1
        exchange.on_row = partial(self._on_row, ended, record)

    async def recorded(self) -> None:
        """Wait until all are recorded, which takes a few seconds at most."""
        if self._pending:
            recorded: Deferred[None] = Deferred(self._waiting.remove)
            self._waiting.append(recorded)
            await recorded

    def _on_row(
        self, ended: EndedRequest, record: Callable[[EndedRequest], None], row: SettledExchange
    ) -> None:
        self._pending -= 1
        record(replace(ended, settled=row))
        if not self._pending:
            waiting, self._waiting = self._waiting, []
            for recorded in waiting:
                recorded.callback(None)
