"""What large bodies cost is paid in a thread, so that the reactor turns meanwhile.

Two things bound how long one request holds all others: how much a body may ask for (each parser's limits),
and where it is done.  Python lets another thread go on every few milliseconds, whatever this one is at, but
not in the middle of one call into C, such as the decoding of JSON: those are kept short by the limits.

What runs aside owns what it works on, and hands its result back; it touches nothing that others change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads

from mgw.errors import GatewayError, Reason
from mgw.exchange.tracebacks import forget_frames
from mgw.reactor.daemon_threads import DaemonThreads

T = TypeVar("T")

THREADS: Final = 2
"""They take turns at one interpreter: more of them would only keep the reactor waiting longer."""
MOST_WAITING: Final = 64
"""How many requests may wait for a thread, those that have one included; their bodies count elsewhere."""
SMALL_BYTES: Final = 64 * 1024
"""What is never worth a thread, whatever it holds."""
LARGE_BYTES: Final = 256 * 1024
"""What always is, where it is taken apart."""
SEARCHED_BYTES: Final = 1024 * 1024
"""What is, where it is only searched."""
CODED_BYTES: Final = 8 * 1024
"""What is, where it has a content coding: it may swell a thousand times."""


class Aside(Protocol):
    """Whoever does work for somebody who waits for it."""

    def __call__(self, work: Callable[[], T], /) -> Deferred[T]:
        """Fire with what ``work`` returns or raises; cancel to hear no more of it."""
        ...


def here(work: Callable[[], T], /) -> Deferred[T]:
    """Do the work at once."""
    try:
        return succeed(work())
    except Exception as error:  # whatever it is goes to whoever waits
        return fail(_forgetful(error))


def _forgetful(error: Exception) -> Exception:
    """Return an error that, where it is a refusal, does not hold what was refused: a failure lasts long."""
    if isinstance(error, GatewayError):
        forget_frames(error)
    return error


async def done(aside: Aside, work: Callable[[], T], *, large: bool) -> T:
    """Return what ``work`` returns: done aside where it is large, else here."""
    return await aside(work) if large else work()


class WorkThreads:
    """The threads that do it."""

    def __init__(self, reactor: IReactorFromThreads) -> None:
        self._threads = DaemonThreads(reactor, "mgw-work", THREADS)
        self._waiting = 0
        self._stopped = False

    def run(self, work: Callable[[], T], /) -> Deferred[T]:
        """Run ``work`` in one of the threads; what nobody waits for any more is not begun.

        Fails with :class:`GatewayError` (``OVERLOADED``) where too much waits already, or the system gives no
        thread.
        """
        if self._stopped:
            return here(work)
        if self._waiting >= MOST_WAITING:
            return fail(_overloaded("the gateway is busy with other large request bodies"))
        job = [work]
        done: Deferred[T] = Deferred(lambda _: job.clear())

        def attempt() -> T | None:
            return job.pop()() if job else None

        def tell(result: T | Exception | None) -> None:
            self._waiting -= 1
            if done.called:  # whoever waited has left
                return
            if isinstance(result, Exception):
                done.errback(_forgetful(result))
            else:
                done.callback(result)  # type: ignore[arg-type]  # None of ours only where it was cancelled

        try:
            self._threads.run(attempt, tell)
        except OSError:
            return fail(_overloaded("the system has no thread left for a large request body"))
        self._waiting += 1
        return done

    def stop(self) -> None:
        """Let the threads end when they have done what was given so far."""
        self._stopped = True
        self._threads.stop()


def _overloaded(why: str) -> GatewayError:
    return GatewayError(Reason.OVERLOADED, f"{why}; try again", retry_after=1.0)
