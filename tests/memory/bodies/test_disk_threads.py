"""Work for the disk is done elsewhere, and a stop waits for nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads

from mgw.bodies.disk_threads import THREADS, DiskThreads


class Turns:
    """A reactor that does, when asked, what threads told it to."""

    def __init__(self) -> None:
        self.told: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def callFromThread(self, function: Callable[..., object], *arguments: object) -> None:
        self.told.put(lambda: function(*arguments))

    def turn(self) -> None:
        """Do the next thing; waits until there is one."""
        self.told.get(timeout=10)()


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
