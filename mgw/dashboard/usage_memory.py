"""What completed requests add to the sums in memory, for a gateway without ``hooks.sqlite``.

Told of each exchange, as a sink is, it keeps the records of those together that are alike: of the same
minute, with the same labels and outcome, and with the same amounts known or unknown.  An event costs a
look-up and an entry of a list.  When somebody asks, or when there is much of it, the thread of the database
(:mod:`mgw.dashboard.usage_spans`) gets all of this, adds up the amounts of each group in a few loops, and
finds the buckets of its times.  What the figures are is then said by the same SQL as that of a file
(:mod:`mgw.usage.usage_sums`), once for each group; to put each event into a table instead and add it up there
takes ten times as long.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.json import encode
from msgspec.structs import replace

from mgw.dashboard.event_memory import Work
from mgw.dashboard.usage_spans import Summed, UsageSpans
from mgw.usage.buckets import BOUNDS, bucket_of, text_of
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


_Group = list[SettledExchange]
"""Exchanges that are alike."""


@dataclass(slots=True, eq=False, repr=False)
class UsageMemory:
    """The sums of one process, as a part of :class:`~mgw.dashboard.event_memory.EventMemory`."""

    wall: Callable[[], float]
    """Unix seconds."""
    wanted: Callable[[], bool]
    """Whether events are to be kept: not while they are in a file."""
    full: Callable[[], None] = lambda: None
    """Called when there is so much that it should be handed over."""
    _waiting: dict[_Key, _Group] = field(default_factory=dict)
    _events: int = 0
    """How many wait."""
    _is_empty: bool = True
    """Whether nothing has been handed over yet."""
    _spans: UsageSpans = field(default_factory=UsageSpans)
    """The sums, which belong to the thread."""

    def record_all(self, rows: Sequence[SettledExchange]) -> None:
        """Add exchanges."""
        if not self.wanted():
            return
        waiting, events = self._waiting, 0
        minute, first, last = 0, 0.0, 0.0
        for settled in rows:
            usage, session = settled.usage, settled.session
            if not first < settled.time < last:
                minute = int(settled.time * 1000) // _MILLISECONDS
                first, last = minute * 60 + 0.001, minute * 60 + 59.999  # surely in the same minute
            key = (
                minute,
                settled.labels,
                settled.outcome,
                settled.error,
                settled.stream,
                usage.tokens_in is usage.tokens_out is None,
                session is None or session.minutes is None,
                settled.cost is None,
            )
            found = waiting.get(key)
            if found is None:
                found = waiting[key] = []
            is_short = settled.dropped_fields is None and settled.error_message is None
            found.append(settled if is_short else _shortened(settled))
            events += 1
        self._events += events
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


def _shortened(settled: SettledExchange) -> SettledExchange:
    """Return an exchange without texts that may be long and do not count."""
    return replace(settled, dropped_fields=None, error_message=None)


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
        *(_clean(named[label]) if label in named else _json(getattr(labels, label)) for label in LABELS),
        *(labels.modality, labels.transport, stream, len(group), *_amounts_of(group)),
        *_time_sums([settled.latency_ms for settled in group]),
        *_time_sums([settled.ttft_ms for settled in group if settled.ttft_ms is not None]),
    )


def _amounts_of(group: _Group) -> tuple[int | None, ...]:
    """Return the tokens, the minutes and the money of exchanges as far as they are known, in whole units."""
    used = [settled.usage for settled in group]
    sessions = [settled.session for settled in group if settled.session is not None]
    return (
        _sum_of([usage.tokens_in for usage in used if usage.tokens_in is not None]),
        _sum_of([usage.tokens_out for usage in used if usage.tokens_out is not None]),
        _sum_of([usage.cache_read for usage in used if usage.cache_read is not None]),
        _sum_of([usage.cache_write for usage in used if usage.cache_write is not None]),
        _sum_of([usage.reasoning for usage in used if usage.reasoning is not None]),
        _sum_of(_thousandths([one.minutes for one in sessions if one.minutes is not None])),
        _sum_of([settled.cost for settled in group if settled.cost is not None]),
    )


def _sum_of(amounts: Sequence[int]) -> int | None:
    """Return the sum of the amounts that are known; ``None`` where none is."""
    return sum(amounts) if amounts else None


def _thousandths(numbers: Iterable[float]) -> list[int]:
    """Return numbers as events have them, with three decimals, in whole thousandths."""
    # The short way is right unless a number is half way between two others.
    return [
        whole
        if -0.49 < (near := number * THOUSANDTHS) - (whole := int(near + 0.5)) < 0.49
        else round(round(number, 3) * THOUSANDTHS)
        for number in numbers
    ]


def _time_sums(milliseconds: Sequence[float]) -> tuple[int | None, str | None]:
    """Return the sum of times in microseconds, and their counts."""
    if not milliseconds:
        return None, None
    values = _thousandths(milliseconds)
    values.sort()
    buckets: Counter[int] = Counter()
    at, end = 0, len(values)
    while at < end:  # once for each bucket that has any
        bucket = bucket_of(values[at])
        after = bisect_right(values, BOUNDS[bucket], at) if bucket < len(BOUNDS) else end
        buckets[bucket] = after - at
        at = after
    return sum(values), text_of(buckets)


def _json(value: Collection[str] | None) -> str | None:
    """Return groups or tags as a file has them."""
    return None if value is None else encode(value).decode()


def _clean(name: str | None) -> str | None:
    """Return a name as a table would have it."""
    if name is None:
        return None
    text = name.encode("utf-8", "replace")
    return OTHER if len(text) > MAX_KEY_BYTES else text.decode()
