"""Counts that two workers share agree with a plain model of limits."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import msgspec
from hypothesis import example, given
from twisted.internet.defer import Deferred, succeed

from mgw.clients.limits import LimitReached, Limits, Permit, RowState, Taken, Warnings
from mgw.clients.local_counts import LocalCounts
from mgw.identity.shared_counts import SharedCounts
from mgw.workers.counts import SupervisorCounts, SupervisorTallies
from mgw.workers.messages import AcquirePermit, AddTaken, AnyMessage, ChannelMessage, ReleasePermit
from tests.support.counting import answer_of, decision_of
from tests.support.counting_law import (
    A_NEW_PROCESS,
    LATE_END,
    LOST_HOLDS,
    RUNS_WITH_RESTARTS,
    SHARED_ROW,
    YOUNG_LIMIT,
    Now,
    Step,
    check,
    without_sets,
)
from tests.support.counting_model import Model
from tests.support.laws import examples
from tests.support.limit_stores import MortalStore

DECODER: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


def sent(message: ChannelMessage) -> ChannelMessage:
    """Return what arrives at the other end of a channel."""
    return DECODER.decode(msgspec.msgpack.encode(message))


class Channel:
    """The channel of one worker."""

    is_open = True

    def __init__(self, supervisor: SupervisorCounts, worker: int) -> None:
        self.supervisor, self.worker = supervisor, worker

    def tell(self, message: ChannelMessage) -> None:
        message = sent(message)
        if isinstance(message, AddTaken):
            self.supervisor.add_taken(message)
        else:
            assert isinstance(message, ReleasePermit)
            _ = self.supervisor.release_permit(self.worker, message)

    def ask(self, question: ChannelMessage, _: float) -> Deferred[ChannelMessage]:
        question = sent(question)
        if isinstance(question, AcquirePermit):
            answer = answer_of(self.supervisor.acquire_permit(self.worker, question))
        else:
            assert isinstance(question, ReleasePermit)
            answer = answer_of(self.supervisor.release_permit(self.worker, question))
        return succeed(sent(answer))


class Workers:
    """Two workers, and the supervisor that counts for them."""

    def __init__(self, folder: str, now: Now) -> None:
        self.store, self.now = MortalStore(f"{folder}/limits.db"), now
        self._begin()

    def restart(self) -> None:
        self.store.kill()
        self._begin()

    def _begin(self) -> None:
        seconds = self.now.seconds
        self.local = LocalCounts(seconds, self.store.open(seconds()))
        supervisor = SupervisorCounts(self.local)
        self.workers = [
            SharedCounts(SupervisorTallies(Channel(supervisor, number), 2), LocalCounts(seconds))
            for number in range(2)
        ]

    def use(self, client: str, rows: Limits) -> None:
        self.local.use(client, rows)
        for counts in self.workers:
            counts.use(client, rows)

    def begin(self, by: int, rows: Limits, held: Taken) -> Permit | LimitReached:
        return decision_of(self.workers[by].begin(rows, held))

    def end(self, by: int, permit: Permit, taken: Taken) -> Warnings:
        warnings = answer_of(self.workers[by].end(permit, taken))
        self.store.write()
        return warnings

    def add(self, by: int, rows: Limits, taken: Taken) -> None:
        self.workers[by].add(rows, taken)
        self.store.write()

    def reset(self, holder: str, amount: int) -> None:
        answer_of(self.local.reset(holder, None, amount))

    def state(self) -> list[RowState]:
        return answer_of(self.local.state())


@examples(50)
@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@example(steps=A_NEW_PROCESS)
@example(steps=LOST_HOLDS)
@example(steps=SHARED_ROW)
@given(steps=RUNS_WITH_RESTARTS)
def test_counts_of_workers_agree_with_the_model(steps: list[Step]) -> None:
    now = Now()
    with TemporaryDirectory() as folder:
        check(Workers(folder, now), Model(), now, steps)


class WorkersOfStrangers(Workers):
    """The same, where nobody knows of any client before it asks: only their tokens name them."""

    def use(self, client: str, rows: Limits) -> None:
        pass


@examples(50)
@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@example(steps=A_NEW_PROCESS)
@example(steps=SHARED_ROW)
@given(steps=RUNS_WITH_RESTARTS)
def test_clients_that_nobody_has_made_known_are_counted_like_any_other(steps: list[Step]) -> None:
    now = Now()
    with TemporaryDirectory() as folder:
        check(WorkersOfStrangers(folder, now), Model(), now, without_sets(steps))
