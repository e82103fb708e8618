"""Work that many ask for at the same time and that is done once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Share one run of work among all who ask for the same while it runs.

    A waiter that is cancelled leaves alone.  The work goes on even when nobody waits: whoever asks next
    finds its result kept.  A failure goes to all who wait.
    """

    def __init__(self) -> None:
        self._waiters: dict[Hashable, dict[Deferred[T], None]] = {}
        """Those of each run, in the order in which they came."""

    def run(self, key: Hashable, work: Callable[[], Coroutine[Deferred[Any], Any, T]]) -> Deferred[T]:
        """Return what the work for ``key`` comes to, whether it begins now or is under way."""
        waiters = self._waiters.get(key)
        begins = waiters is None
        if waiters is None:
            waiters = self._waiters[key] = {}
        waiter: Deferred[T] = Deferred(waiters.pop)
        waiters[waiter] = None
        if begins:
            _ = Deferred.fromCoroutine(work()).addBoth(self._land, key)
        return waiter

    def _land(self, result: T | Failure, key: Hashable) -> None:
        waiters = self._waiters.pop(key)  # our own state first: a waiter may ask again at once
        for waiter in list(waiters):
            if waiter.called:  # left while another was being told
                continue
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)


async def together(works: Iterable[Coroutine[Deferred[Any], Any, T]]) -> list[T]:
    """Do all at once, and return what each came to, in order.

    Whoever cancels the whole cancels each.  What one raises is raised when all are done.
    """
    children = [Deferred.fromCoroutine(work) for work in works]
    ended: list[tuple[bool, Any]] = await DeferredList(children, consumeErrors=True)  # Any: or a failure
    results: list[T] = []
    for succeeded, result in ended:
        if not succeeded:
            result.raiseException()
        results.append(result)
    return results
