"""Usage events reach an OpenTelemetry collector, whatever becomes of it, of the gateway, or of both."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.otlp import attributes_of
from tests.support.otlp_receivers import ENVIRON, Collector, start_collector
from tests.support.raw_client import RawClient, chat
from tests.support.receivers import leave_events
from tests.support.simulator import start_simulator
from tests.support.stored_events import stored_lines
from tests.support.waiting import WAIT_SECONDS, wait_until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with start_collector() as found:
        yield found


def gateway_for(
    collector: Collector,
    folder: Path,
    spool: str = "",
    upstream: str = "http://127.0.0.1:9",
    **settings: object,
) -> AbstractContextManager[GatewayProcess]:
    """A gateway that tells this collector."""
    config = f"""
providers: {{main: {{kind: openai, base_url: "{upstream}/v1", api_key: sk-canary}}}}
aliases: {{fast: main/m1.ok}}
hooks: {{otlp: {collector.settings(**settings)}}}
spool: {{dir: {folder}}}
"""
    return start_gateway(config, ENVIRON)


def stored(folder: Path) -> set[str]:
    """The ids of the events on the disk."""
    return {json.loads(line)["event"]["request_id"] for line in stored_lines(folder, "otlp")}


def send(gateway: GatewayProcess, model: str, *headers: bytes) -> str:
    """Send a request, and return its id."""
    with RawClient(gateway.port) as client:
        client.send(chat(model, *headers))
        found = client.read_response().value(b"x-gateway-request-id")
        assert found is not None
        return found.decode()


def test_a_request_is_a_span_of_its_clients_trace_and_counts_in_the_metrics(
    collector: Collector, tmp_path: Path
) -> None:
    with start_simulator() as simulator, gateway_for(collector, tmp_path, upstream=simulator.url) as gateway:
        parent = f"traceparent: 00-{TRACE}-{SPAN}-01".encode()
        ids = {
            send(gateway, "fast", parent, b"tracestate: vendor=1"),
            send(gateway, "fast", b"traceparent: 00-canary"),
            send(gateway, "nobody/nothing"),
        }
        unsampled = send(gateway, "fast", f"traceparent: 00-{TRACE}-{SPAN}-00".encode())
        collector.wait_for(ids, WAIT_SECONDS)
        gateway.stop()
    spans: dict[str, Any] = {attributes_of(one.attributes)["mgw.request_id"]: one for one in collector.spans}
    assert set(spans) == ids
    assert unsampled not in spans
    in_trace = [one for one in spans.values() if one.trace_id.hex() == TRACE]
    [child] = in_trace
    assert (child.parent_span_id.hex(), child.trace_state, child.name) == (SPAN, "vendor=1", "chat fast")
    said = attributes_of(child.attributes)
    assert said["gen_ai.response.model"] == "m1.ok"
    assert (said["server.address"], said["http.response.status_code"]) == ("127.0.0.1", 200)
    assert said["gen_ai.usage.input_tokens"] > 0
    durations = collector.histograms["gen_ai.client.operation.duration"]
    by_model = {a.get("gen_ai.request.model"): (a.get("error.type"), p.count) for a, p in durations}
    assert by_model == {"fast": (None, 3), None: ("model_not_found", 1)}
    assert "gen_ai.client.token.usage" in collector.histograms


def test_a_trace_is_read_however_a_head_was_recognised(collector: Collector, tmp_path: Path) -> None:
    traces = [f"{number:032x}" for number in range(1, 9)]
    with gateway_for(collector, tmp_path) as gateway, RawClient(gateway.port) as client:
        for trace in traces:  # the third has a head that is known
            client.send(chat("nobody/nothing", f"traceparent: 00-{trace}-{SPAN}-01".encode()))
            client.read_response()
        wait_until(lambda: len(collector.spans) == len(traces), "the spans")
    assert sorted(one.trace_id.hex() for one in collector.spans) == traces


def test_a_collector_that_dies_and_comes_back_gets_everything(collector: Collector, tmp_path: Path) -> None:
    ids: set[str] = set()
    with gateway_for(collector, tmp_path) as gateway:
        leave_events(gateway.port, 100, ids)
        collector.wait_for(ids, WAIT_SECONDS)
        collector.stop()
        leave_events(gateway.port, 400, ids)
        gateway.log(b"hooks.otlp: failed (refused_connection)")
        collector.start()
        collector.wait_for(ids, WAIT_SECONDS)
        assert gateway.metric('mgw_usage_events_dropped_total{sink="otlp"}') == 0
        assert gateway.metric('mgw_usage_events_total{sink="otlp"}') == 500
        collector.wait_for_export(collector.exports + 1, WAIT_SECONDS)
    assert set(collector.ids) == ids
    [(_, point)] = collector.histograms["gen_ai.client.operation.duration"]
    assert point.count == 500


def test_a_collector_that_hangs_delays_no_request(collector: Collector, tmp_path: Path) -> None:
    go_on = threading.Event()

    def hang(number: int) -> int:
        go_on.wait(WAIT_SECONDS)
        return 200

    collector.answer = hang
    ids: set[str] = set()
    with gateway_for(collector, tmp_path) as gateway:
        leave_events(gateway.port, 300, ids)
        wait_until(lambda: collector.posts == 1, "a post")
        assert len(ids) == 300
        assert not collector.ids
        go_on.set()
        collector.wait_for(ids, WAIT_SECONDS)


def test_a_batch_that_the_collector_refuses_is_counted_as_dropped(
    collector: Collector, tmp_path: Path
) -> None:
    collector.answer = lambda _: 400
    ids: set[str] = set()
    with gateway_for(collector, tmp_path) as gateway:
        leave_events(gateway.port, 10, ids)
        wait_until(
            lambda: gateway.metric('mgw_usage_events_dropped_total{sink="otlp"}') == 10, "the dropped events"
        )
        gateway.log(b"usage events to hooks.otlp: the receiver returned status 400")
    assert not stored(tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_sigterm_at_any_moment_loses_nothing(collector: Collector, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    collector.answer = lambda _: random.choice([200, 200, 200, 503])
    ids: set[str] = set()
    with gateway_for(collector, tmp_path) as gateway:
        clients = [threading.Thread(target=leave_events, args=(gateway.port, 400, ids)) for _ in range(2)]
        goal = random.randrange(100, 700)
        for client in clients:
            client.start()
        wait_until(lambda: len(ids) >= goal, "some answers")
        gateway.signal(signal.SIGTERM)
        for client in clients:
            client.join(WAIT_SECONDS)
        assert gateway.stop() == 0
    collector.answer = lambda _: 200
    with gateway_for(collector, tmp_path):
        collector.wait_for(ids, WAIT_SECONDS)


def test_sigterm_ends_in_time_while_the_collector_hangs(collector: Collector, tmp_path: Path) -> None:
    go_on = threading.Event()

    def hang(number: int) -> int:
        go_on.wait(WAIT_SECONDS)
        return 503

    collector.answer = hang
    ids: set[str] = set()
    try:
        with gateway_for(collector, tmp_path) as gateway:
            leave_events(gateway.port, 100, ids)
            wait_until(lambda: collector.posts == 1, "a post")
            assert gateway.stop() == 0
    finally:
        go_on.set()
    assert ids == stored(tmp_path)


def test_sigkill_takes_at_most_the_last_interval(collector: Collector, tmp_path: Path) -> None:
    collector.answer = lambda number: 503 if number % 3 == 2 else 200
    safe: set[str] = set()
    with gateway_for(collector, tmp_path) as gateway:
        leave_events(gateway.port, 400, safe)
        wait_until(lambda: safe <= stored(tmp_path) | set(collector.ids), "the interval to pass")
        leave_events(gateway.port, 100, set())
        gateway.process.kill()
    collector.answer = lambda _: 200
    with gateway_for(collector, tmp_path):
        collector.wait_for(safe, WAIT_SECONDS)


def test_a_reload_opens_the_sink_and_closes_it(collector: Collector, tmp_path: Path) -> None:
    ids: set[str] = set()
    with gateway_for(collector, tmp_path) as gateway:
        before = gateway.config_file.read_text()
        without = "\n".join(line for line in before.splitlines() if not line.startswith("hooks:"))
        gateway.rewrite(without)
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 2")
        leave_events(gateway.port, 20, set())
        gateway.rewrite(before)
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 3")
        leave_events(gateway.port, 20, ids)
        collector.wait_for(ids, WAIT_SECONDS)
    assert set(collector.ids) == ids
