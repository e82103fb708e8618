"""Totals of periods in a file: what is written and when, what happens without the file, and how it ends."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs

from mgw.clients.calendar_window import Change, Reset
from mgw.clients.limits import (
    LIMITS_BY_NAME,
    NOTHING,
    ONE_REQUEST,
    Allowance,
    LimitReached,
    Limits,
    Permit,
    Taken,
)
from mgw.clients.local_counts import LocalCounts
from mgw.clients.period import Period, Window, period_of
from mgw.identity.limit_file import CARE_SECONDS, KEPT_SECONDS, LOOK_SECONDS
from mgw.identity.limit_store import (
    CLOSE_SECONDS,
    COMMIT_SECONDS,
    GATHER_SECONDS,
    RETRY_SECONDS,
    LimitStore,
)
from tests.support.counting import answer_of
from tests.support.counting_law import row_of
from tests.support.usage import AtOnce, OnDemand

NOW = 1_800_000_000.0
MONTH = period_of(Window.MONTH, NOW)
ALICE = row_of("usd_per_month", 100, "alice")
BOB = row_of("usd_per_month", 100, "bob")
BUDGET = (row_of("usd_per_month", 10, "gateway", is_reserved=True),)
QUOTA = (row_of("requests_per_day", 3, "gateway"),)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "limits.db")


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.advance(NOW)
    return clock


class Process:
    """One process with counts whose totals are in a file."""

    def __init__(self, path: str, clock: Clock, runner: AtOnce | OnDemand | None = None) -> None:
        self.clock = clock
        self.runner = runner or AtOnce()
        self.store = LimitStore(path, self.runner, clock)
        self.counts = LocalCounts(clock.seconds, self.store)

    def ask(self, rows: Limits, held: Taken = ONE_REQUEST) -> list[Permit | LimitReached]:
        """Begin a request, and return where its answer comes."""
        answers = list[Permit | LimitReached]()
        found = self.counts.begin(rows, held)
        if isinstance(found, Deferred):
            _ = found.addCallback(answers.append)
        else:
            assert isinstance(found, Permit | LimitReached)
            answers.append(found)
        return answers

    def permit(self, rows: Limits, held: Taken = ONE_REQUEST) -> Permit:
        (found,) = self.ask(rows, held)
        assert isinstance(found, Permit)
        return found

    def refused(self, rows: Limits) -> bool:
        (found,) = self.ask(rows)
        if isinstance(found, Permit):
            self.counts.end(found, NOTHING)
        return isinstance(found, LimitReached)

    def end(self, permit: Permit, taken: Taken) -> tuple[str, ...]:
        warnings = self.counts.end(permit, taken)
        self.clock.advance(GATHER_SECONDS)
        return warnings

    def used(self, rows: Limits) -> list[tuple[int, int]]:
        """Return what is used and held of these rows."""
        self.counts.use("somebody", rows)
        state = answer_of(self.counts.state())
        keys = {row.key for row in rows}
        return [
            (row.used, row.reserved) for row in state if (row.holder, row.limit.name, row.refuses) in keys
        ]


def add(store: LimitStore, row: Allowance, period: Period, amount: int) -> None:
    store.settle([Change(store.find(row, period), amount, 0)])


_COUNTED = """
SELECT holder, period, used + (SELECT coalesce(sum(held), 0) FROM holds
  WHERE holds.holder = totals.holder AND holds.name = totals.name AND holds.period = totals.period)
FROM totals ORDER BY 1, 2
"""


def in_file(path: str) -> list[tuple[str, str, int]]:
    """Return what is used and held in the file."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(_COUNTED).fetchall()


def test_nothing_is_opened_before_somebody_has_such_a_limit(path: str, clock: Clock) -> None:
    process = Process(path, clock)
    assert process.used(()) == []
    assert process.store.close().called
    assert not Path(path).parent.exists()


def test_a_total_outlives_the_process(path: str, clock: Clock) -> None:
    rows = (row_of("usd_total", 2**53, "alice"),)
    before = Process(path, clock)
    before.end(before.permit(rows), Taken(nanodollars=2**52))
    assert before.store.close().called
    after = Process(path, clock)
    assert after.used(rows) == [(2**52, 0)]
    after.end(after.permit(rows), Taken(nanodollars=2**52))
    assert after.refused(rows)


