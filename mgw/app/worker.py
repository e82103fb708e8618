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

from mgw.app.credential_sources import build_sources
from mgw.app.late_issuer_keys import LateIssuerKeys
from mgw.app.serving import Serving, Shared, metrics_of
from mgw.clients.local_counts import LocalCounts
from mgw.config.key_settings import NamedKeySettings
from mgw.config.log import LogSettings
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.dashboard.requests import Requests
from mgw.dashboard.session_list import SessionChange, SessionChangePublisher, list_sessions
from mgw.generation import Parts, build_generation, make_parts
from mgw.identity.shared_counts import SharedCounts
from mgw.nouns.secret import Secret
from mgw.ops.logs import AccessObserver
from mgw.ops.metrics import Metrics
from mgw.ops.process import on_signals
from mgw.reactor.daemon_threads import DaemonThreads
from mgw.usage.record_queue import RecordQueue
from mgw.web.ports import ListeningSocket, Ports, read_certificate
from mgw.workers.channel import Channel, adopt
from mgw.workers.client_balance import ClientBalance, ClientNumbers
from mgw.workers.counts import SupervisorTallies
from mgw.workers.fork_server import WorkerStart
from mgw.workers.forwarding import Forwarding, forwarding_to
from mgw.workers.messages import (
    AccountCooldown,
    Begin,
    ChannelMessage,
    Done,
    Drain,
    Failed,
    IssuerKeysChanged,
    KeysChanged,
    LogText,
    Ping,
    Reload,
    SessionNews,
    StateQuestion,
    WorkerState,
)
from mgw.workers.pickled_config import unpickle_config, unpickle_keys
from mgw.workers.rows import MAX_WAITING_BYTES, RowWriter
from mgw.workers.shared_credentials import SupervisorTokens
from mgw.workers.shares import share_of
from mgw.workers.worker_state import collect_state

