"""Claude and Gemini on Vertex AI between their clients and a host in memory."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred

from mgw.credentials.signed_again import Again
from mgw.nouns.errors import Reason
from mgw.usage.event import Outcome
from mgw.wire.headers import RawHeaders, value_of, values_of
from tests.memory.exchange.test_bedrock import (
    CLIENTS,
    MESSAGE,
    RESPONSES,
    STREAMS,
    VERSION,
    WHOLE,
    beta_headers,
    requests,
    said,
)
from tests.memory.exchange.test_wires import ANSWER, CHAT, CONTENTS, EVENT_STREAM, chunk
from tests.support.deferreds import refusal_of
from tests.support.pipelines import Pipeline

CLAUDE: Final = "/v1/projects/p/locations/global/publishers/anthropic/models"
GEMINI: Final = "/v1/projects/p/locations/global/publishers/google"
CONFIG: Final = f"""
providers:
  host:
    kind: vertex_anthropic
    base_url: https://aiplatform.googleapis.com{CLAUDE.removesuffix("/models")}
    auth: bearer
    api_key: v-canary
  gem:
    kind: gemini
    base_url: https://aiplatform.googleapis.com{GEMINI}
    auth: bearer
    api_key: v-canary
  main: {{kind: openai, base_url: "https://openai.example/v1", api_key: sk-canary}}
