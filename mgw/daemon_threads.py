"""Threads that do what may block: writing to a pipe whose reader sleeps, or to a disk that stalls.

They start with the first piece of work (so that twistd may fork before) and are daemons: what never ends must
not keep the process from ending.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from twisted.internet.interfaces import IReactorFromThreads

T = TypeVar("T")


@dataclass(slots=True)
class DaemonThreads:
    """At most ``most`` threads with one line of work; one thread alone does it in the order given."""

    reactor: IReactorFromThreads
    name: str
    most: int = 1
    _queue: SimpleQueue[Callable[[], None] | None] = field(default_factory=SimpleQueue, repr=False)
    _threads: list[Thread] = field(default_factory=list, repr=False)

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Do ``work`` elsewhere; ``then`` gets its result, or what it raised, on the reactor's thread.

        :raises OSError: the system gives no thread at all; the next work asks it again.
        """

        def attempt() -> None:
            result: T | Exception
            try:
                result = work()
            except Exception as error:
                result = error
            self.reactor.callFromThread(then, result)

        if len(self._threads) < self.most:
            self._start_the_missing()
        self._queue.put(attempt)

    def stop(self) -> None:
        """Let the threads end when they have done what was given so far."""
        for _ in self._threads:
            self._queue.put(None)

    def _start_the_missing(self) -> None:
        for number in range(len(self._threads), self.most):
            name = self.name if self.most == 1 else f"{self.name}-{number}"
            thread = Thread(target=_serve, args=(self._queue,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # "can't start new thread"
                break
            self._threads.append(thread)
        if not self._threads:
            raise OSError(errno.EAGAIN, "the system gives no thread")


def _serve(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (attempt := queue.get()) is not None:
        attempt()
        del attempt  # what it worked on may be large, and the next may be long in coming
