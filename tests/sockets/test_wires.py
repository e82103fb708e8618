"""A made-up kind of provider, whose requests are signed, over real sockets: the gateway between two ends."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, cast

import pytest

from mgw.upstream.client import upstream_of
from tests.support.bodies import patterned
from tests.support.configs import config
from tests.support.framed_kind import ROW
from tests.support.framed_wire import FRAMES, WIRE, frame
from tests.support.pipelines import Pipeline
from tests.support.raw_upstream import RawUpstream, Turn
from tests.support.reactor import in_reactor, running_reactor
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys
from tests.support.web_servers import WebServerHarness

KEY: Final = "timed-canary"
CONFIG: Final = """
providers:
  host: {{kind: anthropic, base_url: "{url}/api", api_key: framed-canary}}
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
defaults: {{anthropic_dialect: host, openai_dialect: host, gemini_dialect: host}}
health_checks: {{enabled: true}}
"""
MESSAGE: Final = {"type": "message", "id": "msg_1", "role": "assistant", "model": "m", "content": []}
USAGE: Final = {"input_tokens": 7, "output_tokens": 3}
WHOLE: Final = {
    **MESSAGE,
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": USAGE,
}
EVENTS: Final[list[dict[str, Any]]] = [
    {"type": "message_start", "message": {**MESSAGE, "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE},
    {"type": "message_stop"},
]


def answer(turn: Turn) -> None:
    """Answer as the host does, but only what is signed."""
    at = turn.value(TIME.lower()) or b""
    method, target = turn.method.encode(), turn.target.encode()
    digest = sha256(turn.body).digest()
    assert turn.value(SIGNATURE.lower()) == signature(KEY.encode(), method, target, turn.headers, digest, at)
    verb = turn.target.rpartition("/")[2].partition("?")[0]
    if verb == "ask-in-frames":
        stream = b"".join(map(frame, EVENTS))
        turn.send(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % FRAMES)
        for start in range(0, len(stream), 50):
            piece = stream[start : start + 50]
            turn.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        turn.send(b"0\r\n\r\n")
        return
    answers: dict[str, object] = {
        "ask": WHOLE,
        "count": {"inputTokens": 11},
        "catalog": {"entries": ["m", "n"]},
        "models": {"data": []},
        "files": {"id": "file-1", "bytes": len(turn.body)},
    }
    body = json.dumps(answers[verb]).encode()
    turn.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
    turn.send(body)


@pytest.fixture
def host() -> Iterator[RawUpstream]:
    upstream = RawUpstream()
    upstream.script = answer
    yield upstream
    upstream.close()


@pytest.fixture
def port(host: RawUpstream) -> Iterator[int]:
    """The gateway's port."""
    reactor = running_reactor()

    async def listen() -> tuple[Any, WebServerHarness]:
        text = CONFIG.format(url=host.url)
        pipeline = Pipeline(
            text,
            clock=reactor,
            rows={"host": ROW},
            wires={"framed": WIRE},
            sources={"host": TimedKeys(KEY), "main": TimedKeys(KEY)},
        )
        upstreams = cast("dict[str, Any]", pipeline.generation.upstreams)
        for name, provider in config(text).providers.items():
            wire = upstreams[name].wire
            upstreams[name] = upstream_of(provider, reactor, None)
            upstreams[name].wire = wire
        harness = WebServerHarness(pipeline=pipeline)
        return reactor.listenTCP(0, harness.factory, interface="127.0.0.1"), harness

    async def close() -> None:
        await listening.stopListening()
        for upstream in harness.generation.upstreams.values():
            upstream.close()

    listening, harness = in_reactor(listen)
    yield listening.getHost().port
    in_reactor(close)


def ask(
    port: int, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"x-api-key": "edge", "Content-Type": content_type}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    assert response.status == 200, data
    return data


HELLO: Final = [{"role": "user", "content": "Hi"}]
MESSAGES: Final = {"messages": HELLO, "max_tokens": 9}
CONTENTS: Final = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.parametrize(
    ("path", "body", "target", "said"),
    [
        ("/v1/messages", MESSAGES, "ask", b'"text": "Hello"'),
        (
            "/v1/messages",
            {**MESSAGES, "stream": True},
            "ask-in-frames",
            b"message_stop",
        ),
        ("/v1/chat/completions", {"messages": HELLO}, "ask", b'"content":"Hello"'),
        ("/v1/chat/completions", {"messages": HELLO, "stream": True}, "ask-in-frames", b"[DONE]"),
        ("/v1/messages/count_tokens", {"messages": HELLO}, "count", b'{"input_tokens":11}'),
        ("/v1beta/models/m:countTokens", CONTENTS, "count", b'"totalTokens":11'),
    ],
    ids=["relayed", "relayed stream", "translated", "translated stream", "counted", "counted in translation"],
)
def test_requests_of_all_sorts_reach_the_host_signed(
    port: int, host: RawUpstream, path: str, body: dict[str, object], target: str, said: bytes
) -> None:
    model = {} if "models" in path else {"model": "m"}
    for _ in range(3):
        assert said in ask(port, "POST", path, json.dumps({**model, **body}).encode())
    assert {turn.target for turn in host.turns} == {f"/api/model/m/{target}"}


def test_a_large_upload_is_signed(port: int, host: RawUpstream) -> None:
    body = patterned(3_000_000)
    answered = ask(port, "POST", "/v1/files?provider=main", body, "text/plain")
    assert json.loads(answered)["bytes"] == len(body)


def test_a_live_list_and_a_probe_are_signed(port: int, host: RawUpstream) -> None:
    assert b'"host/n"' in ask(port, "GET", "/v1/models?live=1")
    health = json.loads(ask(port, "GET", "/v1/health/providers"))
    assert [status["error"] for status in health["providers"]] == [None, None]
    assert {turn.target for turn in host.turns} >= {"/api/catalog?size=1000", "/api/catalog?size=1"}
