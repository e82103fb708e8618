"""A provider of all four wires that remembers the body of the last request, and answers what it was given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

CHAT: Final = "chat"
RESPONSES: Final = "responses"
MESSAGES: Final = "messages"
CONTENTS: Final = "generateContent"
ENDINGS: Final = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/messages": MESSAGES,
    "enerateContent": CONTENTS,
}
"""Of the paths, by which a request's wire is known."""
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
ANSWERS: Final = {
    CHAT: b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,'
    b'"completion_tokens":1,"total_tokens":2}}',
    RESPONSES: b'{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":'
    b'[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":'
    b'"output_text","text":"Hello","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,'
    b'"total_tokens":2,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":'
    b'{"reasoning_tokens":0}},"parallel_tool_calls":true,"tool_choice":"auto","tools":[]}',
    MESSAGES: b'{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":'
    b'"Hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}',
    CONTENTS: b'{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"finishReason":"STOP",'
    b'"index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},'
    b'"modelVersion":"m","responseId":"r"}',
}
"""What a provider says where nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the provider got it."""

    path: str
    body: bytes


@dataclass(slots=True)
class Provider:
    """What it is to answer, and what it was asked."""

    port: int = 0
    answers: dict[str, bytes] = field(default_factory=lambda: dict(ANSWERS))
    is_stream: bool = False
    received: list[Received] = field(default_factory=list)

    def take(self) -> Received | None:
        """Return the last request since the last call; ``None`` where none came."""
        last = self.received[-1] if self.received else None
        self.received.clear()
        return last


@contextmanager
def provider() -> Iterator[Provider]:
    """Serve on a free port of the loopback address."""
    known = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self._body()
            known.received.append(Received(self.path, body))
            path = self.path.partition("?")[0]
            wire = next((wire for ending, wire in ENDINGS.items() if path.endswith(ending)), CHAT)
            answer = known.answers[wire]
            self.send_response(200)
            self.send_header("Content-Type", _EVENTS if known.is_stream else _JSON)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    known.port = server.server_address[1]
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()


def said(body: bytes) -> dict[str, object]:
    """Return a body as what it says; empty where it is not an object."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
