"""What the query of a list of requests may say, and what it means."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dashboard.request_list import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    PARAMETERS,
    cursor_of,
    parse_request_query,
)
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event_search import FILTERS, EventPosition, EventSearch


def refused(**parameters: str) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        parse_request_query(parameters)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def test_without_parameters_it_is_the_newest_hundred() -> None:
    assert parse_request_query({}) == EventSearch(limit=DEFAULT_LIMIT)


def test_each_parameter_has_its_meaning() -> None:
    cursor = cursor_of(EventPosition("2026-01-31T10:00:00.000Z", "req_1"))
    query = parse_request_query(
        {
            "since": "2026-01-31T11:00:00+01:00",
            "until": "2026-01-31T12:00:00.5Z",
            "status": "5xx",
            "key": "0123456789ab",
            "client": "team",
            "limit": "500",
            "cursor": cursor,
        }
    )
    assert query == EventSearch(
        since="2026-01-31T10:00:00.000Z",
        until="2026-01-31T12:00:00.500Z",
        status="5xx",
        exact=(("client", "team"), ("key_hash", "0123456789ab")),
        after=EventPosition("2026-01-31T10:00:00.000Z", "req_1"),
        limit=500,
    )


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_is_a_parameter(name: str) -> None:
    assert parse_request_query({name: "x"}).exact == ((FILTERS[name], "x"),)


def test_an_unknown_parameter_is_refused_with_the_known_ones() -> None:
    error = refused(clients="team")
    assert error.param is None
    assert error.message == f"unknown parameter; expected one of {', '.join(PARAMETERS)}"


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_empty_value_is_refused(name: str) -> None:
    error = refused(**{name: ""})
    assert error.param == name
    assert error.message.startswith(f"{name} must not be empty")


@pytest.mark.parametrize("text", ["OK", "5x", "600", "-1", "failed"])
def test_a_status_that_is_none_is_refused(text: str) -> None:
    error = refused(status=text)
    assert error.param == "status"
    assert "ok, upstream_error, client_abort, rejected" in error.message


@pytest.mark.parametrize("text", ["501", "-1", "1.5", "9999", "٥", "many"])
def test_a_limit_is_a_number_within_bounds(text: str) -> None:
    assert refused(limit=text).message == f"limit must be a whole number from 0 to {MAX_LIMIT}"


def test_times_are_whole_and_in_order() -> None:
    assert refused(since="yesterday").param == "since"
    assert refused(until="2026-01-31").param == "until"
    both = {"since": "2026-01-31T12:00:00Z", "until": "2026-01-31T12:00:00Z"}
    assert refused(**both).message == "since must be before until"


@given(st.text(), st.text())
def test_a_cursor_leads_back_to_its_place(time: str, request_id: str) -> None:
    position = EventPosition(
        time[:40].encode("utf-8", "replace").decode(), request_id[:40].encode("utf-8", "replace").decode()
    )
    cursor = cursor_of(position)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)
    assert parse_request_query({"cursor": cursor}).after == position


def damaged(cursor: str) -> list[str]:
    raw = urlsafe_b64encode(b'["2026-01-31T10:00:00.000Z","x"]').decode().rstrip("=")
    cut = [cursor[:-1], cursor[1:], cursor + "A", cursor + "=", " " + cursor, cursor + "!", cursor * 40]
    changed = [
        cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :] for at in range(len(cursor))
    ]
    return [*cut, *changed, raw, "x", "ü", "AAAAAAAA", "null"]


def test_a_cursor_that_was_cut_changed_or_made_up_is_refused() -> None:
    for text in damaged(cursor_of(EventPosition("2026-01-31T10:00:00.000Z", "req_1"))):
        error = refused(cursor=text)
        assert error.param == "cursor"
        assert "`next`" in error.message
