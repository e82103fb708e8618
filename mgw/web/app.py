"""Klein's application: an endpoint for each thing that the gateway answers itself, and one for all the rest.

The row of a request is known from its head, before there is a body to wait for, so the site runs the endpoint
by its name and Klein's map of hundreds of paths need not be built, nor asked a second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from klein import Klein

from mgw.errors import GatewayError, Reason
from mgw.exchange.pipeline import serve
from mgw.routing.route import Route, Treatment
from mgw.web.request import GatewayRequest

Endpoint = Callable[[GatewayRequest], Awaitable[None]]

EXCHANGED: Final = "exchanged"
"""The endpoint of every row that is an exchange with a provider."""


def build_app(own: Mapping[str, Endpoint]) -> Klein:
    """Return the application.

    :param own: the endpoints of the rows that the gateway answers itself, by the row's name.
    """
    app = Klein()
    for name, endpoint in {**own, EXCHANGED: exchanged}.items():
        app.route(f"/{name}", endpoint=name)(endpoint)
    return app


def endpoint_of(route: Route) -> str:
    """Return the name of the endpoint that serves a row."""
    return route.name if route.treatment is Treatment.LOCAL else EXCHANGED


async def exchanged(request: GatewayRequest) -> None:
    """Serve a row that is one exchange with a provider.

    :raises GatewayError: what the exchange refuses.
    """
    visit = request.visit
    if visit.exchange is None:
        raise GatewayError(Reason.INTERNAL, "an exchange was expected")
    await serve(visit.exchange, visit.request(), visit.client)
