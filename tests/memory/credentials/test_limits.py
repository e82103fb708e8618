"""How long accounts rest."""

from __future__ import annotations

import pytest

from mgw.credentials.subscription.limits import cooldown_seconds
from mgw.wire.headers import RawHeaders
from tests.support.subscriptions import PROFILE, profile

NOW = 1_800_000_000.0
LIMITS = profile(
    PROFILE
    + """
limits:
  reset_headers:
    - {name: x-reset}
    - {name: x-reset-at, format: rfc3339}
    - {name: x-reset-in, format: seconds}
  rest_seconds: 45
"""
).limits


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], 45),
        ([(b"Retry-After", b"7")], 7),
        ([(b"retry-after", b"0")], 1),
        ([(b"retry-after", b"604800")], 604800),
        ([(b"retry-after", b"Fri, 15 Jan 2027 08:01:00 GMT")], 60),
        ([(b"retry-after", b"7"), (b"x-reset", b"1800000099")], 7),
        ([(b"retry-after", b"soon"), (b"x-reset", b"1800000099")], 99),
        ([(b"X-Reset", b"1800000099.5")], 99.5),
        ([(b"x-reset", b"1799999999"), (b"x-reset-in", b"12s")], 12),
        ([(b"x-reset", b"1800000099000")], 45),
        ([(b"x-reset", b"nan")], 45),
        ([(b"x-reset-at", b"2027-01-15T08:05:00Z")], 300),
        ([(b"x-reset-at", b"2027-01-15T09:05:00+01:00")], 300),
        ([(b"x-reset-at", b"2027-01-15T08:05:00")], 300),
        ([(b"x-reset-at", b"tomorrow")], 45),
        ([(b"x-reset-in", b"12.5")], 12.5),
        ([(b"x-reset-in", b"-3")], 45),
    ],
)
def test_a_rest_is_as_long_as_the_provider_says(headers: RawHeaders, seconds: float) -> None:
    assert cooldown_seconds(headers, LIMITS, NOW) == seconds