def test_only_its_user_can_read_the_file(path: str, clock: Clock) -> None:
    process = Process(path, clock)
    process.permit(QUOTA)
    for file in Path(path).parent.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file
    assert os.stat(Path(path).parent).st_mode & 0o777 == 0o700


def test_a_request_goes_on_when_what_it_counts_is_written(path: str, clock: Clock) -> None:
    runner = OnDemand()
    process = Process(path, clock, runner)
    answers = process.ask(QUOTA)
    assert not answers
    runner.go_on()
    assert isinstance(answers[0], Permit)
    assert [used for _, _, used in in_file(path)] == [1]


def test_what_comes_while_something_is_written_is_in_one_transaction_behind_it(
    path: str, clock: Clock
) -> None:
    runner = OnDemand()
    process = Process(path, clock, runner)
    first = process.ask(BUDGET, Taken(1, 0, 1))
    behind = [process.ask(BUDGET, Taken(1, 0, 1)) for _ in range(5)]
    runner.go_on()
    assert isinstance(first[0], Permit)
    process.counts.end(first[0], Taken(1, 0, 7))
    assert [len(answers) for answers in behind] == [0] * 5
    runner.go_on()
    assert [type(answers[0]) is LimitReached for answers in behind] == [False] * 5
    more = [process.ask(BUDGET, Taken(1, 0, 1)) for _ in range(2)]
    runner.go_on()
    runner.go_on()
    assert [type(answers[0]) is LimitReached for answers in more] == [True, True], "7 used and 5 held of 10"
    assert not runner.waiting


def test_the_ends_of_requests_are_gathered(path: str, clock: Clock) -> None:
    runner = OnDemand()
    process = Process(path, clock, runner)
    answers = process.ask(BUDGET, Taken(1, 0, 1))
    runner.go_on()
    assert isinstance(answers[0], Permit)
    process.counts.end(answers[0], Taken(1, 0, 2))
    assert not runner.waiting
    clock.advance(GATHER_SECONDS)
    runner.go_on()
    assert in_file(path) == [("gateway", MONTH.name, 2)]


def test_what_another_process_counts_is_seen(path: str, clock: Clock) -> None:
    first, second = Process(path, clock), Process(path, clock)
    for process in (first, second, first):
        process.end(process.permit(QUOTA), Taken())
    assert second.refused(QUOTA)
    held = first.permit(BUDGET, Taken(1, 0, 10))
    assert second.refused(BUDGET), "what the other one holds"
    first.end(held, Taken(1, 0, 4))
    assert not second.refused(BUDGET)
    assert first.used(BUDGET) == second.used(BUDGET) == [(4, 0)]


def test_a_refusal_of_the_file_counts_nothing_in_other_rows(path: str, clock: Clock) -> None:
    rows = (row_of("max_in_flight", 9, "alice"), row_of("requests_per_minute", 2, "alice"), *QUOTA)
    other, process = Process(path, clock), Process(path, clock)
    for _ in range(3):
        other.end(other.permit(QUOTA), Taken())
    for _ in range(5):
        (found,) = process.ask(rows)
        assert isinstance(found, LimitReached)
        assert (found.holder, found.limit.name) == ("gateway", "requests_per_day")
        assert found.resets == period_of(Window.DAY, NOW).ends
        assert found.seconds == found.resets - clock.seconds()
    assert process.counts.in_flight("alice") == 0
    assert process.counts.refusals() == {("gateway", "requests_per_day"): 5}


def test_what_is_set_from_outside_is_seen_and_holds_stay(path: str, clock: Clock) -> None:
    process = Process(path, clock)
    process.end(process.permit(BUDGET), Taken(1, 0, 9))
    process.permit(BUDGET, Taken(1, 0, 1))
    assert process.refused(BUDGET)
    beside = Process(path, clock)
    assert answer_of(beside.counts.reset("gateway", "usd_per_month", 2))
    assert not process.refused(BUDGET)
    assert process.used(BUDGET) == [(2, 1)]
    assert not answer_of(beside.counts.reset("nobody", None, 0))


