"""When the keys of one source are fetched: at once, then again and again, and when somebody asks for them.

::

    waiting ──(time is up, asked)──► fetching ──(done, failed, too late)──► waiting

A fetch that fails is tried again after a second, then after twice as long each time.  Who asks waits for the
fetch under way, or has one begun; of those that begin so, there is at most one in a time.  Who has no keys at
all waits for the very first fetch alone: later ones may fail for hours.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.identity.key_source import FetchedKeys, KeyFetchError

FETCH_SECONDS: Final = 10.0
"""How long a fetch may take, with discovery, files and parsing."""
WAIT_SECONDS: Final = 5.0
"""How long somebody who asks waits."""
FIRST_RETRY_SECONDS: Final = 1.0
_MOST_DOUBLINGS: Final = 16
_RELEASED_AT_ONCE: Final = 64
"""How many go on before the reactor does something else: each may be a request, and thousands may wait."""
_log: Final = Logger()


class Pace(Struct, frozen=True):
    """How often a source may be used."""

    asked: float
    """The least seconds between two fetches that begin because somebody asks."""
    longest_retry: float
    """After how many seconds, at most, one that has failed is tried again."""


OVER_HTTP: Final = Pace(asked=60.0, longest_retry=60.0)


@dataclass(slots=True, eq=False, repr=False)
class Waiters:
    """Those who wait for the same thing, each for :data:`WAIT_SECONDS` at most."""

    clock: IReactorTime
    _timers: dict[Deferred[None], IDelayedCall] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._timers)

    def wait(self) -> Deferred[None]:
        """Return what fires at the end of the wait, whatever that is; cancelling affects nobody else."""
        waiter: Deferred[None] = Deferred(self._forget)
        self._timers[waiter] = self.clock.callLater(WAIT_SECONDS, self._release, waiter)
        return waiter

    def release_all(self) -> None:
        """Let all go on, those that came first at once."""
        self._release_some(list(self._timers))

    def _release_some(self, waiting: list[Deferred[None]]) -> None:
        if len(waiting) > _RELEASED_AT_ONCE:
            self.clock.callLater(0, self._release_some, waiting[_RELEASED_AT_ONCE:])
        for waiter in waiting[:_RELEASED_AT_ONCE]:
            self._release(waiter)

    def _release(self, waiter: Deferred[None]) -> None:
        if waiter in self._timers:  # else it has left while another went on
            self._forget(waiter)
            waiter.callback(None)

    def _forget(self, waiter: Deferred[None]) -> None:
        _cancel(self._timers.pop(waiter))


@dataclass(slots=True, eq=False, repr=False)
class KeyRefresh:
    """Fetches the keys of one source.

    :param monotonic: seconds on a clock that nobody sets.
    :param fetch: raises :class:`KeyFetchError`; is cancelled if it takes too long.
    :param on_done: takes what each fetch has come to, before those who wait go on.
    :param most_seconds: after how long, at most, keys are fetched again.
    """

    clock: IReactorTime
    monotonic: Callable[[], float]
    fetch: Callable[[], Coroutine[Deferred[Any], Any, FetchedKeys]]
    on_done: Callable[[FetchedKeys | KeyFetchError], None]
    pace: Pace
    most_seconds: float
    _timer: IDelayedCall | None = None
    _due: float = 0.0
    """When the next fetch is due, on the monotonic clock."""
    _flight: Deferred[Any] | None = None
    _limit: IDelayedCall | None = None
    _has_fetched: bool = False
    """Whether the first fetch is done, whatever it has come to."""
    _failures: int = 0
    """How many fetches have failed, one after another."""
    _asked_again: float = float("-inf")
    """From when on asking begins another fetch."""
    _waiters: Waiters = field(init=False)
    _is_stopped: bool = False

    def __post_init__(self) -> None:
        self._waiters = Waiters(self.clock)

    def begin(self) -> None:
        """Fetch, now and from now on."""
        if self._flight is None:
            self._begin_fetch()

    def stop(self) -> None:
        """Fetch nothing more; whoever waits goes on."""
        self._is_stopped = True
        _cancel(self._timer)
        if self._flight is not None:
            self._flight.cancel()
        self._waiters.release_all()

    def bound(self, most_seconds: float) -> None:
        """Fetch again after so many seconds at most, also for the keys that there are."""
        self.most_seconds = most_seconds
        if self._timer is not None and self._timer.active():
            rest = self._due - self.monotonic()
            if rest > most_seconds:
                self._schedule(most_seconds)

    def hurry(self) -> None:
        """Fetch if that is overdue: timers go by a clock that may have been set back."""
        if self._flight is None and self._timer is not None and self.monotonic() > self._due:
            self._begin_fetch()

    def ask(self) -> Deferred[None] | None:
        """Return what fires when a fetch is done, or after :data:`WAIT_SECONDS`; ``None``: it is too early.

        Cancelling leaves the fetch under way.
        """
        if self._is_stopped:
            return None
        if self._flight is None and self.monotonic() < self._asked_again:
            return None
        waiter = self._waiters.wait()
        if self._flight is None:
            self._asked_again = self.monotonic() + self.pace.asked
            self._begin_fetch()
        return waiter

    def first(self) -> Deferred[None] | None:
        """Return what fires when the first fetch is done, or after :data:`WAIT_SECONDS`; ``None``: it is."""
        is_under_way = self._flight is not None and not self._has_fetched and not self._is_stopped
        return self._waiters.wait() if is_under_way else None

    @property
    def seconds_to_ask(self) -> float:
        """For how long nobody who asks has a fetch begun."""
        return max(0.0, self._asked_again - self.monotonic())

    def _begin_fetch(self) -> None:
        _cancel(self._timer)
        self._timer = None
        self._flight = flight = Deferred.fromCoroutine(self.fetch())
        self._limit = self.clock.callLater(FETCH_SECONDS, flight.cancel)
        _ = flight.addBoth(self._on_fetched)

    def _on_fetched(self, result: FetchedKeys | Failure) -> None:
        _cancel(self._limit)
        self._flight, self._has_fetched = None, True
        if self._is_stopped:
            return
        found = _fault_of(result) if isinstance(result, Failure) else result
        if isinstance(found, KeyFetchError):
            seconds = min(FIRST_RETRY_SECONDS * 2**self._failures, self.pace.longest_retry)
            self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        else:
            seconds, self._failures = min(found.seconds, self.most_seconds), 0
        self._schedule(seconds)
        try:
            self.on_done(found)
        except Exception:  # a bug in whoever is told must not end the fetches
            _log.failure("internal error: the keys of an issuer were not taken over")
        self._waiters.release_all()

    def _schedule(self, seconds: float) -> None:
        _cancel(self._timer)
        self._due = self.monotonic() + seconds
        self._timer = self.clock.callLater(seconds, self._begin_fetch)


def _fault_of(failure: Failure) -> KeyFetchError:
    if isinstance(failure.value, KeyFetchError):
        return failure.value
    if failure.check(CancelledError):
        return KeyFetchError(f"no complete answer within {FETCH_SECONDS:g} s")
    _log.failure("internal error: the keys of an issuer could not be fetched", failure)
    return KeyFetchError("internal error; see the log")


def _cancel(timer: IDelayedCall | None) -> None:
    if timer is not None and timer.active():
        timer.cancel()
