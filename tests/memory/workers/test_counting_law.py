"""Counts that two workers share agree with a plain model of limits."""

from __future__ import annotations

from tempfile import TemporaryDirectory

import msgspec
from hypothesis import example, given
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from mgw.clients.limits import ONE_REQUEST, LimitReached, Limits, Permit, Taken
from mgw.clients.local_counts import LocalCounts
from mgw.identity.limit_store import LimitStore
from mgw.identity.shared_counts import SharedCounts
from mgw.workers.counts import SupervisorCounts, SupervisorTallies
from mgw.workers.messages import AcquirePermit, AnyMessage, ChannelMessage, ReleasePermit
from tests.support.counting import HOLDER
from tests.support.counting_law import (
    A_NEW_PROCESS,
    LATE_END,
    RUNS_WITH_RESTARTS,
    YOUNG_LIMIT,
    Model,
    Now,
    Step,
    check,
)
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce

DECODER: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)


def sent(message: ChannelMessage) -> ChannelMessage:
    """Return what arrives at the other end of a channel."""
    return DECODER.decode(msgspec.msgpack.encode(message))


class Channel:
    """The channel of one worker."""

    def __init__(self, supervisor: SupervisorCounts, worker: int) -> None:
        self.supervisor, self.worker = supervisor, worker

    def tell(self, message: ChannelMessage) -> None:
        message = sent(message)
        assert isinstance(message, ReleasePermit)
        self.supervisor.release_permit(self.worker, message)

    def ask(self, question: ChannelMessage, _: float) -> Deferred[ChannelMessage]:
        question = sent(question)
        assert isinstance(question, AcquirePermit)
        answer = self.supervisor.acquire_permit(self.worker, question)
        assert isinstance(answer, ChannelMessage)
        return succeed(sent(answer))


class Workers:
    """Two workers, and the supervisor that counts for them."""

    def __init__(self, folder: str, now: Now) -> None:
        self.path, self.now = f"{folder}/limits.db", now
        self.restart()

    def restart(self) -> None:
        seconds = self.now.seconds
        self.local = LocalCounts(seconds, LimitStore(self.path, AtOnce(), Clock()))
        supervisor = SupervisorCounts(self.local)
        self.workers = [
            SharedCounts(SupervisorTallies(Channel(supervisor, number), 2), LocalCounts(seconds))
            for number in range(2)
        ]

    def use(self, rows: Limits) -> None:
        self.local.use(HOLDER, rows)
        for counts in self.workers:
            counts.use(HOLDER, rows)

    def begin(self, by: int, rows: Limits) -> Permit | LimitReached:
        found = self.workers[by].begin(rows, ONE_REQUEST)
        assert isinstance(found, Deferred)
        return result_of(found)

    def end(self, by: int, permit: Permit, taken: Taken) -> None:
        self.workers[by].end(permit, taken)


@example(steps=YOUNG_LIMIT)
@example(steps=LATE_END)
@example(steps=A_NEW_PROCESS)
@given(steps=RUNS_WITH_RESTARTS)
def test_counts_of_workers_agree_with_the_model(steps: list[Step]) -> None:
    now = Now()
    with TemporaryDirectory() as folder:
        check(Workers(folder, now), Model(), now, steps)
