"""A provider that forgets to end its stream, or breaks it behind the last word, is no error to an SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.passing_streams import CHAT, MESSAGES, chunks
from tests.support.raw_client import RawClient, request
from tests.support.raw_upstream import JSON, STREAM_HEAD, RawUpstream, Turn

IDLE: Final = 0.5
HELLO: Final[list[Any]] = [{"role": "user", "content": "hello"}]
TEXT: Final = 'an "error" of mine'


@pytest.fixture(scope="module")
def upstream() -> Iterator[RawUpstream]:
    provider = RawUpstream()
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def gateway(upstream: RawUpstream) -> Iterator[GatewayProcess]:
    config = f"""
timeouts: {{idle: {IDLE}}}
providers:
  host: {{kind: openai_compat, base_url: "{upstream.url}/v1", api_key: sk-canary-1}}
  claude: {{kind: anthropic, base_url: "{upstream.url}/v1", api_key: sk-canary-2}}
defaults: {{openai_dialect: host, anthropic_dialect: claude}}
"""
    with start_gateway(config) as process:
        yield process
        process.search_for_keys()


@pytest.fixture(scope="module")
def seen() -> list[int]:
    """Grows with each event that was looked at."""
    return []


def told(gateway: GatewayProcess, seen: list[int]) -> tuple[Any, ...]:
    seen.append(1)
    event = gateway.events(len(seen))[len(seen) - 1]
    return event["status"], event.get("error"), event["http_status"]


def hang(turn: Turn) -> None:
    turn.wait_until_left()


def drop(turn: Turn) -> None:
    turn.reset()


WAYS: Final = {"silence": hang, "break": drop}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def saying(pieces: bytes, way: Callable[[Turn], None]) -> Callable[[Turn], None]:
    def script(turn: Turn) -> None:
        assert turn.body
        turn.send(STREAM_HEAD, chunks(pieces))
        way(turn)

    return script


@each_way
@pytest.mark.parametrize("model", ["host/x", "claude/x"])
def test_anthropics_sdk_gets_the_whole_message(
    gateway: GatewayProcess,
    upstream: RawUpstream,
    seen: list[int],
    way: Callable[[Turn], None],
    model: str,
) -> None:
    stream = CHAT if model == "host/x" else MESSAGES
    upstream.begin(saying(b"".join(stream.silent) + stream.words + stream.finish, way))
    with (
        Anthropic(base_url=gateway.url, api_key="none", max_retries=0) as client,
        client.messages.stream(model=model, messages=HELLO, max_tokens=9) as answer,
    ):
        message = answer.get_final_message()
    assert (message.stop_reason, message.content[0].to_dict()["text"]) == ("end_turn", TEXT)
    assert told(gateway, seen) == ("ok", None, 200)


@each_way
@pytest.mark.parametrize("model", ["host/x", "claude/x"])
def test_openais_sdk_gets_the_whole_completion(
    gateway: GatewayProcess,
    upstream: RawUpstream,
    seen: list[int],
    way: Callable[[Turn], None],
    model: str,
) -> None:
    stream = CHAT if model == "host/x" else MESSAGES
    upstream.begin(saying(b"".join(stream.silent) + stream.words + stream.finish, way))
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0) as client:
        found = list(client.chat.completions.create(model=model, messages=HELLO, stream=True))
    choices = [choice for chunk in found for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == TEXT
    assert choices[-1].finish_reason == "stop"
    assert told(gateway, seen) == ("ok", None, 200)


@each_way
def test_the_clients_response_ends_in_order(
    gateway: GatewayProcess, upstream: RawUpstream, seen: list[int], way: Callable[[Turn], None]
) -> None:
    body = CHAT.words + CHAT.finish
    upstream.begin(saying(body, way))
    asked = {"model": "host/x", "stream": True, "messages": HELLO}
    with RawClient(gateway.port) as client:
        assert client.send(request(json.dumps(asked).encode(), JSON))
        response = client.read_response()
    assert (response.status, response.whole, response.body) == (200, True, body)
    assert told(gateway, seen) == ("ok", None, 200)


@each_way
def test_before_the_last_word_the_clients_response_breaks(
    gateway: GatewayProcess, upstream: RawUpstream, seen: list[int], way: Callable[[Turn], None]
) -> None:
    upstream.begin(saying(CHAT.words, way))
    asked = {"model": "host/x", "stream": True, "messages": HELLO}
    with RawClient(gateway.port) as client:
        assert client.send(request(json.dumps(asked).encode(), JSON))
        response = client.read_response()
    assert (response.status, response.whole) == (200, False)
    status, error, _ = told(gateway, seen)
    assert (status, error) == ("upstream_error", "idle_timeout" if way is hang else "truncated")


def test_a_stream_that_ends_in_an_error_is_an_error_to_sdk_and_event(
    gateway: GatewayProcess, upstream: RawUpstream, seen: list[int]
) -> None:
    upstream.begin(saying(MESSAGES.silent[0] + MESSAGES.words + MESSAGES.errors[0], hang))
    with (
        pytest.raises(Exception, match="too busy"),
        Anthropic(base_url=gateway.url, api_key="none", max_retries=0) as client,
        client.messages.stream(model="claude/x", messages=HELLO, max_tokens=9) as answer,
    ):
        answer.get_final_message()
    assert told(gateway, seen) == ("upstream_error", "upstream_error_event", 200)
