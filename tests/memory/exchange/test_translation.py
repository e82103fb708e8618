"""One request between two families, from its model to the last byte, with both ends in memory."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.python.failure import Failure

from mgw.errors import GatewayError, Reason
from mgw.exchange.response import SLICE_BYTES
from mgw.usage.event import Outcome
from mgw.wire.headers import RawHeaders, value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import FakeClient, Pipeline, answered

OBSERVED = THREE_FAMILIES + "observe_dropped_fields: true\n"
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
HELLO = [{"role": "user", "content": "hello"}]
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-real",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3},
}
STREAM = b"text/event-stream; charset=utf-8"
CONTENT = b'{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}'


def event(data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), json.dumps(data).encode())


BEGIN = event({"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}})
TEXT = event(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
) + event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}})
END = (
    event({"type": "content_block_stop", "index": 0})
    + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}})
    + event({"type": "message_stop"})
)
OVERLOADED = event({"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}})


def asked(model: str, **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": HELLO, **fields}).encode()


def said(body: dict[str, Any], status: bytes = b"200 OK") -> bytes:
    return answered(json.dumps(body).encode(), status)


def begun(*pieces: bytes) -> bytes:
    """An event stream that has not ended."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + STREAM + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


CLOSE = b"0\r\n\r\n"


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def failure_of(work: Deferred[None]) -> GatewayError:
    failures: list[Failure] = []
    _ = work.addErrback(failures.append)
    assert isinstance(failures[0].value, GatewayError)
    return failures[0].value


def chunks(client: FakeClient) -> list[Any]:
    return [
        json.loads(line.removeprefix(b"data: "))
        for line in client.body.splitlines()
        if line.startswith(b"data: {")
    ]


def test_a_chat_client_is_answered_by_an_anthropic_provider() -> None:
    bench = Pipeline(OBSERVED)
    client, work = bench.ask(body=asked("smart", logit_bias={"1": 1}, seed=4, max_tokens=9))
    line, headers, body = bench.heard()
    assert line == b"POST /v1/messages HTTP/1.1"
    assert value_of(headers, b"x-api-key") == b"sk-ant-0003"
    assert value_of(headers, b"anthropic-version") == b"2023-06-01"
    assert value_of(headers, b"content-type") == b"application/json"
    assert value_of(headers, b"authorization") is None
    sent = json.loads(body)
    assert (sent["model"], sent["max_tokens"]) == ("claude-x", 9)
    bench.wire.says(said(MESSAGE))
    reply = json.loads(client.body)
    assert reply["choices"][0]["message"]["content"] == "hi"
    assert reply["model"] == "claude-real"
    assert reply["usage"]["prompt_tokens"] == 10
    assert value_of(client.headers, b"content-length") == b"%d" % len(client.body)
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"logit_bias, seed"
    assert value_of(client.headers, b"x-gateway-request-id") == b"req_1"
    assert value_of(client.headers, b"x-request-id") == b"req_1"
    assert value_of(client.headers, b"x-up") is None
    assert client.finished
    assert work.called
    told = bench.event()
    assert (told.dialect, told.provider, told.upstream_model) == ("openai", "claude", "claude-x")
    assert (told.tokens_in, told.tokens_out, told.cache_read_tokens) == (10, 5, 3)
    assert (told.status, told.http_status, told.stream) == (Outcome.OK, 200, False)
    assert told.dropped_fields == ("logit_bias", "seed")


def test_what_was_dropped_is_not_told_unless_the_operator_observes_it() -> None:
    bench = Pipeline()
    client, _ = bench.ask(body=asked("smart", logit_bias={"1": 1}))
    bench.wire.says(said(MESSAGE))
    assert value_of(client.headers, b"x-gateway-dropped-fields") is None
    assert bench.event().dropped_fields is None


