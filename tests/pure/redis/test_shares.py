"""What one host may do of a limit while nobody counts for all of them."""

from __future__ import annotations

import pytest

from mgw.clients.limits import Limits
from mgw.redis.counts import share_of_limits


@pytest.mark.parametrize(
    ("limits", "hosts", "share"),
    [
        (Limits(), 3, Limits()),
        (Limits(10, 100, 5), 1, Limits(10, 100, 5)),
        (Limits(10, 100, 5), 3, Limits(3, 33, 1)),
        (Limits(max_in_flight=2), 3, Limits(max_in_flight=1)),
    ],
)
def test_a_share_is_rounded_down_and_at_least_one(limits: Limits, hosts: int, share: Limits) -> None:
    assert share_of_limits(limits, hosts) == share
