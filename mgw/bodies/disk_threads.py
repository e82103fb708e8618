"""The threads that touch the disk: few, started with the first work, and never the reactor's own.

They are daemons: a disk that hangs must not keep the process from ending.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.python.failure import Failure

T = TypeVar("T")

THREADS: Final = 4
"""A disk serves a few at a time; what comes later waits in line."""


@dataclass(slots=True)
class DiskThreads:
    """Where a :class:`mgw.bodies.spool.Spool` has its work done.

    The threads begin with the first work, so that twistd may fork before.
    """

    reactor: IReactorFromThreads
    _queue: SimpleQueue[Callable[[], None] | None] = field(default_factory=SimpleQueue, repr=False)
    _threads: list[Thread] = field(default_factory=list)
    _stopped: bool = False

    def run(self, work: Callable[[], T], /) -> Deferred[T]:
        """Run ``work`` in one of the threads; after :meth:`stop`, when little is left to close, here.

        Fails with :class:`OSError` where the system gives no thread at all; the next work asks it again.
        """
        if self._stopped:
            return maybeDeferred(work)
        if len(self._threads) < THREADS:
            self._start_the_missing()
        if not self._threads:
            return fail(OSError(errno.EAGAIN, "the system gives no thread for the disk"))
        done: Deferred[T] = Deferred(_stay)
        self._queue.put(lambda: self._attempt(work, done))
        return done

    def stop(self) -> None:
        """Let the threads end when they have done what was given so far."""
        self._stopped = True
        for _ in self._threads:
            self._queue.put(None)

    def _start_the_missing(self) -> None:
        for number in range(len(self._threads), THREADS):
            thread = Thread(target=_serve, args=(self._queue,), name=f"mgw-spool-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # "can't start new thread"
                return
            self._threads.append(thread)

    def _attempt(self, work: Callable[[], T], done: Deferred[T]) -> None:
        try:
            result: T | Failure = work()
        except Exception:  # whatever it is belongs to whoever waits
            result = Failure()
        self.reactor.callFromThread(_tell, done, result)


def _tell(done: Deferred[T], result: T | Failure) -> None:
    if done.called:
        return
    if isinstance(result, Failure):
        done.errback(result)
    else:
        done.callback(result)


def _stay(_: Deferred[T]) -> None:
    """Work that has begun is finished, whether or not somebody waits for it."""


def _serve(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (attempt := queue.get()) is not None:
        attempt()
