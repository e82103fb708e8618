"""Records wait a moment, then go in order and in small batches, and none is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import FrameType
from typing import Any

import pytest
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock

from mgw.ops.logs import AccessLog, UsageLog
from mgw.ops.metrics import Metrics
from mgw.usage.event import SettledExchange
from mgw.usage.journal import Journal
from mgw.usage.line_writer import LineWriter
from mgw.usage.record import EndedRequest
from mgw.usage.record_queue import INTERVAL, MAX_WAITING, SLICE, RecordQueue
from mgw.usage.sinks.jsonl import JsonlSink
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce, MemoryOutput, exchange

TURN = 0.001


class Turns(Clock):
    """A clock on which a call without a delay comes in the next turn, as on a reactor."""

    def callLater(
        self, delay: float, *arguments: Any, **named: Any
    ) -> IDelayedCall:  # Any: as Twisted has it
        return super().callLater(max(delay, TURN), *arguments, **named)


@dataclass
class Batches:
    """A queue, and the batches that it handed on."""

    clock: Clock = field(default_factory=Clock)
    settled: list[list[str]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    queue: RecordQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = RecordQueue(self.clock, self.on_settled, self.on_ended)

    def on_settled(self, batch: Sequence[SettledExchange]) -> None:
        self.settled.append([row.request_id for row in batch])
        self.order += [f"usage {row.request_id}" for row in batch]

    def on_ended(self, batch: Sequence[EndedRequest]) -> None:
        assert {request.time for request in batch} == {7.0}
        self.order += [f"http {request.request_id}" for request in batch]

    def store(self, *numbers: int) -> None:
        for number in numbers:
            self.queue.record(exchange(request_id=str(number)))

    def end(self, number: int) -> None:
        self.queue.record(EndedRequest(7.0, b"GET", b"/", 200, 0.5, str(number)))


def test_records_wait_for_others() -> None:
    batches = Batches()
    batches.store(1)
    batches.clock.advance(INTERVAL / 2)
    batches.store(2)
    assert not batches.settled
    batches.clock.advance(INTERVAL / 2)
    assert batches.settled == [["1", "2"]]
    assert not batches.clock.getDelayedCalls()


def test_nobody_is_woken_where_nothing_waits() -> None:
    batches = Batches()
    batches.queue.flush()
    assert not batches.clock.getDelayedCalls()


def test_many_records_are_handed_on_a_slice_per_turn() -> None:
    batches = Batches(Turns())
    batches.store(*range(2 * SLICE + 1))
    batches.clock.advance(INTERVAL)
    assert [len(batch) for batch in batches.settled] == [SLICE]
    batches.store(999)
    batches.clock.advance(TURN)
    assert [len(batch) for batch in batches.settled] == [SLICE, SLICE]
    batches.clock.advance(TURN)
    assert [len(batch) for batch in batches.settled] == [SLICE, SLICE, 2]
    assert batches.settled[-1] == [str(2 * SLICE), "999"]
    assert not batches.clock.getDelayedCalls()


@pytest.mark.parametrize("brought", [SLICE // 2, SLICE + 1, 3 * SLICE])
def test_records_wait_for_a_few_turns_however_many_a_turn_brings(brought: int) -> None:
    batches = Batches(Turns())
    waited: list[int] = []
    for turn in range(1200):
        batches.store(*[turn] * brought)
        batches.clock.advance(INTERVAL)
        waited += [turn - int(number) for batch in batches.settled for number in batch]
        batches.settled.clear()
    assert waited
    assert max(waited) <= 3


def test_the_bound_is_kept_without_a_loss() -> None:
    batches = Batches()
    batches.store(*range(MAX_WAITING - 1))
    assert not batches.settled
    batches.store(MAX_WAITING - 1)
    assert [len(batch) for batch in batches.settled] == [SLICE]
    batches.queue.flush()
    assert list(chain(*batches.settled)) == [str(number) for number in range(MAX_WAITING)]


def test_a_flush_hands_on_everything_and_leaves_no_timer() -> None:
    batches = Batches()
    batches.store(*range(SLICE + 1))
    batches.end(1)
    batches.queue.flush()
    assert len(batches.order) == SLICE + 2
    assert not batches.clock.getDelayedCalls()
    batches.store(5)
    batches.clock.advance(INTERVAL)
    assert batches.order[-1] == "usage 5"


def test_an_exchange_comes_before_the_end_of_its_request_in_whatever_batch() -> None:
    batches = Batches()
    for number in range(300):
        batches.store(number)
        if number >= 70:  # those before wait for their clients
            batches.end(number)
    for number in range(70):
        batches.end(number)
    batches.clock.pump([INTERVAL, *[0] * 20])
    assert len(batches.order) == 600
    for number in range(300):
        assert batches.order.index(f"usage {number}") < batches.order.index(f"http {number}")


@dataclass
class Outputs:
    """All that a process does with records, in memory."""

    clock: Clock = field(default_factory=Clock)
    log: MemoryOutput = field(default_factory=MemoryOutput)
    json: MemoryOutput = field(default_factory=MemoryOutput)
    metrics: Metrics = field(default_factory=lambda: Metrics(frozenset({"chat"}), {"main"}))
    queue: RecordQueue = field(init=False)

    def __post_init__(self) -> None:
        lines = LineWriter("log", self.clock, AtOnce(), lambda: self.log)
        json = LineWriter("json", self.clock, AtOnce(), lambda: self.json)
        journal = Journal(self.clock)
        result_of(journal.replace([self.metrics, UsageLog(lines), JsonlSink(json)]))
        access_log = AccessLog(lines)
        self.queue = RecordQueue(self.clock, journal.record_all, access_log.record_all)


def calls_of(work: Callable[[], object]) -> int:
    """Count the Python functions that run, but for the work itself."""
    found = 0

    def count(frame: FrameType, kind: str, argument: object) -> None:
        nonlocal found
        found += kind == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found - 1


@pytest.mark.parametrize("first", [True, False])
def test_a_request_is_recorded_by_few_calls(first: bool) -> None:
    outputs, settled = Outputs(), exchange()
    queue = outputs.queue
    if not first:
        queue.record(settled)

    def store() -> None:
        queue.record(settled)
        queue.record(EndedRequest(7.0, b"POST", b"/v1/chat/completions", 200, 0.01, "req_1"))

    calls = calls_of(store)
    assert calls == 2 if not first else calls < 20


def test_a_record_of_a_batch_takes_few_calls() -> None:
    outputs = Outputs()
    settled = exchange(stream=False)
    for _ in range(2):
        for _ in range(SLICE // 2):
            outputs.queue.record(settled)
            outputs.queue.record(EndedRequest(7.0, b"POST", b"/v1/chat/completions", 200, 0.01, "req_1"))
        calls = calls_of(outputs.queue.flush)
        outputs.clock.pump([1, 1])
    assert calls / (SLICE / 2) < 14
    assert outputs.log.written.count(b"\nhttp ") + outputs.log.written.count(b"\nusage ") == 2 * SLICE - 1
    assert outputs.json.written.count(b"\n") == SLICE
