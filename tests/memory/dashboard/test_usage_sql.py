"""Queries of the file of ``hooks.sqlite``: what bounds them, and what files of others hold."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from mgw.config.hooks import HooksSettings
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import MAX_QUERIES, EventQueries
from mgw.dashboard.usage import DashboardUsage, ask_file
from mgw.dashboard.usage_memory import UsageMemory
from mgw.dashboard.usage_query import By, UsageQuery
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.record import encode
from mgw.usage.usage_table import UsageTable
from tests.support.deferreds import refusal_of, result_of
from tests.support.usage import AtOnce, OnDemand, event, exchange

NOW = 1_769_860_800
QUERY = UsageQuery((NOW - 3600) * 1000, NOW * 1000, 60)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capturedLogs():
        yield


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "usage.db")
    table = UsageTable(path)
    table.open()
    table.add([encode(event(request_id=str(number), time=NOW - 1.0 - number)) for number in range(3000)])
    table.close()
    return path


def requests(answer: bytes) -> int:
    found: int = json.loads(answer)["totals"]["requests"]
    return found


def test_a_query_that_takes_too_long_is_given_up(file: str) -> None:
    times = iter([0.0, *[100.0] * 1000])
    reader = EventQueries(AtOnce(), seconds=20, timer=lambda: next(times), instructions=100)
    error = refusal_of(ask_file(reader, file, QUERY))
    assert error.reason is Reason.OVERLOADED
    assert error.message.startswith("this query takes more than 20 s: choose a shorter")
    assert requests(result_of(ask_file(EventQueries(AtOnce()), file, QUERY))) == 3000


def test_a_query_that_nobody_waits_for_is_given_up(file: str) -> None:
    runner = OnDemand()
    asked: list[None] = []

    def timer() -> float:
        if len(asked) == 5:
            first.cancel()
        asked.append(None)
        return 0.0

    reader = EventQueries(runner, timer=timer, instructions=100)
    first = ask_file(reader, file, QUERY)
    _ = first.addErrback(lambda _: None)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        runner.go_on()
    assert len(asked) == 6


def test_no_more_queries_wait_than_there_is_room_for(file: str) -> None:
    runner = OnDemand()
    reader = EventQueries(runner)
    waiting: list[Deferred[bytes]] = [ask_file(reader, file, QUERY) for _ in range(MAX_QUERIES)]
    error = refusal_of(ask_file(reader, file, QUERY))
    assert (error.reason, error.retry_after) == (Reason.OVERLOADED, 1.0)
    _ = waiting[0].addErrback(lambda _: None)
    waiting[0].cancel()
    runner.go_on()
    waiting.append(ask_file(reader, file, QUERY))
    for _ in range(MAX_QUERIES):
        runner.go_on()
    assert [requests(result_of(answer)) for answer in waiting[1:]] == [3000] * MAX_QUERIES


def test_behind_a_stop_there_are_no_queries(file: str) -> None:
    runner = OnDemand()
    reader = EventQueries(runner)
    before = ask_file(reader, file, QUERY)
    reader.stop()
    assert runner.stopped
    assert refusal_of(ask_file(reader, file, QUERY)).reason is Reason.DRAINING
    runner.go_on()
    assert requests(result_of(before)) == 3000


def test_a_file_that_is_no_database_is_refused_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    path.write_bytes(b"anything but a database, and long enough to be read as one" * 20)
    error = refusal_of(ask_file(EventQueries(AtOnce()), str(path), QUERY))
    assert error.reason is Reason.OVERLOADED
    assert str(tmp_path) not in error.message


def test_columns_that_a_file_lacks_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE usage_events (request_id TEXT, time TEXT, status TEXT, tokens_in INTEGER)"
        )
        connection.execute("INSERT INTO usage_events VALUES ('1', '2026-01-31T11:59:00.000Z', 'ok', 5)")
        connection.execute("INSERT INTO usage_events VALUES ('2', 'never', 'ok', 5)")
        connection.commit()
    query = UsageQuery(QUERY.since, QUERY.until, 60, By.MODEL)
    answer = json.loads(result_of(ask_file(EventQueries(AtOnce()), str(path), query)))
    sums = {"requests": 1, "answered": 1, "failed": 0, "rejected": 0, "aborted": 0, "tokens_in": 5}
    assert answer["totals"] == sums
    assert answer["groups"] == [sums]


@pytest.mark.parametrize("by", [None, By.MODEL])
def test_sums_beyond_what_the_file_can_add_up_are_told_as_near_as_can_be(
    tmp_path: Path, by: By | None
) -> None:
    most, path = 2**53, str(tmp_path / "usage.db")
    table = UsageTable(path)
    table.open()
    table.add(
        [
            encode(event(request_id=str(number), time=NOW - 1.0, tokens_in=most, cost_usd=9e10))
            for number in range(1100)
        ]
    )
    table.close()
    query = UsageQuery(QUERY.since, QUERY.until, 60, by)
    answer = json.loads(result_of(ask_file(EventQueries(AtOnce()), path, query)))
    for sums in (answer["totals"], *answer["series"], *answer["groups"]):
        assert sums["requests"] == 1100
        assert sums["tokens_in"] == pytest.approx(1100 * most)
        assert sums["cost_usd"] > 9e9 * 1100


def test_a_reader_sees_what_is_written_meanwhile_and_changes_nothing(file: str) -> None:
    table = UsageTable(file)
    table.open()
    table.add([encode(event(request_id="new", time=NOW - 1.0))])
    assert requests(result_of(ask_file(EventQueries(AtOnce()), file, QUERY))) == 3001
    table.close()
    assert requests(result_of(ask_file(EventQueries(AtOnce()), file, QUERY))) == 3001


def test_the_source_is_what_the_configuration_says_now(file: str, tmp_path: Path) -> None:
    hooks = [HooksSettings.model_validate({})]
    sums = UsageMemory(lambda: NOW, lambda: hooks[0].sqlite is None)
    runner = AtOnce()
    memory = EventMemory(runner, [sums])
    usage = DashboardUsage(lambda: hooks[0], EventQueries(runner), memory, lambda: NOW)

    def sqlite(path: str) -> HooksSettings:
        return HooksSettings.model_validate({"sqlite": {"path": path}})

    def asked() -> Any:  # Any: JSON
        return json.loads(result_of(usage.answer({})))

    for hooks[0], source, count in (
        (sqlite(file), "sqlite", 3000),
        (sqlite(str(tmp_path / "no.db")), "sqlite", 0),
    ):
        answer = asked()
        assert (usage.source, answer["source"], answer["totals"]["requests"]) == (source, source, count)
        sums.record_all([exchange(time=NOW - 1.0)])
    with pytest.raises(GatewayError):
        result_of(usage.answer({"by": "day"}))
