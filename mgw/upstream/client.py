"""One provider as the rest of the gateway sees it: a request goes in, an unread response comes out.

Bodies are relayed as they come: nothing is decompressed, redirected, remembered or buffered here.
"""

from __future__ import annotations

from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Final

from msgspec.structs import replace
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from mgw.bodies.source import BodySource, body_size
from mgw.config.provider import Provider
from mgw.config.proxy import ProxyAddress
from mgw.http.head_shape import HeadShapes
from mgw.http.request_head import render_request_head
from mgw.nouns.errors import GatewayError
from mgw.upstream.address import address_of
from mgw.upstream.connect import describe_connect_error, dialler_to, proxy_name_of
from mgw.upstream.connection import Connection, ResponseSink, ResponseWaiter
from mgw.upstream.connection_request import ConnectionRequest
from mgw.upstream.dial import Dialler
from mgw.upstream.failure import Phase, UpstreamFailure
from mgw.upstream.pool import SETTLE_SECONDS, Pool
from mgw.upstream.refused_words import RefusedWords
from mgw.upstream.request import UpstreamLimits, UpstreamRequest
from mgw.upstream.response import BodyReceiver, UpstreamResponse
from mgw.upstream.tls import client_context
from mgw.upstream.wires import wire_of
from mgw.upstream.wires.wire import VENDOR, ProviderWire

__all__ = [
    "BodyReceiver",
    "Phase",
    "ResponseSink",
    "Upstream",
    "UpstreamFailure",
    "UpstreamLimits",
    "UpstreamRequest",
    "UpstreamResponse",
    "build_upstream",
    "upstream_of",
]


class Upstream:
    """One provider: its connections, and requests over them.

    :param name: the provider's name, as errors tell it.
    :param base_url: where it is; the path is the caller's to put before each target.
    :param endpoint: what reaches it, TLS included.
    :param max_connections: None for as many as are needed.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        limits: UpstreamLimits,
        endpoint: IStreamClientEndpoint | Dialler,
        clock: IReactorTime,
        max_connections: int | None = None,
    ) -> None:
        self.name = name
        self.address: Final = address_of(base_url)
        """The base address."""
        self.limits: Final = limits
        """How long the provider may take."""
        self.wire: ProviderWire = VENDOR
        """How it is called."""
        self.other: Upstream | None = None
        """The other host that some calls go to, where the wire says so."""
        self.refused_words: Final = RefusedWords()
        """What its models refused of late."""
        address = self.address
        self._host = address.host_header
        proxy_name = proxy_name_of(endpoint)
        self._pool = Pool(
            provider=name,
            endpoint=endpoint,
            clock=clock,
            limits=limits,
            describe_error=lambda error: describe_connect_error(
                error, name, address, limits.connect, proxy_name
            ),
            max_connections=max_connections,
        )
        self.dialler: Final = self._pool.dialler
        """What makes connections that belong to no pool."""

    def __repr__(self) -> str:
        return f"<Upstream {self.name} at {self.address.origin}>"

    @property
    def origin(self) -> str:
        """The base address without its path."""
        return self.address.origin

    def use_shapes(self, head_shapes: HeadShapes) -> None:
        """Have the next connections learn the shapes of the provider's heads here, and read by them."""
        self._pool.head_shapes = head_shapes

    def describe_error(self, error: Exception) -> UpstreamFailure:
        """Return what a failed attempt to connect means, in words for whoever uses the provider."""
        return self._pool.describe_error(error)

    @property
    def active(self) -> int:
        """How many connections are being dialled or carry a request."""
        return self._pool.active

    @property
    def idle(self) -> int:
        """How many connections are idle."""
        return self._pool.idle

    @property
    def waiting(self) -> int:
        """How many requests wait for a connection."""
        return self._pool.waiting

    @property
    def max_connections(self) -> int | None:
        """How many connections there may be; ``None``: as many as are needed."""
        return self._pool.max_connections

    @property
    def opened_total(self) -> int:
        """How many connections were made since the start."""
        return self._pool.opened_total

    def open(self, request: UpstreamRequest, *, fresh: bool = False) -> Deferred[UpstreamResponse]:
        """Send ``request``; fires when the head of the response is there.

        Cancelling at any moment aborts what is under way and frees its slot.  Fails as :meth:`start` says.
        """
        waiter = ResponseWaiter()
        waiter.cancel = self.start(request, waiter, fresh=fresh)
        return waiter.deferred

    def start(
        self, request: UpstreamRequest, sink: ResponseSink, *, fresh: bool = False
    ) -> Callable[[], None] | None:
        """Send ``request``; ``sink`` gets the response when its head is there, or learns why none will come.

        That is :class:`UpstreamFailure`, or :class:`GatewayError` OVERLOADED when no connection may be had,
        or MALFORMED for a request that cannot be written.

        :param fresh: insist on a new connection.
        :returns: what aborts the request and frees its slot; ``None`` where the sink has been called.
        """
        try:
            head = self.render_head(request)
        except GatewayError as error:
            sink.on_failure(error)
            return None
        return self.send(request.method, head, request.body, sink, fresh=fresh)

    def render_head(self, request: UpstreamRequest) -> bytes:
        """Return the head of a request as it is sent.

        :raises GatewayError: MALFORMED, where it cannot be written.
        """
        return render_request_head(
            request.method, request.target, request.headers, self._host, body_size(request.body)
        )

    def send(
        self, method: bytes, head: bytes, body: bytes | BodySource, sink: ResponseSink, *, fresh: bool = False
    ) -> Callable[[], None] | None:
        """Send a request whose head is rendered; the rest is as in :meth:`start`."""
        connection = None if fresh else self._pool.take_idle()
        if connection is not None:  # the common case, without a coroutine
            connection.exchange(method, head, body, sink)
            return connection.cancel_exchange
        dialled = _DialledExchange(method, head, body, sink)
        dialled.request = self._pool.request_connection(dialled.on_connected, dialled.on_failed, fresh=fresh)
        return dialled.cancel

    def close(self) -> None:
        """Close what is idle; requests under way finish, and their connections are not kept."""
        self._pool.close()
        if self.other is not None:
            self.other.close()

    def when_closed(self) -> Deferred[None]:
        """Fire when no connection is left, which comes after :meth:`close` and the last request."""
        return self._pool.when_empty()