def test_a_share_is_warned_of_once_also_across_processes(path: str, clock: Clock) -> None:
    rows = (
        Allowance(LIMITS_BY_NAME["usd_per_month"], 10, "group:research", warn_at=(500_000_000, 800_000_000)),
    )
    process = Process(path, clock)
    assert process.end(process.permit(rows), Taken(nanodollars=4)) == ()
    assert process.end(process.permit(rows), Taken(nanodollars=1)) == ("group:research usd_per_month 0.5",)
    after = Process(path, clock)
    assert after.end(after.permit(rows), Taken(nanodollars=2)) == ()
    assert after.end(after.permit(rows), Taken(nanodollars=9)) == (
        "group:research usd_per_month 0.8",
        "group:research usd_per_month 1",
    )
    clock.advance(MONTH.ends - clock.seconds())
    assert after.end(after.permit(rows), Taken(nanodollars=5)) == ("group:research usd_per_month 0.5",)
    assert answer_of(after.counts.reset("group:research", None, 0))
    assert after.end(after.permit(rows), Taken(nanodollars=5)) == ("group:research usd_per_month 0.5",)


# Processes that are gone


def test_what_a_process_held_that_was_killed_counts_in_full(path: str, clock: Clock) -> None:
    killed, alive = Process(path, clock), Process(path, clock)
    for amount in (1, 2):
        killed.permit(BUDGET, Taken(1, 0, amount))
    alive.permit(BUDGET, Taken(1, 0, 3))
    killed.store.release_lock()
    with capturedLogs() as events:
        after = Process(path, clock)
        after.permit(BUDGET)
    assert after.used(BUDGET) == [(3, 3)]
    (said,) = [event for event in events if event["log_level"] is LogLevel.warn]
    assert (said["requests"], said["amounts"]) == (2, "gateway usd_per_month 3")
    with capturedLogs() as events:
        Process(path, clock).permit(BUDGET)
    assert not events


def test_a_process_that_ends_in_order_leaves_nothing_behind(path: str, clock: Clock) -> None:
    process = Process(path, clock)
    process.end(process.permit(BUDGET, Taken(1, 0, 3)), Taken(1, 0, 1))
    assert process.store.close().called
    assert [file.name for file in Path(path).parent.iterdir()] == ["limits.db"]
    with capturedLogs() as events:
        after = Process(path, clock)
        after.permit(BUDGET)
    assert not events
    assert after.used(BUDGET) == [(1, 0)]


def test_a_process_that_runs_notices_one_that_is_gone(path: str, clock: Clock) -> None:
    process, killed = Process(path, clock), Process(path, clock)
    process.permit(BUDGET)
    killed.permit(BUDGET, Taken(1, 0, 3))
    killed.store.release_lock()
    assert process.used(BUDGET) == [(0, 3)]
    clock.advance(CARE_SECONDS)
    process.permit(BUDGET)
    assert process.used(BUDGET) == [(3, 0)]


# A file that cannot be used, or is slow


@pytest.fixture
def blocked(path: str) -> str:
    """A file that cannot be made until the test unblocks its folder."""
    Path(path).parent.write_text("a file where the folder should be")
    return path


def test_a_file_that_cannot_be_used_is_said_once_a_minute_and_tried_again(blocked: str, clock: Clock) -> None:
    with capturedLogs() as events:
        process = Process(blocked, clock)
        for _ in range(3):
            process.end(process.permit(QUOTA), Taken())
            clock.advance(RETRY_SECONDS)
        assert process.refused(QUOTA), "it counts in memory"
    assert not process.store.is_up
    (said,) = [event for event in events if event["log_level"] is LogLevel.error]
    assert "counted in memory" in said["log_format"]
    Path(blocked).parent.unlink()
    clock.advance(RETRY_SECONDS)
    assert process.store.is_up
    assert [used for _, _, used in in_file(blocked)] == [3]


