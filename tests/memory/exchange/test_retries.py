"""A request is sent again where the operator wants that, as long as nothing has reached the client."""

from __future__ import annotations

import json

import pytest

from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.pipelines import ANSWER, Pipeline, answered

CONFIG = """
providers:
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-main-0001}
  claude: {kind: anthropic, base_url: "https://b.example/v1", api_key: sk-ant-0003, retries: {attempts: 0}}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: claude}
aliases: {fast: main/gpt-b}
retries: {attempts: 2}
"""
BUSY = answered(b'{"error":{"message":"busy"}}', b"503 Service Unavailable")
STREAM = b'{"model":"fast","messages":[],"stream":true}'
ERROR_EVENT = b'data: {"error":{"message":"too busy","type":"server_error","code":503}}\n\n'
FIRST_EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def busy(*headers: bytes, status: bytes = b"503 Service Unavailable") -> bytes:
    lines = b"".join(line + b"\r\n" for line in headers)
    return b"HTTP/1.1 %b\r\n%bContent-Length: 0\r\n\r\n" % (status, lines)


def stream(*pieces: bytes, headers: bytes = b"") -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%bTransfer-Encoding: chunked\r\n\r\n"
        % headers
    )
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


@pytest.fixture
def pipeline() -> Pipeline:
    made = Pipeline(CONFIG)
    made.generation.chance = lambda: 1.0
    return made


def sent(pipeline: Pipeline) -> list[bytes]:
    """What the providers were sent, request by request."""
    everything = b"".join(connection.received for connection in pipeline.endpoint.connections)
    return [b"POST " + request for request in everything.split(b"POST ")[1:]]


