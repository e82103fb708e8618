"""The numbers agree with the events, their labels are bounded, and standard parsers read them."""

from __future__ import annotations

from itertools import repeat
from pathlib import Path

import pytest
from msgspec import structs
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.clients.limits import LIMITS_BY_NAME, RowState
from mgw.ops import prometheus
from mgw.ops.exposition import BATCH_SAMPLES, Exposition
from mgw.ops.metrics import EDGE_REASONS, Metrics
from mgw.ops.request_metrics import BUCKETS
from mgw.ops.state_metrics import StateMetrics
from mgw.usage.event import FIELDS, Outcome, UsageEvent
from mgw.usage.journal import Journal, SinkCounts
from mgw.usage.price_row import Unpriced
from tests.support.counting import Counting
from tests.support.deferreds import result_of
from tests.support.usage import MemorySink, event, exchange, settled_as

SESSION = event(route="realtime_ws", transport="websocket", ttft_ms=None, session_minutes=1.5, bytes_in=3)


def metrics_after(*events: UsageEvent) -> Metrics:
    """The metrics of a process that saw these events."""
    metrics = Metrics(frozenset({"chat", "messages"}))
    metrics.reloaded(1, ["main", "other-host"])
    metrics.record_all(map(settled_as, events))
    return metrics


def rendered(metrics: Metrics, accept: bytes | None = None) -> tuple[bytes, bytes]:
    """The media type and the text of a scrape."""
    media_type, parts = result_of(Deferred.fromCoroutine(metrics.render(accept)))
    return media_type, b"".join(parts)


def families(metrics: Metrics) -> dict[str, Metric]:
    """What a scraper reads, by name of family."""
    _, text = rendered(metrics)
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """The one sample of that name and these labels; ``None`` if there is none.

    Nobody has a name where no client is given.
    """
    found = [
        sample.value
        for family in families(metrics).values()
        for sample in family.samples
        if sample.name == name and sample.labels in (labels, {"client": "none", **labels})
    ]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize("metric", sorted({field.about.metric for field in FIELDS if field.about.metric}))
def test_each_metric_that_the_table_of_fields_names_exists(metric: str) -> None:
    name, _, label = metric.partition(" ")
    found = families(metrics_after(event(error="reset"), event(attempts=2, cost_usd=0.1), SESSION))
    if label:
        assert label in found["mgw_requests"].samples[0].labels
    else:
        assert found[name.removesuffix("_total")].samples


def test_requests_are_counted_by_route_provider_status_class_and_outcome() -> None:
    metrics = metrics_after(event(), event(), event(http_status=429, status=Outcome.UPSTREAM_ERROR))
    labels = {"route": "chat", "provider": "main"}
    assert value(metrics, "mgw_requests_total", status_class="2xx", outcome="ok", **labels) == 2
    assert value(metrics, "mgw_requests_total", status_class="4xx", outcome="upstream_error", **labels) == 1


@pytest.mark.parametrize(
    ("provider", "error", "status", "labels"),
    [
        ("main", "reset", Outcome.UPSTREAM_ERROR, ("main", "reset")),
        (None, "model_not_found", Outcome.REJECTED, ("none", "model_not_found")),
        ("main", "made_up", Outcome.UPSTREAM_ERROR, ("main", "other")),
        ("stranger", "dns", Outcome.UPSTREAM_ERROR, ("other", "dns")),
        ("main", "client_abort", Outcome.CLIENT_ABORT, ("main", "client_abort")),
    ],
)
def test_what_did_not_end_well_is_counted_by_why_in_bounded_labels(
    provider: str | None, error: str, status: Outcome, labels: tuple[str, str]
) -> None:
    metrics = metrics_after(event(provider=provider, error=error, status=status), event())
    stated = dict(zip(("provider", "error"), labels, strict=True))
    assert value(metrics, "mgw_request_errors_total", outcome=status, **stated) == 1
    assert len(families(metrics)["mgw_request_errors"].samples) == 1


