"""One listener: its endpoint, its channels, and clients beyond the limit.

The factory makes a channel for each connection (:mod:`mgw.web.channel`), drains them, and watches them for
clients that have stopped reading.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable
from itertools import islice
from time import time
from types import MappingProxyType
from typing import Any, Final, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint, serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import (
    IAddress,
    IDelayedCall,
    IListeningPort,
    IProtocolNegotiationFactory,
    IReactorTime,
    ISSLTransport,
    IStreamServerEndpoint,
)
from twisted.internet.protocol import Protocol, ServerFactory, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.config.listen import EndpointText, Listen
from mgw.config.settings import Config
from mgw.http.response_writer import date_header
from mgw.ops.process import file_limit, max_clients_for
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.reactor.transport import RelayTransport
from mgw.web.channel import GatewayChannel
from mgw.web.client_transport import CLOSE_SECONDS, DRAIN_SECONDS
from mgw.web.interfaces import ChannelLimits, RequestHandler

BACKLOG: Final = 1024

STOP_SECONDS: Final = 5.0
"""How long the last responses may take on their way to the clients when the gateway stops."""

MAX_REFUSED: Final = 64
"""How many clients above ``max_clients`` are told so at a time; for one more the oldest is cut off."""

_log: Final = Logger()
_CHECKS_PER_STALL: Final = 4
"""A stalled client is found at most a quarter of the limit too late."""
_CHECKED_AT_ONCE: Final = 100
"""The channels that are checked at once, which takes less than a millisecond."""
_CHECK_PAUSE: Final = 0.02
"""The pause between two slices in seconds: 5,000 channels are checked in a second."""

REFUSED_SECONDS: Final = 5.0
"""How long a refused client may take to send something, and then to close."""
MAX_DISCARDED: Final = 64 * 1024 * 1024

_LISTEN_HINTS: Final = MappingProxyType(
    {
        errno.EADDRINUSE: " (another process listens there; ss -ltnp shows which)",
        errno.EADDRNOTAVAIL: " (no network interface of this machine has this address)",
        errno.EACCES: " (ports below 1024 need root or CAP_NET_BIND_SERVICE)",
    }
)
"""Explanations for operators where the system's own words say too little."""
_HEALTH: Final = re.compile(rb"(?:GET|HEAD) /healthz[ ?]")
_HEALTHY: Final = b'{"status":"ok"}'
_FULL: Final = (
    b'{"type":"error","error":{'
    b'"message":"the gateway has reached its limit of client connections; try again",'
    b'"type":"overloaded_error","param":null,"code":"overloaded"}}'
)
_REFUSAL_HEAD: Final = (
    b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n"
    b"Cache-Control: no-store\r\n%bConnection: close\r\n\r\n"
)


