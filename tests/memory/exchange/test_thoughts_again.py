"""A request that is refused for thoughts of earlier turns goes up once more without them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import Signature
from mgw.dialects.signatures import tag_signature
from mgw.nouns.vocabulary import Family
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, RecordingChannel, answered

OBSERVED = THREE_FAMILIES + "observe_dropped_fields: true\n"
SIGNED = tag_signature(Signature(Family.ANTHROPIC, "c2ln"), "Hm.")
BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
    "conversation."
)
FIELD = "thinking.adaptive.block_binding: Extra inputs are not permitted"
OTHER = "max_tokens: must be greater than `thinking.budget_tokens`"
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 7, "output_tokens": 5},
}


def asked(*, stream: bool = False, thoughts: bool = True) -> bytes:
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": SIGNED, "index": 0}
    said: dict[str, Any] = {"role": "assistant", "content": "b"}
    if thoughts:
        said |= {"reasoning_content": "Hm.", "reasoning_details": [detail]}
    history = [{"role": "user", "content": "a"}, said, {"role": "user", "content": "c"}]
    return json.dumps({"model": "claude/claude-opus-5-5", "stream": stream, "messages": history}).encode()


def refused(message: str, status: bytes = b"400 Bad Request") -> bytes:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return answered(json.dumps(error).encode(), status)


def began(text: str = OBSERVED, **fields: bool) -> tuple[Pipeline, RecordingChannel]:
    pipeline = Pipeline(text)
    client, work = pipeline.ask(body=asked(**fields))
    _ = work.addErrback(lambda _: None)
    return pipeline, client


@pytest.mark.parametrize("message", [BOUND, FIELD])
@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_that_are_refused_are_left_out_once(message: str, stream: bool) -> None:
    pipeline, client = began(stream=stream)
    _, headers, body = pipeline.received()
    first = json.loads(body)
    assert first["messages"][1]["content"][0]["signature"] == "c2ln"
    assert first["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert value_of(headers, b"anthropic-beta") == b"thinking-binding-controls-2026-08-01"
    before = pipeline.connection.received
    pipeline.connection.send(refused(message))
    assert not client.started
    head, _, body = pipeline.connection.received.removeprefix(before).partition(b"\r\n\r\n")
    assert b"anthropic-beta" not in head
    again = json.loads(body)
    assert again["messages"][1]["content"] == [{"type": "text", "text": "b"}]
    assert "thinking" not in again
    pipeline.clock.advance(2)
    pipeline.connection.send(answered(json.dumps(MESSAGE).encode()))
    assert client.status == 200
    assert b"hi" in client.body
    dropped = value_of(client.headers, b"x-gateway-dropped-fields")
    assert dropped is not None
    assert b"messages[].reasoning_details" in dropped
    event = pipeline.event()
    assert (event.attempts, event.status, event.http_status) == (2, Outcome.OK, 200)
    assert event.tokens_out == 5
    assert event.ttft_ms == pytest.approx(2000)
    assert event.dropped_fields is not None


@pytest.mark.parametrize("status", [b"400 Bad Request", b"404 Not Found"])
def test_an_item_that_openai_does_not_know_is_left_out_once(status: bytes) -> None:
    thought = {"type": "thinking", "thinking": "Hm."}
    thought["signature"] = tag_signature(Signature(Family.OPENAI, "rs_1:Y2k="), "Hm.")
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "b"}]}
    messages = [{"role": "user", "content": "a"}, said, {"role": "user", "content": "c"}]
    asked = {"model": "main/gpt-5.6", "max_tokens": 99, "messages": messages}
    pipeline = Pipeline(OBSERVED)
    client, _ = pipeline.ask("/v1/messages", json.dumps(asked).encode())
    _, _, body = pipeline.received()
    assert b'"rs_1"' in body
    before = pipeline.connection.received
    pipeline.connection.send(refused("Item with id 'rs_1' not found.", status))
    assert b'"rs_1"' not in pipeline.connection.received.removeprefix(before)
    pipeline.connection.send(answered(b'{"object": "response", "output": []}'))
    assert client.status == 200
    assert value_of(client.headers, b"x-gateway-dropped-fields") == b"messages[].content[thinking]"
    assert pipeline.event().attempts == 2


def test_a_second_refusal_is_the_clients() -> None:
    pipeline, client = began()
    pipeline.connection.send(refused(BOUND))
    pipeline.connection.send(refused(BOUND))
    assert client.status == 400
    assert json.loads(client.body)["error"]["message"] == BOUND
    event = pipeline.event()
    assert (event.attempts, event.status, event.http_status) == (2, Outcome.UPSTREAM_ERROR, 400)


@pytest.mark.parametrize(
    ("reply", "thoughts"),
    [
        (refused(OTHER), True),
        (refused(BOUND), False),
        (refused(BOUND, b"429 Too Many"), True),
        (answered(b"", b"400 Bad Request"), True),
    ],
    ids=["other words", "no thoughts", "other status", "no words"],
)
def test_any_other_refusal_is_the_clients_at_once(reply: bytes, thoughts: bool) -> None:
    pipeline, client = began(thoughts=thoughts)
    pipeline.connection.send(reply)
    assert client.status in {400, 429}
    assert pipeline.event().attempts == 1


def test_a_client_that_leaves_between_the_two_stops_both() -> None:
    pipeline = Pipeline(OBSERVED)
    client, work = pipeline.ask(body=asked())
    pipeline.connection.send(refused(BOUND))
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert not client.started
    assert pipeline.connection.aborted
    assert (pipeline.event().status, pipeline.event().attempts) == (Outcome.CLIENT_ABORT, 2)
    assert not pipeline.clock.getDelayedCalls()


def test_a_count_of_tokens_is_asked_for_again_as_well() -> None:
    pipeline = Pipeline(OBSERVED)
    part = {
        "text": "Hm.",
        "thought": True,
        "thoughtSignature": tag_signature(Signature(Family.ANTHROPIC, "c2ln")),
    }
    contents = [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [part, {"text": "b"}]},
        {"role": "user", "parts": [{"text": "c"}]},
    ]
    body = json.dumps({"contents": contents}).encode()
    client, _ = pipeline.ask("/v1beta/models/claude%2Fclaude-opus-5-5:countTokens", body)
    pipeline.connection.send(refused(FIELD))
    pipeline.connection.send(answered(b'{"input_tokens": 9}'))
    assert json.loads(client.body)["totalTokens"] == 9
    assert pipeline.event().attempts == 2