def test_a_file_that_can_be_used_again_is_noticed_where_nothing_waits(blocked: str, clock: Clock) -> None:
    process = Process(blocked, clock)
    assert answer_of(process.counts.state()) == []
    process.refused(QUOTA)
    Path(blocked).parent.unlink()
    clock.advance(RETRY_SECONDS)
    clock.advance(RETRY_SECONDS)
    assert process.store.is_up


def test_a_request_does_not_wait_longer_than_two_seconds_for_a_commit(path: str, clock: Clock) -> None:
    runner = OnDemand()
    process = Process(path, clock, runner)
    answers = [process.ask(QUOTA) for _ in range(2)]
    clock.advance(COMMIT_SECONDS)
    assert [type(found[0]) is LimitReached for found in answers] == [False, False]
    assert not process.store.is_up
    assert [process.refused(QUOTA) for _ in range(2)] == [False, False]
    permit = process.permit(QUOTA)
    assert process.refused(QUOTA)
    while runner.waiting:
        runner.go_on()
    assert process.store.is_up
    assert [used for _, _, used in in_file(path)] == [3]
    process.counts.end(permit, NOTHING)
    clock.advance(GATHER_SECONDS)
    runner.go_on()
    assert [used for _, _, used in in_file(path)] == [2]


@pytest.mark.parametrize("is_full_in_file", [True, False])
def test_what_memory_has_decided_counts_whatever_the_file_says_later(
    path: str, clock: Clock, is_full_in_file: bool
) -> None:
    other = Process(path, clock)
    permits = [other.permit(QUOTA) for _ in range(3)]
    runner = OnDemand()
    process = Process(path, clock, runner)
    if not is_full_in_file:
        process.ask(QUOTA)
        runner.go_on()  # it knows that the row is full
        for permit in permits[:2]:
            other.end(permit, NOTHING)
    answers = process.ask(QUOTA)
    clock.advance(COMMIT_SECONDS)
    assert isinstance(answers[0], Permit) == is_full_in_file
    while runner.waiting:
        runner.go_on()
    assert [used for _, _, used in in_file(path)] == [4 if is_full_in_file else 1]


def test_a_file_that_somebody_holds_does_not_make_the_event_loop_wait(path: str, clock: Clock) -> None:
    before = Process(path, clock)
    before.permit(QUOTA)
    assert before.store.close().called
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE other (x)")
        process, began = Process(path, clock, OnDemand()), monotonic()
        for _ in range(5):
            process.ask(QUOTA)
        assert monotonic() - began < 0.25


def test_a_file_of_a_newer_version_is_left_alone(path: str, clock: Clock) -> None:
    Path(path).parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    process = Process(path, clock)
    process.permit(QUOTA)
    assert not process.store.is_up


def test_totals_of_long_ago_go(path: str, clock: Clock) -> None:
    for name, ends in (("kept", NOW - KEPT_SECONDS + 1), ("gone", NOW - KEPT_SECONDS - 1)):
        add(LimitStore(path, AtOnce(), clock), ALICE, Period(name, 0.0, ends), 1)
        clock.advance(GATHER_SECONDS)
    Process(path, clock).permit((BOB,))
    assert in_file(path) == [("alice", "kept", 1), ("bob", MONTH.name, 0)]


def test_the_end_waits_for_what_is_written_but_not_for_ever(path: str, clock: Clock) -> None:
    runner = OnDemand()
    store = LimitStore(path, runner, clock)
    add(store, ALICE, MONTH, 1)
    clock.advance(GATHER_SECONDS)
    add(store, ALICE, MONTH, 10)
    closed = store.close()
    assert not closed.called
    for _ in range(3):  # both, and the file is closed
        runner.go_on()
    assert closed.called
    assert in_file(path) == [("alice", MONTH.name, 11)]
    stuck = LimitStore(path, OnDemand(), clock)
    add(stuck, ALICE, MONTH, 1)
    closed = stuck.close()
    clock.advance(CLOSE_SECONDS)
    assert closed.called


def test_what_has_just_ended_is_written_at_the_end(path: str, clock: Clock) -> None:
    store = LimitStore(path, AtOnce(), clock)
    add(store, ALICE, MONTH, 1)
    assert store.close().called
    assert in_file(path) == [("alice", MONTH.name, 1)]


