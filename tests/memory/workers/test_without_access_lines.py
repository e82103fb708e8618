"""The supervisor writes no access lines of its own, and loses no usage event by that."""

from __future__ import annotations

from mgw.usage.record import EndedRequest
from mgw.workers.internal_listener import WithoutAccessLines
from tests.support.usage import ended_of, exchange
from tests.support.web_servers import RecordingObserver


def test_only_a_request_with_a_usage_event_is_recorded() -> None:
    inner = RecordingObserver()
    observer = WithoutAccessLines(inner)
    observer.record(EndedRequest(7.0, b"GET", b"/ui", 200, 0.5, "req_0"))
    assert not inner.lines
    observer.record(ended_of(exchange(latency_ms=12.3)))
    assert [event.request_id for event in inner.events] == ["req_1"]
