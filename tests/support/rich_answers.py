"""A rich whole answer and a rich stream of each wire, to be spoiled by tests of hostile input."""

from __future__ import annotations

from typing import Any, Final

from mgw.nouns.vocabulary import DialectName
from tests.support.rich_requests import PNG

Body = dict[str, Any]  # Any: JSON

_LOGPROBS: Final = {
    "content": [{"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1}]}]
}
_CHAT_USAGE: Final = {
    "prompt_tokens": 5,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def _chunk(delta: Body, **beside: Any) -> Body:  # Any: JSON
    choice = {"index": 0, "delta": delta, "finish_reason": None, **beside}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "created": 1, "choices": [choice]}


_CHAT_STREAM: Final[list[Body]] = [
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"reasoning_content": "hm"}),
    _chunk({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]}),
    _chunk({"content": "Hi"}, logprobs=_LOGPROBS),
    _chunk({"refusal": "No"}),
    _chunk({"images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}),
    _chunk({"annotations": [{"type": "url_citation", "url_citation": {"url": "u", "start_index": 1}}]}),
    _chunk(
        {
            "tool_calls": [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        }
    ),
    _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]}),
    _chunk({"function_call": {"name": "g", "arguments": "{}"}}),
    _chunk({}, finish_reason="tool_calls"),
    {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": _CHAT_USAGE},
]

_MESSAGES_STREAM: Final[list[Body]] = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 5, "cache_read_input_tokens": 1, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "citations_delta", "citation": {"url": "u"}},
    },
    {"type": "content_block_stop", "index": 1},
    {"type": "ping"},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 2}},
    },
    {"type": "message_stop"},
]


def _candidate(parts: list[Body], **beside: Any) -> Body:  # Any: JSON
    content = {"role": "model", "parts": parts}
    return {
        "candidates": [{"content": content, "index": 0, **beside}],
        "modelVersion": "m",
        "responseId": "r",
    }


_GEMINI_STREAM: Final[list[Body]] = [
    _candidate([{"text": "hm", "thought": True, "thoughtSignature": "c2ln"}]),
    _candidate([{"text": "Hi"}], citationMetadata={"citationSources": [{"uri": "u", "startIndex": 1}]}),
    _candidate([{"inlineData": {"mimeType": "image/png", "data": PNG}}]),
    _candidate([{"functionCall": {"id": "a", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}]),
    _candidate([{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}]),
    {
        **_candidate(
            [{"text": ""}],
            finishReason="STOP",
            logprobsResult={"chosenCandidates": [{"token": "a", "logProbability": -1}]},
        ),
        "usageMetadata": {
            "promptTokenCount": 5,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 2,
            "cachedContentTokenCount": 1,
        },
        "promptFeedback": {"blockReason": None},
    },
]

_TEXT: Final[Body] = {
    "type": "output_text",
    "text": "Hi",
    "annotations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 1, "end_index": 2}],
    "logprobs": [{"token": "a", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1}]}],
}
_ITEMS: Final[list[Body]] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "content": [{"type": "reasoning_text", "text": "hm"}],
        "encrypted_content": "gA+A=",
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [_TEXT, {"type": "refusal", "refusal": "No"}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": '{"a":1}'},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "g", "input": "x"},
    {"type": "image_generation_call", "id": "ig_1", "result": PNG, "output_format": "png"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
]
_RESPONSE: Final[Body] = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "output": _ITEMS,
    "usage": {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}


def _item_event(word: str, place: int) -> Body:
    item = (
        _ITEMS[place] if word == "done" else {**_ITEMS[place], "summary": [], "content": [], "arguments": ""}
    )
    return {"type": f"response.output_item.{word}", "output_index": place, "item": item}


def _delta(kind: str, place: int, **fields: Any) -> Body:  # Any: JSON
    return {"type": f"response.{kind}", "output_index": place, "content_index": 0, **fields}


_RESPONSES_STREAM: Final[list[Body]] = [
    {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "output": []}},
    _item_event("added", 0),
    _delta("reasoning_summary_text.delta", 0, summary_index=0, delta="hm"),
    _delta("reasoning_text.delta", 0, delta="hm"),
    _item_event("done", 0),
    _delta("output_text.delta", 1, delta="Hi", logprobs=_TEXT["logprobs"]),
    _delta("output_text.annotation.added", 1, annotation=_TEXT["annotations"][0]),
    _delta("refusal.delta", 1, delta="No"),
    _item_event("added", 2),
    _delta("function_call_arguments.delta", 2, delta='{"a":1}'),
    _item_event("done", 2),
    *(_item_event("done", place) for place in (3, 4, 5)),
    {"type": "response.completed", "response": {**_RESPONSE, "output": _ITEMS[:1]}},
]

STREAMS: Final = {
    DialectName.OPENAI_CHAT: _CHAT_STREAM,
    DialectName.OPENAI_RESPONSES: _RESPONSES_STREAM,
    DialectName.ANTHROPIC: _MESSAGES_STREAM,
    DialectName.GEMINI: _GEMINI_STREAM,
}
"""The events of one rich stream of each dialect's providers."""

REPLIES: Final[dict[DialectName, Body]] = {
    DialectName.OPENAI_RESPONSES: _RESPONSE,
    DialectName.OPENAI_CHAT: {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "logprobs": _LOGPROBS,
                "message": {
                    "role": "assistant",
                    "content": "Hi",
                    "refusal": "No",
                    "reasoning_content": "hm",
                    "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
                    "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "start_index": 1}}],
                    "images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    ],
                    "function_call": {"name": "g", "arguments": "{}"},
                },
            }
        ],
        "usage": _CHAT_USAGE,
    },
    DialectName.ANTHROPIC: {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "c2ln"},
            {"type": "text", "text": "Hi", "citations": [{"type": "web", "url": "u", "title": "t"}]},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}},
            {"type": "server_tool_use", "id": "b", "name": "web_search", "input": {}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": "s",
        "usage": {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 1},
    },
    DialectName.GEMINI: {
        **_GEMINI_STREAM[-1],
        "candidates": [
            {
                **_GEMINI_STREAM[-1]["candidates"][0],
                "content": {
                    "role": "model",
                    "parts": [
                        part
                        for event in _GEMINI_STREAM[:-1]
                        for part in event["candidates"][0]["content"]["parts"]
                    ],
                },
            }
        ],
    },
}
"""One rich whole answer of each dialect's providers."""
