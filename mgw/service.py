"""The composition root: the one place that builds, reloads, drains and stops.

Sinks, listeners and open connections outlive every configuration; all else hangs on a
:class:`~mgw.generation.Generation` and is built anew by a reload.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from platform import python_version
from time import time
from typing import Any, Final

import twisted
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, Logger, LogPublisher, textFileLogObserver
from twisted.python.components import Componentized
from twisted.web.iweb import IAgent

from mgw import __version__
from mgw.bodies.budget import BodyBudget
from mgw.bodies.spool import DiskThreads, Spool
from mgw.check import warnings, warnings_of_files
from mgw.clients.client import ClientRegistry
from mgw.config.problems import ConfigError
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.dashboard.switch import DashboardSwitch, Surroundings
from mgw.exchange.offload import WorkThreads
from mgw.exchange.upstream_headers import provider_headers
from mgw.generation import Generation, build_generation, build_sources
from mgw.ops.live_models import LiveModels
from mgw.ops.logs import AccessLog, AccessObserver, LogFile, RedactingObserver, UsageLog
from mgw.ops.loop_delay import LoopDelay
from mgw.ops.metrics import Metrics
from mgw.ops.probes import ProviderProbe
from mgw.ops.process import (
    AcceptErrorObserver,
    collect_rarely,
    on_signals,
    return_large_blocks,
)
from mgw.ops.provider_health import ProviderHealth
from mgw.ops.provider_metrics import ProviderMetrics
from mgw.ops.service_manager import ServiceManager, find_service_manager
from mgw.ops.state_metrics import StateMetrics
from mgw.reactor.daemon_threads import DaemonThreads, SerialRunner
from mgw.reactor.event_loop import EventLoop
from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.realtime.sessions import Sessions
from mgw.routing.routes import GUARDED_ROUTES, ROUTES
from mgw.secret import Secret
from mgw.upstream.agent import build_agent
from mgw.upstream.client import UpstreamLimits
from mgw.usage.journal import Journal
from mgw.usage.line_writer import LineWriter
from mgw.usage.open_sinks import OpenSinks, SinksByName
from mgw.usage.record_queue import RecordQueue
from mgw.usage.sinks import SinkTools
from mgw.usage.spool_room import SpoolRoom
from mgw.web.app import Endpoint, build_app, endpoint_of
from mgw.web.edge_auth import EdgeGate
from mgw.web.listener import ChannelFactory, channel_limits
from mgw.web.operations import Operations
from mgw.web.ports import Ports
from mgw.web.server import WebServer

_log: Final = Logger()

SWITCH_SECONDS: Final = 0.001
"""How long a thread that works on a large body may go on while the reactor wants to; Python's own is 5 ms."""