defaults: {{anthropic_dialect: host, openai_dialect: host, gemini_dialect: host}}
aliases: {{several: [host/m, main/gpt]}}
translation: {{responses: {{enabled: true}}}}
observe_dropped_fields: true
"""
OF_GEMINI: Final = CONFIG.replace("gemini_dialect: host", "gemini_dialect: gem")
HELLO: Final = b'"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]'
SENT: Final = b'{"anthropic_version":"vertex-2023-10-16",%b}' % HELLO
SENT_STREAM: Final = SENT[:-1] + b',"stream":true}'
BETA: Final = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "Unexpected value(s) `two-1` for the `anthropic-beta` header.",
    },
}
REFUSED: Final = b'{"type":"error","error":{"type":"not_found_error","message":"no"} , "request_id":"r"}'


def pipeline_of(text: str = CONFIG) -> Pipeline:
    return Pipeline(text)


def answered(body: Any, status: bytes = b"200 OK", content_type: bytes = b"application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nrequest-id: req_vrtx_1\r\nContent-Length: %d\r\n\r\n"
    return head % (status, content_type, len(data)) + data


def google(status: int, name: str, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": name}}


def send_stream(pipeline: Pipeline, *pieces: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    pipeline.connection.send(head + b"".join(map(chunk, pieces)) + b"0\r\n\r\n")


# Claude: messages


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", WHOLE),
        ("/v1/messages/count_tokens", WHOLE),
        ("/v1/chat/completions", b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}'),
    ],
)
def test_a_request_of_an_odd_media_type_goes_as_json(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    pipeline.ask(path, body, [(b"Content-Type", b"text/plain;charset=UTF-8")])
    [(_, up, _)] = requests(pipeline)
    assert values_of(up, b"content-type") == [b"application/json"]


def test_a_message_goes_as_vertex_takes_it_and_its_answer_comes_byte_for_byte() -> None:
    pipeline = pipeline_of()
    headers = [
        *VERSION,
        (b"User-Agent", b"sdk"),
        (b"x-api-key", b"client-key"),
        (b"Anthropic-Dangerous-Direct-Browser-Access", b"true"),
        (b"anthropic-beta", b"one"),
    ]
    client, _ = pipeline.ask("/v1/messages", WHOLE, headers, b"beta=true")
    [(target, up, body)] = requests(pipeline)
    assert (target, body) == (f"{CLAUDE}/m:rawPredict", SENT)
    assert {name.lower(): value for name, value in up} == {
        b"host": b"aiplatform.googleapis.com",
        b"user-agent": b"sdk",
        b"content-type": b"application/json",
        b"accept-encoding": b"identity",
        b"anthropic-beta": b"one",
        b"authorization": b"Bearer v-canary",
        b"content-length": b"%d" % len(SENT),
    }
    pipeline.connection.send(answered(ANSWER))
    assert (client.status, client.body) == (200, ANSWER)
    assert value_of(client.headers, b"request-id") == b"req_vrtx_1"
    event = pipeline.event()
    assert (event.tokens_in, event.tokens_out, event.status) == (7, 3, Outcome.OK)
    assert event.upstream_request_id == "req_vrtx_1"


@given(cuts=st.lists(st.integers(1, 400), max_size=20))
def test_a_stream_comes_byte_for_byte_however_it_is_cut(cuts: list[int]) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    [(target, _, body)] = requests(pipeline)
    assert (target, body) == (f"{CLAUDE}/m:streamRawPredict", SENT_STREAM)
    pieces, left = [], EVENT_STREAM
    for size in cuts:
        pieces.append(left[:size])
        left = left[size:]
    send_stream(pipeline, *filter(None, [*pieces, left]))
    assert (client.status, client.body, client.finished) == (200, EVENT_STREAM, True)
    event = pipeline.event()
    assert (event.stream, event.tokens_in, event.tokens_out, event.status) == (True, 7, 3, Outcome.OK)


def test_a_body_with_a_content_coding_is_read_and_sent_without_it() -> None:
    pipeline = pipeline_of()
    headers = [*VERSION, (b"Content-Encoding", b"gzip")]
    _ = pipeline.ask("/v1/messages", gzip.compress(WHOLE), headers)
    [(_, up, body)] = requests(pipeline)
    assert (body, value_of(up, b"content-encoding")) == (SENT, None)


@pytest.mark.parametrize(("path", "body"), CLIENTS)
def test_clients_of_all_families_get_whole_answers(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    [(target, up, sent)] = requests(pipeline)
    assert target == f"{CLAUDE}/m:rawPredict"
    assert [name for name, _ in up if name.lower().startswith(b"anthropic-")] == []
    assert json.loads(sent)["anthropic_version"] == "vertex-2023-10-16"
    assert "model" not in json.loads(sent)
    pipeline.connection.send(answered(ANSWER))
    assert client.status == 200
    assert b"Hello" in client.body


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_clients_of_all_families_get_streams(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    [(target, _, sent)] = requests(pipeline)
    assert (target, json.loads(sent)["stream"]) == (f"{CLAUDE}/m:streamRawPredict", True)
    send_stream(pipeline, EVENT_STREAM)
    assert (client.status, client.finished) == (200, True)
    assert b"Hello" in client.body
    assert (pipeline.event().tokens_in, pipeline.event().tokens_out) == (7, 3)


# Claude: refusals


@pytest.mark.parametrize(("path", "body"), [("/v1/messages", WHOLE), ("/v1/messages", MESSAGE)])
def test_a_refusal_of_anthropics_comes_byte_for_byte(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body, VERSION)
    pipeline.connection.send(answered(REFUSED, b"404 Not Found"))
    assert (client.status, client.body) == (404, REFUSED)
    assert value_of(client.headers, b"request-id") == b"req_vrtx_1"
    assert (pipeline.event().http_status, pipeline.event().error_message) == (404, "no")


@pytest.mark.parametrize(
    ("status", "name", "kind", "client_status"),
    [
        (400, "INVALID_ARGUMENT", "invalid_request_error", 400),
        (401, "UNAUTHENTICATED", "authentication_error", 401),
        (403, "PERMISSION_DENIED", "permission_error", 403),
        (404, "NOT_FOUND", "not_found_error", 404),
        (413, "INVALID_ARGUMENT", "request_too_large", 413),
        (429, "RESOURCE_EXHAUSTED", "rate_limit_error", 429),
        (500, "INTERNAL", "api_error", 500),
        (503, "UNAVAILABLE", "overloaded_error", 529),
    ],
)
@pytest.mark.parametrize("in_array", [False, True])
@pytest.mark.parametrize("body", [WHOLE, MESSAGE], ids=["whole", "stream"])
def test_what_google_refuses_is_said_in_anthropics_words(
    status: int, name: str, kind: str, client_status: int, in_array: bool, body: bytes
) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", body, VERSION)
    refusal = google(status, name, "no, v-canary")
    pipeline.connection.send(answered([refusal] if in_array else refusal, b"%d No" % status))
    assert client.status == client_status
    assert json.loads(client.body) == {
        "type": "error",
        "error": {"type": kind, "message": "no, [key]"},
        "request_id": "req_1",
    }
    assert value_of(client.headers, b"content-type") == b"application/json"


@pytest.mark.parametrize(
    ("path", "body", "where", "word"),
    [
        ("/v1/chat/completions", CHAT, "type", "rate_limit_error"),
        ("/v1/responses", RESPONSES, "message", "Quota exceeded"),
        ("/v1beta/models/m:generateContent", CONTENTS, "status", "RESOURCE_EXHAUSTED"),
    ],
)
def test_what_google_refuses_is_said_in_other_dialects(path: str, body: bytes, where: str, word: str) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    pipeline.connection.send(answered([google(429, "RESOURCE_EXHAUSTED", "Quota exceeded")], b"429 No"))
    assert (client.status, said(client)[where]) == (429, word)
    assert said(client)["message"] == "Quota exceeded"


@pytest.mark.parametrize(("path", "body"), CLIENTS)
def test_a_pause_that_google_states_in_the_body_reaches_the_client(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "6.5s"}]
    refusal = google(429, "RESOURCE_EXHAUSTED", "Quota exceeded")
    refusal["error"]["details"] = details
    pipeline.connection.send(answered(refusal, b"429 No"))
    assert (client.status, value_of(client.headers, b"retry-after")) == (429, b"7")


@pytest.mark.parametrize(("path", "body"), [*CLIENTS[:2], *CLIENTS[3:]])
def test_a_request_that_is_too_large_is_said_to_be_whoever_says_it(path: str, body: bytes) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    page = b"<html><title>Error 413 (Request Entity Too Large)!!1</title></html>"
    pipeline.connection.send(answered(page, b"413 Too Large", b"text/html"))
    assert (client.status, value_of(client.headers, b"content-type")) == (413, b"application/json")
    assert b"Request Entity Too Large" in client.body
    if path == "/v1/messages":
        assert said(client)["type"] == "request_too_large"


def test_the_next_target_of_an_alias_is_tried() -> None:
    pipeline = Pipeline(f"{CONFIG}retries: {{attempts: 0}}\n")
    client, _ = pipeline.ask("/v1/chat/completions", CHAT.replace(b'"m"', b'"several"'))
    pipeline.connection.send(answered(google(503, "UNAVAILABLE", "no"), b"503 No"))
    assert not client.started
    assert requests(pipeline)[-1][0] == "/v1/chat/completions"


# Claude: betas and versions


def test_a_request_is_sent_once_more_without_the_betas_that_are_refused() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, beta_headers(b"one-1,two-1", b"three-1"))
    pipeline.connection.send(answered(BETA, b"400 Bad Request"))
    assert not client.started
    pipeline.connection.send(answered(ANSWER))
    found = requests(pipeline)
    assert [value_of(up, b"anthropic-beta") for _, up, _ in found] == [
        b"one-1,two-1,three-1",
        b"one-1,three-1",
    ]
    assert [body for _, _, body in found] == [SENT, SENT]
    assert client.body == ANSWER
    event = pipeline.event()
    assert (event.attempts, event.dropped_fields) == (2, ("anthropic-beta[two-1]",))
    assert dict(pipeline.generation.signed_again.rows()) == {("host", Again.BETAS): 1}


def test_a_newer_version_goes_on_and_is_replaced_where_it_is_refused() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, [(b"anthropic-version", b"2026-10-21")])
    message = {**BETA["error"], "message": "anthropic_version: Input should be 'vertex-2023-10-16'"}  # type: ignore[dict-item]
    pipeline.connection.send(answered({**BETA, "error": message}, b"400 Bad Request"))
    versions = [json.loads(body)["anthropic_version"] for _, _, body in requests(pipeline)]
    assert versions == ["2026-10-21", "vertex-2023-10-16"]
    pipeline.connection.send(answered(ANSWER))
    assert client.body == ANSWER


# Claude: counts


@pytest.mark.parametrize("suffix", [b"", b"@default", b"@latest"])
def test_tokens_are_counted_with_the_model_in_the_body(suffix: bytes) -> None:
    pipeline = pipeline_of()
    body = WHOLE.replace(b'"m"', b'"m%b"' % suffix)
    client, _ = pipeline.ask("/v1/messages/count_tokens", body, VERSION)
    [(target, _, sent)] = requests(pipeline)
    assert target == f"{CLAUDE}/count-tokens:rawPredict"
    assert sent == b'{"anthropic_version":"vertex-2023-10-16","model":"m", %b}' % HELLO
    pipeline.connection.send(answered(b'{ "input_tokens": 11 }'))
    assert (client.status, client.body) == (200, b'{ "input_tokens": 11 }')
    assert pipeline.event().model == "m" + suffix.decode()


@pytest.mark.parametrize(
    ("path", "body", "key"),
    [
        ("/v1beta/models/m:countTokens", CONTENTS, "totalTokens"),
        ("/v1/responses/input_tokens", RESPONSES, "input_tokens"),
    ],
)
def test_tokens_are_counted_for_other_families(path: str, body: bytes, key: str) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask(path, body)
    [(target, _, sent)] = requests(pipeline)
    assert (target, json.loads(sent)["model"]) == (f"{CLAUDE}/count-tokens:rawPredict", "m")
    pipeline.connection.send(answered(b'{"input_tokens":11}'))
    assert json.loads(client.body)[key] == 11


# Claude: what is not served


@pytest.mark.parametrize("model", ["a:b", "a/b", ".", ".."])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_models_that_cannot_stand_in_the_path_are_refused(path: str, model: str) -> None:
    pipeline = pipeline_of()
    body = (WHOLE if path == "/v1/messages" else CHAT).replace(b'"m"', f'"host/{model}"'.encode())
    client, ended = pipeline.ask(path, body, VERSION)
    assert refusal_of(ended).reason is Reason.MALFORMED
    assert (client.started, pipeline.endpoint.connections) == (False, [])


def test_models_of_other_vendors_are_refused() -> None:
    pipeline = pipeline_of()
    _, ended = pipeline.ask("/v1/messages", WHOLE.replace(b'"m"', b'"gemini-2.5-pro"'), VERSION)
    assert refusal_of(ended).reason is Reason.UNSUPPORTED_BY_KIND
    assert pipeline.endpoint.connections == []


def test_addresses_of_images_are_refused() -> None:
    pipeline = pipeline_of()
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = json.dumps({"model": "claude-opus-5", "messages": [{"role": "user", "content": [part]}]}).encode()
    client, ended = pipeline.ask("/v1/chat/completions", body)
    refusal = refusal_of(ended)
    assert (refusal.reason, client.started, pipeline.endpoint.connections) == (Reason.MALFORMED, False, [])


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/v1/messages/batches", None),
        ("GET", "/v1/messages/batches", None),
        ("GET", "/v1/files", b"provider=host"),
        ("GET", "/v1/models/m", b"provider=host"),
    ],
)
def test_nothing_but_messages_and_counts_is_served(method: str, path: str, query: bytes | None) -> None:
    pipeline = pipeline_of()
    ended: Deferred[None]
    client, ended = pipeline.ask(path, b"{}" if method == "POST" else b"", VERSION, query, method=method)
    assert refusal_of(ended).reason is Reason.UNSUPPORTED_BY_KIND
    assert (client.started, pipeline.endpoint.connections) == (False, [])


# Gemini


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1beta/files", b""),
        ("POST", "/v1beta/files:register", b"{}"),
        ("DELETE", "/v1beta/files/x", b""),
        ("POST", "/upload/v1beta/files", b"{}"),
        ("POST", "/v1beta/cachedContents", b'{"model":"models/gemini-2.5-flash"}'),
        ("GET", "/v1beta/batches/x", b""),
        ("GET", "/v1beta/tunedModels", b""),
        ("GET", "/v1beta/fileSearchStores", b""),
        ("POST", "/v1beta/interactions", b'{"model":"gemini-2.5-flash","input":"x"}'),
        ("POST", "/v1beta/auth_tokens", b"{}"),
        ("GET", "/v1beta/operations/x", b""),
        ("GET", "/v1beta/models/gemini-2.5-flash/operations", b""),
        ("PATCH", "/v1beta/models/gemini-2.5-flash", b"{}"),
    ],
)
def test_what_has_no_place_on_vertex_is_refused_and_nothing_is_sent(
    method: str, path: str, body: bytes
) -> None:
    pipeline = pipeline_of(OF_GEMINI)
    client, ended = pipeline.ask(path, body, method=method)
    refusal = refusal_of(ended)
    assert (refusal.reason, refusal.status) == (Reason.UNSUPPORTED_BY_KIND, 400)
    assert ("gs://" in refusal.message) is ("/files" in path)
    assert (client.started, pipeline.endpoint.connections) == (False, [])
    assert (pipeline.event().attempts, pipeline.event().key_hash) == (0, None)


@pytest.mark.parametrize("method", ["generateContent", "predict", "embedContent", "batchGenerateContent"])
def test_methods_of_models_go_on_byte_for_byte(method: str) -> None:
    pipeline = pipeline_of(OF_GEMINI)
    body = (
        b'{"contents":[{"parts":[{"text":"Hi"}]}],"labels":{"a":"b"} , '
        b'"safetySettings":[{"method":"PROBABILITY"}], '
        b'"cachedContent":"projects/p/locations/l/cachedContents/c"}'
    )
    answer = b'{ "candidates": [],"x" : 1.0 }'
    for _ in range(2):  # the second is known
        client, _ = pipeline.ask(f"/v1beta/models/gemini-2.5-flash:{method}", body)
        target, _, sent = requests(pipeline)[-1]
        assert (target, sent) == (f"{GEMINI}/models/gemini-2.5-flash:{method}", body)
        pipeline.connection.send(answered(answer))
        assert client.body == answer


def test_metadata_of_other_families_is_reported_as_dropped() -> None:
    pipeline = pipeline_of()
    body = json.dumps({**json.loads(CHAT), "model": "gem/gemini-2.5-flash", "metadata": {"a": "b"}}).encode()
    _ = pipeline.ask("/v1/chat/completions", body)
    assert "labels" not in json.loads(requests(pipeline)[-1][2])
    pipeline.connection.send(answered({"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]}))
    assert pipeline.event().dropped_fields == ("metadata",)


def embed(model: str, **fields: Any) -> tuple[Pipeline, Any, str, Any]:
    pipeline = pipeline_of()
    body = json.dumps({"model": f"gem/{model}", **fields}).encode()
    headers: RawHeaders = [(b"Content-Type", b"application/json")]
    client, _ = pipeline.ask("/v1/embeddings", body, headers)
    [(target, _, sent)] = requests(pipeline)
    return pipeline, client, target.removeprefix(f"{GEMINI}/models/"), json.loads(sent)


def test_one_text_is_embedded_by_the_newer_method() -> None:
    pipeline, client, target, sent = embed(
        "gemini-embedding-001", input="a", dimensions=2, task_type="clustering"
    )
    assert target == "gemini-embedding-001:embedContent"
    assert sent == {
        "content": {"parts": [{"text": "a"}]},
        "embedContentConfig": {"taskType": "CLUSTERING", "outputDimensionality": 2},
    }
    reply = {"embedding": {"values": [0.5, 1]}, "usageMetadata": {"promptTokenCount": 3}}
    pipeline.connection.send(answered(reply))
    assert json.loads(client.body)["data"][0]["embedding"] == [0.5, 1.0]
    assert pipeline.event().tokens_in == 3


def test_texts_are_embedded_by_the_older_method_and_their_tokens_are_added() -> None:
    pipeline, client, target, sent = embed("text-embedding-005", input=["a", "b"], dimensions=2)
    assert target == "text-embedding-005:predict"
    assert sent == {
        "instances": [{"content": "a"}, {"content": "b"}],
        "parameters": {"outputDimensionality": 2},
    }
    predictions = [
        {"embeddings": {"values": [0.5, 1], "statistics": {"token_count": 3, "truncated": False}}},
        {"embeddings": {"values": [2, 3], "statistics": {"token_count": 4.0}}},
    ]
    pipeline.connection.send(answered({"predictions": predictions, "metadata": {"x": 1}}))
    found = json.loads(client.body)
    assert [one["embedding"] for one in found["data"]] == [[0.5, 1.0], [2.0, 3.0]]
    assert found["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert pipeline.event().tokens_in == 7
