"""Counters and histograms of the process, for ``GET /metrics``.

Fed from usage events, so they agree with them by construction; what has no event is counted by calls of its
own.  Every label value is one of a set that the operator's configuration bounds, never something that a
client sent: routes are rows of the table, providers are configured ones, whatever else comes is ``other``.

The counts are plain numbers in plain objects, and :meth:`Metrics.render` makes text of them when somebody
asks: ``labels()`` and ``observe()`` of the library take several times as long.  The text is made in as many
turns of the reactor as it needs, none of which takes long; each family has the numbers of one moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from platform import python_version
from time import perf_counter
from typing import Final

import twisted
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString
from twisted.internet.defer import Deferred, succeed

from mgw import __version__
from mgw.canonical.reply import TokenUsage
from mgw.dialects.refusal import WORDS
from mgw.errors import GatewayError
from mgw.ops.cost_metrics import CostMetrics
from mgw.ops.exposition import CounterTable, Exposition, HistogramTable, Table
from mgw.ops.session_metrics import SessionMetrics
from mgw.usage.event import Outcome
from mgw.usage.journal import SinkCounts
from mgw.usage.record import NO_CLIENT, OTHER_CLIENT, SettledExchange

BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Upper bounds in seconds: a count of tokens takes milliseconds, a long response ten minutes."""
NONE: Final = "none"
OTHER: Final = "other"
EDGE_REASONS: Final = frozenset({"key", "origin"})
PART_SECONDS: Final = 0.0005
"""How long a turn of the reactor may render."""
_BOUNDS: Final = tuple(map(floatToGoString, (*BUCKETS, float("inf"))))


