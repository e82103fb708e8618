"""A search for events: which are found, in which order, and by which index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.usage.event import Outcome, UsageEvent, timestamp
from mgw.usage.event_search import (
    FILTERS,
    EventPosition,
    EventSearch,
    encode_event,
    find_events,
    is_status,
    search_statement,
)
from mgw.usage.record import encode
from mgw.usage.usage_table import COLUMNS, INDEXES, SEARCH_INDEX, UPSTREAM_INDEX, create_table, insert_lines
from tests.support.usage import event

NOW = 1_769_860_800.0
VALUES = {
    "client": "team",
    "provider": "backup",
    "model": "slow",
    "route": "messages",
    "error": "overloaded",
    "key_hash": "cafecafecafe",
    "request_id": "req_x",
    "upstream_request_id": "up_x",
}


def filled(events: list[UsageEvent]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_table(connection)
    insert_lines(connection, [encode(each) for each in events])
    return connection


def found(connection: sqlite3.Connection, **asked: Any) -> list[str]:  # Any: fields by name
    search = EventSearch(**{"limit": 1000, **asked})
    return [each["request_id"] for each in find_events(connection, search)]


@pytest.fixture
def table() -> Iterator[sqlite3.Connection]:
    """Ordinary events, and one that differs in everything."""
    other = event(**VALUES, time=NOW - 100.0, status=Outcome.UPSTREAM_ERROR, http_status=503)
    connection = filled([other, *(event(request_id=f"req_{n}", time=NOW - n) for n in range(10))])
    yield connection
    connection.close()


@pytest.mark.parametrize("column", FILTERS.values())
def test_each_filter_finds_its_value_and_nothing_else(table: sqlite3.Connection, column: str) -> None:
    assert found(table, exact=((column, VALUES[column]),)) == ["req_x"]
    assert found(table, exact=((column, VALUES[column].upper()),)) == []
    assert found(table, exact=((column, VALUES[column]), ("client", "nobody"))) == []


@pytest.mark.parametrize("status", ["upstream_error", "503", "5xx", "5XX"])
def test_a_status_is_an_outcome_a_number_or_a_class(table: sqlite3.Connection, status: str) -> None:
    assert found(table, status=status) == ["req_x"]
    assert found(table, status="4" + status[1:] if status[0] == "5" else "rejected") == []


def test_a_status_is_one_of_these_words() -> None:
    good = [*Outcome, "100", "599", "5xx", "1XX"]
    bad = ["", "OK", "600", "99", "5x", "xx", "0xx", "5xxx", "503 ", "٥٠٣"]
    assert [text for text in [*good, *bad] if is_status(text)] == good


def test_times_are_half_open(table: sqlite3.Connection) -> None:
    since, until = timestamp(NOW - 3), timestamp(NOW - 1)
    assert found(table, since=since, until=until) == ["req_2", "req_3"]


times = st.integers(0, 3).map(lambda seconds: NOW + seconds)
clients = st.sampled_from(["a", "b"])


@given(
    rows=st.lists(st.tuples(times, clients), max_size=30),
    late=st.lists(st.tuples(times, clients), max_size=5),
    size=st.integers(1, 5),
    client=st.sampled_from([None, "a", "absent"]),
)
def test_pages_hold_each_event_once_newest_first_while_others_arrive(
    rows: list[tuple[float, str]], late: list[tuple[float, str]], size: int, client: str | None
) -> None:
    def made(prefix: str, rows: list[tuple[float, str]]) -> list[UsageEvent]:
        return [event(request_id=f"{prefix}{n:02d}", time=t, client=c) for n, (t, c) in enumerate(rows)]

    before = made("m", rows)
    connection = filled(before)
    exact = () if client is None else (("client", client),)
    wanted = sorted(
        ((each.time, each.request_id) for each in before if client in (None, each.client)), reverse=True
    )
    seen: list[str] = []
    after: EventPosition | None = None
    while page := list(find_events(connection, EventSearch(exact=exact, after=after, limit=size))):
        assert len(seen) <= len(rows) + len(late), "a page came again"
        seen += [each["request_id"] for each in page]
        after = EventPosition(page[-1]["time"], page[-1]["request_id"])
        insert_lines(connection, [encode(each) for each in made("n", late)])
    connection.close()
    old = [request_id for request_id in seen if request_id.startswith("m")]
    assert old == [request_id for _, request_id in wanted]
    assert len(set(seen)) == len(seen)


def test_an_event_is_found_as_its_line_says_it() -> None:
    full = event(
        dropped_fields=("a", "messages[].name"),
        cost_usd=1e-9,
        stream=False,
        client="größe",
        error="overloaded",
        session_minutes=1.5,
    )
    connection = filled([full])
    (line,) = [encode_event(each) for each in find_events(connection, EventSearch(limit=1))]
    connection.close()
    assert line + b"\n" == encode(full)


@pytest.mark.parametrize("cost", [float("inf"), 1e300, "free"])
def test_a_cost_from_who_knows_where_is_no_obstacle(cost: object) -> None:
    assert b"cost_usd" in encode_event({"cost_usd": cost})


def test_columns_that_a_file_lacks_match_nothing() -> None:
    connection = sqlite3.connect(":memory:")
    assert found(connection) == []
    connection.execute("CREATE TABLE usage_events (request_id TEXT, time TEXT, dropped_fields)")
    connection.execute("INSERT INTO usage_events VALUES ('1', '2026-01-31T11:59:00.000Z', 'no JSON')")
    connection.execute("INSERT INTO usage_events VALUES ('2', NULL, 7)")
    connection.execute("INSERT INTO usage_events VALUES ('3', '2026-01-31T12:59:00.000Z', 7)")
    assert found(connection) == ["3", "1"]
    assert found(connection, status="ok") == found(connection, status="5xx") == []
    assert found(connection, exact=(("client", "a"),)) == []
    connection.close()


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({}, SEARCH_INDEX),
        ({"status": "5xx", "since": timestamp(NOW)}, SEARCH_INDEX),
        (
            {"exact": (("client", "a"), ("error", "b")), "after": EventPosition(timestamp(NOW), "x")},
            SEARCH_INDEX,
        ),
        ({"exact": (("upstream_request_id", "a"), ("client", "b"))}, UPSTREAM_INDEX),
        ({"exact": (("request_id", "a"), ("upstream_request_id", "b"))}, "sqlite_autoindex_usage_events_1"),
    ],
)
def test_every_search_has_an_index(table: sqlite3.Connection, asked: dict[str, Any], index: str) -> None:
    statement, values = search_statement(EventSearch(limit=101, **asked), list(COLUMNS), set(INDEXES))
    plan = [row[3] for row in table.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert index in plan[0]


def test_a_later_page_does_not_step_over_those_before() -> None:
    table = filled([event(request_id=f"req_{n:05}", time=NOW - n) for n in range(5000)])
    asked = {"since": timestamp(NOW - 9000.0), "until": timestamp(NOW + 1.0)}
    steps: list[int] = []
    table.set_progress_handler(lambda: steps.append(1), 100)
    page = found(table, limit=2, after=EventPosition(timestamp(NOW - 4900.0), "req_04900"), **asked)
    assert page == ["req_04901", "req_04902"]
    assert len(steps) < 20
    table.close()


def test_a_cursor_behind_the_end_of_the_time_finds_its_first_page(table: sqlite3.Connection) -> None:
    after = EventPosition(timestamp(NOW + 5.0), "req_0")
    assert found(table, until=timestamp(NOW - 7.0), after=after) == ["req_8", "req_9", "req_x"]


def test_a_file_without_the_indexes_is_searched_all_the_same(table: sqlite3.Connection) -> None:
    for name in INDEXES:
        table.execute(f"DROP INDEX {name}")
    assert found(table, exact=(("upstream_request_id", "up_x"),)) == ["req_x"]
    assert found(table, exact=(("client", "team"),)) == ["req_x"]


def test_lines_of_json_are_events(table: sqlite3.Connection) -> None:
    (line,) = [
        encode_event(each) for each in find_events(table, EventSearch(limit=1, status="upstream_error"))
    ]
    assert json.loads(line)["http_status"] == 503
