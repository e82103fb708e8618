"""The database in memory: when it is written to, what is forgotten, and what a failure leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from mgw.dashboard.event_memory import MAX_WORK, EventMemory, Work
from mgw.dashboard.event_queries import EventQueries
from mgw.nouns.errors import Reason
from mgw.usage.event import SettledExchange
from tests.support.deferreds import refusal_of, result_of
from tests.support.usage import AtOnce, OnDemand

ADVICE = "ask for less"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capturedLogs():
        yield


@dataclass
class Numbers:
    """A part that keeps numbers."""

    waiting: list[int] = field(default_factory=list)
    handed_over: int = 0
    statement: str = "INSERT INTO numbers VALUES (?)"

    def record_all(self, rows: Iterable[SettledExchange]) -> None:
        """Numbers do not come from exchanges."""

    def create(self, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE numbers (number INTEGER)")

    def hand_over(self) -> Work | None:
        if not self.waiting:
            return None
        numbers, self.waiting = self.waiting, []
        self.handed_over += 1
        statement = self.statement

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN")
            connection.executemany(statement, [(number,) for number in numbers])
            connection.execute("COMMIT")

        return write

    def forget(self) -> None:
        self.waiting = []


def numbers_of(connection: sqlite3.Connection | None) -> list[int]:
    assert connection is not None
    return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY 1")]


def ask(queries: EventQueries, memory: EventMemory) -> Deferred[list[int]]:
    return queries.ask(memory, numbers_of, ADVICE)


def test_what_waits_is_written_when_somebody_asks() -> None:
    part, runner = Numbers(), AtOnce()
    queries, memory = EventQueries(runner), EventMemory(runner, [part])
    part.waiting += [1, 2]
    assert part.handed_over == 0
    assert result_of(ask(queries, memory)) == [1, 2]
    part.waiting += [3]
    assert result_of(ask(queries, memory)) == [1, 2, 3]
    assert part.handed_over == 2


def test_a_query_that_nobody_waits_for_loses_nothing() -> None:
    part, runner = Numbers([1]), OnDemand()
    queries, memory = EventQueries(runner), EventMemory(runner, [part])
    first = ask(queries, memory)
    _ = first.addErrback(lambda _: None)
    first.cancel()
    runner.go_on()
    second = ask(queries, memory)
    runner.go_on()
    assert result_of(second) == [1]


def test_what_waits_can_be_written_before_anybody_asks() -> None:
    part, runner = Numbers([1]), OnDemand()
    queries, memory = EventQueries(runner), EventMemory(runner, [part])
    memory.write()
    assert not part.waiting
    runner.go_on()
    memory.write()  # nothing waits, so the thread has nothing to do
    answer = ask(queries, memory)
    runner.go_on()
    assert result_of(answer) == [1]


def test_a_part_that_is_full_is_written_alone() -> None:
    full, other, runner = Numbers([1]), Numbers([2]), AtOnce()
    memory = EventMemory(runner, [full, other])
    memory.write(full)
    assert (full.waiting, other.waiting) == ([], [2])


def test_after_it_was_told_to_forget_it_begins_anew() -> None:
    part, runner = Numbers([1]), OnDemand()
    queries, memory = EventQueries(runner), EventMemory(runner, [part])
    before = ask(queries, memory)
    runner.go_on()
    part.waiting += [2]
    memory.prepare()
    part.waiting += [3]
    memory.forget()
    runner.go_on()
    part.waiting += [4]
    after = ask(queries, memory)
    runner.go_on()
    assert (result_of(before), result_of(after)) == ([1], [4])


def test_a_piece_of_work_that_fails_is_not_tried_again() -> None:
    part, runner = Numbers([1]), AtOnce()
    queries, memory = EventQueries(runner), EventMemory(runner, [part])
    result_of(ask(queries, memory))
    part.waiting, part.statement = [2], "INSERT INTO letters VALUES (?)"
    assert refusal_of(ask(queries, memory)).reason is Reason.OVERLOADED
    part.waiting, part.statement = [3], Numbers.statement
    assert result_of(ask(queries, memory)) == [1, 3]


def test_without_a_thread_no_more_is_handed_over_than_there_is_room_for() -> None:
    class NoThread(AtOnce):
        def run(self, *_: object) -> None:
            raise OSError("no thread")

    part = Numbers()
    memory = EventMemory(NoThread(), [part])
    for number in range(2 * MAX_WORK):
        part.waiting.append(number)
        memory.write()
    assert part.handed_over == MAX_WORK
    assert part.waiting == list(range(MAX_WORK, 2 * MAX_WORK))
    memory.forget()
    runner = AtOnce()
    memory.runner = runner
    assert result_of(ask(EventQueries(runner), memory)) == []


def test_a_query_that_takes_too_long_leaves_the_next_one_alone() -> None:
    times = iter([0.0, 100.0, *[200.0] * 10])
    runner = AtOnce()
    queries = EventQueries(runner, timer=lambda: next(times), instructions=1)
    memory = EventMemory(runner, [Numbers([1])])
    error = refusal_of(ask(queries, memory))
    assert error.message == "this query takes more than 20 s: ask for less"
    queries.timer = lambda: 0.0
    assert result_of(ask(queries, memory)) == [1]
