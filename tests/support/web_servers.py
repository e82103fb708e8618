"""A web server with its channel, an observer and a provider, all in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from tempfile import mkdtemp
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from mgw.bodies.budget import BodyBudget
from mgw.bodies.spool import Spool
from mgw.clients.client import ClientRegistry
from mgw.clients.local_counts import LocalCounts
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.exchange.upstream_headers import provider_headers
from mgw.http.head_key import key_of_head
from mgw.nouns.secret import Secret
from mgw.nouns.token_flaw import TokenFlaw
from mgw.ops.live_models import LiveModels
from mgw.ops.probes import ProviderProbe
from mgw.ops.provider_health import ProviderHealth
from mgw.usage.event import UsageEvent
from mgw.usage.record import EndedRequest
from mgw.web.edge_auth import EdgeGate
from mgw.web.gateway_request import GatewayRequest
from mgw.web.listener import ChannelFactory
from mgw.web.monitoring import MetricsPage, Monitoring
from mgw.web.operations import Operations
from mgw.web.server import WebServer
from tests.support.channels import LIMITS, channel_of
from tests.support.configs import THREE_FAMILIES
from tests.support.heads import Heads, current_heads
from tests.support.pipelines import Pipeline

T = TypeVar("T")


@dataclass
class RecordingObserver:
    """An observer that keeps what it is told."""

    events: list[UsageEvent] = field(default_factory=list)
    lines: list[tuple[str | None, str | None, int]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    have_events: list[bool] = field(default_factory=list)
    """Of each line: whether there is an event, too."""
    errors: list[str | None] = field(default_factory=list)
    rejections: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why edge auth has rejected requests."""
    flaws: list[tuple[str, TokenFlaw]] = field(default_factory=list)
    """The issuers of tokens that were rejected, and why they were."""
    broken: int = 0

    def record(self, ended: EndedRequest) -> None:
        if ended.settled is not None:
            self.events.append(ended.settled.event())
            # No time passes between the two: the event has waited for the end of its request.
            assert ended.settled.latency_ms == ended.seconds * 1000.0
        method, path = (
            None if value is None else value.decode("latin-1") for value in (ended.method, ended.raw_path)
        )
        self.have_events.append(ended.settled is not None)
        self.lines.append((method, path, ended.status))
        self.errors.append(ended.error)
        self.ids.append(ended.request_id)

    def edge_rejected(self, reason: str = "key") -> None:
        self.rejections += 1
        self.reasons.append(reason)

    def token_rejected(self, issuer: str, flaw: TokenFlaw) -> None:
        self.flaws.append((issuer, flaw))

    def malformed(self) -> None:
        self.broken += 1


def at_once(work: Callable[[], T], /) -> Deferred[T]:
    """Do what a thread would do."""
    return maybeDeferred(work)


async def no_metrics(accept: bytes | None) -> tuple[bytes, list[bytes]]:
    """A page without a metric."""
    return b"text/plain", []


async def no_dashboard(request: GatewayRequest) -> None:
    """Where the dashboard is off, no row of the route table leads to it."""
    raise AssertionError(request.path)


def no_pause() -> Deferred[None]:
    """Go on at once."""
    return succeed(None)


def operations_of(server: Callable[[], WebServer], clock: Clock) -> Operations:
    """Return what answers in place of a provider; it has no dashboard."""
    probe = ProviderProbe(clock, provider_headers)
    return Operations(
        lambda: server().generation, no_dashboard, LiveModels(probe, lambda _: None), ProviderHealth(probe)
    )


def monitoring_of(server: Callable[[], WebServer], others: Operations) -> Monitoring:
    """Return what answers to monitors; it has no metrics."""
    return Monitoring(lambda: server().draining, MetricsPage(no_metrics, no_pause).serve, others)


class WebServerHarness:
    """A web server with edge auth, one client's connection to it, and a provider in memory.

    Where heads are to be known, every head that this client sends has come twice before.
    """

    def __init__(self, text: str = THREE_FAMILIES, pipeline: Pipeline | None = None) -> None:
        self.pipeline = pipeline or Pipeline(text)
        self.clock = self.pipeline.clock
        self.generation = self.pipeline.generation
        self.unix_seconds = 0.0
        self.observer = RecordingObserver()
        self.operations = operations_of(lambda: self.server, self.clock)
        self.monitoring = monitoring_of(lambda: self.server, self.operations)
        self.counts = LocalCounts(self.clock.seconds)
        edge_auth, registry = self.generation.config.edge_auth, ClientRegistry(self.counts)
        if not edge_auth.enabled:
            edge_auth = EdgeAuthSettings(enabled=True, keys=(Secret("edge"),))
        self.server = WebServer(
            generation=self.generation,
            app=self.monitoring,
            clock=self.clock,
            wall=self.read_wall,
            observer=self.observer,
            budget=BodyBudget(self.generation.config.spool.body_memory),
            spool=Spool(mkdtemp(), at_once, BodyBudget(2**32, place="on disk"), self.clock),
            gate=EdgeGate(edge_auth, registry, wall=self.read_wall),
            registry=registry,
        )
        self.factory = ChannelFactory(self.server, self.clock, LIMITS)
        self.connect()

    def read_wall(self) -> float:
        """Return unix seconds."""
        return self.unix_seconds

    def connect(self) -> None:
        """Connect another client, who is the one from now on."""
        self.transport = StringTransport()
        self.channel = channel_of(self.factory)
        self.channel.makeConnection(self.transport)  # type: ignore[no-untyped-call]  # Twisted's

    def send(self, data: bytes) -> None:
        if current_heads() is Heads.KNOWN:
            self._warm_up(data)
        self.channel.dataReceived(data)

    def _warm_up(self, data: bytes) -> None:
        """Have other clients send the head that ``data`` begins with, and leave; nobody observes them."""
        found = key_of_head(data)
        if found is None or self.server.find_head(found[0]) is not None:
            return
        server, observer, on_idle = self.server, self.server.observer, self.server.on_idle
        server.observer, server.on_idle = RecordingObserver(), None
        for _ in range(2):
            channel = channel_of(self.factory)
            channel.makeConnection(StringTransport())  # type: ignore[no-untyped-call]  # Twisted's
            channel.dataReceived(data[: found[1]])
            channel.connectionLost(Failure(ConnectionDone()))
        server.observer, server.on_idle = observer, on_idle

    def leave(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))

    def received(self) -> bytes:
        data: bytes = self.transport.value()
        return data

    def status(self) -> int:
        return int(self.received().split(b" ")[1])

    def body(self) -> Any:  # Any: JSON
        return json.loads(self.received().partition(b"\r\n\r\n")[2])

    @property
    def event(self) -> UsageEvent:
        (event,) = self.observer.events
        return event

    @property
    def connection(self) -> Any:  # Any: the provider's side of the newest connection
        return self.pipeline.connection


def settled(harness: WebServerHarness) -> tuple[int, int, int]:
    """Return what is still held: requests, users of the generation, bytes of bodies."""
    return harness.server.in_flight, harness.generation.in_use, harness.server.budget.held
