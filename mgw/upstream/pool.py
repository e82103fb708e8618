"""Connections to one provider: kept alive, reused, and limited in number.

A provider may send a second response behind the first, which must not become the next request's.  A
connection is reused only if nothing has arrived on it, and one on which something arrives unasked is closed.
What comes later, when the next request is on its way, nobody can tell from its response.  So a connection
stays idle for ``limits.settle`` seconds before it is used again, and a request that finds none dials: a
provider's responses take far longer than that, so a few more connections suffice for all.  The one idle for
longest goes first.

A connection takes a *slot* from before it is dialled until it is closed.  If ``max_connections`` sets a limit
and no slot is free, requests wait in a queue: what becomes free goes to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Factory

from mgw.http.head_shape import HeadShapes
from mgw.reactor.deadline import TimerWheel
from mgw.upstream.connection import Connection
from mgw.upstream.connection_request import ConnectionRequest, overloaded
from mgw.upstream.dial import Dialler, EndpointDialler
from mgw.upstream.failure import UpstreamFailure
from mgw.upstream.request import UpstreamLimits

MAX_IDLE: Final = 256
"""The number of idle connections that are kept; the one idle for longest goes first."""
MAX_WAITERS: Final = 1024
SETTLE_SECONDS: Final = 0.02
"""How long after a response a provider may send more without harm."""
_INSTANT: Final = 0.001
"""A difference in time that means nothing, since timers and clocks round."""


@dataclass(slots=True, eq=False, repr=False)
class Pool:
    """The connections to one provider; it is their :class:`mgw.upstream.connection.ConnectionOwner`."""

    provider: str
    endpoint: IStreamClientEndpoint | Dialler
    clock: IReactorTime
    limits: UpstreamLimits
    describe_error: Callable[[Exception], UpstreamFailure]
    max_connections: int | None = None
    opened_total: int = 0
    wheel: TimerWheel = field(init=False)
    """The timer wheel for the deadlines of the pool's connections."""
    head_shapes: HeadShapes = field(default_factory=HeadShapes)
    """The shapes of response heads that the provider has sent."""
    dialler: Dialler = field(init=False)
    _factory: _ConnectionFactory = field(init=False)
    _slots: int = 0
    _idle: dict[Connection, float] = field(default_factory=dict)
    """The idle connections, each with the time since when, oldest first."""
    _serve_scheduled: bool = False
    _live: set[Connection] = field(default_factory=set)
    _waiters: dict[ConnectionRequest, None] = field(default_factory=dict)
    """The requests that wait for a connection, in order."""
    _closed: bool = False
    _empty_waiters: list[Deferred[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wheel = TimerWheel(self.clock)
        self.dialler = self.endpoint if isinstance(self.endpoint, Dialler) else EndpointDialler(self.endpoint)
        self._factory = _ConnectionFactory(self)

    @property
    def idle(self) -> int:
        """How many connections are idle."""
        return len(self._idle)

    @property
    def active(self) -> int:
        """How many are being dialled or carry a request."""
        return self._slots - len(self._idle)

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return len(self._waiters)

    def take_idle(self) -> Connection | None:
        """Return an idle connection that may be used, if there is one: the pool no longer has it."""
        idle = self._idle
        settled_since = self.clock.seconds() - self.limits.settle + _INSTANT
        while idle:
            connection = next(iter(idle))
            if idle[connection] > settled_since:
                return None
            del idle[connection]
            # The kernel may hold an end, or bytes, that the reactor has not read yet: peek before it is lent.
            if connection.check_idle():
                return connection
        return None

    def obtain(self, *, fresh: bool) -> Deferred[Connection]:
        """Return a connection for one request, as :meth:`request_connection` does."""
        obtained: Deferred[Connection] = Deferred(lambda _: request.cancel())
        request = self.request_connection(obtained.callback, obtained.errback, fresh=fresh)
        return obtained

    def request_connection(
        self, on_ready: Callable[[Connection], Any], on_error: Callable[[Exception], Any], *, fresh: bool
    ) -> ConnectionRequest:  # Any: what they return is of no interest
        """Call ``on_ready`` with a connection for one request: an idle one unless ``fresh``, else a new one.

        ``on_error`` gets a :class:`GatewayError` OVERLOADED when no slot is free for too long, or too many
        wait for one, and an :class:`UpstreamFailure` when no connection could be made.  One of the two is
        called, once, and perhaps before this returns.  After :meth:`ConnectionRequest.cancel` none is.
        """
        request = ConnectionRequest(self, on_ready, on_error, fresh=fresh)
        if not fresh and (idle := self.take_idle()) is not None:
            request.succeed(idle)
        elif self.max_connections is None or self._slots < self.max_connections:
            self._slots += 1
            request.dial(self.dialler, self._factory)
        elif fresh and self._idle:  # an idle one gives up its slot
            self._slots += 1
            next(iter(self._idle)).close()
            request.dial(self.dialler, self._factory)
        elif len(self._waiters) >= MAX_WAITERS:
            request.fail(
                overloaded(self.provider, "too many requests are waiting for one of its connections")
            )
        else:
            self._waiters[request] = None
            request.wait()
            self._serve_waiters()  # an idle one may only have to settle
        return request

    def close(self) -> None:
        """Close what is idle; what is active closes when it is done, and nothing is kept from now on."""
        self._closed = True
        for connection in list(self._idle):
            connection.close()

    def when_empty(self) -> Deferred[None]:
        """Fire when no connection is left; only after :meth:`close` is that sure to come."""
        if not self._slots:
            return succeed(None)
        waiter: Deferred[None] = Deferred(self._empty_waiters.remove)
        self._empty_waiters.append(waiter)
        return waiter

    def on_released(self, connection: Connection) -> None:
        """Give ``connection`` to the first waiter, or keep it."""
        if self._closed:
            connection.close()
            return
        self._idle[connection] = self.clock.seconds()
        if self._waiters:
            self._serve_waiters()
        elif len(self._idle) > MAX_IDLE:
            next(iter(self._idle)).close()

    def on_dialled(self, connection: Connection) -> None:
        """Count ``connection``, which keeps its slot until it is closed."""
        self._live.add(connection)
        self.opened_total += 1

    def on_dial_failed(self) -> None:
        """Use the slot for another connection."""
        self._free_slot()

    def on_wait_ended(self, request: ConnectionRequest) -> None:
        """Forget ``request``, which has waited for too long or was cancelled."""
        del self._waiters[request]

    def on_closed(self, connection: Connection) -> None:
        """Forget ``connection``."""
        self._idle.pop(connection, None)
        if connection in self._live:
            self._live.remove(connection)
            self._free_slot()

    def _unsettled_seconds(self) -> float:
        since = next(iter(self._idle.values()))
        return max(0.0, since + self.limits.settle - self.clock.seconds())

    def _serve_waiters(self) -> None:
        """Give idle connections to the waiters, now or as soon as they have settled."""
        while self._waiters and self._idle:
            waiter = next(iter(self._waiters))
            if waiter.fresh:
                next(iter(self._idle)).close()  # whose slot goes to the waiter
                continue
            connection = self.take_idle()
            if connection is None:
                break
            if waiter in self._waiters:
                del self._waiters[waiter]
                waiter.succeed(connection)
            else:  # another connection turned out closed, and its slot went to the waiter
                self._idle[connection] = self.clock.seconds()
        if self._waiters and self._idle and not self._serve_scheduled:
            self._serve_scheduled = True
            self.clock.callLater(self._unsettled_seconds(), self._on_settled)

    def _on_settled(self) -> None:
        self._serve_scheduled = False
        self._serve_waiters()

    def _free_slot(self) -> None:
        if self._waiters:
            waiter = next(iter(self._waiters))
            del self._waiters[waiter]
            waiter.dial(self.dialler, self._factory)
            return
        self._slots -= 1
        if not self._slots:
            empty_waiters, self._empty_waiters = self._empty_waiters, []  # first: one may wait again at once
            for empty_waiter in empty_waiters:
                empty_waiter.callback(None)


class _ConnectionFactory(Factory):
    """Makes the protocol of a new connection for the endpoint."""

    noisy = False

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def buildProtocol(self, _: IAddress | None) -> Connection:
        """Return a connection that belongs to the pool."""
        pool = self._pool
        return Connection(pool.provider, pool.limits, pool.wheel, pool, pool.head_shapes)
