"""The composition root: the one place that builds, reloads, drains and stops.

Sinks, listeners and open connections outlive every configuration; all else hangs on a
:class:`~mgw.generation.Generation` and is built anew by a reload.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING, Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.logger import ILogObserver, Logger, textFileLogObserver
from twisted.python.components import Componentized
from twisted.python.failure import Failure

from mgw.config.advice import warnings
from mgw.config.model import Config
from mgw.config.problems import ConfigError
from mgw.credentials import credentials_of
from mgw.generation import Generation
from mgw.ops.log_file import LogFile
from mgw.ops.logs import AccessLog, UsageLog
from mgw.ops.metrics import Metrics
from mgw.ops.redaction import redacting_observer
from mgw.routing.catalog import Catalog
from mgw.routing.match import RouteTable
from mgw.routing.resolve import Resolver
from mgw.routing.routes import ROUTES
from mgw.secret import Secret
from mgw.upstream.client import UpstreamLimits, build_upstream
from mgw.usage.event import UsageEvent
from mgw.usage.journal import Journal, Sink
from mgw.usage.lines import LineWriter
from mgw.usage.sinks.jsonl import JsonlSink, opener_of
from mgw.usage.writer_thread import WriterThread
from mgw.web.app import build_app
from mgw.web.bodies import BodyBudget
from mgw.web.channel import ChannelFactory
from mgw.web.door import ChannelLimits
from mgw.web.edge_auth import EdgeGate
from mgw.web.listener import endpoint_of
from mgw.web.operations import Operations
from mgw.web.site import Site

if TYPE_CHECKING:
    from mgw.web.tls import RenewableCertificate

_log: Final = Logger()


def build_generation(
    number: int, config: Config, reactor: Any
) -> Generation:  # Any: a reactor has no one type
    """Build what a configuration asks for.

    :raises OSError: a file that it names cannot be read.
    :raises ValueError: such a file does not hold what it should.
    """
    resolver = Resolver(config)
    upstreams = {}
    for name, provider in config.providers.items():
        times = provider.timeouts
        limits = UpstreamLimits(connect=times.connect, first_byte=times.first_byte, idle=times.idle)
        upstreams[name] = build_upstream(
            name, provider.base_url, limits, reactor, provider.ca_file, provider.max_connections
        )
    credentials = {name: credentials_of(provider, reactor) for name, provider in config.providers.items()}
    catalog = Catalog(config, resolver, int(time()))
    return Generation(number, config, resolver, catalog, credentials, upstreams)


def secrets_of(config: Config) -> list[Secret]:
    """Return every secret that a configuration holds."""
    found = list(config.edge_auth.keys)
    for provider in config.providers.values():
        if provider.key is not None:
            found.append(provider.key)
        found += [Secret(value) for value in provider.headers.set.values() if value]
    return found


@dataclass(slots=True)
class DoorWitness:
    """Whoever counts and logs what happens at the door: the journal, the access log and the metrics."""

    journal: Journal
    access_log: AccessLog
    metrics: Metrics
    record: Callable[[UsageEvent], None] = field(init=False, repr=False)
    access: Callable[[str, str, int, float, str], None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.record = self.journal.record  # bound here: one call less for every request
        self.access = self.access_log.line

    def edge_rejected(self) -> None:
        """Count a request without a fitting key."""
        self.metrics.edge_rejected()

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        self.metrics.malformed()


class GatewayService(Service):
    """The whole gateway.

    :param config: the configuration to begin with.
    :param reread: reads the configuration anew; raises :class:`ConfigError` or ``OSError``.
    :param log_file: where the process log goes; ``None`` leaves twistd's observers alone.
    """

    name = "mgw"

    def __init__(
        self, config: Config, reread: Callable[[], Config], reactor: Any, log_file: LogFile | None
    ) -> None:
        self._reread = reread
        self._reactor = reactor
        self._log_file = log_file
        self._drained: Deferred[None] | None = None
        self._ports: list[IListeningPort] = []
        self._certificate: RenewableCertificate | None = None
        self._secrets = secrets_of(config)
        self._jsonl: tuple[str, JsonlSink] | None = None

        generation = build_generation(1, config, reactor)
        self._journal = Journal(reactor)
        lines = self._lines("process log", (log_file or LogFile(None)).output)
        self._usage_log = UsageLog(lines)
        self._metrics = Metrics(
            frozenset(route.name for route in ROUTES),
            requests_in_flight=lambda: self.site.in_flight,
            tallies=self._journal.tallies,
        )
        self._metrics.reloaded(1, config.providers)
        operations = Operations(
            lambda: self.site.generation, lambda: self.site.draining, self._metrics.render
        )
        self.site = Site(
            table=RouteTable(ROUTES),
            generation=generation,
            app=build_app(ROUTES, operations.endpoints()),
            clock=reactor,
            wall=time,
            witness=DoorWitness(self._journal, AccessLog(lines, time), self._metrics),
            budget=BodyBudget(config.spool.body_memory),
            gate=EdgeGate(config.edge_auth),
        )
        self.channels = ChannelFactory(self.site, reactor, channel_limits(config))

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as ``host:port``."""
        return [_shown(port) for port in self._ports]

    def setServiceParent(self, parent: Any) -> None:
        """Join the application, whose log becomes ours."""
        self.take_over_log(parent)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]  # Twisted's

    def take_over_log(self, application: object) -> None:
        """Write twistd's log to our file, without secrets, unless it was sent elsewhere."""
        if self._log_file is not None and isinstance(application, Componentized):
            stream: Any = self._log_file  # Any: it has what the observer calls, not all of IO
            observer = redacting_observer(textFileLogObserver(stream), lambda: self._secrets)
            application.setComponent(ILogObserver, observer)

    def privilegedStartService(self) -> None:
        """Listen, while ports below 1024 may still be had.

        :raises SystemExit: the address cannot be had; the reason is printed.
        """
        super().privilegedStartService()  # type: ignore[no-untyped-call]  # Twisted's
        config = self.site.generation.config
        factory: IProtocolFactory = self.channels
        if config.tls is not None:
            from mgw.web.tls import RenewableCertificate, with_tls  # OpenSSL is slow to import

            self._certificate = RenewableCertificate(config.tls)
            factory = with_tls(self.channels, self._certificate, self._reactor)
        failures: list[Failure] = []  # a Deferred would swallow what its callback raises
        listening: Deferred[IListeningPort] = endpoint_of(config.listen, self._reactor).listen(factory)
        self._listening = listening.addCallbacks(self._ports.append, failures.append)
        for failure in failures:
            raise SystemExit(f"mgw: cannot listen on {config.listen}: {failure.getErrorMessage()}")

    def startService(self) -> None:
        """Take requests."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        try:
            self._use_sinks(self.site.generation.config)
        except OSError as error:
            raise SystemExit(f"mgw: hooks.jsonl.output: {error.filename}: {error.strerror}") from None
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self.reload))
        for address in self.addresses:
            scheme = "http" if self._certificate is None else "https"
            _log.info("mgw serves {scheme}://{address}", scheme=scheme, address=address)
        for warning in warnings(self.site.generation.config):
            _log.warn("{warning}", warning=warning)

    def reload(self) -> None:
        """Use the configuration as it stands in the file now; an invalid one changes nothing."""
        self._reopen_logs()
        try:
            config = self._reread()
            generation = build_generation(self.site.generation.number + 1, config, self._reactor)
            if self._certificate is not None and config.tls is not None:
                self._certificate.renew(config.tls)
            self._use_sinks(config)
        except (ConfigError, OSError, ValueError) as error:
            self._metrics.reload_failed()
            _log.error("the configuration was not reloaded, the old one stays:\n{error}", error=error)
            return
        self._warn_of_restart(config)
        self._secrets = list(dict.fromkeys([*secrets_of(config), *self._secrets]))
        self.site.use(generation)
        self.channels.limits = channel_limits(config)
        self._metrics.reloaded(generation.number, config.providers)
        _log.info("the configuration was reloaded: generation {number}", number=generation.number)
        for warning in warnings(config):
            _log.warn("{warning}", warning=warning)

    def stopService(self) -> Deferred[None]:
        """Drain, then stop."""
        super().stopService()  # type: ignore[no-untyped-call]  # Twisted's
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        seconds = self.site.generation.config.drain_seconds
        if self.site.in_flight:
            _log.info("draining {count} requests", count=self.site.in_flight)
        await self._drain(seconds)
        self.site.cut()
        for port in self._ports:
            await _done(port.stopListening())
        await self.channels.stopped()
        self.site.generation.retire()
        await self._journal.close()

    def _drain(self, seconds: float) -> Deferred[None]:
        """Refuse new work; fire when the last request has ended, or the time is up."""
        drained: Deferred[None] = Deferred()

        def idle() -> None:
            if not drained.called:
                drained.callback(None)

        limit = self._reactor.callLater(seconds, idle)
        self.site.draining = True
        self.site.on_idle = idle
        self.channels.drain()
        if not self.site.in_flight:
            idle()
        return drained.addBoth(lambda _: limit.cancel() if limit.active() else None)

    def _use_sinks(self, config: Config) -> None:
        """Tell these sinks from now on.

        :raises OSError: one of them cannot be opened; those before stay in use.
        """
        jsonl, before = config.hooks.jsonl, self._jsonl
        if jsonl is None:
            self._jsonl = None
        elif before is None or before[0] != jsonl.output:
            lines = self._lines(f"usage events to {jsonl.output}", opener_of(jsonl.output))
            lines.open()
            self._jsonl = (jsonl.output, JsonlSink(lines))
        sinks: list[Sink] = [self._metrics, self._usage_log]
        if self._jsonl is not None:
            sinks.append(self._jsonl[1])
        self._closing = self._journal.replace(sinks)

    def _lines(self, name: str, opener: Any) -> LineWriter:  # Any: Callable[[], Output]
        return LineWriter(name, self._reactor, WriterThread(self._reactor, name), opener)

    def _reopen_logs(self) -> None:
        self._journal.reopen()
        if self._log_file is None:
            return
        self._usage_log.lines.reopen()
        try:
            self._log_file.reopen()
        except OSError as error:
            _log.error("the log file cannot be opened anew: {error}", error=error.strerror)

    def _warn_of_restart(self, config: Config) -> None:
        before = self.site.generation.config
        if config.listen != before.listen or (config.tls is None) != (before.tls is None):
            _log.warn("a change of listen, or of tls from on to off, needs a restart")


def channel_limits(config: Config) -> ChannelLimits:
    """Return what a client may take."""
    times = config.timeouts
    return ChannelLimits(
        client_headers=times.client_headers,
        client_body_idle=times.client_body_idle,
        client_idle=times.client_idle,
        write_stall=times.write_stall,
    )


def _shown(port: IListeningPort) -> str:
    address: Any = port.getHost()  # Any: addresses of all kinds
    host = getattr(address, "host", None)
    if host is None:
        return str(getattr(address, "name", address))
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


async def _done(work: object) -> None:
    if isinstance(work, Deferred):
        await work
