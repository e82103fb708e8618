"""The head of a translated stream waits for the provider's first event: an error there has its own status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel
from tests.support.upstreams import LIMITS

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
WORDS = "too busy now"
HELLO = [{"role": "user", "content": "hello"}]
CLOSE = b"0\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def begun(*pieces: bytes, headers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%bTransfer-Encoding: chunked\r\n\r\n"
    return head % headers + b"".join(chunk(piece) for piece in pieces)


def asked(model: str) -> bytes:
    return json.dumps({"model": model, "messages": HELLO, "stream": True, "max_tokens": 9}).encode()


def content(model: str, query: bytes | None) -> tuple[str, bytes, bytes | None]:
    body = json.dumps({"contents": [{"parts": [{"text": "hello"}]}]}).encode()
    return f"/v1beta/models/{model}:streamGenerateContent", body, query


CLAUDE, MAIN, GEM = "claude/claude-x", "main/gpt-b", "gem/gemini-3-pro"
ERRORS = {
    CLAUDE: b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"%b"}}\n\n'
    % WORDS.encode(),
    MAIN: b'data: {"error":{"message":"%b","type":"server_error","code":503}}\n\n' % WORDS.encode(),
    GEM: b'data: {"error":{"code":503,"message":"%b","status":"UNAVAILABLE"}}\n\n' % WORDS.encode(),
}
BEGINNINGS = {
    CLAUDE: b'event: message_start\ndata: {"type":"message_start","message":'
    b'{"id":"m","model":"c","usage":{"input_tokens":4}}}\n\n',
    MAIN: b'data: {"id":"c","model":"g","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
    GEM: b'data: {"modelVersion":"g","usageMetadata":{"promptTokenCount":4}}\n\n',
}
TEXTS = {
    CLAUDE: BEGINNINGS[CLAUDE]
    + b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"so far"}}\n\n',
    MAIN: b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"so far"}}]}\n\n',
    GEM: b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"so far"}]}}]}\n\n',
}
PAIRS = [
    pytest.param((CHAT, asked(CLAUDE), None), CLAUDE, 503, id="chat from claude"),
    pytest.param((CHAT, asked(GEM), None), GEM, 503, id="chat from gemini"),
    pytest.param((MESSAGES, asked(MAIN), None), MAIN, 529, id="messages from openai"),
    pytest.param((MESSAGES, asked(GEM), None), GEM, 529, id="messages from gemini"),
    pytest.param(content(CLAUDE, b"alt=sse"), CLAUDE, 503, id="content from claude"),
    pytest.param(content(MAIN, b"alt=sse"), MAIN, 503, id="content from openai"),
    pytest.param(content(CLAUDE, None), CLAUDE, 503, id="array from claude"),
    pytest.param(content(MAIN, None), MAIN, 503, id="array from openai"),
]
each_pair = pytest.mark.parametrize(("ask", "model", "status"), PAIRS)
KEEPALIVE = THREE_FAMILIES + "stream_keepalive: {interval: 15}\n"


def opened(
    ask: tuple[str, bytes, bytes | None], text: str = THREE_FAMILIES
) -> tuple[Pipeline, RecordingChannel, Deferred[None]]:
    pipeline = Pipeline(text)
    path, body, query = ask
    client, work = pipeline.ask(path, body, query=query)
    return pipeline, client, work


def refusal_of(work: Deferred[None]) -> GatewayError:
    found: list[Any] = []
    _ = work.addErrback(found.append)
    assert isinstance(found[0].value, GatewayError)
    return found[0].value


@each_pair
def test_an_error_as_the_first_event_is_an_answer_with_its_status(
    ask: tuple[str, bytes, bytes | None], model: str, status: int
) -> None:
    pipeline, client, work = opened(ask)
    pipeline.connection.send(begun(b": hello\n\n"))
    assert not client.started
    pipeline.connection.send(chunk(ERRORS[model]))
    assert client.status == status
    assert value_of(client.headers, b"content-type") == b"application/json"
    assert value_of(client.headers, b"retry-after") == b"5"
    assert value_of(client.headers, b"x-gateway-request-id") == b"req_1"
    assert json.loads(client.body)["error"]["message"] == WORDS
    assert client.finished
    assert work.called
    assert pipeline.connection.aborted
    event = pipeline.event()
    assert (event.status, event.http_status, event.stream) == (Outcome.UPSTREAM_ERROR, status, False)
    assert not pipeline.clock.getDelayedCalls()


@each_pair
def test_an_error_in_one_piece_with_the_empty_beginning_is_the_first_thing_said(
    ask: tuple[str, bytes, bytes | None], model: str, status: int
) -> None:
    pipeline, client, _ = opened(ask)
    pipeline.connection.send(begun(BEGINNINGS[model] + ERRORS[model]))
    assert client.status == status
    assert json.loads(client.body)["error"]["message"] == WORDS
    if model == CLAUDE:
        assert pipeline.event().tokens_in == 4


@each_pair
@pytest.mark.parametrize("pieces", ["one", "two"])
def test_an_error_behind_content_breaks_the_stream(
    ask: tuple[str, bytes, bytes | None], model: str, status: int, pieces: str
) -> None:
    del status
    pipeline, client, work = opened(ask)
    if pieces == "one":
        pipeline.connection.send(begun(TEXTS[model] + ERRORS[model]))
    else:
        pipeline.connection.send(begun(TEXTS[model], ERRORS[model]))
    assert client.status == 200
    assert b"so far" in client.body
    assert WORDS.encode() in client.body
    assert refusal_of(work).reason is Reason.UPSTREAM_BROKEN
    event = pipeline.event()
    assert (event.status, event.http_status, event.stream) == (Outcome.UPSTREAM_ERROR, 200, True)


def test_the_head_of_the_provider_says_when_to_come_again() -> None:
    pipeline, client, _ = opened((CHAT, asked(CLAUDE), None))
    pipeline.connection.send(begun(ERRORS[CLAUDE], headers=b"Retry-After: 7\r\n"))
    assert value_of(client.headers, b"retry-after") == b"7"


@pytest.mark.parametrize(
    ("said", "word"),
    [(ERRORS[CLAUDE], "upstream_error_event"), (b'data: {"not":\n\n', "unreadable")],
    ids=["an error", "no event"],
)
@pytest.mark.parametrize("before", [b"", TEXTS[CLAUDE]], ids=["first", "behind content"])
def test_the_event_tells_why_a_stream_of_good_status_failed(before: bytes, said: bytes, word: str) -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(CHAT, asked(CLAUDE))
    pipeline.connection.send(begun(before) if before else begun())
    pipeline.connection.send(chunk(said) + CLOSE)
    _ = work.addErrback(lambda _: None)
    event = pipeline.event()
    assert (event.status, event.error) == (Outcome.UPSTREAM_ERROR, word)


def test_an_error_that_is_no_overload_says_nothing_of_another_try() -> None:
    pipeline, client, _ = opened((CHAT, asked(CLAUDE), None))
    pipeline.connection.send(begun(ERRORS[CLAUDE].replace(b"overloaded_error", b"invalid_request_error")))
    assert client.status == 400
    assert value_of(client.headers, b"retry-after") is None


def test_a_stream_that_never_says_anything_is_a_bad_gateway() -> None:
    pipeline, client, work = opened((CHAT, asked(CLAUDE), None))
    pipeline.connection.send(begun() + CLOSE)
    assert not client.started
    error = refusal_of(work)
    assert (error.reason, error.status) == (Reason.UPSTREAM_BROKEN, 502)
    assert pipeline.event().http_status == 502


def test_a_provider_that_stays_silent_behind_its_head_runs_into_the_time_limit() -> None:
    pipeline, client, work = opened((CHAT, asked(CLAUDE), None))
    pipeline.connection.send(begun())
    pipeline.clock.advance(LIMITS.idle + 1)
    assert not client.started
    assert refusal_of(work).reason is Reason.UPSTREAM_TOO_SLOW
    assert pipeline.event().http_status == 504


@each_pair
def test_a_silent_provider_lets_the_head_go_with_the_first_sign_of_life(
    ask: tuple[str, bytes, bytes | None], model: str, status: int
) -> None:
    del status
    pipeline, client, _ = opened(ask, KEEPALIVE)
    pipeline.connection.send(begun())
    pipeline.clock.advance(14.9)
    assert not client.started
    pipeline.clock.advance(0.2)
    assert client.status == 200
    assert client.body
    pipeline.connection.send(chunk(ERRORS[model]))
    assert WORDS.encode() in client.body
    assert client.finished
    event = pipeline.event()
    assert (event.status, event.http_status, event.stream) == (Outcome.UPSTREAM_ERROR, 200, True)
    assert not pipeline.clock.getDelayedCalls()


def test_a_client_that_leaves_while_the_head_is_held_stops_the_provider() -> None:
    pipeline, client, work = opened((CHAT, asked(CLAUDE), None), KEEPALIVE)
    pipeline.connection.send(begun())
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert pipeline.connection.aborted
    assert not client.started
    event = pipeline.event()
    assert (event.status, event.http_status) == (Outcome.CLIENT_ABORT, 499)
    assert not pipeline.clock.getDelayedCalls()


def test_an_error_in_the_first_event_hides_the_key_that_was_sent() -> None:
    pipeline, client, _ = opened((CHAT, asked(CLAUDE), None))
    pipeline.connection.send(begun(ERRORS[CLAUDE].replace(WORDS.encode(), b"bad key sk-ant-0003")))
    assert json.loads(client.body)["error"]["message"] == "bad key [key]"
