"""The lives of workers: who is replaced and when, and who is not."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

from mgw.workers.channel import Channel, ChannelError, Handler
from mgw.workers.delegate import Stage
from mgw.workers.fork_server import ForkedProcess, ForkError, ProcessEnding
from mgw.workers.messages import Done, Drain
from mgw.workers.supervisor import Supervisor, WorkerStartError
from tests.support.deferreds import result_of
from tests.support.fleet import RecordingHandler, open_channel


class FakeForks:
    """Gives numbered processes that live until the test ends them, or SIGKILL does."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.kills: list[tuple[int, int]] = []
        self.has_none = False
        self.is_slow = False
        self.asked: list[Deferred[ForkedProcess]] = []
        """Those that a slow server has not answered; the test calls :meth:`answer`."""
        self.dies_of: tuple[int, ...] = (signal.SIGKILL,)
        self.house: House | None = None
        self._on_exit: Callable[[int, ProcessEnding], None] | None = None
        self.on_lost: Callable[[], None] | None = None

    def listen(self, on_exit: Callable[[int, ProcessEnding], None], on_lost: Callable[[], None]) -> None:
        self._on_exit, self.on_lost = on_exit, on_lost

    def fork(self, slot: int) -> Deferred[ForkedProcess]:
        if self.has_none:
            return fail(ForkError("no memory"))
        if self.is_slow:
            self.asked.append(Deferred())
            return self.asked[-1]
        return succeed(self._process())

    def answer(self) -> None:
        self.asked.pop(0).callback(self._process())

    def _process(self) -> ForkedProcess:
        self.pids.append(100 + len(self.pids))
        end, other = socket.socketpair()
        other.close()
        return ForkedProcess(self.pids[-1], end)

    def kill(self, pid: int, number: int) -> None:
        self.kills.append((pid, number))
        if number in self.dies_of:
            assert self.house is not None
            self.house.end(pid, -number)

    def exit(self, pid: int, status: int) -> None:
        assert self._on_exit is not None
        self._on_exit(pid, ProcessEnding(status))


