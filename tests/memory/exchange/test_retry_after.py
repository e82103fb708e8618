"""How long to wait, as clients of another family than the provider's learn it."""

from __future__ import annotations

import json

import pytest

from mgw.wire.headers import value_of
from tests.support.pipelines import Pipeline, RecordingChannel, answered

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"


def asked(path: str, *, stream: bool) -> tuple[Pipeline, RecordingChannel]:
    pipeline = Pipeline()
    messages = [{"role": "user", "content": "hello"}]
    body = {"model": "gem/gemini-3-pro", "messages": messages, "max_tokens": 9, "stream": stream}
    client, _ = pipeline.ask(path, json.dumps(body).encode())
    return pipeline, client


def refused(delay: str | None, header: bytes = b"") -> bytes:
    details = [] if delay is None else [{"@type": RETRY, "retryDelay": delay}]
    error = {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED", "details": details}
    told = answered(json.dumps({"error": error}).encode(), b"429 Too Many Requests")
    return told.replace(b"X-Up: 1\r\n", header)


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("delay", "seconds"), [("27s", b"27"), ("1.5s", b"2"), ("0s", b"0")])
def test_the_time_in_googles_words_is_a_header(path: str, stream: bool, delay: str, seconds: bytes) -> None:
    pipeline, client = asked(path, stream=stream)
    pipeline.connection.send(refused(delay))
    assert client.status == 429
    assert value_of(client.headers, b"retry-after") == seconds


@pytest.mark.parametrize("name", [b"Retry-After", b"retry-after-ms"])
def test_the_providers_own_header_counts_more_than_its_words(name: bytes) -> None:
    pipeline, client = asked(CHAT, stream=False)
    pipeline.connection.send(refused("27s", name + b": 5\r\n"))
    waits = [pair for pair in client.headers if pair[0].lower().startswith(b"retry-after")]
    assert waits == [(name, b"5")]


@pytest.mark.parametrize("delay", [None, "soon", "-1s"])
def test_no_time_is_made_up(delay: str | None) -> None:
    pipeline, client = asked(CHAT, stream=False)
    pipeline.connection.send(refused(delay))
    assert client.status == 429
    assert value_of(client.headers, b"retry-after") is None
