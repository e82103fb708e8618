"""The gateway as several processes: workers serve clients, and the supervisor handles everything else.

::

    clients ──► listening sockets, opened here ──► workers: requests, sessions
                                                     │ channel: records, questions of limits, log
    operators ──► worker ──► operator socket ──► this process: usage sinks, metrics, log, dashboard

It has the server of a gateway, too, which only operators reach.  Each configuration is read and tried here,
and handed to one worker after the other; where one of them cannot use it, all go back to the one before.
"""

from __future__ import annotations

import atexit
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import time
from typing import Any, Final

from msgspec import convert
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, Logger, LogLevel
from twisted.python.failure import Failure

from mgw.app.service import GatewayService, Prepared
from mgw.app.worker import Inherited, run_worker
from mgw.config.settings import Config
from mgw.dashboard.gateway_view import GatewayView
from mgw.dashboard.session_list import SessionChange, SessionRow
from mgw.nouns.secret import Secret, redact_secrets
from mgw.ops.logs import LogFile
from mgw.ops.service_manager import SECONDS_BEHIND_DRAIN
from mgw.workers.channel import Channel, ChannelError, adopt
from mgw.workers.client_balance import ClientNumbers
from mgw.workers.counts import HubCounts
from mgw.workers.delegate import WorkerView
from mgw.workers.fork_server import ForkServer
from mgw.workers.hub import HubParts, WorkerConnection
from mgw.workers.internal_listener import InternalListener, WithoutAccessLines, socket_directories
from mgw.workers.messages import AccountCooldown, Begin, Drain, Failed, LogText, Reload
from mgw.workers.pickled_config import pickle_config
from mgw.workers.supervisor import BEGIN_SECONDS, Supervisor
from mgw.workers.worker_count import resolve_workers
from mgw.workers.worker_state import WorkersState

RELOAD_SECONDS: Final = 60.0
"""How long a worker may take to use another configuration."""
_log: Final = Logger()


@dataclass(frozen=True, slots=True)
class _OtherWork:
    """What is under way in workers, for the dashboard."""

    refresh: Callable[[], Deferred[None]]
    state: WorkersState

    def requests(self) -> tuple[int, Sequence[dict[str, Any]]]:  # Any: JSON
        return self.state.requests()

    def sessions(self) -> Sequence[SessionRow]:
        return self.state.sessions()


