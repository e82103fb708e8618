"""What load balancers, orchestrators and scrapers ask for: liveness, readiness, metrics.

Every gateway is asked for these again and again, so they take neither Klein nor Twisted's request object,
which much of a process's memory would go to: the route table has found their rows already, and each row has
one endpoint.  All other requests that the gateway answers itself go on to an application of their own.

Source: contract 4.5 and 9.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mgw.http.response_writer import date_header, reason_phrase
from mgw.routing.routes import PREFLIGHT
from mgw.web.server_request import LocalApp, ServerRequest
from mgw.web.server_response import JSON, NO_STORE, send_parts, send_response
from mgw.wire.headers import RawHeaders, value_of

_ROOT: Final = b'{"service":"mgw"}'
_HEALTHY: Final = b'{"status":"ok"}'
_READY: Final = b'{"status":"ready"}'
_DRAINING: Final = b'{"status":"draining"}'

RenderMetrics = Callable[[bytes | None], Awaitable[tuple[bytes, list[bytes]]]]
"""The rendering of metrics: from ``Accept`` to the content type and the parts of the text."""
Endpoint = Callable[[ServerRequest], Awaitable[None]]
"""Responds to a request, or raises what its client is refused with."""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Metrics in the text exposition format."""

    render: RenderMetrics
    pause: Callable[[], Awaitable[None]]
    """Lets the reactor do other things."""

    async def serve(self, request: ServerRequest) -> None:
        """Send the page."""
        content_type, parts = await self.render(value_of(request.head.headers, b"accept"))
        headers = [*own_headers(request), NO_STORE]
        await send_parts(request.response, content_type, parts, headers, self.pause)


@dataclass(slots=True, eq=False, repr=False)
class Monitoring:
    """The application of a server: it responds to monitors.

    :param draining: whether no new work is taken.
    :param metrics: has the metrics of the whole service; a worker has it ask the process that knows them.
    :param others: responds to what no monitor asks for.
    """

    draining: Callable[[], bool]
    metrics: Endpoint
    others: LocalApp

    def serve(self, request: ServerRequest) -> Awaitable[None]:
        """Have the endpoint of a request's row respond to it."""
        endpoint = _ENDPOINTS.get(request.matched.route.name)
        return self.others.serve(request) if endpoint is None else endpoint(self, request)

    async def root(self, request: ServerRequest) -> None:
        """Say what this is: agents probe it."""
        send_uncached(request, 200, _ROOT)

    async def healthz(self, request: ServerRequest) -> None:
        """The process lives."""
        send_uncached(request, 200, _HEALTHY)

    async def readyz(self, request: ServerRequest) -> None:
        """Whether new work is taken: 503 from the first moment of a drain."""
        if self.draining():
            send_uncached(request, 503, _DRAINING)
        else:
            send_uncached(request, 200, _READY)

    async def preflight(self, request: ServerRequest) -> None:
        """Whether a web page may send a request: the head says so (:mod:`mgw.web.cors`)."""
        request.response.start(204, reason_phrase(204), own_headers(request))
        request.response.finish()

    def scrape(self, request: ServerRequest) -> Awaitable[None]:
        """Metrics, whoever has them."""
        return self.metrics(request)


_ENDPOINTS: Final[Mapping[str, Callable[[Monitoring, ServerRequest], Awaitable[None]]]] = MappingProxyType(
    {
        "root": Monitoring.root,
        "healthz": Monitoring.healthz,
        "readyz": Monitoring.readyz,
        "metrics": Monitoring.scrape,
        PREFLIGHT.name: Monitoring.preflight,
    }
)
"""The endpoints, by the names of their rows."""

MONITORED_ROUTES: Final = frozenset(_ENDPOINTS) - {PREFLIGHT.name}
"""The rows of the route table that are answered here."""


def send_uncached(request: ServerRequest, status: int, body: bytes) -> None:
    """Send JSON that is true only now."""
    send_response(request.response, status, JSON, body, [*own_headers(request), NO_STORE])


def own_headers(request: ServerRequest) -> RawHeaders:
    """Return the headers of every response of the gateway's own."""
    return [(b"X-Gateway-Request-Id", request.request_id.encode()), date_header(request.server.wall())]
