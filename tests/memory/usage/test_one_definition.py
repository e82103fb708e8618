"""The dashboard, ``mgw usage``, the Grafana dashboard and the alerts say the same of the same events."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.cli.main import main
from mgw.dashboard.usage_query import By
from mgw.ops.metrics import Metrics
from mgw.ops.request_metrics import BUCKETS
from mgw.usage.event import Outcome, UsageEvent
from tests.memory.dashboard.test_usage_sources import NOW, asked, from_file, from_memory, write_file
from tests.support.monitoring import dashboard, expression_of_panel, page_of, rules
from tests.support.promql import Scrape, Vector, by_label
from tests.support.usage import event, settled_as

FAILED, REJECTED, ABORTED = Outcome.UPSTREAM_ERROR, Outcome.REJECTED, Outcome.CLIENT_ABORT
NOTHING: Final = {"tokens_in": None, "tokens_out": None, "ttft_ms": None}
REFUSED: Final = {"status": REJECTED, "latency_ms": 0.0, **NOTHING}
REALTIME: Final = {
    "route": "realtime_ws",
    "modality": "realtime",
    "transport": "websocket",
    "stream": None,
    "ttft_ms": None,
    "latency_ms": 300_000.0,
    "session_minutes": 5.0,
}
MIXTURE: Final[Sequence[tuple[int, str, Mapping[str, Any]]]] = (
    # Any: the fields of an event
    (40, "main", {"latency_ms": 800.0, "ttft_ms": 300.0}),
    (5, "main", {"latency_ms": 20_000.0, "ttft_ms": 4000.0, "stream": False}),
    (3, "main", {"tokens_in": None, "tokens_out": None, "latency_ms": 900.0}),
    (3, "main", {"status": FAILED, "error": "upstream_4xx", "http_status": 400, "latency_ms": 4.0}),
    (2, "main", {"status": FAILED, "error": "upstream_5xx", "http_status": 529, "latency_ms": 4.0}),
    (1, "main", {"status": FAILED, "error": "upstream_error_event", "latency_ms": 90_000.0}),
    (1, "main", {"status": FAILED, "error": "truncated", "latency_ms": 90_000.0}),
    (2, "spare", {"status": FAILED, "error": "refused_connection", "http_status": 502, **NOTHING}),
    (30, "main", {"error": "rate_limit_exceeded", "http_status": 429, **REFUSED}),
    (2, "spare", {"error": "unsupported_modality", "http_status": 403, **REFUSED}),
    (7, "", {"error": "model_not_found", "http_status": 404, "attempts": None, **REFUSED}),
    (1, "", {"error": "overloaded", "http_status": 503, "attempts": None, **REFUSED}),
    (4, "main", {"status": ABORTED, "error": "client_abort", "http_status": 499, **NOTHING}),
    (2, "main", {"status": ABORTED, "error": "client_abort", "http_status": 499, "latency_ms": 9.0}),
    (1, "", {"status": ABORTED, "error": "client_timeout", "http_status": 499, **NOTHING}),
    (2, "main", REALTIME),
    (1, "main", {**REALTIME, "status": FAILED, "error": "reset"}),
    (1, "spare", {**REALTIME, "status": ABORTED, "error": "client_abort"}),
    (3, "spare", {"route": "count_tokens", "stream": False, "latency_ms": 12.0, **NOTHING}),
    (1, "spare", {"latency_ms": 2000.0, "ttft_ms": 600.0, "cost_usd": 0.25}),
)
"""How often, at which provider, and what."""
EXPECTED: Final = {
    "main": {"requests": 94, "answered": 50, "failed": 8, "rejected": 30, "aborted": 6},
    "spare": {"requests": 9, "answered": 4, "failed": 2, "rejected": 2, "aborted": 1},
    None: {"requests": 9, "answered": 0, "failed": 0, "rejected": 8, "aborted": 1},
}
"""Counted by hand, by provider."""
UNPRICED: Final = {"main": 51, "spare": 1, None: 0}
UNCOUNTED: Final = {"main": 3, "spare": 0, None: 0}
P95_SECONDS: Final = {"main": (20.0, 4.0), "spare": (2.0, 0.6)}
"""Of the latency and of the time to the first byte."""
FIGURES: Final = ("requests", "answered", "failed", "rejected", "aborted")
Json = dict[str, Any]  # Any: JSON


def mixture() -> list[UsageEvent]:
    return [
        event(request_id=f"{row}-{number}", time=NOW - 60.0, provider=provider or None, **changes)
        for row, (times, provider, changes) in enumerate(MIXTURE)
        for number in range(times)
    ]


def said_of(row: Json, names: Sequence[str] = FIGURES) -> Json:
    return {name: row[name] for name in names}


def is_near(seconds: float, expected: float) -> bool:
    """Whether a percentile lies in the bucket of ``GET /metrics`` that has the value itself."""
    index = bisect_left(BUCKETS, expected)
    return (BUCKETS[index - 1] if index else 0.0) <= seconds <= BUCKETS[index]


@pytest.fixture
def scrape() -> Scrape:
    metrics = Metrics(frozenset({"chat", "count_tokens", "realtime_ws"}))
    metrics.reloaded(1, ["main", "spare"])
    metrics.record_all(map(settled_as, mixture()))
    return Scrape(page_of(metrics), {rule["record"]: rule["expr"] for rule in rules() if "record" in rule})


def of_provider(found: Vector) -> dict[str | None, float]:
    return {None if name == "none" else name: value for name, value in by_label(found, "provider").items()}


@pytest.mark.parametrize("source", [from_memory, from_file])
def test_the_dashboard_counts_each_request_in_one_figure(source: Any) -> None:
    overview = source(mixture(), asked(1))["totals"]
    assert said_of(overview) == {name: sum(row[name] for row in EXPECTED.values()) for name in FIGURES}
    assert overview["unpriced"] == sum(UNPRICED.values())
    assert overview["uncounted"] == sum(UNCOUNTED.values())
    providers = {row.get("key"): row for row in source(mixture(), asked(1, By.PROVIDER, 3600))["groups"]}
    assert {key: said_of(row) for key, row in providers.items()} == EXPECTED
    assert {key: row["unpriced"] for key, row in providers.items()} == UNPRICED
    assert {key: row["uncounted"] for key, row in providers.items()} == UNCOUNTED
    for name, (latency, ttft) in P95_SECONDS.items():
        assert is_near(providers[name]["latency_ms_p95"] / 1000, latency)
        assert is_near(providers[name]["ttft_ms_p95"] / 1000, ttft)
    assert "latency_ms" not in providers[None]


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "usage.db"
    write_file(path, mixture())
    assert main(["usage", "--database", str(path), "--by", "provider", "--format", "json"]) == 0
    rows = {row["provider"]: row for row in json.loads(capsys.readouterr().out)}
    assert {key: said_of(row) for key, row in rows.items()} == EXPECTED
    assert {key: row["unpriced"] for key, row in rows.items()} == UNPRICED
    assert {key: row["uncounted"] for key, row in rows.items()} == UNCOUNTED
    for name, (latency, ttft) in P95_SECONDS.items():
        assert is_near(rows[name]["latency_ms_p95"] / 1000, latency)
        assert is_near(rows[name]["ttft_ms_p95"] / 1000, ttft)
    assert rows[None]["latency_ms_p95"] is None


def test_the_board_says_the_same(scrape: Scrape) -> None:
    def ask(panel: str, legend: str | None = None) -> Vector:
        return scrape.ask(expression_of_panel(panel, legend))

    for panel, name in (("Failed, by provider", "failed"), ("Client left, by provider", "aborted")):
        expected = {key: row[name] for key, row in EXPECTED.items() if row[name]}
        assert of_provider(ask(panel)) == expected, panel
    requests = {key: row["requests"] for key, row in EXPECTED.items()}
    assert of_provider(ask("Requests by provider")) == requests
    outcomes = by_label(ask("Requests by outcome"), "outcome")
    names = {"ok": "answered", "upstream_error": "failed", "rejected": "rejected", "client_abort": "aborted"}
    assert {names[word]: count for word, count in outcomes.items()} == {
        name: sum(row[name] for row in EXPECTED.values()) for name in FIGURES[1:]
    }
    assert by_label(ask("Rejected, by reason"), "error") == {
        "rate_limit_exceeded": 30,
        "unsupported_modality": 2,
        "model_not_found": 7,
        "overloaded": 1,
    }
    assert sum(ask("Failures by cause").values()) == sum(row["failed"] for row in EXPECTED.values())
    rates = of_provider(ask("Failure rate by provider"))
    assert rates == {"main": pytest.approx(8 / 58), "spare": pytest.approx(2 / 6)}
    uncounted = of_provider(ask("Requests without a cost", "{{provider}}: stream without token counts"))
    assert uncounted == {key: count for key, count in UNCOUNTED.items() if count}


def test_the_board_shows_the_times_of_answered_requests(scrape: Scrape) -> None:
    ttft = of_provider(scrape.ask(expression_of_panel("Time to first byte (p95)")))
    latency = of_provider(scrape.ask(expression_of_panel("Duration (p99)").replace("0.99", "0.95")))
    assert set(latency) == set(ttft) == set(P95_SECONDS)
    for name, (expected, first) in P95_SECONDS.items():
        assert is_near(latency[name], expected)
        assert is_near(ttft[name], first)


def test_the_alerts_say_the_same(scrape: Scrape) -> None:
    """The providers fail, and the gateway's refusals neither cause that nor hide it."""
    record = "job_provider:mgw_upstream_errors:ratio_rate5m"
    assert of_provider(scrape.select(record)) == {
        name: pytest.approx(row["failed"] / (row["answered"] + row["failed"]))
        for name, row in EXPECTED.items()
        if row["failed"]
    }
    (alert,) = (rule["expr"] for rule in rules() if rule.get("alert") == "MgwProviderErrors")
    assert set(of_provider(scrape.ask(alert))) == {"main", "spare"}
    p99 = of_provider(scrape.select("job_provider:mgw_request_seconds:p99_5m"))
    assert set(p99) == {"main", "spare"}
    assert is_near(p99["main"], 20.0)


def test_the_board_paints_no_refusal_and_no_client_that_left_red() -> None:
    for panel in dashboard()["panels"]:
        colors = json.dumps(panel.get("fieldConfig", {}))
        if panel["title"].startswith(("Rejected, by", "Client left, by")):
            assert '"fixedColor": "' in colors, panel["title"]
            assert '"red"' not in colors, panel["title"]
