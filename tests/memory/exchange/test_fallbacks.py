"""An alias with several targets: the next one answers where one fails before anything reached the client."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.error import ConnectionRefusedError as RefusedError
from twisted.internet.interfaces import IReactorTime

from mgw.credentials.provider import ClientKey
from mgw.secret import Secret
from mgw.usage.event import Outcome
from mgw.usage.journal import FailureLog, ProviderFailure
from mgw.vocabulary import Family
from mgw.wire.headers import value_of
from tests.support.pipelines import ANSWER, Pipeline, answered

CONFIG = """
providers:
  main: {kind: openai, base_url: "https://a.example/v1", api_key: sk-main}
  host: {kind: openai_compat, base_url: "https://b.example/v1", api_key: sk-host}
  claude: {kind: anthropic, base_url: "https://c.example/v1", api_key: sk-ant}
  keyless: {kind: openai_compat, base_url: "https://d.example/v1"}
  mute: {kind: openai_compat, base_url: "https://e.example/v1", api_key: sk-m, capabilities: {text: false}}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: main}
aliases:
  both: [main/gpt-a, host/gpt-b]
  far: [main/gpt-a, claude/claude-b]
  back: [claude/claude-b, main/gpt-a]
  mine: [keyless/x, keyless/y]
  skip: [main/gpt-a, mute/x, host/gpt-b]
  none: [main/gpt-a, mute/x]