class _DialledExchange:
    """A request that waits for a connection, and then for its response."""

    __slots__ = ("_body", "_connection", "_head", "_method", "_sink", "request")

    def __init__(self, method: bytes, head: bytes, body: bytes | BodySource, sink: ResponseSink) -> None:
        self._method, self._head, self._body = method, head, body
        self._sink: ResponseSink | None = sink
        self._connection: Connection | None = None
        self.request: ConnectionRequest | None = None
        """The request for a connection, which can be cancelled."""

    def on_connected(self, connection: Connection) -> None:
        """Send the request."""
        sink, self._sink = self._sink, None
        assert sink is not None
        self._connection = connection
        body, self._body = self._body, b""
        connection.exchange(self._method, self._head, body, sink)

    def on_failed(self, error: Exception) -> None:
        """Say why there is no connection."""
        sink, self._sink = self._sink, None
        assert sink is not None
        sink.on_failure(error)

    def cancel(self) -> None:
        """Stop, whatever it waits for."""
        if self._connection is not None:
            self._connection.cancel_exchange()
        elif self.request is not None:
            self.request.cancel()


def build_upstream(
    provider_name: str,
    base_url: str,
    limits: UpstreamLimits,
    reactor: Any,  # as in mgw.upstream.connect
    trusted: str | SSLContext | None = None,
    proxy: ProxyAddress | None = None,
) -> Upstream:
    """Return the provider at ``base_url`` as reached over the network.

    :param trusted: whom TLS trusts, if not the system's authorities: a file, which is read now, or a context.
    :raises OSError: the file cannot be read.
    :raises ValueError: ``base_url`` is no address, or the file holds no certificate.
    """
    context = client_context(trusted) if isinstance(trusted, str) else trusted
    dialler = dialler_to(address_of(base_url), reactor, context, proxy)
    watched = replace(limits, settle=SETTLE_SECONDS)
    return Upstream(provider_name, base_url, watched, dialler, reactor)


def upstream_of(
    provider: Provider,
    reactor: Any,  # Any: as in mgw.upstream.connect
    context: SSLContext | None,
) -> Upstream:
    """Return a configured provider as reached over the network, and through its proxy if it has one.

    :param context: whom TLS trusts, if it has a ``ca_file``.
    :raises ValueError: its ``base_url`` is no address.
    """
    times = provider.timeouts
    limits = UpstreamLimits(times.connect, times.first_byte, times.idle, SETTLE_SECONDS)

    def at(url: str) -> Upstream:
        dialler = dialler_to(address_of(url), reactor, context, provider.proxy)
        return Upstream(provider.name, url, limits, dialler, reactor, provider.max_connections)

    upstream, wire = at(provider.base_url), wire_of(provider)
    upstream.wire = wire
    origin = None if wire.other_origin is None else wire.other_origin(provider)
    upstream.other = None if origin is None else at(origin)
    return upstream
