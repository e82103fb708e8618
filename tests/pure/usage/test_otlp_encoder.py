"""What spans say of usage events, and what the metrics are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common._internal import _encode_attributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from mgw import __version__
from mgw.nouns.vocabulary import Modality
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES
from mgw.usage.event import Outcome
from mgw.usage.genai import OPERATIONS, facts_of, known_models, operation_of
from mgw.usage.operation_metrics import DURATION, FIRST_CHUNK, MAX_SERIES, TOKEN_USAGE, OperationMetrics
from mgw.usage.otlp_encoder import SLICE, OtlpEncoder
from mgw.usage.otlp_span import MAX_TEXT, set_attributes
from mgw.usage.sinks.otlp import line_of
from mgw.usage.trace_context import TraceContext
from tests.support.otlp import attributes_of, histograms_of, otlp_config, resource_of, spans_of
from tests.support.usage import EVENT, event, settled_as

PROVIDERS = otlp_config().providers
MAIN = facts_of(PROVIDERS["main"])
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", True, "vendor=1")
WELL_KNOWN = {member.value for member in names.GenAiOperationNameValues}


def encoder() -> OtlpEncoder:
    return OtlpEncoder("instance-1", lambda: None)


def line(trace: TraceContext | None = None, **changes: Any) -> bytes:
    settled = settled_as(event(**changes))
    return line_of(replace(settled, trace=trace), MAIN.json_fields())


def span(trace: TraceContext | None = None, **changes: Any) -> Any:
    [found] = spans_of(encoder().encode_lines([line(trace, **changes)]).body)
    return found


def test_a_span_is_named_by_its_operation_and_model_and_lasts_as_long_as_the_request() -> None:
    found = span()
    assert found.name == "chat fast"
    assert found.kind == found.SPAN_KIND_CLIENT
    assert found.start_time_unix_nano == 1_764_000_000_250_000_000
    assert found.end_time_unix_nano - found.start_time_unix_nano == 1_234_568_000
    assert found.status.code == found.status.STATUS_CODE_UNSET


def test_a_span_says_what_the_event_does() -> None:
    said = attributes_of(
        span(
            cache_read_tokens=3,
            cache_write_tokens=4,
            reasoning_tokens=5,
            client="alice",
            cost_usd=0.25,
            dropped_fields=("logit_bias", "seed"),
            upstream_request_id="up-1",
        ).attributes
    )
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "fast",
        "gen_ai.response.model": "gpt-5",
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": 0.099,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 0,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_creation.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "server.address": "api.openai.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "mgw.request_id": "req_1",
        "mgw.provider": "main",
        "mgw.route": "chat",
        "mgw.dialect": "openai",
        "mgw.modality": "text",
        "mgw.transport": "http",
        "mgw.outcome": "ok",
        "mgw.attempts": 1,
        "mgw.client": "alice",
        "mgw.key_hash": "0123456789ab",
        "mgw.cost_usd": 0.25,
        "mgw.upstream_request_id": "up-1",
        "mgw.dropped_fields": ["logit_bias", "seed"],
    }
    conventional = {value for name, value in vars(names).items() if name.startswith("GEN_AI_")}
    assert {name for name in said if name.startswith("gen_ai.")} <= conventional


def test_a_request_that_failed_is_an_error_with_its_word() -> None:
    found = span(status=Outcome.UPSTREAM_ERROR, error="upstream_5xx", http_status=503, stream=False)
    said = attributes_of(found.attributes)
    assert found.status.code == found.status.STATUS_CODE_ERROR
    assert (said["error.type"], said["http.response.status_code"]) == ("upstream_5xx", 503)
    assert found.status.message == ""
    assert not said.keys() & {"gen_ai.request.stream", "gen_ai.response.time_to_first_chunk"}
    assert attributes_of(span(status=Outcome.REJECTED).attributes)["error.type"] == "_OTHER"


def test_a_providers_reason_describes_the_status_of_its_span() -> None:
    said = "the model is overloaded " * 12
    found = span(status=Outcome.UPSTREAM_ERROR, error="upstream_5xx", error_message=said)
    assert (found.status.code, found.status.message) == (found.status.STATUS_CODE_ERROR, said)
    assert span(error_message=said).status.message == ""  # a span that did not fail describes nothing


def test_the_span_of_the_client_is_the_parent() -> None:
    found = span(TRACE)
    assert found.trace_id.hex() == TRACE.trace_id
    assert found.parent_span_id.hex() == TRACE.span_id
    assert found.trace_state == "vendor=1"
    assert found.span_id.hex() not in {TRACE.span_id, "0" * 16}
    assert found.flags & 0x300 == 0x300, "the parent is remote"


def test_without_a_parent_each_request_has_a_trace_of_its_own() -> None:
    first, second = span(), span(request_id="req_2")
    assert not first.parent_span_id
    assert first.trace_id != second.trace_id
    assert first.span_id != second.span_id


def test_an_event_that_is_sent_twice_is_the_same_span() -> None:
    lines = [line(), line(TRACE, request_id="req_2")]
    assert encoder().encode_lines(lines) == encoder().encode_lines(lines)


def test_a_span_without_a_provider_says_nothing_of_one() -> None:
    settled = settled_as(event(provider=None, model=None, upstream_model=None))
    [found] = spans_of(encoder().encode_lines([line_of(settled, b"")]).body)
    assert found.name == "chat"
    assert not attributes_of(found.attributes).keys() & {
        "gen_ai.provider.name",
        "server.address",
        "server.port",
    }


def test_texts_numbers_and_names_are_bounded() -> None:
    found = span(model="m" * 5000, tokens_in=2**70, dropped_fields=tuple(f"f{n}" for n in range(200)))
    said = attributes_of(found.attributes)
    assert len(found.name) < 300
    assert len(said["gen_ai.request.model"]) == 256
    assert said["gen_ai.usage.input_tokens"] == 2**63 - 1
    assert len(said["mgw.dropped_fields"]) == 64


@pytest.mark.parametrize(
    ("size", "shown"), [(MAX_TEXT, "m" * MAX_TEXT), (MAX_TEXT + 1, "m" * (MAX_TEXT - 1) + "…")]
)
def test_a_text_of_the_largest_size_is_whole(size: int, shown: str) -> None:
    assert attributes_of(span(model="m" * size).attributes)["gen_ai.request.model"] == shown


@given(model=st.text(max_size=30), error=st.text(max_size=9))
def test_whatever_a_client_asks_for_has_a_span(model: str, error: str) -> None:
    found = span(model=model, status=Outcome.REJECTED, error=error or None)
    assert (
        attributes_of(found.attributes)["gen_ai.request.model"] == model.encode("utf-8", "replace").decode()
    )


def test_lines_that_cannot_be_read_are_counted_and_the_others_encoded() -> None:
    found = encoder().encode_lines([b"{\n", line(), b'{"event":{}}\n', b"\xff\n"])
    assert (len(spans_of(found.body)), found.unreadable) == (1, 3)
    assert encoder().encode_lines([b"canary\n"]).body == b""


VALUES = st.one_of(
    st.text(max_size=300),
    st.booleans(),
    st.integers(0, 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(st.text(max_size=9), max_size=3).map(tuple),
)


@given(values=st.dictionaries(st.text("abc._", min_size=1, max_size=150), VALUES, max_size=4))
def test_attributes_are_encoded_as_by_the_sdk(values: dict[str, Any]) -> None:
    found = Span()
    set_attributes(found.attributes, values.items())
    cut = {
        name: f"{value[:255]}…" if isinstance(value, str) and len(value) > 256 else value
        for name, value in values.items()
    }
    assert list(found.attributes) == _encode_attributes(cut)


@pytest.mark.parametrize("trace", [None, TRACE, replace(TRACE, state="")])
@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.CLIENT_ABORT])
def test_a_request_is_encoded_as_by_the_sdk(trace: TraceContext | None, outcome: Outcome) -> None:
    body = encoder().encode_lines([line(trace, status=outcome), line(trace, request_id="req_2")]).body
    found = ExportTraceServiceRequest.FromString(body)
    scope = InstrumentationScope(found.resource_spans[0].scope_spans[0].scope.name, __version__)
    sdk = encode_spans([as_the_sdk_has_it(one, resource_of(body), scope) for one in spans_of(body)])
    assert found == sdk


def as_the_sdk_has_it(span: Any, resource: dict[str, Any], scope: InstrumentationScope) -> ReadableSpan:
    """What was said in a span, as an object of OpenTelemetry's."""
    state = TraceState.from_header([span.trace_state])
    trace_id, parent = int.from_bytes(span.trace_id), int.from_bytes(span.parent_span_id)
    flags = TraceFlags(TraceFlags.SAMPLED)
    own = SpanContext(
        trace_id, int.from_bytes(span.span_id), is_remote=False, trace_flags=flags, trace_state=state
    )
    return ReadableSpan(
        span.name,
        own,
        SpanContext(trace_id, parent, is_remote=True, trace_flags=flags, trace_state=state)
        if parent
        else None,
        Resource(resource),
        attributes_of(span.attributes),
        kind=SpanKind.CLIENT,
        status=Status(StatusCode(span.status.code)),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
        instrumentation_scope=scope,
    )