@dataclass(slots=True)
class _Histogram:
    """How many values fell into each bucket."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    total: float = 0.0


@dataclass(slots=True)
class _Timings:
    """The histograms of one route at one provider."""

    latency: _Histogram = field(default_factory=_Histogram)
    first_byte: _Histogram = field(default_factory=_Histogram)


@dataclass(slots=True)
class _TokenCounts:
    """The tokens of one client at one provider."""

    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def add(self, usage: TokenUsage) -> None:
        self.tokens_in += usage.tokens_in or 0
        self.tokens_out += usage.tokens_out or 0
        self.cache_read += usage.cache_read or 0
        self.cache_write += usage.cache_write or 0
        self.reasoning += usage.reasoning or 0

    def rows(self) -> Iterator[tuple[str, int]]:
        yield "in", self.tokens_in
        yield "out", self.tokens_out
        yield "cache_read", self.cache_read
        yield "cache_write", self.cache_write
        yield "reasoning", self.reasoning


@dataclass(slots=True)
class _Row:
    """The requests of one set of labels."""

    timings: _Timings
    tokens: _TokenCounts
    count: int = 0


_Labels = tuple[str, str, str, str, str]
_Key = tuple[str, str | None, int, Outcome, str]


def _zero() -> int:
    return 0


def _no_bodies() -> Mapping[str, int]:
    return {"memory": 0, "disk": 0}


def _no_clients() -> tuple[int, int, int]:
    return 0, 0, 0


def _no_tallies() -> Mapping[str, SinkCounts]:
    return {}


def _no_pause() -> Deferred[None]:
    return succeed(None)


def _do_inline(work: Callable[[], bytes]) -> Deferred[bytes]:
    return succeed(work())


@dataclass(slots=True, eq=False)
class Metrics:
    """The numbers of one process: a usage sink, and what counts the rest."""

    routes: frozenset[str]
    """The names of the rows of the route table."""
    providers: set[str] = field(default_factory=set)
    """Every provider that was ever configured; see :meth:`reloaded`."""
    clients_known: set[str] = field(default_factory=lambda: {NO_CLIENT, OTHER_CLIENT})
    """The names of all keys that ever were configured, and the words for clients without one."""
    requests_in_flight: Callable[[], int] = _zero
    sessions_in_flight: Callable[[], int] = _zero
    bodies_held: Callable[[], Mapping[str, int]] = _no_bodies
    """Bytes of request bodies that are held, by where: ``memory``, ``disk``."""
    counts_by_sink: Callable[[], Mapping[str, SinkCounts]] = _no_tallies
    """What became of the events, by name of sink: the journal's."""
    clients: Callable[[], tuple[int, int, int]] = _no_clients
    """Connections of clients: open, allowed, and refused so far."""
    pause: Callable[[], Awaitable[None]] = _no_pause
    """Lets the reactor do other things."""
    offload: Callable[[Callable[[], bytes]], Awaitable[bytes]] = _do_inline
    """Does work in a thread."""
    timer: Callable[[], float] = perf_counter
    """Seconds, from any time on."""
    name: str = field(default="metrics", init=False)
    errors: int = field(default=0, init=False)
    dropped: int = field(default=0, init=False)
    _generation: int = 0
    _reload_ok: int = 1
    _reload_failures: int = 0
    _malformed: int = 0
    _errors: dict[tuple[str, str], int] = field(default_factory=dict, repr=False)
    _edge_rejections: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EDGE_REASONS, 0))
    _live_list_failures: dict[str, int] = field(default_factory=dict)
    _known: dict[_Key, _Row] = field(default_factory=dict, repr=False)
    _rows: dict[_Labels, _Row] = field(default_factory=dict, repr=False)
    _timings: dict[tuple[str, str], _Timings] = field(default_factory=dict, repr=False)
    _tokens: dict[tuple[str, str], _TokenCounts] = field(default_factory=dict, repr=False)
    _exposition_for: Callable[[bytes | None], Exposition] = field(
        default_factory=lambda: lru_cache(maxsize=2)(Exposition), repr=False
    )
    """By ``Accept``: that of the scraper, and that of whoever looks as well."""
    _sessions: SessionMetrics = field(default_factory=SessionMetrics, repr=False)
    _costs: CostMetrics = field(default_factory=CostMetrics, repr=False)
    _process: CollectorRegistry = field(default_factory=CollectorRegistry, repr=False)

    def __post_init__(self) -> None:
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

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
            if settled.session is None:
                seconds, histogram = settled.latency_ms / 1000, row.timings.latency
                histogram.counts[bisect_left(BUCKETS, seconds)] += 1
                histogram.total += seconds
            else:
                self._sessions.add(self._provider_label(labels.provider), settled.session)
            if settled.ttft_ms is not None:
                seconds, histogram = settled.ttft_ms / 1000, row.timings.first_byte
                histogram.counts[bisect_left(BUCKETS, seconds)] += 1
                histogram.total += seconds
            if usage.tokens_in is not None or usage.tokens_out is not None:
                row.tokens.add(usage)
            if settled.cost is not None or settled.unpriced is not None:
                self._costs.add(self._provider_label(labels.provider), settled)
            if settled.error is not None:
                self._count_error(labels.provider, settled.error)

    def flush(self) -> None:
        """Do nothing: numbers wait for nobody."""

    def reopen(self) -> None:
        """Do nothing."""

    def close(self) -> Deferred[None]:
        """Do nothing; the numbers stay readable."""
        return succeed(None)

    def reloaded(self, generation: int, providers: Iterable[str], clients: Iterable[str] = ()) -> None:
        """A configuration is in use, the first one included; ``clients`` are the names of its keys."""
        self.clients_known.update(clients)
        self._generation = generation
        self._reload_ok = 1
        self.providers.update(providers)
        for name in self.providers:
            self._live_list_failures.setdefault(name, 0)

    def reload_failed(self) -> None:
        """A configuration was not valid; the one before stays in use."""
        self._reload_ok = 0
        self._reload_failures += 1

    def edge_rejected(self, reason: str = "key") -> None:
        """A caller was turned away: its ``key`` or its ``origin`` did not fit."""
        name = reason if reason in EDGE_REASONS else OTHER
        self._edge_rejections[name] = self._edge_rejections.get(name, 0) + 1

    def live_list_failed(self, provider: str) -> None:
        """A provider's own model list could not be had."""
        name = provider if provider in self.providers else OTHER
        self._live_list_failures[name] = self._live_list_failures.get(name, 0) + 1

    def malformed(self) -> None:
        """Something came in that is no HTTP."""
        self._malformed += 1

    async def render(self, accept: bytes | None) -> tuple[bytes, list[bytes]]:
        """Return the media type and the text, in the format that the ``Accept`` header asks for.

        The text may be megabytes, and comes in the parts in which it was made.
        """
        exposition = self._exposition_for(accept)
        page: list[bytes] = []
        parts: list[bytes] = []
        began = self.timer()
        for part in self._render_parts(exposition):
            parts.append(part)
            if self.timer() - began >= PART_SECONDS:
                page.append(b"".join(parts))  # not all at the end: there may be thousands
                parts.clear()
                await self.pause()
                began = self.timer()
        page += [b"".join(parts), await self._render_process(exposition), exposition.ending]
        return exposition.media_type, page

    def _render_parts(self, exposition: Exposition) -> Iterator[bytes]:
        tables: tuple[Callable[[], Table], ...] = (
            self._requests,
            self._request_errors,
            self._tokens_by_provider,
            self._costs.costs,
            self._costs.unpriced,
            self._latency,
            self._first_byte,
            self._sessions.lengths,
            self._sessions.frames,
            self._sessions.payload_bytes,
        )
        for table in tables:
            yield from exposition.render_table(table())
        for families in (self._state, self._clients, self._configuration, self._edge):
            yield exposition.render(families())
        yield from exposition.render_table(self._live_lists())
        yield exposition.render(self._sinks())

    async def _render_process(self, exposition: Exposition) -> bytes:
        """Return what the library says of the process; it lists all open files, which may be many."""

        def render() -> bytes:
            return exposition.render(self._process.collect())

        try:
            return await self.offload(render)
        except GatewayError:  # the threads have too much to do
            return render()

    def _row_of(self, key: _Key) -> _Row:
        route, provider, hundreds, outcome, client = key
        is_named = client in self.clients_known
        known = route in self.routes and (provider is None or provider in self.providers) and hundreds < 10
        names = (route if route in self.routes else OTHER, self._provider_label(provider))
        hundreds = hundreds if 1 <= hundreds <= 5 else 0
        client = client if is_named else OTHER_CLIENT
        labels = (*names, f"{hundreds}xx" if hundreds else OTHER, outcome.value, client)
        row = self._rows.get(labels)
        if row is None:
            timings = self._timings.setdefault(names, _Timings())
            tokens = self._tokens.setdefault((names[1], client), _TokenCounts())
            row = self._rows[labels] = _Row(timings, tokens)
        if known and is_named:  # what a client might have made up is never a key here
            self._known[key] = row
        return row

    def _provider_label(self, provider: str | None) -> str:
        return NONE if provider is None else provider if provider in self.providers else OTHER

    def _count_error(self, provider: str | None, error: str) -> None:
        key = (self._provider_label(provider), error if error in WORDS else OTHER)
        self._errors[key] = self._errors.get(key, 0) + 1

    def _requests(self) -> Table:
        family = CounterMetricFamily(
            "mgw_requests",
            "Requests that left a usage event.",
            labels=("route", "provider", "status_class", "outcome", "client"),
        )
        return CounterTable(family, [(labels, row.count) for labels, row in self._rows.items()])

    def _request_errors(self) -> Table:
        family = CounterMetricFamily(
            "mgw_request_errors",
            "Requests that failed, by cause (the error of the usage event).",
            labels=("provider", "error"),
        )
        return CounterTable(family, sorted(self._errors.items()))

    def _tokens_by_provider(self) -> Table:
        family = CounterMetricFamily(
            "mgw_tokens",
            "Tokens reported by providers; in includes cached tokens, out includes reasoning tokens.",
            labels=("provider", "direction", "client"),
        )
        rows = [
            ((provider, direction, client), count)
            for (provider, client), counts in self._tokens.items()
            for direction, count in counts.rows()
        ]
        return CounterTable(family, rows)

    def _latency(self) -> Table:
        family = HistogramMetricFamily(
            "mgw_request_seconds",
            "Time from the end of the request head to the last byte of the response.",
            labels=("route", "provider"),
        )
        histograms = [
            (names, tuple(timings.latency.counts), timings.latency.total)
            for names, timings in self._timings.items()
        ]
        return HistogramTable(family, _BOUNDS, histograms)

    def _first_byte(self) -> Table:
        family = HistogramMetricFamily(
            "mgw_time_to_first_byte_seconds",
            "Time from the end of the request head to the first byte of the response body.",
            labels=("route", "provider"),
        )
        histograms = [
            (names, tuple(timings.first_byte.counts), timings.first_byte.total)
            for names, timings in self._timings.items()
            if any(timings.first_byte.counts)
        ]
        return HistogramTable(family, _BOUNDS, histograms)

    def _state(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily
        build = gauge(
            "mgw_build_info",
            "Versions of the gateway, Python and Twisted; always 1.",
            labels=("version", "python", "twisted"),
        )
        build.add_metric((__version__, python_version(), twisted.__version__), 1)
        yield build
        yield gauge("mgw_requests_in_flight", "Requests in progress.", self.requests_in_flight())
        yield gauge("mgw_sessions_in_flight", "Realtime sessions in progress.", self.sessions_in_flight())
        bodies = gauge("mgw_request_body_bytes", "Bytes of request bodies currently held.", labels=("place",))
        for place, held in self.bodies_held().items():
            bodies.add_metric((place,), held)
        yield bodies

    def _clients(self) -> Iterator[Metric]:
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        connected, allowed, refused = self.clients()
        yield gauge("mgw_client_connections", "Open client connections.", connected)
        yield gauge("mgw_client_connections_max", "Maximum number of client connections.", allowed)
        yield counter(
            "mgw_client_connections_refused",
            "Client connections refused because the limit was reached.",
            refused,
        )

    def _configuration(self) -> Iterator[Metric]:
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        yield gauge(
            "mgw_config_generation", "Number of the configuration in use, counted from 1.", self._generation
        )
        yield gauge(
            "mgw_config_reload_ok", "1 if the last reload succeeded, 0 if it failed.", self._reload_ok
        )
        yield counter("mgw_config_reload_failures", "Reloads that failed.", self._reload_failures)
        yield counter("mgw_malformed_requests", "Input that was not valid HTTP.", self._malformed)

    def _edge(self) -> Iterator[Metric]:
        rejections = CounterMetricFamily(
            "mgw_edge_rejections", "Requests rejected by edge auth.", labels=("reason",)
        )
        for reason, count in sorted(self._edge_rejections.items()):
            rejections.add_metric((reason,), count)
        yield rejections

    def _live_lists(self) -> Table:
        family = CounterMetricFamily(
            "mgw_live_list_failures",
            "Attempts to fetch a provider's model list that failed.",
            labels=("provider",),
        )
        return CounterTable(
            family, [((provider,), count) for provider, count in sorted(self._live_list_failures.items())]
        )

    def _sinks(self) -> Iterator[Metric]:
        label = ("sink",)
        events = CounterMetricFamily("mgw_usage_events", "Usage events handed to a sink.", labels=label)
        errors = CounterMetricFamily(
            "mgw_usage_sink_errors", "Failures of a sink to open or write its output.", labels=label
        )
        dropped = CounterMetricFamily(
            "mgw_usage_events_dropped", "Events that a sink accepted but lost.", labels=label
        )
        for name, counts in sorted(self.counts_by_sink().items()):
            events.add_metric((name,), counts.events)
            errors.add_metric((name,), counts.errors)
            dropped.add_metric((name,), counts.dropped)
        yield events
        yield errors
        yield dropped