retries: {attempts: 0}
"""
BUSY = answered(b'{"error":{"message":"busy"}}', b"503 Service Unavailable")
MESSAGE: dict[str, Any] = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "claude-b",
    "content": [{"type": "text", "text": "from claude"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
CHAT_ERROR = b'data: {"error":{"message":"too busy","type":"server_error","code":503}}\n\n'
CLAUDE_ERROR = (
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
)
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"


def asked(model: str, *, stream: bool = False) -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "top_k": 3}
    return json.dumps(body | ({"stream": True} if stream else {})).encode()


def stream(events: bytes) -> bytes:
    return EVENTS % (len(events), events)


@pytest.fixture
def pipeline() -> Pipeline:
    return Pipeline(CONFIG)


def test_a_status_leads_to_the_next_target(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.connection.send(BUSY)
    line, headers, body = pipeline.received()
    assert len(pipeline.endpoint.connections) == 2
    assert line == b"POST /v1/chat/completions HTTP/1.1"
    assert value_of(headers, b"host") == b"b.example"
    assert value_of(headers, b"authorization") == b"Bearer sk-host"
    assert body == asked("both").replace(b'"both"', b'"gpt-b"')
    pipeline.connection.send(answered())
    assert (client.status, client.body) == (200, ANSWER)
    event = pipeline.event()
    assert (event.provider, event.upstream_model, event.model) == ("host", "gpt-b", "both")
    assert (event.attempts, event.status, event.tokens_in) == (2, Outcome.OK, 7)


def test_a_refused_connection_leads_to_the_next_target(pipeline: Pipeline) -> None:
    pipeline.endpoint.held = True
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.endpoint.held = False
    pipeline.endpoint.pending.pop()[1].errback(RefusedError())
    pipeline.connection.send(answered())
    assert client.status == 200
    assert pipeline.event().provider == "host"


def test_a_reset_before_the_head_leads_to_the_next_target(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.connection.reset()
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().attempts) == (200, 2)


def test_a_first_byte_that_does_not_come_leads_to_the_next_target(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.clock.advance(600)
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().provider) == (200, "host")


@pytest.mark.parametrize("status", [b"400 Bad Request", b"401 Unauthorized", b"404 Not Found"])
def test_a_refusal_of_the_request_is_the_clients(pipeline: Pipeline, status: bytes) -> None:
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.connection.send(answered(b"{}", status))
    assert (client.status, len(pipeline.endpoint.connections)) == (int(status[:3]), 1)


def test_retries_come_before_the_next_target() -> None:
    pipeline = Pipeline(CONFIG.replace("attempts: 0", "attempts: 1"))
    _ = pipeline.ask(body=asked("both"))
    pipeline.connection.send(BUSY)
    pipeline.clock.advance(0.5)
    pipeline.connection.send(BUSY)
    assert value_of(pipeline.received()[1], b"host") == b"b.example"
    pipeline.connection.send(BUSY)
    pipeline.clock.advance(0.5)
    pipeline.connection.send(answered())
    assert pipeline.event().attempts == 4


def test_a_provider_that_asks_for_more_patience_than_30_seconds_is_left(pipeline: Pipeline) -> None:
    made = Pipeline(CONFIG.replace("attempts: 0", "attempts: 1"))
    _ = made.ask(body=asked("both"))
    made.connection.send(b"HTTP/1.1 429 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n")
    assert value_of(made.received()[1], b"host") == b"b.example"


def test_the_next_target_may_be_of_another_family(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("far"))
    pipeline.connection.send(BUSY)
    line, headers, body = pipeline.received()
    assert line == b"POST /v1/messages HTTP/1.1"
    assert value_of(headers, b"x-api-key") == b"sk-ant"
    assert json.loads(body)["model"] == "claude-b"
    pipeline.connection.send(answered(json.dumps(MESSAGE).encode()))
    said = json.loads(client.body)
    assert said["choices"][0]["message"]["content"] == "from claude"
    event = pipeline.event()
    assert (event.provider, event.tokens_in, event.tokens_out, event.attempts) == ("claude", 3, 2, 2)


def test_dropped_fields_are_those_of_the_target_that_answers() -> None:
    pipeline = Pipeline(CONFIG + "\nobserve_dropped_fields: true")
    body = json.dumps({"model": "back", "messages": [{"role": "user", "content": "hi"}], "logit_bias": {}})
    client, _ = pipeline.ask(body=body.encode())
    pipeline.connection.send(BUSY)
    pipeline.connection.send(answered())
    assert (client.status, client.body) == (200, ANSWER)
    assert value_of(client.headers, b"x-gateway-dropped-fields") is None
    assert pipeline.event().dropped_fields is None


@pytest.mark.parametrize("alias", ["far", "back"])
def test_a_stream_that_begins_with_an_overload_leads_to_the_next_target(
    pipeline: Pipeline, alias: str
) -> None:
    client, _ = pipeline.ask(body=asked(alias, stream=True))
    pipeline.connection.send(stream(CHAT_ERROR if alias == "far" else CLAUDE_ERROR))
    assert not client.started
    assert len(pipeline.endpoint.connections) == 2
    event = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    begun = b'data: {"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":4}}}\n\n'
    pipeline.connection.send(stream(begun if alias == "far" else event + b"data: [DONE]\n\n"))
    assert client.status == 200
    assert client.body.startswith(b"data: {")
    assert b"busy" not in client.body


def test_all_targets_that_fail_leave_the_last_response(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.connection.send(BUSY)
    pipeline.connection.send(answered(b'{"error":{"message":"second"}}', b"500 Oh"))
    assert (client.status, json.loads(client.body)["error"]["message"]) == (500, "second")
    event = pipeline.event()
    assert (event.provider, event.http_status, event.attempts) == ("host", 500, 2)


def test_a_target_that_cannot_be_asked_is_left_out(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("skip"))
    pipeline.connection.send(BUSY)
    assert value_of(pipeline.received()[1], b"host") == b"b.example"
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().attempts) == (200, 2)


def test_without_a_target_that_can_be_asked_the_response_is_the_clients(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("none"))
    pipeline.connection.send(BUSY)
    assert (client.status, pipeline.event().provider) == (503, "main")


def test_the_clients_own_credential_is_for_the_first_target_alone(pipeline: Pipeline) -> None:
    key = ClientKey(Secret("mine"), b"Bearer", Family.OPENAI)
    failures: list[object] = []
    _, work = pipeline.ask(body=asked("mine"), key=key)
    _ = work.addErrback(failures.append)
    assert value_of(pipeline.received()[1], b"authorization") == b"Bearer mine"
    pipeline.connection.send(BUSY)
    assert len(failures) == 1
    assert len(pipeline.endpoint.connections) == 1
    event = pipeline.event()
    assert (event.status, event.http_status, event.error) == (Outcome.REJECTED, 401, "no_provider_key")


def test_a_provider_without_a_token_leads_to_the_next_target() -> None:
    text = CONFIG.replace("api_key: sk-main", "auth: token_file, token_file: /nowhere/token")
    pipeline = Pipeline(text)
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().provider, pipeline.event().attempts) == (200, "host", 1)


def test_a_model_in_the_path_is_replaced_by_that_of_the_next_target() -> None:
    text = """
