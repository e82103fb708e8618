"""Keep-alives of a translated stream begin with its request, and hold up no retry and no other target."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from twisted.internet.error import ConnectionRefusedError as RefusedError

from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.static import StaticCredential
from mgw.nouns.secret import Secret
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.passing_streams import (
    ARRAY,
    CHAT,
    CLOSE,
    GEMINI,
    HELLO,
    MESSAGES,
    RESPONSES,
    Stream,
    asked,
    chunks,
    head,
)
from tests.support.pipelines import Pipeline, RecordingChannel, answered

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "https://a.example/v1", api_key: sk-main-0001}
  host: {kind: openai_compat, base_url: "https://b.example/v1", api_key: sk-host-0002, speaks: [chat]}
  claude: {kind: anthropic, base_url: "https://c.example/v1", api_key: sk-ant-0003}
  gem: {kind: gemini, base_url: "https://e.example/v1beta", api_key: AIza-0004}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}
aliases:
  far: [claude/c-a, gem/g-b]
  mixed: [claude/c-a, host/gpt-b]
  mixed-messages: [host/gpt-a, claude/c-b]
  mixed-responses: [claude/c-a, main/gpt-b]
  mixed-gemini: [claude/c-a, gem/g-b]
  back: [host/gpt-a, claude/c-b]
stream_keepalive: {interval: 15}
translation: {responses: {enabled: true}}
retries: {attempts: 0}
"""
RETRIES: Final = CONFIG.replace("attempts: 0", "attempts: 1")
COMMENT: Final = b": ping\n\n"
PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
BUSY: Final = answered(b'{"error":{"message":"busy"}}', b"503 Service Unavailable")
CLIENTS: Final = {
    "chat": (CHAT, "claude/x", COMMENT, b'data: {"error":{"message":"'),
    "messages": (MESSAGES, "gem/x", PING, b"event: error\n"),
    "responses": (RESPONSES, "claude/x", COMMENT, b'"type":"response.failed"'),
    "gemini": (GEMINI, "claude/x", b"\n", b'data: {"error":{"code":'),
    "array": (ARRAY, "claude/x", b"\n", b'[{"error":{"code":'),
}
each_client = pytest.mark.parametrize(
    ("client", "model", "keepalive", "error"), CLIENTS.values(), ids=CLIENTS
)


class Asked:
    """A request for a stream of a model, and its providers."""

    def __init__(self, stream: Stream, model: str, text: str = CONFIG, body: bytes | None = None) -> None:
        self.pipeline = Pipeline(text)
        self.pipeline.generation.chance = lambda: 1.0
        body = stream.body.replace(b'"m"', b'"%b"' % model.encode()) if body is None else body
        path = stream.path.replace("/m:", f"/{model}:")
        self.client: RecordingChannel
        self.client, self.work = self.pipeline.ask(path, body, query=stream.query)

    @property
    def attempts(self) -> int:
        connections = self.pipeline.endpoint.connections
        return sum(connection.received.count(b" HTTP/1.1\r\n") for connection in connections)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            self.pipeline.clock.advance(0.5)

    def send(self, data: bytes) -> None:
        self.pipeline.connection.send(data)

    def answer(self, stream: Stream) -> None:
        self.send(head(stream.content_type) + chunks(stream.whole) + CLOSE)

    def event(self) -> Any:
        _ = self.work.addErrback(lambda _: None)
        return self.pipeline.event()

    def told(self) -> tuple[Outcome, str | None, int | None, bool]:
        event = self.event()
        return event.status, event.error, event.http_status, event.stream


OK: Final = (Outcome.OK, None, 200, True)


@each_client
def test_keep_alives_begin_before_the_providers_head(
    client: Stream, model: str, keepalive: bytes, error: bytes
) -> None:
    asked = Asked(client, model)
    asked.wait(14.5)
    assert not asked.client.started
    asked.wait(0.5)
    assert (asked.client.status, asked.client.body) == (200, keepalive)
    assert value_of(asked.client.headers, b"x-gateway-request-id") == b"req_1"
    assert value_of(asked.client.headers, b"cache-control") == b"no-cache"
    asked.wait(30)
    assert asked.client.body == keepalive * 3
    provider = GEMINI if model == "gem/x" else MESSAGES
    asked.answer(provider)
    whole = Asked(client, model)
    whole.answer(provider)
    assert asked.client.body == keepalive * 3 + whole.client.body
    names = [name for name, _ in whole.client.headers]
    assert [name for name, _ in asked.client.headers] == names
    assert asked.told() == OK
    assert asked.event().ttft_ms == 45_000


