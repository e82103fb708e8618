"""Scripts of requests that resemble one another, and what is seen of them with a memory and without.

``python -m tests.support.remembered_requests 20000`` plays as many drawn requests both ways; the second
argument is the first seed.  It shows the scripts that differ, and ends with the number of requests.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from random import Random
from typing import Final

from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from mgw.generation import Generation
from mgw.memo.request_memo import RequestMemo
from mgw.ops.json_lines import usage_json
from mgw.ops.logs import usage_line
from mgw.usage.record import EndedRequest
from mgw.web.channel import GatewayChannel
from mgw.web.request_ids import RequestIds
from tests.support.channels import channel_of
from tests.support.pipelines import Pipeline
from tests.support.token_endpoints import TOKEN_URL
from tests.support.upstreams import ProviderConnection
from tests.support.web_servers import RecordingObserver, WebServerHarness

LEARNED: Final = "key-that-is-known-by-its-digest"
"""Until it is sent as a key, nobody can tell it in other headers."""
_TEXT: Final = f"""
providers:
  main:
    kind: openai
    base_url: "https://openai.example/v1"
    api_key: sk-main-0001
    headers: {{forward: [x-team]}}
  host:
    kind: openai_compat
    base_url: "https://host.example/v1"
    auth: oauth2
    oauth: {{token_url: "{TOKEN_URL}", client_id: me, client_secret: s1}}
  claude: {{kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-0003}}
  gem: {{kind: gemini, base_url: "https://gemini.example/v1beta", api_key: AIza-0004}}
  own: {{kind: openai_compat, base_url: "https://own.example/v1", auth: client_bearer}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases: {{fast: main/gpt-b, smart: claude/claude-x, quick: gem/gemini-x, hosted: host/m}}
prices: {{rows: [{{model: "gpt-*", input: 1, output: 2}}]}}
edge_auth:
  enabled: true
  keys:
    - {{name: alice, key: alice-0123456789abcdef, models: [fast, smart, "host/*"]}}
    - {{name: bob, key: bob-0123456789abcdef}}
    - {{name: carol, sha256: {sha256(LEARNED.encode()).hexdigest()}}}
"""
_TEXTS: Final = (
    _TEXT,
    _TEXT,
    _TEXT.replace("fast: main/gpt-b", "fast: claude/claude-y"),
    _TEXT.replace("hosted: host/m", "hosted: host/another").replace("input: 1,", "input: 3,"),
    _TEXT.replace("bob-0123456789abcdef", "bob-fedcba9876543210"),
    _TEXT.replace("[fast, smart,", "[quick,"),
    _TEXT + "routes: {deny: [messages]}\n",
)
_KEYS: Final = (
    *("alice-0123456789abcdef",) * 3,
    *("bob-0123456789abcdef",) * 4,
    "bob-fedcba9876543210",
    LEARNED,
)
_PATHS: Final = (
    *("/v1/chat/completions",) * 4,
    *("/v1/messages",) * 2,
    *("/v1/responses", "/v1/embeddings"),
    "/v1beta/models/quick:generateContent",
    "/v1beta/models/gem%2Fgemini-x:generateContent",
    "/v1beta/models/fast:generateContent",
)
_GEMINI_BODY: Final = '{"contents": [{"role": "user", "parts": [{"text": "h"}]}]}'
_QUERIES: Final = ("", "", "", "?beta=1", "?beta=2", "?model=other")
_MODELS: Final = (
    "fast",
    "fast",
    "smart",
    *("quick", "gem/gemini-y") * 2,
    "hosted",
    "host/m",
    "main/gpt-c",
    "own/m",
    "gpt-b",
    "nobody/m",
)
_LINES: Final = (
    "traceparent: @@",
    "Idempotency-Key: @@",
    "X-Request-Id: @@",
    "x-client-request-id: @@",
    "X-Title: t",
    "X-Unknown: @@",
    "X-Team: a",
    f"X-Title: {LEARNED}",
    f"X-Team: {LEARNED}",
    f"traceparent: {LEARNED}",
    "anthropic-version: 2023-06-01",
    "anthropic-beta: a",
    "Accept: */*",
    "Authorization: Bearer sk-own-1",
    "Authorization: Bearer sk-own-2",
    "Content-Type: text/plain",
    "Content-Encoding: identity",
    "Expect: 100-continue",
)
_STATUSES: Final = (*("200 OK",) * 12, "401 Unauthorized", "429 Too Many Requests", "500 Error")
_REPLIES: Final = {
    b"anthropic.example": b'{"id":"m","type":"message","role":"assistant","model":"claude","content":[{'
    b'"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}',
    b"gemini.example": b'{"candidates":[{"content":{"parts":[{"text":"hi"}],"role":"model"},'
    b'"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}',
}
"""By the provider's host; all others answer as OpenAI does."""
_OTHER_REPLY: Final = (
    b'{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}'
)


@dataclass(frozen=True)
class Ask:
    """One of the clients sends a request."""

    client: int
    data: bytes
    status: str
    """What the provider answers with."""


@dataclass(frozen=True)
class Reload:
    """The operator has the gateway read another configuration."""

    text: str


@dataclass(frozen=True)
class Later:
    """Time passes, after which a token is old."""

    seconds: float


Step = Ask | Reload | Later


def draw_script(random: Random, requests: int) -> list[Step]:
    """Return steps with so many requests: a few heads with a few bodies, over and over."""
    steps: list[Step] = []
    heads, bodies = [_draw_head(random)], [_draw_body(random)]
    for number in range(requests):
        if random.random() < 0.03:
            steps.append(Reload(random.choice(_TEXTS)))
        if random.random() < 0.05:
            steps.append(Later(random.choice((1.0, 40.0, 70.0))))
        if random.random() < 0.1:
            heads.append(_draw_head(random))
        if random.random() < 0.1:
            heads.append(_vary(random, heads[-1]))
        if random.random() < 0.2:
            bodies.append(_draw_body(random))
        head, body = random.choice(heads[-3:]), random.choice(bodies[-4:])
        if ":" in head[0]:
            body = _GEMINI_BODY
        own = random.choice((*_KEYS, *map(str, (1, 1, 1, 2, 2, 2, 3, 3, number, number))))
        text = "\r\n".join([*head, f"Content-Length: {len(body)}"]).replace("@@", own)
        steps.append(Ask(random.randrange(3), f"{text}\r\n\r\n{body}".encode(), random.choice(_STATUSES)))
    return steps


def _draw_head(random: Random) -> list[str]:
    lines = [f"x-api-key: {random.choice(_KEYS)}", *random.sample(_LINES, random.randrange(4))]
    random.shuffle(lines)
    return [_request_line(random, random.choice(_PATHS)), "Host: gateway", *lines]


def _request_line(random: Random, path: str) -> str:
    return f"POST {path}{random.choice(_QUERIES)} HTTP/1.1"


def _vary(random: Random, head: list[str]) -> list[str]:
    """Return a head that differs in its key or its query."""
    line, *rest = head
    if random.random() < 0.5:
        return [_request_line(random, line.split(" ")[1].partition("?")[0]), *rest]
    key = f"x-api-key: {random.choice(_KEYS)}"
    return [line, *(key if other.startswith("x-api-key") else other for other in rest)]


def _draw_body(random: Random) -> str:
    said = "x" * random.randrange(3)
    messages = f'"messages": [{{"role": "user", "content": "h{said}"}}], "input": "x", "max_tokens": 5'
    return f'{{"model": "{random.choice(_MODELS)}", {messages}}}'


@dataclass
class Seen:
    """Everything that anybody saw, step by step."""

    clients: list[bytes] = field(default_factory=list)
    providers: list[bytes] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


class _Observer(RecordingObserver):
    """Keeps the lines of the log as well."""

    def __init__(self) -> None:
        super().__init__()
        self.rendered: list[str] = []

    def record(self, ended: EndedRequest) -> None:
        super().record(ended)
        settled = ended.settled
        if settled is not None:
            self.rendered.append(f"{self.events[-1]} {usage_line(settled)!r} {usage_json(settled)!r}")


class Stage:
    """A gateway with three clients and its providers, which plays one script."""

    def __init__(self, *, remembers: bool) -> None:
        self._remembers = remembers
        self._harness = harness = WebServerHarness(_TEXT)
        self._observer = harness.server.observer = _Observer()
        numbers = count(1)
        harness.server.request_ids = RequestIds(lambda size: next(numbers).to_bytes(2, "big") * (size // 2))
        self.clock = harness.clock
        harness.server.wall = self.clock.seconds
        self._pipelines = [harness.pipeline]
        self._tokens = count(1)
        self._answers = count(1)
        self._read: dict[int, int] = {}
        self.memos: list[RequestMemo] = []
        """Of each generation."""
        self._use(harness.pipeline)
        self._channels: list[tuple[GatewayChannel, StringTransport] | None] = [None] * 3
        self.seen = Seen()

    def play(self, script: list[Step]) -> Seen:
        for step in script:
            if isinstance(step, Reload):
                self._pipelines.append(Pipeline(step.text, self.clock, self._harness.pipeline.endpoint))
                self._use(self._pipelines[-1])
            elif isinstance(step, Later):
                self.clock.advance(step.seconds)
            else:
                self._ask(step)
        return self.seen

    def _use(self, pipeline: Pipeline) -> None:
        generation: Generation = pipeline.generation
        if not self._remembers:
            generation.memo = RequestMemo(is_on=False)
        for name, upstream in generation.upstreams.items():
            upstream.use_shapes(generation.memo.shapes_of(name))
        self.memos.append(generation.memo)
        self._harness.server.use(generation)

    def _ask(self, ask: Ask) -> None:
        channel, transport = self._channels[ask.client] or self._connect(ask.client)
        before = len(self._observer.rendered)
        channel.dataReceived(ask.data)
        for _ in range(4):
            self._answer_tokens()
            self._answer(ask)
            self.clock.advance(0.01)
        response = bytes(transport.value())
        self.seen.clients.append(response)
        transport.clear()
        self.seen.events += self._observer.rendered[before:]
        if b"\r\nConnection: close\r\n" in response or transport.disconnecting:
            channel.connectionLost(Failure(ConnectionDone()))
            self._channels[ask.client] = None
        self._harness.pipeline.endpoint.settle()

    def _connect(self, client: int) -> tuple[GatewayChannel, StringTransport]:
        channel, transport = channel_of(self._harness.factory), StringTransport()
        channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
        self._channels[client] = channel, transport
        return channel, transport

    def _answer_tokens(self) -> None:
        for pipeline in self._pipelines:
            for post in pipeline.token_hosts.posts():
                if not post.connection.over:
                    post.answer_token(f"token-{next(self._tokens)}", expires_in=60)

    def _answer(self, ask: Ask) -> None:
        for index, connection in enumerate(self._harness.pipeline.endpoint.connections):
            received = connection.received[self._read.get(index, 0) :]
            if connection.over or not received:
                continue
            self._read[index] = len(connection.received)
            self.seen.providers.append(received)
            _reply(connection, received, ask.status, next(self._answers))


def _reply(connection: ProviderConnection, received: bytes, status: str, number: int) -> None:
    host = received.partition(b"\r\nHost: ")[2].partition(b"\r\n")[0]
    body = _REPLIES.get(host, _OTHER_REPLY) if status.startswith("200") else b'{"error":{"message":"no"}}'
    more = f"Retry-After: {number}\r\n" if number % 7 == 0 else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nx-request-id: up-{number}\r\n{more}"
    connection.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    if number % 5 == 0:
        connection.close()


def differences(seed: int, requests: int) -> list[str]:
    """Play a script with the memory and without, and say what differs."""
    script = draw_script(Random(seed), requests)
    known, new = (Stage(remembers=remembers).play(script) for remembers in (True, False))
    found = []
    for name in ("clients", "providers", "events"):
        for one, other in zip(getattr(known, name), getattr(new, name), strict=False):
            if one != other:
                found.append(f"{name}:\n  remembered {one!r}\n  new        {other!r}")
                break
        if len(getattr(known, name)) != len(getattr(new, name)):
            found.append(f"{name}: {len(getattr(known, name))} and {len(getattr(new, name))}")
    return found


def main(requests: int, first: int, per_script: int = 50) -> int:
    """Play so many requests, and return how many scripts differ."""
    differ = 0
    for seed in range(first, first + requests // per_script):
        found = differences(seed, per_script)
        if found:
            differ += 1
            sys.stdout.write("\n".join((f"seed {seed}", *found)) + "\n")
    sys.stdout.write(f"{requests} requests, {differ} scripts differ\n")
    return differ


if __name__ == "__main__":
    _, number, *seeds = sys.argv
    sys.exit(main(int(number), int(seeds[0]) if seeds else 0) > 0)
