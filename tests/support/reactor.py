"""The real reactor for tests with sockets: started once, in a thread of its own, for the whole run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cache
from threading import Event, Thread
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread

from tests.support.waiting import WAIT_SECONDS

T = TypeVar("T")


@cache
def running_reactor() -> Any:  # Any: Twisted types its reactor as a module
    """Return the global reactor; it runs from the first call to the end of the process."""
    from twisted.internet import reactor

    started = Event()
    Thread(target=reactor.run, kwargs={"installSignalHandlers": False}, name="reactor", daemon=True).start()
    reactor.callWhenRunning(started.set)
    started.wait()
    return reactor


def in_reactor(work: Callable[[], Coroutine[Deferred[Any], Any, T]], *, seconds: float = WAIT_SECONDS) -> T:
    """Run the coroutine that ``work`` makes in the reactor's thread; return its result or raise its error."""
    reactor = running_reactor()

    def begin() -> Any:  # Any: mypy finds no solution for the union that blockingCallFromThread takes
        return Deferred.fromCoroutine(work()).addTimeout(seconds, reactor)

    result: T = blockingCallFromThread(reactor, begin)
    return result
