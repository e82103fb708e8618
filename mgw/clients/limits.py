"""One client's limits, and how much of them it has used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from mgw.clients.window import Entry, SlidingWindow

BUSY_SECONDS: Final = 1.0
"""After which a client may try again that has too many requests in flight."""


class Limits(Struct, frozen=True):
    """What one client may do; ``None``: as much as it likes."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_in_flight: int | None = None


class Place(Struct, eq=False):
    """A request that was counted; what its counts want to know of it stands in classes of their own."""


class LocalPlace(Place, eq=False):
    """A request that :class:`LocalCounts` has counted."""

    window: SlidingWindow | None = None
    """Of requests, if there is one."""
    entry: Entry | None = None
    """Of that window."""


class Shortage(Struct, frozen=True):
    """A request that was not."""

    limit: str
    """The setting that stands against it."""
    most: int
    """Its value."""
    seconds: float
    """After which it would be admitted, if nothing else happens until then."""


class ClientCounts(Protocol):
    """How much of its limits one client has used; several processes may share it."""

    @property
    def shortages(self) -> Mapping[str, int]:
        """How many requests were not admitted, by the setting that stood against them."""
        ...

    def use(self, limits: Limits) -> None:
        """Obey other limits from now on; what was counted stays."""
        ...

    def begin(self, now: float) -> Place | Shortage | Awaitable[Place | Shortage]:
        """Count a request that begins, or say what stands against it: then nothing is counted.

        Where the answer has to come from elsewhere, this is the Deferred that will fire with it.  Nobody
        cancels it; it should not fail, and fires within a few seconds, since the request waits for it.  For
        each :class:`Place` there is one call of :meth:`end`, also where its request did not wait.

        :param now: seconds of the process's clock.
        """
        ...

    def end(self, place: Place, now: float, tokens: int, *, refused: bool) -> None:
        """Count the end of a request, and the tokens that it took; does not wait, and never raises.

        :param place: what :meth:`begin` has answered.
        :param refused: by the gateway: then it never counted.
        """
        ...


CountsFactory = Callable[[str, Limits], ClientCounts]
"""Makes the counts of a client, by the name of its key."""


class LocalCounts:
    """The counts of a client of this process alone."""

    __slots__ = ("_in_flight", "_limits", "_requests", "_shortages", "_tokens")

    def __init__(self, limits: Limits) -> None:
        self._in_flight = 0
        self._requests: SlidingWindow | None = None
        self._tokens: SlidingWindow | None = None
        self._shortages: dict[str, int] = {}
        self.use(limits)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self._in_flight

    @property
    def shortages(self) -> Mapping[str, int]:
        """How many requests were not admitted, by the setting that stood against them."""
        return self._shortages

    def use(self, limits: Limits) -> None:
        """Obey other limits from now on; what was counted stays."""
        self._limits = limits
        for name, limit in asdict(limits).items():
            if limit is not None:
                self._shortages.setdefault(name, 0)
        self._requests = _limited(self._requests, limits.requests_per_minute, counts_single=True)
        self._tokens = _limited(self._tokens, limits.tokens_per_minute, counts_single=False)

    def begin(self, now: float) -> LocalPlace | Shortage:
        """Count a request that begins, or say what stands against it longest."""
        shortage = self._shortage(now)
        if shortage is not None:
            self._shortages[shortage.limit] += 1
            return shortage
        self._in_flight += 1
        requests = self._requests
        return LocalPlace() if requests is None else LocalPlace(requests, requests.add(now, 1))

    def end(self, place: Place, now: float, tokens: int, *, refused: bool) -> None:
        """Count the end of a request, and the tokens that it took."""
        assert isinstance(place, LocalPlace), "it was counted here"
        self._in_flight -= 1
        if refused and place.window is not None and place.entry is not None:
            place.window.take_back(place.entry)
        if tokens and self._tokens is not None:
            self._tokens.add(now, tokens)

    def _shortage(self, now: float) -> Shortage | None:
        limits, found = self._limits, None
        if limits.max_in_flight is not None and self._in_flight >= limits.max_in_flight:
            found = Shortage("max_in_flight", limits.max_in_flight, BUSY_SECONDS)
        for name, window in (("requests_per_minute", self._requests), ("tokens_per_minute", self._tokens)):
            seconds = 0.0 if window is None else window.wait(now)
            if window is not None and seconds > (0.0 if found is None else found.seconds):
                found = Shortage(name, window.limit, seconds)
        return found


def _limited(window: SlidingWindow | None, limit: int | None, *, counts_single: bool) -> SlidingWindow | None:
    """Return the window of a limit: the one before, where there is one."""
    if limit is None:
        return None
    if window is None:
        return SlidingWindow(limit, counts_single=counts_single)
    window.limit = limit
    return window
