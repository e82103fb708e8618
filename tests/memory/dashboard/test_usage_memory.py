"""Sums of events in memory: what is kept of them, for how long, and what a query meets."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from sys import getrefcount
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.usage import ask_memory
from mgw.dashboard.usage_memory import MAX_EVENTS, MAX_KEPT, MAX_WAITING, UsageMemory
from mgw.dashboard.usage_query import By, UsageQuery
from mgw.dashboard.usage_spans import KEPT_HOURS, MAX_NAMES, MAX_SPANS, MINUTE, MINUTES
from mgw.usage.buckets import BOUNDS, add_up, bucket_of
from mgw.usage.event import SettledExchange, timestamp
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce, OnDemand, exchange

NOW = 1_769_860_800
HOUR = 3600
DAY = 24 * HOUR


@dataclass
class Kept:
    """A memory whose time and thread are ours."""

    now: float = NOW
    wanted: bool = True
    runner: Any = field(default_factory=AtOnce)

    def __post_init__(self) -> None:
        self.sums = UsageMemory(lambda: self.now, lambda: self.wanted)
        self.memory = EventMemory(self.runner, [self.sums])
        self.sums.full = self.memory.write

    def record(self, *rows: SettledExchange) -> None:
        for start in range(0, len(rows), 64):
            self.sums.record_all(rows[start : start + 64])

    def answer(self, days: int = 40, by: By | None = None, step: int = MINUTE, **filters: str) -> Any:
        since, until = int(self.now - days * DAY) * 1000, int(self.now + DAY) * 1000
        query = UsageQuery(since, until, step, by, filters)
        return json.loads(result_of(ask_memory(EventQueries(AtOnce()), self.memory, query)))

    def rows(self) -> int:
        with self.memory.open() as connection:
            ((number,),) = connection.execute("SELECT count(*) FROM usage_hours")
            return int(number)


TIMES = st.floats(0, 1e9) | st.integers(0, 10**7).map(lambda thousandths: thousandths / 1000)


@given(values=st.lists(TIMES | st.integers(0, 10**4).map(lambda number: number / 16), min_size=1))
@example(values=[0.0, 0.0005, 0.0015, 2.675, 0.0625, 1e9])
@example(values=[bound / 1000 for bound in BOUNDS])
@example(values=[(bound + 1) / 1000 for bound in BOUNDS])
def test_times_are_added_up_and_counted_as_each_is_written(values: list[float]) -> None:
    kept = Kept()
    kept.record(*(exchange(time=NOW - 1.0, latency_ms=value, ttft_ms=None) for value in values))
    kept.memory.prepare()
    with kept.memory.open() as connection:
        ((total, counts),) = connection.execute(
            "SELECT sum(latency_us), group_concat(latency_counts, '') FROM usage_hours"
        )
    microseconds = [round(round(value, 3) * 1000) for value in values]
    assert total == sum(microseconds)
    assert add_up(counts) == Counter(map(bucket_of, microseconds))


@given(moments=st.lists(st.floats(-130, 0) | st.integers(-130_000, 0).map(lambda ms: ms / 1000), min_size=1))
@example(moments=[-60.5, -59.5, -60.0004, -59.9996, -60.0, -0.0004])
def test_events_of_one_batch_count_in_the_minutes_that_their_lines_name(moments: list[float]) -> None:
    kept = Kept()
    rows = [exchange(time=NOW + moment) for moment in moments]
    kept.sums.record_all(rows)
    found = {row["time"][:16]: row["requests"] for row in kept.answer()["series"]}
    assert found == Counter(timestamp(row.time)[:16] for row in rows)


def test_what_may_be_long_does_not_wait_with_the_sums() -> None:
    kept, text = Kept(), "x" * 10_000
    before = getrefcount(text)
    kept.record(exchange(time=NOW - 1.0, dropped_fields=(text,), error_message=text))
    assert getrefcount(text) == before
    assert kept.answer()["totals"]["requests"] == 1


def times(answer: Any) -> list[str]:
    return [row["time"][:16] for row in answer["series"]]


def test_minutes_become_hours_and_hours_are_forgotten() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 30.0), exchange(time=NOW - 90.0))
    assert times(kept.answer()) == ["2026-01-31T11:58", "2026-01-31T11:59"]
    kept.now += MINUTES * MINUTE + HOUR
    assert times(kept.answer()) == ["2026-01-31T11:00"]
    assert kept.answer()["totals"]["requests"] == 2
    kept.now += KEPT_HOURS * HOUR
    assert kept.answer()["totals"]["requests"] == 0


def test_an_event_that_comes_late_counts_in_its_hour_and_a_too_old_one_nowhere() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 5.5 * HOUR), exchange(time=NOW - 31.0 * DAY))
    answer = kept.answer()
    assert times(answer) == ["2026-01-31T06:00"]
    assert answer["totals"]["requests"] == 1


def test_an_event_that_comes_when_its_minutes_have_become_an_hour_counts_there() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 30.0))
    kept.now += 5 * HOUR
    assert kept.answer()["totals"]["requests"] == 1
    kept.record(exchange(time=NOW - 31.0))
    answer = kept.answer()
    assert times(answer) == ["2026-01-31T11:00"]
    assert answer["totals"]["requests"] == 2


def test_a_step_below_a_minute_becomes_one() -> None:
    assert Kept().answer(step=1)["step"] == 60
    assert Kept().answer(step=61)["step"] == 120


def test_names_without_end_are_other() -> None:
    kept = Kept()
    kept.record(*(exchange(time=NOW - 1.0, model=f"m{number:04}") for number in range(MAX_NAMES + 50)))
    groups = kept.answer(by=By.MODEL)["groups"]
    assert len(groups) == MAX_NAMES + 1
    assert (groups[-1]["key"], groups[-1]["requests"]) == ("other", 50)


def test_names_are_bounded_when_minutes_become_an_hour_and_in_a_minute_that_was_left() -> None:
    kept = Kept()
    for minute in range(3):
        kept.record(
            *(
                exchange(time=NOW - HOUR + minute * 60.0, client=f"{minute}-{number}")
                for number in range(MAX_NAMES)
            )
        )
    kept.record(*(exchange(time=NOW - minute * 60.0) for minute in range(1, MAX_SPANS + 1)))
    assert len(kept.answer(by=By.CLIENT)["groups"]) == 3 * MAX_NAMES + 1
    kept.record(*(exchange(time=NOW - HOUR + 1.0, client=f"more {number}") for number in range(10)))
    groups = kept.answer(by=By.CLIENT)["groups"]
    assert {row["key"]: row["requests"] for row in groups if "key" in row}["other"] == 10
    kept.now += 5 * HOUR
    groups = {row.get("key"): row["requests"] for row in kept.answer(by=By.CLIENT)["groups"]}
    assert len(groups) == MAX_NAMES + 1
    assert sum(groups.values()) == 3 * MAX_NAMES + 10 + MAX_SPANS


@pytest.mark.parametrize(
    ("name", "bound"), [("MAX_ROWS", 40 * MAX_NAMES), ("MAX_BYTES", 40 * MAX_NAMES * 150)]
)
def test_the_oldest_times_go_where_there_is_too_much(
    name: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"mgw.dashboard.usage_spans.{name}", bound)
    kept = Kept()
    for hour in range(60):
        start = NOW - 28.0 * DAY + hour * HOUR
        kept.record(*(exchange(time=start, model=str(n), client=str(n)) for n in range(MAX_NAMES)))
    found = times(kept.answer(step=HOUR))
    assert found[0] > "2026-01-03T12:00"
    assert 30 <= len(found) <= 50
    assert found[-1] == "2026-01-05T23:00"


def test_rows_with_the_same_labels_are_added_up_now_and_then() -> None:
    kept = Kept()
    for number in range(1000):
        kept.record(exchange(time=NOW - 1.0, client=str(number % 3)))
        kept.memory.write()
    assert kept.rows() < 80
    assert kept.answer()["totals"]["requests"] == 1000


def test_nothing_is_kept_while_it_is_not_wanted() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 1.0))
    kept.wanted = False
    kept.record(exchange(time=NOW - 1.0))
    kept.wanted = True
    kept.record(exchange(time=NOW - 1.0))
    assert kept.answer()["totals"]["requests"] == 2


def test_what_is_forgotten_is_gone_and_what_comes_then_counts() -> None:
    kept = Kept()
    kept.record(exchange(time=NOW - 1.0))
    assert kept.answer()["totals"]["requests"] == 1
    kept.record(exchange(time=NOW - 1.0))
    kept.memory.forget()
    assert kept.answer()["totals"]["requests"] == 0
    kept.record(exchange(time=NOW - 1.0))
    assert kept.answer()["totals"]["requests"] == 1


@pytest.mark.parametrize("count", [1, MAX_WAITING - 1, MAX_WAITING, 1000, MAX_EVENTS + 100])
def test_what_waits_is_in_the_answer(count: int) -> None:
    kept = Kept()
    kept.record(*(exchange(time=NOW - 1.0, model=str(number % 90)) for number in range(count)))
    assert kept.answer()["totals"]["requests"] == count


def test_no_thread_is_needed_before_the_first_event() -> None:
    assert UsageMemory(lambda: NOW, lambda: True).hand_over() is None


@pytest.mark.parametrize(("labels", "bound"), [(1, MAX_EVENTS), (10**6, MAX_WAITING)])
def test_what_waits_is_bounded_while_the_thread_is_busy(labels: int, bound: int) -> None:
    runner = OnDemand()
    kept = Kept(runner=runner)
    one = exchange(time=NOW - 1.0)
    for number in range(20 * MAX_KEPT * bound // 64):
        kept.record(
            *(replace(one, time=NOW - 60.0 * ((number * 64 + index) % labels)) for index in range(64))
        )
    assert len(kept.sums._waiting) <= MAX_KEPT * MAX_WAITING
    assert kept.sums._events <= MAX_KEPT * MAX_EVENTS


@pytest.mark.parametrize("by", [By.ERROR, By.ROUTE, By.KEY])
def test_sums_by_what_went_wrong_where_and_with_which_key(by: By) -> None:
    kept = Kept()
    names = {By.ERROR: "error", By.ROUTE: "route", By.KEY: "key_hash"}
    kept.record(*(exchange(time=NOW - 1.0, **{names[by]: name}) for name in ("a", "b", "b")))
    assert [(row["key"], row["requests"]) for row in kept.answer(by=by)["groups"]] == [("b", 2), ("a", 1)]


def test_filters_are_exact() -> None:
    kept = Kept()
    kept.record(*(exchange(time=NOW - 1.0, client=name, error="dns") for name in ("a", "b", "b", "B")))
    assert kept.answer(client="b")["totals"]["requests"] == 2
    assert kept.answer(client="b", error="dns", key="0123456789ab")["totals"]["requests"] == 2
    assert kept.answer(client="b", key="0")["totals"]["requests"] == 0
