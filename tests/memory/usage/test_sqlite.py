"""Events in a table that anybody can read, whatever happens to its file."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.config.hooks import SqliteSettings
from mgw.usage.batch_store import REMOVAL_SECONDS
from mgw.usage.event import UsageEvent, timestamp
from mgw.usage.event_search import EventSearch, find_events
from mgw.usage.record import encode
from mgw.usage.sinks import SinkTools
from mgw.usage.sinks.sqlite import (
    DAY_SECONDS,
    FLUSH_SECONDS,
    IMPROVE_SECONDS,
    PURGE_SECONDS,
    ROLLUP_DELAY,
    ROLLUP_PAUSE,
    ROLLUP_SECONDS,
    SqliteSink,
    open_sink,
)
from mgw.usage.usage_table import COLUMNS, INDEXES, PURGED_AT_ONCE, UsageTable
from tests.support.stored_events import MIB, spool_in, stored_batches
from tests.support.usage import AtOnce, OnDemand, event

NOW = 1_764_000_000.0


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capturedLogs():
        yield


def sink_on(clock: Clock, folder: Path, runner: Any = None, **settings: Any) -> SqliteSink:
    """A sink of a file in this folder; Any: a runner, and settings by name."""

    def new_client(_: float) -> Any:  # Any: it is not called
        raise AssertionError

    tools = SinkTools(
        clock,
        lambda _, name: runner if runner is not None and name == "mgw-sqlite" else AtOnce(),
        new_client,
        spool_in(folder / "spool", 16 * MIB),
        lambda: NOW + clock.seconds(),
    )
    return open_sink(SqliteSettings.model_validate({"path": str(folder / "usage.db"), **settings}), tools)


def lines(first: int, count: int, **changes: Any) -> list[bytes]:
    return [encode(event(request_id=f"{number:05d}", **changes)) for number in range(first, first + count)]


def rows(folder: Path, what: str = "request_id") -> list[Any]:
    """What any client of SQLite finds."""
    connection = sqlite3.connect(folder / "usage.db")
    try:
        return [row[0] for row in connection.execute(f"SELECT {what} FROM usage_events ORDER BY request_id")]
    finally:
        connection.close()


def turn(clock: Clock, seconds: float) -> None:
    clock.advance(seconds)
    clock.pump([0] * 5)


def test_each_field_of_the_event_is_a_column_with_its_value(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    found = event(dropped_fields=("logit_bias", "messages[].name"), cost_usd=0.000001234, error="größe")
    sink.record_lines([encode(found)])
    turn(clock, FLUSH_SECONDS)
    connection = sqlite3.connect(tmp_path / "usage.db")
    cursor = connection.execute("SELECT * FROM usage_events")
    (row,) = cursor.fetchall()
    values = dict(zip([column[0] for column in cursor.description], row, strict=True))
    connection.close()
    assert tuple(values) == UsageEvent.__struct_fields__ == tuple(COLUMNS)
    line = json.loads(encode(found))
    assert json.loads(values.pop("dropped_fields")) == line.pop("dropped_fields")
    assert {name: value for name, value in values.items() if value is not None} == line


def test_an_event_that_comes_again_is_one_row(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    for _ in range(3):
        sink.record_lines(lines(0, 5))
        turn(clock, FLUSH_SECONDS)
    assert rows(tmp_path) == [f"{number:05d}" for number in range(5)]


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(0, 5))
    turn(clock, FLUSH_SECONDS)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("usage.db*")} == {0o600}
    assert len(list(tmp_path.glob("usage.db*"))) == 3  # it is write-ahead


def test_columns_that_an_older_file_lacks_are_added_and_its_rows_stay(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "usage.db")
    connection.execute("CREATE TABLE usage_events (request_id TEXT PRIMARY KEY, time TEXT, own TEXT)")
    connection.execute("INSERT INTO usage_events VALUES ('00000', '2026-01-01T00:00:00.000Z', 'kept')")
    connection.commit()
    connection.close()
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(1, 1))
    turn(clock, FLUSH_SECONDS)
    assert rows(tmp_path, "own") == ["kept", None]
    assert rows(tmp_path, "tokens_in") == [None, 12]


def test_a_column_that_somebody_has_added_in_other_letters_is_the_fields(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "usage.db")
    connection.execute("CREATE TABLE usage_events (request_id TEXT PRIMARY KEY, TIME TEXT, Error TEXT)")
    connection.close()
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(1, 1, error="dns"))
    turn(clock, FLUSH_SECONDS)
    assert (rows(tmp_path, "error"), sink.errors) == (["dns"], 0)
    connection = sqlite3.connect(tmp_path / "usage.db")
    (found,) = find_events(connection, EventSearch(limit=9))
    connection.close()
    assert found == json.loads(lines(1, 1, error="dns")[0])


def test_a_file_that_is_locked_is_waited_for_and_no_event_is_lost(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    locking = sqlite3.connect(tmp_path / "usage.db", isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    with capturedLogs() as logs:
        sink.record_lines(lines(0, 5))
        turn(clock, FLUSH_SECONDS)
        sink.record_lines(lines(5, 5))
        turn(clock, FLUSH_SECONDS)
    assert [log["reason"] for log in logs] == ["database is locked"]
    assert len(stored_batches(tmp_path / "spool", "sqlite")) == 2
    locking.execute("ROLLBACK")
    turn(clock, 1)
    assert len(rows(tmp_path)) == 10
    assert (sink.dropped, sink.errors) == (0, 1)
    turn(clock, REMOVAL_SECONDS)
    assert not stored_batches(tmp_path / "spool", "sqlite")


@pytest.mark.parametrize(
    "content", [b"not a database at all, but a text" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_file_is_waited_for_until_it_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "usage.db").write_bytes(content)
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(0, 5))
    turn(clock, FLUSH_SECONDS)
    assert sink.errors > 0
    (tmp_path / "usage.db").rename(tmp_path / "damaged")
    turn(clock, 1)
    turn(clock, 2)
    assert len(rows(tmp_path)) == 5
    assert sink.dropped == 0


def test_a_file_that_is_renamed_or_deleted_is_made_anew(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(0, 5))
    turn(clock, FLUSH_SECONDS)
    (tmp_path / "usage.db").rename(tmp_path / "old.db")
    for ending in ("-wal", "-shm"):
        (tmp_path / f"usage.db{ending}").rename(tmp_path / f"old.db{ending}")
    sink.reopen()
    sink.record_lines(lines(5, 5))
    turn(clock, FLUSH_SECONDS)
    assert rows(tmp_path) == [f"{number:05d}" for number in range(5, 10)]
    for file in tmp_path.glob("usage.db*"):
        file.unlink()
    sink.record_lines(lines(10, 5))
    turn(clock, FLUSH_SECONDS)
    assert rows(tmp_path) == [f"{number:05d}" for number in range(10, 15)]


def test_numbers_too_large_for_the_file_and_lines_that_are_none_harm_no_other(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines([*lines(0, 1, tokens_in=10**30), b"{broken\n", b'{"time":"x"}\n', *lines(1, 1)])
    turn(clock, FLUSH_SECONDS)
    assert rows(tmp_path, "tokens_in") == [1e30, 12]
    assert sink.dropped == 2


def test_events_are_purged_at_the_start_and_every_hour(tmp_path: Path) -> None:
    table = UsageTable(str(tmp_path / "usage.db"))
    ages = [0.5, 29.9, 30.1, 400.0]
    table.add([encode(event(request_id=f"{age:05.1f}", time=NOW - age * DAY_SECONDS)) for age in ages])
    table.close()
    clock = Clock()
    sink = sink_on(clock, tmp_path, retention_days=30)
    assert rows(tmp_path) == ["000.5", "029.9"]
    clock.advance(3 * PURGE_SECONDS)  # less than 0.1 of a day more
    assert rows(tmp_path) == ["000.5"]
    assert sink.errors == 0


def test_many_old_events_are_purged_in_steps(tmp_path: Path) -> None:
    table = UsageTable(str(tmp_path / "usage.db"))
    table.add(lines(0, PURGED_AT_ONCE + 10, time=NOW - 10 * DAY_SECONDS))
    table.close()
    thread = OnDemand()
    sink_on(Clock(), tmp_path, runner=thread, retention_days=1)
    thread.go_on()
    assert len(rows(tmp_path)) == 10
    thread.go_on()  # it looks at the indexes, too
    thread.go_on()
    assert not rows(tmp_path)


def test_without_retention_nothing_is_purged(tmp_path: Path) -> None:
    table = UsageTable(str(tmp_path / "usage.db"))
    table.add(lines(0, 3, time=NOW - 10_000 * DAY_SECONDS))
    table.close()
    clock = Clock()
    sink_on(clock, tmp_path)
    clock.advance(2 * PURGE_SECONDS)
    assert len(rows(tmp_path)) == 3


def test_a_thread_that_is_stuck_in_the_file_holds_nobody_up(tmp_path: Path) -> None:
    clock, thread = Clock(), OnDemand()
    sink = sink_on(clock, tmp_path, runner=thread)
    for first in range(0, 5000, 100):
        sink.record_lines(lines(first, 100))
        turn(clock, 0.1)
    assert len(stored_batches(tmp_path / "spool", "sqlite")) >= 3  # what has to wait is on the disk
    while thread.waiting:
        thread.go_on()
        turn(clock, FLUSH_SECONDS)
    assert len(rows(tmp_path)) == 5000


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(0, 5))
    closed = sink.close()
    turn(clock, 0)
    assert closed.called
    assert len(rows(tmp_path)) == 5
    assert not list(tmp_path.glob("usage.db-*"))  # all is in the file itself


def test_closing_while_the_file_is_locked_stores_and_the_next_sink_writes(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    locking = sqlite3.connect(tmp_path / "usage.db", isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    sink.record_lines(lines(0, 5))
    closed = sink.close()
    for _ in range(10):
        turn(clock, 1)
    assert closed.called
    assert sink.dropped == 0
    locking.execute("ROLLBACK")
    locking.close()
    sink_on(clock, tmp_path)
    turn(clock, 1)
    assert len(rows(tmp_path)) == 5


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no/usage.db", r"folder .*/no does not exist"),
        ("folder", "expected a file, found a directory"),
        ("pipe", "not a regular file"),
    ],
)
def test_a_place_where_no_file_can_be_is_known_at_the_start(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=f"^hooks.sqlite.path: .* cannot be written: {reason}$"):
        sink_on(Clock(), tmp_path, path=str(tmp_path / path))


def test_times_are_written_so_that_they_sort() -> None:
    assert timestamp(NOW) == "2025-11-24T16:00:00.000Z"


def indexes(folder: Path) -> set[str]:
    """The indexes of the table, but for that of its primary key."""
    connection = sqlite3.connect(folder / "usage.db")
    try:
        found = {row[1] for row in connection.execute("PRAGMA index_list(usage_events)")}
    finally:
        connection.close()
    return {name for name in found if not name.startswith("sqlite_")}


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """The file of an older version, with some events."""
    table = UsageTable(str(tmp_path / "usage.db"))
    table.add(lines(0, 200))
    table.close()
    connection = sqlite3.connect(tmp_path / "usage.db")
    for name in INDEXES:
        connection.execute(f"DROP INDEX {name}")
    connection.execute("CREATE INDEX usage_events_time ON usage_events (time)")
    connection.close()
    return tmp_path


def test_a_new_file_has_the_indexes_of_searches(tmp_path: Path) -> None:
    sink_on(Clock(), tmp_path)
    assert indexes(tmp_path) == set(INDEXES)


def test_a_file_of_an_older_version_gets_its_indexes(old_file: Path) -> None:
    sink_on(Clock(), old_file)
    assert indexes(old_file) == set(INDEXES)
    assert len(rows(old_file)) == 200


def test_batches_are_written_between_two_indexes(old_file: Path) -> None:
    clock, runner = Clock(), OnDemand()
    sink = sink_on(clock, old_file, runner)
    runner.go_on()  # the file is opened
    sink.record_lines(lines(1000, 1))
    turn(clock, FLUSH_SECONDS)
    runner.go_on()
    runner.go_on()
    assert indexes(old_file) == {"usage_events_time", "usage_events_search"}
    assert "01000" in rows(old_file)


def test_an_index_that_cannot_be_made_is_said_once_and_tried_again(old_file: Path) -> None:
    clock = Clock()
    other = sqlite3.connect(old_file / "usage.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with capturedLogs() as said:
        sink = sink_on(clock, old_file)
        clock.advance(IMPROVE_SECONDS)
    assert [event["log_format"].startswith("hooks.sqlite: an index") for event in said].count(True) == 1
    other.execute("ROLLBACK")
    other.close()
    sink.record_lines(lines(1000, 1))
    turn(clock, FLUSH_SECONDS)
    assert "01000" in rows(old_file)
    clock.advance(IMPROVE_SECONDS)
    assert indexes(old_file) == set(INDEXES)


def test_an_index_that_is_given_up_leaves_nothing_behind(old_file: Path) -> None:
    table = UsageTable(str(old_file / "usage.db"))
    looks = iter([False, False, True, True])
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        table.improve(lambda: next(looks), instructions=50)
    assert indexes(old_file) == {"usage_events_time"}
    assert table.add(lines(1000, 1)) == 0
    table.close()
    assert "01000" in rows(old_file)


def test_a_sink_that_is_to_close_makes_no_index(old_file: Path) -> None:
    clock, runner = Clock(), OnDemand()
    sink = sink_on(clock, old_file, runner)
    runner.go_on()
    sink.record_lines(lines(1000, 1))
    closed = sink.close()
    while runner.waiting:
        runner.go_on()
        clock.pump([0] * 5)
    assert closed.called
    assert indexes(old_file) == {"usage_events_time"}
    assert "01000" in rows(old_file)


def closed_hours(folder: Path) -> list[str]:
    connection = sqlite3.connect(folder / "usage.db")
    try:
        return [
            hour for (hour,) in connection.execute("SELECT hour FROM usage_hours_closed WHERE format > 0")
        ]
    finally:
        connection.close()


def test_a_month_of_an_older_version_is_added_up_in_pieces_with_batches_in_between(tmp_path: Path) -> None:
    table = UsageTable(str(tmp_path / "usage.db"))
    month = [event(request_id=f"{hour:05d}", time=NOW - (hour + 2) * 3600.0) for hour in range(720)]
    assert table.add([encode(one) for one in month]) == 0
    table.close()
    connection = sqlite3.connect(tmp_path / "usage.db")
    connection.execute("DROP TABLE usage_hours")
    connection.execute("DROP TABLE usage_hours_closed")
    for trigger in ("added", "changed", "removed"):
        connection.execute(f"DROP TRIGGER usage_events_{trigger}")
    connection.commit()
    connection.close()
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    clock.advance(ROLLUP_DELAY)
    sink.record_lines(lines(10_000, 1))
    clock.pump([ROLLUP_PAUSE] * 20)
    assert "10000" in rows(tmp_path)
    assert 0 < len(closed_hours(tmp_path)) < 20
    clock.pump([ROLLUP_PAUSE] * 3 * 720)
    assert len(closed_hours(tmp_path)) == 720


def test_hours_are_closed_ten_minutes_after_their_end_and_a_late_event_opens_one_again(
    tmp_path: Path,
) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)  # at 16:00
    sink.record_lines(lines(0, 1, time=NOW - 1.0))
    clock.pump([1] * 10)
    assert closed_hours(tmp_path) == []
    clock.pump([ROLLUP_SECONDS] * 3 + [ROLLUP_PAUSE] * 4)
    assert closed_hours(tmp_path) == [timestamp(NOW - 1.0)[:13]]
    sink.record_lines(lines(1, 1, time=NOW - 2.0))
    turn(clock, FLUSH_SECONDS)
    assert closed_hours(tmp_path) == []
    clock.pump([ROLLUP_SECONDS] + [ROLLUP_PAUSE] * 4)
    assert closed_hours(tmp_path) == [timestamp(NOW - 1.0)[:13]]


def test_a_busy_file_is_added_up_later_and_is_no_error(tmp_path: Path) -> None:
    clock = Clock()
    sink = sink_on(clock, tmp_path)
    sink.record_lines(lines(0, 1, time=NOW - 7200.0))
    turn(clock, FLUSH_SECONDS)
    locking = sqlite3.connect(tmp_path / "usage.db", isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    clock.pump([ROLLUP_DELAY, ROLLUP_PAUSE])
    locking.execute("ROLLBACK")
    assert (closed_hours(tmp_path), sink.errors) == ([], 0)
    clock.pump([ROLLUP_SECONDS] + [ROLLUP_PAUSE] * 4)
    assert len(closed_hours(tmp_path)) == 1
    locking.close()


def test_behind_a_close_nothing_is_added_up(tmp_path: Path) -> None:
    clock, runner = Clock(), OnDemand()
    sink = sink_on(clock, tmp_path, runner)
    runner.go_on()
    clock.advance(ROLLUP_DELAY)
    closed = sink.close()
    while runner.waiting:
        runner.go_on()
    clock.pump([1] * 5)
    assert closed.called
    assert not clock.getDelayedCalls()