def test_a_request_that_is_older_than_its_key_counts(path: str, clock: Clock) -> None:
    process, rows = Process(path, clock), (ALICE,)
    permit = process.permit(rows)
    process.counts.use("alice", ())  # a reload takes the key away, another brings it back
    process.end(process.permit(rows), NOTHING)
    process.end(permit, Taken(nanodollars=100))
    assert process.refused(rows)


def test_nothing_is_left_behind_where_the_file_cannot_be_written(blocked: str, clock: Clock) -> None:
    runner = AtOnce()
    store = LimitStore(blocked, runner, clock)
    add(store, ALICE, MONTH, 1)
    with capturedLogs() as events:
        closed = store.close()
        clock.advance(CLOSE_SECONDS)
    assert closed.called
    assert runner.stopped
    assert not clock.getDelayedCalls()
    assert [event["count"] for event in events if "count" in event] == [1]


LARGE = (row_of("usd_per_month", 10_000, "gateway", is_reserved=True),)


def sums_in(path: str) -> list[tuple[int, int]]:
    """Return what is used and held in the file."""
    with closing(sqlite3.connect(path)) as file:
        holds = "(SELECT coalesce(sum(held), 0) FROM holds WHERE holds.holder = totals.holder)"
        found: list[tuple[int, int]] = file.execute(f"SELECT used, {holds} FROM totals").fetchall()
        return found


def remove(path: str) -> None:
    for name in os.listdir(os.path.dirname(path)):
        os.unlink(os.path.join(os.path.dirname(path), name))


@pytest.mark.parametrize("delete", [remove, os.unlink], ids=["all", "without its journal"])
def test_a_new_file_gets_what_is_known_when_the_old_one_was_deleted(
    path: str, clock: Clock, delete: Callable[[str], None]
) -> None:
    process = Process(path, clock)
    held = process.permit(LARGE, Taken(1, 0, 30))
    process.end(process.permit(LARGE, Taken(1, 0, 50)), Taken(1, 0, 400))
    assert sums_in(path) == [(400, 30)]
    delete(path)
    clock.advance(LOOK_SECONDS)
    with capturedLogs() as logs:
        process.end(process.permit(LARGE, Taken(1, 0, 5)), Taken(1, 0, 7))
        assert sums_in(path) == [(407, 30)]
        clock.advance(LOOK_SECONDS)
        process.end(held, Taken(1, 0, 20))
    assert sums_in(path) == [(427, 0)]
    assert process.used(LARGE) == [(427, 0)]
    assert [
        log["log_format"].partition(" ")[2][:11] for log in logs if log["log_level"] is LogLevel.warn
    ] == ["was deleted"]
    assert process.store.is_up
    assert Process(path, clock).used(LARGE) == [(427, 0)]


def test_the_larger_counts_where_the_file_was_replaced(path: str, clock: Clock, tmp_path: Path) -> None:
    other = Process(str(tmp_path / "other.db"), clock)
    other.end(other.permit(LARGE), Taken(1, 0, 900))
    assert other.store.close().called
    process = Process(path, clock)
    process.end(process.permit(LARGE), Taken(1, 0, 400))
    remove(path)
    os.replace(tmp_path / "other.db", path)
    clock.advance(LOOK_SECONDS)
    process.end(process.permit(LARGE), Taken(1, 0, 7))
    assert sums_in(path) == [(907, 0)]


def test_a_file_that_comes_back_holds_nothing_twice(path: str, clock: Clock) -> None:
    process = Process(path, clock)
    held = process.permit(LARGE, Taken(1, 0, 30))
    os.rename(path, f"{path}.away")
    clock.advance(LOOK_SECONDS)
    process.end(process.permit(LARGE), Taken(1, 0, 7))
    os.rename(f"{path}.away", path)
    clock.advance(LOOK_SECONDS)
    process.end(process.permit(LARGE), Taken(1, 0, 7))
    assert sums_in(path) == [(14, 30)]
    process.end(held, Taken(1, 0, 7))
    assert sums_in(path) == [(21, 0)]


