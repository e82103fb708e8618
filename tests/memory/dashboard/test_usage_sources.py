"""What the dashboard says of usage events, from a file and from memory: the same."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.cli.main import main
from mgw.dashboard.event_memory import EventMemory
from mgw.dashboard.event_queries import EventQueries
from mgw.dashboard.usage import ask_file, ask_memory
from mgw.dashboard.usage_memory import UsageMemory
from mgw.dashboard.usage_query import By, UsageQuery
from mgw.dashboard.usage_spans import MINUTE, MINUTES
from mgw.usage.event import NANODOLLARS, Outcome, SettledExchange, UsageEvent, nanodollars_of
from mgw.usage.labels import ExchangeLabels
from mgw.usage.record import encode
from mgw.usage.usage_read import MAX_KEY_BYTES
from mgw.usage.usage_rollup import hour_of
from mgw.usage.usage_table import UsageTable
from tests.support.deferreds import result_of
from tests.support.usage import AtOnce, event, settled_as

NOW = 1_769_860_800
"""2026-01-31T12:00:00Z"""
COUNTED = ("requests", "answered", "failed", "rejected", "aborted", "unpriced", "uncounted")
STATUSES = {"answered": "ok", "failed": "upstream_error", "rejected": "rejected", "aborted": "client_abort"}
HOUR = 3600
SUMMED = ("tokens_in", "tokens_out", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


def with_shared_labels(events: Sequence[UsageEvent]) -> Iterator[SettledExchange]:
    """Return the exchanges behind events; those with the same labels share them, as in a gateway."""
    shared: dict[str, ExchangeLabels] = {}
    for settled in map(settled_as, events):
        names = repr([getattr(settled.labels, name) for name in ExchangeLabels.__match_args__])
        yield replace(settled, labels=shared.setdefault(names, settled.labels))


def from_memory(events: Sequence[UsageEvent], query: UsageQuery) -> Any:
    runner = AtOnce()
    sums = UsageMemory(lambda: NOW, lambda: True)
    memory = EventMemory(runner, [sums])
    sums.full = memory.write
    sums.record_all(list(with_shared_labels(events)))
    return json.loads(result_of(ask_memory(EventQueries(runner), memory, query)))


def write_file(path: Path, events: Sequence[UsageEvent], closed_before: float = 0) -> None:
    table = UsageTable(str(path))
    table.open()
    table.add([encode(each) for each in events])
    while table.roll_up(hour_of(closed_before)):
        pass
    table.close()


def read_file(path: Path, query: UsageQuery) -> Any:
    return json.loads(result_of(ask_file(EventQueries(AtOnce()), str(path), query)))


def from_file(events: Sequence[UsageEvent], query: UsageQuery) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder, "usage.db")
        write_file(path, events)
        return read_file(path, query)


def from_hours(events: Sequence[UsageEvent], query: UsageQuery) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder, "usage.db")
        write_file(path, events, NOW + HOUR)
        return read_file(path, query)


def asked(hours: float, by: str | None = None, step: int = MINUTE) -> UsageQuery:
    return UsageQuery(int((NOW - hours * HOUR) * 1000), NOW * 1000, step, by)


counts = st.none() | st.integers(0, 2**40)
times = st.floats(0, 1000) | st.floats(0, 1e7)
names = (
    st.none()
    | st.sampled_from(["a", "b", "other", "a\ud800", "a?", "é" * 257, "'; --"])
    | st.text(max_size=3)
)
TAGS = st.sampled_from(["team", "a'b\"c", "other"])
BYS = st.sampled_from([*By, "tag:team", "tag:a'b\"c", "tag:nobody"])
drawn_events = st.lists(
    st.builds(
        event,
        time=st.floats(NOW - 5 * HOUR, NOW + 30),
        provider=st.none() | st.sampled_from(["main", "spare"]),
        model=names.filter(lambda name: name is None or "\0" not in name),
        client=st.none() | st.sampled_from(["team", "sha256:0123456789ab"]),
        error=st.none() | st.sampled_from(["reset", "dns"]),
        key_hash=st.none() | st.sampled_from(["0123456789ab"]),
        client_groups=st.none() | st.sampled_from([("research",), ("research", "ops"), ("other",)]),
        tags=st.none() | st.dictionaries(TAGS, st.sampled_from(["nlp", "é", "4711"]), min_size=1, max_size=2),
        status=st.sampled_from(Outcome),
        transport=st.sampled_from(["http", "websocket"]),
        route=st.sampled_from(["chat", "count_tokens", "complete"]),
        modality=st.sampled_from(["text", "realtime", "platform"]),
        stream=st.none() | st.booleans(),
        **dict.fromkeys(SUMMED, counts),
        cost_usd=st.none() | st.integers(0, 10**12).map(lambda whole: whole / NANODOLLARS),
        session_minutes=st.none() | st.floats(0, 600),
        latency_ms=times,
        ttft_ms=st.none() | times,
    ),
    max_size=30,
).map(
    lambda found: [
        event(**{name: getattr(each, name) for name in each.__struct_fields__} | {"request_id": str(number)})
        for number, each in enumerate(found)
    ]
)


@settings(deadline=None)
@given(
    drawn_events,
    st.none() | BYS,
    st.integers(0, 300),
    st.integers(1, 300),
    st.sampled_from([60, 120, 900, 3600, 7 * 86_400]),
)
def test_a_file_its_closed_hours_and_the_memory_say_the_same(
    events: list[UsageEvent], by: str | None, minutes_ago: int, minutes: int, step: int
) -> None:
    since = NOW - minutes_ago * MINUTE
    if minutes_ago > MINUTES:  # only the hour is known
        since -= since % HOUR
    until = min(since + minutes * MINUTE, NOW + HOUR)
    if until < NOW - MINUTES * MINUTE:
        until -= until % HOUR - HOUR
    query = UsageQuery(since * 1000, until * 1000, step if minutes_ago <= MINUTES else max(step, HOUR), by)
    found = from_file(events, query)
    assert from_memory(events, query) == found | {"source": "memory"}
    assert from_hours(events, query) == found
    within = [each for each in events if since <= int(each.time * 1000) / 1000 < until]
    assert found["totals"]["requests"] == len(within)


def test_events_that_are_alike_but_for_what_is_known_count_as_in_a_file() -> None:
    known = product(
        *((None, 7), (None, 3), (None, 2.5), (None, 0.25)),
        *((None, True, False), Outcome, ("http", "websocket"), ("chat", "count_tokens")),
    )
    names = (
        *("tokens_in", "tokens_out", "session_minutes", "cost_usd"),
        *("stream", "status", "transport", "route"),
    )
    events = [
        event(request_id=str(number), time=NOW - 1.0, **dict(zip(names, values, strict=True)))
        for number, values in enumerate(known)
    ]
    for by in (None, *By):
        query = asked(1, by)
        assert from_memory(events, query) == from_file(events, query) | {"source": "memory"}


@settings(deadline=None)
@given(drawn_events, BYS.filter(lambda by: by != By.GROUP))
def test_the_series_and_the_groups_add_up_to_the_totals(events: list[UsageEvent], by: str) -> None:
    answer = from_file(events, asked(5, by, HOUR))
    for name in (*COUNTED, *SUMMED):
        whole = answer["totals"].get(name, 0)
        assert sum(row.get(name, 0) for row in answer["series"]) == whole
        assert sum(row.get(name, 0) for row in answer["groups"]) == whole


@settings(deadline=None)
@given(drawn_events)
def test_the_lines_the_command_and_the_dashboard_agree(events: list[UsageEvent]) -> None:
    lines = [json.loads(encode(each)) for each in events]
    expected: dict[str, Any] = {}
    for name in SUMMED:
        values = [line[name] for line in lines if name in line]
        expected[name] = sum(values) if values else None
    costs = [nanodollars_of(line["cost_usd"]) for line in lines if "cost_usd" in line]
    expected["cost_usd"] = sum(costs) / NANODOLLARS if costs else None
    expected["requests"] = len(lines)
    for name, status in STATUSES.items():
        expected[name] = sum(line["status"] == status for line in lines)
    assert sum(expected[name] for name in STATUSES) == len(lines)
    with TemporaryDirectory() as folder:
        path = Path(folder, "usage.db")
        write_file(path, events)
        query = UsageQuery((NOW - 6 * HOUR) * 1000, (NOW + HOUR) * 1000, HOUR)
        totals = read_file(path, query)["totals"]
        (row,) = command(path)
    assert {name: row[name] for name in expected} == expected
    assert {name: totals.get(name) for name in expected} == expected
    assert totals.get("session_minutes") == row["session_minutes"]


def command(path: Path, by: str = "") -> Any:
    """What ``mgw usage`` prints, as JSON."""
    return json.loads(printed(path, by, "--format", "json"))


def printed(path: Path, by: str, *more: str) -> str:
    """What ``mgw usage`` prints."""
    import io
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as text:
        assert main(["usage", "--database", str(path), "--by", by, *more]) == 0
    return text.getvalue()


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_an_answer_has_what_was_asked_and_only_what_is_known(source: Any) -> None:
    answer = source(
        [event(time=NOW - 90.0, latency_ms=30.0, ttft_ms=None, cost_usd=0.000000001, model=None)],
        asked(1, By.MODEL),
    )
    assert answer["since"] == "2026-01-31T11:00:00.000Z"
    assert answer["until"] == "2026-01-31T12:00:00.000Z"
    assert (answer["step"], answer["by"]) == (60, "model")
    sums = {
        **dict.fromkeys(COUNTED, 0),
        "requests": 1,
        "answered": 1,
        "tokens_in": 12,
        "tokens_out": 0,
        "cost_usd": 1e-09,
        "latency_ms": 30.0,
        "latency_ms_p50": 29.421,
        "latency_ms_p95": 30.066,
    }
    assert answer["totals"] == sums
    assert answer["series"] == [{"time": "2026-01-31T11:58:00.000Z", **sums}]
    assert answer["groups"] == [sums]


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_the_most_asked_keys_have_a_place_and_the_rest_is_other(source: Any) -> None:
    events = [
        event(request_id=f"{number}-{time}", model=f"m{number:02}", time=NOW - time)
        for number in range(25)
        for time in range(1, 3 + number)
    ]
    answer = source(events, asked(1, By.MODEL, HOUR))
    keys = [row["key"] for row in answer["groups"]]
    assert keys == [f"m{number:02}" for number in reversed(range(25))]
    points = {row["key"]: row["requests"] for row in answer["series"]}
    assert set(points) == {f"m{number:02}" for number in range(5, 25)} | {"other"}
    assert points["other"] == sum(2 + number for number in range(5))


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_a_session_has_no_latency(source: Any) -> None:
    events = [event(time=NOW - 1.0, transport="websocket", latency_ms=600_000.0, session_minutes=10.0)]
    totals = source(events, asked(1))["totals"]
    assert totals["session_minutes"] == 10.0
    assert "latency_ms" not in totals


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_times_are_those_of_answered_requests(source: Any) -> None:
    events = [event(request_id="answered", time=NOW - 1.0, latency_ms=800.0, ttft_ms=300.0)]
    events += [
        event(request_id=status, time=NOW - 1.0, status=status, latency_ms=1.0, ttft_ms=1.0)
        for status in (Outcome.UPSTREAM_ERROR, Outcome.REJECTED, Outcome.CLIENT_ABORT)
    ]
    totals = source(events, asked(1))["totals"]
    assert (totals["latency_ms"], totals["ttft_ms"]) == (800.0, 300.0)
    assert totals["latency_ms_p50"] > 500


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_each_outcome_has_a_figure_of_its_own(source: Any) -> None:
    events = [
        event(request_id=f"{status}-{number}", time=NOW - 1.0, status=status)
        for times, status in enumerate(Outcome, 1)
        for number in range(times)
    ]
    (row,) = source(events, asked(1, By.PROVIDER))["groups"]
    assert {name: row[name] for name in COUNTED[:5]} == {
        "requests": 10,
        "answered": 1,
        "failed": 2,
        "aborted": 3,
        "rejected": 4,
    }


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_a_request_counts_in_each_group_of_its_client_and_once_in_the_totals(source: Any) -> None:
    groups = [("research",), ("research", "ops"), None]
    events = [
        event(request_id=f"{number}", time=NOW - 1.0, client_groups=names)
        for number, names in enumerate(groups)
    ]
    answer = source(events, asked(1, By.GROUP, HOUR))
    assert answer["by"] == "group"
    found = [(row.get("key"), row["requests"], row["tokens_in"]) for row in answer["groups"]]
    assert found == [("research", 2, 24), ("ops", 1, 12), (None, 1, 12)]
    assert (answer["totals"]["requests"], answer["totals"]["tokens_in"]) == (3, 36)
    assert sum(row["requests"] for row in answer["series"]) == 4


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_more_groups_than_a_series_has_are_other(source: Any) -> None:
    events = [
        event(request_id=f"{number}-{time}", client_groups=(f"g{number:02}",), time=NOW - time)
        for number in range(25)
        for time in range(1, 3 + number)
    ]
    answer = source(events, asked(1, By.GROUP, HOUR))
    assert [row["key"] for row in answer["groups"]] == [f"g{number:02}" for number in reversed(range(25))]
    assert {row["key"] for row in answer["series"]} == {f"g{number:02}" for number in range(5, 25)} | {
        "other"
    }
    assert answer["totals"]["requests"] == len(events)


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_requests_are_added_up_by_the_values_of_a_tag(source: Any) -> None:
    tags = [{"team": "nlp"}, {"team": "nlp", "cost_center": "1"}, {"cost_center": "2"}, None]
    events = [event(request_id=f"{number}", time=NOW - 1.0, tags=found) for number, found in enumerate(tags)]
    answer = source(events, asked(1, "tag:team"))
    assert answer["by"] == "tag:team"
    assert [(row.get("key"), row["requests"]) for row in answer["groups"]] == [("nlp", 2), (None, 2)]


def test_a_file_without_the_columns_has_no_groups_and_no_tags(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    write_file(path, [event(time=NOW - 1.0)])
    with closing(sqlite3.connect(path)) as file:
        file.execute("ALTER TABLE usage_events DROP COLUMN client_groups")
        file.execute("ALTER TABLE usage_events DROP COLUMN tags")
        file.execute("DROP TABLE usage_hours")
    for by in (By.GROUP, "tag:team"):
        answer = read_file(path, asked(1, by))
        assert [(row.get("key"), row["requests"]) for row in answer["groups"]] == [(None, 1)]


def test_what_another_program_has_written_is_no_group(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    write_file(path, [event(time=NOW - 1.0, client_groups=("research",), tags={"team": "nlp"})])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE usage_events SET client_groups = 'no JSON', tags = '{'")
    for by in (By.GROUP, "tag:team"):
        answer = read_file(path, asked(1, by))
        assert [(row.get("key"), row["requests"]) for row in answer["groups"]] == [(None, 1)]


def test_the_command_adds_up_by_group_and_tag(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    names = ("research", "ops")
    write_file(path, [event(time=NOW - 1.0, client_groups=names, tags={"team": "nlp"}, cost_usd=0.5)])
    rows = command(path, "group,tag:team")
    found = [(row["group"], row["tag:team"], row["requests"]) for row in rows]
    assert found == [("ops", "nlp", 1), ("research", "nlp", 1)]
    table = printed(path, "group")
    assert table.splitlines()[-1].split()[:2] == ["total", "1"], "not once for each group"


def test_without_a_file_or_a_table_the_answer_is_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    for name in ("empty.db", "none.db"):
        answer = read_file(tmp_path / name, asked(1, By.MODEL))
        assert answer["totals"] == dict.fromkeys(COUNTED, 0)
        assert (answer["series"], answer["groups"]) == ([], [])
    assert not (tmp_path / "none.db").exists()


def test_more_than_a_thousand_keys_are_other(tmp_path: Path) -> None:
    events = [event(request_id=f"{number}", model=f"m{number}", time=NOW - 1.0) for number in range(1005)]
    path = tmp_path / "usage.db"
    write_file(path, events)
    answer = read_file(path, asked(1, By.MODEL))
    assert len(answer["groups"]) == 1001
    assert answer["groups"][-1]["key"] == "other"
    assert answer["groups"][-1]["requests"] == 5
    assert answer["totals"]["requests"] == 1005


@pytest.mark.parametrize("source", [from_memory, from_file, from_hours])
def test_a_name_may_have_so_many_bytes_and_a_longer_one_is_other(source: Any) -> None:
    names = ["m" * MAX_KEY_BYTES, "é" * (MAX_KEY_BYTES // 2), "m" * (MAX_KEY_BYTES + 1)]
    events = [event(request_id=name, model=name, time=NOW - 1.0) for name in names]
    keys = [row["key"] for row in source(events, asked(1, By.MODEL))["groups"]]
    assert keys == [*sorted(names[:2]), "other"]