class StartError(SystemExit, Exception):
    """The gateway cannot start; the text says why.

    As a ``SystemExit`` it is printed without a traceback, and the exit code is 1.  As an ``Exception``
    it makes twistd remove its pid file and tell the parent of a daemon, which waits for that.
    """


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
        self._line_threads = line_threads
        self._read_config = read_config
        self._reactor = reactor
        self._log_file = log_file
        self._ports = Ports(reactor)
        self._secrets = secrets_of(config)
        self._cut_short: Callable[[], None] | None = None
        self._manager = ServiceManager(reactor)

        self._sources = build_sources(reactor)
        generation = build_generation(1, config, reactor, int(time()), self._sources)
        self._event_loop = EventLoop(reactor)
        self._disk_threads = DiskThreads(reactor)
        self._work_threads = WorkThreads(reactor)
        self._journal = Journal(reactor)
        lines = self._lines("process log", (log_file or LogFile(None)).output)
        self._usage_log = UsageLog(lines)
        self._log_text = LogPublisher()
        self._records = RecordQueue(reactor, self._journal.record_all, AccessLog(lines).record_all)
        self._metrics = Metrics(
            frozenset(route.name for route in ROUTES),
            state=self._state_metrics(),
            upstreams=ProviderMetrics(
                lambda: self.server.generation.upstreams, lambda: self.server.generation.credentials
            ),
            loop_delay=LoopDelay(reactor),
            pause=self._pause,
            offload=self._work_threads.run,
        )
        self._metrics.reloaded(1, config.providers, config.edge_auth.names)
        self._sinks = self._open_sinks(config)
        self._dashboard = DashboardSwitch(self._surroundings())
        registry = ClientRegistry()
        self._metrics.requests.clients.refusals = registry.shortages
        self.server = WebServer(
            generation=generation,
            app=build_app(self._endpoints()),
            clock=reactor,
            wall=time,
            observer=AccessObserver(self._records, self._metrics),
            budget=BodyBudget(config.spool.body_memory),
            spool=self._spool(config),
            gate=EdgeGate(config.edge_auth, registry, config.dashboard.keys),
            registry=registry,
            offload=self._work_threads.run,
            sessions=Sessions(config.realtime.max_sessions),
        )
        self.channels = ChannelFactory(self.server, reactor, channel_limits(config))
        self._dashboard.follow()

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            reactor=self._reactor,
            wall=time,
            generation=lambda: self.server.generation,
            rejected=self._metrics.edge_rejected,
            exchanges=lambda: self.server.exchanges,
            facts=lambda: self.server.facts,
            sessions=lambda: self.server.sessions,
            log=self._log_text,
            add_sink=self._sinks.add,
        )

    def _endpoints(self) -> Mapping[str, Endpoint]:
        dashboard = endpoint_of(self._dashboard.serve)
        return {**self._operations().endpoints(), **dict.fromkeys(GUARDED_ROUTES, dashboard)}

    def _state_metrics(self) -> StateMetrics:
        return StateMetrics(
            requests_in_flight=lambda: self.server.in_flight,
            sessions=lambda: (self.server.sessions.count, self.server.sessions.max_sessions),
            clients=lambda: (self.channels.channels, self.channels.limits.max_clients, self.channels.refused),
            bodies_held=lambda: {"memory": self.server.budget.held, "disk": self.server.spool.disk.held},
            draining=lambda: self.server.draining,
            certificate_expires=self._ports.certificate_expires,
            counts_by_sink=self._journal.counts_by_sink,
            events_stored=lambda: (self._sinks.tools.room.used, self._sinks.tools.room.max_bytes),
        )

    def _operations(self) -> Operations:
        probe = ProviderProbe(self._reactor, provider_headers)
        return Operations(
            lambda: self.server.generation,
            lambda: self.server.draining,
            self._render_metrics,
            self._pause,
            LiveModels(probe, self._metrics.live_list_failed),
            ProviderHealth(probe),
        )

    async def _render_metrics(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        """Render the metrics, with all requests that have ended until now."""
        for _ in range(self._records.slices):
            self._records.write_slice()
            await self._pause()
        return await self._metrics.render(accept)

    def _pause(self) -> Deferred[None]:
        return deferLater(self._reactor, 0)

    def _spool(self, config: Config) -> Spool:
        disk = BodyBudget(config.spool.body_disk, place="on disk")
        return Spool(config.spool.dir, self._disk_threads.run, disk, self._reactor)

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
        if self._log_file is not None and isinstance(application, Componentized):
            stream: Any = self._log_file  # Any: it has what the observer calls, not all of IO
            self._log_text.addObserver(textFileLogObserver(stream))
            observer = RedactingObserver(self._log_text, self._known_secrets)
            application.setComponent(
                ILogObserver, AcceptErrorObserver(observer, RateLimitedLog(self._reactor))
            )

    def _known_secrets(self) -> list[Secret]:
        return [
            *self._secrets,
            *self._sources.secrets(),
            *self.server.gate.learned,
            *self._dashboard.secrets(),
        ]

    def privilegedStartService(self) -> None:
        """Listen, while ports below 1024 may still be had.

        :raises StartError: the address cannot be had, or the certificate not be read; the reason is printed.
        """
        super().privilegedStartService()  # type: ignore[no-untyped-call]  # Twisted's
        config = self.server.generation.config
        try:
            self._ports.listen(config, self.channels)
        except ValueError as error:
            raise self._unable(str(error)) from None

    def startService(self) -> None:
        """Take requests.

        :raises StartError: usage events cannot be written; the reason is printed.
        """
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        config = self.server.generation.config
        try:
            self._sinks.use(self._sinks.open(config.hooks))
        except ValueError as error:
            raise self._unable(str(error)) from None
        on_signals(self._reactor, self.reload, "SIGHUP")
        self._reactor.callWhenRunning(self._begin)

    def reload(self) -> None:
        """Use the configuration as it stands in the file now; an invalid one changes nothing."""
        self._reopen_logs()
        if self.server.draining:
            _log.warn("the configuration was not reloaded: the gateway is stopping")
            return
        self._manager.reloading()
        self._use_new_configuration()
        self._manager.ready(f"generation {self.server.generation.number}; serves {', '.join(self.addresses)}")

    def _use_new_configuration(self) -> None:
        generation: Generation | None = None
        try:
            config = self._read_config()
            number = self.server.generation.number + 1
            generation = build_generation(number, config, self._reactor, int(time()), self._sources)
            sinks = self._sinks.open(config.hooks)
            self._renew_certificate(config, sinks)
        except (ConfigError, OSError, ValueError) as error:
            if generation is not None:
                generation.retire()
            self._metrics.reload_failed()
            _log.error("the configuration was not reloaded, the old one stays in use:\n{error}", error=error)
            return
        self._warn_of_restart(config)
        self._secrets = list(dict.fromkeys([*secrets_of(config), *self._secrets, *self.server.gate.learned]))
        self._sinks.tools.room.max_bytes = config.spool.max_bytes
        self.server.use(generation)
        self._dashboard.follow()
        self._sinks.use(sinks)
        self.channels.limits = channel_limits(config)
        self._metrics.reloaded(generation.number, config.providers, config.edge_auth.names)
        self._event_loop.use(fast=config.fast_event_loop)
        _log.info("the configuration was reloaded: generation {number}", number=generation.number)
        self._warn(config)

    def asked_to_stop(self) -> None:
        """Begin to drain; the second time, end what is left of it."""
        if self._cut_short is not None:
            _log.warn("asked to stop again: {count} requests are cut off", count=self.server.in_flight)
            self._cut_short()
        elif self.running:
            self._reactor.stop()

    def stopService(self) -> Deferred[None]:
        """Drain, then stop."""
        super().stopService()  # type: ignore[no-untyped-call]  # Twisted's
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        seconds = self.server.generation.config.drain_seconds
        self._manager.stopping(seconds)
        if self.server.in_flight:
            _log.info(
                "draining {count} requests for at most {seconds:g} s",
                count=self.server.in_flight,
                seconds=seconds,
            )
        await self._drain(seconds)
        if self.server.in_flight:
            _log.warn("the drain time is over: {count} requests are cut off", count=self.server.in_flight)
        self.server.abort_requests()
        await self.channels.last_requests()
        await self._ports.stop()
        await self.channels.stopped()
        self._disk_threads.stop()
        self._work_threads.stop()
        self.server.generation.retire()
        self._records.flush()
        await self._sources.stop()
        await self._sinks.close()
        self._metrics.loop_delay.stop()
        self._manager.stop()
        self._event_loop.restore()

    def _begin(self) -> None:
        """Say that we serve, once the reactor runs and signals reach us."""
        return_large_blocks()
        collect_rarely()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._event_loop.use(fast=self.server.generation.config.fast_event_loop)
        self._metrics.loop_delay.start()
        on_signals(self._reactor, self.asked_to_stop, "SIGINT", "SIGTERM")
        _log.info(
            "mgw {version} has started (Python {python}, Twisted {twisted})",
            version=__version__,
            python=python_version(),
            twisted=twisted.__version__,
        )
        for where in self._ports.urls:
            _log.info("mgw serves {where}", where=where)
        self._warn(self.server.generation.config)
        self._manager = find_service_manager(self._reactor)  # only now: a daemon has forked
        self._manager.ready(f"serves {', '.join(self.addresses)}")

    def _warn(self, config: Config) -> None:
        """Say what will hurt."""
        for warning in [*warnings(config, self.server.generation.prices), *warnings_of_files(config)]:
            _log.warn("{warning}", warning=warning)

    def _drain(self, seconds: float) -> Deferred[None]:
        """Refuse new work; fire when the last request has ended, or the time is up."""
        drained: Deferred[None] = Deferred()

        def idle() -> None:
            if not drained.called:
                drained.callback(None)

        limit = self._reactor.callLater(seconds, idle)
        self._cut_short = idle
        self.server.draining = True
        self.server.on_idle = idle
        self.channels.drain()
        self._dashboard.drain()
        if not self.server.in_flight:
            idle()
        return drained.addBoth(lambda _: limit.cancel() if limit.active() else None)

    def _renew_certificate(self, config: Config, sinks: SinksByName) -> None:
        """Read the certificate anew; where that fails, an output just opened for the reload is closed."""
        try:
            self._ports.renew(config)
        except ValueError:
            self._sinks.discard(sinks)
            raise

    def _open_sinks(self, config: Config) -> OpenSinks:
        def new_agent(seconds: float) -> tuple[IAgent, Callable[[], None]]:
            limits = UpstreamLimits(connect=seconds, first_byte=seconds, idle=seconds)
            agent = build_agent(self._reactor, limits)
            return agent, agent.close

        room = SpoolRoom(config.spool.max_bytes)
        tools = SinkTools(
            *(self._reactor, self._line_threads, new_agent, config.spool.dir, room),
            config=lambda: self.server.generation.config,
        )
        return OpenSinks(self._journal, tools, (self._metrics, self._usage_log), self._records.flush)

    def _lines(self, name: str, opener: Any) -> LineWriter:  # Any: Callable[[], Output]
        return LineWriter(name, self._reactor, self._line_threads(self._reactor, name), opener)

    def _reopen_logs(self) -> None:
        self._journal.reopen()
        if self._log_file is None:
            return
        self._usage_log.lines.reopen()
        try:
            self._log_file.reopen()
        except OSError as error:
            _log.error("the log file cannot be reopened: {error}", error=error.strerror)

    def _unable(self, reason: str) -> StartError:
        """Return the end of a start that failed; a daemon has no standard error, so its log says it too."""
        if self._log_file is None or self._log_file.path is not None:
            _log.critical("mgw: {reason}", reason=reason)
        return StartError(f"mgw: {reason}")

    def _warn_of_restart(self, config: Config) -> None:
        before = self.server.generation.config
        if config.listen != before.listen or (config.tls is None) != (before.tls is None):
            _log.warn("a change of listen, or of tls from on to off, needs a restart")
