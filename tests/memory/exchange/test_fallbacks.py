"""An alias with several targets: the next one answers where one fails before anything reached the client."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ConnectionRefusedError as RefusedError
from twisted.internet.interfaces import IReactorTime

from mgw.bodies.source import MemoryBody
from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.credentials.static import StaticCredential
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.usage.event import Outcome
from mgw.usage.journal import FailureLog, ProviderFailure
from mgw.wire.headers import value_of
from tests.support.pipelines import ANSWER, Pipeline, RecordingChannel, answered

T = TypeVar("T")
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
  poor: [main/gpt-a, keyless/x]
  middle: [main/gpt-a, keyless/x, host/gpt-b]
  media: [main/gpt-a, main/gpt-b]
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
    begun += b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}\n\n'
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

    def claim(self, provider: str, cause: str, clock: IReactorTime) -> int | None:
        return 0

    def write(self, failure: ProviderFailure, suppressed: int) -> None:
        self.notes.append((failure.provider, failure.cause))


def test_the_provider_that_failed_is_warned_about(pipeline: Pipeline) -> None:
    pipeline.generation.failures = log = Notes()
    _, work = pipeline.ask(body=asked("both"))
    _ = work.addErrback(lambda _: None)
    pipeline.connection.send(BUSY)
    pipeline.connection.reset()
    assert log.notes == [("main", "upstream_5xx"), ("host", "reset")]


GOOGLE = """
providers:
  one: {kind: gemini, base_url: "https://a.example/v1beta", api_key: AIza-1}
  two: {kind: gemini, base_url: "https://b.example/v1beta", api_key: AIza-2}
defaults: {gemini_dialect: one}
aliases: {both: [one/gemini-a, two/gemini-b]}
"""
ARRAY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ELEMENT = b'[{"candidates":[{"content":{"parts":[{"text":"no error"}],"role":"model"}}]}'
ARRAY_ERROR = b'[{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}\n]'


def ask_for_array() -> tuple[Pipeline, RecordingChannel]:
    pipeline = Pipeline(GOOGLE)
    client, _ = pipeline.ask("/v1beta/models/both:streamGenerateContent", b'{"contents":[]}')
    return pipeline, client


def test_an_array_in_pieces_passes_with_its_first_element() -> None:
    pipeline, client = ask_for_array()
    pipeline.connection.send(ARRAY % 1000 + ELEMENT[:-1])
    assert not client.started
    pipeline.connection.send(ELEMENT[-1:])
    assert (client.status, client.body) == (200, ELEMENT)
    pipeline.connection.send(b"\n,\r\n" + ELEMENT[1:])
    assert client.body == ELEMENT + b"\n,\r\n" + ELEMENT[1:]


def test_an_array_that_begins_with_an_overload_leads_to_the_next_target() -> None:
    pipeline, client = ask_for_array()
    pipeline.connection.send(ARRAY % len(ARRAY_ERROR) + ARRAY_ERROR)
    assert not client.started
    pipeline.connection.send(ARRAY % len(ARRAY_ERROR) + ARRAY_ERROR)
    assert (client.status, json.loads(client.body)) == (503, json.loads(ARRAY_ERROR))
    assert pipeline.event().provider == "two"


@pytest.mark.parametrize("body", [b"{}", b'"error"', b'[{"x":"' + b"x" * 70_000])
def test_what_is_no_array_passes_as_it_came(body: bytes) -> None:
    pipeline, client = ask_for_array()
    pipeline.connection.send(ARRAY % 100_000 + body)
    assert (client.status, client.body) == (200, body)


def test_a_later_target_without_a_key_leads_to_the_one_behind_it(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("middle"))
    pipeline.connection.send(BUSY)
    assert value_of(pipeline.received()[1], b"host") == b"b.example"
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().provider, pipeline.event().attempts) == (200, "host", 2)


def test_the_event_tells_nothing_of_a_target_that_was_left(pipeline: Pipeline) -> None:
    _, work = pipeline.ask(body=asked("poor"))
    _ = work.addErrback(lambda _: None)
    pipeline.connection.send(BUSY.replace(b"X-Up: 1", b"x-request-id: one"))
    event = pipeline.event()
    assert (event.provider, event.error) == ("keyless", "no_provider_key")
    assert (event.key_hash, event.upstream_request_id) == (None, None)


def test_the_event_tells_all_of_a_target_that_nobody_replaces(pipeline: Pipeline) -> None:
    _ = pipeline.ask(body=asked("none"))
    pipeline.connection.send(BUSY.replace(b"X-Up: 1", b"x-request-id: one"))
    event = pipeline.event()
    assert (event.provider, event.upstream_request_id) == ("main", "one")
    assert event.key_hash is not None


class HeldWork:
    """Does what large bodies cost when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def __call__(self, work: Callable[[], T], /) -> Deferred[T]:
        done: Deferred[T] = Deferred()
        self.waiting.append(lambda: maybeDeferred(work).chainDeferred(done))
        return done