@pytest.mark.parametrize(
    "damage",
    [
        (b'"2025-11-24', b'"1925-11-24'),
        (b'"latency_ms":', b'"latency_ms":-'),
        (b'"trace":"4b', b'"trace":"4b4b'),
        (b'"parent":"00', b'"parent":"zz'),
    ],
)
def test_what_no_span_can_be_made_of_is_counted(damage: tuple[bytes, bytes]) -> None:
    sound = line(TRACE)
    assert damage[0] in sound
    assert encoder().encode_lines([sound]).unreadable == 0
    assert encoder().encode_lines([sound.replace(*damage)]).unreadable == 1


def test_the_reactor_may_run_between_slices() -> None:
    pauses: list[None] = []
    found = OtlpEncoder("instance-1", lambda: pauses.append(None)).encode_lines([line()] * (2 * SLICE + 1))
    assert (len(spans_of(found.body)), len(pauses)) == (2 * SLICE + 1, 3)


def test_the_resource_is_the_gateway_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "canary")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "canary=1")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
    found = encoder().encode_lines([line()])
    resource = resource_of(found.body)
    assert (resource["service.name"], resource["service.instance.id"]) == ("mgw", "instance-1")
    assert "canary" not in resource
    assert len(spans_of(found.body)[0].attributes) > 10


