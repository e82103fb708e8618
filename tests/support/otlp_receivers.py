"""An OpenTelemetry collector on a real socket, which reads what it gets with OpenTelemetry's own messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.otlp import attributes_of, histograms_of, spans_of
from tests.support.receivers import Receiver

TOKEN = "canary-otlp-token"
ENVIRON = {
    "OTLP_AUTHORIZATION": f"Bearer {TOKEN}",
    # None of this may be heeded.
    "OTEL_SDK_DISABLED": "true",
    "OTEL_TRACES_SAMPLER": "always_off",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=canary",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "DELTA",
    "OTEL_RESOURCE_ATTRIBUTES": "service.name=other",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1",
}


@dataclass
class Collector(Receiver):
    """What was posted: each span is an event with its attributes; metrics are answered with 200."""

    spans: list[Any] = field(default_factory=list)
    """Of OpenTelemetry's message, in the order of their arrival."""
    histograms: dict[str, list[tuple[dict[str, Any], Any]]] = field(default_factory=dict)
    """Of the last export."""
    exports: int = 0

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Read a post, and return the status that it is answered with."""
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            self.faults.append("headers")
        if path == "/base/v1/metrics":
            with self._changed:
                self.histograms, self.exports = histograms_of(body), self.exports + 1
                self._changed.notify_all()
            return 200
        if path != "/base/v1/traces":
            self.faults.append(path)
        with self._changed:
            number = self.posts
            self.posts += 1
        status = self.answer(number)
        if 200 <= status < 300:
            spans = spans_of(body)
            events = [
                {name.removeprefix("mgw."): value for name, value in attributes_of(span.attributes).items()}
                for span in spans
            ]
            with self._changed:
                self.spans += spans
                self.batches.append((str(number), events))
                self._changed.notify_all()
        return status

    def wait_for_export(self, number: int, seconds: float) -> None:
        """Wait until metrics have come so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.exports >= number, seconds), "no metrics came"

    def settings(self, **more: object) -> str:
        """The block ``otlp`` for this collector."""
        return json.dumps(
            {
                "endpoint": f"http://127.0.0.1:{self.port}/base",
                "headers": {"Authorization": {"env": "OTLP_AUTHORIZATION"}},
                "interval_seconds": 0.2,
                **more,
            }
        )


@contextmanager
def start_collector() -> Iterator[Collector]:
    """Start one; it is checked at the end of the block."""
    collector = Collector()
    collector.start()
    try:
        yield collector
        collector.check()
    finally:
        collector.stop()
