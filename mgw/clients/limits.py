"""One client's limits, and how much of them it has used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from mgw.clients.window import Entry, SlidingWindow

BUSY_SECONDS: Final = 1.0
"""The seconds after which a client may try again that has too many requests in flight."""


class Limits(Struct, frozen=True):
    """What one client may do; ``None``: as much as it likes."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_in_flight: int | None = None


class Permit(Struct, eq=False):
    """Stands for a request that was counted; each kind of counts has a class of its own for it."""


class LocalPermit(Permit, eq=False):
    """A request that :class:`LocalCounts` has counted."""

    window: SlidingWindow | None = None
    """The window of requests, if they are limited."""
    entry: Entry | None = None
    """The request's entry in that window."""


class LimitReached(Struct, frozen=True):
    """Says which limit a request would exceed, which was not counted."""

    limit: str
    """The name of the setting."""
    most: int
    """The value of the setting."""
    seconds: float
    """How long until the request would be admitted, if nothing else happens until then."""


class ClientCounts(Protocol):
    """How much of its limits one client has used; several processes may share it."""

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many requests were not admitted, by the setting that stood against them."""
        ...

    def use(self, limits: Limits) -> None:
        """Obey other limits from now on; what was counted stays."""
        ...

    def acquire(self, now: float) -> Permit | LimitReached | Awaitable[Permit | LimitReached]:
        """Count a request that begins, or say what stands against it: then nothing is counted.

        Where the answer has to come from elsewhere, this is the Deferred that will fire with it.  Nobody
        cancels it; it should not fail, and fires within a few seconds, since the request waits for it.  For
        each :class:`Permit` there is one call of :meth:`release`, also where its request did not wait.

        :param now: seconds of the process's clock.
        """
        ...

    def release(self, permit: Permit, now: float, tokens: int, *, refused: bool) -> None:
        """Count the end of a request, and the tokens that it took; does not wait, and never raises.

        :param permit: what :meth:`acquire` has answered.
        :param refused: by the gateway: then it never counted.
        """
        ...


CountsFactory = Callable[[str, Limits], ClientCounts]
"""Makes the counts of a client, by the name of its key."""


class LocalCounts:
    """The counts of a client of this process alone."""

    __slots__ = ("_in_flight", "_limits", "_refusals", "_requests", "_tokens")

    def __init__(self, limits: Limits) -> None:
        self._in_flight = 0
        self._requests: SlidingWindow | None = None
        self._tokens: SlidingWindow | None = None
        self._refusals: dict[str, int] = {}
        self.use(limits)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self._in_flight

    @property
    def refusals(self) -> Mapping[str, int]:
        """How many requests were not admitted, by the setting that stood against them."""
        return self._refusals

    def use(self, limits: Limits) -> None:
        """Obey other limits from now on; what was counted stays."""
        self._limits = limits
        for name, limit in asdict(limits).items():
            if limit is not None:
                self._refusals.setdefault(name, 0)
        self._requests = _limited(self._requests, limits.requests_per_minute, counts_single=True)
        self._tokens = _limited(self._tokens, limits.tokens_per_minute, counts_single=False)

    def acquire(self, now: float) -> LocalPermit | LimitReached:
        """Count a request that begins, or say what stands against it longest."""
        reached = self._limit_reached(now)
        if reached is not None:
            self._refusals[reached.limit] += 1
            return reached
        self._in_flight += 1
        requests = self._requests
        return LocalPermit() if requests is None else LocalPermit(requests, requests.add(now, 1))

    def release(self, permit: Permit, now: float, tokens: int, *, refused: bool) -> None:
        """Count the end of a request, and the tokens that it took."""
        assert isinstance(permit, LocalPermit), "it was counted here"
        self._in_flight -= 1
        if refused and permit.window is not None and permit.entry is not None:
            permit.window.take_back(permit.entry)
        if tokens and self._tokens is not None:
            self._tokens.add(now, tokens)

    def _limit_reached(self, now: float) -> LimitReached | None:
        limits, found = self._limits, None
        if limits.max_in_flight is not None and self._in_flight >= limits.max_in_flight:
            found = LimitReached("max_in_flight", limits.max_in_flight, BUSY_SECONDS)
        for name, window in (("requests_per_minute", self._requests), ("tokens_per_minute", self._tokens)):
            seconds = 0.0 if window is None else window.wait(now)
            if window is not None and seconds > (0.0 if found is None else found.seconds):
                found = LimitReached(name, window.limit, seconds)
        return found


def _limited(window: SlidingWindow | None, limit: int | None, *, counts_single: bool) -> SlidingWindow | None:
    """Return the window of a limit: the one before, where there is one."""
    if limit is None:
        return None
    if window is None:
        return SlidingWindow(limit, counts_single=counts_single)
    window.limit = limit
    return window
