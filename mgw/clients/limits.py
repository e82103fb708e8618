"""The kinds of limits, as rows; what a client may use of each; and the interface of whatever counts.

Every limit is a row of :data:`LIMITS`: what it counts (its unit), and over which time (its window).  Counts
loop over the rows that they are given, in this process (:mod:`mgw.clients.local_counts`), in the supervisor's
and in Redis alike, so a further limit is a further row here and a setting with its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum, auto
from operator import attrgetter
from typing import Final, Protocol

from msgspec import Struct

from mgw.clients.period import Window


class Unit(StrEnum):
    """What a limit counts."""

    REQUEST = auto()
    """Requests, from their beginning on; those that the gateway itself refuses do not count."""
    TOKEN = auto()
    """Tokens of the prompt and of the answer, once they are known: at the end of a request."""
    NANODOLLAR = auto()
    """What requests cost, at their end."""
    IN_FLIGHT = auto()
    """Requests in progress."""

    @property
    def held(self) -> int:
        """How much a request counts from its beginning until its end."""
        return 1 if self in (Unit.REQUEST, Unit.IN_FLIGHT) else 0


class Limit(Struct, frozen=True, array_like=True):
    """A kind of limit."""

    name: str
    """The name of its setting, which refusals and metrics show."""
    unit: Unit
    window: Window


LIMITS: Final = (
    Limit("max_in_flight", Unit.IN_FLIGHT, Window.NONE),
    Limit("max_sessions", Unit.IN_FLIGHT, Window.NONE),
    Limit("requests_per_minute", Unit.REQUEST, Window.MINUTE),
    Limit("tokens_per_minute", Unit.TOKEN, Window.MINUTE),
)
"""All kinds.  Where several stand against a request equally long, the first of them is named."""


class Allowance(Struct, frozen=True, array_like=True):
    """How much of a limit somebody may use."""

    limit: Limit
    most: int


Limits = tuple[Allowance, ...]
"""All limits of one client, in the order of :data:`LIMITS`; empty: it may use as much as it likes."""


def limits_of(most: Mapping[str, int | None]) -> Limits:
    """Return the limits that settings ask for, by the names of the settings; ``None``: no such limit."""
    return tuple(Allowance(limit, value) for limit in LIMITS if (value := most.get(limit.name)) is not None)


def share_of_limits(limits: Limits, parts: int) -> Limits:
    """Return what one of so many may use while nobody counts for all of them: at least 1 of each."""
    return tuple(Allowance(row.limit, max(1, row.most // parts)) for row in limits)


class Taken(Struct, frozen=True, array_like=True):
    """What a request came to, known at its end."""

    requests: int = 1
    """0: the gateway refused it, so it never counted."""
    tokens: int = 0
    nanodollars: int = 0


Amount = Callable[[Taken], int]
AMOUNTS: Final[Mapping[Unit, Amount]] = {
    Unit.REQUEST: attrgetter("requests"),
    Unit.TOKEN: attrgetter("tokens"),
    Unit.NANODOLLAR: attrgetter("nanodollars"),
}
"""How much of a unit a request came to; of what is in flight nothing is left."""
NOTHING: Final = Taken(requests=0)
"""What a request came to that the gateway refused, or that nobody waits for any more."""


class Permit(Struct, eq=False):
    """Stands for a request that was counted; each kind of counts has a class of its own for it."""


class LimitReached(Struct, frozen=True):
    """Says which limit a request would exceed, which was not counted."""

    limit: str
    """The name of the setting."""
    most: int
    """The value of the setting."""
    seconds: float
    """How long until the request would be admitted, if nothing else happens until then."""


class Counts(Protocol):
    """How much of its limits each holder has used; several processes may share it.

    A holder is whoever has limits, by a name of its own: the key of a client, or the sessions of a service.
    """

    def use(self, holder: str, limits: Limits) -> None:
        """Know the limits of a holder from now on; what was counted stays.  Without any it is forgotten."""
        ...

    def begin(self, holder: str, limits: Limits) -> Permit | LimitReached | Awaitable[Permit | LimitReached]:
        """Count a request that begins, or say what stands against it: then nothing is counted.

        Where the answer has to come from elsewhere, this is the Deferred that will fire with it.  Nobody
        cancels it; it should not fail, and fires within a few seconds, since the request waits for it.  For
        each :class:`Permit` there is one call of :meth:`end`, also where its request did not wait.

        :param limits: those that hold for this request.  Whatever counts needs to know no others: it counts a
            holder of which it has never heard by these.
        """
        ...

    def end(self, permit: Permit, taken: Taken) -> None:
        """Count the end of a request, and what it came to; does not wait, and never raises.

        :param permit: what :meth:`begin` has answered.
        """
        ...

    def add(self, holder: str, limits: Limits, taken: Taken) -> None:
        """Count a request that was begun and has ended while this could not be asked; never raises.

        :param limits: as for :meth:`begin`, where the holder is unknown.
        """
        ...

    def refusals(self, holder: str) -> Mapping[str, int]:
        """Return how many requests were not admitted, by the limit that stood against them."""
        ...
