"""What the dashboard's API tells of limits and of keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from functools import partial
from time import process_time
from typing import Any, Final, TypeVar

import pytest
from twisted.internet.defer import Deferred, succeed

from mgw.clients.key_rows import IN_CONFIG, IN_DIRECTORY, KeyRow
from mgw.clients.limits import LIMITS_BY_NAME, RowState
from mgw.dashboard.limits import MAX_EACH_ROWS, DashboardLimits, render_limits
from mgw.dashboard.openapi import SCHEMAS
from mgw.nouns.key_state import KeyState
from tests.support.configs import THREE_FAMILIES
from tests.support.dashboards import DashboardHarness

T = TypeVar("T")
TEXT: Final = THREE_FAMILIES + "dashboard: {enabled: true, keys: [a-key-of-the-dashboard]}\n"
KEY: Final = "Authorization: Bearer a-key-of-the-dashboard"


def read(harness: DashboardHarness, name: str) -> Any:  # Any: JSON
    response = harness.ask(f"/v1/dashboard/{name}", KEY)
    assert response.status == 200
    found = json.loads(response.body)
    described = SCHEMAS[name.partition("?")[0]]["properties"][name.partition("?")[0]]["items"]
    for row in found[name.partition("?")[0]]:
        assert set(described["required"]) <= set(row) <= set(described["properties"])
    return found


def test_limits_are_told_as_the_command_shows_them() -> None:
    harness = DashboardHarness(TEXT)
    assert read(harness, "limits") == {"limits": []}
    harness.limits = [
        RowState("alice", LIMITS_BY_NAME["usd_per_month"], "2026-11", 5 * 10**8, 0, 10**10, 1_796_083_200.0),
        RowState("gateway", LIMITS_BY_NAME["tokens_total"], "total", 7, 2, 10, None),
    ]
    assert read(harness, "limits")["limits"] == [
        {
            "holder": "alice",
            "limit": "usd_per_month",
            "period": "2026-11",
            "used": 0.5,
            "reserved": 0,
            "max": 10,
            "resets": "2026-12-01T00:00:00Z",
        },
        {
            "holder": "gateway",
            "limit": "tokens_total",
            "period": "total",
            "used": 7,
            "reserved": 2,
            "max": 10,
        },
    ]


def test_limits_reset_in_the_time_zone_of_their_periods() -> None:
    harness = DashboardHarness(TEXT + "edge_auth: {timezone: America/New_York}\n")
    month = LIMITS_BY_NAME["usd_per_month"]
    harness.limits = [RowState("alice", month, "2026-11", 1, 0, 10**10, 1_796_101_200.0)]
    assert read(harness, "limits")["limits"][0]["resets"] == "2026-12-01T00:00:00-05:00"


def test_keys_are_told_without_anything_secret() -> None:
    harness = DashboardHarness(TEXT)
    harness.keys = [
        KeyRow(
            *("alice", KeyState.ACTIVE, IN_CONFIG, ("research",), "2027-03-31T22:00:00Z"),
            previous_expires="2026-12-01T00:00:00Z",
        ),
        KeyRow("bob", KeyState.INVALID, IN_DIRECTORY),
    ]
    assert read(harness, "keys")["keys"] == [
        {
            "name": "alice",
            "state": "active",
            "where": "config",
            "groups": ["research"],
            "expires": "2027-03-31T22:00:00Z",
            "previous_expires": "2026-12-01T00:00:00Z",
        },
        {"name": "bob", "state": "invalid", "where": "keys_dir"},
    ]


def test_neither_is_told_without_a_key() -> None:
    harness = DashboardHarness(TEXT)
    for name in ("limits", "keys"):
        assert harness.ask(f"/v1/dashboard/{name}").status == 401


def each_row(number: int, used: int, most: int | None = 1_000_000) -> RowState:
    holder = f"group:research/corp:Person{number:06}@example.com"
    return RowState(holder, LIMITS_BY_NAME["tokens_per_day"], "2026-11-29", used, 0, most, 2e9)


def test_of_rows_of_each_client_those_with_the_largest_share_are_told() -> None:
    harness = DashboardHarness(TEXT)
    shared = RowState("group:research", LIMITS_BY_NAME["usd_per_month"], "2026-11", 0, 0, 10**10, 2e9)
    harness.limits = [shared, *(each_row(number, number) for number in range(MAX_EACH_ROWS))]
    found = read(harness, "limits")
    assert (len(found["limits"]), "omitted" in found) == (MAX_EACH_ROWS + 1, False)
    harness.limits.append(each_row(0, 999_999, None))
    found = read(harness, "limits")
    assert (len(found["limits"]), found["omitted"]) == (MAX_EACH_ROWS + 1, 1)
    assert [row["used"] for row in found["limits"]] == [0, *range(MAX_EACH_ROWS)]
    harness.limits.append(each_row(1, 500, 600))
    found = read(harness, "limits")
    assert (found["omitted"], found["limits"][-1]["used"]) == (2, 500)
    assert [row["used"] for row in found["limits"][:2]] == [0, 1]


def test_a_search_finds_what_is_left_out() -> None:
    harness = DashboardHarness(TEXT)
    harness.limits = [each_row(number, 9000 - number) for number in range(3 * MAX_EACH_ROWS)]
    (row,) = read(harness, "limits?search=pErson002999%40")["limits"]
    assert row["holder"] == "group:research/corp:Person002999@example.com"
    assert read(harness, "limits?search=nobody") == {"limits": []}


def test_many_rows_are_answered_in_a_thread() -> None:
    states = [each_row(number, number) for number in range(MAX_EACH_ROWS + 1)]
    offloaded: list[object] = []

    def offload(work: Callable[[], T], /) -> Deferred[T]:
        offloaded.append(work)
        return succeed(work())

    for count, threads in ((MAX_EACH_ROWS, 0), (MAX_EACH_ROWS + 1, 1)):
        limits = DashboardLimits(partial(succeed, states[:count]), lambda: UTC, offload)
        assert Deferred.fromCoroutine(limits.answer({})).called
        assert len(offloaded) == threads


@pytest.mark.parametrize("count", [100_000])
def test_a_hundred_thousand_rows_take_no_time(count: int) -> None:
    states = [each_row(number, number) for number in range(count)]
    began = process_time()
    assert len(render_limits(states, UTC, "")) < 300_000
    assert len(render_limits(states, UTC, "person")) < 300_000
    assert process_time() - began < 2