# Operations and providers.


def test_operations_are_those_of_routes_and_of_the_conventions() -> None:
    routes = {route.name: route for route in ROUTES}
    assert OPERATIONS.keys() <= routes.keys()
    assert set(OPERATIONS.values()) <= WELL_KNOWN
    for route in routes.values():
        name = operation_of(route.name, route.modality.value)
        assert (name == "realtime_session") is (route.modality is Modality.REALTIME)
        if route.treatment is Treatment.CHAT:
            assert name in {"chat", "generate_content"}


@pytest.mark.parametrize(
    ("provider", "system"),
    [
        ("{kind: openai}", "openai"),
        ("{kind: anthropic}", "anthropic"),
        ("{kind: gemini}", "gcp.gemini"),
        ('{kind: gemini, base_url: "https://eu-aiplatform.googleapis.com/v1"}', "gcp.vertex_ai"),
        ('{kind: azure_openai, base_url: "https://x.openai.azure.com/openai/v1"}', "azure.ai.openai"),
        ('{kind: azure_openai, base_url: "https://proxy.example/openai/v1"}', "azure.ai.openai"),
        ('{kind: bedrock, api_key: k, base_url: "https://proxy.example"}', "aws.bedrock"),
        ('{kind: vertex_anthropic, auth: adc, base_url: "https://proxy.example/v1"}', "gcp.vertex_ai"),
        ('{kind: openai_compat, base_url: "https://api.deepseek.com/v1"}', "deepseek"),
        ('{kind: openai_compat, base_url: "https://api.groq.com/openai/v1"}', "groq"),
        ('{kind: openai_compat, base_url: "https://models.example/v1"}', "main"),
    ],
)
def test_a_provider_is_called_by_its_host_its_kind_or_its_name(provider: str, system: str) -> None:
    facts = facts_of(otlp_config(f"providers: {{main: {provider}}}").providers["main"])
    assert facts.system == system
    known = {member.value for member in names.GenAiProviderNameValues}
    assert system in known | {"main", "moonshot_ai"}


