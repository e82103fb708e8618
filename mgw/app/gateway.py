"""The gateway in the process that speaks for the service: what serves requests, and what reports them.

Sinks, listeners and open connections outlive every configuration; all else hangs on a
:class:`~mgw.generation.Generation` and is built anew by a reload.  The order in which things start, reload
and stop is the services': :mod:`mgw.app.service` (one process), :mod:`mgw.app.supervised_service` (several).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import random
from time import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.app.credential_sources import build_sources
from mgw.app.key_files import KeyFiles, ignore_keys, log_expiry
from mgw.app.late_issuer_keys import LateIssuerKeys
from mgw.app.limit_states import LimitStates
from mgw.app.serving import Serving, Shared, metrics_of
from mgw.app.telemetry import Telemetry
from mgw.clients.key_rows import KeyRow
from mgw.clients.limits import Counts
from mgw.clients.local_counts import LocalCounts
from mgw.config.key_settings import NamedKeySettings
from mgw.config.settings import Config
from mgw.config.time_zones import zone_of
from mgw.credentials.sources import CredentialSources
from mgw.dashboard.gateway_view import GatewayView, OtherWork
from mgw.dashboard.switch import DashboardSwitch
from mgw.generation import Generation, build_generation
from mgw.identity.key_rules import read_keys
from mgw.identity.keys_dir import KeysDirectory
from mgw.identity.limit_store import LimitStore
from mgw.nouns.secret import Secret
from mgw.ops.logs import AccessObserver, LogFile
from mgw.reactor.daemon_threads import DaemonThreads, SerialRunner
from mgw.usage.open_sinks import SinksByName
from mgw.web.listener import ChannelFactory
from mgw.web.monitoring import MetricsPage
from mgw.web.ports import Ports
from mgw.web.server import WebServer

if TYPE_CHECKING:
    from mgw.identity.issuers import IssuerKeys
    from mgw.identity.key_feed import FetchingFeed
    from mgw.redis.hosts import Fleet
    from mgw.web.gateway_request import DashboardEndpoint
    from mgw.web.tls import Certificate

T = TypeVar("T")
_log: Final = Logger()


class StartError(SystemExit, Exception):
    """The gateway cannot start; the text says why.

    As a ``SystemExit`` it is printed without a traceback, and the exit code is 1.  As an ``Exception``
    it makes twistd remove its pid file and tell the parent of a daemon, which waits for that.
    """


class Prepared(Struct, frozen=True):
    """A configuration that could be used at once."""

    config: Config
    generation: Generation
    sinks: SinksByName
    certificate: Certificate | None
    key_files: KeysDirectory | None
    warnings: Sequence[str]
    """What an operator should know of it, a sentence each."""


class Workers(OtherWork, Protocol):
    """The processes that serve the clients, where the gateway's own process only speaks for them."""

    def facts(self, own: Mapping[str, Any]) -> Mapping[str, Any]:  # Any: JSON
        """Return what this process says of its requests and sessions, with those of the workers."""
        ...

    def tell_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Tell all of them that an account is in cooldown."""
        ...

    def tell_keys(self, changed: Sequence[NamedKeySettings], gone: Sequence[str]) -> Deferred[None] | None:
        """Tell all of them what has become of key files (:data:`mgw.app.key_files.TellKeys`)."""
        ...

    def tell_issuer_keys(
        self, source: str, document: bytes | None, age: float | None
    ) -> Deferred[None] | None:
        """Tell all of them what has become of an issuer's keys (:data:`mgw.identity.key_feed.TellKeys`)."""
        ...


