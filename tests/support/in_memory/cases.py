"""What is measured in memory: requests and answers as the SDKs and the vendors send them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mgw.wire.whole_frames import TEXT, render_frame
from tests.support.in_memory.gateway import EDGE_KEY
from tests.support.talks import Assistant, chat, first_lines, words
from tests.support.wires import ANTHROPIC, CHAT, GEMINI, MODELS, answer, request, sized_request, stream

_PATHS = {CHAT: b"/v1/chat/completions", ANTHROPIC: b"/v1/messages"}
_PROVIDERS = {CHAT: "up", ANTHROPIC: "claude", GEMINI: "google"}
_FEW_HEADERS = b"Content-Type: application/json\r\nX-Request-Id: req_bench\r\nServer: bench\r\n"
_STREAM_HEADERS = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
_MASK_KEY = b"\x37\xfa\x21\x3d"
_VENDOR_HEADERS = (
    b"Date: Mon, 23 Nov 2026 09:00:00 GMT\r\nContent-Type: application/json\r\nConnection: keep-alive\r\n"
    b"access-control-expose-headers: X-Request-ID\r\nopenai-organization: bench-organization\r\n"
    b"openai-processing-ms: 412\r\nopenai-project: proj_bench0123456789\r\nopenai-version: 2020-10-01\r\n"
    b"x-envoy-upstream-service-time: 431\r\nx-ratelimit-limit-requests: 10000\r\n"
    b"x-ratelimit-limit-tokens: 30000000\r\nx-ratelimit-remaining-requests: 9999\r\n"
    b"x-ratelimit-remaining-tokens: 29999745\r\nx-ratelimit-reset-requests: 6ms\r\n"
    b"x-ratelimit-reset-tokens: 0s\r\nx-request-id: req_bench0123456789abcdef\r\ncf-cache-status: DYNAMIC\r\n"
    b"X-Content-Type-Options: nosniff\r\nServer: cloudflare\r\nCF-RAY: 9a0123456789abcd-FRA\r\n"
    b'alt-svc: h3=":443"; ma=86400\r\n'
)


@dataclass(frozen=True, slots=True)
class Case:
    """One row: what a client sends, and what the provider answers."""

    name: str
    request: Callable[[int], bytes]
    """The whole request of that number."""
    wire: str
    """What the provider speaks."""
    answer: bytes


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """One row: a request that no provider hears of."""

    name: str
    request: bytes
    status: int


@dataclass(frozen=True, slots=True)
class StreamCase:
    """One row of chunks: a stream is opened once, and one chunk relayed again and again."""

    name: str
    request: bytes
    wire: str
    opening: bytes
    chunk: bytes
    ending: bytes


@dataclass(frozen=True, slots=True)
class FrameCase:
    """One row of frames: a session is opened once, and both sides send in turn."""

    name: str
    request: bytes
    by_client: tuple[bytes, ...]
    by_provider: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SessionCase:
    """One row of sessions, each of which has one frame either way and is closed by its client."""

    name: str
    request: bytes
    by_client: bytes
    by_provider: bytes


@dataclass(frozen=True, slots=True)
class FreshCase:
    """One row of requests, each on a connection of its own, for which the provider is dialled."""

    name: str
    request: bytes
    wire: str
    answer: tuple[bytes, ...]
    """What the provider sends, piece by piece."""


AnyCase = Case | RefusedCase | StreamCase | FreshCase | FrameCase | SessionCase


def _post(wire: str, body: bytes, *, key: str = EDGE_KEY, more: bytes = b"") -> bytes:
    """The request as an SDK sends it."""
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nAccept: application/json\r\nUser-Agent: bench/1.0\r\n"
        b"X-Api-Key: %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b"
        % (_PATHS[wire], key.encode(), len(body), more, body)
    )


def _answered(body: bytes, headers: bytes = _FEW_HEADERS) -> bytes:
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (headers, len(body), body)


def _piece(data: bytes) -> bytes:
    """A chunk of RFC 9112 7.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _always(data: bytes) -> Callable[[int], bytes]:
    return lambda _: data


