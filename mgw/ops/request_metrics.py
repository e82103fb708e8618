"""Counters and histograms of requests: number, outcome, duration and usage.

All of it comes from the records that become usage events.  Durations are those of answered HTTP requests
alone (:mod:`mgw.usage.figures`): refusals of 0 ms would make a slow provider look fast.  A row of one route,
provider, class of status, outcome and client is found by one look into a dict, and keeps what else is counted
for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mgw.dialects.refusal import WORDS
from mgw.ops import prometheus
from mgw.ops.client_metrics import ClientMetrics, Consumption
from mgw.ops.exposition import HistogramTable, Table, ValueTable
from mgw.ops.session_metrics import SessionMetrics
from mgw.usage.event import Outcome, SettledExchange
from mgw.usage.labels import NO_CLIENT, OTHER_CLIENT

BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Upper bounds of the buckets in seconds: counting tokens takes milliseconds, a long response ten minutes."""
MAX_CLIENTS: Final = 50_000
"""How many names of keys are labels: key files may come and go for as long as the process lives."""
NONE: Final = "none"
OTHER: Final = "other"
_BOUNDS: Final = (*BUCKETS, float("inf"))


@dataclass(slots=True, eq=False, repr=False)
class KnownNames:
    """The values that labels may have: names of the route table and of every configuration so far."""

    routes: frozenset[str]
    providers: set[str]
    clients: set[str] = field(default_factory=lambda: {NO_CLIENT, OTHER_CLIENT})
    """The names of keys, and the words for clients without one."""

    def add_clients(self, names: Iterable[str]) -> None:
        """Know the names of keys; those beyond :data:`MAX_CLIENTS` stay unknown.

        A name stays when its key is gone, as its counters do.
        """
        new = [name for name in names if name not in self.clients]
        self.clients.update(new[: max(0, MAX_CLIENTS - len(self.clients))])

    def provider_label(self, provider: str | None) -> str:
        """Return the label of a provider; ``None``: there was none."""
        return NONE if provider is None else provider if provider in self.providers else OTHER