def busy(asked: Asked) -> None:
    asked.send(BUSY)


def reset(asked: Asked) -> None:
    asked.pipeline.connection.reset()


def error_event(asked: Asked) -> None:
    asked.send(head() + chunks(MESSAGES.silent[0], MESSAGES.errors[0]))


def no_first_byte(asked: Asked) -> None:
    asked.wait(600)


FAILURES: Final = {"503": busy, "reset": reset, "error event": error_event, "first_byte": no_first_byte}
each_failure = pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)


@each_failure
def test_the_next_target_is_asked_behind_keep_alives(fail: Callable[[Asked], None]) -> None:
    asked = Asked(CHAT, "far")
    asked.wait(20)
    assert asked.client.body == COMMENT
    fail(asked)
    assert asked.attempts == 2
    asked.wait(20)
    pings = asked.client.body
    assert pings == COMMENT * (len(pings) // len(COMMENT))
    asked.answer(GEMINI)
    said = asked.client.body.removeprefix(pings)
    assert said.startswith(b'data: {"id":')
    assert said.endswith(b"data: [DONE]\n\n")
    assert said.count(b'"role":"assistant"') == 1
    assert asked.told() == OK
    assert (asked.event().provider, asked.event().attempts) == ("gem", 2)
    assert not [call for call in asked.pipeline.clock.getDelayedCalls() if call.getTime() < 50]


@pytest.mark.parametrize("fail", [busy, reset, error_event], ids=["503", "reset", "error event"])
def test_the_same_target_is_asked_again_behind_keep_alives(fail: Callable[[Asked], None]) -> None:
    asked = Asked(CHAT, "claude/x", RETRIES)
    asked.wait(20)
    fail(asked)
    asked.wait(1)
    assert asked.attempts == 2
    asked.answer(MESSAGES)
    assert asked.client.body.endswith(b"data: [DONE]\n\n")
    assert asked.told() == OK


def test_the_pause_that_a_provider_asks_for_has_keep_alives() -> None:
    asked = Asked(CHAT, "claude/x", RETRIES)
    asked.send(b"HTTP/1.1 429 No\r\nRetry-After: 29\r\nContent-Length: 0\r\n\r\n")
    asked.wait(20)
    assert asked.client.body == COMMENT
    asked.wait(10)
    assert asked.attempts == 2
    asked.answer(MESSAGES)
    assert asked.told() == OK


WORDS: Final = {
    "503": "upstream_5xx",
    "reset": "reset",
    "error event": "upstream_error_event",
    "first_byte": "first_byte_timeout",
}


@each_client
@pytest.mark.parametrize("cause", FAILURES)
def test_what_fails_in_the_end_is_an_error_event_in_the_200(
    client: Stream, model: str, keepalive: bytes, error: bytes, cause: str
) -> None:
    asked = Asked(client, model.replace("gem/x", "claude/x") if client is not MESSAGES else model)
    asked.wait(20)
    if cause == "error event" and client is MESSAGES:
        asked.send(head() + chunks(GEMINI.errors[0]))
    else:
        FAILURES[cause](asked)
    assert asked.client.body.startswith(keepalive)
    said = asked.client.body.replace(keepalive, b"")
    assert error in said
    assert (asked.client.status, asked.client.finished, asked.client.aborted) == (200, True, False)
    assert asked.told() == (Outcome.UPSTREAM_ERROR, WORDS[cause], 200, True)
    if client is ARRAY:
        assert json.loads(asked.client.body)[0]["error"]["code"] >= 400
    assert not asked.pipeline.clock.getDelayedCalls() or cause == "503"


def test_a_failure_that_needs_no_provider_is_an_error_event_too() -> None:
    text = CONFIG.replace("api_key: AIza-0004", "auth: token_file, token_file: /nowhere/token")
    asked = Asked(CHAT, "far", text)
    asked.wait(20)
    asked.send(BUSY)
    assert b'"code":"credential_source_failed"' in asked.client.body
    assert asked.client.finished
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "credential", 200, True)


