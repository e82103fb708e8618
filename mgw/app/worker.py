"""One worker: a process that serves requests and leaves everything else to the supervisor.

It has no usage sinks, no page of metrics, no dashboard and no log of its own: what is told of requests goes
over the channel, where one process speaks for the whole service.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, to_builtins
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import ILogObserver, LogEvent, Logger
from zope.interface import implementer

from mgw.app.data_plane import DataPlane, Shared, metrics_of
from mgw.clients.client import ClientRegistry
from mgw.config.log import LogSettings
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.dashboard.requests import Requests
from mgw.dashboard.session_list import SessionChange, SessionChangePublisher, list_sessions
from mgw.generation import Parts, build_generation, build_sources, make_parts
from mgw.nouns.secret import Secret
from mgw.ops.logs import AccessObserver
from mgw.ops.metrics import Metrics
from mgw.ops.process import on_signals
from mgw.reactor.daemon_threads import DaemonThreads
from mgw.routing.routes import GUARDED_ROUTES
from mgw.usage.record_queue import RecordQueue
from mgw.web.edge_auth import prepare_gate
from mgw.web.ports import ListeningSocket, Ports, read_certificate
from mgw.workers.channel import Channel, adopt
from mgw.workers.client_balance import ClientBalance, ClientNumbers
from mgw.workers.counts import Hub
from mgw.workers.fork_server import WorkerStart
from mgw.workers.forwarding import Forwarding, forwarding_to
from mgw.workers.messages import (
    AccountCooldown,
    Begin,
    ChannelMessage,
    Done,
    Drain,
    Failed,
    LogText,
    Ping,
    Reload,
    SessionNews,
    StateQuestion,
    WorkerState,
)
from mgw.workers.pickled_config import unpickle_config
from mgw.workers.rows import MAX_WAITING_BYTES, RowWriter
from mgw.workers.shared_credentials import SupervisorTokens
from mgw.workers.shares import share_of
from mgw.workers.worker_state import collect_state

if TYPE_CHECKING:
    from mgw.web.tls import Certificate

_log: Final = Logger()


class Inherited(Struct, frozen=True, kw_only=True):
    """What a worker has of the process that it was forked from."""

    sockets: Sequence[ListeningSocket]
    """What clients connect to."""
    clients: ClientNumbers
    """How many of them each worker has."""
    divert_log: Callable[[Callable[[ILogObserver], ILogObserver]], None]
    """Replaces what writes the text of the log."""
    use_secrets: Callable[[Callable[[], list[Secret]]], None]
    """Says what the log may not show."""
    use_log: Callable[[LogSettings], None]
    """Says what lines of the log look like."""


def run_worker(start: WorkerStart, inherited: Inherited) -> int:
    """Serve requests until the supervisor wants no more of them, or has gone; return the exit status."""
    reactor = start.reactor
    worker = Worker(reactor, start.slot, inherited)
    worker.channel = adopt(reactor, start.channel, worker)
    on_signals(reactor, worker.on_sigterm, "SIGTERM")
    reactor.run(installSignalHandlers=False)
    return 0


@dataclass(slots=True, eq=False)
class _Serving:
    """What a worker has once it knows its configuration."""

    plane: DataPlane
    records: RecordQueue
    metrics: Metrics
    writer: RowWriter
    hub: Hub
    forwarding: Forwarding


@dataclass(slots=True, eq=False)
class Worker:
    """The worker as its channel's handler: it does what the supervisor says."""

    reactor: Any  # Any: as above
    slot: int
    inherited: Inherited
    channel: Channel = field(init=False)
    _ports: Ports = field(init=False)
    _threads: DaemonThreads = field(init=False, repr=False)
    """Read what a configuration names."""
    _balance: ClientBalance = field(init=False)
    _serving: _Serving | None = None
    _secrets: list[Secret] = field(default_factory=list, repr=False)
    _is_stopping: bool = False
    _was_signalled: bool = False
    _lost: Deferred[None] = field(default_factory=Deferred, repr=False)
    """Fires when the channel is lost."""

    def __post_init__(self) -> None:
        self._ports = ports = Ports(self.reactor)
        self._threads = DaemonThreads(self.reactor, "mgw-reload")
        self._balance = ClientBalance(
            self.inherited.clients, self.slot, self.reactor, ports.pause, ports.resume
        )
        self.inherited.use_secrets(self._known_secrets)
        self.inherited.divert_log(self._log_to_channel)

    def on_question(self, question: ChannelMessage) -> ChannelMessage | Deferred[ChannelMessage]:
        """Do what the supervisor waits for."""
        if isinstance(question, Ping):
            return Done()
        if isinstance(question, Begin):
            return self._begin(question)
        if isinstance(question, Reload):
            return self._reload(question)
        if isinstance(question, StateQuestion):
            return Deferred.fromCoroutine(self._state())
        return Failed(f"a worker does not answer {type(question).__name__}")

    def on_message(self, message: ChannelMessage) -> None:
        """Do what nobody waits for."""
        if isinstance(message, Drain):
            self._balance.stop()
            if message.is_alone:
                self._ports.pause()
            else:
                self._ports.resume()
            self._drain()
            if not message.seconds:
                self._cut_short()
        elif isinstance(message, AccountCooldown) and self._serving is not None:
            subscriptions = self._serving.plane.sources.subscriptions
            subscriptions.learn(message.store, message.account, message.model, message.seconds)

    def on_lost(self) -> None:
        """Nobody is there any more who counts and writes: end what is under way, and exit."""
        self._lost.callback(None)
        if not self._is_stopping:
            _log.error("the supervisor has exited: stopping worker {slot}", slot=self.slot)
            self._drain()

    def on_sigterm(self) -> None:
        """Begin to drain; the second time, end what is left of it.

        A service manager may send the signal to all processes at once, and then the supervisor's process
        asks for the same: that is no second time.  Until it does, new clients are left to the other workers.
        """
        if self._was_signalled:
            self._cut_short()
        elif not self._is_stopping:
            self._balance.stop()
            self._ports.pause()
        self._was_signalled = True
        self._drain()

    def _drain(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            _ = Deferred.fromCoroutine(self._stop()).addErrback(self._on_bug)

    def _cut_short(self) -> None:
        if self._serving is not None:
            self._serving.plane.cut_short()

    def _begin(self, message: Begin) -> ChannelMessage:
        config = share_of(unpickle_config(message.config), message.workers)
        self.inherited.use_log(config.log)
        self._secrets = secrets_of(config)
        try:
            self._serving = serving = self._build(config, message)
            self._ports.adopt(self.inherited.sockets, config, serving.plane.channels)
        except (OSError, ValueError) as error:
            return Failed(str(error))
        serving.metrics.loop_delay.start()
        serving.plane.begin(shares_port=True)
        serving.plane.channels.on_count = self._balance.count
        self._balance.begin()
        return Done()

    def _build(self, config: Config, message: Begin) -> _Serving:
        reactor, channel = self.reactor, self.channel
        writer = RowWriter(channel)
        records = RecordQueue(reactor, writer.record_settled, writer.record_ended)
        sources = build_sources(reactor)
        sources.share = SupervisorTokens(channel)
        sources.subscriptions.on_cooldown = self._on_cooldown
        hub = Hub(channel, reactor, message.workers)
        generation = build_generation(message.number, config, reactor, int(time()), sources)
        metrics = metrics_of(reactor, lambda: plane)
        metrics.reloaded(message.number, config.providers, config.edge_auth.names)
        forwarding = forwarding_to(reactor, message.operator_socket)
        own = {"metrics": forwarding.serve, **dict.fromkeys(GUARDED_ROUTES, forwarding.serve)}
        plane = DataPlane(
            reactor,
            Shared(sources, ClientRegistry(hub.counts), hub.slots()),
            generation,
            AccessObserver(records, metrics),
            metrics.render,
            own,
        )
        plane.server.sessions.observer = SessionChangePublisher(time, self._on_session)
        return _Serving(plane, records, metrics, writer, hub, forwarding)

    def _on_session(self, change: SessionChange) -> None:
        self.channel.tell(SessionNews(to_builtins(change)))

    def _on_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        self.channel.tell(AccountCooldown(store, account, model, seconds))

    def _reload(self, message: Reload) -> ChannelMessage | Deferred[ChannelMessage]:
        serving = self._serving
        if serving is None:
            return Failed("the worker is not ready")
        if self._is_stopping:  # by a signal of its own: the others need not go back because of that
            return Done()
        return Deferred.fromCoroutine(self._reload_with(serving, message))

    async def _reload_with(self, serving: _Serving, message: Reload) -> ChannelMessage:
        try:
            parts, certificate = await self._threads.defer(partial(_read, message))
            config = parts.config
            before = [*self._secrets, *serving.plane.generation.secrets, *serving.plane.server.gate.learned]
            self._secrets = list(dict.fromkeys([*secrets_of(config), *before]))
            generation = await serving.plane.build(parts, message.number)
        except (OSError, ValueError) as error:
            return Failed(str(error))
        if self._is_stopping:
            generation.retire()
            return Done()
        self._ports.renew(certificate)
        serving.hub.workers = message.workers
        self.inherited.use_log(config.log)
        serving.plane.use(generation)
        serving.metrics.reloaded(message.number, config.providers, config.edge_auth.names)
        return Done()

    async def _state(self) -> ChannelMessage:
        serving = self._serving
        if serving is None:
            return Failed("the worker is not ready yet")
        for _ in range(serving.records.slices):
            serving.records.write_slice()
            await deferLater(self.reactor, 0)
        return self._collect(serving)

    def _collect(self, serving: _Serving) -> WorkerState:
        server = serving.plane.server
        return collect_state(
            serving.metrics,
            {"in_flight": len(server.exchanges), "sessions": server.sessions.count},
            Requests(lambda: server.exchanges).rows(),
            [to_builtins(row) for row in list_sessions(server.sessions, time()).sessions],
            serving.writer.dropped,
        )

    async def _stop(self) -> None:
        serving = self._serving
        if serving is not None:
            serving.forwarding.drain()
            self._balance.stop()
            await serving.plane.drain(serving.plane.generation.config.drain_delay_seconds)
            await self._ports.stop()
            await serving.plane.stop()
            serving.records.flush()
            self.channel.tell(self._collect(serving))
            await serving.plane.sources.stop()
            self._threads.stop()
            serving.metrics.loop_delay.stop()
            serving.plane.restore()
        self.channel.lose()
        await self._lost
        self.reactor.stop()

    def _on_bug(self, failure: Any) -> None:  # Any: a Failure of anything
        _log.failure("internal error: worker {slot} could not stop cleanly", failure, slot=self.slot)
        self.reactor.stop()

    def _known_secrets(self) -> list[Secret]:
        more = [] if self._serving is None else self._serving.plane.secrets()
        return [*self._secrets, *more]

    def _log_to_channel(self, lines: ILogObserver) -> ILogObserver:
        return _LogToChannel(self, lines)


def _read(message: Reload) -> tuple[Parts, Certificate | None]:
    """In a thread: read a configuration, and the files that it names.

    :raises ValueError: the certificate cannot be read.
    """
    config = share_of(unpickle_config(message.config), message.workers)
    prepare_gate(config.edge_auth, config.dashboard.keys)
    return make_parts(config, os.environ, int(time())), read_certificate(config)


@implementer(ILogObserver)
@dataclass(frozen=True, slots=True)
class _LogToChannel:
    """Sends the text of the log to the supervisor's process, and writes it where that has gone."""

    worker: Worker
    lines: ILogObserver

    def __call__(self, event: LogEvent) -> None:
        """Take an event whose text is finished."""
        channel = self.worker.channel
        if not channel.is_open:
            self.lines(event)
        elif channel.waiting_bytes <= MAX_WAITING_BYTES:  # else that process hangs, and its log with it
            level = event.get("log_level")
            name = "info" if level is None else level.name
            channel.tell(
                LogText(
                    *(name, event["log_time"], event["log_text"]),
                    logger=str(event.get("log_namespace", "")),
                    message_length=event.get("log_message_length"),
                )
            )
