"""Work for the disk is done elsewhere, and a stop waits for nothing."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock

from mgw.bodies.budget import BodyBudget
from mgw.bodies.source import PIECE_BYTES, body_size
from mgw.bodies.spool import THREADS, DiskThreads, Spool, SpooledBody
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor import daemon_threads
from tests.support.deferreds import result_of
from tests.support.waiting import WAIT_SECONDS


class Turns:
    """A reactor that does, when asked, what threads told it to."""

    def __init__(self) -> None:
        self.told: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., object], *arguments: object) -> None:
        self.told.put(lambda: function(*arguments))

    def turn(self) -> None:
        """Do the next thing; waits until there is one."""
        self.told.get(timeout=WAIT_SECONDS)()


class Scarce(threading.Thread):
    """A thread that starts only while the system has any left."""

    left = 0

    def start(self) -> None:
        if not Scarce.left:
            raise RuntimeError("can't start new thread")
        Scarce.left -= 1
        super().start()


def threads_of(turns: Turns) -> DiskThreads:
    """Threads that tell what they did to a reactor in memory."""
    return DiskThreads(cast(IReactorFromThreads, turns))  # it has what they call


def results_of(work: Deferred[str]) -> list[object]:
    found: list[object] = []
    _ = work.addBoth(found.append)
    return found


def test_work_is_done_in_another_thread_and_told_in_ours() -> None:
    turns = Turns()
    threads = threads_of(turns)
    found = results_of(threads.run(lambda: threading.current_thread().name))
    turns.turn()
    assert str(found[0]).startswith("mgw-spool-")
    threads.stop()


def test_what_work_raises_reaches_whoever_waits() -> None:
    turns = Turns()
    threads = threads_of(turns)

    def fails() -> str:
        raise OSError(28, "No space left on device")

    work = threads.run(fails)
    failures: list[type[BaseException] | None] = []
    _ = work.addErrback(lambda failure: failures.append(failure.type))
    turns.turn()
    assert failures == [OSError]
    threads.stop()


def test_no_thread_exists_before_there_is_work() -> None:
    before = threading.active_count()
    threads_of(Turns()).stop()
    assert threading.active_count() == before


def test_a_disk_that_hangs_does_not_hold_up_a_stop() -> None:
    turns, hang = Turns(), threading.Event()
    threads = threads_of(turns)
    for _ in range(THREADS + 1):
        _ = threads.run(hang.wait)
    threads.stop()
    assert results_of(threads.run(lambda: threading.current_thread().name)) == ["MainThread"]
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("mgw-spool"))
    hang.set()


def test_whoever_left_is_not_told() -> None:
    turns = Turns()
    threads = threads_of(turns)
    work = threads.run(lambda: "done")
    found = results_of(work)
    work.cancel()
    turns.turn()
    assert found
    threads.stop()


@pytest.mark.parametrize("count", [1, 50])
def test_all_work_is_done(count: int) -> None:
    turns = Turns()
    threads = threads_of(turns)
    found = [results_of(threads.run(lambda number=number: str(number))) for number in range(count)]  # type: ignore[misc]  # mypy cannot infer a default
    for _ in range(count):
        turns.turn()
    assert found == [[str(number)] for number in range(count)]
    threads.stop()


def test_a_system_without_threads_fails_the_work_as_a_disk_would_and_later_work_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_threads, "Thread", Scarce)
    turns, Scarce.left = Turns(), 0
    threads = threads_of(turns)
    with pytest.raises(OSError, match="could not start a thread") as caught:
        result_of(threads.run(lambda: "lost"))
    assert caught.value.errno == errno.EAGAIN
    Scarce.left = THREADS
    found = results_of(threads.run(lambda: "done"))
    turns.turn()
    assert found == ["done"]
    threads.stop()


def test_a_system_with_few_threads_is_asked_for_the_rest_with_later_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_threads, "Thread", Scarce)
    turns, Scarce.left = Turns(), 1
    threads = threads_of(turns)
    found = results_of(threads.run(lambda: "done"))
    turns.turn()
    assert found == ["done"]
    Scarce.left = THREADS
    hang, started = threading.Event(), SimpleQueue[bool]()

    def hangs() -> bool:
        started.put(True)
        return hang.wait(WAIT_SECONDS)

    for _ in range(THREADS):
        _ = threads.run(hangs)
    for _ in range(THREADS):
        assert started.get(timeout=WAIT_SECONDS)
    assert Scarce.left == 1
    hang.set()
    threads.stop()


def test_a_body_that_finds_no_thread_is_refused_and_the_next_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_threads, "Thread", Scarce)
    turns, Scarce.left = Turns(), 0
    threads = threads_of(turns)
    spool = Spool(str(tmp_path), threads.run, BodyBudget(1 << 20), Clock())
    errors: list[GatewayError] = []

    def begin() -> SpooledBody:
        body = spool.begin(
            pause=lambda: None, resume=lambda: None, failed=errors.append, memory=BodyBudget(1 << 20)
        )
        body.write(bytes(PIECE_BYTES + 1))
        return body

    begin()
    assert [error.reason for error in errors] == [Reason.OVERLOADED]
    Scarce.left = THREADS
    body = begin()
    finished = body.finish()
    turns.turn()
    turns.turn()
    assert body_size(result_of(finished)) == PIECE_BYTES + 1
    body.close()
    turns.turn()
    assert (len(errors), spool.disk.held) == (1, 0)
    threads.stop()
