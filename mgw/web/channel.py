"""The channels of one listener, taken together: made, drained, and watched for clients that stopped reading.

One channel is :mod:`mgw.web.connection`; what lives behind it is :mod:`mgw.web.door`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.logger import Logger

from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.web.connection import CLOSE_SECONDS, DRAIN_SECONDS, GatewayChannel
from mgw.web.door import ChannelLimits, Door, Visit
from mgw.web.turned_away import TurnedAway

__all__ = ["ChannelFactory", "ChannelLimits", "Door", "GatewayChannel", "Visit"]

STOP_SECONDS: Final = 5.0
"""How long the last answers may take on their way to the clients when the gateway stops."""

MAX_TURNED_AWAY: Final = 64
"""How many clients above ``max_clients`` are told so at a time; for one more the oldest is cut off."""

_log: Final = Logger()
_LOOKS_PER_STALL: Final = 4
"""A stalled client is found at most a quarter of the limit too late."""


class ChannelFactory(ServerFactory):
    """Make channels that lead to one door.

    One timer looks at all of them in turn, while there are any, so that the limit on stalled writes costs an
    answer nothing.
    """

    noisy = False

    def __init__(self, door: Door, clock: IReactorTime, limits: ChannelLimits) -> None:
        self.door = door
        self.clock = clock
        self.limits = limits
        """New connections keep the limits that they find here."""
        self.draining = False
        self.refused = 0
        """How many connections were refused because there were too many."""
        self._turned_away: dict[TurnedAway, None] = {}
        self._refusal_log = RateLimitedLog(clock)
        self._open: set[GatewayChannel] = set()
        self._next_look: IDelayedCall | None = None
        self._waiting: set[Deferred[None]] = set()

    @property
    def channels(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def buildProtocol(self, addr: IAddress | None) -> GatewayChannel | TurnedAway:  # noqa: ARG002  the transport knows it
        """Make the channel of a new connection, or refuse it where there are too many."""
        if len(self._open) < self.limits.max_clients:
            return GatewayChannel(self)
        self._count_refusal()
        return TurnedAway(self)

    def turn_away(self, connection: TurnedAway) -> None:
        """Count in a connection that is refused.

        Where too many wait to be told, the one that came first goes: those that say nothing must not keep out
        whoever asks at once, as a health check does.
        """
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            oldest = next(iter(self._turned_away))
            del self._turned_away[oldest]
            oldest.abort()
        self._turned_away[connection] = None

    def went_away(self, connection: TurnedAway) -> None:
        """Count it out."""
        self._turned_away.pop(connection, None)

    def _count_refusal(self) -> None:
        self.refused += 1
        if self._refusal_log.is_due():
            _log.warn(
                "max_clients: {limit} clients are connected, more are refused "
                "({before} since the last warning)",
                limit=self.limits.max_clients,
                before=self._refusal_log.take_suppressed(),
            )

    def drain(self) -> None:
        """Close every connection as soon as no answer is under way on it, and none comes for a moment."""
        self.draining = True
        for channel in list(self._open):
            channel.drain()

    def last_requests(self) -> Deferred[None]:
        """Fire when clients that did not know of the drain have had a moment to learn of it by an answer."""
        return self._empty(DRAIN_SECONDS, self._tell_waiting)

    def abort(self) -> None:
        """Break every connection that is left."""
        for channel in list(self._open):
            channel.abort()
        for refused in list(self._turned_away):
            refused.abort()

    def stopped(self) -> Deferred[None]:
        """Fire when no connection is left: the idle are closed, those still writing have some seconds."""
        self.drain()
        for refused in list(self._turned_away):
            refused.abort()
        return self._empty(STOP_SECONDS, self.abort)

    def opened(self, channel: GatewayChannel) -> None:
        """Count a connection in."""
        self._open.add(channel)
        if self._next_look is None:
            self._look_later()

    def closed(self, channel: GatewayChannel) -> None:
        """Count a connection out."""
        self._open.discard(channel)
        if self._open:
            return
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        self._tell_waiting()

    def _empty(self, seconds: float, otherwise: Callable[[], None]) -> Deferred[None]:
        """Fire when no connection is left; do something else once that takes too long."""
        if not self._open:
            return succeed(None)
        waiter: Deferred[None] = Deferred(self._waiting.discard)
        self._waiting.add(waiter)
        limit = self.clock.callLater(seconds, otherwise)
        return waiter.addBoth(lambda _: limit.cancel() if limit.active() else None)

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            waiter.callback(None)

    def _look_later(self) -> None:
        period = min(self.limits.write_stall / _LOOKS_PER_STALL, CLOSE_SECONDS)
        self._next_look = self.clock.callLater(period, self._look)

    def _look(self) -> None:
        self._look_later()
        now = self.clock.seconds()
        for channel in list(self._open):
            channel.look(now)
