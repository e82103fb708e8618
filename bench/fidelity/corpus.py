"""Requests and answers that a gateway may easily change: blanks, escapes, numbers, fields of tomorrow."""

from __future__ import annotations

import json
from typing import Any, Final

from bench.fidelity.upstream import ANSWERS, CHAT, CONTENTS, MESSAGES, RESPONSES

MODEL: Final = b"@model@"
"""In the place of the model's name."""
Body = dict[str, Any]  # Any: JSON
_TOOL: Final[Body] = {
    "description": "Tells the weather – «тёплый» ☀",
    "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}}},
}
_UNKNOWN: Final[Body] = {"introduced_in_2030": {"b": 1, "a": [None, True]}}
"""A field of tomorrow."""

_REQUESTS: Final[dict[str, Body]] = {
    CHAT: {
        "temperature": 1.0,
        "messages": [
            {"role": "system", "content": "Be brief.", **_UNKNOWN},
            {"role": "user", "content": [{"type": "text", "text": "Grüße, 世界 🌍 </b>", **_UNKNOWN}]},
        ],
        "model": MODEL.decode(),
        "tools": [{"type": "function", "function": {"name": "weather", **_TOOL, **_UNKNOWN}}],
        "seed": 12345678901234567,
        "max_tokens": 100,
        **_UNKNOWN,
    },
    RESPONSES: {
        "temperature": 1.0,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Grüße, 世界 🌍 </b>", **_UNKNOWN}]},
        ],
        "model": MODEL.decode(),
        "tools": [{"type": "function", "name": "weather", "strict": False, **_TOOL, **_UNKNOWN}],
        "max_output_tokens": 100,
        **_UNKNOWN,
    },
    MESSAGES: {
        "temperature": 1.0,
        "max_tokens": 100,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Grüße, 世界 🌍 </b>", **_UNKNOWN}],
                **_UNKNOWN,
            },
        ],
        "model": MODEL.decode(),
        "tools": [
            {
                "name": "weather",
                "description": _TOOL["description"],
                "input_schema": _TOOL["parameters"],
                **_UNKNOWN,
            }
        ],
        **_UNKNOWN,
    },
    CONTENTS: {
        "generationConfig": {"temperature": 1.0, "maxOutputTokens": 100, **_UNKNOWN},
        "contents": [{"role": "user", "parts": [{"text": "Grüße, 世界 🌍 </b>", **_UNKNOWN}], **_UNKNOWN}],
        "tools": [{"functionDeclarations": [{"name": "weather", **_TOOL, **_UNKNOWN}]}],
        **_UNKNOWN,
    },
}


def _events(*events: Body, named: bool = False, space: str = " ", end: str = "\n\n") -> bytes:
    """Return a stream of them; a name is that of the event's type."""
    names = [f"event: {event['type']}\n" if named else "" for event in events]
    texts = [json.dumps(event, ensure_ascii=False) for event in events]
    return "".join(f"{name}data:{space}{text}{end}" for name, text in zip(names, texts, strict=True)).encode()


_CHUNK: Final[Body] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_RESPONSE: Final[Body] = json.loads(ANSWERS[RESPONSES])
_MESSAGE: Final[Body] = json.loads(ANSWERS[MESSAGES])
_CONTENT: Final[Body] = {"role": "model", "parts": [{"text": "Grüße"}]}
_STREAMS: Final = {
    CHAT: b": keep-alive\n\n"
    + _events(
        {
            **_CHUNK,
            **_UNKNOWN,
            "choices": [{"index": 0, "delta": {"content": "Grüße"}, "finish_reason": None}],
        },
        {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
        space="",
    )
    + b"data: [DONE]\n\n",
    RESPONSES: _events(
        {
            "type": "response.created",
            "sequence_number": 0,
            **_UNKNOWN,
            "response": {**_RESPONSE, "status": "in_progress"},
        },
        {
            "type": "response.output_text.delta",
            "sequence_number": 1,
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "delta": "Grüße",
            "logprobs": [],
        },
        {"type": "response.completed", "sequence_number": 2, "response": _RESPONSE},
        named=True,
    ),
    MESSAGES: _events(
        {"type": "message_start", **_UNKNOWN, "message": {**_MESSAGE, "content": [], "stop_reason": None}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
        named=True,
    ),
    CONTENTS: _events(
        {"candidates": [{"content": _CONTENT, "index": 0, **_UNKNOWN}], "modelVersion": "m"},
        {
            "candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
            "modelVersion": "m",
        },
        end="\r\n\r\n",
    ),
}


def requests(wire: str, *, is_stream: bool) -> list[bytes]:
    """Return one request as different programs would write it."""
    body = {**_REQUESTS[wire], "stream": True} if is_stream and wire != CONTENTS else _REQUESTS[wire]
    compact = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return [
        compact.encode(),
        json.dumps(body).encode(),
        json.dumps(body, indent=2, ensure_ascii=False).replace("\n", "\r\n").encode(),
        compact.replace(":1.0,", ":1e0,").replace("</b>", "<\\/b>").encode(),
    ]


def answers(wire: str, *, is_stream: bool) -> list[bytes]:
    """Return answers as different hosts would write them."""
    if is_stream:
        return [_STREAMS[wire], _STREAMS[wire].replace("ü".encode(), b"\\u00fc")]
    whole = ANSWERS[wire]
    known = json.loads(whole)
    return [
        whole,
        json.dumps({**_UNKNOWN, **known}, indent=4).encode() + b"\n",
        json.dumps({**known, **_UNKNOWN}).replace("Hello", "Gr\\u00fc\\u00dfe \\/ 🌍").encode(),
    ]
