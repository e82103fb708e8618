"""Places and slots of several workers: what they ask, who has what, and what happens without an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from mgw.clients.limits import ClientCounts, Limits, LocalCounts, Place, Shortage
from mgw.realtime.sessions import LocalSlots
from mgw.workers.channel import ChannelError
from mgw.workers.counts import ANSWER_SECONDS, Hub, HubCounts
from mgw.workers.messages import (
    ChannelMessage,
    FreeSlot,
    LeavePlace,
    LimitReached,
    Ping,
    Placed,
    SlotAnswer,
    TakePlace,
    TakeSlot,
)

LIMITS = Limits(requests_per_minute=4, tokens_per_minute=100, max_in_flight=2)


@dataclass
class LateCounts:
    """Counts that answer when the test does."""

    asked: list[Deferred[Place | Shortage]] = field(default_factory=list)
    ended: list[tuple[int, bool]] = field(default_factory=list)
    shortages: Mapping[str, int] = field(default_factory=dict)

    def use(self, limits: Limits) -> None:
        pass

    def begin(self, _: float) -> Deferred[Place | Shortage]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def end(self, _: Place, __: float, tokens: int, *, refused: bool) -> None:
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

    def __init__(self, hub: HubCounts, worker: str, clock: Clock) -> None:
        self.hub, self.worker, self.clock = hub, worker, clock
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
            case TakePlace():
                found = self.hub.take_place(self.worker, message)
            case TakeSlot():
                found = self.hub.take_slot(self.worker, message)
            case LeavePlace():
                self.hub.leave_place(self.worker, message)
                return None
            case FreeSlot():
                self.hub.free_slot(self.worker, message)
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
        self.hub = HubCounts({"alice": self.local}.get, self.slots, self.clock)
        self.wires = [Wire(self.hub, name, self.clock) for name in ("a", "b")]
        self.workers = [Hub(wire, self.clock, 2) for wire in self.wires]
        self.counts = [worker.counts("alice", limits) for worker in self.workers]
        self.remote_slots = [worker.slots() for worker in self.workers]
        for slots in self.remote_slots:
            slots.use(max_sessions)

    def begin(self, worker: int = 0) -> Place | Shortage:
        found: Place | Shortage = result(self.counts[worker].begin(self.clock.seconds()))
        return found

    def place(self, worker: int = 0) -> Place:
        found = self.begin(worker)
        assert isinstance(found, Place)
        return found

    def end(self, place: Place, worker: int = 0, tokens: int = 0, *, refused: bool = False) -> None:
        self.counts[worker].end(place, self.clock.seconds(), tokens, refused=refused)


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
    first, second = fleet.place(0), fleet.place(1)
    assert fleet.begin(0) == fleet.begin(1) == Shortage("max_in_flight", 2, 1.0)
    fleet.end(first, 0)
    fleet.end(fleet.place(1), 1)
    fleet.end(second, 1)
    assert fleet.local.in_flight == 0
    assert fleet.local.shortages["max_in_flight"] == 2
    assert not fleet.counts[0].shortages.get("max_in_flight")


def test_tokens_and_refusals_are_told() -> None:
    fleet = Fleet()
    for _ in range(6):  # more than four in a minute
        fleet.end(fleet.place(), refused=True)
    fleet.end(fleet.place(), tokens=100)
    found = fleet.begin(1)
    assert isinstance(found, Shortage)
    assert found.limit == "tokens_per_minute"


def test_a_key_that_is_not_known_is_not_limited() -> None:
    fleet = Fleet()
    other = fleet.workers[0].counts("bob", LIMITS)
    places = [result(other.begin(0.0)) for _ in range(9)]
    for place in places:
        assert isinstance(place, Place)
        other.end(place, 0.0, 5, refused=False)
    assert fleet.local.in_flight == 0


def test_what_a_dead_worker_had_is_free() -> None:
    fleet = Fleet()
    fleet.place(0)
    kept = fleet.place(1)
    assert [result(fleet.remote_slots[worker].take()) for worker in (0, 0, 1, 1)] == [True, True, True, False]
    fleet.hub.forget("a")
    fleet.hub.forget("a")
    assert (fleet.local.in_flight, fleet.slots.taken) == (1, 1)
    fleet.hub.leave_place("a", LeavePlace(1, 50, refused=False))
    fleet.hub.free_slot("a", FreeSlot(2))
    fleet.end(kept, 1)
    fleet.remote_slots[1].free()
    assert (fleet.local.in_flight, fleet.slots.taken) == (0, 0)


def test_two_workers_may_use_the_same_numbers() -> None:
    fleet = Fleet()
    assert fleet.hub.take_place("a", TakePlace("alice", 1)) == Placed(1)
    assert fleet.hub.take_place("b", TakePlace("alice", 1)) == Placed(1)
    fleet.hub.leave_place("a", LeavePlace(1, 0, refused=False))
    fleet.hub.leave_place("a", LeavePlace(1, 0, refused=False))
    assert fleet.local.in_flight == 1


def test_who_gets_no_answer_counts_by_itself_and_gives_back_what_comes_later() -> None:
    fleet = Fleet()
    wire, counts = fleet.wires[0], fleet.counts[0]
    wire.hangs = True
    waiting = counts.begin(0.0)
    assert isinstance(waiting, Deferred)
    assert not waiting.called
    fleet.clock.advance(ANSWER_SECONDS)
    place = result(waiting)
    assert isinstance(place, Place)
    shortage = counts.begin(fleet.clock.seconds())  # at once, and half of two
    assert shortage == Shortage("max_in_flight", 1, 1.0)
    fleet.end(place)
    assert counts.shortages["max_in_flight"] == 1
    wire.wake()
    assert fleet.local.in_flight == 0  # it has had the question, and that nobody wants the answer
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.end(fleet.place())  # asks whether it answers
    assert fleet.workers[0].answers
    for _ in range(2):
        fleet.place()
    assert fleet.local.in_flight == 2


def test_while_there_is_no_answer_one_question_is_open_at_most() -> None:
    fleet = Fleet(Limits(max_in_flight=100))
    wire = fleet.wires[0]
    wire.hangs = True
    waiting = fleet.counts[0].begin(0.0)
    fleet.clock.advance(ANSWER_SECONDS)
    result(waiting)
    for _ in range(20):
        fleet.place()
    assert [message for message in wire.said if isinstance(message, Ping)] == [Ping()]
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.place()
    assert wire.said.count(Ping()) == 2


def test_without_a_channel_each_worker_has_its_share() -> None:
    fleet = Fleet(Limits(requests_per_minute=5, tokens_per_minute=1, max_in_flight=None))
    fleet.wires[0].is_lost = True
    assert [isinstance(fleet.begin(), Place) for _ in range(3)] == [True, True, False]
    fleet.counts[0].use(Limits(requests_per_minute=6))
    assert [isinstance(fleet.begin(), Place) for _ in range(2)] == [True, False]
    fleet.workers[0].workers = 3
    fleet.counts[0].use(Limits(requests_per_minute=12))
    assert [isinstance(fleet.begin(), Place) for _ in range(2)] == [True, False]
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
def late() -> tuple[HubCounts, LateCounts, LateSlots]:
    counts, slots = LateCounts(), LateSlots()
    found: dict[str, ClientCounts] = {"alice": counts}
    return HubCounts(found.get, slots, Clock()), counts, slots


Late = tuple[HubCounts, LateCounts, LateSlots]


def asked(answer: ChannelMessage | Deferred[ChannelMessage]) -> list[object]:
    assert isinstance(answer, Deferred)
    results: list[object] = []
    _ = answer.addBoth(results.append)
    return results


def test_a_late_place_is_answered_and_given_back_once(late: Late) -> None:
    hub, counts, _ = late
    answers = asked(hub.take_place("a", TakePlace("alice", 1)))
    assert not answers
    counts.asked[0].callback(Place())
    assert answers == [Placed(1)]
    for _ in range(2):
        hub.leave_place("a", LeavePlace(1, 9, refused=False))
    hub.forget("a")
    assert counts.ended == [(9, False)]


def test_a_late_limit_holds_nothing(late: Late) -> None:
    hub, counts, slots = late
    answers = asked(hub.take_place("a", TakePlace("alice", 1)))
    counts.asked[0].callback(Shortage("max_in_flight", 1, 1.0))
    assert answers == [LimitReached("max_in_flight", 1, 1.0)]
    answers = asked(hub.take_slot("a", TakeSlot(2)))
    slots.asked[0].callback(False)
    assert answers == [SlotAnswer(False)]
    hub.forget("a")
    assert (counts.ended, slots.freed) == ([], 0)


@pytest.mark.parametrize("dies", [True, False])
def test_what_is_wanted_no_more_is_given_back_when_it_comes(late: Late, dies: bool) -> None:
    hub, counts, slots = late
    place, slot = hub.take_place("a", TakePlace("alice", 1)), hub.take_slot("a", TakeSlot(2))
    if dies:
        hub.forget("a")
        for answer in (place, slot):  # as the channel does
            assert isinstance(answer, Deferred)
            _ = answer.addErrback(lambda _: None)
            answer.cancel()
    else:
        hub.leave_place("a", LeavePlace(1, 0, refused=True))
        hub.free_slot("a", FreeSlot(2))
    assert (counts.ended, slots.freed) == ([], 0)
    counts.asked[0].callback(Place())
    slots.asked[0].callback(True)
    assert (counts.ended, slots.freed) == ([(0, not dies)], 1)
    hub.forget("a")
    assert (counts.ended, slots.freed) == ([(0, not dies)], 1)


def test_counts_that_fail_hold_nothing(late: Late) -> None:
    hub, counts, _ = late
    (failure,) = [asked(hub.take_place("a", TakePlace("alice", 1)))]
    counts.asked[0].errback(ValueError("broken"))
    assert len(failure) == 1
    hub.forget("a")
    assert not counts.ended
