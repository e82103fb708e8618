"""What may block does so on a thread, in order, and its results come back on the reactor's."""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, current_thread, get_ident
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from zope.interface import implementer

from mgw.reactor.daemon_threads import DaemonThreads, NextTurnRunner
from mgw.usage.line_writer import INTERVAL, LineWriter
from mgw.usage.output import DescriptorOutput
from tests.support.waiting import WAIT_SECONDS

"""Seconds after which a test gives up; never waited for when all is well."""


@implementer(IReactorFromThreads)
class Turns:
    """The part of a reactor that threads talk to; a test takes its turns by hand."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()

    # Any: Twisted's interface takes the arguments of whatever is called
    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:  # noqa: A002 its name
        self._calls.put(lambda: callable(*args, **kw))

    def turn(self) -> None:
        """Make one call; wait for it."""
        self._calls.get(timeout=WAIT_SECONDS)()


def test_work_is_done_in_order_on_one_other_thread() -> None:
    reactor, results = Turns(), list[tuple[int, int] | Exception]()
    thread = DaemonThreads(reactor, "test")
    for number in range(3):
        thread.run(lambda number=number: (number, get_ident()), results.append)  # type: ignore[misc]  # a default
    for _ in range(3):
        reactor.turn()
    thread.stop()
    other = results[0][1] if isinstance(results[0], tuple) else 0
    assert results == [(0, other), (1, other), (2, other)]
    assert other != get_ident()


def test_what_work_raises_comes_back_and_the_thread_goes_on() -> None:
    reactor, results = Turns(), list[str | Exception]()
    thread = DaemonThreads(reactor, "test")
    trouble = RuntimeError("x")

    def fail() -> str:
        raise trouble

    thread.run(fail, results.append)
    thread.run(lambda: "next", results.append)
    reactor.turn()
    reactor.turn()
    thread.stop()
    assert results == [trouble, "next"]


def test_a_deferred_fires_with_what_work_returns_or_raises() -> None:
    reactor, results = Turns(), list[object]()
    thread = DaemonThreads(reactor, "test")
    _ = thread.defer(lambda: "done").addBoth(results.append)
    _ = thread.defer(lambda: 1 // 0).addErrback(lambda failure: results.append(failure.type))
    reactor.turn()
    reactor.turn()
    thread.stop()
    assert results == ["done", ZeroDivisionError]


def test_work_is_finished_though_whoever_waited_has_left() -> None:
    reactor, done, results = Turns(), list[str](), list[object]()
    thread = DaemonThreads(reactor, "test")
    waiting = thread.defer(lambda: done.append("done"))
    _ = waiting.addErrback(lambda failure: results.append(failure.type))
    waiting.cancel()
    reactor.turn()
    thread.stop()
    assert (done, results) == (["done"], [CancelledError])


def test_the_thread_does_not_keep_the_process_alive() -> None:
    reactor, results = Turns(), list[bool | Exception]()
    thread = DaemonThreads(reactor, "test")
    thread.run(lambda: current_thread().daemon, results.append)
    reactor.turn()
    thread.stop()
    assert results == [True]


def test_the_thread_ends_when_it_is_stopped() -> None:
    reactor, threads = Turns(), list[Any]()  # Any: the thread, or what went wrong
    thread = DaemonThreads(reactor, "test")
    thread.run(current_thread, threads.append)
    reactor.turn()
    thread.stop()
    threads[0].join(WAIT_SECONDS)
    assert not threads[0].is_alive()


def test_a_pipe_that_nobody_reads_holds_up_the_thread_alone() -> None:
    clock, reactor = Clock(), Turns()
    reader, sender = os.pipe()
    lines = LineWriter(
        "pipe", clock, DaemonThreads(reactor, "pipe"), lambda: DescriptorOutput(sender), max_bytes=300_000
    )
    recorded = [b"%06d%s\n" % (number, b"x" * 993) for number in range(1000)]
    for line in recorded:
        lines.write_block(line)
        clock.advance(INTERVAL)
    closed, read = lines.close(within=WAIT_SECONDS), bytearray()
    ended = Event()
    thread = DaemonThreads(reactor, "reader")

    def read_all() -> None:
        while data := os.read(reader, 65536):
            read.extend(data)

    def over(_: Exception | None) -> None:
        ended.set()

    thread.run(read_all, over)
    while not closed.called:
        reactor.turn()
        clock.advance(0)
    os.close(sender)
    while not ended.is_set():
        reactor.turn()
    thread.stop()
    os.close(reader)
    found = bytes(read).splitlines(keepends=True)
    assert found == [line for line in recorded if line in set(found)]
    assert len(found) + lines.dropped == len(recorded)
    assert lines.dropped > 0
    assert found[-1] == recorded[-1]


class Started:
    """A thread that only notes what it is to do, or cannot be started."""

    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.works: list[Callable[[], Any]] = []
        self.is_stopped = False

    def run(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        if self.error is not None:
            raise self.error
        self.works.append(work)

    def stop(self) -> None:
        self.is_stopped = True


def turn(clock: Clock) -> None:
    """Call what is due, as a turn of a reactor does: what that wants to have called waits for the next."""
    calls, clock.calls = clock.calls, []
    for call in calls:
        call.func(*call.args, **call.kw)


def test_work_for_the_next_turn_starts_when_the_reactor_has_sent() -> None:
    clock, thread = Clock(), Started()
    runner, work = NextTurnRunner(clock, thread), list[int]
    runner.run(work, lambda _: None)
    assert thread.works == []
    turn(clock)  # what is due is called before anything is sent
    assert thread.works == []
    turn(clock)
    assert thread.works == [work]
    runner.stop()
    assert thread.is_stopped


def test_work_for_the_next_turn_fails_where_no_thread_starts() -> None:
    clock, results = Clock(), list[Any]()
    trouble = OSError("none left")
    NextTurnRunner(clock, Started(trouble)).run(list[int], results.append)
    clock.advance(0)
    assert results == [trouble]
