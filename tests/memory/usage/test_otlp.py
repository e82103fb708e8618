"""What a collector is sent, when, and what its answers mean."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from twisted.logger import capturedLogs

from mgw.config.hooks import OtlpSettings, has_otlp_packages
from mgw.config.settings import Config
from mgw.nouns.secret import Secret
from mgw.usage.event import SettledExchange
from mgw.usage.journal import RowSink
from mgw.usage.outbox import DELIVERED, Result, Verdict
from mgw.usage.sinks import SinkTools, otlp
from mgw.usage.sinks.otlp import open_sink
from mgw.usage.trace_context import TraceContext
from tests.support.deferreds import result_of
from tests.support.otlp import attributes_of, histograms_of, otlp_config, spans_of
from tests.support.stored_events import spool_in, stored_lines
from tests.support.token_endpoints import TokenHosts, TokenPost
from tests.support.usage import AtOnce, OnDemand, event, settled_as

ORIGIN = "http://collector.example:4318"
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", True)


class Sinks:
    """A sink in memory, its collector and its configuration."""

    def __init__(self, folder: Path, runner: Any = None, **settings: Any) -> None:
        self.hosts, self.config, self.runner = TokenHosts(), otlp_config(), runner or AtOnce()
        tools = SinkTools(
            self.hosts.clock,
            lambda reactor, name: self.runner if name == "mgw-otlp" else AtOnce(),
            self.hosts.sink_client,
            spool_in(folder),
            self.hosts.clock.seconds,
            self.current,
        )
        self.sink = open_sink(OtlpSettings.model_validate({"endpoint": ORIGIN, **settings}), tools)

    def current(self) -> Config:
        return self.config

    def record(self, *rows: SettledExchange) -> None:
        self.sink.record_all(iter(rows or (settled_as(event()),)))

    def posts(self, path: bytes = b"/v1/traces") -> list[TokenPost]:
        return [post for post in self.hosts.posts(ORIGIN) if post.line == b"POST " + path]

    def answer(self, status: int = 200, body: bytes = b"", path: bytes = b"/v1/traces") -> TokenPost:
        post = self.posts(path)[-1]
        post.answer(body, status)
        self.hosts.clock.advance(0)
        return post


@pytest.fixture
def sinks(tmp_path: Path) -> Sinks:
    return Sinks(tmp_path, headers={"Authorization": Secret("Bearer canary-token")})


def test_spans_are_posted_as_protobuf_with_the_operators_headers(sinks: Sinks) -> None:
    sinks.record()
    sinks.hosts.clock.advance(0.9)
    assert not sinks.posts()
    sinks.hosts.clock.advance(0.2)
    post = sinks.answer()
    assert post.header(b"content-type") == b"application/x-protobuf"
    assert post.header(b"authorization") == b"Bearer canary-token"
    assert re.fullmatch(rb"[0-9a-f]{24}", post.header(b"idempotency-key") or b"")
    [span] = spans_of(post.body)
    assert attributes_of(span.attributes)["gen_ai.provider.name"] == "openai"
    assert (sinks.sink.errors, sinks.sink.dropped) == (0, 0)


def test_a_client_that_does_not_keep_its_trace_has_numbers_and_no_span(sinks: Sinks) -> None:
    settled = settled_as(event())
    sinks.record(
        replace(settled, trace=replace(TRACE, is_sampled=False)), replace(settled, trace=TRACE), settled
    )
    sinks.hosts.clock.advance(1)
    first, second = spans_of(sinks.answer().body)
    assert first.trace_id.hex() == TRACE.trace_id
    assert not second.parent_span_id
    sinks.hosts.clock.advance(9)
    [(_, point)] = histograms_of(sinks.answer(path=b"/v1/metrics").body)["gen_ai.client.operation.duration"]
    assert point.count == 3


def test_metrics_are_sent_every_interval_as_they_stand(sinks: Sinks) -> None:
    sinks.record()
    sinks.hosts.clock.advance(1)
    sinks.answer()
    counts = []
    for _ in range(3):
        sinks.hosts.clock.advance(10)
        body = sinks.answer(path=b"/v1/metrics").body
        [(_, point)] = histograms_of(body)["gen_ai.client.operation.duration"]
        counts.append((point.count, point.start_time_unix_nano))
        sinks.record()
    assert counts == [(1, 0), (2, 0), (3, 0)]


def test_metrics_that_fail_are_counted_and_told_and_sent_with_the_next(sinks: Sinks) -> None:
    with capturedLogs() as logs:
        sinks.record()
        sinks.hosts.clock.advance(1)
        sinks.answer()
        sinks.hosts.clock.advance(9)
        sinks.answer(503, b"canary answer", b"/v1/metrics")
        sinks.hosts.clock.advance(10)
        sinks.answer(404, b"canary answer", b"/v1/metrics")
    assert sinks.sink.errors == 2
    assert sinks.sink.dropped == 0
    assert [log["reason"] for log in logs] == ["the receiver returned status 503"]
    assert "canary" not in str(logs)
    assert "canary" not in repr(sinks.sink)
    sinks.hosts.clock.advance(10)
    assert histograms_of(sinks.answer(path=b"/v1/metrics").body)


def test_while_metrics_are_on_their_way_no_others_are_sent(sinks: Sinks) -> None:
    sinks.record()
    sinks.hosts.clock.advance(1)
    sinks.answer()
    sinks.hosts.clock.advance(9)
    for _ in range(9):
        sinks.hosts.clock.advance(1)
    assert len(sinks.posts(b"/v1/metrics")) == 1


def verdict(sinks: Sinks, status: int, body: bytes = b"") -> Result:
    done = sinks.sink.collector.deliver("", [otlp.line_of(settled_as(event()), b"")] * 2)
    sinks.answer(status, body)
    return result_of(done)


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_2xx_is_the_end_of_it(sinks: Sinks, status: int) -> None:
    assert verdict(sinks, status) is DELIVERED


@pytest.mark.parametrize("status", [301, 302, 307, 429, 502, 503, 504])
def test_what_may_pass_is_tried_again_and_no_redirect_is_followed(sinks: Sinks, status: int) -> None:
    assert verdict(sinks, status) == Result(Verdict.RETRY, f"the receiver returned status {status}")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 500, 501])
def test_any_other_status_ends_the_batch(sinks: Sinks, status: int) -> None:
    assert verdict(sinks, status) == Result(Verdict.REFUSED, f"the receiver returned status {status}")


def test_spans_that_the_collector_rejects_are_counted_as_dropped(sinks: Sinks) -> None:
    refused = ExportTracePartialSuccess(rejected_spans=1, error_message="canary")
    body = ExportTraceServiceResponse(partial_success=refused)
    assert verdict(sinks, 200, body.SerializeToString()).lost == 1
    assert verdict(sinks, 200, b"\xffcanary, no protobuf") is DELIVERED
    warning = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(error_message="canary"))
    assert verdict(sinks, 200, warning.SerializeToString()) is DELIVERED


def test_silence_ends_in_time_and_closes_the_connection(sinks: Sinks) -> None:
    done = sinks.sink.collector.deliver("", [otlp.line_of(settled_as(event()), b"")])
    sinks.hosts.clock.advance(9.9)
    assert not done.called
    sinks.hosts.clock.advance(0.2)
    assert result_of(done) == Result(Verdict.RETRY, "no answer within 10 s")
    assert sinks.posts()[0].connection.aborted


def test_a_batch_of_nothing_that_can_be_read_is_not_posted(sinks: Sinks) -> None:
    done = sinks.sink.collector.deliver("", [b"canary\n"])
    assert result_of(done) == Result(Verdict.DELIVERED, "stored events cannot be read", 1)
    assert not sinks.posts()


def test_a_bug_of_the_encoder_keeps_the_batch(sinks: Sinks, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr("mgw.usage.otlp_span.SpanWriter.write", fail)
    done = sinks.sink.collector.deliver("", [otlp.line_of(settled_as(event()), b"")])
    assert result_of(done) == Result(Verdict.RETRY, "cannot be encoded (RuntimeError)")


def test_closing_sends_what_waits_and_the_last_numbers(sinks: Sinks, tmp_path: Path) -> None:
    sinks.record()
    closed = sinks.sink.close()
    sinks.answer()
    assert not closed.called
    sinks.answer(path=b"/v1/metrics")
    assert closed.called
    assert sinks.runner.stopped
    assert not stored_lines(tmp_path, "otlp")
    assert not sinks.hosts.clock.getDelayedCalls()


def test_closing_ends_in_time_and_keeps_what_was_not_sent(sinks: Sinks, tmp_path: Path) -> None:
    sinks.record()
    closed = sinks.sink.close()
    sinks.hosts.clock.pump([0.5] * 10)
    assert closed.called
    assert len(stored_lines(tmp_path, "otlp")) == 1
    assert (sinks.sink.dropped, sinks.sink.errors) == (0, 1)


def test_a_thread_that_is_stuck_does_not_hold_the_end_up(tmp_path: Path) -> None:
    sinks = Sinks(tmp_path, runner=OnDemand())
    sinks.record()
    sinks.hosts.clock.advance(1)
    closed = sinks.sink.close()
    sinks.hosts.clock.pump([0.5] * 11)
    assert closed.called
    assert len(stored_lines(tmp_path, "otlp")) == 1


def test_a_reload_is_noticed_and_providers_that_are_gone_are_remembered(sinks: Sinks) -> None:
    sinks.record()
    sinks.config = otlp_config(
        'providers: {other: {kind: anthropic}}\nhooks: {otlp: {endpoint: "http://collector.example:4318"}}'
    )
    sinks.record(settled_as(event(provider="other", request_id="req_2")))
    sinks.record(settled_as(event(request_id="req_3")))
    sinks.hosts.clock.advance(1)
    systems = [
        attributes_of(span.attributes)["gen_ai.provider.name"] for span in spans_of(sinks.answer().body)
    ]
    assert systems == ["openai", "anthropic", "openai"]


def test_an_event_that_cannot_be_written_does_not_take_others_with_it(sinks: Sinks) -> None:
    settled = settled_as(event())
    broken: Any = replace(settled, latency_ms="canary")
    rows = iter([settled, broken, settled])
    with pytest.raises(TypeError):
        sinks.sink.record_all(rows)
    sinks.sink.record_all(rows)
    sinks.hosts.clock.advance(1)
    assert len(spans_of(sinks.answer().body)) == 2


def test_without_the_extra_the_operator_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_otlp_packages()
    assert not has_otlp_packages(["opentelemetry.sdk", "opentelemetry.nothing.of.the.sort"])
    assert not has_otlp_packages(["opentelemetry.nothing"])
    monkeypatch.setattr(otlp, "has_otlp_packages", lambda: False)
    command = re.escape("pip install 'mgw-gateway[otlp]'")
    with pytest.raises(ValueError, match=rf"^hooks\.otlp: .* not installed: {command}$"):
        Sinks(tmp_path)


def test_nothing_of_opentelemetry_is_imported_without_the_sink_and_nothing_on_the_reactors_thread() -> None:
    program = """
import sys
import mgw.app.service, mgw.app.daemon, mgw.usage.sinks
assert not [name for name in sys.modules if name.startswith(("opentelemetry", "google.protobuf"))]
import mgw.usage.sinks.otlp
assert mgw.config.hooks.has_otlp_packages()
assert not [name for name in sys.modules if name.startswith(("opentelemetry.sdk.", "google.protobuf"))]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_it_is_a_sink_of_its_own_name(sinks: Sinks) -> None:
    sink: RowSink = sinks.sink
    sinks.record()
    assert (sink.name, sink.waiting) == ("otlp", 1)
    options = sinks.sink.outbox.options
    assert (options.batch_max, options.flush_seconds, options.save_first) == (512, 1.0, True)
