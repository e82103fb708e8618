"""The service as several processes: workers serve clients, and the supervisor handles everything else.

::

    clients ──► listening sockets, opened here ──► workers: requests, sessions
                                                     │ channel: records, questions of limits, log
    operators ──► worker ──► operator socket ──► this process: usage sinks, metrics, log, dashboard

This process has the server of a gateway, too, which only operators reach.  Each configuration is read and
tried here, and handed to one worker after the other; where one of them cannot use it, all go back to the one
before.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import time
from typing import Any, Final

from msgspec import convert
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, Logger, LogLevel
from twisted.python.failure import Failure

from mgw.app.gateway import Gateway, Prepared
from mgw.app.key_files import batched_keys
from mgw.app.reloader import Reloader
from mgw.app.shared_imports import import_for_workers
from mgw.app.status import Status
from mgw.app.worker import Inherited, run_worker
from mgw.config.settings import Config
from mgw.dashboard.session_list import SessionChange
from mgw.nouns.secret import redact_secrets
from mgw.ops.logs import LogFile
from mgw.ops.process import on_signals
from mgw.ops.service_manager import SECONDS_BEHIND_DRAIN
from mgw.workers.channel import Channel, ChannelError, adopt
from mgw.workers.counts import SupervisorCounts
from mgw.workers.fork_server import ForkServer
from mgw.workers.internal_listener import InternalListener, WithoutAccessLines, socket_directories
from mgw.workers.messages import (
    AccountCooldown,
    Begin,
    ChannelMessage,
    Drain,
    Failed,
    IssuerKeysChanged,
    IssuerKeysQuestion,
    KeysChanged,
    LogText,
    Reload,
)
from mgw.workers.pickled_config import pickle_config, pickle_keys
from mgw.workers.pool import WorkerPool
from mgw.workers.supervisor import BEGIN_SECONDS, Supervisor
from mgw.workers.worker_connection import SupervisorParts, WorkerConnection
from mgw.workers.worker_count import resolve_workers

RELOAD_SECONDS: Final = 60.0
"""How long a worker may take to use another configuration."""
_log: Final = Logger()


class SupervisedService(Service):
    """A gateway whose clients are served by workers.

    :param config: the configuration to begin with.
    :param read_config: reads the configuration anew; raises :class:`ConfigError` or ``OSError``.
    :param log_file: where the process log goes; ``None`` leaves twistd's observers alone.
    """

    name = "mgw"

    def __init__(
        self,
        config: Config,
        read_config: Callable[[], Config],
        reactor: Any,  # Any: a reactor has no one type
        log_file: LogFile | None,
    ) -> None:
        self._reactor = reactor
        self._pool = WorkerPool()
        self.gateway = gateway = Gateway(config, reactor, log_file, workers=self._pool)
        self.status = Status(gateway, config)
        self.reloader = Reloader(gateway, self.status, read_config, self._use)
        self.reloader.hold()  # until the workers serve
        metrics = gateway.telemetry.metrics
        metrics.workers = self._pool.state
        metrics.state.requests_in_flight = int  # none: workers count what they forward to us
        gateway.server.observer = WithoutAccessLines(gateway.server.observer)  # workers write them
        self._begins_with = config, gateway.serving.generation.number
        """What a new worker begins with."""
        self._operators = InternalListener(reactor, gateway.server, socket_directories(config.spool.dir))
        self._operator_socket = ""
        self._fork_server: ForkServer | None = None
        self._is_stopping = False
        self._supervisor_parts = self._make_supervisor_parts()

    def _make_supervisor_parts(self) -> SupervisorParts:
        return SupervisorParts(
            counts=SupervisorCounts(self.gateway.counts),
            sources=self.gateway.serving.sources,
            record_all=self.gateway.telemetry.records.record_all,
            write_log=self._write_log,
            publish_session=self._publish_session,
            wall=time,
            note_state=self._pool.state.note,
            spread_cooldown=self._spread_cooldown,
            ask_issuer=self._ask_issuer,
        )

    # Start

    def setServiceParent(self, parent: Any) -> None:
        """Join the application, whose log becomes ours."""
        self.gateway.take_over_log(parent)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]  # Twisted's

    def privilegedStartService(self) -> None:
        """Open what clients connect to, while ports below 1024 may still be had; nobody accepts from it yet.

        :raises StartError: the address cannot be had, or the certificate not be read; the reason is printed.
        """
        super().privilegedStartService()  # type: ignore[no-untyped-call]  # Twisted's
        try:
            self.gateway.ports.bind(self.gateway.config)
        except ValueError as error:
            raise self.gateway.unable(str(error)) from None

    def startService(self) -> None:
        """Fork what forks the workers, and open where usage events go.

        :raises StartError: either cannot be done; the reason is printed.
        """
        self._start_fork_server()  # first of all: a process that has threads must not be forked
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        self.gateway.open_sinks()
        on_signals(self._reactor, self.reloader.reload, "SIGHUP")
        self._reactor.callWhenRunning(self._begin)

    def _start_fork_server(self) -> None:
        import_for_workers(self.gateway.config)
        telemetry = self.gateway.telemetry
        inherited = Inherited(
            sockets=self.gateway.ports.sockets(),
            clients=self._pool.clients,
            divert_log=telemetry.divert_log,
            use_secrets=telemetry.use_secrets,
            use_log=telemetry.use_log,
        )
        try:
            self._fork_server = ForkServer.start(
                partial(run_worker, inherited=inherited),
                self._reactor,
                [one.descriptor for one in inherited.sockets],
            )
            self._operator_socket = self._operators.start()
        except (OSError, RuntimeError, ValueError) as error:
            raise self.gateway.unable(f"workers: {error}") from None

    def _begin(self) -> None:
        """Start the workers, once the reactor runs; only then say that we serve."""
        self.gateway.begin()
        on_signals(self._reactor, self.asked_to_stop, "SIGINT", "SIGTERM")
        self.status.begin()
        assert self._fork_server is not None, "the service was started"
        self._pool.supervisor = supervisor = Supervisor(self._reactor, self._fork_server, self, adopt)
        starting = supervisor.start(self._count(self.gateway.config))
        _ = starting.addCallbacks(self._on_started, self._on_not_started)

    def _on_started(self, _: None) -> None:
        if not self._is_stopping:
            self.status.on_started()
            self.reloader.release()

    def _on_not_started(self, failure: Failure) -> None:
        if not self._is_stopping:
            self.gateway.unable(str(failure.value))
            self._stop_failed()

    def _count(self, config: Config) -> int:
        """Return how many workers there should be; a change from or to none needs a restart."""
        return resolve_workers(config.workers) or 1

    # The life of workers, as the supervisor asks for it (mgw.workers.delegate)

    def make_handler(self, slot: int) -> WorkerConnection:
        """Return what takes the messages of a new worker."""
        return WorkerConnection(slot, self._supervisor_parts)

    def attach(self, slot: int, channel: Channel, pid: int) -> Deferred[None]:  # noqa: ARG002  the interface's
        """Have a new worker begin with the configuration of the moment."""
        return Deferred.fromCoroutine(self._attach(slot, channel))

    async def _attach(self, slot: int, channel: Channel) -> None:
        config, number = self._begins_with
        for part in batched_keys(self.gateway.key_files.keys):
            channel.tell(KeysChanged(pickle_keys(part)))
        feed = self.gateway.issuer_feed
        for found in () if feed is None else feed.documents():
            channel.tell(IssuerKeysChanged(*found))
        begin = Begin(slot, self._count(config), number, pickle_config(config), self._operator_socket)
        answer = await channel.ask(begin, BEGIN_SECONDS)
        if isinstance(answer, Failed):
            raise ValueError(answer.reason)
        for cooldown in self.gateway.serving.sources.subscriptions.cooldowns():
            channel.tell(AccountCooldown(*cooldown))

    def detach(self, slot: int) -> None:
        """A worker has gone, and its connection has taken back what it had."""
        self._pool.forget(slot)

    def drain(self, channel: Channel) -> None:
        """Tell a worker to end its requests and exit."""
        channel.tell(Drain(self._drain_seconds(), is_alone=not self._is_stopping))

    def on_lost(self) -> None:
        """No more workers can be forked: end in order, so that a service manager starts anew."""
        _log.critical("workers can no longer be replaced: stopping the service")
        self._stop_failed()

    # Reload

    async def _use(self, prepared: Prepared) -> None:
        supervisor = self._pool.supervisor
        assert supervisor is not None, "it serves"
        before, self._begins_with = self._begins_with, (prepared.config, prepared.generation.number)
        try:
            await supervisor.roll(self._reloading_with(*self._begins_with))
        except (ValueError, ChannelError) as error:
            self._begins_with = before
            self.reloader.reject(prepared, f"a worker cannot use it: {error}")
            await supervisor.roll(self._going_back_to(*before))
            return
        self.reloader.accept(prepared)
        if not self._is_stopping:
            supervisor.resize(self._count(prepared.config))

    def _reloading_with(self, config: Config, number: int) -> Callable[[Channel], Awaitable[None]]:
        message = Reload(self._count(config), number, pickle_config(config))

        async def reload(channel: Channel) -> None:
            answer = await channel.ask(message, RELOAD_SECONDS)
            if isinstance(answer, Failed):
                raise ValueError(answer.reason)

        return reload

    def _going_back_to(self, config: Config, number: int) -> Callable[[Channel], Awaitable[None]]:
        reload = self._reloading_with(config, number)

        async def go_back(channel: Channel) -> None:
            try:
                await reload(channel)
            except (ValueError, ChannelError) as error:
                # One that replaced it would have nothing better to begin with, so it serves on as it is.
                _log.error("a worker could not return to the previous configuration: {error}", error=error)

        return go_back

    # Stop

    def asked_to_stop(self) -> None:
        """Begin to drain; the second time, end what is left of it."""
        if self._is_stopping:
            self._pool.tell(Drain(0.0))
        if not self.gateway.serving.cut_short() and self.running:
            self._reactor.stop()

    def _stop_failed(self) -> None:
        """Stop in order, with an exit code that says that something is wrong."""
        if self._is_stopping:
            return
        atexit.register(os._exit, 1)  # when twistd has removed its pid file
        self._reactor.stop()

    def stopService(self) -> Deferred[None]:
        """Drain, then stop."""
        super().stopService()  # type: ignore[no-untyped-call]  # Twisted's
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        gateway = self.gateway
        self._is_stopping = gateway.serving.stopping = True
        before = self._pool.state.records_dropped
        self.status.on_stopping()
        gateway.dashboard.drain()
        await self._drain()
        await gateway.stop()
        self.status.stop()
        self.reloader.stop()
        gateway.serving.restore()
        lost = self._pool.state.records_dropped - before
        if lost:
            _log.error("workers: {lost} usage events could not be handed over and were lost", lost=lost)
            gateway.events_lost += lost

    async def _drain(self) -> None:
        """Wait until no request is under way, first in the workers, then here."""
        if self._pool.supervisor is not None:
            await self._pool.supervisor.stop(self._drain_seconds() + SECONDS_BEHIND_DRAIN / 2)
        if self._fork_server is not None:
            await self._fork_server.stop()
        await self.gateway.ports.stop()  # who connects now would wait for nobody
        await self._operators.stop()
        await self.gateway.serving.drain(delay=0.0)  # the workers have waited

    def _drain_seconds(self) -> float:
        """Return how long the requests of workers may go on."""
        config = self.gateway.config
        return config.drain_delay_seconds + config.drain_seconds

    # What workers say

    def _write_log(self, slot: int, line: LogText) -> None:
        """Write a line of a worker, which has hidden what it knows: refresh tokens are known here alone."""
        length, secrets = line.message_length, self.gateway.known_secrets()
        text = redact_secrets(line.text[:length], secrets)
        event: LogEvent = {
            "log_time": line.time,
            "log_level": LogLevel.lookupByName(line.level),
            "log_worker_namespace": line.logger,
            "log_system": f"worker {slot}",
            "log_worker": slot,
            "log_format": "{log_text}",
            "log_text": text,
        }
        if length is not None:
            event["log_message_length"] = len(text)
            event["log_text"] += redact_secrets(line.text[length:], secrets)
        self.gateway.telemetry.log_text(event)

    def _ask_issuer(self, question: IssuerKeysQuestion) -> ChannelMessage | Deferred[ChannelMessage]:
        feed = self.gateway.issuer_feed
        if feed is None:
            return Failed("no configuration had an issuer yet")
        from mgw.workers.shared_issuer_keys import answer_issuer_question  # it is there, as the feed is

        return answer_issuer_question(question, feed)

    def _publish_session(self, change: Mapping[str, Any]) -> None:  # Any: JSON
        self.gateway.dashboard.tell_session(convert(change, SessionChange))

    def _spread_cooldown(self, cooldown: AccountCooldown, source: WorkerConnection) -> None:
        """Tell this process, all other workers and all other hosts that an account is in cooldown."""
        self.gateway.learn_cooldown(cooldown.store, cooldown.account, cooldown.model, cooldown.seconds)
        self._pool.tell(cooldown, source.slot)
