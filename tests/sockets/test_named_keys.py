"""Keys with names over sockets: the vendors' SDKs, 64 connections at once, a reload, and what is written."""

from __future__ import annotations

import io
import json
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors

from tests.support.deployment import Deployment, providers
from tests.support.gateway import start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS

SECRET: Final = "edge-canary-of-the-build-server-0001"
KEYS: Final = ("edge-canary-alice", "edge-canary-narrow", "edge-canary-many")
EDGE_AUTH: Final = f"""
edge_auth:
  enabled: true
  keys:
    - edge-canary-plain
    - {{name: alice, key: edge-canary-alice, requests_per_minute: 1}}
    - {{name: narrow, key: edge-canary-narrow, models: ["fast"]}}
    - {{name: many, key: edge-canary-many, requests_per_minute: 10}}
    - {{name: build, sha256: {sha256(SECRET.encode()).hexdigest()}}}
hooks: {{jsonl: {{output: stdout}}}}
"""
CONNECTIONS: Final = 64
ASKED: Final[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator() as simulator:
        yield simulator


@pytest.fixture
def deployment(simulator: SimulatorProcess) -> Iterator[Deployment]:
    with start_gateway(providers(simulator.url) + EDGE_AUTH) as gateway:
        yield Deployment(simulator, gateway)


def by_openai(deployment: Deployment, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{deployment.gateway.url}/v1", api_key=key, max_retries=0)


def test_the_sdks_see_a_limit_with_its_time(deployment: Deployment) -> None:
    url = deployment.gateway.url
    by_openai(deployment, KEYS[0]).chat.completions.create(model="gpt-5", messages=ASKED)
    with pytest.raises(openai.RateLimitError) as of_openai:
        by_openai(deployment, KEYS[0]).chat.completions.create(model="gpt-5", messages=ASKED)
    assert of_openai.value.code == "rate_limit_exceeded"
    client = anthropic.Anthropic(base_url=url, api_key=KEYS[0], max_retries=0)
    with pytest.raises(anthropic.RateLimitError) as of_anthropic:
        client.messages.create(model="claude-x", messages=ASKED, max_tokens=9)
    for refused in (of_openai.value.response, of_anthropic.value.response):
        assert 50 <= int(refused.headers["retry-after"]) <= 60
    with genai.Client(api_key=KEYS[0], http_options={"base_url": url}) as google:  # noqa: SIM117
        with pytest.raises(errors.ClientError) as of_google:
            google.models.generate_content(model="gemini-x", contents="hi")
    assert (of_google.value.code, of_google.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert len(deployment.simulator.requests()) == 1
    events = deployment.events(4)
    assert [event["client"] for event in events] == ["alice"] * 4
    assert [event.get("error") for event in events] == [None, *["rate_limit_exceeded"] * 3]


def test_the_sdks_see_a_model_that_is_not_there(deployment: Deployment) -> None:
    url = deployment.gateway.url
    with pytest.raises(openai.NotFoundError) as of_openai:
        by_openai(deployment, KEYS[1]).chat.completions.create(model="gpt-5", messages=ASKED)
    assert of_openai.value.code == "model_not_found"
    client = anthropic.Anthropic(base_url=url, api_key=KEYS[1], max_retries=0)
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="claude-x", messages=ASKED, max_tokens=9)
    with genai.Client(api_key=KEYS[1], http_options={"base_url": url}) as google:  # noqa: SIM117
        with pytest.raises(errors.ClientError) as of_google:
            google.models.generate_content(model="gemini-x", contents="hi")
    assert of_google.value.code == 404
    assert not deployment.simulator.requests()
    assert list(by_openai(deployment, KEYS[1]).models.list(extra_query={"live": "1"})) == []
    assert len(list(by_openai(deployment, SECRET).models.list(extra_query={"live": "1"}))) > 1


def ask(deployment: Deployment, key: str) -> int:
    """Ask on a connection of its own, and return the status."""
    content = json.dumps({"model": "gpt-5", "messages": ASKED})
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = HTTPConnection("127.0.0.1", deployment.gateway.port, timeout=WAIT_SECONDS)
    with closing(connection):
        connection.request("POST", "/v1/chat/completions", content, headers)
        response = connection.getresponse()
        response.read()
        return response.status


def test_of_64_connections_at_once_exactly_as_many_as_allowed_are_served(deployment: Deployment) -> None:
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        statuses = Counter(threads.map(lambda _: ask(deployment, KEYS[2]), range(2 * CONNECTIONS)))
    assert statuses == {200: 10, 429: 2 * CONNECTIONS - 10}
    assert len(deployment.simulator.requests()) == 10


def test_a_reload_keeps_the_windows(deployment: Deployment) -> None:
    assert [ask(deployment, KEYS[0]) for _ in range(2)] == [200, 429]
    deployment.gateway.signal(signal.SIGHUP)
    deployment.gateway.log(b"the configuration was reloaded: generation 2\n")
    assert ask(deployment, KEYS[0]) == 429


def test_a_key_of_which_the_file_has_the_digest_works_for_uploads(deployment: Deployment) -> None:
    with genai.Client(api_key=SECRET, http_options={"base_url": deployment.gateway.url}) as google:
        google.files.upload(file=io.BytesIO(b"x" * 5000), config={"mime_type": "text/plain"})
    events = deployment.events(2)
    assert [event["client"] for event in events] == ["build", "build"]
    assert [event["http_status"] for event in events] == [200, 200]
    written = b"".join(str(seen).encode() for seen in deployment.simulator.requests())
    assert SECRET.encode() not in written


def test_metrics_name_the_clients_and_nothing_says_a_key(deployment: Deployment) -> None:
    gateway, keys = deployment.gateway, ["edge-canary-plain", *KEYS[:3], SECRET]
    for key in keys:
        ask(deployment, key)
        assert ask(deployment, f"{key}x") == 401
    page = gateway.get("/metrics", {"x-api-key": "edge-canary-plain"})
    for name in ("alice", "narrow", "many", "build", "other"):
        assert b'client="%b"' % name.encode() in page
    events = json.dumps(deployment.events(5)).encode()
    for key in keys:  # the log is searched at the end of every gateway
        assert key.encode() not in page + events
        assert sha256(key.encode()).hexdigest().encode() not in page + events
