"""Streams that tell no tokens meet their limit: over sockets, by the vendors' SDKs, with the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.request import Request, urlopen

import anthropic
import openai
import pytest
from google import genai

from tests.support.deployment import Deployment, providers
from tests.support.gateway import start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator

ALICE, BOB, CAROL, PLAIN = (f"edge-canary-{name}-0001" for name in ("alice", "bob", "carol", "plain"))
MOST: Final = 100
EDGE_AUTH: Final = f"""
edge_auth:
  enabled: true
  keys:
    - {PLAIN}
    - {{name: alice, key: {ALICE}, tokens_per_minute: {MOST}}}
    - {{name: bob, key: {BOB}, tokens_per_minute: {MOST}, max_in_flight: 1}}
    - {{name: carol, key: {CAROL}, tokens_per_minute: 100000}}
hooks: {{jsonl: {{output: stdout}}}}
"""
ASKED: Final[Any] = [{"role": "user", "content": "repeat:300"}]
BODY: Final = {"model": "gpt-5+sim-untold", "stream": True, "messages": ASKED}


def fetch(url: str, key: str, body: Any = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urlopen(Request(url, data, headers)) as response:
        found: bytes = response.read()
    return found


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


@pytest.fixture(params=["", "workers: 2"], ids=["one process", "two workers"])
def deployment(simulator: SimulatorProcess, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    with start_gateway(f"{providers(simulator.url)}{EDGE_AUTH}{request.param}\n") as gateway:
        yield Deployment(simulator, gateway)


@pytest.mark.parametrize("key", [ALICE, BOB])
def test_an_untold_stream_counts_and_the_next_request_is_refused(deployment: Deployment, key: str) -> None:
    client = openai.OpenAI(base_url=f"{deployment.gateway.url}/v1", api_key=key, max_retries=0)
    with client.chat.completions.create(**BODY) as stream:
        words = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert words.endswith("w300")
    (event,) = deployment.events(1)
    assert "tokens_in" not in event
    assert "tokens_out" not in event
    assert 5 <= event["tokens_in_estimated"] <= 20
    assert 400 <= event["tokens_out_estimated"] <= 1000
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**BODY)
    assert refused.value.code == "rate_limit_exceeded"
    metrics = fetch(f"{deployment.gateway.url}/metrics", PLAIN)
    assert b'mgw_estimated_requests_total{provider="openai"} 1.0' in metrics


def test_the_bytes_are_the_same_with_an_estimate_and_without(deployment: Deployment) -> None:
    bodies = []
    for key in (PLAIN, CAROL):
        stream = fetch(f"{deployment.gateway.url}/v1/chat/completions", key, BODY)
        lines = [line for line in stream.split(b"\n") if line]
        bodies.append([line.partition(b'"choices"')[2] for line in lines])  # ids and times differ
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) > 300


def test_every_dialect_is_estimated_whole_and_streamed(deployment: Deployment) -> None:
    url, fields = deployment.gateway.url, ("tokens_in_estimated", "tokens_out_estimated")
    chat = openai.OpenAI(base_url=f"{url}/v1", api_key=CAROL, max_retries=0)
    messages = anthropic.Anthropic(base_url=url, api_key=CAROL, max_retries=0)
    for stream in (False, True):
        chat.chat.completions.with_raw_response.create(**{**BODY, "stream": stream})
        chat.responses.with_raw_response.create(model=BODY["model"], input="repeat:300", stream=stream)
        messages.messages.with_raw_response.create(
            model="claude-x+sim-untold", max_tokens=1000, messages=ASKED, stream=stream
        )
        prompt = {"model": BODY["model"], "prompt": "repeat:300", "max_tokens": 900, "stream": stream}
        fetch(f"{url}/v1/completions", CAROL, prompt)
    with genai.Client(api_key=CAROL, http_options={"base_url": url}) as google:
        google.models.generate_content(model="gemini-x+sim-untold", contents="repeat:300")
        list(google.models.generate_content_stream(model="gemini-x+sim-untold", contents="repeat:300"))
    events = deployment.events(10)
    assert {event["route"] for event in events} == {
        *("chat", "responses", "messages", "completions", "generate_content", "stream_generate_content"),
    }
    for event in events:
        assert all(name in event for name in fields), event
        assert 400 <= event["tokens_out_estimated"] <= 1000, event


def test_a_metered_provider_tells_what_a_stream_took(simulator: SimulatorProcess) -> None:
    text = providers(simulator.url).replace("kind: openai,", "kind: openai, meter_streams: true,", 1)
    assert "meter_streams" in text
    with start_gateway(text + EDGE_AUTH) as gateway:
        deployment = Deployment(simulator, gateway)
        client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=CAROL, max_retries=0)
        body: Any = {**BODY, "model": "gpt-5"}
        with client.chat.completions.create(**body) as stream:
            chunks = list(stream)
        assert all(chunk.choices for chunk in chunks)
        (event,) = deployment.events(1)
        assert event["tokens_out"] >= 300
        assert "tokens_out_estimated" not in event