MIXED: Final = {
    "chat": (CHAT, "mixed", COMMENT),
    "messages": (MESSAGES, "mixed-messages", PING),
    "responses": (RESPONSES, "mixed-responses", COMMENT),
    "gemini": (GEMINI, "mixed-gemini", b"\n"),
    "array": (ARRAY, "mixed-gemini", b"\n"),
}
each_mixed = pytest.mark.parametrize(("client", "alias", "keepalive"), MIXED.values(), ids=MIXED)


@each_mixed
@pytest.mark.parametrize("length", [None, 1], ids=["in pieces", "whole"])
def test_a_stream_that_passes_through_follows_the_head_that_is_out(
    client: Stream, alias: str, keepalive: bytes, length: int | None
) -> None:
    asked = Asked(client, alias)
    asked.wait(20)
    asked.send(BUSY)
    _, headers, _ = asked.pipeline.received()
    assert value_of(headers, b"accept-encoding") == b"identity"
    asked.wait(20)
    pings = keepalive * 2
    assert asked.client.body == pings
    if length is None:
        asked.send(head(client.content_type, b"X-Up: 1"))
        asked.send(chunks(*client.silent))
        assert asked.client.body == pings
        asked.send(chunks(client.words, client.finish, client.rest) + CLOSE)
    else:
        asked.send(head(client.content_type, length=len(client.whole)) + client.whole)
    assert asked.client.body == pings + client.whole
    assert asked.client.finished
    assert value_of(asked.client.headers, b"x-up") is None
    assert asked.told() == OK
    assert asked.event().tokens_in == (3 if client not in (GEMINI, ARRAY) else asked.event().tokens_in)


@each_mixed
def test_a_refusal_of_the_clients_own_family_is_an_error_event(
    client: Stream, alias: str, keepalive: bytes
) -> None:
    asked = Asked(client, alias)
    asked.wait(20)
    asked.send(BUSY)
    asked.send(answered(b'{"error":{"message":"bad key sk-host-0002 of mine","code":400}}', b"400 Bad"))
    assert b"of mine" in asked.client.body
    assert b"sk-host-0002" not in asked.client.body or alias != "mixed"
    assert (asked.client.status, asked.client.finished) == (200, True)
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "upstream_4xx", 200, True)


@each_mixed
def test_what_is_no_stream_cannot_follow(client: Stream, alias: str, keepalive: bytes) -> None:
    asked = Asked(client, alias)
    asked.wait(20)
    asked.send(BUSY)
    asked.send(answered(b"{}", content_type=b"text/html"))
    assert asked.client.finished
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "unreadable", 200, True)


def test_an_overload_behind_the_head_of_another_target_is_an_error_event() -> None:
    asked = Asked(CHAT, "mixed")
    asked.wait(20)
    asked.send(BUSY)
    asked.send(head() + chunks(CHAT.silent[3], CHAT.errors[0]))
    assert asked.client.body.startswith(COMMENT + b'data: {"error":')
    assert b"too busy" in asked.client.body
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "upstream_error_event", 200, True)


def test_a_stream_that_passes_through_has_none_before_its_head() -> None:
    asked = Asked(CHAT, "back")
    asked.wait(100)
    assert not asked.client.started
    asked.send(head() + chunks(CHAT.words))
    asked.wait(100)
    assert asked.client.body == CHAT.words


def test_behind_a_silent_one_that_passes_through_the_client_waited_long_enough() -> None:
    asked = Asked(CHAT, "back")
    asked.wait(600)
    assert asked.attempts == 2
    asked.wait(0.5)
    assert asked.client.body == COMMENT
    asked.answer(MESSAGES)
    assert asked.told() == OK


def test_an_answer_within_the_interval_has_the_providers_own_status() -> None:
    asked = Asked(CHAT, "claude/x")
    asked.wait(14)
    asked.send(BUSY)
    assert asked.client.status == 503
    assert asked.told() == (Outcome.UPSTREAM_ERROR, "upstream_5xx", 503, False)


def test_the_limit_of_the_first_byte_runs_on() -> None:
    asked = Asked(CHAT, "claude/x")
    asked.wait(599)
    assert not asked.client.finished
    asked.wait(2)
    assert asked.client.finished


