"""A rich request of each wire, to be spoiled by tests of hostile input."""

from __future__ import annotations

from typing import Any, Final

from mgw.canonical.conversation import Signature
from mgw.dialects.responses.thoughts import (
    seal_call_signature,
    seal_text_signature,
    seal_thought,
)
from mgw.nouns.vocabulary import DialectName, Family

Body = dict[str, Any]  # Any: JSON

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo"]}, "days": {"type": "array", "items": {}}},
    "required": ["city"],
    "additionalProperties": False,
}

_CHAT: Final[Body] = {
    "model": "a-model",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}], "name": "boss"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
                },
            ],
        },
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Oslo",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "Oslo", "signature": "c2ln", "index": 0}
            ],
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                },
                {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Rain"}]},
        {"role": "tool", "tool_call_id": "call_2", "content": "Sun"},
        {"role": "assistant", "refusal": "No.", "function_call": {"name": "old", "arguments": "{}"}},
        {"role": "function", "name": "old", "content": "done"},
        {"role": "developer", "content": "Now in verse."},
        {"role": "user", "content": "Go on", "name": "ann"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "weather", "description": "d", "parameters": SCHEMA, "strict": True},
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
    },
    "reasoning_effort": "high",
    "reasoning": {"effort": "low", "max_tokens": 2000, "exclude": True},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "extra_body": {"google": {"thinking_config": {"thinking_level": "low", "include_thoughts": True}}},
    "max_completion_tokens": 9000,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 4,
    "n": 2,
    "seed": 7,
    "stop": ["a", "b"],
    "logprobs": True,
    "top_logprobs": 2,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "user": "u",
    "logit_bias": {"1": 2},
    "stream": True,
    "stream_options": {"include_usage": True},
}

_MESSAGES: Final[Body] = {
    "model": "a-model",
    "max_tokens": 9000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather?", "citations": [{"type": "char_location"}]},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"type": "text", "text": "x"}]},
                    "title": "t",
                    "context": "c",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
                {
                    "type": "search_result",
                    "source": "s",
                    "title": "t",
                    "content": [{"type": "text", "text": "x"}],
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Oslo", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "c2ln"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "Rain"},
                        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                    ],
                }
            ],
        },
        {"role": "system", "content": "Now in verse."},
        {"role": "assistant", "content": "Well"},
    ],
    "tools": [
        {
            "type": "custom",
            "name": "weather",
            "description": "d",
            "input_schema": SCHEMA,
            "strict": True,
            "cache_control": {"type": "ephemeral"},
        }
    ],
    "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "u"},
    "stop_sequences": ["a"],
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 4,
    "stream": True,
}

_GENERATE_CONTENT: Final[Body] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Weather?"},
                {
                    "inlineData": {"mimeType": "image/png", "data": PNG},
                    "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
                },
                {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/a.mp4"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "Oslo", "thought": True, "thoughtSignature": "c2ln"},
                {"text": "Let me look."},
                {
                    "functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Oslo"}},
                    "thoughtSignature": "c2ln",
                },
                {"executableCode": {"language": "PYTHON", "code": "1"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "call_1",
                        "name": "weather",
                        "response": {"result": "Rain"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
                    }
                }
            ],
        },
        {"role": "model", "parts": [{"text": "Well"}]},
    ],
    "tools": [
        {
            "functionDeclarations": [
                {"name": "weather", "description": "d", "parametersJsonSchema": SCHEMA},
                {
                    "name": "other",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"a": {"type": "STRING", "nullable": True, "maxLength": "7"}},
                        "anyOf": [{"type": "ARRAY", "items": {"type": "STRING"}}],
                    },
                },
            ]
        }
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    "generationConfig": {
        "temperature": 0.5,
        "topP": "0.5",
        "topK": 4,
        "maxOutputTokens": 9000,
        "stopSequences": ["a"],
        "candidateCount": 2,
        "seed": 7,
        "responseLogprobs": True,
        "logprobs": 2,
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000, "thinkingLevel": "LOW"},
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
        "responseModalities": ["TEXT"],
    },
}

_CLAUDE: Final = Signature(Family.ANTHROPIC, "c2ln")
_GOOGLE: Final = Signature(Family.GEMINI, "c2ln")
_GRAMMAR: Final = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
_FUNCTION: Final = {"type": "function", "name": "weather", "description": "d", "parameters": SCHEMA}
_NAMESPACE: Final = {
    "type": "namespace",
    "name": "mcp",
    "description": "d",
    "tools": [
        {"type": "function", "name": "find.it", "parameters": SCHEMA, "strict": True, "defer_loading": True},
        {"type": "custom", "name": "patch"},
    ],
}


