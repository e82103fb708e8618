"""What is shown of limits: the rows of the configuration, used or not, and others as far as they are used."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec import json

from mgw.clients.client_refusals import limit_refusal
from mgw.clients.key_rows import IN_CONFIG, IN_DIRECTORY, file_rows, key_row
from mgw.clients.limit_report import configured_rows, report_rows, show_state
from mgw.clients.limits import LIMITS_BY_NAME, LimitReached, RowState
from mgw.config.key_settings import NamedKeySettings, PreviousKeySettings
from mgw.config.settings import Config
from mgw.config.time_zones import parse_expiry, zone_of
from mgw.nouns.key_state import KeyState
from mgw.nouns.secret import Secret
from tests.support.configs import THREE_FAMILIES, config

NOW: Final = 1_795_867_200.0
"""2026-11-28T12:00:00Z."""
LIMITED: Final[Config] = config(
    THREE_FAMILIES
    + """
prices: {rows: []}
edge_auth:
  enabled: true
  timezone: Europe/Berlin
  limits: [{usd: 2000, per: month}, {usd: 25, per: day, each: true}, {requests: 9, per: minute}]
  groups:
    research: {limits: [{tokens: 2000000, per: week}, {requests: 5, per: day, each: true}]}
    unused: {limits: [{requests: 7, per: total}]}
  keys:
    - name: alice
      key: sk-alice-00000000000000000000
      groups: [research]
      expires: 2027-03-31
      limits: [{requests: 10, per: day}, {requests: 8, per: day, action: warn}, {in_flight: 3}]
"""
)


def state(holder: str, name: str, period: str, used: int, most: int | None = 1, held: int = 0) -> RowState:
    return RowState(holder, LIMITS_BY_NAME[name], period, used, held, most, 1.0)


def report(*states: RowState) -> list[tuple[str, str, str, int, int | None]]:
    found = report_rows(configured_rows(LIMITED.edge_auth), states, NOW)
    return [(row.holder, row.limit.name, row.period, row.used, row.most) for row in found]


UNUSED: Final = [
    ("gateway", "usd_per_month", "2026-11", 0, 2000 * 10**9),
    ("group:research", "tokens_per_week", "2026-W48", 0, 2_000_000),
    ("group:unused", "requests_total", "total", 0, 7),
    ("alice", "requests_per_day", "2026-11-28", 0, 10),
    ("alice", "requests_per_day", "2026-11-28", 0, 8),
]


def test_rows_that_nobody_has_used_are_there_in_the_order_of_the_configuration() -> None:
    assert report() == UNUSED


def test_what_was_counted_stands_at_its_row_with_what_that_allows_now() -> None:
    found = report(state("alice", "requests_per_day", "2026-11-28", 4, most=99))
    assert found == [*UNUSED[:3], ("alice", "requests_per_day", "2026-11-28", 4, 10), UNUSED[4]]


def test_rows_of_each_client_are_there_once_they_are_used() -> None:
    found = report(
        state("group:research/alice", "requests_per_day", "2026-11-28", 1, most=5),
        state("gateway/alice", "usd_per_day", "2026-11-28", 0, most=25),
        state("gateway/bob", "usd_per_day", "2026-11-28", 0, most=25, held=7),
    )
    assert found == [
        *UNUSED,
        ("gateway/bob", "usd_per_day", "2026-11-28", 0, 25),
        ("group:research/alice", "requests_per_day", "2026-11-28", 1, 5),
    ]


def test_a_row_that_is_configured_no_more_is_left_out() -> None:
    assert report(state("group:gone", "requests_per_day", "2026-11-28", 3)) == UNUSED


def test_rows_of_further_keys_are_there() -> None:
    key = NamedKeySettings.model_validate({"name": "bob", "sha256": "0" * 64, "limits": []})
    limited = key.model_copy(update={"limits": LIMITED.edge_auth.named[0].limits[:1]})
    rows = configured_rows(LIMITED.edge_auth, [limited])
    assert [row.holder for row in rows][-1] == "bob"


def test_a_row_is_shown_in_its_unit_with_the_end_of_its_period() -> None:
    row = RowState("alice", LIMITS_BY_NAME["usd_per_month"], "2026-11", 1_500_000_001, 10**9, 5 * 10**9, NOW)
    assert show_state(row) == {
        "holder": "alice",
        "limit": "usd_per_month",
        "period": "2026-11",
        "used": 1.500000001,
        "reserved": 1,
        "max": 5,
        "resets": "2026-11-28T12:00:00Z",
    }
    assert isinstance(show_state(row)["max"], int), "a whole number of dollars"


@pytest.mark.parametrize(
    ("zone", "shown"), [("Europe/Berlin", "2026-11-28T13:00:00+01:00"), ("UTC", "2026-11-28T12:00:00Z")]
)
def test_a_refusal_and_a_listing_name_the_same_moment_in_the_same_words(zone: str, shown: str) -> None:
    limit = LIMITS_BY_NAME["usd_per_month"]
    row = RowState("alice", limit, "2026-11", 0, 0, 1, NOW)
    assert show_state(row, zone_of(zone))["resets"] == shown
    refusal = limit_refusal(LimitReached("alice", limit, 1, 5.0, NOW), zone)
    assert str(refusal).endswith(f"it resets at {shown}")


def test_files_that_are_no_keys_are_listed_by_names_that_can_be_shown() -> None:
    (key,) = LIMITED.edge_auth.named
    faults = ["", "zoe", "alice", "a\udcff\n\x1b[31m", f"mgw_{'x7Y' * 12}"]
    rows = file_rows({"alice": key}, faults, NOW, zone_of("UTC"))
    assert [(row.name, row.state) for row in rows] == [
        (r"a\udcff\n\x1b[31m", KeyState.INVALID),
        ("alice", KeyState.ACTIVE),
        ("zoe", KeyState.INVALID),
        ("…", KeyState.INVALID),
    ]
    json.encode([row.name for row in rows])


def test_a_row_without_an_end_or_a_maximum_says_neither() -> None:
    row = RowState("alice", LIMITS_BY_NAME["tokens_total"], "total", 7, 0, None, None)
    assert show_state(row) == {
        "holder": "alice",
        "limit": "tokens_total",
        "period": "total",
        "used": 7,
        "reserved": 0,
    }


def test_a_key_is_listed_with_its_state_and_end() -> None:
    (key,) = LIMITED.edge_auth.named
    row = key_row(key, NOW, zone_of("Europe/Berlin"), IN_CONFIG)
    assert (row.name, row.state, row.groups) == ("alice", KeyState.ACTIVE, ("research",))
    assert (row.where, row.expires) == ("config", "2027-03-31T22:00:00Z")
    late = parse_expiry("2026-11-28T12:00:00Z")
    expired = key.model_copy(update={"expires": late, "disabled": False})
    assert key_row(expired, NOW, zone_of("UTC"), IN_DIRECTORY).state is KeyState.EXPIRED


def test_the_key_before_a_rotation_is_listed_with_its_end_or_that_of_both() -> None:
    (key,) = LIMITED.edge_auth.named
    for stated, expected in [
        ("2026-12-24", "2026-12-24T23:00:00Z"),
        ("2030-01-01", "2027-03-31T22:00:00Z"),
        ("2020-01-01", None),
    ]:
        previous = PreviousKeySettings(sha256=Secret("a" * 64), expires=parse_expiry(stated))
        rotated = key.model_copy(update={"previous": previous})
        assert key_row(rotated, NOW, zone_of("Europe/Berlin"), IN_CONFIG).previous_expires == expected
