"""Process large bodies in threads, so that the reactor stays responsive.

Two things bound how long one request holds all others: how much a body may ask for (each parser's limits),
and where it is done.  Python lets another thread go on every few milliseconds, whatever this one is at, but
not in the middle of one call into C, such as the decoding of JSON: those are kept short by the limits.

What runs in a thread owns what it works on, and hands its result back; it touches nothing that others change.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads

from mgw.nouns.errors import GatewayError, Reason, forget_frames
from mgw.reactor.daemon_threads import DaemonThreads

T = TypeVar("T")

THREADS: Final = 2
"""They share one interpreter: more of them would only keep the reactor waiting longer."""
MOST_WAITING: Final = 64
"""How many requests may wait for a thread, those that have one included; their bodies count elsewhere."""
SMALL_BYTES: Final = 64 * 1024
"""Bodies up to this size are never worth a thread, whatever they hold."""
LARGE_BYTES: Final = 256 * 1024
"""Larger ones always are, where they are parsed."""
SEARCHED_BYTES: Final = 1024 * 1024
"""Larger ones are, where they are only searched."""
_MANY_OBJECTS: Final = 2_000
"""The number of objects that take a few milliseconds."""
CODED_BYTES: Final = 8 * 1024
"""Larger ones are, where they have a content coding: they may grow a thousandfold."""


class Offload(Protocol):
    """Does work for somebody who waits for it, here or in a thread."""

    def __call__(self, work: Callable[[], T], /) -> Deferred[T]:
        """Fire with what ``work`` returns or raises; cancel to hear no more of it."""
        ...


def run_inline(work: Callable[[], T], /) -> Deferred[T]:
    """Do the work at once, in this thread."""
    try:
        return succeed(work())
    except Exception as error:  # whatever it is goes to whoever waits
        return fail(_without_frames(error))


def _without_frames(error: Exception) -> Exception:
    """Return an error that, where it is a refusal, does not keep what was refused: failures live long."""
    if isinstance(error, GatewayError):
        forget_frames(error)
    return error


async def maybe_offload(offload: Offload, work: Callable[[], T], *, large: bool) -> T:
    """Return what ``work`` returns, done by ``offload`` where it is large, else here."""
    return await offload(work) if large else work()


def run_until_waiting(coroutine: Coroutine[Deferred[Any], Any, T]) -> T | Deferred[T]:
    """Return what a coroutine returns; where it has to wait, the Deferred that will fire with it.

    ``Deferred.fromCoroutine`` costs several times what a coroutine does that returns at once, as most do:
    what is small is done where it is.  What the coroutine raises before it waits is raised here.
    """
    try:
        _ = coroutine.send(None)
    except StopIteration as returned:
        return cast(T, returned.value)
    # The coroutine stands at the Deferred that it awaits, which it is asked for once more.
    return Deferred.fromCoroutine(coroutine)


def takes_long(body: bytes, most_bytes: int) -> bool:
    """Whether understanding a conversation takes so long that others should not wait for it.

    :param most_bytes: a larger one does, whatever it holds.
    """
    size = len(body)
    return size > most_bytes or (size > SMALL_BYTES and body.count(b"{") > _MANY_OBJECTS)


class WorkThreads:
    """The threads that work is offloaded to."""

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
            return run_inline(work)
        if self._waiting >= MOST_WAITING:
            return fail(_overloaded("the gateway is busy with other large request bodies"))
        job = [work]
        done: Deferred[T] = Deferred(lambda _: job.clear())

        def run_unless_cancelled() -> T | None:
            return job.pop()() if job else None

        def on_result(result: T | Exception | None) -> None:
            self._waiting -= 1
            if done.called:  # whoever waited has left
                return
            if isinstance(result, Exception):
                done.errback(_without_frames(result))
            else:
                done.callback(result)  # type: ignore[arg-type]  # None of ours only where it was cancelled

        try:
            self._threads.run(run_unless_cancelled, on_result)
        except OSError:
            return fail(_overloaded("the system could not start a thread for a large request body"))
        self._waiting += 1
        return done

    def stop(self) -> None:
        """Let the threads end when they have done what was given so far."""
        self._stopped = True
        self._threads.stop()


def _overloaded(why: str) -> GatewayError:
    return GatewayError(Reason.OVERLOADED, f"{why}; try again", retry_after=1.0)