def test_the_same_bytes_are_sent_again_after_growing_pauses(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask()
    pipeline.connection.send(BUSY)
    assert (len(sent(pipeline)), client.started) == (1, False)
    pipeline.clock.advance(0.4)
    assert len(sent(pipeline)) == 1
    pipeline.clock.advance(0.1)
    pipeline.connection.send(BUSY)
    pipeline.clock.advance(0.9)
    assert len(sent(pipeline)) == 2
    pipeline.clock.advance(0.1)
    pipeline.connection.send(answered())
    assert (client.status, client.body) == (200, ANSWER)
    first, second, third = sent(pipeline)
    assert first == second == third
    event = pipeline.event()
    assert (event.attempts, event.status, event.http_status, event.tokens_in) == (3, Outcome.OK, 200, 7)


def test_the_last_response_is_the_clients(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask()
    for _ in range(3):
        pipeline.connection.send(BUSY)
        pipeline.clock.advance(8)
    assert (client.status, client.body) == (503, b'{"error":{"message":"busy"}}')
    event = pipeline.event()
    assert (event.attempts, event.status, event.error) == (3, Outcome.UPSTREAM_ERROR, "upstream_5xx")


def test_a_provider_may_have_a_rule_of_its_own(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask("/v1/messages", b'{"model":"claude-x","messages":[]}')
    pipeline.connection.send(BUSY)
    assert client.status == 503


def test_the_pause_that_a_provider_asks_for_is_made(pipeline: Pipeline) -> None:
    _ = pipeline.ask()
    pipeline.connection.send(busy(b"Retry-After: 7", status=b"429 Too Many Requests"))
    pipeline.clock.advance(6.9)
    assert len(sent(pipeline)) == 1
    pipeline.clock.advance(0.1)
    assert len(sent(pipeline)) == 2


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(
            b"Retry-After: Thu, 01 Jan 1970 00:00:17 GMT\r\nDate: Thu, 01 Jan 1970 00:00:10 GMT", id="date"
        ),
        pytest.param(b"retry-after-ms: 7000\r\nRetry-After: 1", id="milliseconds"),
        pytest.param(b"Retry-After: 7.0", id="fraction"),
    ],
)
def test_the_pause_may_be_stated_in_other_ways(pipeline: Pipeline, header: bytes) -> None:
    _ = pipeline.ask()
    pipeline.connection.send(busy(header, status=b"429 Too Many Requests"))
    pipeline.clock.advance(6.9)
    assert len(sent(pipeline)) == 1
    pipeline.clock.advance(0.1)
    assert len(sent(pipeline)) == 2


def test_a_pause_of_more_than_30_seconds_is_the_clients_to_make(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask()
    pipeline.connection.send(busy(b"Retry-After: 31"))
    assert (client.status, value_of(client.headers, b"retry-after")) == (503, b"31")


@pytest.mark.parametrize("status", [b"400 Bad Request", b"401 Unauthorized", b"404 Not Found", b"501 Not"])
def test_other_statuses_are_the_clients(pipeline: Pipeline, status: bytes) -> None:
    client, _ = pipeline.ask()
    pipeline.connection.send(busy(status=status))
    assert client.status == int(status[:3])


def test_a_reset_before_the_head_is_followed_by_another_attempt(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask()
    pipeline.connection.reset()
    pipeline.clock.advance(0.5)
    pipeline.connection.send(b"HTTP/1.1 2")
    pipeline.connection.reset()
    pipeline.clock.advance(1)
    pipeline.connection.send(answered())
    assert (client.status, pipeline.event().attempts) == (200, 3)


def test_a_provider_that_is_silent_for_too_long_is_not_asked_again(pipeline: Pipeline) -> None:
    _, work = pipeline.ask()
    failures: list[object] = []
    _ = work.addErrback(failures.append)
    pipeline.clock.advance(600)
    assert len(failures) == 1
    assert (pipeline.event().attempts, pipeline.event().error) == (1, "first_byte_timeout")


def test_a_client_that_leaves_in_a_pause_ends_it(pipeline: Pipeline) -> None:
    client, work = pipeline.ask()
    pipeline.connection.send(BUSY)
    _ = work.addErrback(lambda _: None)
    work.cancel()
    pipeline.clock.advance(60)
    assert (len(sent(pipeline)), client.started) == (1, False)
    assert (pipeline.event().status, pipeline.event().http_status) == (Outcome.CLIENT_ABORT, 499)
    assert pipeline.generation.in_use == 0


def test_what_creates_something_is_sent_again_only_if_nothing_was_done(pipeline: Pipeline) -> None:
    body = b'{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}'
    client, _ = pipeline.ask("/v1/batches", body)
    pipeline.connection.send(BUSY)
    pipeline.clock.advance(0.5)
    assert (len(sent(pipeline)), client.started) == (2, False)
    pipeline.connection.send(busy(status=b"500 Oh"))
    assert (client.status, len(sent(pipeline))) == (500, 2)


def test_what_carries_an_idempotency_key_may_be_sent_again(pipeline: Pipeline) -> None:
    _ = pipeline.ask("/v1/batches", b"{}", [(b"Idempotency-Key", b"k")])
    pipeline.connection.send(busy(status=b"500 Oh"))
    pipeline.clock.advance(0.5)
    assert len(sent(pipeline)) == 2


def test_a_count_is_asked_for_once(pipeline: Pipeline) -> None:
    made = Pipeline(CONFIG.replace("retries: {attempts: 0}", "retries: {attempts: 2}"))
    client, _ = made.ask("/v1/messages/count_tokens", b'{"model":"claude-x","messages":[]}')
    made.connection.send(BUSY)
    assert client.status == 503


def test_a_translated_request_is_sent_again_as_it_was(pipeline: Pipeline) -> None:
    text = CONFIG.replace("attempts: 0", "attempts: 1")
    made = Pipeline(text)
    made.generation.chance = lambda: 1.0
    body = json.dumps({"model": "claude/x", "messages": [{"role": "user", "content": "hi"}]}).encode()
    client, _ = made.ask("/v1/chat/completions", body)
    made.connection.send(BUSY)
    made.clock.advance(0.5)
    first, second = sent(made)
    assert first == second
    made.connection.send(BUSY)
    assert client.status == 503


def test_a_passed_through_stream_that_begins_with_an_overload_is_asked_for_again(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(ERROR_EVENT))
    assert not client.started
    pipeline.clock.advance(0.5)
    pipeline.connection.send(stream(FIRST_EVENT[:20]))
    assert not client.started
    rest = FIRST_EVENT[20:]
    pipeline.connection.send(b"%x\r\n%b\r\n" % (len(rest), rest))
    assert (client.status, client.body) == (200, FIRST_EVENT)
    pipeline.connection.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(ERROR_EVENT), ERROR_EVENT))
    assert (client.body, client.finished) == (FIRST_EVENT + ERROR_EVENT, True)
    assert pipeline.event().attempts == 2


def test_an_overload_that_lasts_is_told_as_its_status(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    for _ in range(3):
        pipeline.connection.send(stream(ERROR_EVENT, headers=b"x-request-id: r\r\n"))
        pipeline.clock.advance(8)
    assert (client.status, json.loads(client.body)) == (503, json.loads(ERROR_EVENT[6:]))
    headers = {name.lower(): value for name, value in client.headers}
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"retry-after"] == b"5"
    assert headers[b"x-request-id"] == b"r"
    event = pipeline.event()
    assert (event.http_status, event.status, event.attempts) == (503, Outcome.UPSTREAM_ERROR, 3)


def test_an_error_that_is_no_overload_keeps_its_place_in_the_stream() -> None:
    """Without retries every byte passes as it comes."""
    made = Pipeline(CONFIG.replace("attempts: 2", "attempts: 0"))
    client, _ = made.ask(body=STREAM)
    made.connection.send(stream(ERROR_EVENT))
    assert (client.status, client.body) == (200, ERROR_EVENT)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(b"\xef\xbb\xbf" + ERROR_EVENT, id="byte order mark"),
        pytest.param(ERROR_EVENT.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(ERROR_EVENT.replace(b"\n", b"\r"), id="CR"),
        pytest.param(ERROR_EVENT[:-1] + b"\r\n", id="LF and CRLF"),
        pytest.param(b": comment\n" + ERROR_EVENT, id="comment"),
        pytest.param(b"event: error\n" + ERROR_EVENT, id="named"),
        pytest.param(ERROR_EVENT[6:], id="bare JSON"),
    ],
)
def test_an_overload_is_known_in_every_spelling(pipeline: Pipeline, error: bytes) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(error))
    for _ in range(2):
        pipeline.clock.advance(8)
        assert not client.started
        for byte in stream(error):
            pipeline.connection.send(bytes([byte]))
    assert (client.status, json.loads(client.body)) == (503, json.loads(ERROR_EVENT[6:]))


