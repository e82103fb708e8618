"""Which result answers which call of a history, and under what identifier.

Every family wants each call of a history to have an identifier of its own and to be answered once, directly
behind it, and refuses a call without a result and a result without a call.  Histories of other families
answer late, in another order, twice or not at all, and may use one identifier again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf

from msgspec import Struct, field

from mgw.canonical.conversation import ToolCall, ToolResult, Turn
from mgw.canonical.identifiers import unused_id

Place = tuple[int, int]
"""A part: the number of its turn, and its number therein."""


class Call(Struct):
    """One call: the identifier that it goes by, and what answers it."""

    id: str
    part: ToolCall
    result: ToolResult | None = None


class Pairs(Struct, frozen=True):
    """What belongs together in one history."""

    calls: dict[Place, Call]
    """The calls by their places."""
    taken: set[Place]
    """The places of the results that answer one."""


class _Said(Struct):
    """The places of one identifier."""

    calls: list[Place] = field(default_factory=list)
    results: list[tuple[Place, ToolResult]] = field(default_factory=list)


def paired(turns: Iterable[Turn], legal: re.Pattern[str]) -> Pairs:
    """Pair the calls and the results of a history, for a wire whose identifiers match ``legal``.

    A call gets the first result of its identifier that comes after it and before another call of the same.
    """
    pairs = Pairs({}, set())
    said: dict[str, _Said] = {}
    used: set[str] = set()
    for number, turn in enumerate(turns):
        for index, part in enumerate(turn.parts):
            if isinstance(part, ToolCall):
                pairs.calls[number, index] = Call(unused_id(part.id, used, legal), part)
                said.setdefault(part.id, _Said()).calls.append((number, index))
            elif isinstance(part, ToolResult):
                said.setdefault(part.call_id, _Said()).results.append(((number, index), part))
    for found in said.values():
        _pair(found, pairs)
    return pairs


def _pair(said: _Said, pairs: Pairs) -> None:
    answers = iter(said.results)
    answer = next(answers, None)
    for call, limit in zip(said.calls, _limits(said.calls), strict=True):
        while answer is not None and answer[0] < call:
            answer = next(answers, None)
        if answer is None:
            return
        place, result = answer
        if place[0] < limit:
            pairs.calls[call].result = result
            pairs.taken.add(place)
            answer = next(answers, None)


def _limits(calls: list[Place]) -> list[float]:
    """Return for each call the number of the next turn that has one of the same identifier."""
    limits: list[float] = []
    limit = inf
    after = inf
    for turn, _ in reversed(calls):
        if turn != after:
            limit, after = after, turn
        limits.append(limit)
    limits.reverse()
    return limits