def test_a_stream_is_told_piece_by_piece() -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=True))
    assert value_of(bench.heard()[1], b"accept") == b"text/event-stream"
    assert value_of(bench.heard()[1], b"accept-encoding") == b"identity"
    bench.wire.says(begun(BEGIN))
    assert client.started
    assert value_of(client.headers, b"content-type") == b"text/event-stream"
    bench.wire.says(chunk(TEXT))
    assert [c["choices"][0]["delta"].get("content") for c in chunks(client)][-1] == "hi"
    bench.wire.says(chunk(END) + CLOSE)
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.finished
    assert work.called
    told = bench.event()
    assert (told.stream, told.tokens_in, told.tokens_out, told.status) == (True, 10, 5, Outcome.OK)


def test_an_error_of_the_provider_in_mid_stream_is_the_clients_own_and_no_end() -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN, TEXT + OVERLOADED + END))
    last = chunks(client)
    assert [c["choices"][0]["delta"].get("content") for c in last[:-1]][-1] == "hi"
    assert last[-1]["error"]["message"] == "too busy"
    assert b"[DONE]" not in client.body
    assert client.finished
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN
    assert bench.wire.aborted
    assert bench.event().status is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize("ends", ["reset", "clean"])
def test_a_stream_that_stops_early_is_shown_as_broken(ends: str) -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN, TEXT))
    if ends == "clean":
        bench.wire.says(CLOSE)
    else:
        bench.wire.breaks()
    assert "error" in chunks(client)[-1]
    assert b"[DONE]" not in client.body
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN
    told = bench.event()
    assert (told.status, told.http_status, told.tokens_in) == (Outcome.UPSTREAM_ERROR, 200, 10)


def test_what_is_no_stream_of_that_dialect_is_a_bad_gateway() -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(b"data: \xff\xfe{\n\n") + CLOSE)
    assert client.status == 502
    assert "error" in json.loads(client.body)
    assert work.called
    assert bench.event().status is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 529])
def test_a_refusal_keeps_status_message_and_retry_after(status: int) -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=True))
    body = b'{"type":"error","error":{"type":"some_error","message":"not now"},"request_id":"r"}'
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nRetry-After: 7\r\n".encode()
    bench.wire.says(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert client.status == (503 if status == 529 else status)
    assert json.loads(client.body)["error"]["message"] == "not now"
    assert value_of(client.headers, b"retry-after") == b"7"
    assert value_of(client.headers, b"content-type") == b"application/json"
    assert work.called
    told = bench.event()
    assert (told.status, told.http_status) == (Outcome.UPSTREAM_ERROR, client.status)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"<html>", b'{"content": 7}', b"\xff", b"[" * 9000], ids=str
)
def test_an_answer_that_nothing_can_be_made_of_is_a_bad_gateway(body: bytes) -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart"))
    bench.wire.says(answered(body))
    assert not client.started
    error = failure_of(work)
    assert (error.reason, error.status) == (Reason.UPSTREAM_BROKEN, 502)
    assert bench.event().http_status == 502


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_in_an_answer_of_good_status_has_the_status_that_it_names(stream: bool) -> None:
    bench = Pipeline()
    client, work = bench.ask(MESSAGES, asked("fast", max_tokens=9, stream=stream))
    bench.wire.says(said({"error": {"message": "slow down", "code": 429}}))
    assert client.status == 429
    assert json.loads(client.body)["error"] == {"type": "rate_limit_error", "message": "slow down"}
    assert work.called
    assert (bench.event().status, bench.event().http_status) == (Outcome.UPSTREAM_ERROR, 429)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (b"text/plain", b"no healthy upstream"),
        (b"text/html", b"<html><head><title>no healthy upstream</title></head></html>"),
        (b"text/event-stream", b"data: no healthy upstream\n\n"),
    ],
)
def test_words_in_place_of_a_stream_reach_the_client(content_type: bytes, body: bytes) -> None:
    bench = Pipeline()
    client, work = bench.ask(MESSAGES, asked("fast", max_tokens=9, stream=True))
    bench.wire.says(answered(body, content_type=content_type))
    assert b"message_stop" not in client.body
    told = client.body.decode() if client.started else failure_of(work).message
    assert "no healthy upstream" in told
    assert bench.event().status is Outcome.UPSTREAM_ERROR


