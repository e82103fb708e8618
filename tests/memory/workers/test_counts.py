"""Places and slots of several workers: what they ask, who has what, and what happens without an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from mgw.clients.limits import ClientCounts, LimitReached, Limits, LocalCounts, Permit
from mgw.realtime.sessions import LocalSlots
from mgw.workers.channel import ChannelError
from mgw.workers.counts import ANSWER_SECONDS, SupervisorClient, SupervisorCounts
from mgw.workers.messages import (
    AcquirePermit,
    ChannelMessage,
    FreeSlot,
    PermitDenied,
    PermitGranted,
    Ping,
    ReleasePermit,
    SlotAnswer,
    TakeSlot,
)

LIMITS = Limits(requests_per_minute=4, tokens_per_minute=100, max_in_flight=2)


@dataclass
class LateCounts:
    """Counts that answer when the test does."""

    asked: list[Deferred[Permit | LimitReached]] = field(default_factory=list)
    ended: list[tuple[int, bool]] = field(default_factory=list)
    refusals: Mapping[str, int] = field(default_factory=dict)

    def use(self, limits: Limits) -> None:
        pass

    def acquire(self, _: float) -> Deferred[Permit | LimitReached]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def release(self, _: Permit, __: float, tokens: int, *, refused: bool) -> None:
        self.ended.append((tokens, refused))


class LateSlots:
    """Slots that answer when the test does."""

    def __init__(self) -> None:
        self.asked: list[Deferred[bool]] = []
        self.freed = 0

    def use(self, max_sessions: int) -> None:
        pass

    def take(self) -> Deferred[bool]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def free(self) -> None:
        self.freed += 1


class Wire:
    """The channel of one worker, and what answers at its other end, unless that hangs."""

    def __init__(self, supervisor: SupervisorCounts, worker: str, clock: Clock) -> None:
        self.supervisor, self.worker, self.clock = supervisor, worker, clock
        self.hangs = self.is_lost = False
        self.held: list[ChannelMessage] = []
        """What has come while it hung."""
        self.said: list[ChannelMessage] = []

    def tell(self, message: ChannelMessage) -> None:
        self.said.append(message)
        self._take(message)

    def ask(self, question: ChannelMessage, seconds: float) -> Deferred[ChannelMessage]:
        self.said.append(question)
        if self.is_lost:
            return fail(ChannelError("lost"))
        answer: Deferred[ChannelMessage] = Deferred()
        limit = self.clock.callLater(seconds, lambda: answer.errback(ChannelError("no answer")))
        found = self._take(question)
        if found is not None:
            limit.cancel()
            answer.callback(found)
        return answer

    def wake(self) -> None:
        """Go on, with what has come meanwhile; its answers are too late."""
        self.hangs = False
        held, self.held = self.held, []
        for message in held:
            self._take(message)

    def _take(self, message: ChannelMessage) -> ChannelMessage | None:
        if self.hangs:
            self.held.append(message)
            return None
        match message:
            case AcquirePermit():
                found = self.supervisor.acquire_permit(self.worker, message)
            case TakeSlot():
                found = self.supervisor.take_slot(self.worker, message)
            case ReleasePermit():
                self.supervisor.release_permit(self.worker, message)
                return None
            case FreeSlot():
                self.supervisor.free_slot(self.worker, message)
                return None
            case Ping():
                return SlotAnswer(True)
            case _:
                raise AssertionError(message)
        assert isinstance(found, ChannelMessage)
        return found


class Fleet:
    """Two workers, and what they share."""

    def __init__(self, limits: Limits = LIMITS, max_sessions: int = 3) -> None:
        self.clock = Clock()
        self.local, self.slots = LocalCounts(limits), LocalSlots(max_sessions)
        self.supervisor = SupervisorCounts({"alice": self.local}.get, self.slots, self.clock)
        self.wires = [Wire(self.supervisor, name, self.clock) for name in ("a", "b")]
        self.workers = [SupervisorClient(wire, self.clock, 2) for wire in self.wires]
        self.counts = [worker.counts("alice", limits) for worker in self.workers]
        self.remote_slots = [worker.slots() for worker in self.workers]
        for slots in self.remote_slots:
            slots.use(max_sessions)

    def acquire(self, worker: int = 0) -> Permit | LimitReached:
        found: Permit | LimitReached = result(self.counts[worker].acquire(self.clock.seconds()))
        return found

    def permit(self, worker: int = 0) -> Permit:
        found = self.acquire(worker)
        assert isinstance(found, Permit)
        return found

    def release(self, permit: Permit, worker: int = 0, tokens: int = 0, *, refused: bool = False) -> None:
        self.counts[worker].release(permit, self.clock.seconds(), tokens, refused=refused)


def result(found: object) -> Any:  # Any: what was asked for
    """Return what was found, or what a Deferred has fired with."""
    if not isinstance(found, Deferred):
        return found
    results: list[Any] = []
    _ = found.addCallback(results.append)
    (one,) = results
    return one


def test_workers_have_one_limit() -> None:
    fleet = Fleet()
    first, second = fleet.permit(0), fleet.permit(1)
    assert fleet.acquire(0) == fleet.acquire(1) == LimitReached("max_in_flight", 2, 1.0)
    fleet.release(first, 0)
    fleet.release(fleet.permit(1), 1)
    fleet.release(second, 1)
    assert fleet.local.in_flight == 0
    assert fleet.local.refusals["max_in_flight"] == 2
    assert not fleet.counts[0].refusals.get("max_in_flight")


def test_tokens_and_refusals_are_told() -> None:
    fleet = Fleet()
    for _ in range(6):  # more than four in a minute
        fleet.release(fleet.permit(), refused=True)
    fleet.release(fleet.permit(), tokens=100)
    found = fleet.acquire(1)
    assert isinstance(found, LimitReached)
    assert found.limit == "tokens_per_minute"


def test_a_key_that_is_not_known_is_not_limited() -> None:
    fleet = Fleet()
    other = fleet.workers[0].counts("bob", LIMITS)
    permits = [result(other.acquire(0.0)) for _ in range(9)]
    for permit in permits:
        assert isinstance(permit, Permit)
        other.release(permit, 0.0, 5, refused=False)
    assert fleet.local.in_flight == 0


def test_what_a_dead_worker_had_is_free() -> None:
    fleet = Fleet()
    fleet.permit(0)
    kept = fleet.permit(1)
    assert [result(fleet.remote_slots[worker].take()) for worker in (0, 0, 1, 1)] == [True, True, True, False]
    fleet.supervisor.forget("a")
    fleet.supervisor.forget("a")
    assert (fleet.local.in_flight, fleet.slots.taken) == (1, 1)
    fleet.supervisor.release_permit("a", ReleasePermit(1, 50, refused=False))
    fleet.supervisor.free_slot("a", FreeSlot(2))
    fleet.release(kept, 1)
    fleet.remote_slots[1].free()
    assert (fleet.local.in_flight, fleet.slots.taken) == (0, 0)


def test_two_workers_may_use_the_same_numbers() -> None:
    fleet = Fleet()
    assert fleet.supervisor.acquire_permit("a", AcquirePermit("alice", 1)) == PermitGranted(1)
    assert fleet.supervisor.acquire_permit("b", AcquirePermit("alice", 1)) == PermitGranted(1)
    fleet.supervisor.release_permit("a", ReleasePermit(1, 0, refused=False))
    fleet.supervisor.release_permit("a", ReleasePermit(1, 0, refused=False))
    assert fleet.local.in_flight == 1


def test_who_gets_no_answer_counts_by_itself_and_gives_back_what_comes_later() -> None:
    fleet = Fleet()
    wire, counts = fleet.wires[0], fleet.counts[0]
    wire.hangs = True
    waiting = counts.acquire(0.0)
    assert isinstance(waiting, Deferred)
    assert not waiting.called
    fleet.clock.advance(ANSWER_SECONDS)
    permit = result(waiting)
    assert isinstance(permit, Permit)
    reached = counts.acquire(fleet.clock.seconds())  # at once, and half of two
    assert reached == LimitReached("max_in_flight", 1, 1.0)
    fleet.release(permit)
    assert counts.refusals["max_in_flight"] == 1
    wire.wake()
    assert fleet.local.in_flight == 0  # it has had the question, and that nobody wants the answer
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.release(fleet.permit())  # asks whether it answers
    assert fleet.workers[0].answers
    for _ in range(2):
        fleet.permit()
    assert fleet.local.in_flight == 2


def test_while_there_is_no_answer_one_question_is_open_at_most() -> None:
    fleet = Fleet(Limits(max_in_flight=100))
    wire = fleet.wires[0]
    wire.hangs = True
    waiting = fleet.counts[0].acquire(0.0)
    fleet.clock.advance(ANSWER_SECONDS)
    result(waiting)
    for _ in range(20):
        fleet.permit()
    assert [message for message in wire.said if isinstance(message, Ping)] == [Ping()]
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.permit()
    assert wire.said.count(Ping()) == 2


def test_without_a_channel_each_worker_has_its_share() -> None:
    fleet = Fleet(Limits(requests_per_minute=5, tokens_per_minute=1, max_in_flight=None))
    fleet.wires[0].is_lost = True
    assert [isinstance(fleet.acquire(), Permit) for _ in range(3)] == [True, True, False]
    fleet.counts[0].use(Limits(requests_per_minute=6))
    assert [isinstance(fleet.acquire(), Permit) for _ in range(2)] == [True, False]
    fleet.workers[0].workers = 3
    fleet.counts[0].use(Limits(requests_per_minute=12))
    assert [isinstance(fleet.acquire(), Permit) for _ in range(2)] == [True, False]
    assert fleet.workers[0].share_of(2) == 1
    assert fleet.workers[0].share_of(0) == 0


def test_slots_without_an_answer_are_this_workers_share_with_those_that_it_has() -> None:
    fleet = Fleet(max_sessions=6)
    wire, slots = fleet.wires[0], fleet.remote_slots[0]
    assert [result(slots.take()) for _ in range(2)] == [True, True]
    wire.hangs = True
    waiting = slots.take()
    assert isinstance(waiting, Deferred)
    fleet.clock.advance(ANSWER_SECONDS)
    assert result(waiting) is True
    assert slots.take() is False  # three are its share
    slots.free()
    assert FreeSlot(1) not in wire.said
    assert slots.take() is True
    slots.free()
    wire.wake()
    assert fleet.slots.taken == 2
    slots.free()
    slots.free()
    assert fleet.slots.taken == 0


# Where the answer comes from elsewhere still


@pytest.fixture
def late() -> tuple[SupervisorCounts, LateCounts, LateSlots]:
    counts, slots = LateCounts(), LateSlots()
    found: dict[str, ClientCounts] = {"alice": counts}
    return SupervisorCounts(found.get, slots, Clock()), counts, slots


Late = tuple[SupervisorCounts, LateCounts, LateSlots]


def asked(answer: ChannelMessage | Deferred[ChannelMessage]) -> list[object]:
    assert isinstance(answer, Deferred)
    results: list[object] = []
    _ = answer.addBoth(results.append)
    return results


def test_a_late_permit_is_answered_and_given_back_once(late: Late) -> None:
    supervisor, counts, _ = late
    answers = asked(supervisor.acquire_permit("a", AcquirePermit("alice", 1)))
    assert not answers
    counts.asked[0].callback(Permit())
    assert answers == [PermitGranted(1)]
    for _ in range(2):
        supervisor.release_permit("a", ReleasePermit(1, 9, refused=False))
    supervisor.forget("a")
    assert counts.ended == [(9, False)]


def test_a_late_limit_holds_nothing(late: Late) -> None:
    supervisor, counts, slots = late
    answers = asked(supervisor.acquire_permit("a", AcquirePermit("alice", 1)))
    counts.asked[0].callback(LimitReached("max_in_flight", 1, 1.0))
    assert answers == [PermitDenied("max_in_flight", 1, 1.0)]
    answers = asked(supervisor.take_slot("a", TakeSlot(2)))
    slots.asked[0].callback(False)
    assert answers == [SlotAnswer(False)]
    supervisor.forget("a")
    assert (counts.ended, slots.freed) == ([], 0)


@pytest.mark.parametrize("dies", [True, False])
def test_what_is_wanted_no_more_is_given_back_when_it_comes(late: Late, dies: bool) -> None:
    supervisor, counts, slots = late
    permit, slot = (
        supervisor.acquire_permit("a", AcquirePermit("alice", 1)),
        supervisor.take_slot("a", TakeSlot(2)),
    )
    if dies:
        supervisor.forget("a")
        for answer in (permit, slot):  # as the channel does
            assert isinstance(answer, Deferred)
            _ = answer.addErrback(lambda _: None)
            answer.cancel()
    else:
        supervisor.release_permit("a", ReleasePermit(1, 0, refused=True))
        supervisor.free_slot("a", FreeSlot(2))
    assert (counts.ended, slots.freed) == ([], 0)
    counts.asked[0].callback(Permit())
    slots.asked[0].callback(True)
    assert (counts.ended, slots.freed) == ([(0, not dies)], 1)
    supervisor.forget("a")
    assert (counts.ended, slots.freed) == ([(0, not dies)], 1)


def test_counts_that_fail_hold_nothing(late: Late) -> None:
    supervisor, counts, _ = late
    (failure,) = [asked(supervisor.acquire_permit("a", AcquirePermit("alice", 1)))]
    counts.asked[0].errback(ValueError("broken"))
    assert len(failure) == 1
    supervisor.forget("a")
    assert not counts.ended
