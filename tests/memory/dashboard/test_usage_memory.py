"""Sums of events in memory: what is kept of them, for how long, and what a query meets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from mgw.dashboard.usage_memory import (
    HOUR,
    HOURS,
    MAX_KEYS,
    MAX_QUERIES,
    MAX_ROWS,
    MAX_WAITING,
    MINUTE,
    MINUTES,
    ROWS_READ,
    UsageMemory,
)
from mgw.dashboard.usage_query import By, UsageQuery
from mgw.errors import Reason
from mgw.usage.record import SettledExchange
from tests.support.deferreds import refusal_of, result_of
from tests.support.usage import exchange

NOW = 1_769_860_800
DAY = 24 * HOUR


@dataclass
class Kept:
    """A memory whose time and turns are ours."""

    now: float = NOW
    wanted: bool = True
    paused: list[Deferred[None]] = field(default_factory=list)
    waits: bool = False

    def __post_init__(self) -> None:
        self.memory = UsageMemory(lambda: self.now, self._pause, lambda: self.wanted)

    def _pause(self) -> Deferred[None]:
        if not self.waits:
            return succeed(None)
        self.paused.append(Deferred())
        return self.paused[-1]

    def record(self, *rows: SettledExchange) -> None:
        for start in range(0, len(rows), 64):
            self.memory.record_all(rows[start : start + 64])

    def answer(self, days: int = 40, by: By | None = None, step: int = MINUTE) -> Any:
        query = UsageQuery(int(self.now - days * DAY) * 1000, int(self.now + DAY) * 1000, step, by)
        return json.loads(result_of(self.memory.answer(query)))


def times(answer: Any) -> list[str]:
    return [row["time"][:16] for row in answer["series"]]


def test_minutes_become_hours_and_hours_are_forgotten() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 30.0), exchange(time=NOW - 90.0))
    assert times(kept.answer()) == ["2026-01-31T11:58", "2026-01-31T11:59"]
    kept.now += MINUTES * MINUTE + HOUR
    assert times(kept.answer()) == ["2026-01-31T11:00"]
    assert kept.answer()["totals"]["requests"] == 2
    kept.now += HOURS * HOUR
    assert kept.answer()["totals"]["requests"] == 0


def test_an_event_that_comes_late_counts_in_its_hour_and_a_too_old_one_nowhere() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 5.5 * HOUR), exchange(time=NOW - 31.0 * DAY))
    answer = kept.answer()
    assert times(answer) == ["2026-01-31T06:00"]
    assert answer["totals"]["requests"] == 1


def test_a_step_below_a_minute_becomes_one() -> None:
    assert Kept().answer(step=1)["step"] == 60
    assert Kept().answer(step=61)["step"] == 120


def test_names_without_end_are_other() -> None:
    kept = Kept()
    kept.record(*(exchange(time=NOW - 1.0, model=f"m{number:04}") for number in range(MAX_KEYS + 50)))
    groups = kept.answer(by=By.MODEL)["groups"]
    assert len(groups) == MAX_KEYS + 1
    assert (groups[-1]["key"], groups[-1]["requests"]) == ("other", 50)


def test_the_oldest_times_go_where_there_are_too_many_rows() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 29.0 * DAY))
    assert kept.answer()["totals"]["requests"] == 1
    for hour in range(MAX_ROWS // (2 * MAX_KEYS) + 1):
        start = NOW - 28.0 * DAY + hour * HOUR
        kept.record(*(exchange(time=start, model=str(n), client=str(n)) for n in range(MAX_KEYS)))
    found = times(kept.answer(step=HOUR))
    assert found[0] > "2026-01-03T12:00"
    assert MAX_ROWS / (2 * MAX_KEYS) * 0.9 < len(found) < MAX_ROWS / (2 * MAX_KEYS)


def test_nothing_is_kept_while_it_is_not_wanted_and_what_was_stays() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 1.0))
    kept.wanted = False
    kept.record(exchange(time=NOW - 1.0))
    kept.wanted = True
    kept.record(exchange(time=NOW - 1.0))
    assert kept.answer()["totals"]["requests"] == 2


def test_a_query_meets_each_event_once_whatever_comes_meanwhile() -> None:
    kept = Kept()
    rows = [
        exchange(time=NOW - minute * 60.0, model=str(number)) for minute in range(60) for number in range(20)
    ]
    kept.record(*rows)
    kept.waits = True
    query = UsageQuery((NOW - DAY) * 1000, (NOW + DAY) * 1000, HOUR, By.MODEL)
    answer = Deferred.fromCoroutine(kept.memory.answer(query))
    kept.now += (MINUTES + 30) * MINUTE  # half of the minutes would become hours
    while kept.paused:
        kept.record(*(exchange(time=kept.now, model=str(n)) for n in range(MAX_WAITING)))
        kept.paused.pop().callback(None)
    assert json.loads(result_of(answer))["totals"]["requests"] == len(rows)
    kept.waits = False
    kept.record(*(exchange(time=kept.now) for _ in range(1)))
    assert sum(row["requests"] for row in kept.answer()["series"] if row["time"] < "2026-01-31T13") == len(
        rows
    )


def test_queries_take_turns_and_too_many_are_refused() -> None:
    kept = Kept(waits=True)
    kept.record(*(exchange(time=NOW - minute * 60.0) for minute in range(2 * ROWS_READ)))
    query = UsageQuery((NOW - DAY) * 1000, (NOW + DAY) * 1000, MINUTE)
    waiting = [Deferred.fromCoroutine(kept.memory.answer(query)) for _ in range(MAX_QUERIES)]
    assert len(kept.paused) == 1, "one of them is under way"
    error = refusal_of(Deferred.fromCoroutine(kept.memory.answer(query)))
    assert (error.reason, error.retry_after) == (Reason.OVERLOADED, 1.0)
    left = waiting.pop(1)
    _ = left.addErrback(lambda _: None)
    left.cancel()
    waiting.append(Deferred.fromCoroutine(kept.memory.answer(query)))
    while kept.paused:
        kept.paused.pop().callback(None)
    for answer in waiting:
        assert json.loads(result_of(answer))["totals"]["requests"] == 2 * ROWS_READ


def test_rows_are_bounded_while_somebody_always_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 20 * MAX_KEYS
    monkeypatch.setattr("mgw.dashboard.usage_memory.MAX_ROWS", most)
    kept = Kept(waits=True)
    query = UsageQuery((NOW - 60 * DAY) * 1000, (NOW + 60 * DAY) * 1000, HOUR, By.MODEL)
    ended: list[Any] = []
    for _ in range(100):
        kept.now += HOUR
        kept.record(*(exchange(time=kept.now, model=str(number)) for number in range(MAX_KEYS)))
        _ = Deferred.fromCoroutine(kept.memory.answer(query)).addBoth(ended.append)
        for _ in range(8):  # a query takes longer than that
            turn, kept.paused = kept.paused, []
            for paused in turn:
                paused.callback(None)
        assert kept.memory._rows <= 2 * most
    assert any(isinstance(answer, bytes) for answer in ended)


def test_a_query_that_nobody_waits_for_ends() -> None:
    kept = Kept(waits=True)
    kept.record(
        *(
            exchange(time=NOW - minute * 60.0, model=str(number))
            for minute in range(9)
            for number in range(20)
        )
    )
    query = UsageQuery((NOW - DAY) * 1000, (NOW + DAY) * 1000, HOUR, By.MODEL)
    answer = Deferred.fromCoroutine(kept.memory.answer(query))
    assert len(kept.paused) == 1 < 9 * 20 / ROWS_READ
    failed: list[Any] = []  # Any: a Failure
    _ = answer.addErrback(failed.append)
    answer.cancel()
    assert failed
    kept.waits = False
    kept.now += MINUTES * MINUTE + HOUR
    assert times(kept.answer()) == ["2026-01-31T11:00", "2026-01-31T12:00"]


@pytest.mark.parametrize("count", [1, MAX_WAITING - 1, MAX_WAITING, 1000])
def test_what_waits_is_in_the_answer(count: int) -> None:
    kept = Kept()
    kept.record(*(exchange(time=NOW - 1.0, model=str(number % 90)) for number in range(count)))
    assert kept.answer()["totals"]["requests"] == count