def test_a_redirect_is_not_followed_and_is_a_bad_gateway() -> None:
    bench = Pipeline()
    _, work = bench.ask(body=asked("smart"))
    bench.wire.says(answered(b"", b"302 Found"))
    assert "base_url" in failure_of(work).message


def test_a_compressed_answer_is_read_though_nobody_asked_for_it() -> None:
    bench = Pipeline()
    client, _ = bench.ask(body=asked("smart"))
    body = gzip.compress(json.dumps(MESSAGE).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    bench.wire.says(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert json.loads(client.body)["choices"][0]["message"]["content"] == "hi"
    assert value_of(client.headers, b"content-encoding") is None


def test_a_whole_answer_where_a_stream_was_asked_for_becomes_a_stream() -> None:
    bench = Pipeline()
    client, _ = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(said(MESSAGE))
    assert value_of(client.headers, b"content-type") == b"text/event-stream"
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert bench.event().stream is True


def test_a_client_that_leaves_while_an_answer_is_gathered_stops_the_provider() -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart"))
    bench.wire.says(said(MESSAGE)[:-10])
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert bench.wire.aborted
    assert not client.started
    told = bench.event()
    assert (told.status, told.http_status) == (Outcome.CLIENT_ABORT, 499)


def test_a_client_that_leaves_a_stream_stops_the_provider() -> None:
    bench = Pipeline(THREE_FAMILIES + "stream_keepalive: {}\n")
    _, work = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN, TEXT))
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert bench.wire.aborted
    assert bench.event().status is Outcome.CLIENT_ABORT
    assert not bench.clock.getDelayedCalls()


def test_an_encoded_body_is_decoded_to_be_translated() -> None:
    bench = Pipeline()
    body = gzip.compress(b'{"contents":[{"parts":[{"text":"hello"}]}]}')
    bench.ask(
        "/v1beta/models/claude%2Fclaude-x:generateContent", body, headers=[(b"Content-Encoding", b"gzip")]
    )
    _, headers, sent = bench.heard()
    assert "hello" in json.dumps(json.loads(sent)["messages"])
    assert value_of(headers, b"content-encoding") is None


@pytest.mark.parametrize("model", ["smart", "gem/gemini-3-pro"])
def test_a_tool_that_is_no_function_is_refused_by_its_name(model: str) -> None:
    bench = Pipeline()
    tools = [{"type": "custom", "custom": {"name": "grep"}}]
    _, work = bench.ask(body=asked(model, tools=tools))
    error = failure_of(work)
    assert error.reason is Reason.MALFORMED
    assert "custom" in error.message
    assert not bench.endpoint.wires


def test_a_key_of_the_clients_never_crosses_families() -> None:
    bench = Pipeline(THREE_FAMILIES.replace(", api_key: sk-ant-0003", ""))
    _, work = bench.ask(body=asked("smart"), headers=[(b"Authorization", b"Bearer own")])
    assert failure_of(work).reason is Reason.NO_PROVIDER_KEY
    assert not bench.endpoint.wires


def test_headers_of_the_clients_family_stay_here_and_others_go() -> None:
    bench = Pipeline()
    headers: RawHeaders = [
        (b"OpenAI-Organization", b"org"),
        (b"Content-Type", b"text/plain"),
        (b"Accept-Encoding", b"br"),
        (b"User-Agent", b"me"),
        (b"traceparent", b"00-1"),
    ]
    bench.ask(body=asked("smart"), headers=headers)
    heard = bench.heard()[1]
    assert value_of(heard, b"openai-organization") is None
    assert value_of(heard, b"user-agent") == b"me"
    assert value_of(heard, b"traceparent") == b"00-1"
    assert [value for name, value in heard if name.lower() == b"content-type"] == [b"application/json"]
    assert [value for name, value in heard if name.lower() == b"accept-encoding"] == [b"identity"]