@dataclass(slots=True, eq=False, repr=False)
class _Histogram:
    """How many values fell into each bucket."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    total: float = 0.0


@dataclass(slots=True, eq=False, repr=False)
class _Timings:
    """The histograms of one route at one provider."""

    latency: _Histogram = field(default_factory=_Histogram)
    first_byte: _Histogram = field(default_factory=_Histogram)


@dataclass(slots=True, eq=False, repr=False)
class _Row:
    """The requests of one set of labels."""

    timings: _Timings | None
    """The timings of the requests; ``None`` where they were not answered."""
    used: Consumption
    count: int = 0


_Labels = tuple[str, str, str, str, str]
_Key = tuple[str, str | None, int, Outcome, str]


@dataclass(slots=True, eq=False, repr=False)
class RequestMetrics:
    """The numbers of all requests that have ended."""

    names: KnownNames
    sessions: SessionMetrics = field(default_factory=SessionMetrics)
    clients: ClientMetrics = field(default_factory=ClientMetrics)
    _errors: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _retries: dict[str, int] = field(default_factory=dict)
    _known: dict[_Key, _Row] = field(default_factory=dict)
    _rows: dict[_Labels, _Row] = field(default_factory=dict)
    _timings: dict[tuple[str, str], _Timings] = field(default_factory=dict)

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Count exchanges."""
        known = self._known
        for settled in rows:
            labels, usage = settled.labels, settled.usage
            hundreds = (settled.http_status or 0) // 100
            key = (labels.route, labels.provider, hundreds, settled.outcome, labels.client_label)
            row = known.get(key)
            if row is None:
                row = self._row_of(key)
            row.count += 1
            timings = row.timings
            if settled.session is not None:
                self.sessions.add(self.names.provider_label(labels.provider), settled.session)
            elif timings is not None and labels.transport == "http":
                seconds, histogram = settled.latency_ms / 1000, timings.latency
                histogram.counts[bisect_left(BUCKETS, seconds)] += 1
                histogram.total += seconds
                if settled.ttft_ms is not None:
                    seconds, histogram = settled.ttft_ms / 1000, timings.first_byte
                    histogram.counts[bisect_left(BUCKETS, seconds)] += 1
                    histogram.total += seconds
            if usage.tokens_in is not None or usage.tokens_out is not None:
                row.used.add_tokens(usage)
            elif settled.stream and timings is not None and labels.consumes:
                self.clients.add_uncounted(self.names.provider_label(labels.provider))
            if settled.cost is not None:
                row.used.add_cost(settled.cost)
            if (
                settled.error is not None
                or (settled.attempts or 0) > 1
                or settled.unpriced is not None
                or settled.tokens_in_estimated is not None
                or settled.tokens_out_estimated is not None
            ):
                self._count_trouble(settled)

    def tables(self) -> Iterator[Table]:
        """Yield all of it, each table with the numbers of the moment."""
        yield self._requests()
        yield self._request_errors()
        yield self._request_retries()
        yield from self.clients.tables()
        yield self._latency()
        yield self._first_byte()
        yield from self.sessions.tables()

    def _row_of(self, key: _Key) -> _Row:
        route, provider, hundreds, outcome, client = key
        names = self.names
        is_named = client in names.clients
        known = route in names.routes and (provider is None or provider in names.providers) and hundreds < 10
        served = (route if route in names.routes else OTHER, names.provider_label(provider))
        hundreds = hundreds if 1 <= hundreds <= 5 else 0
        client = client if is_named else OTHER_CLIENT
        labels = (*served, f"{hundreds}xx" if hundreds else OTHER, outcome.value, client)
        row = self._rows.get(labels)
        if row is None:
            is_answered = outcome is Outcome.OK
            timings = self._timings.setdefault(served, _Timings()) if is_answered else None
            row = self._rows[labels] = _Row(timings, self.clients.consumption(served[1], client))
        if known and is_named:  # what a client might have made up is never a key here
            self._known[key] = row
        return row

    def _count_trouble(self, settled: SettledExchange) -> None:
        provider = self.names.provider_label(settled.labels.provider)
        error, attempts = settled.error, settled.attempts or 0
        if error is not None:
            key = (provider, error if error in WORDS else OTHER, settled.outcome.value)
            self._errors[key] = self._errors.get(key, 0) + 1
        if settled.unpriced is not None:
            self.clients.add_unpriced(provider, settled.unpriced)
        if settled.tokens_in_estimated is not None or settled.tokens_out_estimated is not None:
            self.clients.add_estimated(provider)
        if attempts > 1:
            self._retries[provider] = self._retries.get(provider, 0) + attempts - 1

    def _requests(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_requests",
            "Requests that left a usage event.",
            labels=("route", "provider", "status_class", "outcome", "client"),
        )
        return ValueTable(family, [(labels, row.count) for labels, row in self._rows.items()])

    def _request_errors(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_request_errors",
            "Requests that were not answered, by cause (error and status in the usage event).",
            labels=("provider", "error", "outcome"),
        )
        return ValueTable(family, sorted(self._errors.items()))

    def _request_retries(self) -> Table:
        family = prometheus.CounterMetricFamily(
            "mgw_request_retries",
            "Attempts after the first attempt of a request, by the provider of the last attempt.",
            labels=("provider",),
        )
        return ValueTable(family, [((name,), count) for name, count in sorted(self._retries.items())])

    def _latency(self) -> Table:
        family = prometheus.HistogramMetricFamily(
            "mgw_request_seconds",
            "Answered requests: time from the end of the request head to the last byte of the response.",
            labels=("route", "provider"),
        )
        histograms = [
            (names, tuple(timings.latency.counts), timings.latency.total)
            for names, timings in self._timings.items()
        ]
        return HistogramTable(family, _BOUNDS, histograms)

    def _first_byte(self) -> Table:
        family = prometheus.HistogramMetricFamily(
            "mgw_time_to_first_byte_seconds",
            "Answered requests: time from the end of the request head to the first byte of the body.",
            labels=("route", "provider"),
        )
        histograms = [
            (names, tuple(timings.first_byte.counts), timings.first_byte.total)
            for names, timings in self._timings.items()
            if any(timings.first_byte.counts)
        ]
        return HistogramTable(family, _BOUNDS, histograms)
