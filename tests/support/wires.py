"""The conversations in each of the three wires, as the vendors' own clients and services write them.

Sources: the request, answer and stream types of OpenAI's, Anthropic's and Google's SDKs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.support.talks import Assistant, Call, Results, Talk, User, as_json, fragments

CHAT = "chat"
ANTHROPIC = "anthropic"
GEMINI = "gemini"
WIRES = (CHAT, ANTHROPIC, GEMINI)
MODELS = {CHAT: "gpt-4.1", ANTHROPIC: "claude-sonnet-4-5", GEMINI: "gemini-2.5-pro"}

_CREATED = 1_782_900_000
_IN, _OUT, _CACHED = 2190, 1070, 1024

Json = dict[str, object]


def request(wire: str, talk: Talk, *, stream: bool = False) -> bytes:
    """The request of a client of ``wire``, for any model."""
    return as_json(_REQUESTS[wire](talk) | (_STREAMING[wire] if stream else {})).encode()


def sized_request(wire: str, model: str, size: int, *, stream: bool = False) -> bytes:
    """A short request of exactly ``size`` bytes, as the vendors' SDKs order its fields."""
    options = _STREAMING[wire] if stream else {}
    without_words = len(json.dumps(_asking(wire, model, "") | options))
    words = "lorem ipsum dolor sit amet " * (size // 27 + 1)
    return json.dumps(_asking(wire, model, words[: size - without_words]) | options).encode()


def _asking(wire: str, model: str, text: str) -> Json:
    terse = "You are terse."
    if wire == GEMINI:
        contents = [{"role": "user", "parts": [{"text": text}]}]
        return {"systemInstruction": {"parts": [{"text": terse}]}, "contents": contents}
    user = {"role": "user", "content": text}
    if wire == ANTHROPIC:
        return {"model": model, "max_tokens": 1024, "system": terse, "messages": [user]}
    return {"model": model, "messages": [{"role": "system", "content": terse}, user]}


def answer(wire: str, talk: Talk) -> bytes:
    """The whole answer of a provider of ``wire``."""
    return as_json(_ANSWERS[wire](talk.answer)).encode()


def stream(wire: str, said: Assistant) -> list[bytes]:
    """The answer in pieces: one entry for each event."""
    return list(_STREAMS[wire](said))


# Chat completions


def _chat_request(talk: Talk) -> Json:
    messages: list[Json] = [{"role": "system", "content": talk.system}]
    for turn in talk.turns:
        match turn:
            case User():
                messages.append({"role": "user", "content": turn.text})
            case Assistant():
                messages.append(_chat_message(turn))
            case Results():
                messages += [
                    {"role": "tool", "tool_call_id": f"call_{call.id}", "content": text}
                    for call, text in turn.of
                ]
    body: Json = {"model": "bench", "messages": messages}
    if talk.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
            }
            for tool in talk.tools
        ]
        body["tool_choice"] = "auto"
    return body | {"max_tokens": talk.max_tokens, "temperature": talk.temperature, "stop": list(talk.stop)}


def _chat_message(said: Assistant) -> Json:
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{call.id}",
                "type": "function",
                "function": {"name": call.name, "arguments": as_json(call.arguments)},
            }
            for call in said.calls
        ]
    return message


_CHAT_USAGE: Json = {
    "prompt_tokens": _IN,
    "completion_tokens": _OUT,
    "total_tokens": _IN + _OUT,
    "prompt_tokens_details": {"cached_tokens": _CACHED, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}


def _chat_answer(said: Assistant) -> Json:
    reason = "tool_calls" if said.calls else "stop"
    message = {**_chat_message(said), "refusal": None, "annotations": []}
    return {
        "id": "chatcmpl-bench0123456789",
        "object": "chat.completion",
        "created": _CREATED,
        "model": MODELS[CHAT],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": _CHAT_USAGE,
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }


def _chat_stream(said: Assistant) -> Iterator[bytes]:
    yield _chat_chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in fragments(said.text):
        yield _chat_chunk({"content": piece})
    for index, call in enumerate(said.calls):
        called: Json = {"name": call.name, "arguments": ""}
        head = {"index": index, "id": f"call_{call.id}", "type": "function", "function": called}
        yield _chat_chunk({"tool_calls": [head]})
        for piece in fragments(as_json(call.arguments)):
            yield _chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chat_chunk({}, "tool_calls" if said.calls else "stop")
    yield _chat_chunk(None)
    yield b"data: [DONE]\n\n"


def _chat_chunk(delta: Json | None, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    body: Json = {
        "id": "chatcmpl-bench0123456789",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": MODELS[CHAT],
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
        "choices": [] if delta is None else [choice],
        "usage": _CHAT_USAGE if delta is None else None,
    }
    return f"data: {as_json(body)}\n\n".encode()


# Messages


def _anthropic_request(talk: Talk) -> Json:
    messages: list[Json] = []
    for turn in talk.turns:
        match turn:
            case User():
                messages.append({"role": "user", "content": [{"type": "text", "text": turn.text}]})
            case Assistant():
                messages.append({"role": "assistant", "content": _blocks(turn)})
            case Results():
                results = [
                    {"type": "tool_result", "tool_use_id": f"toolu_{call.id}", "content": text}
                    for call, text in turn.of
                ]
                messages.append({"role": "user", "content": results})
    body: Json = {
        "model": "bench",
        "max_tokens": talk.max_tokens,
        "system": [{"type": "text", "text": talk.system}],
        "messages": messages,
    }
    if talk.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in talk.tools
        ]
        body["tool_choice"] = {"type": "auto"}
    return body | {"temperature": talk.temperature, "stop_sequences": list(talk.stop)}


def _blocks(said: Assistant) -> list[Json]:
    text: list[Json] = [{"type": "text", "text": said.text}] if said.text else []
    return text + [_tool_use(call, call.arguments) for call in said.calls]


def _tool_use(call: Call, arguments: Json) -> Json:
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": arguments}


_ANTHROPIC_USAGE: Json = {
    "input_tokens": _IN - _CACHED,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": _CACHED,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": _OUT,
    "service_tier": "standard",
}


def _anthropic_answer(said: Assistant) -> Json:
    return {
        "id": "msg_01bench0123456789",
        "type": "message",
        "role": "assistant",
        "model": MODELS[ANTHROPIC],
        "content": _blocks(said),
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": _ANTHROPIC_USAGE,
    }


def _anthropic_stream(said: Assistant) -> Iterator[bytes]:
    head = {**_anthropic_answer(said), "content": [], "stop_reason": None}
    yield _anthropic_event({"type": "message_start", "message": head})
    index = 0
    if said.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in fragments(said.text)]
        yield from _anthropic_block(index, {"type": "text", "text": ""}, deltas)
        index += 1
    for call in said.calls:
        pieces = fragments(as_json(call.arguments))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        yield from _anthropic_block(index, _tool_use(call, {}), deltas)
        index += 1
    end = {"stop_reason": "tool_use" if said.calls else "end_turn", "stop_sequence": None}
    yield _anthropic_event({"type": "message_delta", "delta": end, "usage": {"output_tokens": _OUT}})
    yield _anthropic_event({"type": "message_stop"})


