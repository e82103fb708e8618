"""The scene: a gateway's configuration, its clients, and the requests that they send."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

DASHBOARD_KEY: Final = "screenshots"
CLIENTS: Final = ("alice", "ci-agents", "data-science", "nightly-batch", "support-bot", "web-app")
_FORWARD: Final = "headers: {forward: [x-sim-delay, x-sim-chunk-delay, x-sim-cached, x-sim-status]}"


class Ask(Struct, frozen=True, kw_only=True):
    """A kind of request: who sends it, where to, how often, and how the simulated provider behaves."""

    client: str
    path: str
    model: str
    prompt: int
    """Words."""
    answer: int = 0
    """Words; 0 for what is not text."""
    delay: int = 300
    """Milliseconds to the first byte."""
    pace: int = 6
    """Milliseconds between two pieces of the answer."""
    cached: int = 0
    status: int = 0
    """An error that the provider sends."""
    stream: bool = True
    leaves: bool = False
    """The client leaves in the middle of the answer."""
    weight: float = 1
    extra: dict[str, Any] = {}  # more of the body, as JSON
    """More fields of the body."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request, those for the simulator among them."""
        found = {"Authorization": f"Bearer {key_of(self.client)}", "Content-Type": "application/json"}
        found |= {"x-sim-delay": str(self.delay), "x-sim-chunk-delay": str(self.pace)}
        if self.cached:
            found["x-sim-cached"] = str(self.cached)
        if self.status:
            found["x-sim-status"] = str(self.status)
        if self.path == "/v1/messages":
            found["anthropic-version"] = "2023-06-01"
        return found

    @property
    def target(self) -> str:
        """The path and query of the request."""
        if "{model}" not in self.path:
            return self.path
        method = "streamGenerateContent?alt=sse" if self.stream else "generateContent"
        return f"{self.path.format(model=self.model)}:{method}"

    def body(self) -> dict[str, Any]:
        """Return the body, as JSON."""
        text = " ".join(["word"] * (self.prompt - 1)) + f" repeat:{self.answer}"
        if "{model}" in self.path:
            return {"contents": [{"role": "user", "parts": [{"text": text}]}], **self.extra}
        if self.path == "/v1/embeddings":
            return {"model": self.model, "input": text}
        named = {"model": self.model, "stream": self.stream, **self.extra}
        if self.path == "/v1/responses":
            return {**named, "input": text}
        if self.path == "/v1/chat/completions" and self.stream:
            named["stream_options"] = {"include_usage": True}
        return {**named, "messages": [{"role": "user", "content": text}]}


CHAT: Final = "/v1/chat/completions"
MESSAGES: Final = "/v1/messages"
GEMINI: Final = "/v1beta/models/{model}"
_ANSWER: Final = {"max_tokens": 8192}
_LOST: Final = {"seed": 7, "logit_bias": {"50256": -100}, "frequency_penalty": 0.2}
"""Fields that only an OpenAI provider has."""
ASKS: Final = (
    Ask(client="web-app", path=CHAT, model="gpt-5.6-luna", prompt=640, answer=140, cached=320, weight=8),
    Ask(
        client="web-app",
        path=CHAT,
        model="gpt-5.6-terra",
        prompt=1400,
        answer=260,
        delay=600,
        cached=900,
        weight=5,
    ),
    Ask(
        client="alice",
        path=MESSAGES,
        model="claude-sonnet-5",
        prompt=3600,
        answer=240,
        delay=700,
        cached=3100,
        weight=6,
        extra=_ANSWER,
    ),
    Ask(
        client="ci-agents",
        path=MESSAGES,
        model="claude-opus-5-5",
        prompt=2600,
        answer=320,
        delay=900,
        cached=2100,
        weight=5,
        extra=_ANSWER,
    ),
    Ask(
        client="ci-agents",
        path="/v1/responses",
        model="gpt-5.6-terra",
        prompt=2200,
        answer=220,
        delay=800,
        cached=1500,
        weight=3,
    ),
    Ask(
        client="support-bot", path=GEMINI, model="gemini-3-flash", prompt=820, answer=110, delay=250, weight=7
    ),
    Ask(
        client="data-science",
        path=CHAT,
        model="claude-sonnet-5",
        prompt=900,
        answer=300,
        delay=650,
        weight=4,
        extra=_LOST,
    ),
    Ask(
        client="data-science", path=CHAT, model="llama-4", prompt=500, answer=180, delay=120, pace=2, weight=2
    ),
    Ask(
        client="nightly-batch",
        path="/v1/embeddings",
        model="text-embedding-3-small",
        prompt=300,
        delay=80,
        pace=0,
        stream=False,
        weight=2,
    ),
    Ask(
        client="support-bot",
        path=GEMINI,
        model="gemini-3-flash",
        prompt=700,
        answer=400,
        leaves=True,
        weight=0.3,
    ),
    Ask(client="data-science", path=CHAT, model="llama-4", prompt=400, delay=90, status=503, weight=0.2),
    Ask(
        client="ci-agents",
        path=MESSAGES,
        model="claude-opus-5-5",
        prompt=2400,
        delay=400,
        status=529,
        weight=0.3,
        extra=_ANSWER,
    ),
)
VOICES: Final = (("web-app", "gpt-realtime"), ("support-bot", "gpt-realtime-mini"))
"""Realtime sessions that are open while the pictures are taken: a client, and its model."""


def key_of(client: str) -> str:
    """Return the gateway key of a client."""
    return f"screenshots-{client}"


def configuration(simulator: str, database: str) -> str:
    """Return the gateway's configuration; all providers are the simulator at an address."""
    keys = "\n".join(f"    - {{name: {client}, key: {key_of(client)}}}" for client in CLIENTS)
    return f"""
listen: 127.0.0.1:0
providers:
  openai: {{kind: openai, base_url: "{simulator}/v1", api_key: any, {_FORWARD}}}
  claude: {{kind: anthropic, base_url: "{simulator}/v1", api_key: any, {_FORWARD}}}
  gemini: {{kind: gemini, base_url: "{simulator}/v1beta", api_key: any, {_FORWARD}}}
  groq: {{kind: openai_compat, base_url: "{simulator}/v1", api_key: any, {_FORWARD}}}
defaults: {{openai_dialect: openai, anthropic_dialect: claude, gemini_dialect: gemini}}
aliases:
  claude-sonnet-5: claude/claude-sonnet-5
  llama-4: groq/llama-4
edge_auth:
  enabled: true
  keys:
{keys}
dashboard: {{enabled: true, keys: [{DASHBOARD_KEY}]}}
observe_dropped_fields: true
prices:
  rows:
    - {{model: "gpt-5.6-terra*", input: 2, cache_read: 0.2, output: 12}}
    - {{model: "gpt-5.6-luna*", input: 0.2, cache_read: 0.02, output: 1.2}}
    - {{model: "claude-opus-5-5*", input: 4, cache_read: 0.2, output: 20}}
    - {{model: "claude-sonnet-5*", input: 2, cache_read: 0.2, output: 10}}
    - {{model: "gemini-3-flash*", input: 0.5, cache_read: 0.05, output: 3}}
    - {{model: "llama-4*", input: 0.2, output: 0.6}}
    - {{model: "text-embedding-3-small", input: 0.02}}
hooks: {{sqlite: {{path: {database}}}}}
"""
