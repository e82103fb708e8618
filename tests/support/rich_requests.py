"""A rich request of each wire, to be spoiled by tests of hostile input."""

from __future__ import annotations

from typing import Any, Final

from mgw.vocabulary import Family

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

REQUESTS: Final = {Family.OPENAI: _CHAT, Family.ANTHROPIC: _MESSAGES, Family.GEMINI: _GENERATE_CONTENT}
"""One rich request of each family's clients."""