def test_a_silent_provider_leaves_a_translated_stream_with_signs_of_life() -> None:
    bench = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5}\n")
    client, _ = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN))
    before = client.body
    bench.clock.advance(5.1)
    assert client.body.removeprefix(before).startswith(b":")
    assert client.body.endswith(b"\n\n")


def test_without_the_setting_a_silent_stream_is_silent() -> None:
    bench = Pipeline()
    client, _ = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN))
    before = client.body
    bench.clock.advance(100)
    assert client.body == before


PASSED: dict[str, tuple[str, bytes, bytes]] = {
    "chat": (CHAT, asked("gpt-9", stream=True), b": ping\n\n"),
    "messages": (MESSAGES, asked("claude-9", stream=True), b'event: ping\ndata: {"type":"ping"}\n\n'),
    "gemini": ("/v1beta/models/gemini-3:streamGenerateContent", b"{}", b"\n"),
}


@pytest.mark.parametrize("name", PASSED)
def test_untranslated_streams_get_signs_of_life_between_events_alone(name: str) -> None:
    path, body, sign = PASSED[name]
    bench = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5, passthrough: true}\n")
    client, _ = bench.ask(path, body)
    bench.wire.says(begun(b"data: {}\n\n"))
    bench.clock.advance(5.1)
    assert client.body == b"data: {}\n\n" + sign
    bench.wire.says(chunk(b"data: {}\n"))
    bench.clock.advance(5.1)
    assert client.body == b"data: {}\n\n" + sign + b"data: {}\n"
    bench.wire.says(chunk(b"\n"))
    bench.clock.advance(5.1)
    assert client.body.endswith(b"data: {}\n\n" + sign)


def test_untranslated_streams_get_none_unless_it_is_said() -> None:
    bench = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5}\n")
    client, _ = bench.ask(body=asked("gpt-9", stream=True))
    bench.wire.says(begun(b"data: {}\n\n"))
    bench.clock.advance(50)
    assert client.body == b"data: {}\n\n"


CACHED = THREE_FAMILIES + "caching: {auto_breakpoints: {enabled: true, min_chars: 10}}\n"
LONG = [{"role": "system", "content": "be kind " * 9}, *HELLO]


def test_automatic_breakpoints_are_set_and_told() -> None:
    bench = Pipeline(CACHED)
    client, _ = bench.ask(body=asked("smart", messages=LONG))
    assert json.loads(bench.heard()[2])["system"][-1]["cache_control"] == {"type": "ephemeral"}
    bench.wire.says(said(MESSAGE))
    assert value_of(client.headers, b"x-gateway-cache-auto") == b"system"


def test_a_client_can_switch_automatic_breakpoints_off() -> None:
    bench = Pipeline(CACHED)
    client, _ = bench.ask(body=asked("smart", messages=LONG), headers=[(b"X-Gateway-Cache-Auto", b"off")])
    assert b"cache_control" not in bench.heard()[2]
    bench.wire.says(said(MESSAGE))
    assert value_of(client.headers, b"x-gateway-cache-auto") is None


def test_automatic_breakpoints_are_not_for_other_families() -> None:
    bench = Pipeline(CACHED)
    bench.ask(body=asked("gem/gemini-3-pro", messages=LONG))
    assert b"cache" not in bench.heard()[2]