@pytest.mark.parametrize(
    ("direction", "count"), [("in", 30), ("out", 5), ("cache_read", 10), ("cache_write", 2), ("reasoning", 4)]
)
def test_tokens_are_counted_by_provider_and_direction(direction: str, count: int) -> None:
    metrics = metrics_after(
        event(tokens_in=10, tokens_out=5, cache_read_tokens=10, cache_write_tokens=2, reasoning_tokens=4),
        event(tokens_in=20, tokens_out=None),
        event(tokens_in=None, tokens_out=None, provider="other-host"),
    )
    assert value(metrics, "mgw_tokens_total", provider="main", direction=direction) == count
    assert value(metrics, "mgw_tokens_total", provider="other-host", direction=direction) == 0


@pytest.mark.parametrize(
    ("latency_ms", "le"), [(0.0, "0.005"), (5.0, "0.005"), (5.1, "0.01"), (600_000.0, "600.0"), (1e9, "+Inf")]
)
def test_a_latency_falls_into_the_first_bucket_that_holds_it(latency_ms: float, le: str) -> None:
    metrics = metrics_after(event(latency_ms=latency_ms))
    bounds = [*map(str, BUCKETS), "+Inf"]
    for bound in bounds:
        expected = 1 if bounds.index(bound) >= bounds.index(le) else 0
        labels = {"route": "chat", "provider": "main", "le": bound}
        assert value(metrics, "mgw_request_seconds_bucket", **labels) == expected


def test_a_histogram_has_its_sum_and_count() -> None:
    metrics = metrics_after(event(latency_ms=250.0), event(latency_ms=500.0))
    assert value(metrics, "mgw_request_seconds_sum", route="chat", provider="main") == 0.75
    assert value(metrics, "mgw_request_seconds_count", route="chat", provider="main") == 2


def test_the_first_byte_is_timed_only_where_there_was_one() -> None:
    metrics = metrics_after(event(ttft_ms=100.0), event(ttft_ms=None))
    labels = {"route": "chat", "provider": "main"}
    assert value(metrics, "mgw_time_to_first_byte_seconds_count", **labels) == 1
    assert value(metrics, "mgw_request_seconds_count", **labels) == 2


def test_labels_and_memory_are_bounded_whatever_comes() -> None:
    metrics = metrics_after(
        *(
            event(route=f"r{number}", provider=f"p{number}", http_status=number, model=f"m{number}")
            for number in range(3000)
        )
    )
    found = {tuple(sample.labels.values()) for sample in families(metrics)["mgw_requests"].samples}
    assert found == {
        # as the parser sorts them: client, outcome, provider, route, status
        ("none", "ok", "other", "other", status_class)
        for status_class in ("1xx", "2xx", "3xx", "4xx", "5xx", "other")
    }
    assert not metrics.requests._known


def test_ten_thousand_invented_clients_are_one_label() -> None:
    metrics = metrics_after(*(event(client=f"client-{number}") for number in range(10_000)))
    found = {sample.labels["client"] for sample in families(metrics)["mgw_requests"].samples}
    assert found == {"other"}
    assert len(metrics.requests._known) == 0


@pytest.mark.parametrize(
    ("client", "label"), [("alice", "alice"), ("sha256:0123456789ab", "other"), (None, "none")]
)
def test_requests_and_tokens_are_counted_by_the_names_of_keys(client: str | None, label: str) -> None:
    metrics = metrics_after()
    metrics.reloaded(2, ["main"], ["alice"])
    metrics.record_all(iter([exchange(client=client, tokens_in=3)] * 2))
    labels = {"route": "chat", "provider": "main", "status_class": "2xx", "outcome": "ok"}
    assert value(metrics, "mgw_requests_total", **labels, client=label) == 2
    assert value(metrics, "mgw_tokens_total", provider="main", direction="in", client=label) == 6


def test_a_request_without_a_provider_or_a_status_is_counted_so() -> None:
    metrics = metrics_after(event(provider=None, http_status=None, status=Outcome.REJECTED))
    assert (
        value(
            metrics,
            "mgw_requests_total",
            route="chat",
            provider="none",
            status_class="other",
            outcome="rejected",
        )
        == 1
    )