if TYPE_CHECKING:
    from mgw.identity.issuers import IssuerKeys
    from mgw.web.tls import Certificate
    from mgw.workers.shared_issuer_keys import SupervisorKeys

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
class _Equipment:
    """What a worker has once it knows its configuration."""

    serving: Serving
    records: RecordQueue
    metrics: Metrics
    writer: RowWriter
    tallies: SupervisorTallies
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
    _equipment: _Equipment | None = None
    _first_secrets: list[Secret] = field(default_factory=list, repr=False)
    """What the log may not show while the worker is built; later its serving part knows."""
    _first_keys: dict[str, NamedKeySettings] = field(default_factory=dict, repr=False)
    """The keys of key files to begin with."""
    issuers: LateIssuerKeys = field(init=False)
    """The public keys of issuers, as the supervisor tells them."""
    _issuer_feed: SupervisorKeys | None = None
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
        self.issuers = LateIssuerKeys(self._make_issuer_keys)
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
        if isinstance(question, KeysChanged):
            self._use_keys(unpickle_keys(question.changed), question.gone)
            return Done()
        if isinstance(question, IssuerKeysChanged):
            return self._feed_of_issuers().take(question).addCallback(lambda _: Done())
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
        elif isinstance(message, AccountCooldown) and self._equipment is not None:
            subscriptions = self._equipment.serving.sources.subscriptions
            subscriptions.learn(message.store, message.account, message.model, message.seconds)
        elif isinstance(message, KeysChanged):
            self._use_keys(unpickle_keys(message.changed), message.gone)
        elif isinstance(message, IssuerKeysChanged):
            _ = self._feed_of_issuers().take(message)

    def _feed_of_issuers(self) -> SupervisorKeys:
        self.issuers.needed()
        assert self._issuer_feed is not None, "it was made"
        return self._issuer_feed

    def _make_issuer_keys(self) -> IssuerKeys:
        from mgw.app.issuer_keys import shared_keys, supervisor_keys  # see mgw.app.late_issuer_keys

        self._issuer_feed = feed = supervisor_keys(self.reactor, self.channel)
        return shared_keys(self.reactor, feed)

    def _use_keys(self, changed: Sequence[NamedKeySettings], gone: Sequence[str]) -> None:
        equipment = self._equipment
        if equipment is None:
            for name in gone:
                self._first_keys.pop(name, None)
            self._first_keys.update({key.name: key for key in changed})
        else:
            equipment.metrics.requests.names.add_clients(key.name for key in changed)
            equipment.serving.keys.use(changed, gone)

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
        if self._equipment is not None:
            self._equipment.serving.cut_short()

    def _begin(self, message: Begin) -> ChannelMessage:
        config = share_of(unpickle_config(message.config), message.workers)
        self.inherited.use_log(config.log)
        self._first_secrets = secrets_of(config)
        try:
            self._equipment = equipment = self._build(config, message)
            self._ports.adopt(self.inherited.sockets, config, equipment.serving.channels)
        except (OSError, ValueError) as error:
            return Failed(str(error))
        equipment.metrics.loop_delay.start()
        equipment.serving.begin(shares_port=True)
        equipment.serving.channels.on_count = self._balance.count
        self._balance.begin()
        return Done()

    def _build(self, config: Config, message: Begin) -> _Equipment:
        reactor, channel = self.reactor, self.channel
        writer = RowWriter(channel)
        records = RecordQueue(reactor, writer.record_all)
        sources = build_sources(reactor)
        sources.share = SupervisorTokens(channel)
        sources.subscriptions.on_cooldown = self._on_cooldown
        tallies = SupervisorTallies(channel, message.workers)
        generation = build_generation(message.number, config, reactor, int(time()), sources)
        metrics = metrics_of(reactor, lambda: serving)
        metrics.reloaded(message.number, config.providers, config.edge_auth.client_names)
        forwarding = forwarding_to(reactor, message.operator_socket)
        counts = SharedCounts(tallies, LocalCounts(reactor.seconds))
        serving = Serving(
            reactor,
            Shared(sources, counts, list(self._first_keys.values()), self.issuers),
            generation,
            AccessObserver(records, metrics),
            forwarding.serve,
            lambda: forwarding.serve_page,
        )
        serving.server.sessions.observer = SessionChangePublisher(time, self._on_session)
        return _Equipment(serving, records, metrics, writer, tallies, forwarding)

    def _on_session(self, change: SessionChange) -> None:
        self.channel.tell(SessionNews(to_builtins(change)))

    def _on_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        self.channel.tell(AccountCooldown(store, account, model, seconds))

    def _reload(self, message: Reload) -> ChannelMessage | Deferred[ChannelMessage]:
        equipment = self._equipment
        if equipment is None:
            return Failed("the worker is not ready")
        if self._is_stopping:  # by a signal of its own: the others need not go back because of that
            return Done()
        return Deferred.fromCoroutine(self._reload_with(equipment, message))

    async def _reload_with(self, equipment: _Equipment, message: Reload) -> ChannelMessage:
        serving = equipment.serving
        try:
            parts, certificate = await self._threads.defer(partial(_read, message, serving))
            serving.hide(parts.secrets)  # before anything is logged of what was read
            generation = await serving.build(parts, message.number)
        except (OSError, ValueError) as error:
            return Failed(str(error))
        if self._is_stopping:
            generation.retire()
            return Done()
        config = generation.config
        self._ports.renew(certificate)
        equipment.tallies.parts = message.workers
        self.inherited.use_log(config.log)
        serving.use(generation)
        equipment.metrics.reloaded(message.number, config.providers, config.edge_auth.client_names)
        return Done()

    async def _state(self) -> ChannelMessage:
        equipment = self._equipment
        if equipment is None:
            return Failed("the worker is not ready yet")
        for _ in range(equipment.records.slices):
            equipment.records.write_slice()
            await deferLater(self.reactor, 0)
        return self._collect(equipment)

    def _collect(self, equipment: _Equipment) -> WorkerState:
        server = equipment.serving.server
        return collect_state(
            equipment.metrics,
            {"in_flight": len(server.exchanges), "sessions": server.sessions.count},
            Requests(lambda: server.exchanges).rows(),
            [to_builtins(row) for row in list_sessions(server.sessions, time()).sessions],
            equipment.writer.dropped,
        )

    async def _stop(self) -> None:
        equipment = self._equipment
        if equipment is not None:
            await self._stop_serving(equipment)
        self.channel.lose()
        await self._lost
        self.reactor.stop()

    async def _stop_serving(self, equipment: _Equipment) -> None:
        serving = equipment.serving
        equipment.forwarding.drain()
        self._balance.stop()
        await serving.drain(serving.generation.config.drain_delay_seconds)
        await self._ports.stop()
        await serving.stop()
        equipment.records.flush()
        self.channel.tell(self._collect(equipment))  # the last: whatever ends later is counted by nobody
        await serving.sources.stop()
        self._threads.stop()
        equipment.metrics.loop_delay.stop()
        serving.restore()

    def _on_bug(self, failure: Any) -> None:  # Any: a Failure of anything
        _log.failure("internal error: worker {slot} could not stop cleanly", failure, slot=self.slot)
        self.reactor.stop()

    def _known_secrets(self) -> list[Secret]:
        return self._first_secrets if self._equipment is None else self._equipment.serving.secrets()

    def _log_to_channel(self, lines: ILogObserver) -> ILogObserver:
        return _LogToChannel(self, lines)


def _read(message: Reload, serving: Serving) -> tuple[Parts, Certificate | None]:
    """Read, in a thread, a configuration and the files that it names.

    :raises ValueError: the certificate cannot be read.
    """
    config = share_of(unpickle_config(message.config), message.workers)
    serving.prepare(config)
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
