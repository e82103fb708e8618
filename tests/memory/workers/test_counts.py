"""Limits and sessions of several workers: what they ask, who has what, and what happens without an answer."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.clients.limits import (
    NOTHING,
    ONE_REQUEST,
    Allowance,
    LimitReached,
    Limits,
    Permit,
    Taken,
    Warnings,
    limits_of,
)
from mgw.clients.local_counts import LocalCounts
from mgw.identity.shared_counts import SharedCounts
from mgw.nouns.errors import Reason
from mgw.realtime.sessions import SESSIONS
from mgw.workers.channel import ChannelError
from mgw.workers.counts import ANSWER_SECONDS, SupervisorCounts, SupervisorTallies
from mgw.workers.messages import (
    AcquirePermit,
    AddTaken,
    ChannelMessage,
    Done,
    Failed,
    PermitDenied,
    PermitGranted,
    Ping,
    ReleasePermit,
)
from tests.support.counting import HOLDER, LateCounts, limits, reached
from tests.support.counting_law import BUDGET
from tests.support.deferreds import refusal_of

DONE = Taken()
LIMITS = limits(requests_per_minute=4, tokens_per_minute=100, max_in_flight=2)


class Wire:
    """The channel of one worker, and what answers at its other end, unless that hangs."""

    def __init__(self, supervisor: SupervisorCounts, worker: str, clock: Clock) -> None:
        self.supervisor, self.worker, self.clock = supervisor, worker, clock
        self.hangs = self.is_lost = False
        self.held: list[ChannelMessage] = []
        """What has come while it hung."""
        self.said: list[ChannelMessage] = []

    @property
    def is_open(self) -> bool:
        return not self.is_lost

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
            case ReleasePermit():
                found = self.supervisor.release_permit(self.worker, message)
            case AddTaken():
                self.supervisor.add_taken(message)
                return None
            case Ping():
                return Done()
            case _:
                raise AssertionError(message)
        assert isinstance(found, ChannelMessage)
        return found


class Fleet:
    """Two workers, and the supervisor that counts for them."""

    def __init__(self, limits: Limits = LIMITS, holder: str = HOLDER) -> None:
        self.clock, self.limits, self.holder = Clock(), limits, holder
        self.local = LocalCounts(self.clock.seconds)
        self.supervisor = SupervisorCounts(self.local)
        self.wires = [Wire(self.supervisor, name, self.clock) for name in ("a", "b")]
        self.tallies = [SupervisorTallies(wire, 2) for wire in self.wires]
        self.counts = [SharedCounts(tallies, LocalCounts(self.clock.seconds)) for tallies in self.tallies]
        self.use(limits)

    def use(self, limits: Limits) -> None:
        """Have all know other limits, as a reload does."""
        self.limits = limits
        self.local.use(self.holder, limits)
        for counts in self.counts:
            counts.use(self.holder, limits)

    @property
    def in_flight(self) -> int:
        """How many requests are under way, as the supervisor knows it."""
        return self.local.in_flight(self.holder)

    def begin(self, worker: int = 0) -> Permit | LimitReached | Deferred[Permit | LimitReached]:
        return self.counts[worker].begin(self.limits, ONE_REQUEST)

    def acquire(self, worker: int = 0) -> Permit | LimitReached:
        found: Permit | LimitReached = result(self.begin(worker))
        return found

    def permit(self, worker: int = 0) -> Permit:
        found = self.acquire(worker)
        assert isinstance(found, Permit)
        return found

    def release(self, permit: Permit, worker: int = 0, taken: Taken = DONE) -> None:
        self.counts[worker].end(permit, taken)


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
    assert fleet.acquire(0) == fleet.acquire(1) == reached("max_in_flight", 2, 1.0)
    fleet.release(first, 0)
    fleet.release(fleet.permit(1), 1)
    fleet.release(second, 1)
    assert fleet.in_flight == 0
    assert fleet.local.refusals()[HOLDER, "max_in_flight"] == 2
    assert not fleet.counts[0].refusals()[HOLDER, "max_in_flight"]


def test_tokens_and_refusals_are_told() -> None:
    fleet = Fleet()
    for _ in range(6):  # more than four in a minute
        fleet.release(fleet.permit(), taken=NOTHING)
    fleet.release(fleet.permit(), taken=Taken(tokens=100))
    found = fleet.acquire(1)
    assert isinstance(found, LimitReached)
    assert found.limit.name == "tokens_per_minute"


def test_a_client_that_the_supervisor_does_not_know_is_limited_all_the_same() -> None:
    fleet = Fleet()
    fleet.local.use(HOLDER, ())  # its configuration has changed, and the workers' is about to
    permits = [fleet.permit(0), fleet.permit(1)]
    assert fleet.acquire(0) == reached("max_in_flight", 2, 1.0)
    for worker, permit in enumerate(permits):
        fleet.release(permit, worker)
    assert fleet.in_flight == 0


def test_limits_that_change_back_and_forth_leave_what_was_counted() -> None:
    fleet = Fleet(limits(requests_per_minute=2))
    other = limits(max_in_flight=9)
    for _ in range(2):
        fleet.release(fleet.permit(0), 0)
        permit = result(fleet.counts[1].begin(other, ONE_REQUEST))  # a worker that was reloaded earlier
        fleet.release(permit, 1)
    assert fleet.acquire(0) == reached("requests_per_minute", 2, 60.0)


def test_a_question_without_limits_is_no_free_pass() -> None:
    fleet = Fleet()
    answer = fleet.supervisor.acquire_permit("a", AcquirePermit((), ONE_REQUEST, 1))
    assert isinstance(answer, Failed)


def test_what_a_dead_worker_had_is_free() -> None:
    fleet = Fleet()
    fleet.permit(0)
    kept = fleet.permit(1)
    fleet.supervisor.forget("a")
    fleet.supervisor.forget("a")
    assert fleet.in_flight == 1
    fleet.supervisor.release_permit("a", ReleasePermit(1, Taken(tokens=50)))
    fleet.release(kept, 1)
    assert fleet.in_flight == 0


def test_what_requests_of_a_dead_worker_held_counts_in_full() -> None:
    row = Allowance(BUDGET, 10, "gateway", is_reserved=True)
    fleet = Fleet((row, *limits(max_in_flight=9)))
    for number in range(3):
        found = result(fleet.counts[0].begin(fleet.limits, Taken(1, 0, 2 + number)))
        assert isinstance(found, Permit)
    fleet.permit(1)
    with capturedLogs() as events:
        fleet.supervisor.forget("a")
    assert [(state.used, state.reserved) for state in result(fleet.local.state())] == [(9, 0)]
    assert fleet.in_flight == 1
    (said,) = events
    assert (said["requests"], said["nanodollars"]) == (3, 9)
    fleet.supervisor.forget("b")


def test_a_release_is_asked_where_a_row_can_warn_and_told_elsewhere() -> None:
    fleet = Fleet(limits(requests_per_minute=5))
    assert fleet.counts[0].end(fleet.permit(0), DONE) == ()
    rows = (Allowance(BUDGET, 10, "gateway"),)
    fleet.use(rows)
    for amount, expected in ((9, ()), (1, ("gateway usd_per_day 1",)), (1, ())):
        permit = result(fleet.counts[0].begin(rows, ONE_REQUEST)) if expected or amount == 9 else None
        if permit is None:
            assert isinstance(fleet.acquire(0), LimitReached)
            continue
        assert result(fleet.counts[0].end(permit, Taken(nanodollars=amount))) == expected


def test_a_release_without_an_answer_has_no_warnings() -> None:
    fleet = Fleet((Allowance(BUDGET, 1, "gateway"),))
    permit = fleet.permit(0)
    fleet.wires[0].hangs = True
    warnings = fleet.counts[0].end(permit, Taken(nanodollars=1))
    fleet.clock.advance(ANSWER_SECONDS)
    assert result(warnings) == ()
    fleet.wires[0].wake()
    assert isinstance(fleet.acquire(1), LimitReached), "but it was counted"


def test_sessions_are_counted_for_all_workers() -> None:
    fleet = Fleet(limits_of(SESSIONS, {"max_sessions": 3}), SESSIONS)
    assert [isinstance(fleet.acquire(worker), Permit) for worker in (0, 0, 1, 1)] == [True, True, True, False]
    fleet.supervisor.forget("a")
    assert fleet.in_flight == 1


def test_two_workers_may_use_the_same_numbers() -> None:
    fleet = Fleet()
    for worker in ("a", "b"):
        question = AcquirePermit(LIMITS, ONE_REQUEST, 1)
        assert fleet.supervisor.acquire_permit(worker, question) == PermitGranted(1)
    fleet.supervisor.release_permit("a", ReleasePermit(1, Taken()))
    fleet.supervisor.release_permit("a", ReleasePermit(1, Taken()))
    assert fleet.in_flight == 1


def test_who_gets_no_answer_counts_by_itself_and_gives_back_what_comes_later() -> None:
    fleet = Fleet()
    wire, counts = fleet.wires[0], fleet.counts[0]
    wire.hangs = True
    waiting = fleet.begin()
    assert isinstance(waiting, Deferred)
    assert not waiting.called
    fleet.clock.advance(ANSWER_SECONDS)
    permit = result(waiting)
    assert isinstance(permit, Permit)
    found = fleet.begin()  # at once, and half of two
    assert found == reached("max_in_flight", 2, 1.0)
    fleet.release(permit)
    assert counts.refusals()[HOLDER, "max_in_flight"] == 1
    wire.wake()
    assert fleet.in_flight == 0  # it has had the question, and that nobody wants the answer
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.release(fleet.permit())  # asks whether it answers
    assert fleet.tallies[0].answers
    for _ in range(2):
        fleet.permit()
    assert fleet.in_flight == 2


def test_while_there_is_no_answer_one_question_is_open_at_most() -> None:
    fleet = Fleet(limits(max_in_flight=100))
    wire = fleet.wires[0]
    wire.hangs = True
    waiting = fleet.begin()
    fleet.clock.advance(ANSWER_SECONDS)
    result(waiting)
    for _ in range(20):
        fleet.permit()
    assert [message for message in wire.said if isinstance(message, Ping)] == [Ping()]
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.permit()
    assert wire.said.count(Ping()) == 2


def test_without_an_answer_each_worker_has_its_share() -> None:
    fleet = Fleet(limits(requests_per_minute=5, tokens_per_minute=1))
    fleet.wires[0].hangs, fleet.tallies[0].answers = True, False
    assert [isinstance(fleet.acquire(), Permit) for _ in range(3)] == [True, True, False]
    fleet.use(limits(requests_per_minute=6))
    assert [isinstance(fleet.acquire(), Permit) for _ in range(2)] == [True, False]
    fleet.tallies[0].parts = 3
    fleet.use(limits(requests_per_minute=12))
    assert [isinstance(fleet.acquire(), Permit) for _ in range(2)] == [True, False]


def test_nothing_begins_that_nobody_would_ever_count() -> None:
    fleet = Fleet()
    wire = fleet.wires[0]
    wire.hangs = True
    waiting = fleet.begin()
    assert isinstance(waiting, Deferred)
    wire.is_lost = True
    fleet.clock.advance(ANSWER_SECONDS)
    later = fleet.begin()
    assert isinstance(later, Deferred)
    assert [refusal_of(one).reason for one in (waiting, later)] == [Reason.DRAINING] * 2


def test_without_an_answer_a_worker_keeps_to_its_share_with_what_it_has_under_way() -> None:
    fleet = Fleet(limits_of(SESSIONS, {"max_sessions": 6}), SESSIONS)
    wire = fleet.wires[0]
    first, second = fleet.permit(), fleet.permit()
    wire.hangs = True
    waiting = fleet.begin()
    fleet.clock.advance(ANSWER_SECONDS)
    third = result(waiting)
    assert isinstance(third, Permit)
    assert isinstance(fleet.begin(), LimitReached)  # three are its share
    told = len(wire.said)
    fleet.release(third)
    assert not [message for message in wire.said[told:] if isinstance(message, ReleasePermit)]
    fourth = fleet.begin()
    assert isinstance(fourth, Permit)
    fleet.release(fourth)
    wire.wake()
    assert fleet.in_flight == 2
    fleet.release(first)
    fleet.release(second)
    assert fleet.in_flight == 0


def test_what_a_worker_has_admitted_alone_counts_for_all_once_it_has_ended() -> None:
    fleet = Fleet((Allowance(BUDGET, 10, HOLDER),))
    wire = fleet.wires[0]
    wire.hangs = True
    waiting = fleet.begin()
    fleet.clock.advance(ANSWER_SECONDS)
    fleet.release(result(waiting), taken=Taken(nanodollars=10))
    wire.wake()
    found = fleet.acquire(1)
    assert isinstance(found, LimitReached)
    assert found.limit == BUDGET
    assert fleet.in_flight == 0


# Where the answer comes from elsewhere still


@pytest.fixture
def late() -> tuple[SupervisorCounts, LateCounts]:
    counts = LateCounts()
    return SupervisorCounts(counts), counts


Late = tuple[SupervisorCounts, LateCounts]


def asked(answer: ChannelMessage | Deferred[ChannelMessage]) -> list[object]:
    assert isinstance(answer, Deferred)
    results: list[object] = []
    _ = answer.addBoth(results.append)
    return results


def test_a_late_permit_is_answered_and_given_back_once(late: Late) -> None:
    supervisor, counts = late
    answers = asked(supervisor.acquire_permit("a", AcquirePermit(LIMITS, ONE_REQUEST, 1)))
    assert not answers
    permit = Permit()
    counts.asked[0].callback(permit)
    assert answers == [PermitGranted(1)]
    for _ in range(2):
        supervisor.release_permit("a", ReleasePermit(1, Taken(1, 9, 8)))
    supervisor.forget("a")
    assert counts.ended == [(permit, Taken(1, 9, 8))]


def test_a_late_limit_holds_nothing(late: Late) -> None:
    supervisor, counts = late
    answers = asked(supervisor.acquire_permit("a", AcquirePermit(LIMITS, ONE_REQUEST, 1)))
    counts.asked[0].callback(reached("max_in_flight", 1, 1.0))
    assert answers == [PermitDenied(reached("max_in_flight", 1, 1.0))]
    supervisor.forget("a")
    assert counts.ended == []


@pytest.mark.parametrize("dies", [True, False])
def test_what_is_wanted_no_more_is_given_back_when_it_comes(late: Late, dies: bool) -> None:
    supervisor, counts = late
    answer = supervisor.acquire_permit("a", AcquirePermit(LIMITS, Taken(1, 5, 5), 1))
    if dies:
        with capturedLogs() as events:
            supervisor.forget("a")
        assert not events
        assert isinstance(answer, Deferred)
        _ = answer.addErrback(lambda _: None)
        answer.cancel()  # as the channel does
    else:
        supervisor.release_permit("a", ReleasePermit(1, NOTHING))
    assert counts.ended == []
    permit = Permit()
    counts.asked[0].callback(permit)
    assert counts.ended == [(permit, NOTHING)], "it has not gone out"
    supervisor.forget("a")
    assert counts.ended == [(permit, NOTHING)]


def test_counts_that_fail_hold_nothing(late: Late) -> None:
    supervisor, counts = late
    failure = asked(supervisor.acquire_permit("a", AcquirePermit(LIMITS, ONE_REQUEST, 1)))
    counts.asked[0].errback(ValueError("broken"))
    assert len(failure) == 1
    supervisor.forget("a")
    assert not counts.ended


def test_the_end_of_a_request_is_counted_though_its_worker_is_gone() -> None:
    ends: list[Deferred[Warnings]] = []

    class Elsewhere(LateCounts):
        def end(self, permit: Permit, taken: Taken) -> Any:  # Any: as counts of other processes answer
            super().end(permit, taken)
            ends.append(Deferred())
            return ends[-1]

    supervisor = SupervisorCounts(Elsewhere(ready=Permit()))
    _ = asked(supervisor.acquire_permit("a", AcquirePermit(LIMITS, ONE_REQUEST, 1)))
    answer = supervisor.release_permit("a", ReleasePermit(1, DONE))
    left = asked(answer)
    assert isinstance(answer, Deferred)
    answer.cancel()  # as the channel does
    assert len(left) == 1
    counted: list[object] = []
    _ = ends[0].addBoth(counted.append)
    assert not counted, "what counts has not been cancelled"
    ends[0].callback(())