def test_counts_of_a_provider_outlive_the_configuration_that_named_it() -> None:
    metrics = metrics_after(event())
    metrics.reloaded(2, ["new"])
    metrics.record_all(iter([exchange()]))
    labels = {"route": "chat", "provider": "main", "status_class": "2xx", "outcome": "ok"}
    assert value(metrics, "mgw_requests_total", **labels) == 2


def test_what_is_in_flight_is_asked_when_somebody_scrapes() -> None:
    flying = [3]
    state = StateMetrics(requests_in_flight=lambda: flying[0], sessions=lambda: (1, 9))
    metrics = Metrics(frozenset(), state=state)
    assert value(metrics, "mgw_requests_in_flight") == 3
    flying[0] = 0
    assert value(metrics, "mgw_requests_in_flight") == 0
    assert value(metrics, "mgw_sessions_in_flight") == 1
    assert value(metrics, "mgw_sessions_max") == 9


def test_what_bodies_take_is_told_by_place() -> None:
    metrics = Metrics(frozenset(), state=StateMetrics(bodies_held=lambda: {"memory": 5, "disk": 7}))
    assert value(metrics, "mgw_request_body_bytes", place="memory") == 5
    assert value(metrics, "mgw_request_body_bytes", place="disk") == 7


def test_a_failed_reload_shows_until_one_succeeds() -> None:
    metrics = metrics_after()
    metrics.reload_failed()
    assert value(metrics, "mgw_config_reload_ok") == 0
    assert value(metrics, "mgw_config_generation") == 1
    metrics.reloaded(2, [])
    assert value(metrics, "mgw_config_reload_ok") == 1
    assert value(metrics, "mgw_config_generation") == 2
    assert value(metrics, "mgw_config_reload_failures_total") == 1


def test_callers_that_are_turned_away_are_counted_by_a_bounded_reason() -> None:
    metrics = metrics_after()
    metrics.edge_rejected()
    for number in range(9):
        metrics.edge_rejected(f"reason {number}")
    assert value(metrics, "mgw_edge_rejections_total", reason="key") == 1
    assert value(metrics, "mgw_edge_rejections_total", reason="origin") == 0
    assert value(metrics, "mgw_edge_rejections_total", reason="other") == 9
    assert len(families(metrics)["mgw_edge_rejections"].samples) == len(EDGE_REASONS) + 1


def test_malformed_requests_are_counted() -> None:
    metrics = metrics_after()
    metrics.malformed()
    assert value(metrics, "mgw_malformed_requests_total") == 1


def row_of(holder: str, name: str, used: int, most: int | None, *, refuses: bool = True) -> RowState:
    return RowState(holder, LIMITS_BY_NAME[name], "total", used, 1, most, None, refuses)


def test_limits_longer_than_a_minute_have_what_is_used_of_them() -> None:
    rows = [
        row_of("alice", "usd_per_month", 1_250_000_000, 5 * 10**9),
        row_of("group:research", "requests_per_day", 7, 5, refuses=False),
        row_of("group:research", "requests_per_day", 7, 10),
        row_of("bob", "usd_total", 0, 10**9),
        row_of("bob", "usd_total", 0, 2 * 10**9, refuses=False),
        row_of("group:research/alice", "requests_per_day", 7, 10),
        row_of("sha256:0123456789ab", "tokens_total", 7, 10),
        row_of("gateway", "tokens_total", 7, None),
    ]
    metrics = Metrics(frozenset(), state=StateMetrics(limits=lambda: rows, limit_store_up=lambda: False))
    found = {tuple(one.labels.values()): one.value for one in families(metrics)["mgw_limit_used"].samples}
    assert found == {
        ("alice", "usd_per_month"): 1.25,
        ("bob", "usd_total"): 0,
        ("group:research", "requests_per_day"): 7,
        ("gateway", "tokens_total"): 7,
    }
    allowed = {tuple(one.labels.values()): one.value for one in families(metrics)["mgw_limit_max"].samples}
    assert allowed == {
        ("alice", "usd_per_month"): 5,
        ("bob", "usd_total"): 1,
        ("group:research", "requests_per_day"): 10,
    }
    assert value(metrics, "mgw_limit_store_up") == 0


