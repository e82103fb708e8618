"""Totals of usage events by step and key, as an answer.

:class:`UsageRows` is filled by whoever has events, in memory or in a file (:mod:`mgw.usage.usage_read`).  All
in it are whole numbers, so that sums do not depend on the order, and both give the same answer for the same
events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from msgspec.json import Encoder

from mgw.dashboard.usage_query import UsageQuery, rfc3339
from mgw.usage.usage_read import NAMES, NO_SUMS, OTHER, Row, add_row, add_rows, shown_row

MAX_GROUPS: Final = 1000
MAX_SERIES_GROUPS: Final = 20
"""How many keys have points of their own: those with most requests."""
_ENCODER: Final = Encoder()

Keyed = dict[str | None, Row]


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
    """The points by the number of their step, which is its start divided by its length."""
    groups: Keyed = field(default_factory=dict)
    totals: Row | None = None
    """The sums of all events, where those of the groups are others."""

    def add(self, step: int, key: str | None, row: Sequence[int | None]) -> None:
        """Add the sums of some events."""
        _add(self.points.setdefault(step, {}), key, row)
        _add(self.groups, key, row)

    def add_group(self, key: str | None, row: Sequence[int | None]) -> None:
        """Add the sums of some events that belong to no step."""
        _add(self.groups, key, row)

    def fold(self, most_groups: int = MAX_GROUPS, most_in_series: int = MAX_SERIES_GROUPS) -> None:
        """Add up what has no place of its own."""
        names = ranked({key: row[0] or 0 for key, row in self.groups.items() if key is not None})
        kept, shown = {None, *names[:most_groups]}, {None, *names[:most_in_series]}
        self.groups = _folded(self.groups, kept)
        self.points = {step: _folded(rows, shown) for step, rows in self.points.items()}


def _folded(rows: Keyed, kept: Collection[str | None]) -> Keyed:
    found: Keyed = {}
    for key, row in rows.items():
        _add(found, key if key in kept else OTHER, row)
    return found


def ranked(requests: dict[str, int]) -> list[str]:
    """Return the keys, that with most requests first; ``other`` never has a place of its own."""
    return sorted((key for key in requests if key != OTHER), key=lambda key: (-requests[key], key))


def render_usage(query: UsageQuery, source: str, rows: UsageRows) -> bytes:
    """Return the answer.

    :param rows: which are folded.
    """
    totals = rows.totals or add_rows(rows.groups.values()) if rows.groups else list(NO_SUMS)
    answer: dict[str, Any] = {  # Any: as JSON has it
        "source": source,
        "since": rfc3339(query.since),
        "until": rfc3339(query.until),
        "step": query.step,
    }
    if query.by is not None:
        answer["by"] = query.by
    answer["totals"] = _shown(totals)
    answer["series"] = [
        _point(query, step, key, rows.points[step][key])
        for step in sorted(rows.points)
        for key in sorted(rows.points[step], key=_order)
    ]
    answer["groups"] = (
        [] if query.by is None else [_group(key, rows.groups[key]) for key in _in_order(rows.groups)]
    )
    return _ENCODER.encode(answer)


def _order(key: str | None) -> tuple[bool, str]:
    return key is None, key or ""


def _in_order(groups: Keyed) -> Iterable[str | None]:
    """Return the keys with most requests first, then the rest and what has no key."""
    names = ranked({key: row[0] or 0 for key, row in groups.items() if key is not None})
    return chain(names, (key for key in (OTHER, None) if key in groups))


def _point(query: UsageQuery, step: int, key: str | None, row: Row) -> dict[str, Any]:
    start = {"time": rfc3339(step * query.step * 1000)}
    return start | (_shown(row) if query.by is None else _group(key, row))


def _group(key: str | None, row: Row) -> dict[str, Any]:
    return _shown(row) if key is None else {"key": key, **_shown(row)}


def _shown(row: Row) -> dict[str, Any]:
    return {name: value for name, value in zip(NAMES, shown_row(row), strict=True) if value is not None}
