"""Make OTLP of usage events and of histograms, with OpenTelemetry's own SDK.

The SDK takes nearly a second to import, and a tenth of a millisecond to encode a span, so both are done in a
thread, which lets the reactor's run in between.  Nothing of the SDK runs by itself: there is no provider,
processor or exporter, and no thread of theirs.  What these would read of the environment (limits, resource,
sampler, addresses) is stated here instead.

An event is the same span however often it is sent: its ids are made of the id of its request.

Sources: opentelemetry.io/docs/specs/otlp (OTLP/HTTP), the GenAI conventions as in :mod:`mgw.usage.genai`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from time import sleep
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.sdk.version import __version__ as sdk_version
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from mgw import __version__
from mgw.usage.genai import operation_of, output_of
from mgw.usage.operation_metrics import DURATION, FIRST_CHUNK, OTHER_ERROR, TOKEN_USAGE, HistogramPoint

SLICE: Final = 16
"""Spans that are encoded before the reactor's thread may go on."""
PAUSE: Final = 0.0001
"""Seconds that it is given."""
MAX_TEXT: Final = 256
"""Longer values of attributes are cut: clients choose names of models."""
MAX_NAMES: Final = 64
"""How many dropped fields a span names."""
_MAX_INTEGER: Final = 2**63 - 1
_NANOSECONDS: Final = 10**9
_UNITS: Final = {
    DURATION: ("s", "GenAI operation duration."),
    FIRST_CHUNK: ("s", "Time to receive the first chunk of a streaming response."),
    TOKEN_USAGE: ("{token}", "Number of input and output tokens used."),
}


class _Event(Struct):
    """What a span says of a usage event."""

    request_id: str
    time: datetime
    dialect: str
    route: str
    modality: str
    transport: str
    status: str
    latency_ms: float
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    session_minutes: float | None = None
    cost_usd: float | None = None
    stream: bool | None = None
    http_status: int | None = None
    ttft_ms: float | None = None
    attempts: int | None = None
    key_hash: str | None = None
    dropped_fields: tuple[str, ...] = ()
    bytes_in: int | None = None
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None
    client: str | None = None
    error: str | None = None
    upstream_request_id: str | None = None


class _Line(Struct):
    """An event, with what was known of its trace and its provider."""

    event: _Event
    trace: str | None = None
    parent: str | None = None
    state: str = ""
    system: str | None = None
    address: str | None = None
    port: int | None = None


_DECODER: Final = Decoder(_Line)


class EncodedSpans(Struct, frozen=True):
    """A batch as it is posted."""

    body: bytes
    """Empty where no event could be read."""
    unreadable: int
    """Events of which there is no span."""


