"""The requests in progress, for ``GET /v1/dashboard/requests``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from mgw.exchange.exchange import Exchange
from mgw.routing.route import Treatment
from mgw.usage.event import timestamp

Json = dict[str, Any]  # Any: JSON

MAX_REQUESTS: Final = 200


def _no_rows() -> tuple[int, Sequence[Json]]:
    return 0, ()


@dataclass(frozen=True, slots=True)
class Requests:
    """Describes the requests that have not completed, of which the oldest comes first."""

    exchanges: Callable[[], Iterable[Exchange]]
    others: Callable[[], tuple[int, Sequence[Json]]] = _no_rows
    """How many there are in other processes, and rows of them, of which the oldest comes first."""

    def rows(self) -> list[Json]:
        """Return those of this process, the oldest of them."""
        return [_row(one) for one in islice(self.exchanges(), MAX_REQUESTS)]

    def answer(self) -> Json:
        """Return how many there are, and the oldest of them."""
        count, others = self.others()
        rows = self.rows()
        if others:
            rows = sorted([*rows, *others], key=itemgetter("time"))[:MAX_REQUESTS]
        return {"in_flight": len(list(self.exchanges())) + count, "in_progress": rows}


def _row(exchange: Exchange) -> Json:
    target, client, route = exchange.target, exchange.client, exchange.route
    model = target.asked_model if target is not None else exchange.asked_model
    found = {
        "request_id": exchange.request_id,
        "time": timestamp(exchange.wall),
        "seconds": round(max(0.0, exchange.clock.seconds() - exchange.started), 3),
        "dialect": route.dialect.value,
        "route": route.name,
        "provider": None if target is None else target.provider.name,
        "model": model,
        "client": None if client is None else client.name,
        "transport": "websocket" if route.treatment is Treatment.REALTIME else "http",
        "stream": exchange.stream,
        "http_status": exchange.http_status,
    }
    return {name: value for name, value in found.items() if value is not None}
