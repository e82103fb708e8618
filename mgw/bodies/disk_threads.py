"""The threads that touch the disk: few, and never the reactor's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.interfaces import IReactorFromThreads

from mgw.reactor.daemon_threads import DaemonThreads

T = TypeVar("T")

THREADS: Final = 4
"""A disk serves a few at a time; what comes later waits in line."""


class DiskThreads:
    """Where a :class:`mgw.bodies.spool.Spool` has its work done."""

    def __init__(self, reactor: IReactorFromThreads) -> None:
        self._threads = DaemonThreads(reactor, "mgw-spool", THREADS)
        self._stopped = False

    def run(self, work: Callable[[], T], /) -> Deferred[T]:
        """Run ``work`` in one of the threads; after :meth:`stop`, when little is left to close, here.

        Fails with :class:`OSError` where the system gives no thread at all.
        """
        if self._stopped:
            return maybeDeferred(work)
        done: Deferred[T] = Deferred(_stay)

        def tell(result: T | Exception) -> None:
            if done.called:  # whoever waited has left
                return
            if isinstance(result, Exception):
                done.errback(result)
            else:
                done.callback(result)

        try:
            self._threads.run(work, tell)
        except OSError as error:
            return fail(error)
        return done

    def stop(self) -> None:
        """Let the threads end when they have done what was given so far."""
        self._stopped = True
        self._threads.stop()


def _stay(_: Deferred[T]) -> None:
    """Work that has begun is finished, whether or not somebody waits for it."""