def _anthropic_block(index: int, block: Json, deltas: list[dict[str, str]]) -> Iterator[bytes]:
    yield _anthropic_event({"type": "content_block_start", "index": index, "content_block": block})
    for delta in deltas:
        yield _anthropic_event({"type": "content_block_delta", "index": index, "delta": delta})
    yield _anthropic_event({"type": "content_block_stop", "index": index})


def _anthropic_event(body: Json) -> bytes:
    return f"event: {body['type']}\ndata: {as_json(body)}\n\n".encode()


# generateContent


def _gemini_request(talk: Talk) -> Json:
    contents: list[Json] = []
    for turn in talk.turns:
        match turn:
            case User():
                contents.append({"role": "user", "parts": [{"text": turn.text}]})
            case Assistant():
                contents.append({"role": "model", "parts": _parts(turn)})
            case Results():
                responses = [
                    {"functionResponse": {"name": call.name, "response": {"output": text}}}
                    for call, text in turn.of
                ]
                contents.append({"role": "user", "parts": responses})
    body: Json = {"systemInstruction": {"parts": [{"text": talk.system}]}, "contents": contents}
    if talk.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parameters": tool.schema}
            for tool in talk.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
        body["toolConfig"] = {"functionCallingConfig": {"mode": "AUTO"}}
    body["generationConfig"] = {
        "maxOutputTokens": talk.max_tokens,
        "temperature": talk.temperature,
        "stopSequences": list(talk.stop),
    }
    return body


def _parts(said: Assistant) -> list[Json]:
    text: list[Json] = [{"text": said.text}] if said.text else []
    return text + [{"functionCall": {"name": call.name, "args": call.arguments}} for call in said.calls]


_GEMINI_USAGE: Json = {
    "promptTokenCount": _IN,
    "candidatesTokenCount": _OUT,
    "totalTokenCount": _IN + _OUT,
    "cachedContentTokenCount": _CACHED,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": _IN}],
}


def _gemini_answer(said: Assistant) -> Json:
    return _gemini_body(_parts(said), "STOP")


def _gemini_stream(said: Assistant) -> Iterator[bytes]:
    for piece in fragments(said.text):
        yield _gemini_event([{"text": piece}])
    for call in said.calls:
        yield _gemini_event([{"functionCall": {"name": call.name, "args": call.arguments}}])
    yield _gemini_event([{"text": ""}], "STOP")


def _gemini_event(parts: list[Json], reason: str | None = None) -> bytes:
    return f"data: {as_json(_gemini_body(parts, reason))}\r\n\r\n".encode()


def _gemini_body(parts: list[Json], reason: str | None) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {
        "candidates": [candidate],
        "usageMetadata": _GEMINI_USAGE,
        "modelVersion": MODELS[GEMINI],
        "responseId": "bench0123456789AbCd",
    }


_STREAMING: dict[str, Json] = {
    CHAT: {"stream": True, "stream_options": {"include_usage": True}},
    ANTHROPIC: {"stream": True},
    GEMINI: {},
}
"""What a request says beside, where its answer shall come in pieces."""
_REQUESTS = {CHAT: _chat_request, ANTHROPIC: _anthropic_request, GEMINI: _gemini_request}
_ANSWERS = {CHAT: _chat_answer, ANTHROPIC: _anthropic_answer, GEMINI: _gemini_answer}
_STREAMS = {CHAT: _chat_stream, ANTHROPIC: _anthropic_stream, GEMINI: _gemini_stream}