def _reasoning(encrypted_content: str) -> Body:
    summary = [{"type": "summary_text", "text": "Oslo"}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": encrypted_content}


def _called(kind: str, call_id: str, said: Body, answer: Body) -> list[Body]:
    """Return a call and its output."""
    ids = {"id": "x_1", "call_id": call_id, "status": "completed"}
    return [{"type": f"{kind}_call", **ids, **said}, {"type": f"{kind}_call_output", **ids, **answer}]


_RESPONSES: Final[Body] = {
    "model": "a-model",
    "instructions": "Be brief.",
    "input": [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [_NAMESPACE, {**_FUNCTION, "name": "more"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Weather?", "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"},
                {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,JVBE",
                },
                {"type": "input_file", "file_url": "https://example.com/a.pdf"},
                {"type": "input_file", "file_id": "file_1"},
            ],
        },
        {"type": "agent_message", "content": [{"type": "encrypted_content", "text": "x"}]},
        _reasoning(seal_thought("Oslo", _CLAUDE)),
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {
                    "type": "output_text",
                    "text": "Let me look.",
                    "annotations": [{"type": "url_citation", "url": "u", "start_index": 0}],
                    "logprobs": [],
                },
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"role": "assistant", "content": "Well."},
        _reasoning(seal_text_signature(_GOOGLE)),
        _reasoning(seal_call_signature(_GOOGLE)),
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "find.it",
            "namespace": "mcp",
            "arguments": "{}",
        },
        {"role": "developer", "content": "Now in verse."},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "Rain"},
                {"type": "input_image", "image_url": "https://example.com/a.png"},
            ],
        },
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "a"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Sun"},
        *_called(
            "local_shell",
            "call_3",
            {"action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 9}},
            {"output": "a"},
        ),
        *_called(
            "shell",
            "call_4",
            {"action": {"commands": ["ls"]}, "environment": {"type": "local"}},
            {"output": [{"stdout": "a", "outcome": {"type": "exit", "exit_code": 0}}]},
        ),
        *_called(
            "apply_patch",
            "call_5",
            {"operation": {"type": "update_file", "path": "a", "diff": "+b"}},
            {"output": "ok"},
        ),
        {
            "type": "tool_search_call",
            "call_id": "call_6",
            "arguments": {"query": "a"},
            "execution": "client",
        },
        {
            "type": "tool_search_output",
            "call_id": "call_6",
            "execution": "client",
            "tools": [_NAMESPACE, {"type": "local_shell"}],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "item_reference", "id": "rs_2"},
        {
            "type": "configuration_update",
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_object"}},
        },
        {"role": "user", "content": "Go on"},
    ],
    "tools": [
        {**_FUNCTION, "strict": True, "cache_control": {"type": "ephemeral"}},
        {"type": "custom", "name": "patch", "description": "d", "format": _GRAMMAR},
        _NAMESPACE,
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "local_shell"},
        {"type": "apply_patch"},
        {"type": "tool_search", "execution": "client", "description": "d", "parameters": SCHEMA},
        {"type": "web_search", "filters": {"allowed_domains": ["a"]}},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [
            {"type": "function", "name": "weather"},
            {"type": "namespace", "name": "mcp"},
            {"type": "custom", "name": "patch", "namespace": "mcp"},
            {"type": "web_search"},
        ],
    },
    "parallel_tool_calls": False,
    "text": {
        "verbosity": "medium",
        "format": {"type": "json_schema", "name": "n", "description": "d", "schema": SCHEMA, "strict": True},
    },
    "reasoning": {"effort": "high", "summary": "auto", "context": "auto"},
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "max_output_tokens": 9000,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_logprobs": 2,
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "service_tier": "auto",
    "truncation": "disabled",
    "background": False,
    "store": False,
    "metadata": {"a": "b"},
    "stream": True,
    "stream_options": {"include_obfuscation": False},
}

REQUESTS: Final = {
    DialectName.OPENAI_CHAT: _CHAT,
    DialectName.OPENAI_RESPONSES: _RESPONSES,
    DialectName.ANTHROPIC: _MESSAGES,
    DialectName.GEMINI: _GENERATE_CONTENT,
}
"""One rich request of each dialect's clients."""
