"""The answers of the soak's provider, in the three wires: whole, as streams in two halves, and as errors."""

from __future__ import annotations

import json


def whole(wire: str, model: str) -> bytes:
    """Return a whole answer that names its model."""
    text = f"This answers {model}."
    if wire == "openai":
        message = {"role": "assistant", "content": text}
        return _json(
            id=f"chatcmpl-{model}",
            object="chat.completion",
            created=1,
            model=model,
            choices=[{"index": 0, "message": message, "finish_reason": "stop"}],
            usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        )
    if wire == "anthropic":
        return _json(
            id=f"msg_{model}",
            type="message",
            role="assistant",
            model=model,
            content=[{"type": "text", "text": text}],
            stop_reason="end_turn",
            stop_sequence=None,
            usage={"input_tokens": 11, "output_tokens": 7},
        )
    return _json(**_gemini(model, text, last=True))


def halves(wire: str, model: str) -> tuple[bytes, bytes]:
    """Return the two halves of a stream; each names its model."""
    first, second = f"This answers {model}", f", and this is the end of {model}."
    if wire == "openai":
        return _chat(model, first), _chat(model, second, last=True) + b"data: [DONE]\n\n"
    if wire == "anthropic":
        return _messages_begin(model) + _messages_text(first), _messages_text(second) + _messages_end()
    return _event(_gemini(model, first)), _event(_gemini(model, second, last=True))


def failure(wire: str, status: int, model: str) -> bytes:
    """Return the body of an error that names its model."""
    message = f"no luck with {model}"
    if wire == "openai":
        return _json(error={"message": message, "type": "server_error", "param": None, "code": None})
    if wire == "anthropic":
        return _json(type="error", error={"type": "api_error", "message": message})
    return _json(error={"code": status, "message": message, "status": "UNAVAILABLE"})


def failure_event(wire: str, model: str) -> bytes:
    """Return the event that breaks a stream off."""
    body = failure(wire, 500, model)
    name = b"event: error\n" if wire == "anthropic" else b""
    return name + b"data: " + body + b"\n\n"


def start_up(wire: str, model: str) -> bytes:
    """Return events at the beginning of a stream that say nothing yet."""
    if wire == "openai":
        return _event(_chunk(model, {"role": "assistant", "content": ""}, finish=None))
    if wire == "anthropic":
        return _messages_start(model) + _named({"type": "ping"})
    return _event({"usageMetadata": {"promptTokenCount": 11, "totalTokenCount": 11}, "modelVersion": model})


def unended(wire: str, model: str) -> bytes:
    """Return a stream that says how it finishes, but lacks its last event."""
    stream = b"".join(halves(wire, model))
    last = {"openai": b"data: [DONE]\n\n", "anthropic": _named({"type": "message_stop"}), "gemini": b""}[wire]
    return stream.removesuffix(last)


def _chat(model: str, text: str, *, last: bool = False) -> bytes:
    chunk = _chunk(model, {"content": text}, finish="stop" if last else None)
    if last:
        chunk["usage"] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return _event(chunk)


def _chunk(model: str, delta: dict[str, object], *, finish: str | None) -> dict[str, object]:
    return {
        "id": f"chatcmpl-{model}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _messages_start(model: str) -> bytes:
    message = {
        "id": f"msg_{model}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 1},
    }
    return _named({"type": "message_start", "message": message})


def _messages_begin(model: str) -> bytes:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return _messages_start(model) + _named(block)


def _messages_text(text: str) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return _named({"type": "content_block_delta", "index": 0, "delta": delta})


def _messages_end() -> bytes:
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return (
        _named({"type": "content_block_stop", "index": 0})
        + _named({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}})
        + _named({"type": "message_stop"})
    )


def _gemini(model: str, text: str, *, last: bool = False) -> dict[str, object]:
    candidate: dict[str, object] = {"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}
    answer: dict[str, object] = {"candidates": [candidate], "modelVersion": model}
    if last:
        candidate["finishReason"] = "STOP"
        answer["usageMetadata"] = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return answer


def _named(event: dict[str, object]) -> bytes:
    return f"event: {event['type']}\n".encode() + _event(event)


def _event(content: dict[str, object]) -> bytes:
    return b"data: " + _json(**content) + b"\n\n"


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