def test_a_client_that_leaves_while_the_next_target_is_planned_ends_it(pipeline: Pipeline) -> None:
    pipeline.offload = held = HeldWork()
    body = json.dumps({"model": "far", "messages": [{"role": "user", "content": "x" * 300_000}]})
    client, work = pipeline.ask(body=body.encode())
    _ = work.addErrback(lambda _: None)
    pipeline.connection.send(b"HTTP/1.1 503 Busy\r\nx-request-id: one\r\nContent-Length: 9\r\n\r\n")
    assert (len(held.waiting), len(pipeline.endpoint.connections)) == (1, 1)
    work.cancel()
    event = pipeline.event()
    assert (event.status, event.attempts, event.upstream_request_id) == (Outcome.CLIENT_ABORT, 1, None)
    assert (pipeline.connection.aborted, pipeline.generation.in_use, client.started) == (True, 0, False)


def test_a_response_that_breaks_while_the_next_target_is_planned_is_forgotten(pipeline: Pipeline) -> None:
    pipeline.offload = held = HeldWork()
    body = json.dumps({"model": "far", "messages": [{"role": "user", "content": "x" * 300_000}]})
    client, _ = pipeline.ask(body=body.encode())
    pipeline.connection.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nabc")
    pipeline.connection.reset()
    held.waiting.pop()()
    pipeline.connection.send(answered(json.dumps(MESSAGE).encode()))
    assert (client.status, pipeline.event().provider) == (200, "claude")


def test_a_body_on_disk_is_sent_to_the_next_target(pipeline: Pipeline) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    form = part % (b"file", b"x" * 300_000) + part % (b"model", b"media") + b"--b--\r\n"
    headers = [(b"Content-Type", b"multipart/form-data; boundary=b")]
    client, _ = pipeline.ask("/v1/audio/transcriptions", MemoryBody(form), headers)
    pipeline.connection.send(BUSY)
    first, second = pipeline.connection.received.split(b"POST ")[1:]
    assert first.partition(b"\r\n\r\n")[2] == form.replace(b"media", b"gpt-a")
    assert second.partition(b"\r\n\r\n")[2] == form.replace(b"media", b"gpt-b")
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().upstream_model) == (200, "gpt-b")


@pytest.mark.parametrize("alias", ["both", "far", "back"])
def test_a_coded_body_reaches_the_next_target(pipeline: Pipeline, alias: str) -> None:
    headers = [(b"Content-Encoding", b"gzip"), (b"Content-Type", b"application/json")]
    _ = pipeline.ask(body=gzip.compress(asked(alias)), headers=headers)
    pipeline.connection.send(BUSY)
    _, headers, body = pipeline.received()
    assert value_of(headers, b"content-encoding") is None
    assert json.loads(body)["model"] == {"both": "gpt-b", "far": "claude-b", "back": "gpt-a"}[alias]


def test_a_generation_that_was_replaced_lives_until_the_next_target_has_answered(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=asked("both"))
    pipeline.generation.retire()
    pipeline.connection.send(BUSY)
    assert not pipeline.connection.closing
    pipeline.connection.send(answered())
    assert client.status == 200
    assert all(connection.closing for connection in pipeline.endpoint.connections)


def test_the_time_of_a_connection_that_was_closed_meanwhile_is_the_providers() -> None:
    pipeline = Pipeline(CONFIG + "server_timing: true")
    _ = pipeline.ask(body=asked("main/x"))
    pipeline.connection.send(answered())
    client, _ = pipeline.ask(body=asked("main/x"))
    pipeline.clock.advance(0.25)
    pipeline.connection.reset()
    pipeline.clock.advance(0.5)
    pipeline.connection.send(answered())
    assert len(pipeline.endpoint.connections) == 2
    assert value_of(client.headers, b"server-timing") == b"upstream;dur=750.0, gateway;dur=0.0"


class Refused(StaticCredential):
    """A source that knows no other credential, and notes how often it is told that a request was sent."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__(Credential(b"Authorization", Secret("Bearer k"), "hash"))
        self.seen = seen

    def refusable(self, status: int) -> bool:
        return status == 429

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        self.seen.append(refusal.attempts)
        return None


def test_a_source_of_credentials_is_told_of_the_attempts_since_the_last_retry_or_fallback() -> None:
    pipeline = Pipeline(CONFIG.replace("attempts: 0", "attempts: 1"))
    seen: list[int] = []
    pipeline.generation.credentials = dict.fromkeys(pipeline.generation.credentials, Refused(seen))
    _ = pipeline.ask(body=asked("both"))
    for _ in range(4):
        pipeline.connection.send(answered(b"{}", b"429 No"))
        pipeline.clock.advance(1)
    assert (seen, pipeline.event().attempts) == ([1, 1, 1, 1], 4)
