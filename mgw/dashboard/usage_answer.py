"""Totals of usage events by step and key, as an answer.

:class:`UsageRows` is filled by whoever has events, in memory or in a file.  All in it are whole numbers
(:mod:`mgw.usage.usage_sums`; latencies in microseconds), so that sums do not depend on the order, and both
give the same answer for the same events.  Percentiles come from counts of the events within each of
:data:`BOUNDS_MS`, as those of ``GET /metrics`` do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from msgspec.json import Encoder

from mgw.dashboard.usage_query import UsageQuery, rfc3339
from mgw.usage.usage_sums import SUMS, THOUSANDTHS

OTHER: Final = "other"
"""The key of what has no place of its own."""
MAX_GROUPS: Final = 1000
MAX_SERIES_GROUPS: Final = 20
"""How many keys have points of their own: those with most requests."""
MAX_KEY_BYTES: Final = 512
"""A longer one is ``other``: a client can send any name of a model."""
BOUNDS_MS: Final = (
    *(5, 10, 25, 50, 100, 250, 500),
    *(1000, 2500, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000),
)
"""Upper bounds of the buckets in milliseconds, and one without end behind them."""
BOUNDS: Final = tuple(bound * THOUSANDTHS for bound in BOUNDS_MS)
"""In microseconds."""
BUCKETS: Final = len(BOUNDS) + 1
COUNTS: Final = tuple(index for index, found in enumerate(SUMS.values()) if found.is_count)
"""The places of numbers of events in a row."""
LATENCY: Final = len(SUMS)
"""Where the latency begins in a row: its sum, how many events lie within each bound, how many there are."""
TTFT: Final = LATENCY + 1 + BUCKETS
WIDTH: Final = TTFT + 1 + BUCKETS
ROWS_AT_ONCE: Final = 64
_PERCENTILES: Final = (("p50", 0.5), ("p95", 0.95))
_ENCODER: Final = Encoder()

Row = list[int | None]
"""The sums of some events: those of :data:`SUMS` in their order, the latency, the time to the first byte."""
Keyed = dict[str | None, Row]


def add_row(total: Row, row: Sequence[int | None]) -> None:
    """Add a row to another one; what neither has a value for stays absent."""
    for index, value in enumerate(row):
        if value is not None:
            before = total[index]
            total[index] = value if before is None else before + value


def _add(rows: Keyed, key: str | None, row: Sequence[int | None]) -> None:
    found = rows.get(key)
    if found is None:
        rows[key] = list(row)
    else:
        add_row(found, row)


@dataclass(slots=True)
class UsageRows:
    """Sums by step and key."""

    points: dict[int, Keyed] = field(default_factory=dict)
    """By the number of the step, which is its start divided by its length."""
    groups: Keyed = field(default_factory=dict)

    def add(self, step: int, key: str | None, row: Sequence[int | None]) -> None:
        """Add the sums of some events."""
        _add(self.points.setdefault(step, {}), key, row)
        _add(self.groups, key, row)

    def fold(self, most_groups: int = MAX_GROUPS, most_in_series: int = MAX_SERIES_GROUPS) -> Iterator[None]:
        """Sum up what has no place of its own; yields now and then, since there may be much of it."""
        names = ranked({key: row[0] or 0 for key, row in self.groups.items() if key is not None})
        kept, shown = {None, *names[:most_groups]}, {None, *names[:most_in_series]}
        points, groups = self.points, self.groups
        self.points, self.groups = {}, {}
        for number, (key, row) in enumerate(groups.items()):
            _add(self.groups, key if key in kept else OTHER, row)
            if number % ROWS_AT_ONCE == 0:
                yield
        for step, rows in points.items():
            folded = self.points.setdefault(step, {})
            for number, (key, row) in enumerate(rows.items()):
                _add(folded, key if key in shown else OTHER, row)
                if number % ROWS_AT_ONCE == 0:
                    yield


def ranked(requests: dict[str, int]) -> list[str]:
    """Return the keys, that with most requests first; ``other`` never has a place of its own."""
    return sorted((key for key in requests if key != OTHER), key=lambda key: (-requests[key], key))


def render_usage(query: UsageQuery, source: str, rows: UsageRows) -> Iterator[bytes]:
    """Return the answer in pieces, none of which takes long to make.

    :param rows: which are folded.
    """
    totals: Row = [None] * WIDTH
    for row in rows.groups.values():
        add_row(totals, row)
    if not totals[0]:
        for index in COUNTS:
            totals[index] = 0
    head: dict[str, Any] = {  # Any: as JSON has it
        "source": source,
        "since": rfc3339(query.since),
        "until": rfc3339(query.until),
        "step": query.step,
    }
    if query.by is not None:
        head["by"] = query.by
    head["totals"] = _shown(totals)
    yield _ENCODER.encode(head)[:-1]
    yield b',"series":['
    yield from _pieces(
        _point(query, step, key, rows.points[step][key])
        for step in sorted(rows.points)
        for key in sorted(rows.points[step], key=_order)
    )
    yield b'],"groups":['
    if query.by is not None:
        yield from _pieces(_group(key, rows.groups[key]) for key in _in_order(rows.groups))
    yield b"]}"


def _order(key: str | None) -> tuple[bool, str]:
    return key is None, key or ""


def _in_order(groups: Keyed) -> Iterable[str | None]:
    """Those with most requests first, then the rest and what has no key."""
    names = ranked({key: row[0] or 0 for key, row in groups.items() if key is not None})
    return chain(names, (key for key in (OTHER, None) if key in groups))


def _pieces(found: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    comma = b""
    while some := list(islice(found, ROWS_AT_ONCE)):
        yield comma + b",".join(map(_ENCODER.encode, some))
        comma = b","


def _point(query: UsageQuery, step: int, key: str | None, row: Row) -> dict[str, Any]:
    start = {"time": rfc3339(step * query.step * 1000)}
    return start | (_shown(row) if query.by is None else _group(key, row))


def _group(key: str | None, row: Row) -> dict[str, Any]:
    return _shown(row) if key is None else {"key": key, **_shown(row)}


def _shown(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: found.shown(whole)
        for (name, found), whole in zip(SUMS.items(), row, strict=False)
        if whole is not None
    }
    for name, start in (("latency_ms", LATENCY), ("ttft_ms", TTFT)):
        total, counts = row[start], [count or 0 for count in row[start + 1 : start + 1 + BUCKETS]]
        if counts[-1] and total is not None:
            found[name] = round(total / counts[-1] / THOUSANDTHS, 3)
            for word, share in _PERCENTILES:
                found[f"{name}_{word}"] = round(percentile(counts, share), 3)
    return found


def percentile(counts: Sequence[int], share: float) -> float:
    """Return below which milliseconds this share of the events lies, as even as they may lie in a bucket.

    :param counts: how many lie within each bound, and how many there are, which is at least one.
    """
    rank = share * counts[-1]
    index = bisect_left(counts, rank)
    if index >= len(BOUNDS_MS):
        return BOUNDS_MS[-1]
    lower, before = (BOUNDS_MS[index - 1], counts[index - 1]) if index else (0, 0)
    return lower + (BOUNDS_MS[index] - lower) * (rank - before) / (counts[index] - before)
