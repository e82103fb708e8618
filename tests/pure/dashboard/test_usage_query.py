"""What the dashboard's query for sums may say, and what it means."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dashboard.usage_query import (
    MAX_POINTS,
    MAX_POINTS_BY_KEY,
    USUAL_POINTS,
    By,
    UsageQuery,
    parse_usage_query,
    rfc3339,
)
from mgw.nouns.errors import GatewayError, Reason

NOW = 1_769_860_812.5
"""2026-01-31T12:00:12.500Z"""


def parsed(**parameters: str) -> UsageQuery:
    return parse_usage_query(parameters, NOW)


def test_without_arguments_it_is_the_last_hour_by_the_minute() -> None:
    query = parsed()
    assert rfc3339(query.since) == "2026-01-31T11:00:00.000Z"
    assert rfc3339(query.until) == "2026-01-31T12:00:12.500Z"
    assert (query.step, query.by) == (60, None)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-31T10:00:00Z", "2026-01-31T10:00:00.000Z"),
        ("2026-01-31T10:00:00.0259Z", "2026-01-31T10:00:00.025Z"),
        ("2026-01-31T11:30:00+01:30", "2026-01-31T10:00:00.000Z"),
        ("0999-01-01T00:00:00Z", "0999-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_read_to_the_millisecond(text: str, meant: str) -> None:
    assert rfc3339(parsed(since=text).since) == meant


@pytest.mark.parametrize(
    ("since", "step"),
    [
        ("2026-01-31T12:00:11Z", 1),
        ("2026-01-31T11:50:00Z", 10),
        ("2026-01-31T06:00:00Z", 300),
        ("2026-01-30T12:00:00Z", 900),
        ("2026-01-24T12:00:00Z", 7200),
        ("2026-01-01T12:00:00Z", 43_200),
        ("2016-01-01T12:00:00Z", 37 * 86_400),
    ],
)
def test_the_usual_step_is_a_round_number(since: str, step: int) -> None:
    assert parsed(since=since).step == step


@given(st.integers(min_value=1, max_value=9000 * 366 * 86_400_000))
def test_the_usual_step_never_makes_more_points_than_a_chart_shows(milliseconds: int) -> None:
    until = 253_402_300_799_000
    query = parsed(since=rfc3339(until - milliseconds), until=rfc3339(until))
    assert query.until - query.since <= query.step * 1000 * USUAL_POINTS


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"since": "yesterday"}, "since"),
        ({"since": ""}, "since"),
        ({"since": "2026-01-31T10:00:00"}, "since"),
        ({"since": "2026-01-31T10:00:00 01:30"}, "since"),
        ({"until": "9999-12-31T23:59:59-10:00"}, "until"),
        ({"since": "2026-01-31T12:00:12.500Z"}, "since"),
        ({"since": "2026-02-01T00:00:00Z"}, "since"),
        ({"until": "0001-01-01T00:00:00Z"}, "since"),
        ({"step": "0"}, "step"),
        ({"step": "-60"}, "step"),
        ({"step": "1.5"}, "step"),
        ({"step": "²"}, "step"),
        ({"step": "1000000000"}, "step"),
        ({"step": "2"}, "step"),
        ({"by": "day"}, "by"),
        ({"by": "\udcff"}, "by"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_not_repeated(arguments: dict[str, str], param: str) -> None:
    with pytest.raises(GatewayError) as refused:
        parsed(**arguments)
    error = refused.value
    assert (error.reason, error.param) == (Reason.MALFORMED, param)
    assert "yesterday" not in error.message


def test_points_are_counted_as_the_series_has_them() -> None:
    since, until = "2026-01-31T10:00:00.500Z", "2026-01-31T10:25:00Z"
    assert parsed(since=since, until=until, step="1").step == 1
    with pytest.raises(GatewayError, match=f"step 1 gives {MAX_POINTS + 1} points"):
        parsed(since=since, until="2026-01-31T10:25:00.001Z", step="1")


@pytest.mark.parametrize("by", By)
def test_a_series_by_keys_has_fewer_points_and_a_refusal_names_a_step_that_fits(by: By) -> None:
    arguments = {"since": "2026-01-30T12:00:00Z", "until": "2026-01-31T12:00:00Z", "by": by.value}
    assert parsed(**arguments | {"step": str(86_400 // MAX_POINTS_BY_KEY)}).by is by
    with pytest.raises(GatewayError, match=f"1440 points, .* {MAX_POINTS_BY_KEY}:") as refused:
        parsed(**arguments | {"step": "60"})
    fitting = re.search(r"use step (\d+) or more", refused.value.message)
    assert fitting is not None
    assert parsed(**arguments | {"step": fitting[1]}).step == int(fitting[1])


@given(
    st.integers(0, 10**12),
    st.integers(1, 10**12),
    st.integers(1, 10**6),
    st.none() | st.sampled_from([by.value for by in By]),
)
def test_the_step_that_a_refusal_names_is_taken(since: int, length: int, step: int, by: str | None) -> None:
    arguments = {"since": rfc3339(since), "until": rfc3339(since + length)} | (
        {} if by is None else {"by": by}
    )
    try:
        parsed(**arguments, step=str(step))
    except GatewayError as refused:
        fitting = re.search(r"use step (\d+) or more", refused.message)
        assert fitting is not None
        assert parsed(**arguments, step=fitting[1]).step > step


@pytest.mark.parametrize(
    "until", ["0001-01-01T00:00:00.001Z", "0001-01-01T02:00:00Z", "1969-12-31T23:59:59Z"]
)
@pytest.mark.parametrize("step", ["10", "60", "999999999"])
def test_the_last_hour_before_the_oldest_time_begins_there(until: str, step: str) -> None:
    query = parsed(until=until, step=step)
    assert rfc3339(query.since) < rfc3339(query.until)


@pytest.mark.parametrize("by", By)
def test_all_that_can_be_summed_by_is_known(by: By) -> None:
    assert parsed(by=by.value).by is by


def test_filters_are_values_of_fields() -> None:
    asked = {name: f"a {name}" for name in ("client", "provider", "model", "route", "error", "key")}
    query = parsed(**asked, status="upstream_error", by="key", other="left alone")
    assert query.filters == {**asked, "status": "upstream_error"}
    assert query.by is By.KEY
    assert parsed().filters == {}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("client", "", "client must not be empty; leave it out"),
        ("status", "503", "status must be one of ok, upstream_error, client_abort, rejected"),
    ],
)
def test_a_filter_that_no_event_can_match_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(GatewayError, match=words) as caught:
        parsed(**{name: value})
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, name)
