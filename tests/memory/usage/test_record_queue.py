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
from mgw.usage.journal import Journal
from mgw.usage.line_writer import LineWriter
from mgw.usage.record import EndedRequest, exchanges_of
from mgw.usage.record_queue import FLUSHED_SLICES, INTERVAL, MAX_WAITING, SLICE, RecordQueue
from mgw.usage.sinks.jsonl import JsonlSink
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce, MemoryOutput, ended_of, exchange

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
    written: list[list[str]] = field(default_factory=list)
    queue: RecordQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = RecordQueue(self.clock, self.on_batch)

    def on_batch(self, batch: Sequence[EndedRequest]) -> None:
        self.written.append([ended.request_id for ended in batch])

    def store(self, *numbers: int) -> None:
        for number in numbers:
            self.queue.record(EndedRequest(7.0, b"GET", b"/", 200, 0.5, str(number)))


def test_records_wait_for_others() -> None:
    batches = Batches()
    batches.store(1)
    batches.clock.advance(INTERVAL / 2)
    batches.store(2)
    assert not batches.written
    batches.clock.advance(INTERVAL / 2)
    assert batches.written == [["1", "2"]]
    assert not batches.clock.getDelayedCalls()


def test_nobody_is_woken_where_nothing_waits() -> None:
    batches = Batches()
    batches.queue.flush()
    assert not batches.clock.getDelayedCalls()


def test_many_records_are_handed_on_a_slice_per_turn() -> None:
    batches = Batches(Turns())
    batches.store(*range(2 * SLICE + 1))
    batches.clock.advance(INTERVAL)
    assert [len(batch) for batch in batches.written] == [SLICE]
    batches.store(999)
    batches.clock.advance(TURN)
    assert [len(batch) for batch in batches.written] == [SLICE, SLICE]
    batches.clock.advance(TURN)
    assert [len(batch) for batch in batches.written] == [SLICE, SLICE, 2]
    assert batches.written[-1] == [str(2 * SLICE), "999"]
    assert not batches.clock.getDelayedCalls()


@pytest.mark.parametrize("brought", [SLICE // 2, SLICE + 1, 3 * SLICE])
def test_records_wait_for_a_few_turns_however_many_a_turn_brings(brought: int) -> None:
    batches = Batches(Turns())
    waited: list[int] = []
    for turn in range(1200):
        batches.store(*[turn] * brought)
        batches.clock.advance(INTERVAL)
        waited += [turn - int(number) for batch in batches.written for number in batch]
        batches.written.clear()
    assert waited
    assert max(waited) <= 3


def test_the_bound_is_kept_without_a_loss() -> None:
    batches = Batches()
    batches.store(*range(MAX_WAITING - 1))
    assert not batches.written
    batches.store(MAX_WAITING - 1)
    assert [len(batch) for batch in batches.written] == [SLICE]
    batches.queue.flush()
    assert list(chain(*batches.written)) == [str(number) for number in range(MAX_WAITING)]


def test_a_flush_hands_on_everything_in_order_and_leaves_no_timer() -> None:
    batches = Batches()
    batches.store(*range(FLUSHED_SLICES * SLICE + 1))
    batches.queue.flush()
    assert list(chain(*batches.written)) == [str(number) for number in range(FLUSHED_SLICES * SLICE + 1)]
    assert not batches.clock.getDelayedCalls()
    batches.store(5)
    batches.clock.advance(INTERVAL)
    assert batches.written[-1] == ["5"]


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

        def record_all(batch: Sequence[EndedRequest]) -> None:
            journal.record_all(exchanges_of(batch))
            access_log.record_all(batch)

        self.queue = RecordQueue(self.clock, record_all)


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
    outputs, ended = Outputs(), ended_of(exchange())
    queue = outputs.queue
    if not first:
        queue.record(ended)
    calls = calls_of(lambda: queue.record(ended))
    assert calls == 1 if not first else calls < 20


def test_a_record_of_a_batch_takes_few_calls() -> None:
    outputs = Outputs()
    ended = ended_of(exchange(stream=False))
    for _ in range(2):
        for _ in range(SLICE):
            outputs.queue.record(ended)
        calls = calls_of(outputs.queue.flush)
        outputs.clock.pump([1, 1])
    assert calls / SLICE < 14
    assert outputs.log.written.count(b"\nhttp ") + outputs.log.written.count(b"\nusage ") == 4 * SLICE - 1
    assert outputs.json.written.count(b"\n") == 2 * SLICE
