"""Threads for work that may block: a write to a pipe with a sleeping reader, or to a stalled disk.

They start with the first piece of work (so that twistd may fork before) and are daemons: work that never ends
must not keep the process from ending.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime

T = TypeVar("T")


class ThreadRunner(Protocol):
    """Runs work that may block: :meth:`DaemonThreads.defer` does."""

    def __call__(self, work: Callable[[], T], /) -> Deferred[T]:
        """Run ``work`` elsewhere; fires with what it returns or raises."""
        ...


class SerialRunner(Protocol):
    """Runs work that may block, in the order given: :class:`DaemonThreads` with a single thread does."""

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Run ``work`` elsewhere; ``then`` gets its result, or what it raised, on the reactor's thread."""
        ...

    def stop(self) -> None:
        """End when the work given so far is done."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class NextTurnRunner:
    """Starts work when the reactor has sent what was written before: a busy thread would delay that.

    A turn of the reactor calls what is due, then sends; hence the second call.
    """

    clock: IReactorTime
    threads: SerialRunner

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Run ``work`` as :meth:`DaemonThreads.run` does; ``then`` gets an :class:`OSError`, too."""
        self.clock.callLater(0, self.clock.callLater, 0, self._start, work, then)

    def stop(self) -> None:
        """End when the work that has started is done; that of the last turn must have started."""
        self.threads.stop()

    def _start(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        try:
            self.threads.run(work, then)
        except OSError as error:
            then(error)


@dataclass(slots=True, eq=False, repr=False)
class DaemonThreads:
    """Threads that share one queue, at most ``max_threads``; a single thread keeps the order of the work."""

    reactor: IReactorFromThreads
    name: str
    max_threads: int = 1
    _queue: SimpleQueue[Callable[[], None] | None] = field(default_factory=SimpleQueue)
    _threads: list[Thread] = field(default_factory=list)

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Run ``work`` in a thread; ``then`` gets its result, or what it raised, on the reactor's thread.

        :raises OSError: the system could not start a thread at all; the next call asks it again.
        """

        def attempt() -> None:
            result: T | Exception
            try:
                result = work()
            except Exception as error:
                result = error
            self.reactor.callFromThread(then, result)

        if len(self._threads) < self.max_threads:
            self._start_threads()
        self._queue.put(attempt)

    def defer(self, work: Callable[[], T], /) -> Deferred[T]:
        """Run ``work`` in a thread, and fire with what it returns or raises.

        Cancelling leaves it: it is finished, whether or not somebody waits.  Fails with :class:`OSError` as
        :meth:`run` does.
        """
        done: Deferred[T] = Deferred(lambda _: None)

        def on_result(result: T | Exception) -> None:
            if done.called:  # whoever waited has left
                return
            if isinstance(result, Exception):
                done.errback(result)
            else:
                done.callback(result)

        try:
            self.run(work, on_result)
        except OSError as error:
            return fail(error)
        return done

    def stop(self) -> None:
        """Let the threads end when the work given so far is done."""
        for _ in self._threads:
            self._queue.put(None)

    def _start_threads(self) -> None:
        for number in range(len(self._threads), self.max_threads):
            name = self.name if self.max_threads == 1 else f"{self.name}-{number}"
            thread = Thread(target=_run_queue, args=(self._queue,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # "can't start new thread"
                break
            self._threads.append(thread)
        if not self._threads:
            raise OSError(errno.EAGAIN, "the system could not start a thread")


def _run_queue(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (attempt := queue.get()) is not None:
        attempt()
        del attempt  # its data may be large, and the next may be long in coming
