"""What the gateway itself answers, as a resource tree of Klein: the catalog, the providers, the dashboard.

The route table has matched the path of a request before, since it says who may come in and how long a body
may be; a test holds the two together.  The rules see the decoded path: a model may be several segments of it.

Source: contract 4.17 and 4.18.  What monitors ask for is :mod:`mgw.web.monitoring`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import parse_qsl, unquote

from mgw.canonical.catalog import CatalogEntry
from mgw.dialects import dialect_of
from mgw.generation import Generation
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import Family
from mgw.ops.live_models import LiveModels
from mgw.ops.provider_health import ProviderHealth
from mgw.reactor.resource_tree import ResourceTree
from mgw.web.gateway_request import DashboardEndpoint, GatewayRequest
from mgw.web.monitoring import own_headers, send_uncached
from mgw.web.server_request import ServerRequest
from mgw.web.server_response import JSON, send_response
from mgw.wire.headers import RawHeaders

_ON: Final = frozenset({"1", "true"})


@dataclass(slots=True)
class Operations:
    """The endpoints; one server has them as its application.

    :param dashboard: responds to operators; a worker has it ask the process that knows what they see.
    """

    app: ClassVar[ResourceTree] = ResourceTree()
    generation: Callable[[], Generation]
    dashboard: DashboardEndpoint
    live_models: LiveModels
    provider_health: ProviderHealth
    tree: ResourceTree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = self.app

    def serve(self, request: ServerRequest) -> Awaitable[None]:
        """Have the endpoint of a request's path respond to it."""
        matched, path = request.matched, request.known.raw_path.decode("ascii")
        if matched.of_azure:
            path = f"/v1{path[len(matched.version) :]}"
        return self.tree.serve(GatewayRequest.of(request), unquote(path))

    @app.route("/ui")
    @app.route("/ui/<rest:path>")
    @app.route("/v1/dashboard")
    @app.route("/v1/dashboard/<rest:path>")
    def operate(self, request: GatewayRequest, path: str = "") -> Awaitable[None]:  # noqa: ARG002  it has a tree
        """The dashboard, which has a tree of its own, and says itself which methods a path takes."""
        return self.dashboard(request)

    @app.route("/v1/health/providers", methods=["GET"])
    async def health(self, request: GatewayRequest) -> None:
        """How the providers are.

        :raises GatewayError: ``UNKNOWN_ROUTE`` where the configuration does not switch it on.
        """
        server_request, generation = request.server_request, self.generation()
        if not generation.config.health_checks.enabled:
            message = f"{server_request.matched.route.path} is served only if health_checks.enabled is true"
            raise GatewayError(Reason.UNKNOWN_ROUTE, message)
        send_uncached(server_request, 200, await self.provider_health.report(generation))

    @app.route("/v1/models", methods=["GET"])
    @app.route("/v1beta/models", methods=["GET"])
    @app.route("/v1alpha/models", methods=["GET"])
    async def models(self, request: GatewayRequest) -> None:
        """The catalog in the client's shape, which the row says: headers may decide whose a path is.

        :raises GatewayError: ``MALFORMED`` for a page that cannot be.
        """
        server_request = request.server_request
        query = dict(
            parse_qsl((server_request.caller.raw_query or b"").decode("latin-1"), keep_blank_values=True)
        )
        dialect = dialect_of(server_request.matched.route.dialect)
        _send(
            server_request, 200, JSON, dialect.render_list(await self._entries(server_request, query), query)
        )

    @app.route("/v1/models/<rest:model>", methods=["GET"])
    @app.route("/v1beta/models/<rest:model>", methods=["GET"])
    @app.route("/v1alpha/models/<rest:model>", methods=["GET"])
    def model(self, request: GatewayRequest, model: str) -> None:
        """One entry of the catalog.

        :raises GatewayError: ``UNKNOWN_MODEL`` for an id that resolves neither by alias nor by prefix.
        """
        server_request = request.server_request
        catalog = self.generation().catalog
        entry = catalog.entry(model)
        client = server_request.caller.client
        if client is not None:
            client.check_model(model, *catalog.target_of(model))
        dialect = dialect_of(server_request.matched.route.dialect)
        _send(server_request, 200, JSON, dialect.render_entry(entry))

    async def _entries(
        self, server_request: ServerRequest, query: Mapping[str, str]
    ) -> Sequence[CatalogEntry]:
        """Return what is listed, as far as the client may use it."""
        generation, client = self.generation(), server_request.caller.client
        entries = await self._all_entries(generation, server_request, query)
        if client is None or not client.fits:
            return entries
        target_of = generation.catalog.target_of
        return [entry for entry in entries if client.may_use(entry.id, *target_of(entry.id))]

    async def _all_entries(
        self, generation: Generation, server_request: ServerRequest, query: Mapping[str, str]
    ) -> Sequence[CatalogEntry]:
        """Return everything that is listed; upstreams are asked where the client wants that."""
        catalog = generation.catalog
        live = "live" in query
        if live and query["live"].lower() not in _ON:
            return catalog.entries
        family = None if live else _family_of_version(server_request.head.headers)
        if not live and family is None:
            return catalog.entries
        caller = server_request.caller
        found = await self.live_models.ask(generation, caller.key, family, caller.token)
        return catalog.with_live(found)


def _family_of_version(headers: RawHeaders) -> Family | None:
    """Return the family whose version a client states: that alone asks its providers."""
    names = {name.lower() for name, _ in headers}
    rows = FAMILIES.values()
    return next((row.family for row in rows if not row.version_headers.isdisjoint(names)), None)


def _send(request: ServerRequest, status: int, content_type: bytes, body: bytes) -> None:
    send_response(request.response, status, content_type, body, own_headers(request))
