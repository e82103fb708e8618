"""What exchanges cost, from the bytes of each dialect to the event (contract 7.10 to 7.12)."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from mgw.usage.event import Outcome
from mgw.usage.price_row import Unpriced
from mgw.wire.headers import RawHeaders
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import Pipeline, answered
from tests.support.translation import asked, begun, event, said

PRICES = """
prices:
  rows:
    - {model: gpt-b, provider: host, input: 1000, output: 1000}
    - {model: "gpt-*", input: 2, cache_read: 0.5, output: 10, reasoning: 20}
    - {model: "claude-*", input: 3, cache_read: 0.3, cache_write: 3.75, output: 15}
    - {model: "gem-*", input: 1, cache_read: 0.1, output: 4}
    - {model: "text-embedding-*", input: 0.02}
    - {model: whisper-1, per_minute: 0.006}
    - {model: tts-1, per_million_characters: 15}
    - {model: dall-e-3, per_image: 0.04}
    - {model: "imagen-*", per_image: 0.02}
"""
PRICED = THREE_FAMILIES + PRICES
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
CONTENT = b'{"contents":[{"parts":[{"text":"hello"}]}]}'
CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 30},
}
CHAT_COST = (40 * 2 + 60 * 0.5 + 10 * 10 + 30 * 20) * 1000
MESSAGE_USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 30,
    "output_tokens": 40,
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-real",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": MESSAGE_USAGE,
}
MESSAGE_COST = (10 * 3 + 60 * 0.3 + 30 * 3.75 + 40 * 15) * 1000
GEMINI_USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 30,
}
GEMINI_REPLY = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}],
    "usageMetadata": GEMINI_USAGE,
}
GEMINI_COST = (40 * 1 + 60 * 0.1 + 40 * 4) * 1000
COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-b",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
}


def costs(pipeline: Pipeline) -> tuple[float | None, Unpriced | None]:
    """The cost in nanodollars of the one exchange, and why there is none."""
    (settled,) = pipeline.settled
    usd = pipeline.event().cost_usd
    assert (usd is None) is (settled.cost is None)
    assert usd is None or settled.cost == round(usd * 10**9)
    return settled.cost, settled.unpriced


def streamed(*pieces: bytes) -> bytes:
    return begun(*pieces) + b"0\r\n\r\n"


def data(*documents: Any) -> bytes:  # Any: JSON
    return b"".join(b"data: %b\n\n" % json.dumps(document).encode() for document in documents)


MESSAGE_START = event(
    {
        "type": "message_start",
        "message": {**MESSAGE, "content": [], "usage": {**MESSAGE_USAGE, "output_tokens": 1}},
    }
)
MESSAGE_TEXT = event(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
) + event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}})
MESSAGE_END = (
    event({"type": "content_block_stop", "index": 0})
    + event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}})
    + event({"type": "message_stop"})
)
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-b"}
CHAT_STREAM = (
    data({**CHUNK, "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]})
    + data({**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    + data({**CHUNK, "choices": [], "usage": CHAT_USAGE})
    + b"data: [DONE]\n\n"
)
GEMINI_FIRST = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "h"}]}}],
    "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 1},
}

ANSWERED = {
    "chat": (CHAT, asked("gpt-b"), said({**COMPLETION, "usage": CHAT_USAGE}), CHAT_COST),
    "chat, an alias": (CHAT, asked("fast"), said({**COMPLETION, "usage": CHAT_USAGE}), CHAT_COST),
    "chat, a stream": (CHAT, asked("gpt-b", stream=True), streamed(CHAT_STREAM), CHAT_COST),
    "responses": (
        "/v1/responses",
        b'{"model":"gpt-b","input":"hi"}',
        said(
            {
                "object": "response",
                "usage": {
                    "input_tokens": 100,
                    "input_tokens_details": {"cached_tokens": 60},
                    "output_tokens": 40,
                    "output_tokens_details": {"reasoning_tokens": 30},
                },
            }
        ),
        CHAT_COST,
    ),
    "chat of a host that counts reasoning beside the completion": (
        CHAT,
        asked("gpt-b"),
        said({**COMPLETION, "usage": {**CHAT_USAGE, "completion_tokens": 10}}),
        CHAT_COST,
    ),
    "messages": (MESSAGES, asked("claude-x", max_tokens=9), said(MESSAGE), MESSAGE_COST),
    "messages, a stream": (
        MESSAGES,
        asked("claude-x", max_tokens=9, stream=True),
        streamed(MESSAGE_START, MESSAGE_TEXT, MESSAGE_END),
        MESSAGE_COST,
    ),
    "generateContent": ("/v1beta/models/gem-x:generateContent", CONTENT, said(GEMINI_REPLY), GEMINI_COST),
    "generateContent, a stream": (
        "/v1beta/models/gem-x:streamGenerateContent",
        CONTENT,
        streamed(data(GEMINI_FIRST), data(GEMINI_REPLY)),
        GEMINI_COST,
    ),
    "chat at anthropic": (CHAT, asked("smart"), said(MESSAGE), MESSAGE_COST),
    "chat at anthropic, a stream": (
        CHAT,
        asked("smart", stream=True),
        streamed(MESSAGE_START, MESSAGE_TEXT, MESSAGE_END),
        MESSAGE_COST,
    ),
    "chat at gemini": (CHAT, asked("gem/gem-x"), said(GEMINI_REPLY), GEMINI_COST),
    "a name with models/ before it": (CHAT, asked("models/gem/gem-x"), said(GEMINI_REPLY), GEMINI_COST),
    "messages at openai": (
        MESSAGES,
        asked("main/gpt-b", max_tokens=9),
        said({**COMPLETION, "usage": CHAT_USAGE}),
        CHAT_COST,
    ),
    "messages at openai, a stream": (
        MESSAGES,
        asked("main/gpt-b", max_tokens=9, stream=True),
        streamed(CHAT_STREAM),
        CHAT_COST,
    ),
    "generateContent at anthropic": (
        "/v1beta/models/smart:generateContent",
        CONTENT,
        said(MESSAGE),
        MESSAGE_COST,
    ),
    "a row of its own provider": (
        CHAT,
        asked("host/gpt-b"),
        said({**COMPLETION, "usage": CHAT_USAGE}),
        140 * 1_000_000,
    ),
    "a price that the provider names": (
        CHAT,
        asked("host/whatever"),
        said({**COMPLETION, "usage": {**CHAT_USAGE, "cost": 0.0123}}),
        12_300_000,
    ),
    "a price that the provider names, translated": (
        MESSAGES,
        asked("host/whatever", max_tokens=9, stream=True),
        streamed(CHAT_STREAM.replace(b'"total_tokens"', b'"cost_in_usd_ticks": 123000000, "total_tokens"')),
        12_300_000,
    ),
    "embeddings": (
        "/v1/embeddings",
        b'{"model":"text-embedding-3","input":"hi"}',
        said(
            {
                "object": "list",
                "data": [{"embedding": [0.5]}],
                "usage": {"prompt_tokens": 50, "total_tokens": 50},
            }
        ),
        50 * 20,
    ),
    "images": (
        "/v1/images/generations",
        b'{"model":"dall-e-3","prompt":"hi"}',
        said({"created": 1, "data": [{"b64_json": "aa"}, {"b64_json": "bb"}]}),
        80_000_000,
    ),
    "predictions": (
        "/v1beta/models/imagen-4:predict",
        b'{"instances":[{"prompt":"hi"}]}',
        said({"predictions": [{"bytesBase64Encoded": "aa", "mimeType": "image/png"}]}),
        20_000_000,
    ),
    "speech": (
        "/v1/audio/speech",
        '{"model":"tts-1","input":"Gr\u00fc\u00dfe \\ud83d\\ude00","voice":"x"}'.encode(),
        answered(b"sound", content_type=b"audio/mpeg"),
        7 * 15_000,
    ),
}


@pytest.mark.parametrize(("path", "body", "answer", "cost"), ANSWERED.values(), ids=ANSWERED)
def test_an_answer_costs_what_its_counts_cost(path: str, body: bytes, answer: bytes, cost: float) -> None:
    pipeline = Pipeline(PRICED)
    client, _ = pipeline.ask(path, body=body)
    pipeline.connection.send(answer)
    assert client.finished
    assert costs(pipeline) == (round(cost), None)


@pytest.mark.parametrize(("path", "body", "answer", "cost"), ANSWERED.values(), ids=ANSWERED)
def test_without_prices_nothing_costs_anything(path: str, body: bytes, answer: bytes, cost: float) -> None:
    assert cost
    pipeline = Pipeline(THREE_FAMILIES)
    pipeline.ask(path, body=body)
    pipeline.connection.send(answer)
    assert costs(pipeline) == (None, None)


FORM: RawHeaders = [(b"Content-Type", b"multipart/form-data; boundary=xyz")]
AUDIO = (
    b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nsound\r\n--xyz--\r\n'
)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (said({"text": "hi", "usage": {"type": "duration", "seconds": 90}}), (9_000_000, None)),
        (said({"text": "hi", "duration": 1.5}), (150_000, None)),
        (said({"text": "hi"}), (None, Unpriced.COUNT)),
        (answered(b"hi", content_type=b"text/plain"), (None, Unpriced.COUNT)),
    ],
    ids=["billed", "verbose", "unknown", "plain text"],
)
def test_a_transcription_costs_its_minutes(answer: bytes, found: tuple[int | None, Unpriced | None]) -> None:
    pipeline = Pipeline(PRICED)
    pipeline.ask("/v1/audio/transcriptions", body=AUDIO, headers=FORM)
    pipeline.connection.send(answer)
    assert costs(pipeline) == found


SOUND = answered(b"sound", content_type=b"audio/mpeg")


@pytest.mark.parametrize(
    ("body", "headers", "found"),
    [
        (
            gzip.compress(b'{"model":"tts-1","input":"Hello"}'),
            [(b"Content-Encoding", b"gzip")],
            (75_000, None),
        ),
        (b'{"model":"tts-1","input":"Hello","input":"Hi"}', [], (30_000, None)),
        (b'{"model":"tts-1","input":["Hello"]}', [], (None, Unpriced.COUNT)),
        (b'{"model":"tts-1"}', [], (None, Unpriced.COUNT)),
    ],
    ids=["packed", "said twice", "no text", "nothing"],
)
def test_speech_costs_the_characters_of_its_text(
    body: bytes, headers: RawHeaders, found: tuple[int | None, Unpriced | None]
) -> None:
    pipeline = Pipeline(PRICED)
    pipeline.ask("/v1/audio/speech", body=body, headers=headers)
    pipeline.connection.send(SOUND)
    assert costs(pipeline) == found


def test_translated_speech_costs_its_characters_too() -> None:
    pipeline = Pipeline(PRICED + '    - {model: "voice-*", per_million_characters: 10}\n')
    pipeline.ask("/v1/audio/speech", body=b'{"model":"gem/voice-1","input":"Hello","voice":"alloy"}')
    sound = {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": b64encode(b"ab").decode()}}
    reply = {"candidates": [{"content": {"role": "model", "parts": [sound]}, "finishReason": "STOP"}]}
    pipeline.connection.send(said(reply))
    assert costs(pipeline) == (50_000, None)


UNPRICED = {
    "no row": (CHAT, asked("o-unheard"), said({**COMPLETION, "usage": CHAT_USAGE}), Unpriced.PRICE),
    "a row for something else": (CHAT, asked("dall-e-3"), said(COMPLETION), Unpriced.PRICE),
    "no counts": (CHAT, asked("gpt-b"), said(COMPLETION), Unpriced.COUNT),
    "a stream without counts": (
        CHAT,
        asked("gpt-b", stream=True),
        streamed(data({**CHUNK, "choices": []}), b"data: [DONE]\n\n"),
        Unpriced.COUNT,
    ),
    "a stream of images": (
        "/v1/images/generations",
        b'{"model":"dall-e-3","prompt":"hi","stream":true}',
        streamed(event({"type": "image_generation.completed", "b64_json": "aa"})),
        Unpriced.COUNT,
    ),
    "more images than are looked at": (
        "/v1/images/generations",
        b'{"model":"dall-e-3","prompt":"hi"}',
        said({"data": [{"b64_json": "a" * (8 * 2**20)}]}),
        Unpriced.COUNT,
    ),
}


@pytest.mark.parametrize(("path", "body", "answer", "reason"), UNPRICED.values(), ids=UNPRICED)
def test_an_answer_whose_cost_is_unknown_says_why(
    path: str, body: bytes, answer: bytes, reason: Unpriced
) -> None:
    pipeline = Pipeline(PRICED)
    client, _ = pipeline.ask(path, body=body)
    pipeline.connection.send(answer)
    assert client.finished
    assert costs(pipeline) == (None, reason)


COUNTS = {
    "messages": ("/v1/messages/count_tokens", asked("claude-x"), {"input_tokens": 11}),
    "generateContent": ("/v1beta/models/gem-x:countTokens", CONTENT, {"totalTokens": 11}),
    "messages at gemini": ("/v1/messages/count_tokens", asked("gem/gem-x"), {"totalTokens": 11}),
}


@pytest.mark.parametrize(("path", "body", "answer"), COUNTS.values(), ids=COUNTS)
def test_a_count_costs_nothing_and_is_not_missed(path: str, body: bytes, answer: dict[str, int]) -> None:
    pipeline = Pipeline(PRICED)
    pipeline.ask(path, body=body)
    pipeline.connection.send(said(answer))
    assert pipeline.event().status is Outcome.OK
    assert costs(pipeline) == (None, None)


def test_an_estimated_count_costs_nothing() -> None:
    pipeline = Pipeline(PRICED)
    pipeline.ask("/v1/messages/count_tokens", body=asked("main/gpt-b"))
    assert costs(pipeline) == (None, None)


def test_a_refused_request_costs_nothing() -> None:
    pipeline = Pipeline(PRICED)
    _, work = pipeline.ask(body=asked("mute/gpt-b"))
    _ = work.addErrback(lambda _: None)
    assert pipeline.event().status is Outcome.REJECTED
    assert costs(pipeline) == (None, None)


def test_what_the_provider_refuses_costs_nothing() -> None:
    pipeline = Pipeline(PRICED)
    pipeline.ask(body=asked("gpt-b"))
    pipeline.connection.send(said({"error": {}, "usage": CHAT_USAGE}, b"429 Too Many Requests"))
    assert pipeline.event().status is Outcome.UPSTREAM_ERROR
    assert costs(pipeline) == (None, None)


def test_a_file_costs_nothing() -> None:
    pipeline = Pipeline(PRICED)
    pipeline.ask("/v1/files", body=b"", method="GET")
    pipeline.connection.send(said({"object": "list", "data": []}))
    assert costs(pipeline) == (None, None)


@pytest.mark.parametrize(
    ("path", "model"), [(MESSAGES, "claude-x"), (CHAT, "smart")], ids=["passed through", "translated"]
)
def test_a_stream_that_its_client_left_has_counts_and_no_cost(path: str, model: str) -> None:
    pipeline = Pipeline(PRICED)
    _, work = pipeline.ask(path, body=asked(model, max_tokens=9, stream=True))
    pipeline.connection.send(begun(MESSAGE_START, MESSAGE_TEXT))
    _ = work.addErrback(lambda _: None)
    work.cancel()
    event = pipeline.event()
    assert event.status is Outcome.CLIENT_ABORT
    assert event.tokens_in == 100
    assert costs(pipeline) == (None, None)


def test_a_stream_that_broke_off_has_no_cost() -> None:
    pipeline = Pipeline(PRICED)
    _, work = pipeline.ask(MESSAGES, body=asked("claude-x", max_tokens=9, stream=True))
    pipeline.connection.send(begun(MESSAGE_START + MESSAGE_TEXT))
    _ = work.addErrback(lambda _: None)
    pipeline.connection.close()
    assert pipeline.event().status is Outcome.UPSTREAM_ERROR
    assert costs(pipeline) == (None, None)


def test_a_client_that_has_the_last_event_pays_for_the_stream() -> None:
    pipeline = Pipeline(PRICED)
    _, work = pipeline.ask(MESSAGES, body=asked("claude-x", max_tokens=9, stream=True))
    pipeline.connection.send(begun(MESSAGE_START, MESSAGE_TEXT, MESSAGE_END))
    _ = work.addErrback(lambda _: None)
    work.cancel()
    assert pipeline.event().status is Outcome.OK
    assert costs(pipeline) == (round(MESSAGE_COST), None)


def test_the_target_that_answered_is_charged() -> None:
    text = PRICED.replace("  fast: main/gpt-b", "  fast: [main/gpt-b, claude/claude-x]")
    pipeline = Pipeline(text)
    pipeline.ask(body=asked("fast"))
    pipeline.connection.send(said({"error": {}}, b"503 Service Unavailable"))
    pipeline.connection.send(said(MESSAGE))
    assert pipeline.event().upstream_model == "claude-x"
    assert costs(pipeline) == (round(MESSAGE_COST), None)
