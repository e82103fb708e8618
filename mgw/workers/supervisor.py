"""The life cycle of workers: one per slot, and a replacement for each that crashes.

A slot's worker starts, serves, and drains when nobody wants it any more.  It has ended when its process has
and its channel is closed: what it said at last is read first.  A process whose channel is closed is killed,
and so is one that does not get ready, or whose event loop does not turn.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.workers.channel import Channel, Handler, adopt
from mgw.workers.delegate import Delegate, Forks, Stage, WorkerView
from mgw.workers.fork_server import ForkedProcess, ProcessEnding
from mgw.workers.messages import ChannelMessage, Ping

BEGIN_SECONDS: Final = 60.0
"""Who does not serve after so long is killed."""
STEADY_SECONDS: Final = 10.0
"""Who served longer than this is replaced at once; who did not, after a delay."""
FIRST_DELAY: Final = 0.5
"""Seconds; it doubles with each worker of a slot that ends so soon."""
LONGEST_DELAY: Final = 30.0
LOST_SECONDS: Final = 2.0
"""The limit for a process to exit whose channel is closed, or for a channel whose process has exited."""
KILL_SECONDS: Final = 5.0
"""The time between SIGTERM and SIGKILL."""
STOP_GRACE_SECONDS: Final = 5.0
"""What workers get beyond the time that they drain in."""
PING_SECONDS: Final = 5.0
STUCK_PINGS: Final = 12
"""The pings without an answer, for a minute, after which a worker is taken to be stuck."""
_STUCK_KILL_SECONDS: Final = 1.0

_log: Final = Logger()


class WorkerStartError(Exception):
    """The workers cannot be started; the text says why."""


@dataclass(slots=True, eq=False)
class _Slot:
    number: int
    worker: _Worker | None = None
    is_wanted: bool = True
    failures: int = 0
    """How many workers have ended soon, one after another."""
    retry: IDelayedCall | None = None


@dataclass(slots=True, eq=False)
class _Worker:
    slot: _Slot
    since: float
    stage: Stage = Stage.STARTING
    pid: int | None = None
    channel: Channel | None = None
    is_attached: bool = False
    has_begun: bool = False
    """Whether it was told to begin, with the configuration of then."""
    served: float = 0.0
    """The seconds up to when it was asked to drain or had ended."""
    ending: ProcessEnding | None = None
    is_lost: bool = False
    reason: str | None = None
    """Why it could not begin."""
    unanswered: int = 0
    """How many pings went by without an answer."""
    ping: Deferred[ChannelMessage] | None = None
    limit: IDelayedCall | None = None
    """The time limit for what must happen next: that it serves, or its channel closes."""
    killing: IDelayedCall | None = None
    waiters: list[Deferred[None]] = field(default_factory=list)
    """They fire when it serves or has ended."""

    @property
    def is_there(self) -> bool:
        return self.stage is Stage.SERVING and self.channel is not None and self.channel.is_open


@dataclass(slots=True)
class _WorkerHandler:
    """Passes on what a worker says, and tells the supervisor too that its channel is lost."""

    inner: Handler
    lost: Callable[[], None]

    def on_message(self, message: ChannelMessage) -> None:
        self.inner.on_message(message)

    def on_question(self, question: ChannelMessage) -> ChannelMessage | Deferred[ChannelMessage]:
        return self.inner.on_question(question)

    def on_lost(self) -> None:
        try:
            self.inner.on_lost()
        finally:
            self.lost()


def _cancel(timer: IDelayedCall | None) -> None:
    if timer is not None and timer.active():
        timer.cancel()


class Supervisor:
    """Keeps the slots filled.

    :param clock: the reactor, which also makes channels of sockets.
    :param adopt_channel: makes a channel of a socket.
    """

    def __init__(
        self,
        clock: Any,  # Any: IReactorTime and IReactorSocket
        forks: Forks,
        delegate: Delegate,
        adopt_channel: Callable[[Any, socket.socket, Handler], Channel] = adopt,
    ) -> None:
        self._clock = clock
        self._forks = forks
        self._delegate = delegate
        self._adopt = adopt_channel
        self._slots: dict[int, _Slot] = {}
        self._pids: dict[int, _Worker] = {}
        self._is_starting = False
        self._is_stopping = False
        self._has_forks = True
        self._stopped: list[Deferred[None]] = []
        self._rolling = DeferredLock()
        self._pings = LoopingCall(self._ping_all)
        self._pings.clock = clock
        self.restarts = 0
        """How many workers were replaced."""
        forks.listen(self._on_exit, self._on_forks_lost)

    @property
    def workers(self) -> list[WorkerView]:
        """All that there are, in the order of their slots."""
        found = (self._slots[number].worker for number in sorted(self._slots))
        return [WorkerView(w.slot.number, w.pid, w.stage, w.since, w.channel) for w in found if w is not None]

    def start(self, count: int) -> Deferred[None]:
        """Start so many workers; fire when all serve.

        Fails with :class:`WorkerStartError` where one of them cannot, when all have ended again.
        """
        return Deferred.fromCoroutine(self._start(count))

    async def _start(self, count: int) -> None:
        self._is_starting = True
        _ = self._pings.start(PING_SECONDS, now=False)
        self._slots = {number: _Slot(number) for number in range(count)}
        workers = [self._fork(slot) for slot in self._slots.values()]
        for worker in workers:
            await self._until_begun(worker)
            if not worker.is_there:
                reason = worker.reason or f"worker {worker.slot.number} exited: {worker.ending}"
                await self.stop(0)
                raise WorkerStartError(reason)
        self._is_starting = False
        for slot in list(self._slots.values()):  # one may have ended while others were starting
            if slot.worker is None and slot.retry is None:
                self._fork(slot)

    def resize(self, count: int) -> None:
        """Have so many workers: more are started, or those of the highest slots drain and are not replaced.

        Where a slot is wanted again whose worker still drains, the next one starts when that has ended.
        """
        for number in range(count):
            slot = self._slots.get(number)
            if slot is None:
                slot = self._slots[number] = _Slot(number)
                self._fork(slot)
            slot.is_wanted = True
        for slot in [slot for slot in self._slots.values() if slot.number >= count]:
            slot.is_wanted = False
            _cancel(slot.retry)
            if slot.worker is None:
                del self._slots[slot.number]
            else:
                self._dismiss(slot.worker)

    async def roll(self, action: Callable[[Channel], Awaitable[None]]) -> None:
        """Do something with one worker after another, in the order of their slots; one roll at a time.

        One that is starting is waited for.  Those who end meanwhile are skipped, and so are those that begin
        later.  What ``action`` raises about one that lives is raised, and the others are left as they are.
        """
        await self._rolling.acquire()
        try:
            found = (self._slots[number].worker for number in sorted(self._slots))
            for worker in [worker for worker in found if worker is not None and worker.has_begun]:
                await self._until_begun(worker)
                if worker.is_there and worker.channel is not None:
                    try:
                        await action(worker.channel)
                    except Exception:
                        if worker.is_there:
                            raise
        finally:
            self._rolling.release()

    async def stop(self, seconds: float) -> None:
        """Drain all at once, and wait until all have ended; who has not after ``seconds`` is killed.

        Calling it again, while it goes on, sets another limit.
        """
        self._is_stopping = True
        for slot in list(self._slots.values()):
            _cancel(slot.retry)
            if slot.worker is not None:
                self._dismiss(slot.worker)
        if any(slot.worker is not None for slot in self._slots.values()):
            stopped: Deferred[None] = Deferred()
            self._stopped.append(stopped)
            limit = self._clock.callLater(seconds + STOP_GRACE_SECONDS, self._kill_all)
            await stopped
            _cancel(limit)
        if self._pings.running:
            self._pings.stop()

    def _fork(self, slot: _Slot) -> _Worker:
        slot.retry = None
        slot.worker = worker = _Worker(slot, self._clock.seconds())
        forked = self._forks.fork(slot.number)
        _ = forked.addCallbacks(self._on_forked, self._on_no_fork, (worker,), {}, (worker,), {})
        return worker

    def _on_no_fork(self, failure: Failure, worker: _Worker) -> None:
        worker.reason = f"worker {worker.slot.number} cannot be started: {failure.value}"
        _log.error("{reason}", reason=worker.reason)
        self._on_end(worker)

    def _on_forked(self, process: ForkedProcess, worker: _Worker) -> None:
        number = worker.slot.number
        worker.pid = process.pid
        self._pids[process.pid] = worker
        handler = _WorkerHandler(self._delegate.make_handler(number), lambda: self._on_channel_lost(worker))
        worker.channel = self._adopt(self._clock, process.end, handler)
        if self._is_stopping or not worker.slot.is_wanted:
            self._kill(worker)
            return
        worker.limit = self._clock.callLater(BEGIN_SECONDS, self._on_begin_limit, worker)
        worker.has_begun = worker.is_attached = True
        attached = maybeDeferred(self._delegate.attach, number, worker.channel, process.pid)
        _ = attached.addCallbacks(self._on_serving, self._on_cannot_begin, (worker,), {}, (worker,), {})

    def _on_serving(self, _result: None, worker: _Worker) -> None:
        if worker.stage is Stage.STARTING and worker.ending is None and not worker.is_lost:
            _cancel(worker.limit)
            self._set_stage(worker, Stage.SERVING)
            _log.info("worker {slot} (pid {pid}) is ready", slot=worker.slot.number, pid=worker.pid)
            self._tell_waiters(worker)

    def _on_cannot_begin(self, failure: Failure, worker: _Worker) -> None:
        if worker.channel is not None and worker.channel.is_open and worker.ending is None:
            self._give_up(worker, str(failure.value))

    def _on_begin_limit(self, worker: _Worker) -> None:
        self._give_up(worker, f"it was not ready within {BEGIN_SECONDS:g} s")

    def _give_up(self, worker: _Worker, reason: str) -> None:
        _cancel(worker.limit)
        worker.reason = f"worker {worker.slot.number} failed to start: {reason}"
        _log.error("{reason}", reason=worker.reason)
        self._kill(worker)

    def _on_channel_lost(self, worker: _Worker) -> None:
        worker.is_lost = True
        _cancel(worker.limit)
        if worker.is_attached:
            worker.is_attached = False
            self._delegate.detach(worker.slot.number)
        if worker.ending is not None:
            self._on_end(worker)
        elif worker.killing is None:
            worker.killing = self._clock.callLater(LOST_SECONDS, self._kill, worker)

    def _on_exit(self, pid: int, ending: ProcessEnding) -> None:
        worker = self._pids.pop(pid, None)
        if worker is None:
            return
        worker.ending = ending
        _cancel(worker.killing)
        _cancel(worker.limit)
        if worker.is_lost:
            self._on_end(worker)
        elif worker.channel is not None:  # what it said at last may still be there to be read
            worker.limit = self._clock.callLater(LOST_SECONDS, worker.channel.lose)

    def _on_end(self, worker: _Worker) -> None:
        """Take notice that nothing is left of a worker."""
        slot = worker.slot
        if worker.stage is Stage.SERVING:
            worker.served = self._clock.seconds() - worker.since
        slot.worker = None
        self._log_end(worker)
        if not slot.is_wanted:
            del self._slots[slot.number]
        elif not self._is_stopping and not self._is_starting and self._has_forks:
            self._replace(slot, worker)
        self._tell_waiters(worker)
        if self._is_stopping and not any(slot.worker is not None for slot in self._slots.values()):
            stopped, self._stopped = self._stopped, []
            for waiter in stopped:
                waiter.callback(None)

    def _log_end(self, worker: _Worker) -> None:
        if worker.ending is None:  # none was forked, which was said
            return
        say = _log.info if worker.stage is Stage.DRAINING and worker.ending.is_orderly else _log.warn
        say(
            "worker {slot} (pid {pid}) exited: {ending}",
            slot=worker.slot.number,
            pid=worker.pid,
            ending=str(worker.ending),
        )

    def _replace(self, slot: _Slot, ended: _Worker) -> None:
        self.restarts += 1
        if ended.served > STEADY_SECONDS or ended.stage is Stage.DRAINING:
            slot.failures = 0
            self._fork(slot)
            return
        delay = min(FIRST_DELAY * 2**slot.failures, LONGEST_DELAY)
        slot.failures += 1
        slot.retry = self._clock.callLater(delay, self._fork, slot)

    def _dismiss(self, worker: _Worker) -> None:
        """Have a worker end: in order where it serves."""
        if worker.stage is Stage.SERVING:
            self._set_stage(worker, Stage.DRAINING)
            if worker.channel is not None and worker.channel.is_open:
                self._delegate.drain(worker.channel)
        elif worker.stage is Stage.STARTING and worker.pid is not None:
            self._kill(worker)

    def _kill(self, worker: _Worker, number: int = signal.SIGTERM, seconds: float = KILL_SECONDS) -> None:
        if worker.pid is not None and worker.ending is None:
            _cancel(worker.killing)
            self._forks.kill(worker.pid, number)
            worker.killing = self._clock.callLater(seconds, self._forks.kill, worker.pid, signal.SIGKILL)

    def _kill_all(self) -> None:
        for pid, worker in list(self._pids.items()):
            _log.warn(
                "worker {slot} (pid {pid}) did not exit in time; killing it",
                slot=worker.slot.number,
                pid=pid,
            )
            self._forks.kill(pid, signal.SIGKILL)

    def _set_stage(self, worker: _Worker, stage: Stage) -> None:
        now = self._clock.seconds()
        if worker.stage is Stage.SERVING:
            worker.served = now - worker.since
        worker.stage, worker.since = stage, now

    async def _until_begun(self, worker: _Worker) -> None:
        if worker.stage is Stage.STARTING and worker.slot.worker is worker:
            waiter: Deferred[None] = Deferred(worker.waiters.remove)
            worker.waiters.append(waiter)
            await waiter

    def _tell_waiters(self, worker: _Worker) -> None:
        waiters, worker.waiters = worker.waiters, []
        for waiter in waiters:
            waiter.callback(None)

    def _on_forks_lost(self) -> None:
        self._has_forks = False
        for slot in self._slots.values():
            _cancel(slot.retry)
        self._delegate.on_lost()

    def _ping_all(self) -> None:
        for worker in list(self._pids.values()):
            if worker.stage is Stage.STARTING or worker.channel is None or not worker.channel.is_open:
                continue
            if worker.unanswered >= STUCK_PINGS:
                self._on_stuck(worker)
                continue
            worker.unanswered += 1
            if worker.ping is None:
                worker.ping = worker.channel.ask(Ping(), 2 * STUCK_PINGS * PING_SECONDS)
                _ = worker.ping.addCallbacks(self._on_pong, self._on_no_pong, (worker,), {}, (worker,), {})

    def _on_pong(self, _answer: ChannelMessage, worker: _Worker) -> None:
        worker.ping, worker.unanswered = None, 0

    def _on_no_pong(self, _failure: Failure, worker: _Worker) -> None:
        worker.ping = None

    def _on_stuck(self, worker: _Worker) -> None:
        if worker.killing is None:
            _log.error(
                "worker {slot} (pid {pid}) is stuck (no answer for {seconds:g} s); killing it",
                slot=worker.slot.number,
                pid=worker.pid,
                seconds=STUCK_PINGS * PING_SECONDS,
            )
            self._kill(worker, signal.SIGQUIT, _STUCK_KILL_SECONDS)