def test_tokens_are_counted_by_the_provider_that_can() -> None:
    bench = Pipeline()
    client, _ = bench.ask(f"{MESSAGES}/count_tokens", asked("gem/gemini-3-pro"))
    assert bench.heard()[0] == b"POST /v1beta/models/gemini-3-pro:countTokens HTTP/1.1"
    bench.wire.says(said({"totalTokens": 12}))
    assert json.loads(client.body) == {"input_tokens": 12}
    assert value_of(client.headers, b"x-gateway-estimated") is None
    assert bench.event().tokens_in is None, "nothing was consumed"


@pytest.mark.parametrize(
    ("setting", "embedding"), [("", None), ("translation: {base64_embeddings: encode}\n", "AACAPwAAAD8=")]
)
def test_embeddings_in_base64_are_written_where_the_operator_says_so(
    setting: str, embedding: str | None
) -> None:
    bench = Pipeline(THREE_FAMILIES + setting)
    body = {"model": "gem/gemini-embedding-001", "input": "a", "encoding_format": "base64"}
    client, work = bench.ask("/v1/embeddings", json.dumps(body).encode())
    if embedding is None:
        error = failure_of(work)
        assert (error.status, error.param) == (400, "encoding_format")
        assert 'encoding_format="float"' in error.message
        assert "translation.base64_embeddings: encode" in error.message
        return
    bench.wire.says(said({"embedding": {"values": [1.0, 0.5]}}))
    assert json.loads(client.body)["data"][0]["embedding"] == embedding


GEMINI_CLI = {
    "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
    "generationConfig": {"temperature": 0, "topP": 1, "topK": 64},
}


@pytest.mark.parametrize("listed", [False, True])
def test_a_field_beyond_openais_own_goes_only_to_hosts_that_take_it(listed: bool) -> None:
    text = OBSERVED.replace("sk-host-0002}", "sk-host-0002, extra_fields: [top_k]}") if listed else OBSERVED
    bench = Pipeline(text)
    client, _ = bench.ask("/v1beta/models/host%2Fllama:generateContent", json.dumps(GEMINI_CLI).encode())
    assert (b'"top_k":64' in bench.heard()[2]) == listed
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    bench.wire.says(said({"id": "c", "choices": [choice]}))
    dropped = value_of(client.headers, b"x-gateway-dropped-fields")
    assert dropped == (None if listed else b"generationConfig.topK")


@pytest.mark.parametrize("model", ["main/gpt-9", "host/llama"])
def test_tokens_are_estimated_where_no_provider_counts(model: str) -> None:
    bench = Pipeline()
    client, work = bench.ask(f"{MESSAGES}/count_tokens", asked(model))
    assert work.called
    assert not bench.endpoint.wires
    assert json.loads(client.body)["input_tokens"] > 0
    assert value_of(client.headers, b"x-gateway-estimated") == b"true"
    told = bench.event()
    assert (told.status, told.attempts, told.provider) == (Outcome.OK, 0, model.partition("/")[0])
    assert told.tokens_in is None


def test_embeddings_go_to_gemini() -> None:
    bench = Pipeline(OBSERVED)
    body = json.dumps({"model": "gem/gemini-embedding-001", "input": ["a", "b"], "user": "u"}).encode()
    client, _ = bench.ask("/v1/embeddings", body)
    assert bench.heard()[0] == b"POST /v1beta/models/gemini-embedding-001:batchEmbedContents HTTP/1.1"
    bench.wire.says(said({"embeddings": [{"values": [1.0]}, {"values": [0.5]}]}))
    reply = json.loads(client.body)
    assert [item["embedding"] for item in reply["data"]] == [[1.0], [0.5]]
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"user"


def test_an_unknown_stop_is_a_normal_end_and_logged_once() -> None:
    bench = Pipeline()
    with capturedLogs() as logged:
        for _ in range(2):
            client, _ = bench.ask(body=asked("smart"))
            bench.wire.says(said(MESSAGE | {"stop_reason": "bored"}))
            assert json.loads(client.body)["choices"][0]["finish_reason"] == "stop"
        streamed, _ = bench.ask(body=asked("smart", stream=True))
        bench.wire.says(begun(BEGIN, TEXT, END.replace(b"end_turn", b"tired")) + CLOSE)
        assert streamed.body.endswith(b"[DONE]\n\n")
    assert [entry["word"] for entry in logged if "word" in entry] == ["bored", "tired"]


