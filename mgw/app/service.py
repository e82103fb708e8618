"""The composition root: the one place that builds, reloads, drains and stops.

Sinks, listeners and open connections outlive every configuration; all else hangs on a
:class:`~mgw.generation.Generation` and is built anew by a reload.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from platform import python_version
from random import random
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

import twisted
from msgspec import Struct
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw import __version__
from mgw.app.check import AtStart, warnings, warnings_of_files, warnings_of_restart, warnings_of_workers
from mgw.app.data_plane import DataPlane, Shared, metrics_of
from mgw.app.telemetry import Telemetry
from mgw.clients.client import ClientRegistry
from mgw.config.problems import ConfigError
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.credentials.sources import CredentialSources
from mgw.dashboard.address import describe_dashboard
from mgw.dashboard.gateway_view import GatewayView
from mgw.dashboard.switch import DashboardSwitch
from mgw.generation import SLICE_SECONDS, Generation, Parts, build_generation, build_sources, make_parts
from mgw.nouns.secret import Secret
from mgw.ops.logs import AccessObserver, LogFile
from mgw.ops.process import on_signals
from mgw.ops.reload_status import ReloadReporter
from mgw.ops.service_manager import ServiceManager, find_service_manager
from mgw.reactor.daemon_threads import DaemonThreads, SerialRunner
from mgw.routing.routes import GUARDED_ROUTES
from mgw.usage.open_sinks import SinksByName
from mgw.web.app import endpoint_of
from mgw.web.edge_auth import prepare_gate
from mgw.web.listener import ChannelFactory
from mgw.web.ports import Ports, read_certificate
from mgw.web.server import WebServer
from mgw.workers.worker_count import available_cpus

if TYPE_CHECKING:
    from mgw.redis.hosts import Fleet
    from mgw.web.tls import Certificate

_log: Final = Logger()


class StartError(SystemExit, Exception):
    """The gateway cannot start; the text says why.

    As a ``SystemExit`` it is printed without a traceback, and the exit code is 1.  As an ``Exception``
    it makes twistd remove its pid file and tell the parent of a daemon, which waits for that.
    """


class _Read(Struct, frozen=True):
    """What a thread has made of a configuration file."""

    parts: Parts
    certificate: Certificate | None
    warnings: Sequence[str]


class Prepared(Struct, frozen=True):
    """A configuration that could be used at once."""

    config: Config
    generation: Generation
    sinks: SinksByName
    certificate: Certificate | None
    warnings: Sequence[str]
    """Of what will hurt."""


class GatewayService(Service):
    """The whole gateway.

    :param config: the configuration to begin with.
    :param read_config: reads the configuration anew; raises :class:`ConfigError` or ``OSError``.
    :param log_file: where the process log goes; ``None`` leaves twistd's observers alone.
    :param line_threads: makes what writes lines to an output, for a reactor and the output's name.
    """

    name = "mgw"

    def __init__(
        self,
        config: Config,
        read_config: Callable[[], Config],
        reactor: Any,
        log_file: LogFile | None,
        line_threads: Callable[[Any, str], SerialRunner] = DaemonThreads,
    ) -> None:
        self._read_config = read_config
        self._at_start = AtStart.of(config)
        self._reactor = reactor
        self._ports = Ports(reactor)
        self._secrets = secrets_of(config)
        self._manager = ServiceManager(reactor)
        self._threads = DaemonThreads(reactor, "mgw-reload")
        self._said_of_dashboard: str | None = None
        self.is_reloading = False
        """What is asked for meanwhile is done afterwards."""
        self._reload_again = False
        self.reloads = ReloadReporter()
        self.events_lost = 0
        """Usage events that could not be kept when it stopped."""
        sources = build_sources(reactor)
        generation = build_generation(1, config, reactor, int(time()), sources)
        metrics = metrics_of(reactor, lambda: self.plane)
        metrics.state.certificate_expires = self._ports.certificate_expires
        metrics.reloaded(1, config.providers, config.edge_auth.names)
        self.telemetry = telemetry = Telemetry(
            reactor, config, lambda: self.plane.generation.config, metrics, log_file, line_threads
        )
        self._fleet = self._join_fleet(config)
        self._dashboard = DashboardSwitch(self._surroundings())
        dashboard = endpoint_of(self._dashboard.serve)
        self.plane = DataPlane(
            *(
                reactor,
                self._shared(sources),
                generation,
                AccessObserver(telemetry.records, metrics),
                self._render_metrics,
            ),
            own_endpoints=dict.fromkeys(GUARDED_ROUTES, dashboard),
        )
        sources.subscriptions.on_cooldown = self._on_own_cooldown
        self._dashboard.follow()

    @property
    def server(self) -> WebServer:
        """What takes the requests."""
        return self.plane.server

    @property
    def channels(self) -> ChannelFactory:
        """What makes the channels of clients."""
        return self.plane.channels

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as ``host:port``."""
        return self._ports.addresses

    def setServiceParent(self, parent: Any) -> None:
        """Join the application, whose log becomes ours."""
        self.take_over_log(parent)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]  # Twisted's

    def take_over_log(self, application: object) -> None:
        """Write twistd's log to our file, without secrets, unless it was sent elsewhere."""
        self.telemetry.take_over_log(application, self._known_secrets)

    def privilegedStartService(self) -> None:
        """Listen, while ports below 1024 may still be had.

        :raises StartError: the address cannot be had, or the certificate not be read; the reason is printed.
        """
        super().privilegedStartService()  # type: ignore[no-untyped-call]  # Twisted's
        try:
            self._listen(self.plane.generation.config)
        except ValueError as error:
            raise self._unable(str(error)) from None

    def startService(self) -> None:
        """Take requests.

        :raises StartError: usage events cannot be written; the reason is printed.
        """
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        config = self.plane.generation.config
        try:
            self.telemetry.sinks.use(self.telemetry.sinks.open(config.hooks))
        except ValueError as error:
            raise self._unable(str(error)) from None
        on_signals(self._reactor, self.reload, "SIGHUP")
        self._reactor.callWhenRunning(self._begin)

    def reload(self) -> None:
        """Use the configuration as it stands in the file now; an invalid one changes nothing."""
        self.telemetry.reopen()
        self.reloads.ask()
        if self.plane.stopping:
            _log.warn("the configuration was not reloaded: the gateway is stopping")
        elif self.is_reloading:
            self._reload_again = True
        else:
            self._begin_reload()

    def asked_to_stop(self) -> None:
        """Begin to drain; the second time, end what is left of it."""
        if not self.plane.cut_short() and self.running:
            self._reactor.stop()

    def stopService(self) -> Deferred[None]:
        """Drain, then stop."""
        super().stopService()  # type: ignore[no-untyped-call]  # Twisted's
        return Deferred.fromCoroutine(self._stop())

    def _listen(self, config: Config) -> None:
        """Open what clients connect to.

        :raises ValueError: that cannot be done; it says why.
        """
        self._ports.listen(config, self.channels)

    def _begin(self) -> None:
        """Serve, once the reactor runs and signals reach us."""
        self.plane.begin()
        self.telemetry.metrics.loop_delay.start()
        on_signals(self._reactor, self.asked_to_stop, "SIGINT", "SIGTERM")
        self._manager = find_service_manager(self._reactor)  # only now: a daemon has forked
        self._announce()

    def _announce(self) -> None:
        """Say that we serve."""
        self._report()
        _log.info(
            "mgw {version} started (Python {python}, Twisted {twisted})",
            version=__version__,
            python=python_version(),
            twisted=twisted.__version__,
        )
        for where in self._ports.urls:
            _log.info("mgw serves {where}", where=where)
        self._say_where_the_dashboard_is()
        generation = self.plane.generation
        config = generation.config
        for warning in [*warnings(config, generation.prices), *self._process_warnings(config)]:
            _log.warn("{warning}", warning=config.places.locate(warning))
        self._ready()

    def _say_where_the_dashboard_is(self) -> None:
        """Or that there is none, unless a warning says why; a reload says it only if that has changed."""
        config = self.plane.generation.config
        line = describe_dashboard(config, self._ports.urls)
        if line != self._said_of_dashboard and config.dashboard.missing is None:
            _log.info("{line}", line=line)
        self._said_of_dashboard = line

    def _ready(self) -> None:
        number = self.plane.generation.number
        status = "" if number == 1 else f"generation {number}; "
        self._manager.ready(f"{status}serves {', '.join(self.addresses)}")

    def _report(self) -> None:
        self.reloads.ready(self.plane.generation.number, self.addresses)

    def _begin_reload(self) -> None:
        self.is_reloading, self._reload_again = True, False
        self.reloads.begin()
        _ = Deferred.fromCoroutine(self._reload()).addErrback(self._on_bug).addBoth(self._on_reloaded)

    async def _reload(self) -> None:
        self._manager.reloading()
        prepared = await self._prepare()
        if prepared is not None:
            await self._use_everywhere(prepared)

        if prepared is not None:
            await self._warn_in_slices(prepared)

    async def _use_everywhere(self, prepared: Prepared) -> None:
        self._use(prepared)

    async def _warn_in_slices(self, prepared: Prepared) -> None:
        """Say what will hurt, if it is in use: maybe thousands of lines, searched for thousands of keys."""
        if self.plane.generation is not prepared.generation:
            return
        until = monotonic() + SLICE_SECONDS
        places = prepared.config.places
        for warning in [*prepared.warnings, *self._process_warnings(prepared.config)]:
            _log.warn("{warning}", warning=places.locate(warning))
            if monotonic() > until:
                await deferLater(self._reactor, 0)
                until = monotonic() + SLICE_SECONDS

    def _on_reloaded(self, _: object) -> None:
        self.is_reloading = False
        if self.plane.stopping:
            return
        self._report()
        self._ready()
        if self._reload_again:
            self._begin_reload()

    def _on_bug(self, failure: Failure) -> None:
        _log.failure("internal error: the configuration was not reloaded", failure)
        self.reloads.fail("internal error; see the log")

    async def _prepare(self) -> Prepared | None:
        """Read the configuration anew and build what it asks for; ``None``: it stays as it was."""
        generation: Generation | None = None
        try:
            read = await self._threads.defer(self._read)
            with read.parts.config.places.locating():
                generation = await self.plane.build(read.parts, self.plane.generation.number + 1)
                if self.plane.stopping:
                    generation.retire()
                    return None
                sinks = self.telemetry.sinks.open(generation.config.hooks)
        except (ConfigError, OSError, ValueError) as error:
            if generation is not None:
                generation.retire()
            self._not_reloaded(str(error))
            return None
        self._warn_of_restart(generation.config)
        return Prepared(generation.config, generation, sinks, read.certificate, read.warnings)

    def _read(self) -> _Read:
        """In a thread: read the configuration and the files that it names.

        :raises ConfigError: it has problems.
        :raises OSError: its file cannot be read.
        :raises ValueError: the certificate cannot be read.
        """
        config = self._read_config()
        with config.places.locating():
            parts = make_parts(config, os.environ, int(time()))
            prepare_gate(config.edge_auth, config.dashboard.keys)
            prices = parts.files.prices
            known = None if isinstance(prices, ValueError) else prices
            return _Read(parts, read_certificate(config), warnings(config, known))

    def _not_reloaded(self, reason: str) -> None:
        self.telemetry.metrics.reload_failed()
        self.reloads.fail(reason)
        _log.error(
            "the configuration was not reloaded; the previous one stays in use:\n{error}", error=reason
        )

    def _use(self, prepared: Prepared) -> None:
        config, generation, telemetry = prepared.config, prepared.generation, self.telemetry
        self._ports.renew(prepared.certificate)
        before = [*self._secrets, *self.plane.generation.secrets, *self.server.gate.learned]
        self._secrets = list(dict.fromkeys([*secrets_of(config), *before]))
        telemetry.sinks.tools.room.max_bytes = config.spool.max_bytes
        self.plane.use(generation)
        self._use_fleet(config)
        self._dashboard.follow()
        telemetry.sinks.use(prepared.sinks)
        telemetry.use_log(config.log)
        telemetry.metrics.reloaded(generation.number, config.providers, config.edge_auth.names)
        _log.info("the configuration was reloaded: generation {number}", number=generation.number)
        self._say_where_the_dashboard_is()

    async def _stop(self) -> None:
        config = self.plane.generation.config
        self._manager.stopping(config.drain_delay_seconds + config.drain_seconds)
        self.reloads.stopping()
        self._dashboard.drain()
        await self._drain()
        await self._ports.stop()
        await self.plane.stop()
        if self._fleet is not None:
            await self._fleet.stop()
        self.telemetry.records.flush()
        await self.plane.sources.stop()
        self.events_lost += await self.telemetry.close()
        self._manager.stop()
        self._threads.stop()
        self.plane.restore()

    def _join_fleet(self, config: Config) -> Fleet | None:
        """Join the hosts that share limits, where the configuration has some."""
        if config.fleet.redis is None:
            return None
        from mgw.redis.hosts import open_fleet  # which a host alone has no use for

        fleet = open_fleet(config, self._reactor, random, self._on_cooldown_elsewhere)
        self.telemetry.metrics.fleet = fleet.tables
        return fleet

    def _shared(self, sources: CredentialSources) -> Shared:
        fleet = self._fleet
        return (
            Shared(sources)
            if fleet is None
            else Shared(sources, ClientRegistry(fleet.counts_factory), fleet.slots)
        )

    def _use_fleet(self, config: Config) -> None:
        try:
            if self._fleet is not None:
                self._fleet.use(config)
        except ValueError as error:
            _log.error("fleet.redis: {error}", error=error)

    def _on_own_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Tell the other hosts that an account is in cooldown, as was found out here."""
        if self._fleet is not None:
            self._fleet.cooldowns.tell(store, account, model, seconds)

    def _on_cooldown_elsewhere(self, store: str, account: str, model: str | None, seconds: float) -> None:
        """Know what another host has found out."""
        self.plane.sources.subscriptions.learn(store, account, model, seconds)

    async def _drain(self) -> None:
        """Wait until no request is under way."""
        await self.plane.drain(self.plane.generation.config.drain_delay_seconds)

    async def _render_metrics(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        return await self.telemetry.render_metrics(accept)

    def _surroundings(self) -> GatewayView:
        return GatewayView(
            reactor=self._reactor,
            wall=time,
            generation=lambda: self.plane.generation,
            rejected=self.telemetry.metrics.edge_rejected,
            exchanges=lambda: self.server.exchanges,
            facts=lambda: self.server.facts,
            sessions=lambda: self.server.sessions,
            log=self.telemetry.log_text,
            add_sink=self.telemetry.sinks.add,
        )

    def _known_secrets(self) -> list[Secret]:
        return [*self._secrets, *self.plane.secrets(), *self._dashboard.secrets()]

    def _process_warnings(self, config: Config) -> list[str]:
        return [*warnings_of_files(config), *warnings_of_workers(config, available_cpus())]

    def _unable(self, reason: str) -> StartError:
        """Return the end of a start that failed; a daemon has no standard error, so its log says it too."""
        reason = self.plane.generation.config.places.locate_lines(reason, "mgw: ")
        self.telemetry.report(reason)
        return StartError(reason)

    def _warn_of_restart(self, config: Config) -> None:
        for what in warnings_of_restart(config, self._at_start):
            located = config.places.locate(what)
            _log.warn("{what}", what=located)
            self.reloads.note(located)
