"""Sums of closed hours: the same as those of the events, whatever happens to these."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.usage import usage_rollup
from mgw.usage.event import NANODOLLARS, Outcome, UsageEvent, timestamp
from mgw.usage.record import encode
from mgw.usage.usage_read import KEYS, Row, UsageRange, UsageReader, open_period, read_sums
from mgw.usage.usage_rollup import CLOSED, FORMAT, HOURS, SLICE, hour_of
from mgw.usage.usage_table import UsageTable
from tests.support.usage import event

HOUR = 3600
NOW = 1_769_860_800
"""2026-01-31T12:00:00Z"""
ALL = UsageRange()
Found = dict[tuple[Any, ...], Row]  # Any: what SQLite has


def add(table: UsageTable, events: Sequence[UsageEvent]) -> None:
    assert table.add([encode(one) for one in events]) == 0


def roll_up(table: UsageTable, end: float = NOW) -> None:
    while table.roll_up(hour_of(end)):
        pass


@contextmanager
def table_of(path: Path, events: Sequence[UsageEvent] = ()) -> Iterator[UsageTable]:
    table = UsageTable(str(path))
    table.open()
    add(table, events)
    try:
        yield table
    finally:
        table.close()


def sums(path: Path, period: UsageRange = ALL, keys: Sequence[str] = (), *, hours: bool = True) -> Found:
    """What a reader finds; without hours, what the events alone say."""

    def read(reader: UsageReader) -> Found:
        found: Found = {}
        for step, values, row in reader.rows([KEYS[key] for key in keys]):
            before = found.get((step, *values))
            found[(step, *values)] = row if before is None else plus(before, row)
        return found

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        if not hours:
            connection.execute(f"CREATE TEMP VIEW {HOURS} AS SELECT 1 AS other")
        return read_sums(open_period(connection, period), read)


def plus(row: Row, other: Row) -> Row:
    return [
        theirs if ours is None else ours if theirs is None else ours + theirs
        for ours, theirs in zip(row, other, strict=True)
    ]


def closed(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [hour for (hour,) in connection.execute(f"SELECT hour FROM {CLOSED} WHERE format = {FORMAT}")]


def rows_in_hours(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        ((number,),) = connection.execute(f"SELECT count(*) FROM {HOURS}")
        return int(number)


names = st.none() | st.sampled_from(["a", "b", "'; --"])
durations = st.floats(0, 5000) | st.floats(0, 1e7)
counts = st.none() | st.integers(0, 2**40)
drawn = st.builds(
    event,
    request_id=st.uuids().map(str),
    time=st.floats(NOW - 6 * HOUR, NOW) | st.sampled_from([NOW - HOUR, NOW - 2 * HOUR - 0.001]),
    client=names,
    provider=names,
    model=names,
    route=st.sampled_from(["chat", "messages"]),
    status=st.sampled_from(Outcome),
    error=names,
    key_hash=names,
    transport=st.sampled_from(["http", "websocket"]),
    stream=st.none() | st.booleans(),
    tokens_in=counts,
    tokens_out=counts,
    cost_usd=st.none() | st.integers(0, 10**12).map(lambda whole: whole / NANODOLLARS),
    session_minutes=st.none() | st.floats(0, 600),
    latency_ms=durations,
    ttft_ms=st.none() | durations,
)
batches = st.lists(drawn, max_size=12)
changes = st.one_of(
    batches.map(lambda events: ("add", events)),
    st.floats(NOW - 6 * HOUR, NOW).map(lambda time: ("purge", time)),
    st.integers(1, 6).map(lambda hours: ("roll up", hours)),
    st.integers(1, 4).map(lambda pieces: ("pieces", pieces)),
    st.just(("vacuum", None)),
    st.just(("forget", None)),
)
periods = st.builds(
    UsageRange,
    since=st.none() | st.floats(NOW - 7 * HOUR, NOW).map(timestamp) | st.just(timestamp(NOW - 4 * HOUR)),
    until=st.none() | st.floats(NOW - 3 * HOUR, NOW + HOUR).map(timestamp) | st.just(timestamp(NOW - HOUR)),
    step=st.none() | st.sampled_from([60, HOUR, 5400, 2 * HOUR, 86_400]),
    filters=st.dictionaries(
        st.sampled_from(["client", "status", "key"]), st.sampled_from(["a", "ok"]), max_size=2
    ),
)


def apply(table: UsageTable, path: Path, change: tuple[str, Any]) -> None:
    match change:
        case ("add", events):
            add(table, events)
        case ("purge", before):
            table.purge(before)
        case ("roll up", hours):
            roll_up(table, NOW - (hours - 1) * HOUR)
        case ("pieces", pieces):
            for _ in range(pieces):
                table.roll_up(hour_of(NOW))
        case ("forget", _):  # somebody deletes by hand
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("DELETE FROM usage_events WHERE client = 'a'")
        case _:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("VACUUM")


@settings(deadline=None)
@given(
    st.lists(changes, max_size=8), periods, st.lists(st.sampled_from(sorted(KEYS)), max_size=2, unique=True)
)
def test_hours_and_the_rest_say_what_the_events_say(
    history: list[tuple[str, Any]], period: UsageRange, keys: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "usage.db")
        with table_of(path) as table:
            for change in history:
                apply(table, path, change)
            assert sums(path, period, keys) == sums(path, period, keys, hours=False)
            roll_up(table)
            assert sums(path, period, keys) == sums(path, period, keys, hours=False)


def test_an_hour_is_a_row_for_each_combination_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    events = [
        event(request_id=f"{number}", time=NOW - HOUR + number, client=["a", None][number % 2])
        for number in range(100)
    ]
    with table_of(path, events) as table:
        roll_up(table)
    assert closed(path) == ["2026-01-31T11"]
    assert rows_in_hours(path) == 2


def test_an_hour_that_is_not_over_is_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(time=NOW - 1.0)]) as table:
        roll_up(table, NOW - 1.0)
        assert closed(path) == []
        roll_up(table, NOW)
        assert closed(path) == ["2026-01-31T11"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO usage_events (request_id, time) VALUES ('late', '2026-01-31T10:59:59.999Z')",
        "DELETE FROM usage_events WHERE time BETWEEN '2026-01-31T10' AND '2026-01-31T10:30'",
        "UPDATE usage_events SET client = 'other' WHERE time BETWEEN '2026-01-31T10' AND '2026-01-31T10:30'",
        "UPDATE usage_events SET time = '2026-01-31T13:00:00.000Z' WHERE substr(time, 12, 4) = '10:0'",
        "UPDATE usage_events SET time = '2026-01-31T10:45:00.000Z' WHERE time > '2026-01-31T12'",
        "INSERT INTO usage_events (request_id, time) VALUES ('odd', '2026-01-31T10 o''clock')",
    ],
)
def test_another_program_that_changes_events_opens_their_hour_again(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "usage.db"
    events = [event(request_id=f"{half}", time=NOW - 3 * HOUR + half * HOUR / 2 + 1) for half in range(6)]
    with table_of(path, [*events, event(request_id="now", time=NOW + 1.0)]) as table:
        roll_up(table)
        assert closed(path) == ["2026-01-31T09", "2026-01-31T10", "2026-01-31T11"]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(statement)
        assert closed(path) == ["2026-01-31T09", "2026-01-31T11"]
        assert sums(path) == sums(path, hours=False)


def test_an_event_that_comes_while_its_hour_is_read_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(request_id="1", time=NOW - 60.0)]) as table:
        assert table.roll_up(hour_of(NOW))  # begun
        assert table.roll_up(hour_of(NOW))  # read
        add(table, [event(request_id="2", time=NOW - 59.0)])
        while table.roll_up(hour_of(NOW)):
            pass
        assert closed(path) == []
        roll_up(table)
        assert closed(path) == ["2026-01-31T11"]
        assert sums(path) == sums(path, hours=False)


def test_a_busy_hour_is_read_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "usage.db"
    monkeypatch.setattr(usage_rollup, "_SLICE_END", usage_rollup._SLICE_END.replace(str(SLICE), "10"))
    events = [
        event(
            request_id=f"{number}", time=NOW - HOUR + number, client=str(number % 3), latency_ms=number * 5.0
        )
        for number in range(105)
    ]
    with table_of(path, events) as table:
        pieces = 0
        while table.roll_up(hour_of(NOW)):
            pieces += 1
        assert pieces == 1 + 11 + 1
        assert rows_in_hours(path) == 3
        assert sums(path, keys=["client"]) == sums(path, keys=["client"], hours=False)


@pytest.mark.parametrize("time", ["2026-01-31T11:00:00Z", "2026-01-31T11", "2026-01-31T11:30:00.000+02:00"])
def test_an_hour_with_a_time_of_another_form_stays_open(tmp_path: Path, time: str) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(time=NOW - 1.0), event(request_id="2", time=NOW - HOUR - 1.0)]) as table:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("INSERT INTO usage_events (request_id, time) VALUES ('odd', ?)", (time,))
        roll_up(table)
        assert closed(path) == ["2026-01-31T10"]
        assert sums(path) == sums(path, hours=False)


@pytest.mark.parametrize(
    "time", ["", "never", "2026-02-31T11:00:00.000Z", "0000-01-01T00:00:00.000Z", "9", "Z"]
)
def test_a_time_that_is_none_stops_nothing(tmp_path: Path, time: str) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(time=NOW - 1.0)]) as table:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("INSERT INTO usage_events (request_id, time) VALUES ('odd', ?)", (time,))
        roll_up(table)
        assert "2026-01-31T11" in closed(path)
        assert sums(path) == sums(path, hours=False)


def test_sums_that_are_too_large_leave_their_hour_open_and_the_others_closed(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    huge = [event(request_id=f"{number}", time=NOW - HOUR - 1.0, tokens_in=2**62) for number in range(3)]
    with table_of(path, [*huge, event(request_id="usual", time=NOW - 1.0)]) as table:
        roll_up(table)
    assert closed(path) == ["2026-01-31T11"]


def test_hours_are_purged_with_their_events(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    events = [event(request_id=f"{hour}", time=NOW - hour * HOUR - 1.0) for hour in range(5)]
    with table_of(path, events) as table:
        roll_up(table)
        assert rows_in_hours(path) == 5
        table.purge(NOW - 3 * HOUR)
        assert closed(path) == ["2026-01-31T09", "2026-01-31T10", "2026-01-31T11"]
        roll_up(table)
        assert rows_in_hours(path) == 3


def test_a_rollup_of_another_version_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(time=NOW - 1.0)]) as table:
        roll_up(table)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"ALTER TABLE {HOURS} ADD COLUMN of_tomorrow INTEGER")
    assert sums(path) == sums(path, hours=False)
    with table_of(path) as table:
        assert closed(path) == []
        roll_up(table)
    assert closed(path) == ["2026-01-31T11"]


def test_hours_of_another_format_are_read_from_their_events(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(time=NOW - 1.0)]) as table:
        roll_up(table)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"UPDATE {CLOSED} SET format = {FORMAT + 1}")
            other.execute(f"UPDATE {HOURS} SET requests = 1000")
        assert sums(path) == sums(path, hours=False)
        roll_up(table)
        assert closed(path) == ["2026-01-31T11"]
        assert sums(path) == sums(path, hours=False)


def test_no_index_is_made_for_a_single_query(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    with table_of(path, [event(request_id=f"{hour}", time=NOW - hour * HOUR) for hour in range(5)]) as table:
        roll_up(table)
    asked: list[str] = []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        reader = open_period(connection, UsageRange(filters={"client": "a", "status": "ok"}))
        connection.set_trace_callback(asked.append)
        assert list(reader.rows([KEYS["model"]])) == []
        connection.set_trace_callback(None)
        plans = [row[3] for one in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {one}")]
    assert any("USING INDEX usage_events_search" in plan for plan in plans)
    assert not any("AUTOMATIC" in plan for plan in plans)