@implementer(IProtocolNegotiationFactory)
class ChannelFactory(ServerFactory):
    """Make channels for one request handler.

    One timer checks all of them in turn, while there are any, so that the limit on stalled writes costs a
    response nothing.  It takes few at a time, since nobody else is served meanwhile.
    """

    noisy = False

    def __init__(
        self, handler: RequestHandler[GatewayChannel], clock: IReactorTime, limits: ChannelLimits
    ) -> None:
        self.handler = handler
        self.clock = clock
        self.wheel = TimerWheel(clock)
        self.limits = limits
        """New connections keep the limits that they find here."""
        self.draining = False
        self.refused = 0
        """How many connections were refused because there were too many."""
        self.on_count: Callable[[int], None] | None = None
        """Is told how many connections are open, whenever one has come or gone."""
        self._refused_connections: dict[RefusedConnection, None] = {}
        self._refusal_log = RateLimitedLog(clock)
        self._open: dict[GatewayChannel, float] = {}
        """The time at which each open channel is to be checked next, in that order."""
        self._next_check: IDelayedCall | None = None
        self._waiting: set[Deferred[None]] = set()

    def acceptableProtocols(self) -> list[bytes]:
        """Return what is spoken here; without it, an endpoint with TLS refuses whatever clients offer."""
        return [b"http/1.1"]

    @property
    def channels(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def buildProtocol(self, addr: IAddress | None) -> GatewayChannel | RefusedConnection:  # noqa: ARG002  the transport knows it
        """Make the channel of a new connection, or refuse it where there are too many."""
        if len(self._open) < self.limits.max_clients:
            return GatewayChannel(self)
        self._count_refusal()
        return RefusedConnection(self)

    def on_refused_opened(self, connection: RefusedConnection) -> None:
        """Count in a connection that is refused.

        Where too many wait to be told, the one that came first goes: those that say nothing must not keep out
        whoever asks at once, as a health check does.
        """
        if len(self._refused_connections) >= MAX_REFUSED:
            oldest = next(iter(self._refused_connections))
            del self._refused_connections[oldest]
            oldest.abort()
        self._refused_connections[connection] = None

    def on_refused_closed(self, connection: RefusedConnection) -> None:
        """Count it out."""
        self._refused_connections.pop(connection, None)

    def _count_refusal(self) -> None:
        self.refused += 1
        if self._refusal_log.is_due():
            _log.warn(
                "max_clients: {limit} clients are connected, and new connections are refused "
                "({before} since the last warning)",
                limit=self.limits.max_clients,
                before=self._refusal_log.take_suppressed(),
            )

    def drain(self) -> None:
        """Close every connection as soon as no response is under way on it, and none comes for a moment."""
        self.draining = True
        for channel in list(self._open):
            channel.drain()

    def last_requests(self) -> Deferred[None]:
        """Fire when clients that did not know of the drain have had a moment to learn of it."""
        return self._when_empty(DRAIN_SECONDS, self._tell_waiting)

    def abort(self) -> None:
        """Break every connection that is left."""
        for channel in list(self._open):
            channel.abort()
        for refused in list(self._refused_connections):
            refused.abort()

    def stopped(self) -> Deferred[None]:
        """Fire when no connection is left: the idle are closed, those still writing have some seconds."""
        self.drain()
        for refused in list(self._refused_connections):
            refused.abort()
        return self._when_empty(STOP_SECONDS, self.abort)

    def on_channel_opened(self, channel: GatewayChannel) -> None:
        """Count a connection in."""
        now = self.clock.seconds()
        self._open[channel] = now + self._check_period()
        if self._next_check is None:
            self._schedule_check(now)
        if self.on_count is not None:
            self.on_count(len(self._open))

    def on_channel_closed(self, channel: GatewayChannel) -> None:
        """Count a connection out."""
        self._open.pop(channel, None)
        if self.on_count is not None:
            self.on_count(len(self._open))
        if self._open:
            return
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
        self._tell_waiting()

    def _when_empty(self, seconds: float, otherwise: Callable[[], None]) -> Deferred[None]:
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

    def _check_period(self) -> float:
        return min(self.limits.write_stall / _CHECKS_PER_STALL, CLOSE_SECONDS)

    def _schedule_check(self, now: float) -> None:
        due = next(iter(self._open.values()))
        self._next_check = self.clock.callLater(max(due - now, _CHECK_PAUSE), self._check_channels)

    def _check_channels(self) -> None:
        self._next_check = None
        now = self.clock.seconds()
        next_due = now + self._check_period()
        first = list(islice(self._open.items(), _CHECKED_AT_ONCE))
        for channel, due in first:
            if (
                due <= now and self._open.pop(channel, None) is not None
            ):  # the check before may have closed it
                self._open[channel] = next_due
                channel.check_progress(now)
        if self._open and self._next_check is None:
            self._schedule_check(now)


class RefusedConnection(Protocol):
    """A connection above ``max_clients``: it is told so, in as little work as that takes.

    Nothing of its request is parsed: the first bytes are answered with a 503 in a shape that the clients of
    all families can read, and what follows is read and discarded for a moment, since a reset would lose the
    response.  Only ``/healthz`` gets its usual response: the process lives, and whoever watches it must not
    restart it.  A client that sends nothing is closed soon; how many may wait at a time is the factory's to
    say.
    """

    def __init__(self, factory: ChannelFactory) -> None:
        self._factory = factory
        self._deadline = Deadline(factory.wheel, self.abort)
        self._responded = False
        self._discarded = 0

    def connectionMade(self) -> None:
        """Wait for the first bytes: a response needs a request."""
        self._transport = cast(RelayTransport, self.transport)
        self._factory.on_refused_opened(self)
        self._deadline.start(REFUSED_SECONDS)

    def dataReceived(self, data: bytes) -> None:
        """Respond once, and discard the rest."""
        if not self._responded:
            self._responded = True
            self._transport.write(_refusal_for(data))
            has_no_half_close = ISSLTransport.providedBy(self.transport) or not hasattr(
                self.transport, "loseWriteConnection"
            )
            (self._transport.loseConnection if has_no_half_close else self._transport.loseWriteConnection)()
            self._deadline.start(REFUSED_SECONDS)
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED:
            self._transport.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Make room for another."""
        self._deadline.close()
        self._factory.on_refused_closed(self)

    def abort(self) -> None:
        """Break the connection: its time is over."""
        self._transport.abortConnection()


def _refusal_for(data: bytes) -> bytes:
    if _HEALTH.match(data):
        body = b"" if data.startswith(b"HEAD") else _HEALTHY
        return _REFUSAL_HEAD % (b"200 OK", len(_HEALTHY), date_header(time())[1], b"") + body
    body = b"" if data.startswith(b"HEAD ") else _FULL
    now = date_header(time())[1]
    return _REFUSAL_HEAD % (b"503 Service Unavailable", len(_FULL), now, b"Retry-After: 1\r\n") + body


def listening_endpoint(
    listen: Listen | EndpointText, reactor: Any
) -> IStreamServerEndpoint:  # Any: many interfaces
    """Return the endpoint that a ``listen`` setting means; an empty host is every interface."""
    if isinstance(listen, EndpointText):
        endpoint: IStreamServerEndpoint = serverFromString(reactor, listen.text)
        return endpoint
    if ":" in listen.host or (not listen.host and socket.has_dualstack_ipv6()):
        return TCP6ServerEndpoint(reactor, listen.port, BACKLOG, listen.host or "::")
    return TCP4ServerEndpoint(reactor, listen.port, BACKLOG, listen.host)


def listen_error(failure: Failure) -> str:
    """Return why an address is not available and what to do, without the words that Twisted adds."""
    error = failure.value
    if isinstance(error, CannotListenError):
        error = error.socketError
    hint = _LISTEN_HINTS.get(getattr(error, "errno", None) or 0, "")
    return f"{getattr(error, 'strerror', None) or str(error)}{hint}"


def shown_address(port: IListeningPort) -> str:
    """Return where a port listens: ``host:port``, or ``unix:`` and a path."""
    address: Any = port.getHost()  # Any: addresses of all kinds
    host = getattr(address, "host", None)
    if host is None:
        name = getattr(address, "name", None)
        return str(address) if name is None else f"unix:{os.fsdecode(name)}"
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


def channel_limits(config: Config) -> ChannelLimits:
    """Return what a client may take."""
    times = config.timeouts
    return ChannelLimits(
        client_headers=times.client_headers,
        client_body_idle=times.client_body_idle,
        client_idle=times.client_idle,
        write_stall=times.write_stall,
        max_clients=config.max_clients or max_clients_for(file_limit()),
    )
