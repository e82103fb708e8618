"""One thread that does what may block: writing to a pipe whose reader sleeps, or to a disk that stalls.

It starts with the first piece of work (so that twistd may fork before) and is a daemon: a write that never
ends must not keep the process from ending.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

from twisted.internet.interfaces import IReactorFromThreads

T = TypeVar("T")


class Runner(Protocol):
    """Who does the work that may block, in the order given."""

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Do ``work`` elsewhere; ``then`` gets its result, or what it raised, on the reactor's thread."""
        ...

    def stop(self) -> None:
        """End when the work given so far is done."""
        ...


@dataclass(slots=True)
class WriterThread:
    """A :class:`Runner` with a thread of its own."""

    reactor: IReactorFromThreads
    name: str
    _queue: SimpleQueue[Callable[[], None] | None] = field(default_factory=SimpleQueue, repr=False)
    _thread: Thread | None = field(default=None, repr=False)

    def run(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Do ``work`` on the thread."""

        def attempt() -> None:
            result: T | Exception
            try:
                result = work()
            except Exception as error:
                result = error
            self.reactor.callFromThread(then, result)

        if self._thread is None:
            self._thread = Thread(target=_serve, args=(self._queue,), name=self.name, daemon=True)
            self._thread.start()
        self._queue.put(attempt)

    def stop(self) -> None:
        """Let the thread end when it has done what it was given."""
        self._queue.put(None)


def _serve(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (attempt := queue.get()) is not None:
        attempt()
