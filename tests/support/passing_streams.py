"""Streams of each dialect, piece by piece, as providers send them to clients of their own family."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

SSE: Final = b"text/event-stream"
JSON: Final = b"application/json"
CLOSE: Final = b"0\r\n\r\n"


@dataclass(frozen=True)
class Stream:
    """One dialect's stream: how it is asked for, and its pieces."""

    path: str
    body: bytes
    query: bytes | None
    content_type: bytes
    silent: tuple[bytes, ...]
    """Events that say nothing of the answer."""
    words: bytes
    """An event with something of the answer."""
    finish: bytes
    """The event that ends the one choice."""
    rest: bytes
    """What follows it up to the end of the body."""
    errors: tuple[bytes, ...]
    """The provider's own errors, in all their forms."""
    heartbeats: tuple[bytes, ...] = ()
    """What may come for ever."""

    @property
    def whole(self) -> bytes:
        """All of a stream that ends well."""
        return b"".join(self.silent) + self.words + self.finish + self.rest


def event(document: Any, name: str | None = None) -> bytes:
    """Return one event; its type names it, unless it has none."""
    text = json.dumps(document, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def asked(**fields: Any) -> bytes:
    """Return the body of a request for a stream."""
    return json.dumps({"stream": True, **fields}).encode()


def _chunk(delta: Any, finish_reason: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [choice], **fields})


HELLO: Final = [{"role": "user", "content": "hello"}]
CHAT: Final = Stream(
    "/v1/chat/completions",
    asked(model="m", messages=HELLO),
    None,
    SSE,
    (
        b": waiting\n\n",
        b"\n",
        event({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        _chunk({"role": "assistant", "content": "", "refusal": None}),
        event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}),
    ),
    _chunk({"content": 'an "error" of mine'}, error=None),
    _chunk({}, "stop"),
    event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}) + b"data: [DONE]\n\n",
    (
        event({"error": {"message": "too busy", "type": "server_error", "code": 503}}),
        event({"error": {"message": "too busy", "code": 503}, "choices": [{"index": 0, "delta": {}}]}),
        b'data: {"error": {"message": "too busy", "code": "503"}}\r\n\r\n',
    ),
    (b": ping\n\n", b"\n"),
)
COMPLETIONS: Final = replace(
    CHAT,
    path="/v1/completions",
    body=asked(model="m", prompt="hello"),
    silent=(b": waiting\n\n", event({"choices": [{"index": 0, "text": "", "finish_reason": None}]})),
    words=event({"choices": [{"index": 0, "text": "so far", "finish_reason": None}]}),
    finish=event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}),
)


def _message(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


_BUSY: Final = {"type": "overloaded_error", "message": "too busy"}
MESSAGES: Final = Stream(
    "/v1/messages",
    asked(model="m", messages=HELLO, max_tokens=9),
    None,
    SSE,
    (
        _message(
            "message_start",
            message={
                "id": "m",
                "type": "message",
                "role": "assistant",
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": 3, "output_tokens": 1},
            },
        ),
        _message("ping"),
        b": waiting\n\n",
    ),
    _message("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + _message("content_block_delta", index=0, delta={"type": "text_delta", "text": 'an "error" of mine'}),
    _message("content_block_stop", index=0)
    + _message("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    _message("message_stop"),
    (
        _message("error", error=_BUSY),
        event({"type": "error", "error": _BUSY, "request_id": "r"}),
        b'event:error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}\n\n',
    ),
    (_message("ping"), b": ping\n\n"),
)


def _response(kind: str, status: str, **fields: Any) -> bytes:
    response = {"id": "r", "object": "response", "status": status, "error": None, "output": [], **fields}
    return _message(kind, response=response)


RESPONSES: Final = Stream(
    "/v1/responses",
    asked(model="m", input="hello"),
    None,
    SSE,
    (
        _response("response.created", "in_progress"),
        _response("response.queued", "queued"),
        _response("response.in_progress", "in_progress"),
        b": waiting\n\n",
    ),
    _message("response.output_text.delta", item_id="i", output_index=0, content_index=0, delta='"error"'),
    _response("response.completed", "completed", usage={"input_tokens": 3, "output_tokens": 2}),
    b"",
    (
        _message("error", code="server_is_overloaded", message="too busy", param=None),
        _response("response.failed", "failed", error={"code": "server_is_overloaded", "message": "too busy"}),
        event({"type": "error", "error": {"type": "server_error", "code": 503, "message": "too busy"}}),
    ),
    (b": ping\n\n",),
)
_PARTS: Final = {"parts": [{"text": 'an "error" of mine'}], "role": "model"}
_UNAVAILABLE: Final = {"error": {"code": 503, "message": "too busy", "status": "UNAVAILABLE"}}
GEMINI: Final = Stream(
    "/v1beta/models/m:streamGenerateContent",
    b'{"contents":[{"parts":[{"text":"hello"}]}]}',
    b"alt=sse",
    SSE,
    (b"\n", event({"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"})),
    event({"candidates": [{"content": _PARTS, "index": 0}]}),
    event({"candidates": [{"content": {"parts": []}, "finishReason": "STOP", "index": 0}]}),
    b"",
    (event(_UNAVAILABLE), json.dumps(_UNAVAILABLE, indent=1).encode() + b"\n\n"),
    (b"\n",),
)
ARRAY: Final = replace(
    GEMINI,
    query=None,
    content_type=JSON,
    silent=(b'[{"usageMetadata": {"promptTokenCount": 3}}',),
    words=b'\n,\r\n{"candidates": [{"content": {"parts": [{"text": "so far"}]}}]}',
    finish=b'\n,\r\n{"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}',
    rest=b"\n]\n",
    errors=(b"\n,\r\n" + json.dumps(_UNAVAILABLE, indent=1).encode() + b"\n]",),
    heartbeats=(b"\n",),
)
STREAMS: Final = {
    "chat": CHAT,
    "completions": COMPLETIONS,
    "messages": MESSAGES,
    "responses": RESPONSES,
    "gemini": GEMINI,
    "array": ARRAY,
}


def head(content_type: bytes = SSE, *lines: bytes, length: int | None = None) -> bytes:
    """Return the head of a stream in chunks, or of one whose length is known."""
    framing = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    more = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b%b\r\n\r\n" % (content_type, more, framing)


def chunks(*pieces: bytes) -> bytes:
    """Return pieces of a body as chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
