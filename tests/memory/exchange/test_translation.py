"""One request between two families, from its model to the last byte, with both ends in memory."""

from __future__ import annotations

import json

import pytest

from mgw.exchange.response import SLICE_BYTES
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import Outcome
from mgw.wire.byte_search import LONG_BYTES
from mgw.wire.headers import RawHeaders, value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel
from tests.support.translation import (
    BEGIN,
    HELLO,
    MESSAGE,
    MESSAGES,
    OBSERVED,
    asked,
    begun,
    event,
    failure_of,
    said,
)


def test_a_chat_client_is_answered_by_an_anthropic_provider() -> None:
    pipeline = Pipeline(OBSERVED)
    client, work = pipeline.ask(body=asked("smart", logit_bias={"1": 1}, seed=4, max_tokens=9))
    line, headers, body = pipeline.received()
    assert line == b"POST /v1/messages HTTP/1.1"
    assert value_of(headers, b"x-api-key") == b"sk-ant-0003"
    assert value_of(headers, b"anthropic-version") == b"2023-06-01"
    assert value_of(headers, b"content-type") == b"application/json"
    assert value_of(headers, b"authorization") is None
    sent = json.loads(body)
    assert (sent["model"], sent["max_tokens"]) == ("claude-x", 9)
    pipeline.connection.send(said(MESSAGE))
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
    event = pipeline.event()
    assert (event.dialect, event.provider, event.upstream_model) == ("openai", "claude", "claude-x")
    assert (event.tokens_in, event.tokens_out, event.cache_read_tokens) == (10, 5, 3)
    assert (event.status, event.http_status, event.stream) == (Outcome.OK, 200, False)
    assert event.dropped_fields == ("logit_bias", "seed")


def test_dropped_fields_are_not_named_if_the_operator_says_so() -> None:
    pipeline = Pipeline(THREE_FAMILIES + "observe_dropped_fields: false\n")
    client, _ = pipeline.ask(body=asked("smart", logit_bias={"1": 1}))
    pipeline.connection.send(said(MESSAGE))
    assert value_of(client.headers, b"x-gateway-dropped-fields") is None
    assert pipeline.event().dropped_fields is None


@pytest.mark.parametrize("model", ["smart", "gem/gemini-3-pro"])
def test_a_tool_that_is_no_function_is_refused_by_its_name(model: str) -> None:
    pipeline = Pipeline()
    tools = [{"type": "custom", "custom": {"name": "grep"}}]
    _, work = pipeline.ask(body=asked(model, tools=tools))
    error = failure_of(work)
    assert error.reason is Reason.MALFORMED
    assert "custom" in error.message
    assert not pipeline.endpoint.connections


def test_a_key_of_the_clients_never_crosses_families() -> None:
    pipeline = Pipeline(THREE_FAMILIES.replace(", api_key: sk-ant-0003", ""))
    _, work = pipeline.ask(body=asked("smart"), headers=[(b"Authorization", b"Bearer own")])
    assert failure_of(work).reason is Reason.NO_PROVIDER_KEY
    assert not pipeline.endpoint.connections


def test_headers_of_the_clients_family_stay_here_and_others_go() -> None:
    pipeline = Pipeline()
    headers: RawHeaders = [
        (b"OpenAI-Organization", b"org"),
        (b"Content-Type", b"text/plain"),
        (b"Accept-Encoding", b"br"),
        (b"User-Agent", b"me"),
        (b"traceparent", b"00-1"),
    ]
    pipeline.ask(body=asked("smart"), headers=headers)
    heard = pipeline.received()[1]
    assert value_of(heard, b"openai-organization") is None
    assert value_of(heard, b"user-agent") == b"me"
    assert value_of(heard, b"traceparent") == b"00-1"
    assert [value for name, value in heard if name.lower() == b"content-type"] == [b"application/json"]
    assert [value for name, value in heard if name.lower() == b"accept-encoding"] == [b"identity"]


GEMINI_CLI = {
    "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
    "generationConfig": {"temperature": 0, "topP": 1, "topK": 64},
}


@pytest.mark.parametrize("listed", [False, True])
def test_a_field_beyond_openais_own_goes_only_to_hosts_that_take_it(listed: bool) -> None:
    text = OBSERVED.replace("sk-host-0002}", "sk-host-0002, extra_fields: [top_k]}") if listed else OBSERVED
    pipeline = Pipeline(text)
    client, _ = pipeline.ask("/v1beta/models/host%2Fllama:generateContent", json.dumps(GEMINI_CLI).encode())
    assert (b'"top_k":64' in pipeline.received()[2]) == listed
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    pipeline.connection.send(said({"id": "c", "choices": [choice]}))
    dropped = value_of(client.headers, b"x-gateway-dropped-fields")
    assert dropped == (None if listed else b"generationConfig.topK")


