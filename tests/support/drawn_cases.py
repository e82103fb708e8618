"""Requests of all kinds of rows and responses of a provider, drawn with every mutation that may matter.

:mod:`tests.support.case_player` plays them.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, Final

from tests.support.pipelines import ANSWER

EDGE: Final = "edge-0123456789abcdef"
OWN: Final = "sk-own-0123456789"
TEXT: Final = f"""
providers:
  main: {{kind: openai, base_url: "https://openai.example/v1", api_key: sk-main-0001, models: [gpt-b]}}
  claude: {{kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-0003}}
  gem: {{kind: gemini, base_url: "https://gemini.example/v1beta", api_key: AIza-0004}}
  own: {{kind: openai_compat, base_url: "https://own.example/v1", auth: client_bearer}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases: {{fast: main/gpt-b, smart: claude/claude-x, quick: gem/gemini-x}}
routes: {{deny: [completions]}}
max_body_bytes: 4096
edge_auth:
  enabled: true
  keys:
    - {{name: alice, key: "{EDGE}", models: ["*[!c]"], tokens_per_minute: 1000000, max_in_flight: 100}}
    - edge
"""
RETRYING: Final = (
    TEXT.replace("fast: main/gpt-b", "fast: [main/gpt-b, own/m, claude/claude-y]")
    .replace("smart: claude/claude-x", "smart: [claude/claude-x, gem/gemini-y, main/gpt-c]")
    .replace("quick: gem/gemini-x", "quick: [gem/gemini-x, gem/gemini-y, main/gpt-c]")
    + "retries: {attempts: 1}\n"
)
"""The same, where requests are sent again, and to other targets."""
PATHS: Final = (
    "/v1/chat/completions",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/completions",
    "/v1/complete",
    "/v1/embeddings",
    "/v1beta/models/gem%2Fgemini-x:generateContent",
    "/v1beta/models/quick:streamGenerateContent?alt=sse",
    "/v1beta/models/fast:generateContent",
    "/v1beta/models/quick:countTokens",
    "/v1beta/models/quick:batchEmbedContents",
    "/v1beta/models/quick:generateAnswer",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/images/generations",
    "/v1/files",
    "/v1/files",
    "/v1/uploads",
    "/v1/batches",
    "/v1/messages/batches",
    "/upload/v1beta/files",
    "/upload/v1beta/files",
    "/v1/conversations",
    "/v1/realtime?model=fast",
    "/metrics",
    "/v1/nothing",
    "/healthz",
)
MODELS: Final = (
    '"fast"',
    '"fast"',
    '"fast"',
    '"smart"',
    '"quick"',
    '"main/gpt-b"',
    '"own/m"',
    '"gpt-b"',
    '"claude-x"',
    '"nobody/x"',
    '"\\u0066ast"',
    '"fa\\u0073t"',
    '"f\\"st"',
    '"\\ud800"',
    '""',
    '"fast\\n"',
    '"fast',
    "null",
    "3",
    '["fast"]',
    "fast",
)
HOLE: Final = b"@@"
"""Stands for a value that each repetition has of its own."""
VALUES: Final = (
    b"1",
    b"2",
    b"3",
    b"a",
    EDGE.encode(),
    b"edge",
    b"x" * 600,
    b"a b",
    b"",
    b"\x010\x01",
    b"\x00",
)
VARYING: Final = (
    "traceparent: @@",
    "Tracestate: @@",
    "TRACEPARENT: @@",
    "tracestate:  @@",
    "baggage: @@",
    "baggage: a, @@",
    "X-Client-Request-Id: @@",
    "x-request-id: @@",
    "Idempotency-Key: @@",
    "Connection: traceparent",
)
LINES: Final = (
    "Connection: close",
    "Connection: keep-alive",
    "Connection: Upgrade",
    "Connection: X-Title",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Expect: 200-ok",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    *VARYING,
    *VARYING,
    "X-Title: some words",
    f"X-Title: {EDGE}",
    f"User-Agent: agent/1 {EDGE}",
    "Accept: edge",
    f"Authorization: Bearer {EDGE}",
    f"Authorization: Bearer {OWN}",
    f'Authorization: Bearer "{EDGE}"',
    "Authorization: Basic dXNlcjpwYXNz",
    "Authorization:",
    f"x-api-key: {EDGE}",
    f"x-api-key: {OWN}",
    "x-api-key: other",
    f"x-goog-api-key: {EDGE}",
    f"x-goog-api-key: {OWN}",
    "api-key: edge",
    "X-Provider: own",
    "X-Provider: claude",
    "X-Provider: nobody",
    "anthropic-version: 2023-06-01",
    "anthropic-beta: a,b",
    "Idempotency-Key: 1",
    "Accept-Encoding: gzip",
    "Content-Encoding: gzip",
    "Content-Encoding: identity",
    "Transfer-Encoding: chunked",
    "Content-Length: 3",
    "Host: gateway",
    "Keep-Alive: timeout=5",
    "TE: trailers",
    "Via: 1.1 proxy",
    "X-Forwarded-For: 10.0.0.1",
    "X-Empty:",
    "X-Bytes: \xe9",
    "X-Nul: \x00",
    " folded: line",
    "no colon",
    "X Y: 1",
    "X-Large: " + "x" * 9000,
)
QUERIES: Final = (
    "",
    f"key={EDGE}",
    f"key={OWN}",
    "alt=sse",
    "provider=own",
    f"x={EDGE}",
    f"x=%65{EDGE[1:]}",
    "beta=true&a=b",
    "%ff=%00",
    "a=b&&=&c",
)
GOOD: Final = (200,) * 12
STATUSES: Final = (*GOOD, 201, 204, 304, 302, 400, 401, 401, 403, 404, 429, 429, 500, 503, 529, 101, 99)
RESPONSE_LINES: Final = (
    "Connection: close",
    "Connection: keep-alive",
    "Connection: x-up, x-other",
    "Keep-Alive: timeout=5",
    "X-Up: 1",
    "x-up:2",
    "X-Other:   3",
    "Set-Cookie: a=b",
    "x-request-id: req-up-1",
    "request-id: req\x7f",
    "Retry-After: 2",
    "Date: Thu, 01 Jan 1970 00:00:00 GMT",
    "Content-Encoding: gzip",
    "Content-Encoding: identity",
    "Content-Length: 5",
    "Transfer-Encoding: gzip",
    "Trailer: X",
    "Proxy-Authenticate: Basic",
    "Upgrade: h2c",
    "X-Gateway-Request-Id: theirs",
    "X-Echo: Bearer sk-main-0001",
    "Via: 1.1 proxy",
    "Location: https://openai.example/v1/files/file-1",
    "X-Goog-Upload-URL: https://gemini.example/upload/v1beta/files?upload_id=1&key=k",
    "X-Bytes: \xe9",
    "broken",
    " folded",
    "X-Large: " + "x" * 70_000,
)
PHRASES: Final = ("OK", "OK", "", "No way")
INTERIM: Final = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n")
EVENTS: Final = (
    b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
    (
        b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: [DONE]\n\n'
    ),
    (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":'
        b'"assistant","content":[],"model":"claude-x","usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
    (
        b'data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP"}],'
        b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}}\r\n\r\n'
    ),
    b'data: {"error":{"message":"no","type":"server_error"}}\n\n',
)
BODIES: Final = (
    ANSWER,
    ANSWER,
    b'{"error":{"message":"thinking sk-main-0001","type":"invalid_request_error"}}',
    (
        b'{"type":"message","id":"m","role":"assistant","model":"c","content":[{"type":"text","text":"a"}],'
        b'"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4}}'
    ),
    (
        b'{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP"}],'
        b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}}'
    ),
    (
        b'{"id":"c","object":"chat.completion","created":1,"model":"gpt-b","choices":[{"index":0,"message":'
        b'{"role":"assistant","content":"a"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}'
    ),
    b"",
    b"not json",
    b"\x00" * 300,
    b"x" * 70_000,
)


@dataclass(frozen=True)
class ProviderResponse:
    """What the provider does with one request."""

    pieces: tuple[bytes, ...]
    end: str
    """``stay``, ``close`` or ``reset``."""


@dataclass(frozen=True)
class Case:
    """What a client sends on its connections, and how the provider responds."""

    rounds: tuple[tuple[bytes, ...], ...]
    """On each connection: the pieces, of which a piece that was sent all in all three times is repeated."""
    leaves: bool
    """Whether the client leaves at the end, in place of waiting."""
    responses: tuple[ProviderResponse, ...]
    """To the requests in order; the last one to all that follow."""
    text: str = field(default=TEXT, repr=False)
    """The configuration."""


@dataclass(slots=True)
class Observed:
    """Everything that anybody saw."""

    client: list[tuple[bytes, bool, bool]] = field(default_factory=list)
    """On each connection: the bytes, and whether it was closed or broken."""
    provider: list[tuple[bytes, bool]] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)  # Any: usage events
    lines: list[Any] = field(default_factory=list)  # Any: of the access log
    counts: tuple[int, ...] = ()


# Drawing


def draw_case(chance: Random, text: str = TEXT) -> Case:
    """Draw a case of a configuration; most requests are good ones."""
    requests = [_request(chance) for _ in range(chance.choice((1, 1, 1, 2)))]
    together = chance.random() < 0.25
    rounds: list[tuple[bytes, ...]] = []
    for _ in range(chance.choice((1, 2))):
        pieces: list[bytes] = []
        for _ in range(3):
            data = [b"".join(requests)] if together else requests
            pieces += [piece for one in data for piece in _cut(chance, _filled(chance, one))]
        rounds.append((b"".join(pieces),) if chance.random() < 0.1 else tuple(pieces))
    responses = tuple(_response(chance) for _ in range(chance.choice((1, 1, 2, 3))))
    return Case(tuple(rounds), chance.random() < 0.3, responses, text)


def _filled(chance: Random, data: bytes) -> bytes:
    while HOLE in data:
        data = data.replace(HOLE, chance.choice(VALUES[:4] if chance.random() < 0.8 else VALUES), 1)
    return data


def _cut(chance: Random, data: bytes) -> list[bytes]:
    if chance.random() < 0.7:
        return [data]
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((1, 1, 2, 5))))
    edges = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]


def _body(chance: Random, path: str) -> bytes:
    model = (
        chance.choice(MODELS) if chance.random() < 0.5 else {"/v1/messages": '"smart"'}.get(path, '"fast"')
    )
    fields = [f'"model":{model}', '"messages":[{"role":"user","content":"hi"}]', '"max_tokens":9']
    if "beta/" in path:
        fields = ['"contents":[{"role":"user","parts":[{"text":"hi"}]}]']
    extra = (
        '"stream":true',
        '"stream":true,"stream_options":{"include_usage":true}',
        '"model":"other"',
        '"x":{"model":"fast"}',
        '"input":"hi"',
        '"prompt":"hi"',
        '"thinking":{"type":"enabled","budget_tokens":1024}',
        '"store":false',
        '"x":"\\u00e9\\ud83d\\ude00"',
        '"x":1e400',
    )
    while chance.random() < 0.35:
        fields.insert(chance.randrange(len(fields) + 1), chance.choice(extra))
    body = ("{" + chance.choice((",", ", ", ",\n ")).join(fields) + "}").encode()
    if chance.random() < 0.2:
        body = _spoil(chance, body)
    return body


def _spoil(chance: Random, body: bytes) -> bytes:
    how = chance.randrange(9)
    if how == 0:
        return body[: chance.randrange(len(body))]
    if how == 1:
        return body + chance.choice((b"}", b" ", b"\n", b"\x00", b"{}"))
    if how == 2:
        return b"\xef\xbb\xbf" + body
    if how == 3:
        at = chance.randrange(len(body))
        return body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
    if how == 4:
        return b"[" * chance.choice((1, 2000)) + body
    if how == 5:
        return body[:-1] + b',"x":"' + b"x" * chance.choice((3000, 5000)) + b'"}'
    if how == 6:
        return gzip.compress(body, mtime=0)
    if how == 7:
        return b""
    return b" \n" + body.replace(b":", b" : ")


def _request(chance: Random) -> bytes:
    path = chance.choice(PATHS)
    method = "GET" if path in ("/metrics", "/healthz") else "POST"
    if chance.random() < 0.05:
        method = chance.choice(("GET", "PUT", "DELETE", "HEAD", "post", "POST"))
    body = _body(chance, path)
    if chance.random() < 0.15:
        path += ("&" if "?" in path else "?") + chance.choice(QUERIES)
    if chance.random() < 0.03:
        path = "http://gateway" + path
    lines = ["Host: gateway", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines.append(f"Authorization: Bearer {EDGE}" if chance.random() < 0.5 else f"x-api-key: {EDGE}")
    while chance.random() < 0.3:
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(LINES))
    if chance.random() < 0.25:
        lines = _mutate(chance, lines)
    if chance.random() < 0.08:
        lines = [line for line in lines if not line.startswith("Content-Length")]
        lines.append("Transfer-Encoding: chunked")
        body = _chunked(chance, body)
    version = "1.0" if chance.random() < 0.04 else "1.1"
    first = f"{method} {path} HTTP/{version}"
    end = "\n" if chance.random() < 0.01 else "\r\n"
    before = chance.choice(("\r\n", "\n", "\r\n\r\n")) if chance.random() < 0.03 else ""
    return (before + end.join([first, *lines, "", ""])).encode("latin-1") + body


def _mutate(chance: Random, lines: list[str]) -> list[str]:
    lines, at = list(lines), chance.randrange(len(lines))
    how = chance.randrange(8)
    if how == 0:
        chance.shuffle(lines)
    elif how == 1:
        lines[at] = chance.choice((str.lower, str.upper, str.title))(lines[at])
    elif how == 2:
        lines[at] = lines[at].replace(": ", chance.choice((":", ":  ", ":\t", ": \t ")))
    elif how == 3:
        lines[at] += chance.choice((" ", "\t", "  "))
    elif how == 4:
        lines.append(lines[at])
    elif how == 5:
        del lines[at]
    else:
        lines = [_other_length(chance, line) if line.startswith("Content-Length") else line for line in lines]
    return lines


def _other_length(chance: Random, line: str) -> str:
    length = int(line.partition(":")[2])
    others = (length + 1, max(0, length - 1), 0, 5000, 10**12)
    spellings = (f"0{length}", f"+{length}", f"{length},{length}", "x", *map(str, others))
    return f"Content-Length: {chance.choice(spellings)}"


def _chunked(chance: Random, body: bytes) -> bytes:
    half = len(body) // 2
    parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part]
    return b"".join(parts) + b"0\r\n" + chance.choice((b"", b"", b"X-Trailer: 1\r\n")) + b"\r\n"


def _response(chance: Random) -> ProviderResponse:
    if chance.random() < 0.05:
        return ProviderResponse((), chance.choice(("stay", "close", "reset")))
    status = chance.choice(STATUSES)
    stream = chance.random() < 0.35
    body = chance.choice(EVENTS) if stream else chance.choice(BODIES)
    lines = ["Content-Type: " + ("text/event-stream" if stream else "application/json")]
    if chance.random() < 0.05:
        body = gzip.compress(body, mtime=0)
        lines.append("Content-Encoding: gzip")
    end = "stay" if chance.random() < 0.8 else chance.choice(("close", "reset"))
    framing = chance.randrange(20)
    if framing < 10:
        lines.append(f"Content-Length: {len(body)}")
    elif framing < 16:
        lines.append("Transfer-Encoding: chunked")
        body = _chunked(chance, body)
    elif framing < 19:
        end = "close"
    else:
        lines.append(f"Content-Length: {max(0, len(body) + chance.choice((-3, -1, 1, 5)))}")
    while chance.random() < 0.25:
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(RESPONSE_LINES))
    first = f"HTTP/{'1.0' if chance.random() < 0.05 else '1.1'} {status} {chance.choice(PHRASES)}"
    data = _damage(chance, "\r\n".join([first, *lines, "", ""]).encode("latin-1") + body)
    return ProviderResponse(tuple(_cut(chance, data)) if data else (), end)


def _damage(chance: Random, data: bytes) -> bytes:
    if chance.random() < 0.08:
        data = chance.choice(INTERIM) + data
    if chance.random() < 0.05:
        data += data
    if chance.random() < 0.04:
        data = data[: chance.randrange(len(data))]
    if chance.random() < 0.02:
        at = chance.randrange(len(data) + 1)
        data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    return data
