"""One provider as the rest of the gateway sees it: a request goes in, an unread response comes out.

Bodies are relayed as they come: nothing is decompressed, redirected, remembered or buffered here.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from mgw.bodies.source import body_size
from mgw.errors import GatewayError
from mgw.http.request_head import render_request_head
from mgw.upstream.address import address_of
from mgw.upstream.connect import describe_connect_error, endpoint_to
from mgw.upstream.failure import Phase, UpstreamFailure
from mgw.upstream.pool import SETTLE_SECONDS, Pool
from mgw.upstream.request import UpstreamLimits, UpstreamRequest
from mgw.upstream.response import BodyReceiver, UpstreamResponse

__all__ = [
    "BodyReceiver",
    "Phase",
    "Upstream",
    "UpstreamFailure",
    "UpstreamLimits",
    "UpstreamRequest",
    "UpstreamResponse",
    "build_upstream",
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
        endpoint: IStreamClientEndpoint,
        clock: IReactorTime,
        max_connections: int | None = None,
    ) -> None:
        self.name = name
        self._address = address = address_of(base_url)
        self._host = address.host_header
        self._pool = Pool(
            provider=name,
            endpoint=endpoint,
            clock=clock,
            limits=limits,
            describe_error=lambda error: describe_connect_error(error, name, address, limits.connect),
            max_connections=max_connections,
        )

    def __repr__(self) -> str:
        return f"<Upstream {self.name} at {self._address.origin}>"

    @property
    def base_path(self) -> bytes:
        """The path of the base address, without a slash at its end."""
        return self._address.path

    @property
    def origin(self) -> str:
        """The base address without its path."""
        return self._address.origin

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
    def opened_total(self) -> int:
        """How many connections were made since the start."""
        return self._pool.opened_total

    def open(self, request: UpstreamRequest, *, fresh: bool = False) -> Deferred[UpstreamResponse]:
        """Send ``request``; fires when the head of the response is there.

        Cancelling at any moment aborts what is under way and frees its slot.  ``fresh`` insists on a new
        connection.  Fails with :class:`UpstreamFailure`, or with :class:`GatewayError` OVERLOADED when no
        connection may be had, or MALFORMED for a request that cannot be written.
        """
        try:
            head = render_request_head(
                request.method, request.target, request.headers, self._host, body_size(request.body)
            )
        except GatewayError as error:
            return fail(error)
        connection = None if fresh else self._pool.take_idle()
        if connection is not None:  # the common case, without a coroutine
            return connection.send(request.method, head, request.body)
        return Deferred.fromCoroutine(self._open(request, head, fresh=fresh))

    def close(self) -> None:
        """Close what is idle; requests under way finish, and their connections are not kept."""
        self._pool.close()

    def when_closed(self) -> Deferred[None]:
        """Fire when no connection is left, which comes after :meth:`close` and the last request."""
        return self._pool.when_empty()

    async def _open(self, request: UpstreamRequest, head: bytes, *, fresh: bool) -> UpstreamResponse:
        connection = await self._pool.obtain(fresh=fresh)
        return await connection.send(request.method, head, request.body)


def build_upstream(
    provider_name: str,
    base_url: str,
    limits: UpstreamLimits,
    reactor: Any,  # as in mgw.upstream.connect
    ca_file: str | None = None,
    max_connections: int | None = None,
) -> Upstream:
    """Return the provider at ``base_url`` as reached over the network; ``ca_file`` is read now.

    :raises OSError: ``ca_file`` cannot be read.
    :raises ValueError: ``base_url`` is no address, or ``ca_file`` holds no certificate.
    """
    endpoint = endpoint_to(address_of(base_url), reactor, ca_file)
    watched = replace(limits, settle=SETTLE_SECONDS)
    return Upstream(provider_name, base_url, watched, endpoint, reactor, max_connections)