providers:
  one: {kind: gemini, base_url: "https://a.example/v1beta", api_key: AIza-1}
  two: {kind: gemini, base_url: "https://b.example/v1beta", api_key: AIza-2}
defaults: {gemini_dialect: one}
aliases: {both: [one/gemini-a, two/gemini-b]}
"""
    pipeline = Pipeline(text)
    client, _ = pipeline.ask("/v1beta/models/both:generateContent", b'{"contents":[]}')
    pipeline.connection.send(BUSY)
    line, headers, body = pipeline.received()
    assert line == b"POST /v1beta/models/gemini-b:generateContent HTTP/1.1"
    assert (value_of(headers, b"x-goog-api-key"), body) == (b"AIza-2", b'{"contents":[]}')
    pipeline.connection.send(answered())
    assert client.status == 200


def test_a_count_asks_one_target(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask("/v1/messages/count_tokens", asked("back"))
    pipeline.connection.send(BUSY)
    assert (client.status, len(pipeline.endpoint.connections)) == (503, 1)


def test_requests_behind_a_fallback_begin_with_the_first_target(pipeline: Pipeline) -> None:
    for _ in range(3):
        _ = pipeline.ask(body=asked("both"))
        pipeline.endpoint.connections[0].send(BUSY)
        pipeline.endpoint.connections[1].send(answered())
    first, second = pipeline.endpoint.connections
    assert (first.received.count(b"a.example"), second.received.count(b"b.example")) == (3, 3)
    assert [event.provider for event in pipeline.events] == ["host"] * 3


def test_a_client_that_leaves_at_the_next_target_ends_it(pipeline: Pipeline) -> None:
    _, work = pipeline.ask(body=asked("both"))
    _ = work.addErrback(lambda _: None)
    pipeline.connection.send(BUSY)
    work.cancel()
    assert pipeline.connection.aborted
    assert (pipeline.event().status, pipeline.event().provider) == (Outcome.CLIENT_ABORT, "host")
    assert pipeline.generation.in_use == 0


def test_server_timing_tells_the_provider_from_the_gateway() -> None:
    pipeline = Pipeline(CONFIG.replace("attempts: 0", "attempts: 1") + "server_timing: true")
    pipeline.generation.chance = lambda: 1.0
    client, _ = pipeline.ask(body=asked("main/x"))
    pipeline.clock.advance(0.25)
    pipeline.connection.send(BUSY)
    pipeline.clock.advance(0.5)
    pipeline.clock.advance(1)
    pipeline.connection.send(answered())
    assert value_of(client.headers, b"server-timing") == b"upstream;dur=1250.0, gateway;dur=500.0"


def test_server_timing_of_a_translated_response_counts_its_body() -> None:
    pipeline = Pipeline(CONFIG + "server_timing: true")
    client, _ = pipeline.ask(body=asked("claude/x"))
    whole = answered(json.dumps(MESSAGE).encode())
    pipeline.clock.advance(0.25)
    pipeline.connection.send(whole[:-10])
    pipeline.clock.advance(0.5)
    pipeline.connection.send(whole[-10:])
    assert value_of(client.headers, b"server-timing") == b"upstream;dur=750.0, gateway;dur=0.0"


def test_server_timing_is_off_by_default(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("main/x"))
    pipeline.connection.send(answered())
    assert value_of(client.headers, b"server-timing") is None


class Notes(FailureLog):
    """Remembers what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[tuple[str, str]] = []

    def note(self, failure: ProviderFailure, clock: IReactorTime) -> None:
        self.notes.append((failure.provider, failure.cause))


def test_the_provider_that_failed_is_warned_about(pipeline: Pipeline) -> None:
    pipeline.generation.failures = log = Notes()
    _, work = pipeline.ask(body=asked("both"))
    _ = work.addErrback(lambda _: None)
    pipeline.connection.send(BUSY)
    pipeline.connection.reset()
    assert log.notes == [("main", "upstream_5xx"), ("host", "reset")]
