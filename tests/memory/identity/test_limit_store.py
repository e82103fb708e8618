"""Totals of periods in a file: what is written, what a file that cannot be used costs, and how it ends."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs

from mgw.clients.limits import NOTHING, ONE_REQUEST, Allowance, LimitReached, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.clients.period import Period, Window, period_of
from mgw.identity.limit_store import CLOSE_SECONDS, KEPT_SECONDS, RETRY_SECONDS, LimitStore
from tests.support.counting import HOLDER
from tests.support.counting_law import BUDGET
from tests.support.usage import AtOnce, OnDemand

NOW = 1_800_000_000.0
MONTH = period_of(Window.MONTH, NOW)
ALICE = ("key:alice", "nanodollars_per_month")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "limits.db")


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.advance(NOW)
    return clock


def opened(path: str, clock: Clock) -> LimitStore:
    return LimitStore(path, AtOnce(), clock)


def add(store: LimitStore, holder: str, limit: str, period: Period, amount: int) -> None:
    store.add(store.find(holder, limit, period), amount)


def in_file(path: str) -> list[tuple[str, str, str, int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT holder, name, period, used FROM totals ORDER BY 1, 2, 3").fetchall()


def test_nothing_is_opened_before_somebody_has_such_a_limit(path: str, clock: Clock) -> None:
    store = opened(path, clock)
    assert store.close().called
    assert not Path(path).parent.exists()


def test_a_total_outlives_the_process(path: str, clock: Clock) -> None:
    store = opened(path, clock)
    assert store.find(*ALICE, MONTH).used == 0
    add(store, *ALICE, MONTH, 2**52)
    add(store, *ALICE, MONTH, -2)
    assert store.find(*ALICE, MONTH).used == 2**52 - 2
    assert store.close().called
    after = opened(path, clock)
    assert after.find(*ALICE, MONTH).used == 2**52 - 2
    assert after.find("key:bob", ALICE[1], MONTH).used == 0
    assert after.find(*ALICE, period_of(Window.MONTH, MONTH.ends)).used == 0


def test_only_its_user_can_read_the_file(path: str, clock: Clock) -> None:
    add(opened(path, clock), *ALICE, MONTH, 1)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(Path(path).parent).st_mode & 0o777 == 0o700


def test_two_processes_lose_nothing_of_one_another(path: str, clock: Clock) -> None:
    before, after = opened(path, clock), opened(path, clock)
    for amount in (1, 10):
        add(before, *ALICE, MONTH, amount)
        add(after, *ALICE, MONTH, 100 * amount)
    assert in_file(path) == [(*ALICE, MONTH.name, 1111)]


def test_what_comes_while_something_is_written_is_written_at_once_behind_it(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    for amount in (1, 10, 100):
        add(store, *ALICE, MONTH, amount)
    add(store, "key:bob", ALICE[1], MONTH, 5)
    runner.go_on()
    assert in_file(path) == [(*ALICE, MONTH.name, 1)]
    runner.go_on()
    assert in_file(path) == [(*ALICE, MONTH.name, 111), ("key:bob", ALICE[1], MONTH.name, 5)]


def test_a_total_that_waits_to_be_written_is_known(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    add(store, *ALICE, MONTH, 1)
    add(store, *ALICE, MONTH, 10)
    runner.go_on()
    assert store.find(*ALICE, MONTH).used == 11
    add(store, *ALICE, MONTH, 100)
    assert store.find(*ALICE, MONTH).used == 111


@pytest.fixture
def blocked(path: str) -> str:
    """A file that cannot be made until the test unblocks its folder."""
    Path(path).parent.write_text("a file where the folder should be")
    return path


def test_a_file_that_cannot_be_used_is_said_once_a_minute_and_tried_again(blocked: str, clock: Clock) -> None:
    with capturedLogs() as events:
        store = opened(blocked, clock)
        assert store.find(*ALICE, MONTH).used == 0
        for _ in range(5):
            add(store, *ALICE, MONTH, 1)
            clock.advance(RETRY_SECONDS)
    assert store.find(*ALICE, MONTH).used == 5, "it counts in memory"
    (said,) = [event for event in events if event["log_level"] is LogLevel.error]
    assert "counted in memory" in said["log_format"]
    Path(blocked).parent.unlink()
    clock.advance(RETRY_SECONDS)
    assert in_file(blocked) == [(*ALICE, MONTH.name, 5)]


def test_totals_of_long_ago_go(path: str, clock: Clock) -> None:
    for name, ends in (("kept", NOW - KEPT_SECONDS), ("gone", NOW - KEPT_SECONDS - 1)):
        add(opened(path, clock), *ALICE, Period(name, 0.0, ends), 1)
    add(opened(path, clock), *ALICE, MONTH, 1)
    assert [period for _, _, period, _ in in_file(path)] == [MONTH.name, "kept"]


def test_the_end_waits_for_what_is_written_but_not_for_ever(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    add(store, *ALICE, MONTH, 1)
    add(store, *ALICE, MONTH, 10)
    closed = store.close()
    assert not closed.called
    for _ in range(3):  # both, and the file is closed
        runner.go_on()
    assert closed.called
    assert in_file(path) == [(*ALICE, MONTH.name, 11)]
    stuck = LimitStore(path, OnDemand(), clock)
    add(stuck, *ALICE, MONTH, 1)
    closed = stuck.close()
    clock.advance(CLOSE_SECONDS)
    assert closed.called


def test_a_total_that_could_not_be_read_at_first_is_known_as_soon_as_it_can_be(
    path: str, clock: Clock
) -> None:
    rows = (Allowance(BUDGET, 100, HOLDER),)
    before = LocalCounts(clock.seconds, opened(path, clock))
    permit = before.begin(rows, ONE_REQUEST)
    assert isinstance(permit, Permit)
    before.end(permit, Taken(nanodollars=100))
    folder = Path(path).parent
    folder.rename(folder.with_name("away"))
    folder.write_text("a file where the folder should be")
    after = LocalCounts(clock.seconds, opened(path, clock))
    assert isinstance(after.begin(rows, ONE_REQUEST), Permit)
    folder.unlink()
    folder.with_name("away").rename(folder)
    clock.advance(RETRY_SECONDS)
    assert isinstance(after.begin(rows, ONE_REQUEST), LimitReached)


def test_a_file_that_somebody_holds_does_not_make_the_event_loop_wait(path: str, clock: Clock) -> None:
    before = opened(path, clock)
    add(before, *ALICE, MONTH, 1)
    assert before.close().called
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM totals")
        store, began = LimitStore(path, OnDemand(), clock), monotonic()
        for number in range(5):
            store.find(f"key:{number}", ALICE[1], MONTH)
        assert monotonic() - began < 0.25


def test_a_request_that_is_older_than_its_key_counts(path: str, clock: Clock) -> None:
    rows = (Allowance(BUDGET, 100, HOLDER),)
    counts = LocalCounts(clock.seconds, opened(path, clock))
    permit = counts.begin(rows, ONE_REQUEST)
    assert isinstance(permit, Permit)
    counts.use(HOLDER, ())  # a reload takes the key away, another brings it back
    second = counts.begin(rows, ONE_REQUEST)
    assert isinstance(second, Permit)
    counts.end(second, NOTHING)
    counts.end(permit, Taken(nanodollars=100))
    assert isinstance(counts.begin(rows, ONE_REQUEST), LimitReached)


def test_nothing_is_left_behind_where_the_file_cannot_be_written(blocked: str, clock: Clock) -> None:
    runner = AtOnce()
    store = LimitStore(blocked, runner, clock)
    add(store, *ALICE, MONTH, 1)
    with capturedLogs() as events:
        closed = store.close()
        clock.advance(CLOSE_SECONDS)
    assert closed.called
    assert runner.stopped
    assert not clock.getDelayedCalls()
    assert [event["count"] for event in events if "count" in event] == [1]
