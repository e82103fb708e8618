"""What one process serves requests with: the current configuration, the server and its channels."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from mgw.app.late_app import LateApp
from mgw.app.late_issuer_keys import LateIssuerKeys, import_for_issuers
from mgw.bodies.budget import BodyBudget
from mgw.bodies.spool import DiskThreads, Spool
from mgw.clients.client import ClientRegistry
from mgw.clients.limits import Counts
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.key_settings import NamedKeySettings
from mgw.config.settings import Config
from mgw.credentials.sources import CredentialSources
from mgw.exchange.offload import WorkThreads
from mgw.exchange.untold import Estimates
from mgw.generation import Generation, Parts, build_in_slices
from mgw.nouns.secret import Secret
from mgw.ops.heap import LARGE_BYTES, HeapTrimmer, tune_heap
from mgw.ops.logs import AccessObserver
from mgw.ops.loop_delay import LoopDelay
from mgw.ops.metrics import Metrics
from mgw.ops.process import collect_rarely
from mgw.ops.provider_metrics import ProviderMetrics
from mgw.ops.state_metrics import StateMetrics
from mgw.reactor.daemon_threads import DaemonThreads, NextTurnRunner
from mgw.reactor.twisted_fast.event_loop import EventLoop
from mgw.realtime.sessions import Sessions
from mgw.routing.routes import ROUTES
from mgw.web.edge_auth import EdgeGate, prepare_gate
from mgw.web.key_changes import KeyChanges
from mgw.web.listener import ChannelFactory, channel_limits
from mgw.web.monitoring import Endpoint, Monitoring
from mgw.web.pending_keys import NoKeysOfIssuers
from mgw.web.server import WebServer
from mgw.web.server_request import LocalApp

if TYPE_CHECKING:
    from mgw.web.gateway_request import DashboardEndpoint
    from mgw.web.token_gate import TokenGate

_log: Final = Logger()

SWITCH_SECONDS: Final = 0.001
"""How long a thread that works on a large body may go on while the reactor wants to; Python's own is 5 ms."""


@dataclass(slots=True, eq=False, repr=False)
class Shared:
    """What several processes may have in common: credentials, and the counts of keys and of sessions."""

    sources: CredentialSources
    counts: Counts
    file_keys: Sequence[NamedKeySettings] = ()
    """The keys of key files to begin with."""
    issuers: LateIssuerKeys = field(default_factory=LateIssuerKeys)
    """The public keys of issuers of tokens."""


