"""What completed requests add to the sums in memory, for a gateway without ``hooks.sqlite``.

Told of each exchange, as a sink is, it adds up what has the same minute, labels and outcome.  An event costs
a look-up and a few additions, and its times are put on a list: to find their buckets is left to the thread of
the database (:mod:`mgw.dashboard.usage_spans`), which gets all of this when somebody asks, or when there is
much of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mgw.canonical.reply import NO_USAGE
from mgw.dashboard.event_memory import Work
from mgw.dashboard.usage_spans import Summed, UsageSpans
from mgw.usage.buckets import bucket_of, text_of
from mgw.usage.event import Outcome, SettledExchange
from mgw.usage.figures import FIGURES
from mgw.usage.labels import ExchangeLabels
from mgw.usage.usage_read import MAX_KEY_BYTES, OTHER
from mgw.usage.usage_rollup import LABELS
from mgw.usage.usage_sums import SUMS, THOUSANDTHS

MAX_WAITING: Final = 128
"""The rows of a minute and its labels at which they are handed over."""
MAX_EVENTS: Final = 4096
"""The events in them at which they are handed over, too."""
MAX_KEPT: Final = 8
"""How many times more of both may wait while the thread is busy; then they are lost."""
_MILLISECONDS: Final = 60_000
"""The milliseconds of a minute."""
_INDEX: Final = {name: index for index, name in enumerate(SUMS)}
_TOKENS, _MINUTES, _COST = _INDEX["tokens_in"], _INDEX["session_minutes"], _INDEX["cost_usd"]
_UNPRICED, _UNCOUNTED = _INDEX["unpriced"], _INDEX["uncounted"]
_FIGURES: Final = {outcome: _INDEX[name] for outcome, name in FIGURES.items()}
_NEW_SUMS: Final = tuple(0 if found.is_count else None for found in SUMS.values())
_Labels = tuple[int, ExchangeLabels, Outcome, str | None]
"""The minute, what is the same for many exchanges, how they ended, and why."""


class _Waiting:
    """The sums of some exchanges, and the times of those that count."""

    __slots__ = ("latency_ms", "sums", "ttft_ms")

    def __init__(self) -> None:
        self.sums: list[Any] = list(_NEW_SUMS)  # Any: a number, or None
        self.latency_ms: list[float] = []
        self.ttft_ms: list[float] = []


@dataclass(slots=True, eq=False)
class UsageMemory:
    """The sums of one process, as a part of :class:`~mgw.dashboard.event_memory.EventMemory`."""

    wall: Callable[[], float]
    """Unix seconds."""
    wanted: Callable[[], bool]
    """Whether events are to be kept: not while they are in a file."""
    full: Callable[[], None] = lambda: None
    """Called when there is so much that it should be handed over."""
    _waiting: dict[_Labels, _Waiting] = field(default_factory=dict, repr=False)
    _events: int = 0
    """How many wait."""
    _is_empty: bool = True
    """Whether nothing has been handed over yet."""
    _spans: UsageSpans = field(default_factory=UsageSpans, repr=False)
    """The sums, which belong to the thread."""

    def record_all(self, rows: Iterable[SettledExchange]) -> None:
        """Add exchanges."""
        if not self.wanted():
            return
        waiting = self._waiting
        for settled in rows:
            labels, outcome = settled.labels, settled.outcome
            key = (int(settled.time * 1000) // _MILLISECONDS, labels, outcome, settled.error)
            found = waiting.get(key)
            if found is None:
                found = waiting[key] = _Waiting()
            sums = found.sums
            sums[0] += 1
            if labels.consumes or settled.usage is not NO_USAGE or settled.session is not None:
                _count_amounts(sums, settled)
            if outcome is Outcome.OK and labels.transport == "http":
                found.latency_ms.append(settled.latency_ms)
                if settled.ttft_ms is not None:
                    found.ttft_ms.append(settled.ttft_ms)
            self._events += 1
        if len(waiting) >= MAX_WAITING or self._events >= MAX_EVENTS:
            self._on_much()

    def create(self, connection: Any) -> None:  # Any: as in the interface
        """Make the tables."""
        self._spans.create(connection)

    def hand_over(self) -> Work | None:
        """Return what adds all that waits to the tables, and forgets what is too old."""
        waiting, now = self._waiting, int(self.wall())
        if not waiting and self._is_empty:
            return None
        self._waiting, self._events, self._is_empty = {}, 0, False
        return lambda connection: self._spans.add(connection, _summed(waiting), now)

    def forget(self) -> None:
        """Drop what waits."""
        self._waiting, self._events, self._is_empty = {}, 0, True

    def _on_much(self) -> None:
        self.full()
        if len(self._waiting) >= MAX_KEPT * MAX_WAITING or self._events >= MAX_KEPT * MAX_EVENTS:
            self._waiting, self._events = {}, 0


def _count_amounts(sums: list[Any], settled: SettledExchange) -> None:
    """Add the tokens, the money and the minutes of an exchange as far as they are known, and whether it lacks
    them (:mod:`mgw.usage.figures`).
    """
    usage, session, cost = settled.usage, settled.session, settled.cost
    minutes = None if session is None else session.minutes
    tokens = (usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write, usage.reasoning)
    for index, count in enumerate(tokens, _TOKENS):
        if count is not None:
            sums[index] = (sums[index] or 0) + count
    if minutes is not None:
        sums[_MINUTES] = (sums[_MINUTES] or 0) + round(round(minutes, 3) * THOUSANDTHS)
    if cost is not None:
        sums[_COST] = (sums[_COST] or 0) + cost
    if not settled.labels.consumes:
        return
    is_answered = settled.outcome is Outcome.OK
    if cost is None and (is_answered or minutes is not None):
        sums[_UNPRICED] += 1
    if is_answered and settled.stream and usage.tokens_in is usage.tokens_out is None:
        sums[_UNCOUNTED] += 1


def _summed(waiting: dict[_Labels, _Waiting]) -> Iterator[Summed]:
    """Return what waits as rows of the table have it."""
    for (minute, labels, outcome, error), found in waiting.items():
        found.sums[_FIGURES[outcome]] = found.sums[0]
        named = {
            "client": labels.client,
            "provider": labels.provider,
            "model": labels.model,
            "route": labels.route,
            "status": outcome.value,
            "error": error,
            "key_hash": labels.key_hash,
        }
        times = (*_time_sums(found.latency_ms), *_time_sums(found.ttft_ms))
        yield minute, tuple(_clean(named[label]) for label in LABELS), (*found.sums, *times)


def _time_sums(milliseconds: list[float]) -> tuple[int | None, str | None]:
    """Return the sum of times in microseconds, and their counts."""
    if not milliseconds:
        return None, None
    # The line has three decimals.
    values = [round(round(value, 3) * THOUSANDTHS) for value in milliseconds]
    return sum(values), text_of(Counter(map(bucket_of, values)))


def _clean(name: str | None) -> str | None:
    """Return a name as a table would have it."""
    if name is None:
        return None
    text = name.encode("utf-8", "replace")
    return OTHER if len(text) > MAX_KEY_BYTES else text.decode()
