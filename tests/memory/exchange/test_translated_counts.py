"""Counts of tokens, embeddings and cached prompts between two families."""

from __future__ import annotations

import json

import pytest

from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline
from tests.support.translation import HELLO, MESSAGE, MESSAGES, OBSERVED, asked, failure_of, said

CACHED = THREE_FAMILIES + "caching: {auto_breakpoints: {enabled: true, min_chars: 10}}\n"
LONG = [{"role": "system", "content": "be kind " * 9}, *HELLO]


def test_automatic_breakpoints_are_set_and_told() -> None:
    pipeline = Pipeline(CACHED)
    client, _ = pipeline.ask(body=asked("smart", messages=LONG))
    assert json.loads(pipeline.received()[2])["system"][-1]["cache_control"] == {"type": "ephemeral"}
    pipeline.connection.send(said(MESSAGE))
    assert value_of(client.headers, b"x-gateway-cache-auto") == b"system"


def test_a_client_can_switch_automatic_breakpoints_off() -> None:
    pipeline = Pipeline(CACHED)
    client, _ = pipeline.ask(body=asked("smart", messages=LONG), headers=[(b"X-Gateway-Cache-Auto", b"off")])
    assert b"cache_control" not in pipeline.received()[2]
    pipeline.connection.send(said(MESSAGE))
    assert value_of(client.headers, b"x-gateway-cache-auto") is None


def test_automatic_breakpoints_are_not_for_other_families() -> None:
    pipeline = Pipeline(CACHED)
    pipeline.ask(body=asked("gem/gemini-3-pro", messages=LONG))
    assert b"cache" not in pipeline.received()[2]


def test_tokens_are_counted_by_the_provider_that_can() -> None:
    pipeline = Pipeline()
    client, _ = pipeline.ask(f"{MESSAGES}/count_tokens", asked("gem/gemini-3-pro"))
    assert pipeline.received()[0] == b"POST /v1beta/models/gemini-3-pro:countTokens HTTP/1.1"
    pipeline.connection.send(said({"totalTokens": 12}))
    assert json.loads(client.body) == {"input_tokens": 12}
    assert value_of(client.headers, b"x-gateway-estimated") is None
    assert pipeline.event().tokens_in is None, "nothing was consumed"


@pytest.mark.parametrize(
    ("setting", "embedding"), [("", None), ("translation: {base64_embeddings: encode}\n", "AACAPwAAAD8=")]
)
def test_embeddings_in_base64_are_written_where_the_operator_says_so(
    setting: str, embedding: str | None
) -> None:
    pipeline = Pipeline(THREE_FAMILIES + setting)
    body = {"model": "gem/gemini-embedding-001", "input": "a", "encoding_format": "base64"}
    client, work = pipeline.ask("/v1/embeddings", json.dumps(body).encode())
    if embedding is None:
        error = failure_of(work)
        assert (error.status, error.param) == (400, "encoding_format")
        assert 'encoding_format="float"' in error.message
        assert "translation.base64_embeddings: encode" in error.message
        return
    pipeline.connection.send(said({"embedding": {"values": [1.0, 0.5]}}))
    assert json.loads(client.body)["data"][0]["embedding"] == embedding


@pytest.mark.parametrize("model", ["main/gpt-9", "host/llama"])
def test_tokens_are_estimated_where_no_provider_counts(model: str) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(f"{MESSAGES}/count_tokens", asked(model))
    assert work.called
    assert not pipeline.endpoint.connections
    assert json.loads(client.body)["input_tokens"] > 0
    assert value_of(client.headers, b"x-gateway-estimated") == b"true"
    event = pipeline.event()
    assert (event.status, event.attempts, event.provider) == (Outcome.OK, 0, model.partition("/")[0])
    assert event.tokens_in is None


def test_embeddings_go_to_gemini() -> None:
    pipeline = Pipeline(OBSERVED)
    body = json.dumps({"model": "gem/gemini-embedding-001", "input": ["a", "b"], "user": "u"}).encode()
    client, _ = pipeline.ask("/v1/embeddings", body)
    assert pipeline.received()[0] == b"POST /v1beta/models/gemini-embedding-001:batchEmbedContents HTTP/1.1"
    pipeline.connection.send(said({"embeddings": [{"values": [1.0]}, {"values": [0.5]}]}))
    reply = json.loads(client.body)
    assert [item["embedding"] for item in reply["data"]] == [[1.0], [0.5]]
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"user"
