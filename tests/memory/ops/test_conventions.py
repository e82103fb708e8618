"""Every metric is named and written as Prometheus wants it, in both formats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.metrics_lint import problems
from tests.support.monitoring import metrics_with_everything, page_of

OPEN = b"application/openmetrics-text; version=1.0.0"


@pytest.mark.parametrize("provider", ["main", 'a"b\\c\nd', "{},=", "ü"])
@pytest.mark.parametrize("accept", [None, OPEN])
def test_a_page_keeps_the_rules(tmp_path: Path, provider: str, accept: bytes | None) -> None:
    page = page_of(metrics_with_everything(tmp_path, provider), accept)
    assert problems(page, openmetrics=accept is OPEN) == []


def test_every_family_has_a_sample_in_that_page(tmp_path: Path) -> None:
    """Else the rules above, and the test of the dashboard, would not see its labels."""
    page = page_of(metrics_with_everything(tmp_path))
    families = re.findall(r"^# TYPE (\w+)", page, re.MULTILINE)
    assert not [name for name in families if not re.search(rf"^{name}(_count)?[{{ ]", page, re.MULTILINE)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mgw_requests_total", "mgw_requests"),
        ("mgw_requests_in_flight", "mgw_requests_in_flight_total"),
        ("mgw_request_seconds", "mgw_request_milliseconds"),
        ("mgw_request_seconds", "mgw_request_histogram_seconds"),
        ("mgw_draining", "mgw:draining"),
        ("mgw_draining", "mgwDraining"),
        ("# HELP mgw_draining 1 while the gateway is stopping, else 0.", "# HELP mgw_draining "),
        ("# TYPE mgw_draining gauge", "# TYPE mgw_draining gauge\n# TYPE mgw_draining gauge"),
        ("mgw_draining 0.0", "mgw_draining 0.0\nmgw_draining 0.0"),
        ('le="0.005"', 'le="700"'),
        ('_bucket{le="0.001"} 0.0', '_bucket{le="0.001"} 9.0'),
        ('place="memory"', 'place="mem"ory"'),
        ('place="memory"', 'place="mem\\ory"'),
        ('place="memory"', 'instance="memory"'),
        ("mgw_event_loop_delay_seconds_sum 0.0\n", ""),
        ("mgw_usage_spool_bytes 0.0", "mgw_usage_spool_bytes_sum 0.0"),
    ],
)
def test_a_page_that_breaks_a_rule_is_noticed(tmp_path: Path, before: str, after: str) -> None:
    page = page_of(metrics_with_everything(tmp_path))
    assert before in page
    assert problems(page.replace(before, after))
