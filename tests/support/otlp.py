"""What was said in OTLP, as plain values, read with OpenTelemetry's own messages."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mgw.config.load import parse
from mgw.config.settings import Config

CONFIG = """
providers:
  main: {kind: openai, api_key: sk-canary-provider}
  local: {kind: openai_compat, base_url: "http://127.0.0.1:9000/v1", models: [small]}
aliases: {fast: main/gpt-5}
hooks: {otlp: {endpoint: "http://collector.example:4318"}}
"""


def otlp_config(text: str = CONFIG) -> Config:
    """A configuration with two providers, and a model that has another name."""
    return parse(text, "mgw.yaml", {})


def value_of(value: Any) -> Any:  # Any: of the message AnyValue
    """The plain value of an attribute."""
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [value_of(one) for one in found.values] if kind == "array_value" else found


def attributes_of(pairs: Any) -> dict[str, Any]:
    """Attributes by name."""
    found = {pair.key: value_of(pair.value) for pair in pairs}
    assert len(found) == len(pairs), "an attribute stands twice"
    return found


def spans_of(body: bytes) -> list[Any]:
    """The spans of a request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [span for part in request.resource_spans for scope in part.scope_spans for span in scope.spans]


def resource_of(body: bytes) -> dict[str, Any]:
    """The attributes of the one resource of a request for spans."""
    request = ExportTraceServiceRequest.FromString(body)
    found = [attributes_of(part.resource.attributes) for part in request.resource_spans]
    assert all(one == found[0] for one in found)
    return found[0]


def histograms_of(body: bytes) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """The histograms of a request by name: attributes, and the point itself."""
    request = ExportMetricsServiceRequest.FromString(body)
    found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for part in request.resource_metrics:
        for scope in part.scope_metrics:
            for metric in scope.metrics:
                assert metric.histogram.aggregation_temporality == 2, "cumulative"
                points = [(attributes_of(point.attributes), point) for point in metric.histogram.data_points]
                found.setdefault(metric.name, []).extend(points)
    return found
