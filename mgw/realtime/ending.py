"""How a session ended, and what its usage event records about that."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from mgw.exchange.exchange import Exchange
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.upstream.failure import Phase, upstream_broken, upstream_too_slow
from mgw.usage.event import Outcome


class Side(Enum):
    """Who has ended a session."""

    CLIENT = auto()
    UPSTREAM = auto()
    GATEWAY = auto()

    @property
    def other(self) -> Side:
        """The other of the two ends."""
        return Side.UPSTREAM if self is Side.CLIENT else Side.CLIENT


class Ending(Struct, frozen=True):
    """Who has ended a session, and how."""

    side: Side
    code: int | None = None
    """The code of its close frame; ``None`` where it had none."""
    fault: str | None = None
    """What this side has sent that RFC 6455 forbids, in words for a log."""
    said: str | None = None
    """The reason that this side gives, in its close frame or in the message before that."""
    is_lost: bool = False
    """Whether its connection ended without a close frame."""
    is_stalled: bool = False
    """Whether it has accepted no data for too long."""
    refusal: GatewayError | None = None
    """Why the gateway has ended it, if that was not in order."""


class LastError(Struct, frozen=True):
    """An error that a provider has sent in a session, which goes on, or ends with it."""

    message: str | None
    frame: int
    """How many data frames the provider had sent with it."""

    def __repr__(self) -> str:  # what it says stays out
        return f"LastError({self.frame})"


_ORDERLY: frozenset[int | None] = frozenset({None, 1000, 1001})


def settle(exchange: Exchange, ending: Ending, provider: str) -> None:
    """Settle the exchange of a session that is over.

    A close frame of the client's ends it well, whatever its code says; one of the provider's does unless its
    code tells of an error.
    """
    if ending.refusal is not None:
        exchange.refused(ending.refusal)
    elif ending.side is Side.CLIENT:
        if ending.is_lost:
            exchange.client_left()
        elif ending.fault is not None:
            exchange.refused(GatewayError(Reason.MALFORMED, f"the client sent {ending.fault}"))
        else:
            exchange.settle(Outcome.OK)
    elif ending.side is Side.UPSTREAM:
        _settle_upstream_end(exchange, ending, provider)
    else:
        exchange.settle(Outcome.OK)


def _settle_upstream_end(exchange: Exchange, ending: Ending, provider: str) -> None:
    phase = Phase.BODY
    if ending.fault is not None:
        what = f"sent {ending.fault} in a session"
        exchange.refused(upstream_broken(provider, what, phase, Cause.UNREADABLE))
    elif ending.is_stalled:
        what = "stopped reading in the middle of a session"
        exchange.refused(upstream_too_slow(provider, what, phase, Cause.IDLE_TIMEOUT))
    elif ending.is_lost:
        what = "closed the connection in the middle of a session"
        broken = upstream_broken(provider, what, phase, Cause.TRUNCATED)
        exchange.refused(broken.quoting(ending.said))
    elif ending.code not in _ORDERLY:
        what = f"closed a session with code {ending.code}"
        broken = upstream_broken(provider, what, phase, Cause.UPSTREAM_ERROR_EVENT)
        exchange.refused(broken.quoting(ending.said))
    else:
        exchange.settle(Outcome.OK)
