"""The latest events in memory: what is kept until somebody asks, and what of it becomes rows."""

from __future__ import annotations

import sqlite3

import pytest

from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.recent_events import (
    LINES_AT_ONCE,
    MAX_EVENTS,
    MAX_TABLE_BYTES,
    MAX_TEXT_BYTES,
    RecentEvents,
)
from mgw.dashboard.recorder import build_memory
from mgw.dashboard.usage_memory import MAX_EVENTS as SUMMED_EVENTS
from mgw.usage.event import SettledExchange
from mgw.usage.event_search import EventSearch, encode_event, find_events
from mgw.usage.labels import MAX_SHARED_CHARS
from mgw.usage.record import encode
from tests.support.configs import THREE_FAMILIES, config
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce, event, exchange

MANY = 100_000
LONG = "m" * (MAX_SHARED_CHARS + 1)


class Kept:
    """The events of a gateway, and a thread that does everything at once."""

    def __init__(self) -> None:
        self.wanted = True
        runner = AtOnce()
        self.recent = RecentEvents(lambda: self.wanted)
        self.memory = EventMemory(runner, [self.recent])
        self.queries = EventQueries(runner)

    def record(self, *rows: SettledExchange) -> None:
        for start in range(0, len(rows), 64):
            self.recent.record_all(rows[start : start + 64])

    def lines(self) -> list[bytes]:
        """All events, the newest first."""

        def read(connection: sqlite3.Connection | None) -> list[bytes]:
            assert connection is not None
            return [encode_event(each) for each in find_events(connection, EventSearch(limit=MANY))]

        return result_of(self.queries.ask(self.memory, read, ""))

    def ids(self) -> list[str]:
        return [line.split(b'"')[3].decode() for line in self.lines()]


@pytest.fixture
def kept() -> Kept:
    return Kept()


def numbered(first: int, count: int, **changes: object) -> list[SettledExchange]:
    one = exchange(**changes)
    fields = {name: getattr(one, name) for name in SettledExchange.__struct_fields__}
    return [
        SettledExchange(**fields | {"request_id": f"{number:06d}", "time": 1e9 + number})
        for number in range(first, first + count)
    ]


def test_events_are_read_as_their_lines_say_them(kept: Kept) -> None:
    full = event(dropped_fields=("a",), cost_usd=0.000001234, error="größe", client="team")
    kept.record(exchange(**{name: getattr(full, name) for name in full.__struct_fields__}))
    assert [line + b"\n" for line in kept.lines()] == [encode(full)]


def test_the_newest_ten_thousand_are_kept_whenever_somebody_asks(kept: Kept) -> None:
    newest = [f"{number:06d}" for number in range(MAX_EVENTS + 700 - 1, 699, -1)]
    kept.record(*numbered(0, 600))
    assert len(kept.ids()) == 600
    kept.record(*numbered(600, MAX_EVENTS + 50))
    kept.record(*numbered(MAX_EVENTS + 650, 50))
    assert kept.ids() == newest
    kept.record(*numbered(MAX_EVENTS + 700, 1))
    assert kept.ids() == [f"{MAX_EVENTS + 700:06d}", *newest[:-1]]


def test_an_event_costs_no_more_than_being_kept(kept: Kept) -> None:
    rows = numbered(0, 3)
    kept.record(*rows)
    assert all(one is other for one, other in zip(kept.recent._waiting, rows, strict=True))


@pytest.mark.parametrize("changes", [{"model": LONG}, {"dropped_fields": ("x" * 100,) * 11}])
def test_a_record_with_long_names_is_not_held(kept: Kept, changes: dict[str, object]) -> None:
    kept.record(exchange(**changes))
    assert [type(one) for one in kept.recent._waiting] == [bytes]
    assert kept.ids() == ["req_1"]


def test_text_that_waits_is_bounded_and_the_oldest_goes(kept: Kept) -> None:
    kept.record(*numbered(0, 10))
    count = 2 * MAX_TEXT_BYTES // 60_000
    kept.record(*numbered(100, count, model="m" * 60_000))
    waiting = sum(len(row) for row in kept.recent._waiting if isinstance(row, bytes))
    assert kept.recent._text_bytes == waiting
    assert MAX_TEXT_BYTES - 61_000 < waiting <= MAX_TEXT_BYTES
    ids = kept.ids()
    assert ids[0] == f"{100 + count - 1:06d}"
    assert "000009" not in ids
    kept.record(*numbered(1000, MAX_EVENTS))
    assert kept.recent._text_bytes == 0


def test_the_table_is_bounded_in_bytes(kept: Kept) -> None:
    size = 60_000
    for first in range(0, 2 * MAX_TABLE_BYTES // size, 32):
        kept.record(*numbered(first, 32, model="m" * size))
        ids = kept.ids()
        assert len(ids) * size <= MAX_TABLE_BYTES
        assert ids[0] == f"{first + 31:06d}"
    assert len(ids) > MAX_TABLE_BYTES // size - LINES_AT_ONCE


def test_while_events_are_in_a_file_none_are_kept(kept: Kept) -> None:
    kept.record(*numbered(0, 2))
    kept.wanted = False
    kept.record(*numbered(2, 2))
    assert kept.ids() == ["000001", "000000"]


def test_a_reload_lets_go_of_records_and_keeps_events(kept: Kept) -> None:
    kept.record(*numbered(0, 300))
    kept.memory.follow(config())
    assert not kept.recent._waiting
    assert len(kept.ids()) == 300


def test_a_reload_that_brings_a_file_forgets_and_one_that_removes_it_begins_anew(kept: Kept) -> None:
    with_file = config(f"{THREE_FAMILIES}\nhooks: {{sqlite: {{path: usage.db}}}}")
    kept.record(*numbered(0, 2))
    assert len(kept.ids()) == 2
    kept.record(*numbered(2, 2))
    kept.wanted = False
    kept.memory.follow(with_file)
    assert not kept.recent._waiting
    assert kept.memory._connection is None
    kept.wanted = True
    kept.memory.follow(config())
    kept.record(*numbered(4, 1))
    assert kept.ids() == ["000004"]


def test_sums_that_are_full_make_no_rows_of_recent_events() -> None:
    memory = build_memory(lambda: 1e9, lambda: True, AtOnce())
    for start in range(0, 2 * SUMMED_EVENTS, 64):
        memory.record_all(numbered(start, 64))
    with memory.open() as connection:
        ((recent,),) = connection.execute("SELECT count(*) FROM usage_events")
        ((summed,),) = connection.execute("SELECT sum(requests) FROM usage_hours")
    assert (recent, summed) == (0, 2 * SUMMED_EVENTS)
