"""A gateway without its HTTP face: the pipeline between a client and a provider, both in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.bodies.source import BodySource
from mgw.clients.client import Client, clients_of
from mgw.clients.local_counts import LocalCounts
from mgw.config.settings import Config
from mgw.credentials import credentials_of
from mgw.credentials.provider import ClientKey, CredentialProvider
from mgw.dialects.models import Models
from mgw.exchange.exchange import Exchange
from mgw.exchange.offload import Offload, run_inline
from mgw.exchange.pipeline import ExchangeRun
from mgw.exchange.response_channel import Producer
from mgw.exchange.untold import Estimates
from mgw.generation import Generation
from mgw.http.response_writer import RelayedHead
from mgw.memo.client_request import ClientRequest
from mgw.nouns.kinds import KindRow
from mgw.nouns.vocabulary import Family
from mgw.reactor.deadline import TimerWheel
from mgw.routing.azure_paths import is_served_to_azure
from mgw.routing.catalog import Catalog
from mgw.routing.match import RouteTable
from mgw.routing.resolve import Resolver
from mgw.routing.routes import DASHBOARD_GROUP, ROUTES
from mgw.routing.table import denied_routes, families_of
from mgw.upstream.wires.wire import ProviderWire
from mgw.usage.event import Outcome, SettledExchange, UsageEvent
from mgw.usage.prices import PriceTable
from mgw.wire.headers import RawHeaders
from tests.support.configs import THREE_FAMILIES, config
from tests.support.token_endpoints import TokenHosts
from tests.support.upstreams import MemoryEndpoint, ProviderConnection, upstream_to

CHAT = b'{ "model" : "fast", "messages": [] }'
ANSWER = b'{"id":"x","usage":{"prompt_tokens":7,"completion_tokens":5}}'


def answered(
    body: bytes = ANSWER, status: bytes = b"200 OK", content_type: bytes = b"application/json"
) -> bytes:
    return (
        b"HTTP/1.1 " + status + b"\r\nContent-Type: " + content_type + b"\r\nX-Up: 1\r\n"
        b"Set-Cookie: a=b\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


@dataclass
class RecordingChannel:
    """The channel to a client; it keeps what it is told to send."""

    started: bool = False
    status: int = 0
    reason: bytes = b""
    headers: RawHeaders = field(default_factory=list)
    body: bytes = b""
    finished: bool = False
    aborted: bool = False
    source: Producer | None = None
    keeps_request: bool = False
    """Whether the head went out while the request was still needed."""

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        self.started, self.status, self.reason, self.headers = True, status, reason, headers

    def start_early(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        assert not self.started
        self.start(status, reason, headers)
        self.keeps_request = True

    def forget_request(self) -> None:
        self.keeps_request = False

    def relay_head(self, head: RelayedHead, lines: bytes) -> None:
        pairs = (line.partition(b": ") for line in lines.split(b"\r\n")[:-1])
        self.start(head.status, head.reason, [(name, value) for name, _, value in pairs])

    def relay_whole(self, head: RelayedHead, lines: bytes, body: bytes) -> None:
        self.relay_head(head, lines)
        self.write(body)
        self.finish()

    def write(self, data: bytes) -> None:
        self.body += data

    def chunk_writer(self) -> RecordingChannel:
        return self

    def write_chunk(self, data: bytes, start: int, stop: int) -> None:
        self.body += data[start:stop]

    def finish(self, last_piece: bytes = b"") -> None:
        self.body += last_piece
        self.finished = True

    def abort(self) -> None:
        self.aborted = True

    def flush(self) -> None:
        pass

    def register(self, source: Producer) -> None:
        self.source = source

    def unregister(self) -> None:
        self.source = None


def route_table(settings: Config) -> RouteTable:
    """Return the routes of a configuration: the same table as before where that one had the same."""
    families = tuple(families_of(settings).items())
    return _route_table(
        denied_routes(settings), families, settings.dashboard.why_off, azure=settings.routes.azure
    )


@lru_cache
def _route_table(
    denied: tuple[str, ...],
    families: tuple[tuple[str, Family], ...],
    no_dashboard: str | None,
    *,
    azure: bool,
) -> RouteTable:
    reasons = {} if no_dashboard is None else {DASHBOARD_GROUP: no_dashboard}
    of_azure = RouteTable(filter(is_served_to_azure, ROUTES), denied) if azure else None
    return RouteTable(ROUTES, denied, dict(families), reasons, of_azure)


def with_rows(settings: Config, rows: Mapping[str, KindRow]) -> Config:
    """Return a configuration some of whose providers are of kinds that are made up."""
    if not rows:
        return settings
    providers = {
        name: provider.model_copy(update={"row": rows[name]}) if name in rows else provider
        for name, provider in settings.providers.items()
    }
    return settings.model_copy(update={"providers": providers})


class RecordedExchange(Exchange, eq=False):
    """An exchange without a request, which would record it."""

    record: Callable[[SettledExchange], None] = lambda _: None

    def settle(self, outcome: Outcome, status: int | None = None, error: str | None = None) -> None:
        was_settled = self.settled
        super().settle(outcome, status, error)
        if not was_settled:
            assert self.row is not None
            if self.is_row_pending:
                self.on_row = self.record
            else:
                self.record(self.row)


@dataclass
class Pipeline:
    """The pipeline, its clock, its provider and the events that it left."""

    text: str = THREE_FAMILIES
    clock: Clock = field(default_factory=Clock)
    endpoint: MemoryEndpoint = field(default_factory=MemoryEndpoint)
    events: list[UsageEvent] = field(default_factory=list)
    settled: list[SettledExchange] = field(default_factory=list)
    """What the events are made of."""
    wheel: TimerWheel = field(init=False)
    reserve: Callable[[int], None] | None = None
    """Reserves memory for bodies."""
    offload: Offload = run_inline
    """Does what large bodies cost."""
    estimates: Estimates | None = None
    """Makes the estimates of tokens that nobody tells."""
    counts: LocalCounts | None = None
    """Counts the requests of the client, if it has limits; ``None``: nobody does."""
    rows: Mapping[str, KindRow] = field(default_factory=dict)
    """What the kinds of some providers imply, in place of what the configuration says."""
    wires: Mapping[str, ProviderWire] = field(default_factory=dict)
    """How those are called, by the names in their rows."""
    sources: Mapping[str, CredentialProvider] = field(default_factory=dict)
    """The sources of some providers' credentials."""
    wall: float = 0.0
    """Unix seconds when a request begins."""

    def __post_init__(self) -> None:
        self.wheel = TimerWheel(self.clock)
        settings = with_rows(config(self.text), self.rows)
        resolver = Resolver(settings)
        self.token_hosts = TokenHosts(self.clock)
        self.generation = Generation(
            1,
            settings,
            route_table(settings),
            resolver,
            Catalog(settings, resolver, 0),
            {
                name: self.sources.get(name) or credentials_of(provider, self.token_hosts.sources)
                for name, provider in settings.providers.items()
            },
            {
                name: upstream_to(provider, self.endpoint, self.clock, self.wires)
                for name, provider in settings.providers.items()
            },
            Models(),
            prices=None if settings.prices is None else PriceTable(settings.prices.rows),
        )

    @property
    def connection(self) -> ProviderConnection:
        return self.endpoint.connections[-1]

    def record(self, settled: SettledExchange) -> None:
        self.settled.append(settled)
        self.events.append(settled.event())

    def ask(
        self,
        path: str = "/v1/chat/completions",
        body: bytes | BodySource = CHAT,
        headers: RawHeaders | None = None,
        query: bytes | None = None,
        key: ClientKey | None = None,
        method: str = "POST",
        own_address: str | None = None,
    ) -> tuple[RecordingChannel, Deferred[None]]:
        headers = headers or []
        matched = self.generation.table.match(method, path, query, headers)
        exchange = RecordedExchange(
            "req_1",
            matched.route,
            self.generation,
            self.clock,
            self.wheel,
            self.wall,
            client=_client_of(self.generation.config, self.counts),
            record=self.record,
        )
        exchange.offload, exchange.estimates = self.offload, self.estimates
        if self.counts is not None:
            exchange.acquire_permit()
        if self.reserve is not None:
            exchange.reserve = self.reserve
        request = ClientRequest(
            method.encode(),
            path.encode(),
            query,
            headers,
            matched.model,
            matched.version,
            key,
        )
        exchange.own_address = own_address
        client = RecordingChannel()
        return client, _served(exchange, request, body, client)

    def received(self) -> tuple[bytes, RawHeaders, bytes]:
        """The request line, headers and body that reached the upstream last."""
        head, _, body = self.connection.received.partition(b"\r\n\r\n")
        line, *rest = head.split(b"\r\n")
        return line, [(name, value) for name, _, value in (row.partition(b": ") for row in rest)], body

    def event(self) -> UsageEvent:
        (event,) = self.events
        return event


def _served(
    exchange: Exchange, request: ClientRequest, body: bytes | BodySource, client: RecordingChannel
) -> Deferred[None]:
    """Serve a request, and fire when it has ended; cancel as the client leaves."""

    def on_end(error: Exception | None) -> None:
        if error is None:
            ended.callback(None)
        else:
            ended.errback(error)

    run = ExchangeRun(exchange, request, client, on_end)
    ended: Deferred[None] = Deferred(lambda _: run.cancel())
    run.start(body)
    return ended


def _client_of(config: Config, counts: LocalCounts | None) -> Client | None:
    """Return the client with the first of the edge keys, if one is needed."""
    counts = counts or LocalCounts(lambda: 0.0)
    return next(iter(clients_of(config.edge_auth, counts)), None) if config.edge_auth.enabled else None