class Gateway:
    """All that a service has, whichever it is.

    :param config: the configuration to begin with.
    :param log_file: where the process log goes; ``None`` leaves twistd's observers alone.
    :param line_threads: makes what writes lines to an output, for a reactor and the output's name.
    :param workers: the processes that serve the clients; ``None``: this one does.
    :raises ValueError: the configuration cannot be used; a line for each reason.
    """

    def __init__(
        self,
        config: Config,
        reactor: Any,  # Any: a reactor has no one type
        log_file: LogFile | None,
        line_threads: Callable[[Any, str], SerialRunner] = DaemonThreads,
        workers: Workers | None = None,
    ) -> None:
        self.reactor = reactor
        self._workers = workers
        self.ports = Ports(reactor)
        self.events_lost = 0
        """Usage events that could not be kept when it stopped."""
        self.issuer_feed: FetchingFeed | None = None
        """What fetches the public keys of issuers; ``None``: no configuration had an issuer yet."""
        sources = build_sources(reactor)
        generation = build_generation(1, config, reactor, int(time()), sources)
        metrics = metrics_of(reactor, lambda: self.serving)
        metrics.state.certificate_expires = self.ports.certificate_expires
        metrics.reloaded(1, config.providers, config.edge_auth.client_names)
        self.telemetry = Telemetry(reactor, config, lambda: self.config, metrics, log_file, line_threads)
        self._limit_store = LimitStore(
            *(config.limit_store, DaemonThreads(reactor, "mgw-limits"), reactor),
            keeps_parts=config.fleet.redis is not None,
        )
        self._fleet = self._join_fleet(config)
        self.key_files = key_files = self._open_key_files(config, workers)
        fleet, store = self._fleet, self._limit_store
        self.counts: Counts = LocalCounts(reactor.seconds, store) if fleet is None else fleet.counts
        """What counts requests and sessions, for all processes of the service."""
        self._limit_states = LimitStates(
            reactor, self.counts, lambda: self.config.edge_auth, lambda: key_files.keys, reactor.seconds
        )
        metrics.state.limits = lambda: self._limit_states.latest
        metrics.state.limit_store_up = lambda: self._limit_store.is_up
        self.dashboard = DashboardSwitch(self._view())
        self.serving = self._make_serving(sources, generation)
        self.serving.keys.on_issuer_keys = self.dashboard.follow_issuers
        sources.subscriptions.on_cooldown = self._on_own_cooldown
        self.dashboard.follow()

    @property
    def config(self) -> Config:
        """The configuration that new requests begin with."""
        return self.serving.generation.config

    @property
    def server(self) -> WebServer:
        """What takes the requests."""
        return self.serving.server

    @property
    def channels(self) -> ChannelFactory:
        """What makes the channels of clients."""
        return self.serving.channels

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as ``host:port``."""
        return self.ports.addresses

    def take_over_log(self, application: object) -> None:
        """Write twistd's log to our file, without secrets, unless it was sent elsewhere."""
        self.telemetry.take_over_log(application, self.known_secrets)

    def open_sinks(self) -> None:
        """Open where usage events go.

        :raises StartError: they cannot be written; the reason is printed.
        """
        sinks = self.telemetry.sinks
        try:
            sinks.use(sinks.open(self.config.hooks))
        except ValueError as error:
            raise self.unable(str(error)) from None

    def begin(self) -> None:
        """Serve, once the reactor runs."""
        self.serving.begin()
        self.serving.keys.on_expired = log_expiry
        self.key_files.begin()
        if self.config.edge_auth.enabled:
            self._limit_store.start()
        self.telemetry.metrics.loop_delay.start()

    def use(self, prepared: Prepared) -> None:
        """Serve new requests with another configuration, and tell of them as it asks."""
        config, generation, telemetry = prepared.config, prepared.generation, self.telemetry
        self.ports.renew(prepared.certificate)
        telemetry.sinks.tools.spool.room.max_bytes = config.spool.max_bytes
        self.serving.use(generation)
        self.key_files.use(prepared.key_files)
        self._use_fleet(config)
        self.dashboard.follow()
        telemetry.sinks.use(prepared.sinks)
        telemetry.use_log(config.log)
        telemetry.metrics.reloaded(generation.number, config.providers, config.edge_auth.client_names)

    async def stop(self) -> None:
        """Close everything, after a drain."""
        self.key_files.stop()
        await self.ports.stop()
        await self.serving.stop()
        if self._fleet is not None:
            await self._fleet.stop()
        await self._limit_store.close()
        self.telemetry.records.flush()  # while its sinks are open
        await self.serving.sources.stop()
        self.events_lost += await self.telemetry.close()

    def unable(self, reason: str) -> StartError:
        """Return the end of a start that failed; a daemon has no standard error, so its log says it too."""
        reason = self.config.places.locate_lines(reason, "mgw: ")
        self.telemetry.report(reason)
        return StartError(reason)

    def known_secrets(self) -> list[Secret]:
        """Return what no log may show."""
        return [*self.serving.secrets(), *self.dashboard.secrets()]

    def learn_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Know of a cooldown that another process of this host has found out, and tell other hosts."""
        self.serving.sources.subscriptions.learn(store, account, model, seconds)
        self._tell_hosts(store, account, model, seconds)

    def _make_serving(self, sources: CredentialSources, generation: Generation) -> Serving:
        issuers = LateIssuerKeys(lambda: self._make_issuer_keys(sources))
        shared = Shared(sources, self.counts, self.key_files.keys, issuers)
        telemetry = self.telemetry
        observer = AccessObserver(telemetry.records, telemetry.metrics)
        page = MetricsPage(self._render_metrics, telemetry.metrics.pause)
        return Serving(self.reactor, shared, generation, observer, page.serve, self._dashboard_endpoint)

    def _make_issuer_keys(self, sources: CredentialSources) -> IssuerKeys:
        from mgw.app.issuer_keys import fetching_keys, open_feed  # which few gateways have a use for
        from mgw.identity.key_feed import tell_nobody

        tell_others = tell_nobody if self._workers is None else self._workers.tell_issuer_keys
        self.issuer_feed = feed = open_feed(self.reactor, sources.recent, tell_others)
        self.telemetry.metrics.state.issuers = feed.states
        return fetching_keys(self.reactor, feed)

    def _open_key_files(self, config: Config, workers: Workers | None) -> KeyFiles:
        """Read the key files.

        :raises ValueError: their directory cannot be read.
        """
        tell_others = ignore_keys if workers is None else workers.tell_keys
        key_files = KeyFiles(
            *(self.reactor, read_keys(config), self._use_keys, tell_others),
            on_done=self._on_keys_used,
        )
        state = self.telemetry.metrics.state
        state.keys = lambda: dict(self.server.gate.keys.count_states())
        state.key_files_invalid = lambda: key_files.invalid
        self.telemetry.metrics.requests.names.add_clients(key.name for key in key_files.keys)
        return key_files

    def _offload(self, work: Callable[[], T], /) -> Deferred[T]:
        return self.serving.work_threads.run(work)

    def _on_keys_used(self) -> None:
        self.dashboard.follow_keys()

    def _use_keys(self, changed: Sequence[NamedKeySettings], gone: Sequence[str]) -> None:
        self.telemetry.metrics.requests.names.add_clients(key.name for key in changed)
        self.serving.keys.use(changed, gone)

    def _dashboard_endpoint(self) -> DashboardEndpoint:
        from mgw.web.gateway_request import endpoint_of  # here: see mgw.app.late_app

        return endpoint_of(self.dashboard.serve)

    async def _render_metrics(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        if self._workers is not None:
            await self._workers.refresh()
        await self._limit_states.read()
        return await self.telemetry.render_metrics(accept)

    def _view(self) -> GatewayView:
        return GatewayView(
            reactor=self.reactor,
            wall=time,
            generation=lambda: self.serving.generation,
            rejected=self.telemetry.metrics.edge_rejected,
            exchanges=lambda: self.server.exchanges,
            facts=self._facts,
            sessions=lambda: self.server.sessions,
            log=self.telemetry.log_text,
            add_sink=self.telemetry.sinks.add,
            tokens=lambda: self.server.gate.tokens,
            token_rejected=self.telemetry.metrics.token_rejections.add,
            file_keys=lambda: self.serving.file_keys,
            others=self._workers,
            limits=self._limit_states.read,
            offload=self._offload,
            keys=self._key_rows,
        )

    def _key_rows(self) -> list[KeyRow]:
        """Return the keys with names, of the configuration and of files."""
        settings = self.config.edge_auth
        return self.key_files.rows(settings.named, zone_of(settings.timezone), time())

    def _facts(self) -> Mapping[str, Any]:  # Any: JSON
        own = self.server.facts
        return own if self._workers is None else self._workers.facts(own)

    # Other hosts

    def _join_fleet(self, config: Config) -> Fleet | None:
        """Join the hosts that share limits, where the configuration has some."""
        if config.fleet.redis is None:
            return None
        from mgw.redis.hosts import open_fleet  # which a host alone has no use for

        fleet = open_fleet(config, self.reactor, random, self._on_cooldown_elsewhere, self._limit_store)
        self.telemetry.metrics.fleet = fleet.tables
        return fleet

    def _use_fleet(self, config: Config) -> None:
        try:
            if self._fleet is not None:
                self._fleet.use(config)
        except ValueError as error:
            _log.error("fleet.redis: {error}", error=error)

    def _on_own_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Tell everybody that an account is in cooldown, as this process has found out."""
        self._tell_hosts(store, account, model, seconds)
        if self._workers is not None:
            self._workers.tell_cooldown(store, account, model, seconds)

    def _on_cooldown_elsewhere(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Know that an account is in cooldown, as another host has found out."""
        self.serving.sources.subscriptions.learn(store, account, model, seconds)
        if self._workers is not None:
            self._workers.tell_cooldown(store, account, model, seconds)

    def _tell_hosts(self, store: str, account: str, model: str | None, seconds: float) -> None:
        if self._fleet is not None:
            self._fleet.cooldowns.tell(store, account, model, seconds)
