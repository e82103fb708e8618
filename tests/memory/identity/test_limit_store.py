"""Totals of periods in a file: what is written, what a file that cannot be used costs, and how it ends."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs

from mgw.clients.period import Period, Window, period_of
from mgw.identity.limit_store import CLOSE_SECONDS, KEPT_SECONDS, RETRY_SECONDS, LimitStore
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


def in_file(path: str) -> list[tuple[str, str, str, int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT holder, name, period, used FROM totals ORDER BY 1, 2, 3").fetchall()


def test_nothing_is_opened_before_somebody_has_such_a_limit(path: str, clock: Clock) -> None:
    store = opened(path, clock)
    assert store.close().called
    assert not Path(path).parent.exists()


def test_a_total_outlives_the_process(path: str, clock: Clock) -> None:
    store = opened(path, clock)
    assert store.read(*ALICE, MONTH) == 0
    store.add(*ALICE, MONTH, 2**52)
    store.add(*ALICE, MONTH, -2)
    assert store.read(*ALICE, MONTH) == 2**52 - 2
    assert store.close().called
    after = opened(path, clock)
    assert after.read(*ALICE, MONTH) == 2**52 - 2
    assert after.read("key:bob", ALICE[1], MONTH) == 0
    assert after.read(*ALICE, period_of(Window.MONTH, MONTH.ends)) == 0


def test_only_its_user_can_read_the_file(path: str, clock: Clock) -> None:
    opened(path, clock).add(*ALICE, MONTH, 1)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(Path(path).parent).st_mode & 0o777 == 0o700


def test_two_processes_lose_nothing_of_one_another(path: str, clock: Clock) -> None:
    before, after = opened(path, clock), opened(path, clock)
    for amount in (1, 10):
        before.add(*ALICE, MONTH, amount)
        after.add(*ALICE, MONTH, 100 * amount)
    assert in_file(path) == [(*ALICE, MONTH.name, 1111)]


def test_what_comes_while_something_is_written_is_written_at_once_behind_it(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    for amount in (1, 10, 100):
        store.add(*ALICE, MONTH, amount)
    store.add("key:bob", ALICE[1], MONTH, 5)
    runner.go_on()
    assert in_file(path) == [(*ALICE, MONTH.name, 1)]
    runner.go_on()
    assert in_file(path) == [(*ALICE, MONTH.name, 111), ("key:bob", ALICE[1], MONTH.name, 5)]


def test_a_total_that_waits_to_be_written_is_known(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    store.add(*ALICE, MONTH, 1)
    store.add(*ALICE, MONTH, 10)
    runner.go_on()
    assert store.read(*ALICE, MONTH) == 11
    store.add(*ALICE, MONTH, 100)
    assert store.read(*ALICE, MONTH) == 111


@pytest.fixture
def blocked(path: str) -> str:
    """A file that cannot be made until the test unblocks its folder."""
    Path(path).parent.write_text("a file where the folder should be")
    return path


def test_a_file_that_cannot_be_used_is_said_once_a_minute_and_tried_again(blocked: str, clock: Clock) -> None:
    with capturedLogs() as events:
        store = opened(blocked, clock)
        assert store.read(*ALICE, MONTH) == 0
        for _ in range(5):
            store.add(*ALICE, MONTH, 1)
            clock.advance(RETRY_SECONDS)
    assert store.read(*ALICE, MONTH) == 5, "it counts in memory"
    (said,) = [event for event in events if event["log_level"] is LogLevel.error]
    assert "counted in memory" in said["log_format"]
    Path(blocked).parent.unlink()
    clock.advance(RETRY_SECONDS)
    assert in_file(blocked) == [(*ALICE, MONTH.name, 5)]


def test_totals_of_long_ago_go(path: str, clock: Clock) -> None:
    for name, ends in (("kept", NOW - KEPT_SECONDS), ("gone", NOW - KEPT_SECONDS - 1)):
        opened(path, clock).add(*ALICE, Period(name, 0.0, ends), 1)
    opened(path, clock).add(*ALICE, MONTH, 1)
    assert [period for _, _, period, _ in in_file(path)] == [MONTH.name, "kept"]


def test_the_end_waits_for_what_is_written_but_not_for_ever(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    store.add(*ALICE, MONTH, 1)
    store.add(*ALICE, MONTH, 10)
    closed = store.close()
    assert not closed.called
    for _ in range(3):  # both, and the file is closed
        runner.go_on()
    assert closed.called
    assert in_file(path) == [(*ALICE, MONTH.name, 11)]
    stuck = LimitStore(path, OnDemand(), clock)
    stuck.add(*ALICE, MONTH, 1)
    closed = stuck.close()
    clock.advance(CLOSE_SECONDS)
    assert closed.called
