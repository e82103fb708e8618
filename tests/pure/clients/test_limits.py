"""The rows of limits: what settings ask for, and what one of several may use alone."""

from __future__ import annotations

import pytest

from mgw.clients.limits import LIMITS, Limit, Limits, Unit, share_of_limits
from mgw.clients.period import Window
from mgw.config.problems import LIMITS_OF_KEYS
from tests.support.counting import limits


@pytest.mark.parametrize(
    ("whole", "parts", "share"),
    [
        ((), 3, ()),
        (limits(requests_per_minute=10, max_in_flight=5), 1, limits(requests_per_minute=10, max_in_flight=5)),
        (limits(requests_per_minute=10, max_in_flight=5), 3, limits(requests_per_minute=3, max_in_flight=1)),
        (limits(tokens_per_minute=100), 3, limits(tokens_per_minute=33)),
        (limits(max_in_flight=2), 3, limits(max_in_flight=1)),
    ],
)
def test_a_share_is_rounded_down_and_at_least_one(whole: Limits, parts: int, share: Limits) -> None:
    assert share_of_limits(whole, parts) == share


def test_every_limit_of_a_key_is_a_row() -> None:
    assert set(LIMITS_OF_KEYS) <= {limit.name for limit in LIMITS}


def test_settings_without_a_value_are_no_limits() -> None:
    found = limits(tokens_per_minute=None, requests_per_minute=2, max_in_flight=1)
    assert [(row.limit.name, row.most) for row in found] == [("max_in_flight", 1), ("requests_per_minute", 2)]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_what_is_in_flight_has_no_window_and_everything_else_has_one(limit: Limit) -> None:
    assert (limit.unit is Unit.IN_FLIGHT) == (limit.window is Window.NONE)