def test_what_the_gateway_put_into_a_history_does_not_reach_a_native_provider() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "bWd3c2ln" + "Z3J0" + "QUJD"}
    text = {"type": "text", "text": "hi"}
    body = {"model": "claude-9", "messages": [*HELLO, {"role": "assistant", "content": [thought, text]}]}
    bench = Pipeline()
    bench.ask(MESSAGES, json.dumps(body).encode())
    body["messages"][1]["content"] = [text]  # type: ignore[index]  # a document, not a type
    assert json.loads(bench.heard()[2]) == body


def test_a_history_is_left_alone_where_the_operator_says_so() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "bWd3c2ln" + "Z3J0" + "QUJD"}
    body = json.dumps(
        {"model": "claude-9", "messages": [{"role": "assistant", "content": [thought]}]}
    ).encode()
    bench = Pipeline(THREE_FAMILIES + "translation: {clean_history: false}\n")
    bench.ask(MESSAGES, body)
    assert bench.heard()[2] == body


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_comes_back_under_the_name_that_the_client_gave_it(stream: bool) -> None:
    bench = Pipeline()
    body = {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "tools": [{"functionDeclarations": [{"name": "maps.google:find"}]}],
    }
    method = "streamGenerateContent" if stream else "generateContent"
    query = b"alt=sse" if stream else None
    client, _ = bench.ask(f"/v1beta/models/claude/x:{method}", json.dumps(body).encode(), query=query)
    name = json.loads(bench.heard()[2])["tools"][0]["name"]
    assert name != "maps.google:find"
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    if stream:
        begin = event({"type": "content_block_start", "index": 0, "content_block": call})
        bench.wire.says(begun(BEGIN, begin, END.replace(b"end_turn", b"tool_use")) + CLOSE)
    else:
        bench.wire.says(said(MESSAGE | {"content": [call], "stop_reason": "tool_use"}))
    assert b'"maps.google:find"' in client.body


@pytest.mark.parametrize("later", ["silence", "end", "more"])
def test_a_client_need_not_wait_for_a_provider_that_forgets_to_hang_up(later: str) -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN, TEXT + END))
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.finished
    assert work.called
    assert bench.event().status is Outcome.OK
    assert not bench.wire.aborted
    if later == "end":
        bench.wire.says(CLOSE)
    elif later == "more":
        for _ in range(20):
            bench.clock.advance(0.1)
            bench.wire.says(chunk(b": x\n\n"))
    bench.clock.advance(1.1)
    assert bench.wire.aborted is (later != "end")
    assert client.body.count(b"[DONE]") == 1


def test_a_connection_whose_answer_ended_late_serves_the_next_request() -> None:
    bench = Pipeline()
    bench.ask(body=asked("smart", stream=True))
    bench.wire.says(begun(BEGIN, TEXT + END))
    bench.wire.says(CLOSE)
    bench.ask(body=asked("smart"))
    assert len(bench.endpoint.wires) == 1


def test_a_reset_behind_the_last_event_takes_nothing_away() -> None:
    bench = Pipeline()
    client, _ = bench.ask("/v1beta/models/claude/x:streamGenerateContent", CONTENT, query=b"alt=sse")
    bench.wire.says(begun(BEGIN, TEXT + END))
    bench.wire.breaks()
    assert b"error" not in client.body
    assert bench.event().status is Outcome.OK


def test_a_gemini_stream_that_has_named_its_reason_is_whole() -> None:
    bench = Pipeline()
    client, _ = bench.ask(body=asked("gem/gemini-3-pro", stream=True))
    last = {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}
    bench.wire.says(begun(b"data: " + json.dumps(last).encode() + b"\n\n"))
    bench.wire.breaks()
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert bench.event().status is Outcome.OK


