"""Every event is delivered at least once or counted as lost, in order, and nobody waits for it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import fail
from twisted.logger import capturedLogs

from mgw.usage import outbox as outbox_module
from mgw.usage.batch_store import MAX_STORED_BATCHES, REMOVAL_SECONDS
from mgw.usage.outbox import CLOSE_SECONDS, MAX_HELD_EVENTS, MAX_RETRY, Verdict
from mgw.usage.spool_files import SinkSpool
from tests.support.laws import examples
from tests.support.outboxes import MemoryReceiver, OutboxHarness, line
from tests.support.stored_events import MIB
from tests.support.usage import OnDemand

T = TypeVar("T")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capturedLogs():
        yield


def lines(first: int, count: int) -> list[bytes]:
    return [line(number) for number in range(first, first + count)]


def test_events_of_one_interval_are_one_batch(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.record(0, 3)
    harness.turn(0.5)
    harness.record(3, 2)
    assert not harness.receiver.tries
    harness.turn(0.5)
    assert [found for _, found in harness.receiver.delivered] == [lines(0, 5)]


def test_a_full_batch_does_not_wait_for_the_interval(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.record(0, 25)
    harness.turn()
    assert [len(found) for _, found in harness.receiver.delivered] == [10, 10]
    harness.turn(1)
    assert harness.receiver.lines == lines(0, 25)


def test_a_batch_of_large_events_is_not_too_large(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, batch_max=1000)
    large = [b"x" * 65_000 + b"\n" for _ in range(100)]
    harness.outbox.record_lines(large)
    harness.turn(1)
    sizes = [sum(map(len, found)) for _, found in harness.receiver.delivered]
    assert harness.receiver.lines == large
    assert max(sizes) <= outbox_module.MAX_BATCH_BYTES


def test_a_failed_batch_is_tried_after_a_second_and_then_twice_as_late_each_time(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 10)
    times: list[float] = []
    for _ in range(2000):
        if len(harness.receiver.tries) > len(times):
            times.append(harness.clock.seconds())
        harness.turn(1)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, MAX_RETRY]
    assert set(pauses[10:]) == {MAX_RETRY}
    assert len(set(harness.receiver.keys)) == 1
    assert all(found == lines(0, 10) for _, found in harness.receiver.tries)


def test_after_a_success_the_pauses_begin_anew(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 10)
    harness.turn(1)
    harness.turn(2)
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(4)
    harness.receiver.verdict = Verdict.RETRY
    tries = len(harness.receiver.tries)
    harness.record(10, 10)
    harness.turn()
    harness.turn(1)
    assert len(harness.receiver.tries) == tries + 2


def test_batches_arrive_in_order_though_the_first_fails(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 35)
    harness.turn(1)
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(2)
    harness.turn(1)
    assert harness.receiver.lines == lines(0, 35)
    assert harness.outbox.dropped == 0
    assert not harness.stored()


def test_events_join_a_batch_that_waits_but_never_one_that_was_tried(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    for number in range(6):
        harness.record(number)
        harness.outbox.flush()
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(1)
    harness.turn()
    assert [len(found) for _, found in harness.receiver.delivered] == [1, 5]
    assert harness.receiver.lines == lines(0, 6)


def test_a_refused_batch_is_dropped_and_counted_and_the_next_is_tried(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.REFUSED
    harness.record(0, 10)
    harness.receiver.verdict = Verdict.DELIVERED
    harness.record(10, 10)
    harness.turn()
    assert harness.receiver.lines == lines(10, 10)
    assert (harness.outbox.dropped, harness.outbox.errors) == (10, 0)


def test_a_batch_is_on_disk_before_it_is_answered(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, receiver=MemoryReceiver(hanging=True))
    harness.record(0, 10)
    assert harness.stored() == lines(0, 10)
    harness.receiver.go_on()
    assert not harness.stored()


def test_only_the_owner_can_read_what_is_stored(tmp_path: Path) -> None:
    os.umask(0o022)
    harness = OutboxHarness(tmp_path / "spool", receiver=MemoryReceiver(hanging=True))
    harness.record(0, 10)
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in [tmp_path / "spool", *tmp_path.rglob("spool/**/*")]
    }
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_batch_that_need_not_wait_is_in_no_file_unless_it_is_saved_first(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, save_first=False, receiver=MemoryReceiver(hanging=True))
    harness.record(0, 10)
    assert not harness.stored()
    harness.record(10, 10)  # this one waits
    assert harness.stored() == lines(10, 10)
    harness.receiver.verdict = Verdict.RETRY
    harness.receiver.go_on()
    assert harness.stored() == lines(0, 20)


def test_a_killed_process_loses_no_batch_and_its_successor_uses_the_same_keys(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 20)
    harness.turn(1)
    harness.record(20, 5)  # of the last interval
    harness.crash()
    before = harness.receiver.tries[0]
    harness.receiver.verdict = Verdict.DELIVERED
    harness.restart()
    harness.turn()
    assert harness.receiver.lines == lines(0, 20)
    assert harness.receiver.delivered[0] == before
    harness.turn(REMOVAL_SECONDS)
    assert not harness.stored()


def test_a_living_owner_keeps_its_batches(tmp_path: Path) -> None:
    one = OutboxHarness(tmp_path)
    one.receiver.verdict = Verdict.RETRY
    one.record(0, 10)
    other = OutboxHarness(tmp_path)
    assert not other.receiver.tries
    one.stop()
    other.turn(outbox_module.TAKE_OVER_SECONDS)
    assert other.receiver.lines == lines(0, 10)


def test_a_stop_delivers_what_waits(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.record(0, 25)
    harness.stop()
    assert harness.receiver.lines == lines(0, 25)
    assert harness.lost == 0
    assert not list(tmp_path.glob("events/test/*/*"))


@pytest.mark.parametrize("save_first", [True, False])
def test_a_stop_stores_what_cannot_be_delivered(tmp_path: Path, save_first: bool) -> None:
    harness = OutboxHarness(tmp_path, save_first=save_first)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 25)
    harness.stop()
    assert harness.lost == 0
    harness.receiver.verdict = Verdict.DELIVERED
    harness.restart()
    harness.turn()
    assert harness.receiver.lines == lines(0, 25)


@pytest.mark.parametrize("save_first", [True, False])
def test_a_stop_does_not_wait_long_for_a_receiver_that_is_silent(tmp_path: Path, save_first: bool) -> None:
    harness = OutboxHarness(tmp_path, save_first=save_first, receiver=MemoryReceiver(hanging=True))
    harness.record(0, 25)
    began = harness.clock.seconds()
    harness.stop()
    assert harness.clock.seconds() - began <= CLOSE_SECONDS
    assert harness.lost == 0
    assert harness.stored() == lines(0, 25)


def test_a_stop_ends_in_time_though_the_disk_hangs_and_counts_what_is_lost(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, runner=OnDemand(), receiver=MemoryReceiver(hanging=True))
    harness.record(0, 25)
    harness.stop()
    assert harness.clock.seconds() <= CLOSE_SECONDS + 0.2
    assert harness.lost == 25


def test_an_event_behind_the_end_is_counted_as_lost(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.stop()
    harness.record(0, 3)
    assert harness.outbox.dropped == 3


def test_without_room_the_oldest_batches_go_and_are_counted(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, max_bytes=10 * len(line(0)) * 3)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 100)
    assert harness.stored() == lines(70, 30)
    assert harness.outbox.dropped == 70
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(1)
    assert harness.receiver.lines == lines(70, 30)
    assert harness.room.used == 0


def finish(disk: OnDemand) -> None:
    """Let the disk do all that it was given, and what follows from it."""
    while disk.waiting:
        disk.go_on()


def test_where_the_only_batch_is_being_tried_there_is_no_room_for_the_next(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, batch_max=10, max_bytes=10 * len(line(0)))
    harness.receiver.hanging = True
    harness.record(0, 10)
    harness.turn()
    assert harness.outbox.oldest_stored is None, "it may not be dropped"
    harness.record(10, 10)
    harness.turn()
    assert harness.outbox.dropped + harness.outbox.waiting == 20
    harness.receiver.hanging = False
    harness.receiver.go_on()
    harness.turn(1)
    harness.stop()
    assert len(harness.receiver.lines) + len(harness.stored()) + harness.lost == 20
    assert harness.lost in (0, 10), "counted once"


def test_what_comes_in_a_pause_is_in_a_file_though_the_batch_that_was_tried_has_gone(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, save_first=False)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 10)
    harness.turn(1)
    assert len(harness.receiver.tries) == 2, "and the next comes in two seconds"
    harness.outbox.drop_oldest_stored()
    harness.record(10, 3)
    harness.turn(1)
    assert len(harness.receiver.tries) == 2
    assert harness.stored() == [line(number) for number in (10, 11, 12)]


def two_halves(more: int) -> list[bytes]:
    """Return two events of 4 MiB together, and some bytes."""
    return [b"x" * (2 * MIB - 1 + extra) + b"\n" for extra in (0, more)]


@pytest.mark.parametrize(("more", "batches"), [(0, [2]), (1, [1, 1])])
def test_a_batch_has_exactly_as_many_bytes_as_are_allowed(
    tmp_path: Path, more: int, batches: list[int]
) -> None:
    harness = OutboxHarness(tmp_path, max_bytes=64 * MIB, batch_max=100)
    harness.outbox.record_lines(two_halves(more))
    harness.turn(1)
    assert [len(found) for _, found in harness.receiver.delivered] == batches


@pytest.mark.parametrize(("more", "batches"), [(0, [2]), (1, [1, 1])])
def test_a_batch_that_waits_takes_exactly_as_many_bytes_as_are_allowed(
    tmp_path: Path, more: int, batches: list[int]
) -> None:
    harness = OutboxHarness(tmp_path, max_bytes=64 * MIB, batch_max=100)
    harness.receiver.hanging = True
    harness.record(0)
    harness.turn(1)
    for half in two_halves(more):
        harness.outbox.record_lines([half])
        harness.outbox.flush()
    harness.receiver.hanging = False
    harness.receiver.go_on()
    harness.turn(1)
    assert [len(found) for _, found in harness.receiver.delivered[1:]] == batches


@pytest.mark.parametrize(("more", "dropped"), [(0, 0), (1, 1)])
def test_memory_holds_exactly_as_many_bytes_as_are_allowed(tmp_path: Path, more: int, dropped: int) -> None:
    harness = OutboxHarness(tmp_path, max_bytes=64 * MIB, batch_max=1, save_first=False, runner=OnDemand())
    harness.receiver.hanging = True
    harness.record(0)
    harness.turn(0.5)
    size = MIB  # of eight
    harness.outbox.record_lines([b"x" * (size - 1) + b"\n"] * 7)
    harness.outbox.record_lines([b"x" * (size - 1 - len(line(0)) + more) + b"\n"])
    assert harness.outbox.dropped == dropped


def test_a_stop_waits_for_the_file_that_is_being_written(tmp_path: Path) -> None:
    disk = OnDemand()
    harness = OutboxHarness(tmp_path, runner=disk, save_first=False)
    harness.receiver.verdict = Verdict.RETRY
    finish(disk)
    harness.record(0, 3)
    harness.turn(1)
    assert len(harness.receiver.tries) == 1, "it failed, and is to be written"
    closed = harness.outbox.close()
    harness.turn(0.1)
    assert not closed.called, "no file holds them yet"
    finish(disk)
    harness.turn(0.1)
    assert closed.called
    assert harness.stored() == [line(number) for number in range(3)]
    assert harness.outbox.dropped == 0


def test_a_stop_waits_until_what_was_delivered_is_deleted(tmp_path: Path) -> None:
    disk = OnDemand()
    harness = OutboxHarness(tmp_path, runner=disk)
    finish(disk)
    harness.record(0, 3)
    harness.turn(1)
    disk.go_on()
    harness.turn(0)
    finish(disk)
    harness.turn(0)
    closed = harness.outbox.close()
    harness.turn(0)
    while disk.waiting:
        assert not closed.called, "it would be delivered again after the start"
        disk.go_on()
        harness.turn(0)
    assert closed.called
    assert len(harness.receiver.delivered) == 1
    assert harness.stored() == []


def test_a_stop_does_not_wait_for_a_disk_that_hangs(tmp_path: Path) -> None:
    disk = OnDemand()
    harness = OutboxHarness(tmp_path, runner=disk)
    closed = harness.outbox.close()
    harness.turn(1)
    assert not closed.called
    harness.turn(CLOSE_SECONDS - 1)
    assert closed.called
    assert not harness.clock.getDelayedCalls()


@pytest.mark.parametrize("pieces", range(6))
def test_a_stop_at_any_moment_of_the_disk_loses_nothing(tmp_path: Path, pieces: int) -> None:
    disk = OnDemand()
    harness = OutboxHarness(tmp_path, runner=disk, save_first=False)
    harness.receiver.hanging = True
    finish(disk)
    harness.record(0, 3)
    harness.turn(1)
    harness.record(3, 3)
    for _ in range(pieces):
        if disk.waiting:
            disk.go_on()
        harness.turn(0.1)
    closed = harness.outbox.close()
    for _ in range(60):
        if closed.called:
            break
        harness.turn(0.1)
        if disk.waiting:
            disk.go_on()
    assert closed.called
    assert harness.stored() == [line(number) for number in range(6)]
    assert harness.outbox.dropped == 0


def test_batches_that_go_soon_after_another_are_deleted_together(tmp_path: Path) -> None:
    disk = OnDemand()
    harness = waiting_batches(disk, tmp_path, *(lines(10 * number, 10) for number in range(20)))
    disk.go_on()
    for _ in range(15):
        harness.outbox.drop_oldest_stored()
    assert len(disk.waiting) == 1
    disk.go_on()
    assert not disk.waiting
    assert harness.stored() == [b"first\n", *lines(10, 190)]
    harness.turn(REMOVAL_SECONDS)
    assert len(disk.waiting) == 1
    disk.go_on()
    assert harness.stored() == [b"first\n", *lines(150, 50)]


def test_a_backlog_is_delivered_without_a_removal_for_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removals = list[int]()
    remove = SinkSpool.remove

    def count(spool: SinkSpool, keys: Sequence[str]) -> None:
        removals.append(len(keys))
        remove(spool, keys)

    monkeypatch.setattr(SinkSpool, "remove", count)
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 200)
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(1)
    harness.turn(REMOVAL_SECONDS)
    assert harness.receiver.lines == lines(0, 200)
    assert removals == [1, 19]
    assert not harness.stored()


def test_all_batches_are_taken_over_though_they_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.usage.spool_files.TAKEN_AT_ONCE", 2)
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 70)
    harness.crash()
    harness.receiver.verdict = Verdict.DELIVERED
    harness.restart()
    harness.turn()
    assert harness.receiver.lines == lines(0, 70)


def waiting_batches(disk: OnDemand, folder: Path, *batches: list[bytes]) -> OutboxHarness:
    """An outbox whose batches wait for the disk, behind one that is being stored."""
    harness = OutboxHarness(
        folder, max(map(len, batches)), max_bytes=64 * MIB, runner=disk, receiver=MemoryReceiver(hanging=True)
    )
    disk.go_on()  # it has looked for what others left
    harness.outbox.record_lines([b"first\n"])
    harness.outbox.flush()
    for batch in batches:
        harness.outbox.record_lines(batch)
        harness.outbox.flush()
    disk.go_on()
    return harness


@pytest.mark.parametrize(("waiting", "together"), [(MAX_STORED_BATCHES, 64), (MAX_STORED_BATCHES + 1, 64)])
def test_batches_that_wait_are_stored_together(tmp_path: Path, waiting: int, together: int) -> None:
    disk = OnDemand()
    harness = waiting_batches(disk, tmp_path, *(lines(10 * number, 10) for number in range(waiting)))
    assert len(disk.waiting) == 1
    disk.go_on()
    assert len(harness.stored()) == 1 + 10 * together
    assert len(disk.waiting) == waiting - together


@pytest.mark.parametrize(("more", "together"), [(0, 2), (1, 1)])
def test_no_more_bytes_are_stored_together_than_allowed(tmp_path: Path, more: int, together: int) -> None:
    disk = OnDemand()
    halves = [[half] for half in two_halves(more)]
    harness = waiting_batches(disk, tmp_path, *halves)
    disk.go_on()
    assert len(harness.stored()) == 1 + together
    finish(disk)
    assert len(harness.stored()) == 3


def test_a_batch_that_is_being_tried_does_not_give_way(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, max_bytes=10 * len(line(0)) * 2, receiver=MemoryReceiver(hanging=True))
    harness.record(0, 10)
    harness.record(10, 30)
    assert harness.stored() == [*lines(0, 10), *lines(30, 10)]
    harness.receiver.go_on()
    assert harness.receiver.lines == lines(0, 10)
    assert harness.outbox.dropped == 20


def test_the_room_is_that_of_all_sinks_and_the_oldest_batch_of_any_goes(tmp_path: Path) -> None:
    one, other = OutboxHarness(tmp_path / "a"), OutboxHarness(tmp_path / "b")
    other.outbox.room.outboxes.remove(other.outbox)
    room = other.outbox.room = other.outbox._store.room = one.room
    room.outboxes.append(other.outbox)
    room.max_bytes = 10 * len(line(0)) * 2
    one.receiver.verdict = other.receiver.verdict = Verdict.RETRY
    one.record(0, 10)
    other.clock.advance(5)
    other.record(10, 20)
    assert (one.outbox.dropped, other.outbox.dropped) == (10, 0)


def test_a_disk_that_fails_keeps_no_event_from_a_receiver_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("no directory")
    harness = OutboxHarness(tmp_path)
    harness.record(0, 25)
    harness.turn(1)
    assert harness.receiver.lines == lines(0, 25)
    assert harness.outbox.dropped == 0
    assert harness.outbox.errors > 0


def test_with_neither_disk_nor_receiver_memory_is_bounded_and_losses_are_counted(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("no directory")
    harness = OutboxHarness(tmp_path, batch_max=100)
    harness.receiver.verdict = Verdict.RETRY
    for first in range(0, MAX_HELD_EVENTS * 2, 100):
        harness.record(first, 100)
    assert harness.outbox.waiting <= MAX_HELD_EVENTS + 100
    assert harness.outbox.waiting + harness.outbox.dropped == MAX_HELD_EVENTS * 2
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(1)
    assert len(harness.receiver.lines) + harness.outbox.dropped == MAX_HELD_EVENTS * 2


def test_a_disk_that_hangs_bounds_memory_too(tmp_path: Path) -> None:
    thread = OnDemand()
    harness = OutboxHarness(tmp_path, batch_max=100, runner=thread, receiver=MemoryReceiver(hanging=True))
    for first in range(0, MAX_HELD_EVENTS * 2, 100):
        harness.record(first, 100)
    assert harness.outbox.waiting <= MAX_HELD_EVENTS + 200
    assert harness.outbox.waiting + harness.outbox.dropped == MAX_HELD_EVENTS * 2
    assert len(thread.waiting) <= 3


def test_a_deleted_file_is_counted_and_does_not_stop_the_others(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 30)
    (tmp_path / "events/outbox.db").unlink()
    harness.record(30, 10)
    harness.receiver.verdict = Verdict.DELIVERED
    harness.turn(1)
    assert harness.receiver.lines == lines(30, 10)
    assert harness.outbox.dropped == 30


def test_a_damaged_file_is_said_and_what_it_lost_is_counted(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path, max_bytes=64 * MIB)
    harness.receiver.verdict = Verdict.RETRY
    harness.record(0, 30)
    harness.outbox.record_lines([b"x" * MIB + b"\n"] * 3)
    harness.outbox.flush()
    harness.crash()
    file = tmp_path / "events/outbox.db"
    os.truncate(file, file.stat().st_size - MIB)
    harness.receiver.verdict = Verdict.DELIVERED
    with capturedLogs() as logs:
        harness.restart()
        harness.turn()
    assert harness.receiver.lines == lines(0, 30)
    assert (harness.outbox.dropped, harness.outbox.errors) == (3, 1)
    assert "outbox.db was damaged and is" in str(logs)
    harness.record(30, 10)
    assert harness.receiver.lines == lines(0, 40)


def test_a_bug_in_a_try_is_a_failed_try(tmp_path: Path) -> None:
    harness = OutboxHarness(tmp_path)
    harness.outbox.deliver = lambda key, lines: fail(ValueError("canary"))
    with capturedLogs() as logs:
        harness.record(0, 10)
    assert "ValueError" in str(logs)
    assert "canary" not in str(logs)
    harness.outbox.deliver = harness.receiver.deliver
    harness.turn(1)
    assert harness.receiver.lines == lines(0, 10)


STEPS = st.one_of(
    st.integers(1, 25).map(lambda count: ("record", count)),
    st.sampled_from([0.1, 1, 3, 400]).map(lambda seconds: ("wait", seconds)),
    st.sampled_from(Verdict).map(lambda verdict: ("receiver", verdict)),
    st.just(("stop", 0)),
    st.just(("crash", 0)),
)


@given(steps=st.lists(STEPS, max_size=25), save_first=st.booleans(), batches=st.sampled_from([3, 1000]))
@examples(150)
def test_every_event_is_delivered_or_counted_whatever_happens(
    steps: list[tuple[str, float | Verdict]], save_first: bool, batches: int
) -> None:
    with TemporaryDirectory() as folder:
        harness = OutboxHarness(
            Path(folder), save_first=save_first, max_bytes=batches * 10 * len(line(0)), batch_max=10
        )
        play(harness, steps)
        harness.receiver.verdict = Verdict.DELIVERED
        for _ in range(3):
            harness.turn(MAX_RETRY)
        found = harness.receiver.lines
        lost = harness.lost + harness.outbox.dropped
        assert len(found) == len(set(found)), "delivered twice"
        assert found == sorted(found)
        assert len(found) + lost == play.recorded - play.killed  # type: ignore[attr-defined]
        tried: dict[str, list[bytes]] = {}
        for key, batch in harness.receiver.tries:
            assert tried.setdefault(key, batch) == batch, "a key that names two batches"
        assert harness.receiver.keys == sorted(harness.receiver.keys)
        assert not harness.stored()
        assert harness.room.used == 0
        assert harness.outbox.waiting == 0


def play(harness: OutboxHarness, steps: list[tuple[str, float | Verdict]]) -> None:
    """Play the steps; what a kill may take is what no file held, which was there for a second at most."""
    recorded = killed = 0
    for what, value in steps:
        match what, value:
            case "record", int(count):
                harness.record(recorded, count)
                recorded += count
            case "wait", int() | float():
                harness.turn(float(value))
            case "receiver", Verdict():
                harness.receiver.verdict = value
            case "stop", _:
                harness.stop()
                harness.restart()
            case "crash", _:
                # Else what was delivered just before, or is in the first turn, comes once more.
                harness.turn(REMOVAL_SECONDS)
                harness.turn(REMOVAL_SECONDS)
                harness.lost += harness.outbox.dropped
                killed += harness.outbox.waiting - len(harness.stored())
                assert harness.outbox.waiting - len(harness.stored()) <= 9  # no full batch
                harness.crash()
                harness.restart()
    play.recorded, play.killed = recorded, killed  # type: ignore[attr-defined]
