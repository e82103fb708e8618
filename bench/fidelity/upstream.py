"""A provider of all four wires, which answers what it was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.support.raw_upstream import EVENTS, JSON, RawUpstream, Turn, counted, start_upstream

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


@dataclass(slots=True)
class Provider:
    """What it is to answer, and what it was asked."""

    upstream: RawUpstream
    answers: dict[str, bytes] = field(default_factory=lambda: dict(ANSWERS))
    is_stream: bool = False

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.upstream.port

    def take(self) -> Turn | None:
        """Return the last request since the last call; ``None`` where none came."""
        last = self.upstream.turns[-1] if self.upstream.turns else None
        self.upstream.begin(self.answer)
        return last

    def answer(self, turn: Turn) -> None:
        """Answer a request of whatever wire."""
        assert turn.body is not None  # read before it is answered
        path = turn.target.partition("?")[0]
        wire = next((wire for ending, wire in ENDINGS.items() if path.endswith(ending)), CHAT)
        turn.send(counted(self.answers[wire], EVENTS if self.is_stream else JSON))


@contextmanager
def provider() -> Iterator[Provider]:
    """Serve on a free port of the loopback address."""
    with start_upstream() as upstream:
        known = Provider(upstream)
        upstream.begin(known.answer)
        yield known
