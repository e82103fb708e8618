"""The Klein application, built from the route table.

Every row is an endpoint under its own name.  The row of a request is known from its head, before there is a
body to wait for, so the site runs the endpoint by that name and Klein's map is not asked a second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from klein import Klein

from mgw.errors import GatewayError, Reason
from mgw.exchange.pipeline import serve
from mgw.routing.match import GEMINI_VERSIONS
from mgw.routing.route import Route, Treatment
from mgw.web.request import GatewayRequest

Endpoint = Callable[[GatewayRequest], Awaitable[None]]


def build_app(routes: Iterable[Route], own: Mapping[str, Endpoint]) -> Klein:
    """Return the application that serves the rows.

    :param own: the endpoints of the rows that the gateway answers itself, by the row's name.
    """
    app = Klein()
    for route in routes:
        endpoint = own[route.name] if route.treatment is Treatment.OWN else exchanged
        for rule in klein_rules(route):
            methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]
            app.route(rule, methods=methods, endpoint=route.name, strict_slashes=False, merge_slashes=False)(
                endpoint
            )
    return app


def klein_rules(route: Route) -> list[str]:
    """Return the rules of a row in Klein's notation."""
    path = route.path.replace("{model}", "<path:model>")
    if path.startswith("/v1beta/"):
        return [version + path.removeprefix("/v1beta") for version in GEMINI_VERSIONS]
    return [path]


async def exchanged(request: GatewayRequest) -> None:
    """Serve a row that is one exchange with a provider.

    :raises GatewayError: what the exchange refuses.
    """
    visit = request.visit
    if visit.exchange is None:
        raise GatewayError(Reason.INTERNAL, "an exchange was expected")
    await serve(visit.exchange, visit.request(), visit.client)