def test_a_whole_answer_follows_as_a_stream() -> None:
    message = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [{"type": "text", "text": "from claude"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    asked = Asked(CHAT, "claude/x")
    asked.wait(20)
    asked.send(answered(json.dumps(message).encode()))
    assert asked.client.body.startswith(COMMENT + b"data: {")
    assert b"from claude" in asked.client.body
    assert asked.client.body.endswith(b"data: [DONE]\n\n")
    assert asked.told() == OK
    assert asked.event().tokens_in == 3


def test_a_large_whole_answer_follows_at_the_clients_pace() -> None:
    text = "x" * 2_000_000
    message = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    asked = Asked(CHAT, "claude/x")
    asked.wait(20)
    asked.send(answered(json.dumps(message).encode()))
    assert text.encode() in asked.client.body
    assert asked.told() == OK


def test_the_request_keeps_its_memory_until_words_come() -> None:
    asked = Asked(CHAT, "far")
    asked.wait(20)
    assert asked.client.keeps_request
    asked.send(BUSY)
    assert asked.client.keeps_request
    asked.answer(GEMINI)
    assert not asked.client.keeps_request


def test_the_head_tells_what_the_first_target_dropped_and_the_event_what_the_last_did() -> None:
    body = asked(model="far", messages=HELLO, logit_bias={"1": 2}, seed=3)
    opened = Asked(CHAT, "far", CONFIG + "observe_dropped_fields: true\n", body)
    opened.wait(20)
    dropped = value_of(opened.client.headers, b"x-gateway-dropped-fields")
    assert dropped is not None
    assert b"seed" in dropped
    opened.send(BUSY)
    opened.answer(GEMINI)
    assert opened.event().dropped_fields == ("logit_bias",)


class TwoKeys(StaticCredential):
    """A source that has another credential when the first is refused."""

    def __init__(self) -> None:
        super().__init__(Credential(b"x-api-key", Secret("first-key"), "hash"))

    def refusable(self, status: int) -> bool:
        return status == 401

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        second = Credential(b"x-api-key", Secret("second-key"), "hash2")
        return second if credential.key_hash == "hash" else None


def test_another_credential_has_its_turn_behind_keep_alives() -> None:
    opened = Pipeline(CONFIG)
    opened.generation.credentials = {**opened.generation.credentials, "claude": TwoKeys()}
    client, _ = opened.ask(body=CHAT.body.replace(b'"m"', b'"claude/x"'))
    opened.clock.advance(16)
    assert client.body == COMMENT
    opened.connection.send(answered(b"{}", b"401 No"))
    opened.connection.send(head() + chunks(MESSAGES.whole) + CLOSE)
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert (opened.event().status, opened.event().attempts) == (Outcome.OK, 2)


def test_a_client_that_leaves_between_keep_alives_ends_it() -> None:
    asked = Asked(CHAT, "far")
    asked.wait(20)
    _ = asked.work.addErrback(lambda _: None)
    asked.work.cancel()
    assert asked.pipeline.connection.aborted
    assert asked.told() == (Outcome.CLIENT_ABORT, "client_abort", 499, True)
    assert not asked.pipeline.clock.getDelayedCalls()


def test_a_connection_that_cannot_be_made_leads_on() -> None:
    pipeline = Pipeline(CONFIG)
    pipeline.endpoint.held = True
    client, _ = pipeline.ask(body=CHAT.body.replace(b'"m"', b'"far"'))
    pipeline.clock.advance(9)
    pipeline.endpoint.held = False
    pipeline.endpoint.pending.pop()[1].errback(RefusedError())
    pipeline.clock.advance(7)
    assert client.body == COMMENT
    pipeline.connection.send(head() + chunks(GEMINI.whole) + CLOSE)
    assert pipeline.event().provider == "gem"


def test_without_the_setting_nothing_goes_out_before_words() -> None:
    asked = Asked(CHAT, "claude/x", THREE_FAMILIES)
    asked.wait(599)
    assert not asked.client.started


def test_keep_alives_between_words_count_from_the_last_of_them() -> None:
    asked = Asked(CHAT, "claude/x")
    asked.wait(10)
    asked.send(head() + chunks(*MESSAGES.silent, MESSAGES.words))
    so_far = asked.client.body
    asked.wait(14.5)
    assert asked.client.body == so_far
    asked.wait(0.5)
    assert asked.client.body == so_far + COMMENT
    asked.send(chunks(MESSAGES.finish, MESSAGES.rest))
    assert asked.client.body.endswith(b"data: [DONE]\n\n")
    assert asked.told() == OK
