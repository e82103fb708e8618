"""What completed requests add to the sums in memory, for a gateway without ``hooks.sqlite``.

Told of each exchange, as a sink is, it adds up the amounts of those that are alike: of the same minute, with
the same labels and outcome, and with the same amounts known or unknown.  What the figures are is then said by
the same SQL as that of a file (:mod:`mgw.usage.usage_sums`), once for each of these groups.  An event costs a
look-up and a few additions; to put it into a table instead and add it up there takes ten times as long.

Its times are put on a list: to find their buckets is left to the thread of the database
(:mod:`mgw.dashboard.usage_spans`), which gets all of this when somebody asks, or when there is much of it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mgw.canonical.reply import NO_USAGE
from mgw.dashboard.event_memory import Work
from mgw.dashboard.usage_spans import Summed, UsageSpans
from mgw.usage.buckets import bucket_of, text_of
from mgw.usage.event import Outcome, SettledExchange
from mgw.usage.labels import ExchangeLabels
from mgw.usage.usage_read import MAX_KEY_BYTES, OTHER
from mgw.usage.usage_rollup import LABELS, TIMES
from mgw.usage.usage_sums import SUMS, THOUSANDTHS, if_timed, sum_of_groups

MAX_WAITING: Final = 128
"""The groups at which they are handed over."""
MAX_EVENTS: Final = 4096
"""The events in them at which they are handed over, too."""
MAX_KEPT: Final = 8
"""How many times more of both may wait while the thread is busy; then they are lost."""
_MILLISECONDS: Final = 60_000
"""The milliseconds of a minute."""
_AMOUNTS: Final = (
    *("tokens_in", "tokens_out", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
    *("session_minutes", "cost_usd"),
)
_MINUTES, _COST = _AMOUNTS.index("session_minutes"), _AMOUNTS.index("cost_usd")
_TABLE: Final = "usage_groups"
_COLUMNS: Final = (
    *("minute", *LABELS, "modality", "transport", "stream", "events", *_AMOUNTS),
    *(f"{name}_{what}" for name in TIMES for what in ("us", "counts")),
)
_KEEP: Final = f"INSERT INTO {_TABLE} VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 (names of ours, as below)
_SUMS: Final = (
    *map(sum_of_groups, SUMS),
    *(f"sum({if_timed(f'{name}_us')}), group_concat({if_timed(f'{name}_counts')}, '')" for name in TIMES),
)
_LABELS: Final = ", ".join(("minute", *LABELS))
_SUM_UP: Final = f"SELECT {_LABELS}, {', '.join(_SUMS)} FROM {_TABLE} GROUP BY {_LABELS}"  # noqa: S608
_Key = tuple[int, ExchangeLabels, Outcome, str | None, bool | None, bool, bool, bool]
"""The minute, what is the same for many exchanges, how they ended and why, whether they streamed, and which
amounts they have not: tokens, minutes, a cost."""


class _Group:
    """What some exchanges amount to that are alike."""

    __slots__ = ("amounts", "events", "latency_ms", "ttft_ms")

    def __init__(self) -> None:
        self.events = 0
        self.amounts: list[int | None] = [None] * len(_AMOUNTS)
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
    _waiting: dict[_Key, _Group] = field(default_factory=dict, repr=False)
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
            usage, session, cost = settled.usage, settled.session, settled.cost
            key = (
                int(settled.time * 1000) // _MILLISECONDS,
                settled.labels,
                settled.outcome,
                settled.error,
                settled.stream,
                usage.tokens_in is usage.tokens_out is None,
                session is None or session.minutes is None,
                cost is None,
            )
            found = waiting.get(key)
            if found is None:
                found = waiting[key] = _Group()
            found.events += 1
            if usage is not NO_USAGE or session is not None or cost is not None:
                _add_amounts(found.amounts, settled)
            found.latency_ms.append(settled.latency_ms)
            if settled.ttft_ms is not None:
                found.ttft_ms.append(settled.ttft_ms)
            self._events += 1
        if len(waiting) >= MAX_WAITING or self._events >= MAX_EVENTS:
            self._on_much()

    def create(self, connection: sqlite3.Connection) -> None:
        """Make the tables."""
        self._spans.create(connection)
        connection.execute(f"CREATE TABLE {_TABLE} ({', '.join(_COLUMNS)})")

    def hand_over(self) -> Work | None:
        """Return what adds all that waits to the tables, and forgets what is too old."""
        waiting, now = self._waiting, int(self.wall())
        if not waiting and self._is_empty:
            return None
        self._waiting, self._events, self._is_empty = {}, 0, False
        return lambda connection: self._spans.add(connection, _sum_up(connection, waiting), now)

    def forget(self) -> None:
        """Drop what waits."""
        self._waiting, self._events, self._is_empty = {}, 0, True

    def _on_much(self) -> None:
        self.full()
        if len(self._waiting) >= MAX_KEPT * MAX_WAITING or self._events >= MAX_KEPT * MAX_EVENTS:
            self._waiting, self._events = {}, 0


def _add_amounts(amounts: list[int | None], settled: SettledExchange) -> None:
    """Add the tokens, the minutes and the money of an exchange as far as they are known, in whole units."""
    usage, session = settled.usage, settled.session
    tokens = (usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write, usage.reasoning)
    for index, count in enumerate(tokens):
        if count is not None:
            amounts[index] = (amounts[index] or 0) + count
    if session is not None and session.minutes is not None:
        amounts[_MINUTES] = (amounts[_MINUTES] or 0) + round(round(session.minutes, 3) * THOUSANDTHS)
    if settled.cost is not None:
        amounts[_COST] = (amounts[_COST] or 0) + settled.cost


def _sum_up(connection: sqlite3.Connection, waiting: Mapping[_Key, _Group]) -> list[Summed]:
    """Return the sums of what waits, as rows of the table of hours have them."""
    connection.execute("BEGIN")
    connection.executemany(_KEEP, (_row(key, group) for key, group in waiting.items()))
    width = 1 + len(LABELS)
    found = [(row[0], row[1:width], row[width:]) for row in connection.execute(_SUM_UP)]
    connection.execute("ROLLBACK")  # the table is empty again
    return found


def _row(key: _Key, group: _Group) -> tuple[Any, ...]:  # Any: as the table has it
    minute, labels, outcome, error, stream, *_ = key
    named = {
        "client": labels.client,
        "provider": labels.provider,
        "model": labels.model,
        "route": labels.route,
        "status": outcome.value,
        "error": error,
        "key_hash": labels.key_hash,
    }
    return (
        minute,
        *(_clean(named[label]) for label in LABELS),
        *(labels.modality, labels.transport, stream, group.events, *group.amounts),
        *_time_sums(group.latency_ms),
        *_time_sums(group.ttft_ms),
    )


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
