"""A body on its way to a disk that is full, broken or silent."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from twisted.logger import LogEvent, capturedLogs

from mgw.bodies.file import DISK_SECONDS
from mgw.bodies.source import PIECE_BYTES, BodyGoneError
from mgw.bodies.spool import REPORT_SECONDS, WAITING_BYTES
from mgw.nouns.errors import GatewayError, Reason
from tests.support.bodies import LARGE, Uploader, is_source, spooled
from tests.support.deferreds import result_of


@pytest.fixture
def logged() -> Iterator[Sequence[LogEvent]]:
    """What was logged about bodies."""
    with capturedLogs() as events:
        yield events


def test_no_room_in_memory_refuses_the_body(uploader: Uploader) -> None:
    uploader.memory.max_bytes = 100
    uploader.send(b"x" * 60, b"x" * 60, b"x")
    assert [(error.reason, error.retry_after) for error in uploader.errors] == [(Reason.OVERLOADED, 1.0)]
    assert uploader.held == (0, 0)


def test_no_room_on_disk_refuses_the_body_before_it_is_written(uploader: Uploader) -> None:
    uploader.room.max_bytes = 2 * PIECE_BYTES
    uploader.send(LARGE)
    uploader.disk.step()
    uploader.disk.step()
    assert [(error.reason, error.retry_after) for error in uploader.errors] == [(Reason.OVERLOADED, 1.0)]
    uploader.disk.run()
    assert uploader.held == (0, 0)
    assert uploader.disk.done == 3  # two writes, and the end


def test_a_full_disk_refuses_the_body_and_is_logged_without_it(
    uploader: Uploader, logged: Sequence[LogEvent]
) -> None:
    uploader.send(LARGE)
    uploader.disk.step()
    uploader.disk.fail(OSError(errno.ENOSPC, "No space left on device"))
    assert [(error.reason, error.retry_after) for error in uploader.errors] == [(Reason.OVERLOADED, 1.0)]
    assert "No space" not in uploader.errors[0].message
    uploader.disk.run()
    assert uploader.held == (0, 0)
    (event,) = logged
    assert (event["directory"], event["reason"]) == (uploader.directory, "No space left on device")


def test_a_directory_that_cannot_be_used_refuses_the_body(tmp_path: Path, logged: Sequence[LogEvent]) -> None:
    (tmp_path / "file").touch()
    uploader = Uploader(str(tmp_path / "file"))
    uploader.send(LARGE)
    uploader.disk.run()
    assert [error.reason for error in uploader.errors] == [Reason.OVERLOADED]
    assert [event["reason"] for event in logged] == ["Not a directory"]


def test_a_disk_that_goes_on_failing_is_logged_once_a_minute(
    uploader: Uploader, logged: Sequence[LogEvent]
) -> None:
    error = OSError(errno.ENOSPC, "No space left on device")
    for expected, seconds in ((1, 0.0), (1, REPORT_SECONDS - 1), (2, 1.0)):
        uploader.clock.advance(seconds)
        uploader.body = uploader.begin()
        uploader.send(LARGE)
        uploader.disk.fail(error)
        assert len(logged) == expected


def test_a_disk_that_does_not_answer_refuses_the_body_in_time_and_says_so_once_a_minute(
    uploader: Uploader, logged: Sequence[LogEvent], tmp_path: Path
) -> None:
    for expected in (1, 1, 2):  # two limits of half a minute are a minute
        uploader.body = uploader.begin()
        uploader.paused = False
        uploader.send(b"x" * (WAITING_BYTES + 1))
        assert uploader.paused
        uploader.clock.advance(DISK_SECONDS - 1)
        before = len(uploader.errors)
        uploader.clock.advance(1)
        (error,) = uploader.errors[before:]
        assert (error.reason, error.retry_after) == (Reason.OVERLOADED, 1.0)
        assert (uploader.memory.held, uploader.body.held) == (0, 0)
        assert len(logged) == expected
    assert {event["reason"] for event in logged} == {"the disk is not responding"}
    uploader.disk.run()
    assert uploader.held == (0, 0)
    assert uploader.paused
    assert (len(uploader.errors), spooled(tmp_path)) == (3, set())


def test_each_piece_that_is_written_gives_the_disk_its_time_anew(uploader: Uploader) -> None:
    uploader.send(LARGE)
    finished = uploader.body.finish()
    while uploader.disk.waiting:
        uploader.clock.advance(DISK_SECONDS - 1)
        uploader.disk.step()
    assert is_source(result_of(finished)).size == len(LARGE)
    assert not uploader.clock.getDelayedCalls()
    uploader.body.close()
    uploader.disk.run()


def test_a_disk_that_does_not_answer_behind_the_end_is_told_to_whoever_waits_for_it(
    uploader: Uploader,
) -> None:
    uploader.send(LARGE)
    finished = uploader.body.finish()
    uploader.clock.advance(DISK_SECONDS)
    with pytest.raises(GatewayError) as caught:
        result_of(finished)
    assert (caught.value.reason, uploader.errors) == (Reason.OVERLOADED, [])
    uploader.disk.run()
    assert uploader.held == (0, 0)


def test_bodies_that_wait_in_vain_for_a_disk_that_hangs_leave_nothing_in_memory(uploader: Uploader) -> None:
    bodies = [uploader.begin() for _ in range(20)]
    tracemalloc.start()
    for body in bodies:
        body.write(bytes(PIECE_BYTES + 1))
    uploader.clock.advance(DISK_SECONDS)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(uploader.errors), len(uploader.disk.waiting)) == (20, 20)
    assert held < 2 * PIECE_BYTES
    uploader.disk.run()


def test_a_small_body_costs_no_timer(uploader: Uploader) -> None:
    uploader.send(b"x" * PIECE_BYTES)
    assert not uploader.clock.getDelayedCalls()
    result_of(uploader.body.finish())
    assert not uploader.clock.getDelayedCalls()


def test_a_failure_behind_the_end_is_told_to_whoever_waits_for_it(uploader: Uploader) -> None:
    uploader.send(LARGE)
    finished = uploader.body.finish()
    uploader.disk.fail(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(GatewayError) as caught:
        result_of(finished)
    assert (caught.value.reason, uploader.errors) == (Reason.OVERLOADED, [])


def test_what_comes_after_a_failure_is_dropped(uploader: Uploader) -> None:
    uploader.memory.max_bytes = 10
    uploader.send(b"x" * 11)
    uploader.memory.max_bytes = 100
    uploader.send(b"y")
    with pytest.raises(BodyGoneError):
        result_of(uploader.body.finish())
    assert (len(uploader.errors), uploader.held) == (1, (0, 0))


def test_a_bug_in_the_disks_thread_is_logged_and_ends_the_body(
    uploader: Uploader, logged: Sequence[LogEvent]
) -> None:
    uploader.send(LARGE)
    uploader.disk.waiting[0] = (lambda: 1 // 0, uploader.disk.waiting[0][1])
    uploader.disk.step()
    assert [error.reason for error in uploader.errors] == [Reason.INTERNAL]
    assert [event["log_level"].name for event in logged] == ["critical"]
