"""Each dialect's token counts, unary and streamed, in the canonical convention."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage
from mgw.dialects import dialect_of
from mgw.dialects.metering import meter_whole
from mgw.nouns.vocabulary import DialectName

JSON = b"application/json; charset=utf-8"
SSE = b"text/event-stream"


def metered(dialect: DialectName, content_type: bytes, chunks: list[bytes]) -> TokenUsage:
    """Return what the meter finds, piece by piece; a body that came in one is also metered at once."""
    spoken = dialect_of(dialect)
    meter = spoken.meter(content_type)
    for chunk in chunks:
        meter.feed(chunk)
    meter.finish()
    if content_type != SSE and len(chunks) == 1:
        assert meter_whole(content_type, spoken.read_usage, chunks[0]) == meter.usage
    return meter.usage


def sse(*events: Any, named: bool = False, end: str = "\n") -> bytes:
    out = []
    for event in events:
        text = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
        name = f"event: {event['type']}{end}" if named else ""
        out.append(f"{name}data: {text}{end}{end}")
    return "".join(out).encode()


CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "total_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 7, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 30},
}
RESPONSE_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 7},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 30},
    "total_tokens": 140,
}
OPENAI_COUNTS = TokenUsage(100, 40, 60, 7, 30)
CHAT_CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": 'h\u00e9 "usage": {} \u20ac'}}],
    "usage": None,
}
CHAT_STREAM = sse(CHAT_CHUNK, CHAT_CHUNK, {"choices": [], "usage": CHAT_USAGE}, "[DONE]")
RESPONSE_STREAM = sse(
    {"type": "response.created", "response": {"status": "in_progress", "usage": None}},
    {"type": "response.output_text.delta", "delta": "\u20ac usage"},
    {"type": "response.completed", "response": {"status": "completed", "usage": RESPONSE_USAGE}},
    named=True,
)
MESSAGE_USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 1,
}
MESSAGE_STREAM = sse(
    {"type": "message_start", "message": {"id": "m", "type": "message", "usage": MESSAGE_USAGE}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\u20ac usage"}},
    {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 20}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 40, "output_tokens_details": {"thinking_tokens": 30}},
    },
    {"type": "message_stop"},
    named=True,
)
MESSAGE_COUNTS = TokenUsage(100, 40, 60, 30, 30)
GEMINI_USAGE = {
    "promptTokenCount": 95,
    "toolUsePromptTokenCount": 5,
    "candidatesTokenCount": 10,
    "thoughtsTokenCount": 30,
    "cachedContentTokenCount": 60,
    "totalTokenCount": 140,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 95}],
}
GEMINI_PARTS = [
    {
        "candidates": [{"content": {"parts": [{"text": '} ]\u20ac "usageMetadata"'}]}}],
        "usageMetadata": {"promptTokenCount": 95, "totalTokenCount": 95},
    },
    {"candidates": [{"finishReason": "STOP"}], "usageMetadata": GEMINI_USAGE},
]
GEMINI_COUNTS = TokenUsage(100, 40, 60, None, 30)
GEMINI_STREAM = sse(*GEMINI_PARTS, end="\r\n")
GEMINI_ARRAY = b"[" + b"\n,\r\n".join(json.dumps(part, indent=1).encode() for part in GEMINI_PARTS) + b"\n]\n"

CASES: dict[str, tuple[DialectName, bytes, bytes, TokenUsage]] = {
    "chat": (
        DialectName.OPENAI_CHAT,
        JSON,
        json.dumps({"choices": [], "usage": CHAT_USAGE}).encode(),
        OPENAI_COUNTS,
    ),
    "chat stream": (DialectName.OPENAI_CHAT, SSE, CHAT_STREAM, OPENAI_COUNTS),
    "chat stream with CRLF": (
        DialectName.OPENAI_CHAT,
        SSE,
        CHAT_STREAM.replace(b"\n", b"\r\n"),
        OPENAI_COUNTS,
    ),
    "chat stream with usage in every chunk": (
        DialectName.OPENAI_CHAT,
        SSE,
        sse({"usage": {"prompt_tokens": 100, "completion_tokens": 1}}, {"usage": CHAT_USAGE}, "[DONE]"),
        OPENAI_COUNTS,
    ),
    "chat of DeepSeek": (
        DialectName.OPENAI_CHAT,
        JSON,
        b'{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}}',
        TokenUsage(9, 2, 4),
    ),
    "chat of a host that writes floats": (
        DialectName.OPENAI_CHAT,
        JSON,
        b'{"usage":{"prompt_tokens":9.0,"completion_tokens":2.0,"prompt_tokens_details":null}}',
        TokenUsage(9, 2),
    ),
    "chat of xAI, which counts reasoning beside the completion": (
        DialectName.OPENAI_CHAT,
        JSON,
        (
            b'{"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":331,'
            b'"completion_tokens_details":{"reasoning_tokens":317}}}'
        ),
        TokenUsage(12, 319, reasoning=317),
    ),
    "chat stream of xAI": (
        DialectName.OPENAI_CHAT,
        SSE,
        sse(
            {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 0, "total_tokens": 12}},
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 12,
                    "completion_tokens": 2,
                    "total_tokens": 331,
                    "completion_tokens_details": {"reasoning_tokens": 317},
                },
            },
            "[DONE]",
        ),
        TokenUsage(12, 319, reasoning=317),
    ),
    "chat stream of Groq": (
        DialectName.OPENAI_CHAT,
        SSE,
        sse(
            {"choices": [], "x_groq": {"id": "req_1"}},
            {"choices": [], "x_groq": {"id": "req_1", "usage": CHAT_USAGE}},
            "[DONE]",
        ),
        OPENAI_COUNTS,
    ),
    "chat stream of Moonshot": (
        DialectName.OPENAI_CHAT,
        SSE,
        sse({"choices": [{"index": 0, "delta": {}, "usage": CHAT_USAGE}]}, "[DONE]"),
        OPENAI_COUNTS,
    ),
    "chat of a host with more cached than prompted": (
        DialectName.OPENAI_CHAT,
        JSON,
        (
            b'{"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,'
            b'"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":3}}}'
        ),
        TokenUsage(9, 2, 9, 0),
    ),
    "generateContent with more cached than prompted": (
        DialectName.GEMINI,
        JSON,
        b'{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"cachedContentTokenCount":64}}',
        TokenUsage(9, 2, 9),
    ),
    "interaction with more cached than prompted": (
        DialectName.GEMINI,
        JSON,
        b'{"usage":{"total_input_tokens":9,"total_output_tokens":2,"total_cached_tokens":64}}',
        TokenUsage(9, 2, 9),
    ),
    "embeddings": (
        DialectName.OPENAI,
        JSON,
        b'{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":8,"total_tokens":8}}',
        TokenUsage(8),
    ),
    "chat of a host that names its price": (
        DialectName.OPENAI_CHAT,
        SSE,
        b'data: {"usage":{"prompt_tokens":9,"completion_tokens":2,"cost":0.00015}}\n\ndata: [DONE]\n\n',
        TokenUsage(9, 2, billed=Billed(150_000)),
    ),
    "messages of a host that names its price": (
        DialectName.ANTHROPIC,
        SSE,
        sse(
            {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
            {"type": "message_delta", "usage": {"output_tokens": 6, "cost": 0.25}},
            {"type": "message_delta", "usage": {"output_tokens": 7}},
        ),
        TokenUsage(9, 7, billed=Billed(250_000_000)),
    ),
    "moderations": (DialectName.OPENAI, JSON, b'{"id":"m","results":[]}', NO_USAGE),
    "image stream": (
        DialectName.OPENAI,
        SSE,
        sse({"type": "image_generation.completed", "b64_json": "", "usage": RESPONSE_USAGE}, named=True),
        OPENAI_COUNTS,
    ),
    "transcription billed by length": (
        DialectName.OPENAI,
        JSON,
        b'{"text":"","usage":{"type":"duration","seconds":1.5}}',
        TokenUsage(billed=Billed(milliseconds=1500)),
    ),
    "responses": (
        DialectName.OPENAI_RESPONSES,
        JSON,
        json.dumps({"object": "response", "output": [], "usage": RESPONSE_USAGE}).encode(),
        OPENAI_COUNTS,
    ),
    "responses stream": (DialectName.OPENAI_RESPONSES, SSE, RESPONSE_STREAM, OPENAI_COUNTS),
    "responses stream cut short": (
        DialectName.OPENAI_RESPONSES,
        SSE,
        RESPONSE_STREAM.replace(b"response.completed", b"response.incomplete"),
        OPENAI_COUNTS,
    ),
    "responses stream that failed": (
        DialectName.OPENAI_RESPONSES,
        SSE,
        RESPONSE_STREAM.replace(b"response.completed", b"response.failed"),
        OPENAI_COUNTS,
    ),
    "responses token count": (
        DialectName.OPENAI_RESPONSES,
        JSON,
        b'{"object":"response.input_tokens","input_tokens":11}',
        TokenUsage(11),
    ),
    "messages": (
        DialectName.ANTHROPIC,
        JSON,
        json.dumps(
            {
                "type": "message",
                "usage": {
                    **MESSAGE_USAGE,
                    "output_tokens": 40,
                    "output_tokens_details": {"thinking_tokens": 30},
                },
            }
        ).encode(),
        MESSAGE_COUNTS,
    ),
    "messages without a cache": (
        DialectName.ANTHROPIC,
        JSON,
        b'{"usage":{"input_tokens":10,"output_tokens":4,"cache_read_input_tokens":null}}',
        TokenUsage(10, 4),
    ),
    "messages stream": (DialectName.ANTHROPIC, SSE, MESSAGE_STREAM, MESSAGE_COUNTS),
    "messages stream with CRLF": (
        DialectName.ANTHROPIC,
        SSE,
        MESSAGE_STREAM.replace(b"\n", b"\r\n"),
        MESSAGE_COUNTS,
    ),
    "messages stream that corrects its input": (
        DialectName.ANTHROPIC,
        SSE,
        sse(
            {"type": "message_start", "message": {"usage": MESSAGE_USAGE}},
            {"type": "message_delta", "usage": {"input_tokens": 20, "output_tokens": 5}},
            {"type": "message_delta", "usage": {"cache_read_input_tokens": 70, "output_tokens": 6}},
        ),
        TokenUsage(120, 6, 70, 30),
    ),
    "count_tokens": (
        DialectName.ANTHROPIC,
        JSON,
        b'{"input_tokens":11,"context_management":null}',
        TokenUsage(11),
    ),
    "generateContent": (
        DialectName.GEMINI,
        JSON,
        json.dumps(GEMINI_PARTS[1]).encode(),
        GEMINI_COUNTS,
    ),
    "generateContent that only thought": (
        DialectName.GEMINI,
        JSON,
        b'{"usageMetadata":{"promptTokenCount":3,"thoughtsTokenCount":64,"totalTokenCount":67}}',
        TokenUsage(3, 64, reasoning=64),
    ),
    "streamGenerateContent as events": (DialectName.GEMINI, SSE, GEMINI_STREAM, GEMINI_COUNTS),
    "streamGenerateContent as an array": (DialectName.GEMINI, JSON, GEMINI_ARRAY, GEMINI_COUNTS),
    "countTokens": (
        DialectName.GEMINI,
        JSON,
        b'{"totalTokens":11,"cachedContentTokenCount":4}',
        TokenUsage(11, cache_read=4),
    ),
    "embedContent": (
        DialectName.GEMINI,
        JSON,
        b'{"embedding":{"values":[0.5]},"usageMetadata":{"promptTokenCount":5}}',
        TokenUsage(5),
    ),
    "interaction": (
        DialectName.GEMINI,
        JSON,
        b'{"id":"i","usage":{"total_input_tokens":7,"total_output_tokens":20,"total_thought_tokens":22}}',
        TokenUsage(7, 42, reasoning=22),
    ),
    "interaction stream": (
        DialectName.GEMINI,
        SSE,
        sse(
            {"event_type": "step.delta", "metadata": {"total_usage": {"total_input_tokens": 7}}},
            {
                "event_type": "interaction.completed",
                "interaction": {"usage": {"total_input_tokens": 7, "total_output_tokens": 20}},
            },
        ),
        TokenUsage(7, 20),
    ),
}
TABLE = [pytest.param(*row, id=name) for name, row in CASES.items()]


@pytest.mark.parametrize(("dialect", "content_type", "body", "counts"), TABLE)
def test_each_answer_gives_its_counts(
    dialect: DialectName, content_type: bytes, body: bytes, counts: TokenUsage
) -> None:
    assert metered(dialect, content_type, [body]) == counts


@pytest.mark.parametrize(("dialect", "content_type", "body", "counts"), TABLE)
def test_each_answer_gives_its_counts_cut_at_every_byte(
    dialect: DialectName, content_type: bytes, body: bytes, counts: TokenUsage
) -> None:
    for at in range(len(body)):
        assert metered(dialect, content_type, [body[:at], body[at:]]) == counts
    assert metered(dialect, content_type, [body[i : i + 1] for i in range(len(body))]) == counts


@pytest.mark.parametrize(
    ("dialect", "body", "seen"),
    [
        pytest.param(DialectName.ANTHROPIC, MESSAGE_STREAM, TokenUsage(100, 1, 60, 30), id="messages"),
        pytest.param(DialectName.GEMINI, GEMINI_STREAM, TokenUsage(95), id="generateContent"),
        pytest.param(DialectName.OPENAI_CHAT, CHAT_STREAM, NO_USAGE, id="chat"),
    ],
)
def test_a_stream_that_breaks_after_its_first_event_keeps_that_events_counts(
    dialect: DialectName, body: bytes, seen: TokenUsage
) -> None:
    first = body.index(b"data: ", body.index(b"data: ") + 1)
    assert metered(dialect, SSE, [body[: first + 10]]) == seen


def test_an_array_that_breaks_keeps_the_counts_of_its_whole_elements() -> None:
    assert metered(DialectName.GEMINI, JSON, [GEMINI_ARRAY[:-40]]) == TokenUsage(95)


def test_an_array_that_turns_out_to_be_none_keeps_what_was_seen() -> None:
    broken = [GEMINI_ARRAY[: GEMINI_ARRAY.rindex(b",\r\n")], b"} nonsense", GEMINI_ARRAY[1:]]
    assert metered(DialectName.GEMINI, JSON, broken) == TokenUsage(95)


def test_counts_are_known_before_the_end() -> None:
    meter = dialect_of(DialectName.ANTHROPIC).meter(SSE)
    meter.feed(MESSAGE_STREAM[: MESSAGE_STREAM.index(b"event: ping")])
    assert meter.usage == TokenUsage(100, 1, 60, 30)


ODD = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"[",
            b"]",
            b"{",
            b"}",
            b",",
            b'"',
            b"\\",
            b'{"usage":',
            b'"usageMetadata":',
            b'"message":',
            b'"response":1',
            b"1e400",
            b"-1",
            b'{"usage":{"prompt_tokens":99999999999999999999,"input_tokens":"x"}}',
            b'{"usageMetadata":[]}',
            b"[" * 3000,
            b'{"usage":null,"x":' + b"[" * 3000,
            b"\xff\xfe",
            b"\n\n",
            b"data: ",
        ]
    ),
)


@given(
    dialect=st.sampled_from(DialectName),
    content_type=st.sampled_from([JSON, SSE, b""]),
    chunks=st.lists(ODD, max_size=10),
)
def test_no_bytes_make_a_meter_raise(dialect: DialectName, content_type: bytes, chunks: list[bytes]) -> None:
    metered(dialect, content_type, chunks)


@pytest.mark.parametrize("dialect", DialectName)
def test_nesting_without_end_is_no_usage(dialect: DialectName) -> None:
    assert metered(dialect, JSON, [b'{"usage":null,"x":', b"[" * 100_000]) == NO_USAGE


@pytest.mark.parametrize("dialect", DialectName)
@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "input_tokens": -1, "promptTokenCount": -1},
        {"prompt_tokens": 2**60, "input_tokens": 2**60, "promptTokenCount": 2**60},
        {"prompt_tokens": True, "input_tokens": True, "promptTokenCount": True},
    ],
    ids=["negative", "huge", "bool"],
)
def test_counts_that_cannot_be_are_unknown(dialect: DialectName, usage: dict[str, Any]) -> None:
    body = json.dumps({"usage": usage, "usageMetadata": usage}).encode()
    assert metered(dialect, JSON, [body]) == NO_USAGE


@pytest.mark.parametrize(
    ("dialect", "before", "behind", "usage"),
    [
        (
            DialectName.OPENAI_CHAT,
            b'{"created":1,"data":[{"b64_json":"',
            b'"}],"usage":{"input_tokens":50,"output_tokens":4160}}',
            TokenUsage(50, 4160, billed=Billed(None, 1)),
        ),
        (
            DialectName.GEMINI,
            b'{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"',
            b'"}}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1290}}',
            TokenUsage(5, 1290),
        ),
        (
            DialectName.GEMINI,
            b'{"predictions":[{"mimeType":"image/png","bytesBase64Encoded":"',
            b'"}]}',
            TokenUsage(billed=Billed(None, 1)),
        ),
    ],
)
def test_an_image_of_twenty_megabytes_is_counted(
    dialect: DialectName, before: bytes, behind: bytes, usage: TokenUsage
) -> None:
    image = b"iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAADwf7zU" * 1456  # 64 KiB, as they are read
    pieces = [before + image, *[image] * 320, image + behind]
    assert metered(dialect, JSON, pieces) == usage
    assert metered(dialect, JSON, [b"".join(pieces)]) == usage


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize(
    ("dialect", "before", "behind", "usage"),
    [
        (
            DialectName.OPENAI_CHAT,
            b'event: image_generation.completed\ndata: {"type":"image_generation.completed","b64_json":"',
            b'","usage":{"input_tokens":50,"output_tokens":4160}}',
            TokenUsage(50, 4160),
        ),
        (
            DialectName.OPENAI_RESPONSES,
            b'data: {"type":"response.completed","response":{"output":[{"type":"image","result":"',
            b'"}],"usage":{"input_tokens":50,"output_tokens":4160}}}',
            TokenUsage(50, 4160),
        ),
        (
            DialectName.GEMINI,
            b'data: {"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"',
            b'"}}]}}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1290}}',
            TokenUsage(5, 1290),
        ),
    ],
)
@pytest.mark.parametrize("size", [1448, 16_384, 65_536])
def test_an_image_in_a_stream_is_counted(
    dialect: DialectName, before: bytes, behind: bytes, usage: TokenUsage, size: int, end: bytes
) -> None:
    stream = before + b"iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAADwf7zU" * 90_000 + behind + end
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert metered(dialect, SSE, pieces) == usage