def test_an_answer_that_the_writer_cannot_tell_stops_the_provider_and_is_no_success() -> None:
    bench = Pipeline()
    client, work = bench.ask(MESSAGES, asked("main/gpt-9", stream=True, max_tokens=9))
    stray = {"choices": [{"index": 1, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    bench.wire.says(begun(b"data: " + json.dumps(stray).encode() + b"\n\n", b"data: [DONE]\n\n") + CLOSE)
    assert b"event: error" in client.body
    assert failure_of(work).reason is Reason.UPSTREAM_BROKEN
    assert bench.event().status is Outcome.UPSTREAM_ERROR


def test_signs_of_life_never_enter_a_stream_whose_length_is_told() -> None:
    bench = Pipeline(THREE_FAMILIES + "stream_keepalive: {interval: 5, passthrough: true}\n")
    client, _ = bench.ask(body=asked("gpt-9", stream=True))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n"
    bench.wire.says(head + b"data: {}\n\n")
    bench.clock.advance(20)
    assert client.body == b"data: {}\n\n"


LEAK = "Incorrect API key provided: sk-ant-0003."


@pytest.mark.parametrize("way", ["refused", "whole", "stream"])
def test_a_providers_words_reach_the_client_without_our_key(way: str) -> None:
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart", stream=way == "stream"))
    error = {"type": "error", "error": {"type": "authentication_error", "message": LEAK}}
    if way == "refused":
        bench.wire.says(said(error, b"401 Unauthorized"))
        told = client.body.decode()
    elif way == "whole":
        bench.wire.says(said(error))
        assert client.status == 401
        told = client.body.decode()
    else:
        bench.wire.says(begun(BEGIN, event(error)))
        told = client.body.decode()
        _ = work.addErrback(lambda _: None)
    assert "Incorrect API key provided: [key]." in told
    assert "sk-ant-0003" not in told


def test_a_request_of_countless_objects_is_refused_before_it_is_understood() -> None:
    bench = Pipeline()
    body = b'{"model":"smart","messages":[' + b"{ }," * 100_000 + b"{}]}"
    _, work = bench.ask(body=body)
    assert "at most 100000" in failure_of(work).message
    text = json.dumps("{}" * 10 + "{ x }" * 300_000).encode()
    bench.ask(body=b'{"model":"smart","messages":[{"role":"user","content":%b}]}' % text)
    assert len(bench.endpoint.wires) == 1


class SlowClient(FakeClient):
    """A client that takes one write at a time."""

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.source is not None:
            self.source.pause()


def test_a_large_answer_goes_at_the_clients_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.pipelines.FakeClient", SlowClient)
    bench = Pipeline()
    client, work = bench.ask(body=asked("smart"))
    large = MESSAGE | {"content": [{"type": "text", "text": "x" * 1_000_000}]}
    bench.wire.says(said(large))
    turns = 0
    while not work.called:
        turns += 1
        assert len(client.body) == turns * SLICE_BYTES
        assert client.source is not None
        client.source.resume()
    assert client.finished
    assert json.loads(client.body)["choices"][0]["message"]["content"] == "x" * 1_000_000
    assert turns == 3


def test_gathered_answers_take_room_and_are_refused_where_there_is_none() -> None:
    bench = Pipeline()
    held: list[int] = []

    def reserve(size: int) -> None:
        held.append(size)
        if sum(held) > 500_000:
            raise GatewayError(Reason.OVERLOADED, "no room")

    bench.reserve = reserve
    client, work = bench.ask(body=asked("smart"))
    bench.wire.says(said(MESSAGE | {"content": [{"type": "text", "text": "x" * 1_000_000}]})[:-9])
    assert failure_of(work).reason is Reason.OVERLOADED
    assert not client.started
    assert bench.wire.aborted