def test_a_reset_outlives_the_file(path: str, clock: Clock) -> None:
    process = Process(path, clock)
    process.end(process.permit(LARGE), Taken(1, 0, 400))
    total = process.store.find(LARGE[0], MONTH)
    assert process.store.reset([total], Reset("gateway", None, 3, clock.seconds())).called
    remove(path)
    clock.advance(LOOK_SECONDS)
    process.end(process.permit(LARGE), Taken(1, 0, 7))
    assert sums_in(path) == [(10, 0)]


def test_the_file_is_looked_for_once_a_second(
    path: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, looked = Process(path, clock), list[str]()
    process.end(process.permit(LARGE), Taken(1, 0, 1))
    stat = os.stat

    def look(path: str, *, follow_symlinks: bool = True) -> os.stat_result:
        looked.append(path)
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", look)
    for _ in range(9):
        process.end(process.permit(LARGE), Taken(1, 0, 1))
    assert len(looked) <= 1 + 9 * GATHER_SECONDS / LOOK_SECONDS


# At the start


def test_what_a_killed_process_held_counts_in_full_before_anybody_asks(path: str, clock: Clock) -> None:
    killed = Process(path, clock)
    killed.permit(BUDGET, Taken(1, 0, 3))
    killed.store.release_lock()
    Process(path, clock).store.start()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT used FROM totals").fetchall() == [(3,)]
        assert connection.execute("SELECT * FROM holds").fetchall() == []


def test_a_process_that_starts_makes_no_file(path: str, clock: Clock) -> None:
    Process(path, clock).store.start()
    assert not Path(path).exists()


# Parts of totals, for other hosts


def add_parts(store: LimitStore) -> None:
    """Add what was counted in two outages, and something else."""
    for name, amount in (("2027-01@a", 3), ("2027-01@b", 4), ("2027-01", 1)):
        add(store, ALICE, replace(MONTH, name=name), amount)


def test_parts_that_nobody_will_hear_of_are_this_hosts_own(path: str, clock: Clock) -> None:
    before = LimitStore(path, AtOnce(), clock, keeps_parts=True)
    add_parts(before)
    add(before, BOB, replace(MONTH, name="2027-01@a"), 5)
    clock.advance(GATHER_SECONDS)
    LimitStore(path, AtOnce(), clock, keeps_parts=True).start()
    assert len(in_file(path)) == 4
    Process(path, clock).store.start()
    assert in_file(path) == [("alice", "2027-01", 8), ("bob", "2027-01", 5)]


def test_a_reset_sets_a_total_and_not_its_parts(path: str, clock: Clock) -> None:
    store = LimitStore(path, AtOnce(), clock, keeps_parts=True)
    add_parts(store)
    clock.advance(GATHER_SECONDS)
    assert store.reset([], Reset("alice", None, 9, NOW)).result is True
    assert in_file(path) == [("alice", "2027-01", 9), ("alice", "2027-01@a", 3), ("alice", "2027-01@b", 4)]


# A log of SQLite's of another file


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_file_that_was_replaced_beside_the_log_of_the_old_one_stops_nobody(
    path: str, clock: Clock, tmp_path: Path, is_killed: bool
) -> None:
    process, copy, log = Process(path, clock), tmp_path / "copy", Path(f"{path}-wal")
    process.end(process.permit(BUDGET), Taken(1, 0, 1))
    shutil.copy(path, copy)
    for number in range(1000 if is_killed else 10):  # enough that SQLite has begun its log anew
        row = row_of("usd_per_month", 10, f"client{number}")
        process.end(process.permit((row,)), Taken(1, 0, 1))
    if is_killed:
        left = log.read_bytes()
        process.store.release_lock()
        assert process.store.close().called
        log.write_bytes(left)
    os.replace(copy, path)
    clock.advance(LOOK_SECONDS)
    after = Process(path, clock) if is_killed else process
    with capturedLogs() as events:
        after.end(after.permit(BUDGET), Taken(1, 0, 1))
    assert after.store.is_up is not is_killed
    (said,) = [event for event in events if event["log_level"] in (LogLevel.warn, LogLevel.error)]
    text = "cannot be used (database disk image is malformed)" if is_killed else "was deleted or replaced"
    assert text in said["log_format"].format(**said)
    assert not after.refused(BUDGET)
