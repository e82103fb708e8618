"""The connections to one provider: kept alive, lent out again, and never more than allowed.

A provider may send a second answer behind the first, which must not become the next request's.  A connection
is lent out only where nothing lies on it, and what speaks unasked is closed.  What comes later, when the next
request is on its way, nobody can tell from an answer.  So a connection rests for ``limits.settle`` seconds
before it is lent again, and a request that finds none rested dials: a provider's answers take far longer than
that, so a few connections more do for all.  The one that rested longest goes first.

A *place* is what a connection takes from before it is dialled until it is gone.  Where ``max_connections``
sets a limit and no place is free, askers stand in line: what becomes free goes to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IAddress, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory

from mgw.errors import GatewayError, Reason
from mgw.upstream.connection import Connection
from mgw.upstream.failure import UpstreamFailure
from mgw.upstream.request import UpstreamLimits

MAX_IDLE: Final = 256
"""Idle connections that are kept; the one that rested longest goes first."""
MAX_WAITERS: Final = 1024
RETRY_AFTER_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 0.02
"""How far behind an answer a provider may say more without harm."""
_INSTANT: Final = 0.001
"""Timers and clocks round."""


@dataclass(slots=True, eq=False)
class Pool:
    """The connections to one provider."""

    provider: str
    endpoint: IStreamClientEndpoint
    clock: IReactorTime
    limits: UpstreamLimits
    explain: Callable[[Exception], UpstreamFailure]
    max_connections: int | None = None
    opened_total: int = 0
    _places: int = 0
    _idle: dict[Connection, float] = field(default_factory=dict)
    """Since when they rest, in that order."""
    _settling: bool = False
    _live: set[Connection] = field(default_factory=set)
    _line: dict[Deferred[Connection | None], bool] = field(
        default_factory=dict
    )  # value: insists on a new one
    _closed: bool = False
    _emptied: list[Deferred[None]] = field(default_factory=list)

    @property
    def idle(self) -> int:
        """How many connections rest."""
        return len(self._idle)

    @property
    def active(self) -> int:
        """How many are being dialled or carry a request."""
        return self._places - len(self._idle)

    @property
    def waiting(self) -> int:
        """How many askers stand in line."""
        return len(self._line)

    def resting(self) -> Connection | None:
        """Return a connection that rests and may be lent out, if there is one: it is no longer the pool's."""
        while self._idle and self._unsettled_seconds() <= _INSTANT:
            connection = next(iter(self._idle))
            del self._idle[connection]
            if connection.is_silent():
                return connection
        return None

    async def obtain(self, *, fresh: bool) -> Connection:
        """Return a connection that is nobody else's: one that rests unless ``fresh``, else a new one.

        :raises GatewayError: OVERLOADED, when no place is free for too long, or too many wait for one.
        :raises UpstreamFailure: no connection could be made.
        """
        if not fresh and (rested := self.resting()) is not None:
            return rested
        if self.max_connections is None or self._places < self.max_connections:
            self._places += 1
        elif fresh and self._idle:  # a resting one leaves it its place
            self._places += 1
            next(iter(self._idle)).close()
        elif (given := await self._stand_in_line(fresh=fresh)) is not None:
            return given
        dialled = False
        try:
            connection = await self._dial()
            dialled = True
        finally:
            if not dialled:
                self._leave_place()
        self._live.add(connection)
        self.opened_total += 1
        return connection

    def close(self) -> None:
        """Close what rests; what is active closes when it is done, and nothing is kept from now on."""
        self._closed = True
        for connection in list(self._idle):
            connection.close()

    def emptied(self) -> Deferred[None]:
        """Fire when no connection is left; only after :meth:`close` is that sure to come."""
        if not self._places:
            return succeed(None)
        told: Deferred[None] = Deferred(self._emptied.remove)
        self._emptied.append(told)
        return told

    def rested(self, connection: Connection) -> None:
        """Lend ``connection`` to the first in line, or keep it (:class:`mgw.upstream.connection.Home`)."""
        if self._closed:
            connection.close()
            return
        self._idle[connection] = self.clock.seconds()
        connection.rest()
        if self._line:
            self._serve_line()
        elif len(self._idle) > MAX_IDLE:
            next(iter(self._idle)).close()

    def lost(self, connection: Connection) -> None:
        """Forget ``connection`` (:class:`mgw.upstream.connection.Home`)."""
        self._idle.pop(connection, None)
        if connection in self._live:
            self._live.remove(connection)
            self._leave_place()

    def _unsettled_seconds(self) -> float:
        since = next(iter(self._idle.values()))
        return max(0.0, since + self.limits.settle - self.clock.seconds())

    def _serve_line(self) -> None:
        """Lend what rests to those in line, now or as soon as it has settled."""
        while self._line and self._idle:
            asker = next(iter(self._line))
            if self._line[asker]:
                next(iter(self._idle)).close()  # which leaves its place to the asker
                continue
            connection = self.resting()
            if connection is None:
                break
            if asker in self._line:
                del self._line[asker]
                asker.callback(connection)
            else:  # another connection turned out closed, and left it its place
                self._idle[connection] = self.clock.seconds()
        if self._line and self._idle and not self._settling:
            self._settling = True
            self.clock.callLater(self._unsettled_seconds(), self._serve_line_again)

    def _serve_line_again(self) -> None:
        self._settling = False
        self._serve_line()

    def _leave_place(self) -> None:
        if self._line:
            asker = next(iter(self._line))
            del self._line[asker]
            asker.callback(None)
            return
        self._places -= 1
        if not self._places:
            told, self._emptied = self._emptied, []
            for waiter in told:
                waiter.callback(None)

    def _stand_in_line(self, *, fresh: bool) -> Deferred[Connection | None]:
        """Fire with a connection, or with None for a free place."""
        if len(self._line) >= MAX_WAITERS:
            raise self._overloaded("too many requests are waiting for one of its connections")
        asker: Deferred[Connection | None] = Deferred(self._step_out)
        self._line[asker] = fresh
        self._serve_line()  # one that rests may only have to settle
        return asker.addTimeout(self.limits.connect, self.clock, self._waited_too_long)

    def _step_out(self, asker: Deferred[Connection | None]) -> None:
        del self._line[asker]

    def _waited_too_long(self, _: object, seconds: float) -> Connection | None:
        raise self._overloaded(f"none of its connections became free within {seconds:g} s")

    def _overloaded(self, why: str) -> GatewayError:
        message = f"provider {self.provider} is busy: {why}"
        return GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_AFTER_SECONDS)

    async def _dial(self) -> Connection:
        connecting = Deferred.fromCoroutine(self._connect())
        try:
            return await connecting.addTimeout(self.limits.connect, self.clock, _timed_out)
        except CancelledError:
            raise
        except ConnectingCancelledError:  # Twisted's endpoints have a word of their own for it
            raise CancelledError from None
        except Exception as error:  # whatever a resolver, a socket or OpenSSL says is told in our words
            raise self.explain(error) from None

    async def _connect(self) -> Connection:
        made = await self.endpoint.connect(_Connections(self))
        connection = cast(Connection, made)  # the factory makes nothing else
        await connection.secured()
        return connection


def _timed_out(_: object, __: float) -> Connection:
    raise TimeoutError


class _Connections(Factory):
    """What an endpoint calls to get the protocol of a new connection."""

    noisy = False

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def buildProtocol(self, _: IAddress | None) -> Connection:
        """Return a connection at home in the pool."""
        pool = self._pool
        return Connection(pool.provider, pool.limits, pool.clock, pool)