class Serving:
    """The server of one process and all that it needs; it outlives every configuration.

    :param shared: its sources are those from which the generation was built.
    :param observer: learns of the requests that end.
    :param metrics: responds to requests for the metrics of the service.
    :param dashboard: returns what responds to requests for the dashboard; it is called when Klein is there.
    """

    def __init__(
        self,
        reactor: Any,  # Any: a reactor has no one type
        shared: Shared,
        generation: Generation,
        observer: AccessObserver,
        metrics: Endpoint,
        dashboard: Callable[[], DashboardEndpoint],
    ) -> None:
        self._reactor = reactor
        self.sources = shared.sources
        self.issuers = shared.issuers
        self.issuers.use(generation.config.edge_auth)
        self._event_loop = EventLoop(reactor)
        self._disk_threads = DiskThreads(reactor)
        self.work_threads = WorkThreads(reactor)
        self._estimates = Estimates(NextTurnRunner(reactor, DaemonThreads(reactor, "mgw-estimates")))
        self._heap_trimmer = HeapTrimmer(reactor, lambda: self.server.budget.held > LARGE_BYTES)
        self._cut_short: Callable[[], None] | None = None
        self.stopping = False
        self._configured_secrets = list(generation.configured_secrets)
        self._counts = shared.counts
        self._registry = ClientRegistry(shared.counts)
        self._registry.file_keys.update({key.name: key for key in shared.file_keys})
        observer.metrics.requests.clients.refusals = self._registry.refusals
        others = LateApp(lambda: self._build_operations(observer.metrics, dashboard()))
        app = Monitoring(lambda: self.stopping, metrics, others)
        self.server = self._make_server(shared, generation, observer, app)
        self.keys = KeyChanges(self.server)
        self.issuers.on_change = self.keys.use_issuer_keys
        self.keys.follow()
        self.channels = ChannelFactory(self.server, reactor, channel_limits(generation.config))

    def _build_operations(self, metrics: Metrics, dashboard: DashboardEndpoint) -> LocalApp:
        from mgw.app.build_operations import build_operations  # here: see mgw.app.late_app

        return build_operations(self._reactor, self.server, metrics, dashboard)

    def _make_server(
        self, shared: Shared, generation: Generation, observer: AccessObserver, app: LocalApp
    ) -> WebServer:
        config, registry = generation.config, self._registry
        disk = BodyBudget(config.spool.body_disk, place="on disk")
        return WebServer(
            generation=generation,
            app=app,
            clock=self._reactor,
            wall=time,
            observer=observer,
            budget=BodyBudget(config.spool.body_memory),
            spool=Spool(config.spool.dir, self._disk_threads.run, disk, self._reactor),
            gate=EdgeGate(
                config.edge_auth,
                registry,
                config.dashboard.keys,
                time,
                self._make_token_gate(config.edge_auth),
            ),
            make_token_gate=self._make_token_gate,
            registry=registry,
            offload=self.work_threads.run,
            estimates=self._estimates,
            sessions=Sessions(config.realtime.max_sessions, counts=shared.counts),
        )

    def _make_token_gate(self, settings: EdgeAuthSettings) -> TokenGate | None:
        if not settings.jwt:
            return None
        from mgw.web.token_gate import make_token_gate  # here: it needs what few configurations do

        keys = self.issuers.needed() if settings.enabled else NoKeysOfIssuers()
        return make_token_gate(settings, self._counts, keys, self._registry.memory.expired_tokens)

    @property
    def generation(self) -> Generation:
        """The configuration that new requests begin with."""
        return self.server.generation

    async def build(self, parts: Parts, number: int) -> Generation:
        """Build what another configuration asks for; :meth:`use` it, or retire it.

        :param number: how it is called.
        :raises ValueError: files that it names cannot be read, or do not hold what they should.
        """
        return await build_in_slices(number, parts, self._reactor, self.sources)

    def prepare(self, config: Config, further: Sequence[NamedKeySettings] = ()) -> None:
        """Do in a thread what takes long of using a configuration.

        :param further: keys of key files that may be new.
        """
        import_for_issuers(config.edge_auth)
        prepare_gate(self._registry, config.edge_auth, config.dashboard.keys, further)

    def use(self, generation: Generation) -> None:
        """Serve new requests with another configuration."""
        self.hide(generation.configured_secrets)
        self.issuers.use(generation.config.edge_auth)
        self.server.use(generation)
        self.keys.follow()
        self.channels.limits = channel_limits(generation.config)
        self._event_loop.use(fast=generation.config.fast_event_loop)

    @property
    def file_keys(self) -> list[NamedKeySettings]:
        """The keys of key files that are in force, as far as the configuration has room for them."""
        return self._registry.usable(self.generation.config.edge_auth)

    def begin(self, *, shares_port: bool = False) -> None:
        """Prepare the process for requests, once its reactor runs.

        :param shares_port: whether other processes accept clients from the same port.
        """
        if shares_port:
            self._event_loop.max_accepts = 1
        tune_heap()
        self._heap_trimmer.start()
        collect_rarely()
        sys.setswitchinterval(SWITCH_SECONDS)
        self.issuers.begin()
        self._event_loop.use(fast=self.generation.config.fast_event_loop)

    def hide(self, configured: Sequence[Secret]) -> None:
        """Know the secrets of another configuration, and remember those of the one in use, which may go."""
        before = [*self._configured_secrets, *self.generation.secrets, *self.server.gate.learned]
        self._configured_secrets = list(dict.fromkeys([*configured, *before]))

    def secrets(self) -> list[Secret]:
        """Return what no log may show: what configurations have held, and what was learned while serving."""
        learned = [*self.sources.secrets(), *self.server.gate.learned]
        return [*self._configured_secrets, *self.generation.secrets, *learned]

    async def drain(self, delay: float) -> None:
        """Stop being ready; then refuse new work, and wait for the last request.

        The first takes ``delay`` seconds, the second no longer than ``drain_seconds``.
        """
        self.stopping = True
        seconds = self.generation.config.drain_seconds
        if delay:
            seconds = await self._delayed(delay, seconds)
        if self.server.in_flight:
            _log.info(
                "draining {count} requests for at most {seconds:g} s",
                count=self.server.in_flight,
                seconds=seconds,
            )
        await self._drained(seconds)
        if self.server.in_flight:
            _log.warn("the drain timed out: aborting {count} requests", count=self.server.in_flight)
        self.server.abort_requests()
        await self.channels.last_requests()

    def cut_short(self) -> bool:
        """End a drain that has begun with what is left of it; return whether one has."""
        if self._cut_short is None:
            return False
        _log.warn("stopped again during the drain: aborting {count} requests", count=self.server.in_flight)
        self._cut_short()
        return True

    async def stop(self) -> None:
        """Let go of everything, after a drain; nothing may be listening any more."""
        await self.channels.stopped()
        self.keys.stop()
        self.issuers.stop()
        self._heap_trimmer.stop()
        self._disk_threads.stop()
        self.work_threads.stop()
        await self._estimates.stop()
        await self.server.late_rows.recorded()
        self.generation.retire()

    def restore(self) -> None:
        """Leave the reactor as it was."""
        self._event_loop.restore()

    def _delayed(self, delay: float, seconds: float) -> Deferred[float]:
        """Go on for a time; fire with how long the drain may take: no time after :meth:`cut_short`."""
        _log.info("no longer ready; still accepting requests for {seconds:g} s", seconds=delay)
        over: Deferred[float] = Deferred()
        limit = self._reactor.callLater(delay, over.callback, seconds)

        def cut() -> None:
            if limit.active():
                limit.cancel()
                over.callback(0.0)

        self._cut_short = cut
        return over

    def _drained(self, seconds: float) -> Deferred[None]:
        drained: Deferred[None] = Deferred()

        def idle() -> None:
            if not drained.called:
                drained.callback(None)

        limit = self._reactor.callLater(seconds, idle)
        self._cut_short = idle
        self.server.drain()
        self.server.on_idle = idle
        self.channels.drain()
        if not self.server.in_flight:
            idle()
        return drained.addBoth(lambda _: limit.cancel() if limit.active() else None)


def metrics_of(reactor: Any, serving: Callable[[], Serving]) -> Metrics:  # Any: as above
    """Return the metrics of what serves requests, which may be made later.

    What usage sinks and the listener's certificate have to say is not known here.
    """

    def server() -> WebServer:
        return serving().server

    def channels() -> ChannelFactory:
        return serving().channels

    def offload(work: Callable[[], bytes]) -> Awaitable[bytes]:
        return serving().work_threads.run(work)

    state = StateMetrics(
        requests_in_flight=lambda: server().in_flight,
        sessions=lambda: (server().sessions.count, server().sessions.max_sessions),
        clients=lambda: (channels().channels, channels().limits.max_clients, channels().refused),
        bodies_held=lambda: {"memory": server().budget.held, "disk": server().spool.disk.held},
        draining=lambda: serving().stopping,
    )
    return Metrics(
        frozenset(route.name for route in ROUTES),
        state=state,
        upstreams=ProviderMetrics(
            lambda: serving().generation.upstreams,
            lambda: serving().generation.credentials,
            lambda: serving().generation.signed_again,
        ),
        loop_delay=LoopDelay(reactor),
        pause=lambda: deferLater(reactor, 0),
        offload=offload,
    )