@dataclass(slots=True)
class OtlpEncoder:
    """Encodes for one sink, in its thread."""

    instance_id: str
    """``service.instance.id``: unique, so that what several gateways count is not mixed up."""
    pause: Callable[[], None] = lambda: sleep(PAUSE)
    _resource: Resource = field(init=False, repr=False)
    _scope: InstrumentationScope = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._resource = Resource(  # not Resource.create, which asks the environment
            {
                "service.name": "mgw",
                "service.version": __version__,
                "service.instance.id": self.instance_id,
                "process.runtime.name": platform.python_implementation().lower(),
                "telemetry.sdk.language": "python",
                "telemetry.sdk.name": "opentelemetry",
                "telemetry.sdk.version": sdk_version,
            }
        )
        self._scope = InstrumentationScope("mgw", __version__)

    def encode_lines(self, lines: Sequence[bytes]) -> EncodedSpans:
        """Return the request for the traces of a batch."""
        parts: list[bytes] = []
        unreadable = 0
        for start in range(0, len(lines), SLICE):
            spans: list[ReadableSpan] = []
            for line in lines[start : start + SLICE]:
                try:
                    spans.append(self.span_of(line))
                except (DecodeError, ValueError):  # of a file that was damaged
                    unreadable += 1
            if spans:
                # Messages that stand behind one another are one message, of the elements of them all
                # (protobuf.dev/programming-guides/encoding, "Last One Wins").
                parts.append(encode_spans(spans).SerializeToString())
            self.pause()
        return EncodedSpans(b"".join(parts), unreadable)

    def encode_points(self, points: Sequence[HistogramPoint], since: float, now: float) -> bytes:
        """Return the request for histograms that have been counted since a Unix time."""
        by_metric: dict[str, list[HistogramDataPoint]] = {}
        for point in points:
            found = HistogramDataPoint(
                attributes=point.attributes,
                start_time_unix_nano=int(since * _NANOSECONDS),
                time_unix_nano=int(now * _NANOSECONDS),
                count=sum(point.counts),
                sum=point.total,
                bucket_counts=point.counts,
                explicit_bounds=point.bounds,
                min=point.least,
                max=point.most,
            )
            by_metric.setdefault(point.metric, []).append(found)
        parts: list[bytes] = []
        for metric, data_points in by_metric.items():
            for start in range(0, len(data_points), SLICE):
                data = Histogram(data_points[start : start + SLICE], AggregationTemporality.CUMULATIVE)
                unit, description = _UNITS[metric]
                scoped = ScopeMetrics(self._scope, [Metric(metric, description, unit, data)], "")
                resources = [ResourceMetrics(self._resource, [scoped], "")]
                parts.append(encode_metrics(MetricsData(resources)).SerializeToString())
                self.pause()
        return b"".join(parts)

    def span_of(self, line: bytes) -> ReadableSpan:
        """Return the span of an event.

        :raises DecodeError: it cannot be read.
        """
        found = _DECODER.decode(line)
        event = found.event
        digest = blake2b(event.request_id.encode(), digest_size=24).digest()
        trace_id = int.from_bytes(digest[:16]) if found.trace is None else int(found.trace, 16)
        flags, state = TraceFlags(TraceFlags.SAMPLED), TraceState.from_header([found.state])
        parent = None
        if found.trace is not None and found.parent is not None:
            parent = SpanContext(trace_id, int(found.parent, 16), True, flags, state)  # noqa: FBT003
        operation = operation_of(event.route, event.modality)
        start = int(event.time.timestamp() * 1000) * 10**6
        return ReadableSpan(
            f"{operation} {_cut(event.model)}" if event.model else operation,
            SpanContext(trace_id, int.from_bytes(digest[16:]), False, flags, state),  # noqa: FBT003
            parent,
            self._resource,
            _attributes(found, operation),
            kind=SpanKind.CLIENT,
            status=Status(StatusCode.UNSET if event.status == "ok" else StatusCode.ERROR),
            start_time=start,
            end_time=start + int(event.latency_ms * 10**6),
            instrumentation_scope=self._scope,
        )

    def rejected(self, body: bytes) -> int:
        """Return how many spans or points a collector has refused, by its answer of success.

        :raises google.protobuf.message.DecodeError: it is no such answer.
        """
        return int(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)


def _attributes(line: _Line, operation: str) -> dict[str, Any]:  # Any: what the SDK takes
    event, ttft = line.event, line.event.ttft_ms
    stated: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": line.system,
        "gen_ai.request.model": event.model,
        "gen_ai.response.model": event.upstream_model,
        "gen_ai.output.type": output_of(operation, event.modality),
        "gen_ai.request.stream": event.stream or None,  # only where it is one
        "gen_ai.response.time_to_first_chunk": ttft / 1000 if event.stream and ttft is not None else None,
        "gen_ai.usage.input_tokens": event.tokens_in,
        "gen_ai.usage.output_tokens": event.tokens_out,
        "gen_ai.usage.cache_read.input_tokens": event.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": event.reasoning_tokens,
        "server.address": line.address,
        "server.port": line.port,
        "http.response.status_code": event.http_status,
        "error.type": None if event.status == "ok" else event.error or OTHER_ERROR,
        "mgw.request_id": event.request_id,
        "mgw.provider": event.provider,
        "mgw.route": event.route,
        "mgw.dialect": event.dialect,
        "mgw.modality": event.modality,
        "mgw.transport": event.transport,
        "mgw.outcome": event.status,
        "mgw.attempts": event.attempts,
        "mgw.client": event.client,
        "mgw.key_hash": event.key_hash,
        "mgw.cost_usd": event.cost_usd,
        "mgw.upstream_request_id": event.upstream_request_id,
        "mgw.dropped_fields": event.dropped_fields[:MAX_NAMES] or None,
        "mgw.session_minutes": event.session_minutes,
        "mgw.bytes_in": event.bytes_in,
        "mgw.bytes_out": event.bytes_out,
        "mgw.frames_in": event.frames_in,
        "mgw.frames_out": event.frames_out,
    }
    return {name: _bounded(value) for name, value in stated.items() if value is not None}


def _bounded(value: Any) -> Any:  # Any: as above
    if isinstance(value, str):
        return _cut(value)
    return min(value, _MAX_INTEGER) if isinstance(value, int) else value


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
