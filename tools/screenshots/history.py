"""A day of usage events: copies of those that the gateway has recorded of the scene.

Each copy has its own time; its tokens and cost differ by one factor, its latency by another.  How many fall
into a minute follows the hours of a working day.
"""

from __future__ import annotations

import math
import random
import sqlite3
from pathlib import Path
from typing import Any, Final

from mgw.usage.event import timestamp
from mgw.usage.usage_table import COLUMNS, TABLE
from tools.screenshots.scene import ASKS

DAY: Final = 86_400
_TOKENS: Final = ("tokens_in", "tokens_out", "cache_read_tokens")
_TIMES: Final = ("latency_ms", "ttft_ms")

Row = dict[str, Any]  # an event's columns


def write_history(database: Path, now: float, requests: int, seed: int) -> None:
    """Add about so many events of the last day to the table."""
    chance = random.Random(seed)  # noqa: S311 (not for secrets)
    connection = sqlite3.connect(database, timeout=30)
    try:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute(f"SELECT * FROM {TABLE}")]  # noqa: S608 (a name of ours)
        weights = [_weight(row) for row in rows]
        copies = (_copy(chance.choices(rows, weights)[0], now, number, chance) for number in range(requests))
        marks = ", ".join("?" * len(COLUMNS))
        insert = f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({marks})"  # noqa: S608 (names of ours)
        with connection:
            connection.executemany(insert, ([copy[name] for name in COLUMNS] for copy in copies))
    finally:
        connection.close()


def _weight(row: Row) -> float:
    """Return how often the kind of request is sent that an event is of."""
    fitting = [
        ask.weight
        for ask in ASKS
        if ask.client == row["client"]
        and ask.model == row["model"]
        and (row["status"] == "ok") == (not ask.status and not ask.leaves)
    ]
    return max(fitting, default=0.2)


def _copy(row: Row, now: float, number: int, chance: random.Random) -> Row:
    ago = _ago(chance)
    copy = {**row, "time": timestamp(now - ago), "request_id": f"req_{number:024x}"}
    size = chance.lognormvariate(0, 0.35)
    pace = chance.lognormvariate(0.3 * load_at(ago), 0.3)
    for names, factor in ((_TOKENS, size), (_TIMES, pace)):
        copy |= {name: round(row[name] * factor) for name in names if row[name] is not None}
    if row["cost_usd"] is not None:
        copy["cost_usd"] = round(row["cost_usd"] * size, 9)
    if row["session_minutes"] is not None:
        copy["session_minutes"] = round(chance.lognormvariate(1.2, 0.8), 3)
    return copy


def _ago(chance: random.Random) -> float:
    """Draw a moment of the last day, in seconds before now: more of them in working hours, a few at night."""
    while True:
        ago = chance.random() * DAY
        if chance.random() < load_at(ago):
            return ago


def load_at(ago: float) -> float:
    """Return how busy the gateway was so many seconds ago, from 0 to 1."""
    hours = ago / 3600
    day = math.exp(-(((hours - 3.5) / 3.2) ** 2)) + 0.8 * math.exp(-(((hours - 9.5) / 2.2) ** 2))
    return min(1.0, 0.12 + 0.8 * day)
