"""Totals of usage events since the start, for a gateway without ``hooks.sqlite``.

Told of each exchange, as a sink is, it keeps sums alone, by provider, model, client and status each: of whole
minutes for :data:`MINUTES` minutes, of whole hours for :data:`HOURS` hours, and nothing of older events.
Names that clients choose are bounded: in each of these times a field has at most :data:`MAX_KEYS` keys, and
what more there are is ``other``.  No more than :data:`MAX_ROWS` rows are kept, some 15 MB: the oldest times
go first.

An event costs a look-up and a few additions: it is added to the row of its minute and labels, and a hundred
such rows are added to those above in one go.  A query goes through all rows, in as many turns of the reactor
as that takes; meanwhile nothing is moved from minutes to hours, so it meets each event once.  Queries are
answered one after the other: each one holds rows of its own, and what is too old is forgotten between two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from twisted.internet.defer import DeferredLock

from mgw.canonical.reply import NO_USAGE
from mgw.dashboard.usage_answer import (
    BOUNDS,
    BUCKETS,
    LATENCY,
    MAX_KEY_BYTES,
    OTHER,
    TTFT,
    WIDTH,
    Keyed,
    Row,
    UsageRows,
    add_row,
    render_usage,
)
from mgw.dashboard.usage_query import By, UsageQuery
from mgw.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from mgw.usage.figures import FIGURES
from mgw.usage.record import SettledExchange
from mgw.usage.usage_sums import SUMS, THOUSANDTHS

MINUTE: Final = 60
HOUR: Final = 3600
MINUTES: Final = 180
HOURS: Final = 24 * 30
MAX_KEYS: Final = 100
MAX_ROWS: Final = 20_000
MAX_WAITING: Final = 128
"""So many rows of a minute and its labels wait for being added to those that are kept."""
ROWS_MOVED: Final = 256
"""About so many rows of minutes are added to hours at once."""
MAX_QUERIES: Final = 16
"""How many may wait, the one that is answered included."""
ROWS_READ: Final = 64
"""A query reads so many in a turn of the reactor."""
_INDEX: Final = {name: index for index, name in enumerate(SUMS)}
_TOKENS: Final = _INDEX["tokens_in"]
"""The first of the five sums of tokens."""
_MINUTES, _COST = _INDEX["session_minutes"], _INDEX["cost_usd"]
_UNPRICED, _UNCOUNTED = _INDEX["unpriced"], _INDEX["uncounted"]
_FIGURES: Final = {outcome: _INDEX[name] for outcome, name in FIGURES.items()}
_NEW_ROW: Final = (
    *(0 if found.is_count else None for found in SUMS.values()),
    *[0] * (WIDTH - len(SUMS)),
)
_Labels = tuple[int, str | None, str | None, str | None, Outcome]
"""The minute, the provider, the model, the client and how it ended."""


@dataclass(slots=True)
class _Span:
    """The sums of one minute, or of one hour, by field and key."""

    seconds: int
    keyed: dict[By, Keyed] = field(default_factory=lambda: {by: {} for by in By})

    @property
    def rows(self) -> int:
        return sum(map(len, self.keyed.values()))

    def add(self, by: By, key: str | None, row: Row) -> None:
        rows = self.keyed[by]
        if key not in rows and len(rows) >= MAX_KEYS:
            key = OTHER
        found = rows.get(key)
        if found is None:
            rows[key] = row.copy()
        else:
            add_row(found, row)


@dataclass(slots=True, eq=False)
class UsageMemory:
    """The sums of one process; the module states its limits."""

    wall: Callable[[], float]
    """Unix seconds."""
    pause: Callable[[], Awaitable[None]]
    """Lets the reactor do other things."""
    wanted: Callable[[], bool]
    """Whether events are to be kept: not while they are in a file."""
    _waiting: dict[_Labels, Row] = field(default_factory=dict, repr=False)
    _minutes: dict[int, _Span] = field(default_factory=dict, repr=False)
    """By the number of the minute."""
    _hours: dict[int, _Span] = field(default_factory=dict, repr=False)
    _rows: int = 0
    _queries: int = 0
    _turn: DeferredLock = field(default_factory=DeferredLock, repr=False)
    """Held by the query that is answered."""
    _is_read: bool = False

    def record_all(self, rows: Iterable[SettledExchange]) -> None:
        """Add exchanges."""
        if not self.wanted():
            return
        waiting = self._waiting
        for settled in rows:
            labels = settled.labels
            minute = int(settled.time * 1000) // 60_000
            key = (minute, labels.provider, labels.model, labels.client, settled.outcome)
            row = waiting.get(key)
            if row is None:
                row = waiting[key] = list(_NEW_ROW)
            counts: list[int] = row  # type: ignore[assignment]  # used where they are numbers
            outcome = settled.outcome
            counts[0] += 1
            counts[_FIGURES[outcome]] += 1
            if labels.consumes or settled.usage is not NO_USAGE or settled.session is not None:
                _count_amounts(row, settled)
            if outcome is Outcome.OK and labels.transport == "http":
                value = round(round(settled.latency_ms, 3) * THOUSANDTHS)  # the line has three decimals
                counts[LATENCY] += value
                counts[LATENCY + 1 + bisect_left(BOUNDS, value)] += 1
                if settled.ttft_ms is not None:
                    value = round(round(settled.ttft_ms, 3) * THOUSANDTHS)
                    counts[TTFT] += value
                    counts[TTFT + 1 + bisect_left(BOUNDS, value)] += 1
        if len(waiting) >= MAX_WAITING:
            self._settle()

    async def answer(self, query: UsageQuery) -> bytes:
        """Return the answer in JSON; what a minute or an hour holds is counted at its start.

        :raises GatewayError: ``OVERLOADED`` where too many queries wait.
        """
        if self._queries >= MAX_QUERIES:
            message = "the dashboard is busy with other queries; try again"
            raise GatewayError(Reason.OVERLOADED, message, retry_after=1.0)
        self._queries += 1
        try:
            await self._turn.acquire()
            try:
                return await self._answer(query.in_whole_steps_of(MINUTE))
            finally:
                self._turn.release()
        finally:
            self._queries -= 1

    async def _answer(self, query: UsageQuery) -> bytes:
        found = UsageRows()
        self._settle()
        self._is_read = True
        try:
            for number, (start, key, row) in enumerate(self._select(query), 1):
                found.add(start // query.step, key if query.by else None, _cumulative(row))
                if number % ROWS_READ == 0:
                    await self.pause()
        finally:
            self._is_read = False
        for _ in found.fold():
            await self.pause()
        pieces = []
        for piece in render_usage(query, "memory", found):
            pieces.append(piece)
            await self.pause()
        return b"".join(pieces)

    def _select(self, query: UsageQuery) -> Iterator[tuple[int, str | None, Row]]:
        """Return the rows of a time, with the Unix seconds at which theirs begins."""
        for spans in (self._hours, self._minutes):
            for number, span in list(spans.items()):
                start = number * span.seconds
                if start * 1000 < query.until and (start + span.seconds) * 1000 > query.since:
                    for key, row in list(span.keyed[query.by or By.STATUS].items()):
                        yield start, key, row

    def _settle(self) -> None:
        """Add what waits to what is kept, and forget what is too old or too much."""
        waiting, self._waiting = self._waiting, {}
        now = int(self.wall())
        for (minute, provider, model, client, outcome), row in waiting.items():
            span = self._span_of(minute * MINUTE, now)
            if span is None:
                continue
            before = span.rows
            for by, key in (
                (By.PROVIDER, provider),
                (By.MODEL, model),
                (By.CLIENT, client),
                (By.STATUS, outcome.value),
            ):
                span.add(by, _clean(key), row)
            self._rows += span.rows - before
        if not self._is_read:
            self._move(now)
            self._forget(now)

    def _span_of(self, start: int, now: int) -> _Span | None:
        """Return where events of a minute belong; ``None`` where they are too old."""
        if start >= _minutes_begin(now) * MINUTE:
            return self._minutes.setdefault(start // MINUTE, _Span(MINUTE))
        if start // HOUR > now // HOUR - HOURS:
            return self._hours.setdefault(start // HOUR, _Span(HOUR))
        return None

    def _move(self, now: int) -> None:
        """Add the oldest minutes to their hours."""
        moved = 0
        first = _minutes_begin(now)
        for minute in sorted(minute for minute in self._minutes if minute < first):
            if moved >= ROWS_MOVED:
                return
            span = self._minutes.pop(minute)
            hour = self._hours.setdefault(minute * MINUTE // HOUR, _Span(HOUR))
            before = hour.rows
            for by, rows in span.keyed.items():
                for key, row in rows.items():
                    hour.add(by, key, row)
            self._rows += hour.rows - before - span.rows
            moved += span.rows

    def _forget(self, now: int) -> None:
        last = now // HOUR - HOURS
        for hour in [hour for hour in self._hours if hour <= last]:
            self._rows -= self._hours.pop(hour).rows
        while self._rows > MAX_ROWS:
            spans = self._hours or self._minutes
            self._rows -= spans.pop(min(spans)).rows


def _minutes_begin(now: int) -> int:
    """Return the first minute that is kept as such."""
    return now // MINUTE - MINUTES


def _count_amounts(row: Row, settled: SettledExchange) -> None:
    """Add the tokens, the money and the minutes of an exchange as far as they are known, and whether it lacks
    them (:mod:`mgw.usage.figures`).
    """
    usage, session, cost = settled.usage, settled.session, settled.cost
    minutes = None if session is None else session.minutes
    tokens = (usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write, usage.reasoning)
    for index, count in enumerate(tokens, _TOKENS):
        if count is not None:
            row[index] = (row[index] or 0) + count
    if minutes is not None:
        row[_MINUTES] = (row[_MINUTES] or 0) + round(round(minutes, 3) * THOUSANDTHS)
    if cost is not None:
        row[_COST] = (row[_COST] or 0) + cost
    if not settled.labels.consumes:
        return
    is_answered = settled.outcome is Outcome.OK
    if cost is None and (is_answered or minutes is not None):
        row[_UNPRICED] = (row[_UNPRICED] or 0) + 1
    if is_answered and settled.stream and usage.tokens_in is usage.tokens_out is None:
        row[_UNCOUNTED] = (row[_UNCOUNTED] or 0) + 1


def _cumulative(row: Row) -> Row:
    """Return a row whose counts are of all events up to each bound, as answers want them."""
    counts: list[int] = row  # type: ignore[assignment]  # used where they are numbers
    found = row.copy()
    for start in (LATENCY + 1, TTFT + 1):
        found[start : start + BUCKETS] = accumulate(counts[start : start + BUCKETS])
    return found


def _clean(key: str | None) -> str | None:
    """Return a key as a table would have it."""
    if key is None:
        return None
    text = key.encode("utf-8", "replace")
    return OTHER if len(text) > MAX_KEY_BYTES else text.decode()