def test_the_port_is_stated_or_that_of_the_scheme() -> None:
    assert (MAIN.address, MAIN.port) == ("api.openai.com", 443)
    assert facts_of(PROVIDERS["local"]).port == 9000


# Metrics.


def counted(*changes: dict[str, Any], models: frozenset[str] = frozenset()) -> dict[str, Any]:
    metrics = OperationMetrics(models)
    for change in changes:
        metrics.add(settled_as(event(**change)), MAIN)
    return histograms_of(encoder().encode_points(metrics.points(), 100.0, 160.5))


def test_metrics_are_those_of_the_conventions_with_their_buckets() -> None:
    found = counted({}, {"stream": False, "latency_ms": 20.0})
    assert set(found) == {DURATION, FIRST_CHUNK, TOKEN_USAGE}
    assert set(found) <= {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
    [(attributes, duration)] = found[DURATION]
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "server.address": "api.openai.com",
        "server.port": 443,
        "mgw.provider": "main",
    }
    assert (duration.count, duration.min, duration.max) == (2, 0.02, 1.2345678)
    assert duration.sum == pytest.approx(1.2545678)
    assert list(duration.explicit_bounds) == [0.01 * 2**power for power in range(14)]
    assert list(duration.bucket_counts) == [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert (duration.start_time_unix_nano, duration.time_unix_nano) == (100 * 10**9, 1605 * 10**8)
    [(_, first)] = found[FIRST_CHUNK]
    assert (first.count, first.sum) == (1, 0.099)
    tokens = {attributes["gen_ai.token.type"]: point for attributes, point in found[TOKEN_USAGE]}
    assert (tokens["input"].count, tokens["input"].sum) == (2, 24)
    assert (tokens["output"].count, tokens["output"].sum) == (2, 0)
    assert list(tokens["input"].explicit_bounds)[-1] == 67108864


def test_errors_are_told_apart_for_durations_and_not_for_tokens() -> None:
    failed = {"status": Outcome.UPSTREAM_ERROR, "error": "truncated"}
    found = counted({}, failed, {"status": Outcome.REJECTED, "error": "canary-of-a-client"})
    assert [attributes.get("error.type") for attributes, _ in found[DURATION]] == [
        None,
        "truncated",
        "_OTHER",
    ]
    assert [(a["gen_ai.token.type"], a.get("error.type"), p.count) for a, p in found[TOKEN_USAGE]] == [
        ("input", None, 3),
        ("output", None, 3),
    ]


def test_a_model_is_named_only_where_the_configuration_does() -> None:
    models = known_models(otlp_config())
    assert models == {"fast", "main/gpt-5", "gpt-5", "local/small", "small"}
    found = counted({}, {"model": "canary", "upstream_model": "canary"}, models=models)
    named, unnamed = [attributes for attributes, _ in found[DURATION]]
    assert (named["gen_ai.request.model"], named["gen_ai.response.model"]) == ("fast", "gpt-5")
    assert not unnamed.keys() & {"gen_ai.request.model", "gen_ai.response.model"}


def test_sessions_count_their_tokens_and_platform_routes_nothing() -> None:
    session = {"route": "realtime_ws", "modality": "realtime", "session_minutes": 9.0}
    found = counted(session, {"route": "files_create", "modality": "platform"})
    assert set(found) == {TOKEN_USAGE}


def test_beyond_the_limit_combinations_are_counted_together() -> None:
    models = frozenset(f"m{number}" for number in range(MAX_SERIES + 50))
    found = counted(*({"model": model, "upstream_model": None} for model in sorted(models)), models=models)
    assert len(found[DURATION]) == MAX_SERIES + 1
    attributes, point = found[DURATION][-1]
    assert (attributes, point.count) == ({"otel.metric.overflow": True}, 50)
    assert sum(point.count for _, point in found[DURATION]) == MAX_SERIES + 50
    assert EVENT.model not in models
