"""Encode usage events (``otlp_span``) and, with the OpenTelemetry SDK, histograms as OTLP.

The SDK takes nearly a second to import, so that and all encoding are done in a thread, which lets the
reactor's run in between.  Nothing of the SDK runs by itself: there is no provider, processor or exporter, and
no thread of theirs.  What these would read of the environment (limits, resource, sampler, addresses) is
stated here instead.

An event is the same span however often it is sent: its ids are made of the id of its request.

Sources: opentelemetry.io/docs/specs/otlp (OTLP/HTTP), the GenAI conventions as in :mod:`mgw.usage.genai`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import sleep
from typing import Final

from msgspec import DecodeError, Struct
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
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
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.sdk.version import __version__ as sdk_version

from mgw import __version__
from mgw.usage.operation_metrics import DURATION, FIRST_CHUNK, TOKEN_USAGE, HistogramPoint
from mgw.usage.otlp_span import SpanWriter, Value, set_attributes

SLICE: Final = 64
"""How many spans are encoded before the reactor's thread may go on."""
POINTS_SLICE: Final = 16
"""How many histograms are encoded before that; they take longer."""
PAUSE: Final = 0.0001
"""Seconds that the reactor's thread is given."""
_NANOSECONDS: Final = 10**9
_UNITS: Final = {
    DURATION: ("s", "GenAI operation duration."),
    FIRST_CHUNK: ("s", "Time to receive the first chunk of a streaming response."),
    TOKEN_USAGE: ("{token}", "Number of input and output tokens used."),
}


class EncodedSpans(Struct, frozen=True):
    """A batch as it is posted."""

    body: bytes
    """The encoded request; empty where no event could be read."""
    unreadable: int
    """How many events could not be read and have no span."""


@dataclass(slots=True)
class OtlpEncoder:
    """Encodes for one sink, in its thread."""

    instance_id: str
    """The unique ``service.instance.id``, which keeps the numbers of several gateways apart."""
    pause: Callable[[], None] = lambda: sleep(PAUSE)
    _spans: SpanWriter = field(default_factory=SpanWriter, repr=False)
    _attributes: dict[str, Value] = field(init=False, repr=False)
    """The attributes of the resource."""
    _resource: Resource = field(init=False, repr=False)
    _scope: InstrumentationScope = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._attributes = {
            "service.name": "mgw",
            "service.version": __version__,
            "service.instance.id": self.instance_id,
            "process.runtime.name": platform.python_implementation().lower(),
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
            "telemetry.sdk.version": sdk_version,
        }
        self._resource = Resource(self._attributes)  # not Resource.create, which asks the environment
        self._scope = InstrumentationScope("mgw", __version__)

    def encode_lines(self, lines: Sequence[bytes]) -> EncodedSpans:
        """Return the request for the traces of a batch."""
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add()
        set_attributes(resource_spans.resource.attributes, self._attributes.items())
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name, scope_spans.scope.version = "mgw", __version__
        spans, unreadable = scope_spans.spans, 0
        for start in range(0, len(lines), SLICE):
            for line in lines[start : start + SLICE]:
                try:
                    self._spans.write(line, spans.add())
                except (DecodeError, ValueError):  # of a file that was damaged
                    del spans[-1]
                    unreadable += 1
            self.pause()
        return EncodedSpans(request.SerializeToString() if spans else b"", unreadable)

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
            for start in range(0, len(data_points), POINTS_SLICE):
                data = Histogram(data_points[start : start + POINTS_SLICE], AggregationTemporality.CUMULATIVE)
                unit, description = _UNITS[metric]
                scoped = ScopeMetrics(self._scope, [Metric(metric, description, unit, data)], "")
                resources = [ResourceMetrics(self._resource, [scoped], "")]
                parts.append(encode_metrics(MetricsData(resources)).SerializeToString())
                self.pause()
        return b"".join(parts)

    def rejected(self, body: bytes) -> int:
        """Return how many spans or points a collector has refused, by its answer of success.

        :raises google.protobuf.message.DecodeError: it is no such answer.
        """
        return int(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
