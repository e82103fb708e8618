"""``GET /v1/dashboard/limits``: what is used of limits that last longer than a minute.

A row that each client has separately may be there thousands of times where an identity provider names the
clients: of those, an answer has the ones of which most is used, and says how many it leaves out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from heapq import nlargest
from typing import Final

from msgspec.json import encode

from mgw.clients.client_limits import OF_EACH
from mgw.clients.limit_report import show_state
from mgw.clients.limits import RowState
from mgw.dashboard.responses import Answer, Query
from mgw.exchange.offload import Offload, maybe_offload

MAX_EACH_ROWS: Final = 1_000
"""How many rows that each client has separately are in an answer."""


@dataclass(slots=True, eq=False, repr=False)
class DashboardLimits:
    """The endpoint.

    :param read: returns the rows of the moment.
    :param zone: returns where their periods begin.
    """

    read: Callable[[], Awaitable[Sequence[RowState]]]
    zone: Callable[[], tzinfo]
    offload: Offload

    async def answer(self, query: Query) -> Answer:
        """Answer a request; ``search`` is a part of a holder's name, whatever its case."""
        states = await self.read()
        work = partial(render_limits, states, self.zone(), query.get("search", "").lower())
        return await maybe_offload(self.offload, work, large=len(states) > MAX_EACH_ROWS)


def render_limits(states: Sequence[RowState], zone: tzinfo, part: str) -> bytes:
    """Return the answer with those of these rows whose holder's name has a part, in lower case."""
    if part:
        states = [state for state in states if part in state.holder.lower()]
    of_each = [state for state in states if OF_EACH in state.holder]
    omitted = len(of_each) - MAX_EACH_ROWS
    if omitted <= 0:
        return encode({"limits": [show_state(state, zone) for state in states]})
    kept = set(map(id, nlargest(MAX_EACH_ROWS, of_each, _share_of)))
    shown = [state for state in states if OF_EACH not in state.holder or id(state) in kept]
    return encode({"limits": [show_state(state, zone) for state in shown], "omitted": omitted})


def _share_of(state: RowState) -> float:
    """Return what is used and held, of what the row allows; without a maximum, it is the last one."""
    return (state.used + state.reserved) / state.most if state.most else 0.0
