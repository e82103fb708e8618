"""Do once what several callers ask for at the same time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Share one run of work among all who ask for the same key while it runs.

    Cancelling a waiter affects that waiter only.  The work goes on even when nobody waits: its result may be
    cached for the next caller.  A failure goes to all who wait.
    """

    def __init__(self) -> None:
        self._waiters: dict[Hashable, dict[Deferred[T], None]] = {}
        """The waiters of each run, in order of arrival."""

    def run(self, key: Hashable, work: Callable[[], Coroutine[Deferred[Any], Any, T]]) -> Deferred[T]:
        """Fire with the result of the work for ``key``, whether it starts now or is already running."""
        waiters = self._waiters.get(key)
        is_first = waiters is None
        if waiters is None:
            waiters = self._waiters[key] = {}
        waiter: Deferred[T] = Deferred(waiters.pop)
        waiters[waiter] = None
        if is_first:
            _ = Deferred.fromCoroutine(work()).addBoth(self._on_done, key)
        return waiter

    def _on_done(self, result: T | Failure, key: Hashable) -> None:
        waiters = self._waiters.pop(key)  # our own state first: a waiter may ask again at once
        for waiter in list(waiters):
            if waiter.called:  # left while another was being told
                continue
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)


async def gather(works: Iterable[Coroutine[Deferred[Any], Any, T]]) -> list[T]:
    """Run all at the same time, and return their results in order.

    Cancelling it cancels each.  If one raises, its exception is raised when all are done.
    """
    children = [Deferred.fromCoroutine(work) for work in works]
    ended: list[tuple[bool, Any]] = await DeferredList(children, consumeErrors=True)  # Any: or a failure
    results: list[T] = []
    for succeeded, result in ended:
        if not succeeded:
            result.raiseException()
        results.append(result)
    return results
