"""Errors of a provider, told to a client of another family."""

from __future__ import annotations

import json

import pytest

from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.pipelines import Pipeline, answered
from tests.support.translation import MESSAGES, asked, failure_of, said


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 529])
def test_a_refusal_keeps_status_message_and_retry_after(status: int) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=True))
    body = b'{"type":"error","error":{"type":"some_error","message":"not now"},"request_id":"r"}'
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nRetry-After: 7\r\n".encode()
    pipeline.connection.send(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert client.status == (503 if status == 529 else status)
    assert json.loads(client.body)["error"]["message"] == "not now"
    assert value_of(client.headers, b"retry-after") == b"7"
    assert value_of(client.headers, b"content-type") == b"application/json"
    assert work.called
    event = pipeline.event()
    assert (event.status, event.http_status) == (Outcome.UPSTREAM_ERROR, client.status)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"<html>", b'{"content": 7}', b"\xff", b"[" * 9000], ids=str
)
def test_an_answer_that_nothing_can_be_made_of_is_a_bad_gateway(body: bytes) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart"))
    pipeline.connection.send(answered(body))
    assert not client.started
    error = failure_of(work)
    assert (error.reason, error.status) == (Reason.UPSTREAM_BROKEN, 502)
    assert pipeline.event().http_status == 502


@pytest.mark.parametrize(
    "body", [b'["what"]', b'"what"', b'{"error":{"message":"what"}}', b'{"error":"what"}']
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "model"), [("/v1/chat/completions", "smart"), (MESSAGES, "fast")])
def test_an_answer_of_a_wrong_shape_is_unreadable_and_no_fault_of_the_gateway(
    path: str, model: str, stream: bool, body: bytes
) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(path, asked(model, max_tokens=9, stream=stream))
    pipeline.connection.send(answered(body))
    assert client.status == 502
    assert json.loads(client.body)["error"]["message"] == "what"
    assert work.called
    event = pipeline.event()
    assert (event.status, event.http_status, event.error) == (Outcome.UPSTREAM_ERROR, 502, "unreadable")


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_in_an_answer_of_good_status_has_the_status_that_it_names(stream: bool) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(MESSAGES, asked("fast", max_tokens=9, stream=stream))
    pipeline.connection.send(said({"error": {"message": "slow down", "code": 429}}))
    assert client.status == 429
    assert json.loads(client.body)["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert work.called
    assert (pipeline.event().status, pipeline.event().http_status) == (Outcome.UPSTREAM_ERROR, 429)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (b"text/plain", b"no healthy upstream"),
        (b"text/html", b"<html><head><title>no healthy upstream</title></head></html>"),
        (b"text/event-stream", b"data: no healthy upstream\n\n"),
    ],
)
def test_words_in_place_of_a_stream_reach_the_client(content_type: bytes, body: bytes) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(MESSAGES, asked("fast", max_tokens=9, stream=True))
    pipeline.connection.send(answered(body, content_type=content_type))
    assert b"message_stop" not in client.body
    told = client.body.decode() if client.started else failure_of(work).message
    assert "no healthy upstream" in told
    assert pipeline.event().status is Outcome.UPSTREAM_ERROR


def test_a_redirect_is_not_followed_and_is_a_bad_gateway() -> None:
    pipeline = Pipeline()
    _, work = pipeline.ask(body=asked("smart"))
    pipeline.connection.send(answered(b"", b"302 Found"))
    assert "base_url" in failure_of(work).message