def _relayed() -> list[Case]:
    asked = sized_request(CHAT, "up/bench-model", 1024)
    answered = answer(CHAT, replace(chat(), answer=Assistant(words(200, 5))))
    said, said_like_vendors = _answered(answered), _answered(answered, _VENDOR_HEADERS)
    plain = _always(_post(CHAT, asked))
    with_token = _always(_post(CHAT, sized_request(CHAT, "tok/bench-model", 1024)))
    signed = _always(_post(CHAT, sized_request(CHAT, "aws/bench-model", 1024)))

    def traced(number: int) -> bytes:
        return _post(CHAT, asked, more=b"traceparent: 00-%032x-%016x-01\r\n" % (number + 1, number + 1))

    def unknown(number: int) -> bytes:
        return _post(CHAT, asked, more=b"x-bench-number: %d\r\n" % number)

    return [
        Case("relayed 1 kB", plain, CHAT, said),
        Case("relayed 1 kB, 20 headers in the answer", plain, CHAT, said_like_vendors),
        Case("relayed 1 kB, a new traceparent each", traced, CHAT, said),
        Case("relayed 1 kB, a new unknown header each", unknown, CHAT, said),
        Case("relayed 1 kB, a token of an endpoint", with_token, "token", said),
        Case("relayed 1 kB, signed", signed, "signed", said_like_vendors),
    ]


def _asked(client: str, provider: str, *, stream: bool = False) -> bytes:
    """The chat of 4 kB on the client's wire for a model of the provider's."""
    asked = request(client, chat(), stream=stream)
    own = b'"model":"bench"'
    assert own in asked
    return asked.replace(own, b'"model":"%b/%b"' % (_PROVIDERS[provider].encode(), MODELS[provider].encode()))


def _translated() -> list[Case]:
    pairs = [(CHAT, ANTHROPIC), (ANTHROPIC, CHAT), (CHAT, GEMINI)]
    return [
        Case(
            f"translated 4 kB, {client} to {provider}",
            _always(_post(client, _asked(client, provider))),
            provider,
            _answered(answer(provider, chat())),
        )
        for client, provider in pairs
    ]


def _refused() -> list[RefusedCase]:
    asked = sized_request(CHAT, "up/bench-model", 1024)
    unknown = _post(CHAT, asked).replace(_PATHS[CHAT], b"/v1/bench/unknown", 1)
    return [
        RefusedCase("refused, 401", _post(CHAT, asked, key="wrong"), 401),
        RefusedCase("refused, 404", unknown, 404),
    ]


def _streamed(client: str, provider: str) -> StreamCase:
    pieces = stream(provider, first_lines(chat(), 40))
    middle = len(pieces) // 2
    body = _asked(client, provider, stream=True)
    return StreamCase(
        f"chunk, {client} to {provider}" if client != provider else "chunk, relayed",
        _post(client, body),
        provider,
        b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (_STREAM_HEADERS, _piece(b"".join(pieces[:middle]))),
        _piece(pieces[middle]),
        _piece(b"".join(pieces[middle + 1 :])) + b"0\r\n\r\n",
    )


def _fresh() -> list[FreshCase]:
    """A whole answer, and a stream: its head, a chunk for each event, and the end with the last."""
    asked = _post(CHAT, sized_request(CHAT, "up/bench-model", 1024))
    answered = answer(CHAT, replace(chat(), answer=Assistant(words(200, 5))))
    head = b"HTTP/1.1 200 OK\r\n%b\r\n" % _STREAM_HEADERS
    *events, last = map(_piece, stream(CHAT, first_lines(chat(), 2)))
    return [
        FreshCase("relayed 1 kB, new connections", asked, CHAT, (_answered(answered),)),
        FreshCase(
            "stream of 5 events, new connections",
            _post(CHAT, _asked(CHAT, CHAT, stream=True)),
            CHAT,
            (head, *events, last + b"0\r\n\r\n"),
        ),
    ]


def _sessions() -> list[FrameCase | SessionCase]:
    request = (
        b"GET /v1/realtime?model=up/bench-model HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nUser-Agent: bench/1.0\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Api-Key: %b\r\n\r\n" % EDGE_KEY.encode()
    )
    said = [b'{"type":"bench.frame","text":"%b"}' % (b"x" * (size - 32)) for size in (200, 4096)]
    by_client = tuple(render_frame(TEXT, text, _MASK_KEY) for text in said)
    by_provider = tuple(render_frame(TEXT, text) for text in said)
    return [
        FrameCase("frame, relayed", request, by_client, by_provider),
        SessionCase("session, opened and closed", request, by_client[0], by_provider[0]),
    ]


def cases() -> dict[str, AnyCase]:
    """Return all rows by their names."""
    pairs = [(CHAT, CHAT), (CHAT, ANTHROPIC), (ANTHROPIC, CHAT), (CHAT, GEMINI)]
    streamed = [_streamed(client, provider) for client, provider in pairs]
    found: list[AnyCase] = [*_relayed(), *_translated(), *_refused(), *streamed, *_fresh(), *_sessions()]
    return {case.name: case for case in found}