class House:
    """A supervisor with everything around it, which it also is the delegate of."""

    def __init__(self) -> None:
        self.clock, self.forks = Clock(), FakeForks()
        self.forks.house = self
        self.begun: dict[int, Deferred[None]] = {}
        """By pid: those that have not answered yet."""
        self.channels: dict[int, Channel] = {}
        self.transports: dict[int, Any] = {}
        self.detached: list[int] = []
        self.drained: list[int] = []
        self.answers_pings = True
        self.losses = 0
        self._opened: list[tuple[Channel, Any]] = []
        self.supervisor = Supervisor(self.clock, self.forks, self, self._adopt)

    def _adopt(self, reactor: Any, end: socket.socket, handler: Handler) -> Channel:
        end.close()
        channel, transport = open_channel(handler, self.clock)
        pid = self.forks.pids[-1]
        self.channels[pid], self.transports[pid] = channel, transport
        return channel

    def make_handler(self, slot: int) -> Handler:
        return RecordingHandler()

    def attach(self, slot: int, channel: Channel, pid: int) -> Deferred[None]:
        self.begun[pid] = Deferred()
        return self.begun[pid]

    def detach(self, slot: int) -> None:
        self.detached.append(slot)

    def drain(self, channel: Channel) -> None:
        self.drained.append(next(pid for pid, known in self.channels.items() if known is channel))

    def on_lost(self) -> None:
        self.losses += 1

    def serve(self, pid: int) -> None:
        self.begun.pop(pid).callback(None)

    def start(self, count: int) -> None:
        started = self.supervisor.start(count)
        for pid in list(self.begun):
            self.serve(pid)
        result_of(started)

    def end(self, pid: int, status: int) -> None:
        """Let a process end: its channel closes, and then it is reported."""
        self.lose(pid)
        self.forks.exit(pid, status)

    def lose(self, pid: int) -> None:
        if not self.transports[pid].aborting:
            self.transports[pid].aborting = True
            self.channels[pid].connectionLost()

    def advance(self, seconds: float) -> None:
        """Let time pass in small steps, while workers answer their pings if they do."""
        for _ in range(int(seconds / 0.5)):
            self.clock.advance(0.5)

    @property
    def stages(self) -> list[tuple[int, int | None, Stage]]:
        return [(view.slot, view.pid, view.stage) for view in self.supervisor.workers]


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What was logged, but for what has gone well."""
    found: list[str] = []

    def observe(event: LogEvent) -> None:
        if event["log_level"].name != "info":
            found.append(formatEvent(event))

    observer: Any = observe  # Any: ILogObserver wants it declared
    globalLogPublisher.addObserver(observer)
    yield found
    globalLogPublisher.removeObserver(observer)


def test_the_start_is_over_when_all_serve(house: House) -> None:
    started = house.supervisor.start(2)
    assert house.stages == [(0, 100, Stage.STARTING), (1, 101, Stage.STARTING)]
    house.serve(101)
    assert not started.called
    house.clock.advance(3)
    house.serve(100)
    result_of(started)
    assert house.stages == [(0, 100, Stage.SERVING), (1, 101, Stage.SERVING)]
    assert [view.since for view in house.supervisor.workers] == [3, 0]


def test_the_start_fails_with_the_reason_of_a_worker_that_cannot_begin(house: House) -> None:
    started = house.supervisor.start(2)
    house.serve(100)
    house.begun[101].errback(ValueError("the certificate cannot be read"))
    assert (101, signal.SIGTERM) in house.forks.kills
    house.end(101, -signal.SIGTERM)
    assert house.drained == [100]
    assert not started.called
    house.end(100, 0)
    with pytest.raises(WorkerStartError, match="worker 1 failed to start: the certificate cannot be read"):
        result_of(started)
    house.advance(60)
    assert len(house.forks.pids) == 2
    assert not house.clock.getDelayedCalls()


@pytest.mark.parametrize("how", ["exit", "no process"])
def test_the_start_fails_when_a_worker_ends_before_it_serves(house: House, how: str) -> None:
    house.forks.has_none = how == "no process"
    started = house.supervisor.start(1)
    if how == "exit":
        house.end(100, 70)
    with pytest.raises(WorkerStartError, match="exit code 70" if how == "exit" else "no memory"):
        result_of(started)


def test_one_that_ends_while_others_still_start_is_replaced_when_those_serve(house: House) -> None:
    started = house.supervisor.start(2)
    house.serve(100)
    house.end(100, 1)
    house.advance(5)
    assert len(house.forks.pids) == 2
    house.serve(101)
    result_of(started)
    assert house.stages == [(0, 102, Stage.STARTING), (1, 101, Stage.SERVING)]


def test_one_that_served_for_long_is_replaced_at_once(house: House, lines: list[str]) -> None:
    house.start(2)
    house.advance(11)
    house.end(101, -signal.SIGSEGV)
    assert lines == ["worker 1 (pid 101) exited: SIGSEGV"]
    assert house.detached == [1]
    assert house.stages == [(0, 100, Stage.SERVING), (1, 102, Stage.STARTING)]
    house.serve(102)
    assert house.supervisor.restarts == 1


def test_one_that_keeps_ending_soon_is_replaced_after_growing_delays(house: House) -> None:
    house.start(1)
    for delay in [0.5, 1, 2, 4, 8, 16, 30, 30]:
        house.end(house.forks.pids[-1], 1)
        count = len(house.forks.pids)
        house.clock.advance(delay - 0.01)
        assert len(house.forks.pids) == count
        house.clock.advance(0.01)
        assert len(house.forks.pids) == count + 1
    house.serve(house.forks.pids[-1])
    house.advance(11)
    house.end(house.forks.pids[-1], 1)  # at once, and the next delay is short again
    house.end(house.forks.pids[-1], 1)
    count = len(house.forks.pids)
    house.clock.advance(0.5)
    assert len(house.forks.pids) == count + 1


def test_no_process_to_be_had_is_tried_again(house: House) -> None:
    house.start(1)
    house.forks.has_none = True
    house.end(100, 1)
    house.clock.advance(0.5)
    house.forks.has_none = False
    house.clock.advance(1)
    assert house.stages == [(0, 101, Stage.STARTING)]


def test_what_a_process_said_at_last_is_waited_for(house: House) -> None:
    house.start(1)
    house.forks.exit(100, 1)
    assert not house.detached
    assert house.channels[100].is_open
    house.lose(100)
    assert house.detached == [0]
    house.clock.advance(0.5)
    assert house.stages == [(0, 101, Stage.STARTING)]


def test_a_channel_that_outlives_its_process_is_closed(house: House) -> None:
    house.start(1)
    house.forks.exit(100, 1)
    house.clock.advance(2)
    assert house.transports[100].disconnecting


def test_a_process_without_a_channel_is_killed(house: House) -> None:
    house.start(1)
    house.lose(100)
    assert house.detached == [0]
    house.clock.advance(1.9)
    assert not house.forks.kills
    house.clock.advance(0.1)
    assert house.forks.kills == [(100, signal.SIGTERM)]
    house.clock.advance(5)
    assert house.forks.kills == [(100, signal.SIGTERM), (100, signal.SIGKILL)]
    assert house.detached == [0]


def test_one_that_does_not_get_ready_is_killed_and_replaced(house: House, lines: list[str]) -> None:
    house.start(1)
    house.end(100, 1)
    house.clock.advance(0.5)
    house.advance(59.5)
    assert not house.forks.kills
    house.clock.advance(0.5)
    assert house.forks.kills == [(101, signal.SIGTERM)]
    assert lines[-1] == "worker 0 failed to start: it was not ready within 60 s"
    house.end(101, -signal.SIGTERM)
    house.clock.advance(1)
    assert house.stages == [(0, 102, Stage.STARTING)]


def answer_pings(house: House, pid: int) -> None:
    """Be the worker for as long as pings go."""
    sent = house.transports[pid].take()
    if sent:
        far, transport = open_channel(RecordingHandler(), house.clock)
        far.dataReceived(sent)
        house.channels[pid].dataReceived(transport.take())


def test_one_whose_event_loop_does_not_turn_is_killed(house: House, lines: list[str]) -> None:
    house.start(2)
    for _ in range(12):
        house.clock.advance(5)
        answer_pings(house, 101)
    assert not house.forks.kills
    house.clock.advance(5)
    assert house.forks.kills == [(100, signal.SIGQUIT)]
    assert "worker 0 (pid 100) is stuck" in lines[0]
    house.clock.advance(1)
    assert house.stages == [(0, 102, Stage.STARTING), (1, 101, Stage.SERVING)]


def test_an_answer_in_time_starts_the_count_anew(house: House) -> None:
    house.start(1)
    for turn in range(100):
        house.clock.advance(5)
        if turn % 12 == 11:
            answer_pings(house, 100)
    assert not house.forks.kills


def test_more_workers_are_started_and_fewer_drain_without_replacement(house: House) -> None:
    house.start(1)
    house.supervisor.resize(3)
    house.serve(101)
    house.serve(102)
    house.supervisor.resize(1)
    assert house.drained == [101, 102]
    house.end(101, 0)
    house.end(102, 0)
    house.advance(60)
    assert house.stages == [(0, 100, Stage.SERVING)]


def test_a_slot_that_is_wanted_again_is_filled_when_its_worker_has_drained(house: House) -> None:
    house.start(2)
    house.supervisor.resize(1)
    house.supervisor.resize(2)
    assert len(house.forks.pids) == 2
    house.end(101, 0)
    assert house.stages == [(0, 100, Stage.SERVING), (1, 102, Stage.STARTING)]


def test_a_slot_that_waits_for_its_next_worker_is_not_filled_once_it_is_not_wanted(house: House) -> None:
    house.start(2)
    house.end(101, 1)
    house.supervisor.resize(1)
    house.advance(60)
    assert len(house.forks.pids) == 2


class Roll:
    """An action that is over when the test says so."""

    def __init__(self, house: House) -> None:
        self.pids: list[int] = []
        self.waiting: Deferred[None] = Deferred()
        self._house = house

    async def __call__(self, channel: Channel) -> None:
        self.pids.append(next(pid for pid, known in self._house.channels.items() if known is channel))
        self.waiting = Deferred()
        await self.waiting


def test_a_roll_goes_from_worker_to_worker_and_skips_those_that_end(house: House) -> None:
    house.start(4)
    roll = Roll(house)
    done = Deferred.fromCoroutine(house.supervisor.roll(roll))
    assert roll.pids == [100]
    house.end(101, 1)
    roll.waiting.callback(None)
    assert roll.pids == [100, 102]
    house.end(102, 1)
    roll.waiting.errback(ChannelError("the channel was lost"))
    assert roll.pids == [100, 102, 103]
    roll.waiting.callback(None)
    result_of(done)


def test_a_roll_ends_with_what_is_raised_about_a_worker_that_lives_and_the_next_may_begin(
    house: House,
) -> None:
    house.start(2)
    roll, second = Roll(house), Roll(house)
    done = Deferred.fromCoroutine(house.supervisor.roll(roll))
    waits = Deferred.fromCoroutine(house.supervisor.roll(second))
    assert not second.pids
    roll.waiting.errback(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        result_of(done)
    assert second.pids == [100]
    second.waiting.callback(None)
    second.waiting.callback(None)
    result_of(waits)


def test_a_roll_waits_for_one_that_has_begun_with_what_was_known_before(house: House) -> None:
    house.start(1)
    house.supervisor.resize(2)
    roll = Roll(house)
    done = Deferred.fromCoroutine(house.supervisor.roll(roll))
    roll.waiting.callback(None)
    assert roll.pids == [100]
    house.serve(101)
    assert roll.pids == [100, 101]
    roll.waiting.callback(None)
    result_of(done)


def test_stopping_drains_all_and_replaces_nobody(house: House, lines: list[str]) -> None:
    house.start(2)
    house.end(101, 1)
    stopped = Deferred.fromCoroutine(house.supervisor.stop(30))
    assert house.drained == [100]
    house.advance(10)
    assert not stopped.called
    house.end(100, 0)
    result_of(stopped)
    assert lines == ["worker 1 (pid 101) exited: exit code 1"]
    assert not house.clock.getDelayedCalls()


@pytest.mark.parametrize("why", ["stop", "resize"])
def test_one_that_is_forked_when_nobody_wants_it_any_more_never_begins(house: House, why: str) -> None:
    house.start(1)
    house.forks.is_slow, house.forks.dies_of = True, (signal.SIGTERM, signal.SIGKILL)
    house.supervisor.resize(2)
    if why == "stop":
        stopped = Deferred.fromCoroutine(house.supervisor.stop(30))
        house.end(100, 0)
        assert not stopped.called
        house.detached.clear()
    else:
        house.supervisor.resize(1)
    house.forks.answer()
    assert house.forks.kills == [(101, signal.SIGTERM)]
    assert not house.begun
    assert not house.detached
    assert len(house.stages) == (0 if why == "stop" else 1)


def test_who_does_not_end_in_time_is_killed(house: House) -> None:
    house.start(1)
    stopped = Deferred.fromCoroutine(house.supervisor.stop(30))
    house.clock.advance(34.9)
    assert not house.forks.kills
    house.clock.advance(0.1)
    assert house.forks.kills == [(100, signal.SIGKILL)]
    result_of(stopped)


def test_a_second_stop_sets_another_limit(house: House) -> None:
    house.start(1)
    first = Deferred.fromCoroutine(house.supervisor.stop(300))
    second = Deferred.fromCoroutine(house.supervisor.stop(0))
    house.clock.advance(5)
    result_of(first)
    result_of(second)
    assert house.drained == [100]
    assert not house.clock.getDelayedCalls()


def test_without_the_fork_server_workers_go_on_and_nobody_is_replaced(house: House) -> None:
    house.start(2)
    house.end(101, 1)
    assert house.forks.on_lost is not None
    house.forks.on_lost()
    assert house.losses == 1
    house.advance(60)
    assert house.stages[0][:2] == (0, 100)
    house.end(100, 0)
    house.advance(60)
    assert len(house.forks.pids) == 2


def test_messages_reach_the_handler(house: House) -> None:
    house.start(1)
    sender, transport = open_channel(RecordingHandler(), house.clock)
    answer = sender.ask(Drain(1.0), 5)
    house.channels[100].dataReceived(transport.take())
    sender.dataReceived(house.transports[100].take())
    assert result_of(answer) == Done()
