"""Histograms of operations in OpenTelemetry's GenAI conventions: durations, tokens, first chunks.

They are counted on the reactor's thread, in plain numbers that only ever grow, and sent as they stand.  No
value of an attribute is a client's: operations are rows of tables, providers and models configured ones,
errors words of a closed list.  Where there are more combinations than :data:`MAX_SERIES`, further ones are
counted together (OpenTelemetry's metrics SDK, "Cardinality limits").

Sources: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-metrics.md (names, units,
buckets, attributes); for tokens, the histogram of the conventions that were released last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import NO_USAGE
from mgw.dialects.refusal import WORDS
from mgw.usage.event import SettledExchange
from mgw.usage.genai import REALTIME, ProviderFacts, operation_of

MAX_SERIES: Final = 1000
"""How many combinations of attributes have histograms of their own."""
SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS: Final = tuple(float(4**power) for power in range(14))
DURATION: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105 (a metric)
OTHER_ERROR: Final = "_OTHER"
"""The conventions' word for an error without a name."""
OVERFLOW: Final = "otel.metric.overflow"

Attributes = dict[str, str | int | bool]
_Key = tuple[str, ProviderFacts | None, str | None, str | None, str | None]


class HistogramPoint(Struct, frozen=True):
    """One histogram as it stood at a moment."""

    metric: str
    attributes: Attributes
    bounds: tuple[float, ...]
    counts: list[int]
    total: float
    least: float
    most: float


@dataclass(slots=True)
class _Histogram:
    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        if value < self.least:  # noqa: PLR1730  min() takes several times as long
            self.least = value
        if value > self.most:  # noqa: PLR1730
            self.most = value


@dataclass(slots=True)
class _Series:
    """The histograms of one combination of attributes; each is there once something was counted."""

    attributes: Attributes
    histograms: dict[tuple[str, str], _Histogram] = field(default_factory=dict)
    """The histograms by metric and type of tokens."""

    def add(self, metric: str, value: float, token_type: str = "") -> None:
        histogram = self.histograms.get((metric, token_type))
        if histogram is None:
            bounds = TOKENS if token_type else SECONDS
            histogram = _Histogram(bounds, [0] * (len(bounds) + 1))
            self.histograms[metric, token_type] = histogram
        histogram.add(value)

    def points(self) -> Iterator[HistogramPoint]:
        for (metric, token_type), found in self.histograms.items():
            attributes = dict(self.attributes)
            if token_type:
                attributes["gen_ai.token.type"] = token_type
            yield HistogramPoint(
                metric, attributes, found.bounds, list(found.counts), found.total, found.least, found.most
            )


@dataclass(slots=True)
class OperationMetrics:
    """The histograms of one sink."""

    models: frozenset[str] = frozenset()
    """The names of models that may be attributes."""
    _series: dict[_Key, _Series] = field(default_factory=dict, repr=False)

    def add(self, settled: SettledExchange, facts: ProviderFacts | None) -> None:
        """Count an exchange; what is no operation of a model counts for nothing."""
        labels, usage = settled.labels, settled.usage
        if labels.modality == "platform":
            return
        models = self.models
        operation = operation_of(labels.route, labels.modality)
        error = None if settled.outcome == "ok" else settled.error if settled.error in WORDS else OTHER_ERROR
        model = labels.model if labels.model in models else None
        upstream_model = labels.upstream_model if labels.upstream_model in models else None
        series = self._series_of((operation, facts, model, upstream_model, error))
        if operation != REALTIME:  # whose length says nothing of a model
            series.add(DURATION, settled.latency_ms / 1000)
            if settled.stream and settled.ttft_ms is not None:
                series.add(FIRST_CHUNK, settled.ttft_ms / 1000)
        if error is not None and usage is not NO_USAGE:  # tokens are not told apart by errors
            series = self._series_of((operation, facts, model, upstream_model, None))
        if usage.tokens_in is not None:
            series.add(TOKEN_USAGE, usage.tokens_in, "input")
        if usage.tokens_out is not None:
            series.add(TOKEN_USAGE, usage.tokens_out, "output")

    def points(self) -> list[HistogramPoint]:
        """Return all histograms as they stand."""
        return [point for series in self._series.values() for point in series.points()]

    def _series_of(self, key: _Key) -> _Series:
        return self._series.get(key) or self._new_series(key)

    def _new_series(self, key: _Key) -> _Series:
        operation, facts, model, upstream_model, error = key
        attributes: Attributes = {"gen_ai.operation.name": operation}
        if len(self._series) >= MAX_SERIES:
            key, attributes = ("", None, None, None, None), {OVERFLOW: True}
        else:
            attributes |= {} if facts is None else facts.attributes
            stated = {
                "gen_ai.request.model": model,
                "gen_ai.response.model": upstream_model,
                "error.type": error,
            }
            attributes |= {name: value for name, value in stated.items() if value is not None}
        return self._series.setdefault(key, _Series(attributes))
