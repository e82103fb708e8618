"""What the dashboard's API tells of limits and of keys."""

from __future__ import annotations

import json
from typing import Any, Final

from mgw.clients.key_rows import IN_CONFIG, IN_DIRECTORY, KeyRow
from mgw.clients.limits import LIMITS_BY_NAME, RowState
from mgw.dashboard.openapi import SCHEMAS
from mgw.nouns.key_state import KeyState
from tests.support.configs import THREE_FAMILIES
from tests.support.dashboards import DashboardHarness

TEXT: Final = THREE_FAMILIES + "dashboard: {enabled: true, keys: [a-key-of-the-dashboard]}\n"
KEY: Final = "Authorization: Bearer a-key-of-the-dashboard"


def read(harness: DashboardHarness, name: str) -> Any:  # Any: JSON
    response = harness.ask(f"/v1/dashboard/{name}", KEY)
    assert response.status == 200
    found = json.loads(response.body)
    described = SCHEMAS[name]["properties"][name]["items"]
    for row in found[name]:
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