class SupervisedService(GatewayService):
    """The process that has the workers; the arguments are those of :class:`~mgw.service.GatewayService`."""

    def __init__(
        self,
        config: Config,
        read_config: Callable[[], Config],
        reactor: Any,
        log_file: LogFile | None,
    ) -> None:
        self._clients = ClientNumbers()
        self._workers = WorkersState(self._count_by_stage, self._restarts, self._processes)
        super().__init__(config, read_config, reactor, log_file)
        self.telemetry.metrics.workers = self._workers
        self.telemetry.metrics.state.requests_in_flight = int  # none: workers count what they forward to us
        self._begins_with = config, self.plane.generation.number
        """What a new worker begins with."""
        self._log_secrets: Callable[[], list[Secret]] = super()._known_secrets
        self.server.observer = WithoutAccessLines(self.server.observer)  # workers write them
        self._operators = InternalListener(reactor, self.server, socket_directories(config.spool.dir))
        self._operator_socket = ""
        self._fork_server: ForkServer | None = None
        self._supervisor: Supervisor | None = None
        self.is_reloading = True
        """Or starting."""
        self._is_stopping = False
        self._parts = HubParts(
            counts=HubCounts(self.server.registry.counts_of, self.server.sessions.slots, reactor),
            sources=self.plane.sources,
            record_settled=self.telemetry.records.record_settled,
            record_ended=self.telemetry.records.record_ended,
            write_log=self._write_log,
            publish_session=self._publish_session,
            wall=time,
            note_state=self._workers.note,
            spread_cooldown=self._spread_cooldown,
        )

    def startService(self) -> None:
        """Fork what forks the workers, while there are no threads; then as any gateway."""
        inherited = Inherited(
            sockets=self._ports.sockets(),
            clients=self._clients,
            divert_log=self.telemetry.divert_log,
            use_secrets=self._use_log_secrets,
            use_log=self.telemetry.use_log,
        )
        try:
            self._fork_server = ForkServer.start(
                partial(run_worker, inherited=inherited),
                self._reactor,
                [one.descriptor for one in inherited.sockets],
            )
            self._operator_socket = self._operators.start()
        except (OSError, RuntimeError, ValueError) as error:
            raise self._unable(f"workers: {error}") from None
        super().startService()

    def asked_to_stop(self) -> None:
        """Begin to drain; the second time, end what is left of it."""
        if self._is_stopping:
            for worker in self._views():
                if worker.channel is not None:
                    worker.channel.tell(Drain(0.0))
        super().asked_to_stop()

    # The life of workers

    def make_handler(self, slot: int) -> WorkerConnection:
        """Return what takes the messages of a new worker."""
        return WorkerConnection(slot, self._parts)

    def attach(self, slot: int, channel: Channel, pid: int) -> Deferred[None]:  # noqa: ARG002  the interface's
        """Have a new worker begin with the configuration of the moment."""
        return Deferred.fromCoroutine(self._attach(slot, channel))

    def detach(self, slot: int) -> None:
        """A worker has gone, and its connection has taken back what it had."""
        self._clients.remove(slot)
        self._workers.ended(slot)

    def drain(self, channel: Channel) -> None:
        """Tell a worker to end its requests and exit."""
        channel.tell(Drain(self._drain_seconds(), is_alone=not self._is_stopping))

    def on_lost(self) -> None:
        """No more workers can be forked: end in order, so that a service manager starts anew."""
        _log.critical("workers can no longer be replaced: stopping the service")
        self._stop_failed()

    async def _attach(self, slot: int, channel: Channel) -> None:
        config, number = self._begins_with
        begin = Begin(slot, self._count(config), number, pickle_config(config), self._operator_socket)
        answer = await channel.ask(begin, BEGIN_SECONDS)
        if isinstance(answer, Failed):
            raise ValueError(answer.reason)
        for cooldown in self.plane.sources.subscriptions.cooldowns():
            channel.tell(AccountCooldown(*cooldown))

    def _listen(self, config: Config) -> None:
        self._ports.bind(config)

    def _announce(self) -> None:
        """Start the workers; only then say that we serve."""
        assert self._fork_server is not None, "the service was started"
        self._supervisor = Supervisor(self._reactor, self._fork_server, self, adopt)
        starting = self._supervisor.start(self._count(self.plane.generation.config))
        _ = starting.addCallbacks(self._on_started, self._on_not_started)

    def _on_started(self, _: None) -> None:
        if not self._is_stopping:
            super()._announce()
            self._on_reloaded(None)

    def _on_not_started(self, failure: Failure) -> None:
        if not self._is_stopping:
            self._unable(str(failure.value))
            self._stop_failed()

    def _stop_failed(self) -> None:
        """Stop in order, with an exit code that says that something is wrong."""
        if self._is_stopping:
            return
        atexit.register(os._exit, 1)  # when twistd has removed its pid file
        self._reactor.stop()

    async def _stop(self) -> None:
        self._is_stopping = self.plane.stopping = True
        before = self._workers.records_dropped
        await super()._stop()
        lost = self._workers.records_dropped - before
        if lost:
            _log.error("workers: {lost} usage events could not be handed over and were lost", lost=lost)
            self.events_lost += lost

    async def _drain(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.stop(self._drain_seconds() + SECONDS_BEHIND_DRAIN / 2)
        if self._fork_server is not None:
            await self._fork_server.stop()
        await self._ports.stop()  # who connects now would wait for nobody
        await self._operators.stop()
        await self.plane.drain(delay=0.0)

    def _drain_seconds(self) -> float:
        """Return how long the requests of workers may go on."""
        config = self.plane.generation.config
        return config.drain_delay_seconds + config.drain_seconds

    def _count(self, config: Config) -> int:
        """Return how many workers there should be; a change from or to none needs a restart."""
        return resolve_workers(config.workers) or 1

    # Reload

    async def _use_everywhere(self, prepared: Prepared) -> None:
        assert self._supervisor is not None, "it serves"
        before, self._begins_with = self._begins_with, (prepared.config, prepared.generation.number)
        try:
            await self._supervisor.roll(self._reloading_with(prepared.config, prepared.generation.number))
        except (ValueError, ChannelError) as error:
            self._begins_with = before
            prepared.generation.retire()
            self.telemetry.sinks.discard(prepared.sinks)
            self._not_reloaded(f"a worker cannot use it: {error}")
            await self._supervisor.roll(self._going_back_to(*before))
            return
        self._use(prepared)
        if not self._is_stopping:
            self._supervisor.resize(self._count(prepared.config))

    def _reloading_with(self, config: Config, number: int) -> Callable[[Channel], Any]:  # Any: a coroutine
        message = Reload(self._count(config), number, pickle_config(config))

        async def reload(channel: Channel) -> None:
            answer = await channel.ask(message, RELOAD_SECONDS)
            if isinstance(answer, Failed):
                raise ValueError(answer.reason)

        return reload

    def _going_back_to(self, config: Config, number: int) -> Callable[[Channel], Any]:  # Any: as above
        reload = self._reloading_with(config, number)

        async def go_back(channel: Channel) -> None:
            try:
                await reload(channel)
            except (ValueError, ChannelError) as error:
                # One that replaced it would have nothing better to begin with, so it serves on as it is.
                _log.error("a worker could not return to the previous configuration: {error}", error=error)

        return go_back

    # What workers say

    def _write_log(self, slot: int, line: LogText) -> None:
        """Write a line of a worker, which has hidden what it knows: refresh tokens are known here alone."""
        length, secrets = line.message_length, self._known_secrets()
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
        self.telemetry.log_text(event)

    def _publish_session(self, change: Mapping[str, Any]) -> None:  # Any: JSON
        self._dashboard.tell_session(convert(change, SessionChange))

    def _spread_cooldown(self, cooldown: AccountCooldown, source: WorkerConnection) -> None:
        """Tell this process, all other workers and all other hosts that an account is in cooldown."""
        self.plane.sources.subscriptions.learn(
            cooldown.store, cooldown.account, cooldown.model, cooldown.seconds
        )
        self._tell_workers(cooldown, source.slot)
        super()._on_own_cooldown(cooldown.store, cooldown.account, cooldown.model, cooldown.seconds)

    def _on_own_cooldown(self, store: str, account: str, model: str | None, seconds: float) -> None:
        super()._on_own_cooldown(store, account, model, seconds)
        self._tell_workers(AccountCooldown(store, account, model, seconds), None)

    def _on_cooldown_elsewhere(self, store: str, account: str, model: str | None, seconds: float) -> None:
        super()._on_cooldown_elsewhere(store, account, model, seconds)
        self._tell_workers(AccountCooldown(store, account, model, seconds), None)

    def _tell_workers(self, cooldown: AccountCooldown, source: int | None) -> None:
        for worker in self._views():
            if worker.slot != source and worker.channel is not None:
                worker.channel.tell(cooldown)

    # What operators ask

    def refresh(self) -> Deferred[None]:
        """Ask all workers for their numbers, and have all records of requests that have ended by now."""
        return self._workers.refresh(
            {worker.slot: worker.channel for worker in self._views() if worker.channel is not None}
        )

    async def _render_metrics(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        await self.refresh()
        return await super()._render_metrics(accept)

    def _surroundings(self) -> GatewayView:
        own = super()._surroundings()
        return replace(own, facts=self._facts, others=_OtherWork(self.refresh, self._workers))

    def _facts(self) -> dict[str, Any]:  # Any: JSON
        facts, workers = self.server.facts, self._workers
        return {
            **facts,
            "in_flight": facts["in_flight"] + workers.fact("in_flight"),
            "sessions": facts["sessions"] + workers.fact("sessions"),
        }

    def _views(self) -> list[WorkerView]:
        return [] if self._supervisor is None else self._supervisor.workers

    def _count_by_stage(self) -> Mapping[str, int]:
        return Counter(worker.stage.value for worker in self._views())

    def _restarts(self) -> int:
        return 0 if self._supervisor is None else self._supervisor.restarts

    def _processes(self) -> Mapping[int, int]:
        return {worker.slot: worker.pid for worker in self._views() if worker.pid is not None}

    # The log, which forks inherit

    def _use_log_secrets(self, secrets: Callable[[], list[Secret]]) -> None:
        self._log_secrets = secrets

    def _known_secrets(self) -> list[Secret]:
        return self._log_secrets()