def test_so_many_names_of_keys_are_labels_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Key files may come and go, each under a new name, for as long as the process lives."""
    monkeypatch.setattr("mgw.ops.request_metrics.MAX_CLIENTS", 5)  # two are for clients without a name
    metrics = metrics_after()
    metrics.reloaded(1, ["main"], ["a", "b"])
    metrics.reloaded(2, ["main"], ["a", "b", "c", "d"])
    metrics.requests.names.add_clients(["e"])
    metrics.record_all(iter([exchange(client=client) for client in ("a", "b", "c", "d", "e")]))
    found = [sample.labels["client"] for sample in families(metrics)["mgw_requests"].samples]
    assert sorted(found) == ["a", "b", "c", "other"]


@pytest.mark.parametrize("accept", [None, b"application/openmetrics-text; version=1.0.0"])
@pytest.mark.parametrize("count", [0, 1, BATCH_SAMPLES, BATCH_SAMPLES + 1, 3 * BATCH_SAMPLES])
def test_a_family_of_many_samples_is_written_in_batches(accept: bytes | None, count: int) -> None:
    def family() -> prometheus.Metric:
        found = prometheus.GaugeMetricFamily("mgw_limit_used", "Use of a limit.", labels=("holder", "limit"))
        for number in range(count):
            found.add_metric((f'k"{number}', "usd_total"), number / 3)
        return found

    exposition = Exposition(accept)
    parts = list(exposition.render_in_batches(family()))
    assert b"".join(parts) == exposition.render((family(),))
    assert len(parts) == max(1, -(-count // BATCH_SAMPLES))


def test_the_fate_of_events_is_told_by_sink() -> None:
    counts = SinkCounts(events=7, errors=2, dropped=1, waiting=3)
    state = StateMetrics(counts_by_sink=lambda: {"jsonl": counts}, events_stored=lambda: (40, 1000))
    metrics = Metrics(frozenset(), state=state)
    assert value(metrics, "mgw_usage_events_total", sink="jsonl") == 7
    assert value(metrics, "mgw_usage_sink_errors_total", sink="jsonl") == 2
    assert value(metrics, "mgw_usage_events_dropped_total", sink="jsonl") == 1
    assert value(metrics, "mgw_usage_events_waiting", sink="jsonl") == 3
    assert value(metrics, "mgw_usage_spool_bytes") == 40
    assert value(metrics, "mgw_usage_spool_max_bytes") == 1000


def test_the_metrics_are_a_sink_of_the_journal_that_they_tell_of() -> None:
    journal = Journal(Clock())
    state = StateMetrics(counts_by_sink=journal.counts_by_sink)
    metrics = Metrics(frozenset({"chat"}), {"main"}, state)
    result_of(journal.replace([metrics, MemorySink()]))
    journal.record_all([exchange()])
    assert value(metrics, "mgw_usage_events_total", sink="metrics") == 1
    assert value(metrics, "mgw_usage_events_total", sink="memory") == 1
    assert value(metrics, "mgw_request_seconds_count", route="chat", provider="main") == 1


@pytest.mark.parametrize("name", ["process_resident_memory_bytes", "python_info", "python_gc_collections"])
def test_the_process_and_the_runtime_are_told_of(name: str) -> None:
    assert families(Metrics(frozenset()))[name].samples


def test_two_processes_worth_of_metrics_share_no_numbers() -> None:
    metrics_after(event())
    assert not families(Metrics(frozenset()))["mgw_requests"].samples


@pytest.mark.parametrize("accept", [None, b"", b"*/*", b"text/plain;version=0.0.4"])
def test_the_plain_format_is_the_default(accept: bytes | None) -> None:
    media_type, text = rendered(metrics_after(event()), accept)
    assert media_type == b"text/plain; version=0.0.4; charset=utf-8"
    assert list(text_string_to_metric_families(text.decode()))


def test_openmetrics_is_served_to_those_who_ask() -> None:
    media_type, text = rendered(metrics_after(event()), b"application/openmetrics-text; version=1.0.0")
    assert media_type.startswith(b"application/openmetrics-text; version=1.0.0")
    read = openmetrics.text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]  # theirs
    found = {family.name for family in read}
    assert {"mgw_requests", "mgw_tokens", "mgw_request_seconds", "mgw_config_generation"} <= found


@pytest.mark.parametrize(
    "accept", [b"\xff", b"application/openmetrics-text; version=x", b"text/plain; version=1.x", b";;==,,"]
)
def test_an_accept_header_that_makes_no_sense_gets_some_format(accept: bytes) -> None:
    _, text = rendered(metrics_after(event()), accept)
    assert b"mgw_requests_total{" in text


def test_every_metric_of_ours_is_documented() -> None:
    document = (Path(__file__).parents[3] / "docs" / "metrics.rst").read_text(encoding="utf-8")
    for name, family in families(metrics_after(event())).items():
        shown = f"{name}_total" if family.type == "counter" else name
        assert f"``{shown}" in document or not name.startswith("mgw_")


def test_lists_that_could_not_be_had_are_counted_by_provider() -> None:
    metrics = metrics_after()
    for name in ("main", "main", "nobody"):
        metrics.live_list_failed(name)
    assert value(metrics, "mgw_live_list_failures_total", provider="main") == 2
    assert value(metrics, "mgw_live_list_failures_total", provider="other-host") == 0
    assert value(metrics, "mgw_live_list_failures_total", provider="other") == 1


NOT_ANSWERED = (Outcome.UPSTREAM_ERROR, Outcome.REJECTED, Outcome.CLIENT_ABORT)


@pytest.mark.parametrize("status", NOT_ANSWERED)
def test_what_was_not_answered_is_in_no_histogram_of_times(status: Outcome) -> None:
    metrics = metrics_after(event(latency_ms=800.0, ttft_ms=300.0), event(status=status, latency_ms=0.0))
    for name, seconds in (("mgw_request_seconds", 0.8), ("mgw_time_to_first_byte_seconds", 0.3)):
        labels = {"route": "chat", "provider": "main"}
        assert value(metrics, f"{name}_count", **labels) == 1
        assert value(metrics, f"{name}_sum", **labels) == seconds


@pytest.mark.parametrize("status", NOT_ANSWERED)
def test_a_provider_that_answered_nothing_has_no_histogram(status: Outcome) -> None:
    found = families(metrics_after(event(status=status)))
    assert len(found["mgw_requests"].samples) == 1
    assert not found["mgw_request_seconds"].samples


def test_streams_without_tokens_are_counted() -> None:
    without = {"tokens_in": None, "tokens_out": None}
    metrics = metrics_after(
        event(**without),
        event(),
        event(stream=False, **without),
        event(status=Outcome.CLIENT_ABORT, **without),
        event(route="count_tokens", **without),
        event(provider="other-host", **without),
    )
    assert value(metrics, "mgw_uncounted_streams_total", provider="main") == 1
    assert value(metrics, "mgw_uncounted_streams_total", provider="other-host") == 1


def test_requests_whose_tokens_were_estimated_are_counted() -> None:
    metrics = metrics_after(
        event(tokens_in_estimated=5), event(tokens_out_estimated=0), event(), event(provider="made up")
    )
    assert value(metrics, "mgw_estimated_requests_total", provider="main") == 2


def test_costs_add_up_exactly_over_a_million_events() -> None:
    metrics, count = metrics_after(), 1_000_000
    one = structs.replace(exchange(), cost=100_000_001)
    for _ in range(count // 1000):
        metrics.record_all(repeat(one, 1000))
    assert value(metrics, "mgw_cost_usd_total", provider="main") == 100_000.001


def test_costs_are_counted_by_provider_and_what_has_none_by_what_is_missing() -> None:
    metrics = metrics_after(event(cost_usd=0.5), event(cost_usd=0.0), event(provider="made up", cost_usd=1.5))
    for reason in (Unpriced.PRICE, Unpriced.COUNT, Unpriced.COUNT):
        metrics.record_all(iter([structs.replace(exchange(), unpriced=reason)]))
    assert value(metrics, "mgw_cost_usd_total", provider="main") == 0.5
    assert value(metrics, "mgw_cost_usd_total", provider="other") == 1.5
    assert value(metrics, "mgw_unpriced_requests_total", provider="main", reason="price") == 1
    assert value(metrics, "mgw_unpriced_requests_total", provider="main", reason="count") == 2


def test_without_prices_there_are_no_costs() -> None:
    metrics = metrics_after(event())
    assert value(metrics, "mgw_cost_usd_total", provider="main") is None
    assert value(metrics, "mgw_unpriced_requests_total", provider="main", reason="price") is None


def test_costs_are_counted_by_client() -> None:
    metrics = metrics_after()
    metrics.reloaded(2, ["main"], ["alice"])
    metrics.record_all(
        settled_as(event(client=client, cost_usd=0.25)) for client in ("alice", "alice", "mallory", None)
    )
    for client, cost in (("alice", 0.5), ("other", 0.25), ("none", 0.25)):
        assert value(metrics, "mgw_cost_usd_total", provider="main", client=client) == cost


def test_attempts_beyond_the_first_are_counted_for_the_provider_of_the_last() -> None:
    metrics = metrics_after(
        *(event(attempts=attempts) for attempts in (None, 0, 1, 3)),
        event(attempts=2, provider="other-host", error="reset", status=Outcome.UPSTREAM_ERROR),
    )
    assert value(metrics, "mgw_request_retries_total", provider="main") == 2
    assert value(metrics, "mgw_request_retries_total", provider="other-host") == 1
    labels = {"provider": "other-host", "error": "reset", "outcome": "upstream_error"}
    assert value(metrics, "mgw_request_errors_total", **labels) == 1


def test_limits_that_clients_reach_are_counted_by_limit() -> None:
    counts = Counting(requests_per_minute=2, max_in_flight=1)
    metrics = metrics_after()
    metrics.requests.clients.refusals = lambda: [
        (row.holder, row.limit.name, counts.local.refusals().get((row.holder, row.limit.name), 0))
        for row in counts.limits
    ]
    for _ in range(3):
        counts.acquire(0.0)
    labels = {"client": "alice"}
    name = "mgw_client_limit_rejections_total"
    assert value(metrics, name, limit="max_in_flight", **labels) == 2
    assert value(metrics, name, limit="requests_per_minute", **labels) == 0
    assert value(metrics, name, limit="tokens_per_minute", **labels) is None


def test_workers_report_only_limits_that_were_reached() -> None:
    """Thousands of keys have tens of thousands of rows, nearly all zero, at each look at the dashboard."""
    metrics = metrics_after()
    metrics.requests.clients.refusals = lambda: [("alice", "usd_per_day", 0), ("bob", "usd_per_day", 3)]
    rows = dict(metrics.own_rows())
    assert rows["mgw_client_limit_rejections"] == [(("bob", "usd_per_day"), (3,))]
    assert len(list(rows["mgw_edge_rejections"])) == len(EDGE_REASONS), "others are whole"


def test_a_reload_says_when_it_was() -> None:
    metrics = Metrics(frozenset(), wall=lambda: 1_800_000_000.5)
    metrics.reloaded(1, [])
    assert value(metrics, "mgw_config_loaded_timestamp_seconds") == 1_800_000_000.5


@pytest.mark.parametrize(("expires", "shown"), [(None, None), (1_900_000_000.0, 1_900_000_000.0)])
def test_the_end_of_the_certificate_is_told_where_there_is_one(
    expires: float | None, shown: float | None
) -> None:
    metrics = Metrics(frozenset(), state=StateMetrics(certificate_expires=lambda: expires))
    assert value(metrics, "mgw_tls_certificate_expiry_timestamp_seconds") == shown


def test_a_drain_shows() -> None:
    metrics = Metrics(frozenset(), state=StateMetrics(draining=lambda: True))
    assert value(metrics, "mgw_draining") == 1
    assert value(Metrics(frozenset()), "mgw_draining") == 0
