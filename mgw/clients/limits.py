"""The kinds of limits, as rows; what a client may use of each; and the interface of whatever counts.

Every limit is a row of :data:`LIMITS`: what it counts (its unit), and over which time (its window).  Counts
loop over the rows that they are given, in this process (:mod:`mgw.clients.local_counts`), in the supervisor's
and in Redis alike, so a further limit is a further row here and a setting with its name.

A request brings all rows that hold for it: its client's own, those of the client's groups and the gateway's.
Each row has a holder, which is whoever shares what the row allows; all of them must have room.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum, auto
from math import isinf
from operator import attrgetter
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

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
    Limit("requests_per_day", Unit.REQUEST, Window.DAY),
    Limit("requests_per_week", Unit.REQUEST, Window.WEEK),
    Limit("requests_per_month", Unit.REQUEST, Window.MONTH),
    Limit("requests_total", Unit.REQUEST, Window.TOTAL),
    Limit("tokens_per_minute", Unit.TOKEN, Window.MINUTE),
    Limit("tokens_per_day", Unit.TOKEN, Window.DAY),
    Limit("tokens_per_week", Unit.TOKEN, Window.WEEK),
    Limit("tokens_per_month", Unit.TOKEN, Window.MONTH),
    Limit("tokens_total", Unit.TOKEN, Window.TOTAL),
    Limit("usd_per_day", Unit.NANODOLLAR, Window.DAY),
    Limit("usd_per_week", Unit.NANODOLLAR, Window.WEEK),
    Limit("usd_per_month", Unit.NANODOLLAR, Window.MONTH),
    Limit("usd_total", Unit.NANODOLLAR, Window.TOTAL),
)
"""All kinds.  Where several stand against a request equally long, the first of its rows is named."""
LIMITS_BY_NAME: Final[Mapping[str, Limit]] = {limit.name: limit for limit in LIMITS}
_OF_TOKENS: Final = frozenset({Unit.TOKEN, Unit.NANODOLLAR})
WHOLE: Final = 10**9
"""The whole of a row, in billionths, as shares of it are stated."""


class Allowance(Struct, frozen=True, array_like=True):
    """How much of a limit a holder may use: a row.  Its holder, name and :attr:`refuses` identify it."""

    limit: Limit
    most: int
    """Nanodollars for dollars."""
    holder: str
    """Such as ``alice``, ``group:research``, ``group:research/alice``, ``gateway`` or ``gateway/alice``."""
    is_reserved: bool = False
    """Whether a request holds an estimate of what it will come to from its beginning until its end."""
    refuses: bool = True
    """Whether a request that finds it used up is refused; otherwise it only counts and warns."""
    warn_at: tuple[int, ...] = ()
    """The shares at which a warning is given, in billionths, sorted, without the whole."""
    zone: str = "UTC"
    """IANA name of the time zone in which the periods of the calendar begin."""

    @property
    def key(self) -> RowKey:
        """What identifies it among all rows."""
        return self.holder, self.limit.name, self.refuses

    @property
    def holds(self) -> bool:
        """Whether a request counts from its beginning on."""
        return self.is_reserved or self.limit.unit in (Unit.REQUEST, Unit.IN_FLIGHT)


RowKey = tuple[str, str, bool]
Limits = tuple[Allowance, ...]
"""All rows that hold for one client; empty: it may use as much as it likes."""


def holds_estimates(limits: Limits) -> bool:
    """Whether a request holds an estimate of some of these rows, which takes more than its head."""
    for row in limits:  # noqa: SIM110  a generator costs more than all the rest
        if row.is_reserved:
            return True
    return False


def counts_tokens(limits: Limits) -> bool:
    """Whether one of these rows needs the tokens of a request."""
    for row in limits:  # noqa: SIM110  as above
        if row.limit.unit in _OF_TOKENS:
            return True
    return False


def counts_money(limits: Limits, *, refusing: bool = False) -> bool:
    """Whether one of these rows is about money.

    :param refusing: whether to ask only for rows that refuse what they have no room for.
    """
    return any(row.limit.unit is Unit.NANODOLLAR and (row.refuses or not refusing) for row in limits)


def limits_of(holder: str, most: Mapping[str, int | None]) -> Limits:
    """Return the limits that settings ask for, by the names of the settings; ``None``: no such limit."""
    return tuple(
        Allowance(limit, value, holder) for limit in LIMITS if (value := most.get(limit.name)) is not None
    )


def share_of_limits(limits: Limits, parts: int) -> Limits:
    """Return what one of so many may use while nobody counts for all of them: at least 1 of each."""
    return tuple([replace(row, most=max(1, row.most // parts)) for row in limits])


class Taken(Struct, frozen=True, array_like=True):
    """What a request came to, known at its end, or what it holds from its beginning until then."""

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
ONE_REQUEST: Final = Taken()
"""What a request holds of which nothing is estimated."""


class Permit(Struct, eq=False):
    """Stands for a request that was counted; each kind of counts has a class of its own for it."""


class LimitReached(Struct, frozen=True, array_like=True):
    """Says which row a request would exceed, which was not counted."""

    holder: str
    limit: Limit
    most: int
    """What the row allows."""
    seconds: float
    """How long until the request would be admitted, if nothing else happens until then; infinite: never."""
    resets: float | None = None
    """Unix seconds at which the row begins anew; ``None``: it has no periods, one that never ends, or is not
    used up."""

    @property
    def is_only_held(self) -> bool:
        """Whether a row of a period is full of what requests in progress hold, which may soon be free."""
        return self.resets is None and self.limit.window.is_calendar and not isinf(self.seconds)


class RowState(Struct, frozen=True, array_like=True):
    """How much of a row longer than a minute is used in the current period."""

    holder: str
    limit: Limit
    period: str
    used: int
    reserved: int
    """What requests in progress hold."""
    most: int | None
    """``None``: it is not known here."""
    resets: float | None
    """As in :class:`LimitReached`."""
    refuses: bool = True


Warnings = tuple[str, ...]
"""A text ``HOLDER NAME SHARE`` for each share of a row that a request took it past (:func:`warnings_of`)."""


class Counts(Protocol):
    """How much of each row was used; several processes may share it."""

    def use(self, client: str, limits: Limits) -> None:
        """Know the rows of a client, or of whoever else has limits, from now on; without any it is forgotten.

        What was counted stays.
        """
        ...

    def begin(self, limits: Limits, held: Taken) -> Permit | LimitReached | Awaitable[Permit | LimitReached]:
        """Count a request that begins, or say what stands against it: then nothing is counted.

        Where the answer has to come from elsewhere, this is the Deferred that will fire with it.  Nobody
        cancels it, and it fires within a few seconds, since the request waits for it.  It fails with
        :class:`~mgw.nouns.errors.GatewayError` where nobody would ever count the request.  For
        each :class:`Permit` there is one call of :meth:`end`, also where its request did not wait.

        :param limits: those that hold for this request.  Whatever counts needs to know no others: it counts a
            holder of which it has never heard by these.
        :param held: what rows that reserve count until the end.
        """
        ...

    def find_full(self, limits: Limits) -> LimitReached | None:
        """Return what is known at once to stand against a request that would begin now; that is a refusal.

        It counts nothing else, and never asks anybody: ``None`` is no promise.
        """
        ...

    def end(self, permit: Permit, taken: Taken) -> Warnings | Awaitable[Warnings]:
        """Count the end of a request, and what it came to in place of what it held; never raises.

        :param permit: what :meth:`begin` has answered.
        :returns: the warnings that this end caused; where they have to come from elsewhere, the Deferred that
            will fire with them, which need not be awaited.
        """
        ...

    def add(self, limits: Limits, taken: Taken) -> None:
        """Count a request that was begun and has ended while this could not be asked; never raises."""
        ...

    def refusals(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests were refused, by the holder and the name of the row that was named."""
        ...

    def state(self) -> list[RowState] | Awaitable[list[RowState]]:
        """Return what is used of the rows longer than a minute that were used; others may be among them."""
        ...

    def reset(self, holder: str, limit: str | None, amount: int) -> bool | Awaitable[bool]:
        """Set what is used of rows longer than a minute in their current period; what is held stays.

        :param limit: the name of the row; ``None``: all rows of the holder.
        :returns: whether there is such a row.
        """
        ...


Shares = tuple[tuple[int, int], ...]
"""The shares of a row that are warned of, in billionths, each with the amount from which on it is reached."""


def shares_of(row: Allowance) -> Shares:
    """Return the shares of a row at which warnings are given; empty: it gives none."""
    if not row.warn_at and not row.limit.window.is_calendar:
        return ()
    return tuple([(share, -(-share * row.most // WHOLE)) for share in (*row.warn_at, WHOLE)])


def share_reached(shares: Shares, amount: int) -> int:
    """Return the largest of these shares that an amount reaches; 0: none."""
    return max((share for share, least in shares if amount >= least), default=0)


def warnings_of(row: Allowance, shares: Shares, warned: int, reached: int) -> Warnings:
    """Return the warnings of the shares above one and up to another."""
    return tuple(
        [
            f"{row.holder} {row.limit.name} {share / WHOLE:.9f}".rstrip("0").rstrip(".")
            for share, _ in shares
            if warned < share <= reached
        ]
    )
