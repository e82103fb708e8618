"""How many callers' tokens are exchanged at one endpoint at a time, and how long others wait for that.

After a start, and when the tokens of many callers end together, thousands of callers may come within a
second.  An endpoint would reject most of as many connections, or the process would run out of descriptors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from mgw.credentials.token_request import REQUEST_SECONDS, TokenRequestError, TokenResponse

MAX_EXCHANGES: Final = 50
"""How many exchanges are in progress at one endpoint; with one more, that one waits."""
WAIT_SECONDS: Final = REQUEST_SECONDS
"""How long an exchange waits before it fails: as long as it may take then."""
_FAILED_AT_ONCE: Final = 64
"""How many fail before the reactor does something else: each answers requests, and thousands may wait."""

_BUSY: Final = (
    f"the provider's token endpoint is too slow: {MAX_EXCHANGES} exchanges were in progress for "
    f"{WAIT_SECONDS:g} s; try again later"
)

Exchange = Callable[[], Coroutine[Deferred[Any], Any, TokenResponse]]


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class ExchangeQueue:
    """The exchanges at one endpoint, of all providers that use it; first come, first served."""

    clock: IReactorTime
    _in_progress: int = 0
    _waiting: OrderedDict[Deferred[None], float] = field(default_factory=OrderedDict)
    """Those that wait, with the time at which they fail; the one that came first is first."""
    _timer: IDelayedCall | None = None
    """Fires when the first of them fails, or before."""
    _is_starting: bool = False

    async def run(self, exchange: Exchange) -> TokenResponse:
        """Return the result of an exchange, which begins when it is its turn.

        :raises TokenRequestError: that took too long, or the exchange failed.
        """
        if self._in_progress >= MAX_EXCHANGES:
            await self._wait()  # it is counted by whoever starts it
        else:
            self._in_progress += 1
        try:
            return await exchange()
        finally:
            self._in_progress -= 1
            self._start_waiting()

    def _wait(self) -> Deferred[None]:
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting[waiter] = self.clock.seconds() + WAIT_SECONDS
        if self._timer is None:
            self._timer = self.clock.callLater(WAIT_SECONDS, self._on_time)
        return waiter

    def _forget(self, waiter: Deferred[None]) -> None:
        self._waiting.pop(waiter, None)

    def _start_waiting(self) -> None:
        if self._is_starting:
            return  # an exchange that was started below has ended at once: no recursion for thousands of them
        self._is_starting = True
        try:
            while self._waiting and self._in_progress < MAX_EXCHANGES:
                waiter, _ = self._waiting.popitem(last=False)
                self._in_progress += 1
                waiter.callback(None)
        finally:
            self._is_starting = False
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer, now = None, self.clock.seconds()
        for _ in range(_FAILED_AT_ONCE):
            if not self._waiting or next(iter(self._waiting.values())) > now:
                break
            waiter, _ = self._waiting.popitem(last=False)
            waiter.errback(TokenRequestError(_BUSY))
        if self._waiting and self._timer is None:
            first = next(iter(self._waiting.values()))
            self._timer = self.clock.callLater(max(0.0, first - now), self._on_time)
