"""Whatever the first target of an alias does before a byte is out, the client sees the second's answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from openai import APIError, OpenAI

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient, request
from tests.support.raw_upstream import EVENTS, JSON, STREAM_HEAD, RawUpstream, Turn, counted
from tests.support.simulator import SimulatorProcess

OVERLOAD: Final = b'data: {"error":{"message":"busy","type":"server_error","code":503}}\n\n'
ERROR: Final = b'{"error":{"message":"busy","type":"server_error","code":null,"param":null}}'
ROLE: Final = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
USAGE: Final = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}\n\n'
FIRST: Final = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    provider = RawUpstream()
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorProcess, upstream: RawUpstream) -> Iterator[GatewayProcess]:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    config = f"""
timeouts: {{first_byte: 0.5}}
providers:
  first: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary-1}}
  slow: {{kind: anthropic, base_url: "{upstream.url}/v1", api_key: sk-canary-5}}
  gone: {{kind: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: sk-canary-2}}
  same: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-3}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-canary-4}}
defaults: {{openai_dialect: first}}
aliases:
  near: [first/a, same/b]
  far: [first/a, claude/b]
  nobody: [gone/a, claude/b]
  awake: [slow/a, same/b]
  doomed: [slow/a, slow/b]
stream_keepalive: {{interval: 0.1}}
"""
    with start_gateway(config) as process:
        yield process
        process.search_for_keys()


def refuse(turn: Turn) -> None:
    turn.send(counted(ERROR, JSON, status=503))


def reset(turn: Turn) -> None:
    assert turn.body
    turn.reset()


def stall(turn: Turn) -> None:
    turn.wait_until_left()


def overload(turn: Turn) -> None:
    turn.send(counted(OVERLOAD, EVENTS))


def overload_late(turn: Turn) -> None:
    """In two pieces, and nothing behind them."""
    turn.send(STREAM_HEAD, b"%x\r\n%b\r\n" % (len(OVERLOAD), OVERLOAD))
    turn.wait_until_left()


def overload_behind_a_beginning(turn: Turn) -> None:
    """Behind events that say nothing of the answer, each by itself."""
    turn.send(STREAM_HEAD)
    for piece in (b": waiting\n\n", ROLE, USAGE, OVERLOAD):
        turn.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    turn.wait_until_left()


def break_behind_a_beginning(turn: Turn) -> None:
    turn.send(STREAM_HEAD, b"%x\r\n%b\r\n" % (len(ROLE), ROLE))
    turn.reset()


FAILURES: Final = {"503": refuse, "reset": reset, "stall": stall}
ALL: Final = FAILURES | {
    "overload": overload,
    "overload without an end": overload_late,
    "overload behind a beginning": overload_behind_a_beginning,
    "break behind a beginning": break_behind_a_beginning,
}


def chat(gateway: GatewayProcess) -> OpenAI:
    return OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)


def event(gateway: GatewayProcess, seen: list[int]) -> dict[str, Any]:
    """Return the next event."""
    seen.append(1)
    return gateway.events(len(seen))[len(seen) - 1]


@pytest.fixture(scope="module")
def seen() -> list[int]:
    """Grows with each event that was looked at."""
    return []


@pytest.mark.parametrize("model", ["near", "far"])
@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
def test_a_whole_answer(
    gateway: GatewayProcess,
    upstream: RawUpstream,
    seen: list[int],
    fail: Callable[[Turn], None],
    model: str,
) -> None:
    upstream.begin(fail)
    with chat(gateway) as client:
        said = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])
    assert said.choices[0].message.content == "You said: hello"
    found = event(gateway, seen)
    assert (found["provider"], found["model"]) == ({"near": "same", "far": "claude"}[model], model)
    assert (found["status"], found["http_status"]) == ("ok", 200)
    assert found["attempts"] == len(upstream.turns) + 1
    assert len(upstream.turns) <= 1 + (fail is reset)  # a connection used before may have been closed


@pytest.mark.parametrize("model", ["near", "far"])
@pytest.mark.parametrize("fail", ALL.values(), ids=ALL)
def test_a_stream(
    gateway: GatewayProcess,
    upstream: RawUpstream,
    seen: list[int],
    fail: Callable[[Turn], None],
    model: str,
) -> None:
    upstream.begin(fail)
    with chat(gateway) as client:
        stream = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hello"}], stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == "You said: hello"
    found = event(gateway, seen)
    assert found["provider"] == {"near": "same", "far": "claude"}[model]
    assert found["attempts"] == len(upstream.turns) + 1
    assert (found["status"], found["stream"]) == ("ok", True)


def test_a_provider_that_refuses_connections(gateway: GatewayProcess, seen: list[int]) -> None:
    with chat(gateway) as client:
        said = client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hello"}])
    assert said.choices[0].message.content == "You said: hello"
    assert event(gateway, seen)["provider"] == "claude"


def test_a_break_behind_the_first_byte_is_a_break(
    gateway: GatewayProcess, upstream: RawUpstream, seen: list[int]
) -> None:
    def script(turn: Turn) -> None:
        turn.send(STREAM_HEAD, b"%x\r\n%b\r\n" % (len(FIRST), FIRST))
        turn.reset()

    upstream.begin(script)
    body = {"model": "far", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    with RawClient(gateway.port) as client:
        assert client.send(request(json.dumps(body).encode(), JSON))
        response = client.read_response()
    assert (response.status, response.whole) == (200, False)
    assert FIRST.startswith(response.body)
    found = event(gateway, seen)
    assert (found["provider"], found["attempts"], found["status"]) == ("first", 1, "upstream_error")


def test_an_sdk_gets_the_next_targets_answer_behind_keep_alives(
    gateway: GatewayProcess, upstream: RawUpstream, seen: list[int]
) -> None:
    upstream.begin(stall)
    body = {"model": "awake", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    with RawClient(gateway.port) as client:
        assert client.send(request(json.dumps(body).encode(), JSON))
        response = client.read_response()
    assert (response.status, response.whole) == (200, True)
    assert response.body.startswith(b": ping\n\n")
    assert response.body.endswith(b"data: [DONE]\n\n")
    found = event(gateway, seen)
    assert (found["provider"], found["attempts"], found["status"]) == ("same", 2, "ok")
    with chat(gateway) as sdk:
        stream = sdk.chat.completions.create(
            model="awake", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == "You said: hello"
    assert event(gateway, seen)["status"] == "ok"


def test_an_sdk_reads_what_failed_in_the_end_behind_keep_alives(
    gateway: GatewayProcess, upstream: RawUpstream, seen: list[int]
) -> None:
    upstream.begin(stall)
    with chat(gateway) as client:
        stream = client.chat.completions.create(
            model="doomed", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        with pytest.raises(APIError, match="sent no response within"):
            list(stream)
    found = event(gateway, seen)
    assert (found["status"], found["http_status"]) == ("upstream_error", 200)
    assert (found["error"], found["attempts"]) == ("first_byte_timeout", 2)