@pytest.mark.parametrize("words", [1, LONG_BYTES])
def test_what_the_gateway_put_into_a_history_does_not_reach_a_native_provider(words: int) -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "bWd3c2ln" + "Z3J0" + "QUJD"}
    text = {"type": "text", "text": "hi" * words}
    body = {"model": "claude-9", "messages": [*HELLO, {"role": "assistant", "content": [thought, text]}]}
    pipeline = Pipeline()
    pipeline.ask(MESSAGES, json.dumps(body).encode())
    body["messages"][1]["content"] = [text]  # type: ignore[index]  # a document, not a type
    assert json.loads(pipeline.received()[2]) == body


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"])
def test_a_thought_of_another_family_does_not_reach_openai(path: str) -> None:
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "bWd3c2ln" + "Z3J0" + "QUJD",
    }
    body = {"model": "fast", "input": [*HELLO, thought, {"type": "compaction", "encrypted_content": "x"}]}
    pipeline = Pipeline()
    pipeline.ask(path, json.dumps(body).encode())
    body["input"].remove(thought)  # type: ignore[attr-defined]  # a document, not a type
    assert json.loads(pipeline.received()[2]) == {**body, "model": "gpt-b"}


def test_a_history_is_left_alone_where_the_operator_says_so() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "bWd3c2ln" + "Z3J0" + "QUJD"}
    body = json.dumps(
        {"model": "claude-9", "messages": [{"role": "assistant", "content": [thought]}]}
    ).encode()
    pipeline = Pipeline(THREE_FAMILIES + "translation: {clean_history: false}\n")
    pipeline.ask(MESSAGES, body)
    assert pipeline.received()[2] == body


LEAK = "Incorrect API key provided: sk-ant-0003."


@pytest.mark.parametrize("way", ["refused", "whole", "stream"])
def test_a_providers_words_reach_the_client_without_our_key(way: str) -> None:
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart", stream=way == "stream"))
    error = {"type": "error", "error": {"type": "authentication_error", "message": LEAK}}
    if way == "refused":
        pipeline.connection.send(said(error, b"401 Unauthorized"))
        told = client.body.decode()
    elif way == "whole":
        pipeline.connection.send(said(error))
        assert client.status == 401
        told = client.body.decode()
    else:
        pipeline.connection.send(begun(BEGIN, event(error)))
        told = client.body.decode()
        _ = work.addErrback(lambda _: None)
    assert "Incorrect API key provided: [key]." in told
    assert "sk-ant-0003" not in told


def test_a_request_of_countless_objects_is_refused_before_it_is_understood() -> None:
    pipeline = Pipeline()
    body = b'{"model":"smart","messages":[' + b"{ }," * 100_000 + b"{}]}"
    _, work = pipeline.ask(body=body)
    assert "at most 100000" in failure_of(work).message
    text = json.dumps("{}" * 10 + "{ x }" * 300_000).encode()
    pipeline.ask(body=b'{"model":"smart","messages":[{"role":"user","content":%b}]}' % text)
    assert len(pipeline.endpoint.connections) == 1


class SlowClient(RecordingChannel):
    """A client that takes one write at a time."""

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.source is not None:
            self.source.pause()


def test_a_large_answer_goes_at_the_clients_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.pipelines.RecordingChannel", SlowClient)
    pipeline = Pipeline()
    client, work = pipeline.ask(body=asked("smart"))
    large = MESSAGE | {"content": [{"type": "text", "text": "x" * 1_000_000}]}
    pipeline.connection.send(said(large))
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
    pipeline = Pipeline()
    held: list[int] = []

    def reserve(size: int) -> None:
        held.append(size)
        if sum(held) > 500_000:
            raise GatewayError(Reason.OVERLOADED, "no room")

    pipeline.reserve = reserve
    client, work = pipeline.ask(body=asked("smart"))
    pipeline.connection.send(said(MESSAGE | {"content": [{"type": "text", "text": "x" * 1_000_000}]})[:-9])
    assert failure_of(work).reason is Reason.OVERLOADED
    assert not client.started
    assert pipeline.connection.aborted