@pytest.mark.parametrize("cut", [1, 2])
def test_an_overload_whose_event_does_not_end_is_one(pipeline: Pipeline, cut: int) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(ERROR_EVENT[:-cut]) + b"0\r\n\r\n")
    assert not client.started
    pipeline.clock.advance(0.5)
    pipeline.connection.send(stream(FIRST_EVENT) + b"0\r\n\r\n")
    assert (client.status, client.body, client.finished) == (200, FIRST_EVENT, True)


def test_a_first_event_that_nobody_can_read_passes(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(b'data: {"error\n\n'))
    assert (client.status, client.body) == (200, b'data: {"error\n\n')


def test_an_error_that_leads_to_no_other_attempt_passes(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    error = b'data: {"error":{"message":"bad","code":400}}\n\n'
    pipeline.connection.send(stream(error))
    assert (client.status, client.body) == (200, error)


def test_an_error_in_place_of_a_stream_does_not_repeat_the_credential(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    error = b'data: {"error":{"message":"sk-main-0001 is bad","code":503}}\n\n'
    for _ in range(3):
        pipeline.connection.send(stream(error, headers=b"X-Echo: Bearer sk-main-0001\r\n"))
        pipeline.clock.advance(8)
    assert (client.status, b"sk-main" in client.body) == (503, False)
    assert value_of(client.headers, b"x-echo") == b"Bearer ************"


@pytest.mark.parametrize(
    "first", [DONE, b'data: {"choices":[{"index":0,"delta":{"x":1}}]}\r\n\r\n', b"data: words\n\n"]
)
def test_any_other_beginning_passes_at_once(pipeline: Pipeline, first: bytes) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(first + b"\n"))
    assert client.body == first + b"\n"


def test_a_beginning_without_an_end_is_held_up_to_64_kib(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(b"data: " + b"x" * 60_000))
    assert not client.started
    pipeline.connection.send(b"1770\r\n" + b"y" * 6000 + b"\r\n")
    assert client.started
    assert len(client.body) == 66_006


def test_a_stream_that_breaks_before_its_first_event_is_asked_for_again(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(FIRST_EVENT[:20]))
    pipeline.connection.reset()
    pipeline.clock.advance(0.5)
    pipeline.connection.send(stream(FIRST_EVENT) + b"0\r\n\r\n")
    assert (client.body, client.finished) == (FIRST_EVENT, True)


def test_a_stream_that_breaks_behind_its_first_event_is_broken(pipeline: Pipeline) -> None:
    client, work = pipeline.ask(body=STREAM)
    _ = work.addErrback(lambda _: None)
    pipeline.connection.send(stream(FIRST_EVENT))
    pipeline.connection.reset()
    assert (client.body, client.aborted) == (FIRST_EVENT, True)
    assert pipeline.event().attempts == 1


def test_a_stream_that_is_held_ends_with_its_body(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    pipeline.connection.send(stream(b": hello\n\n" + DONE[:-2]) + b"0\r\n\r\n")
    assert (client.status, client.body, client.finished) == (200, b": hello\n\n" + DONE[:-2], True)
    assert pipeline.event().status is Outcome.OK


def test_a_stream_that_ends_in_order_without_a_word_is_asked_for_again(pipeline: Pipeline) -> None:
    client, _ = pipeline.ask(body=STREAM)
    for _ in range(3):
        assert not client.started
        pipeline.connection.send(stream(b": hello\n\n", headers=b"x-request-id: r\r\n") + b"0\r\n\r\n")
        pipeline.clock.advance(8)
    assert (client.status, client.body, client.finished) == (200, b": hello\n\n", True)
    assert value_of(client.headers, b"x-request-id") == b"r"
    event = pipeline.event()
    assert (event.attempts, event.status, event.error) == (3, Outcome.UPSTREAM_ERROR, "truncated")
    assert (event.http_status, event.stream) == (200, True)
