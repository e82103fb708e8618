"""Keys with names over sockets: the vendors' SDKs, 64 connections at once, a reload, and what is written."""

from __future__ import annotations

import io
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors

from tests.support.deployment import Deployment, providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_upstream import RawUpstream, Turn, complete, start_upstream
from tests.support.simulator import SimulatorProcess, start_simulator
from tests.support.waiting import WAIT_SECONDS, wait_until

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
    return ask_gateway(deployment.gateway, key)


def ask_gateway(gateway: GatewayProcess, key: str) -> int:
    """Ask a gateway, likewise."""
    content = json.dumps({"model": "gpt-5", "messages": ASKED})
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
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


LIMITED: Final = "edge-canary-limited"


@contextmanager
def held_gateway(limit: str) -> Iterator[tuple[GatewayProcess, RawUpstream, threading.Event]]:
    """A gateway with a key of this limit, and a provider that answers when the event is set."""
    go_on = threading.Event()

    def answer_later(turn: Turn) -> None:
        assert go_on.wait(WAIT_SECONDS)
        complete(turn)

    with start_upstream() as upstream:
        upstream.begin(answer_later)
        config = f"""
providers: {{main: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: main}}
edge_auth: {{enabled: true, keys: [{{name: limited, key: {LIMITED}, {limit}}}]}}
"""
        with start_gateway(config) as gateway:
            yield gateway, upstream, go_on


def rejections(gateway: GatewayProcess, limit: str) -> float:
    name = f'mgw_client_limit_rejections_total{{client="limited",limit="{limit}"}}'
    return gateway.metric(name, {"x-api-key": LIMITED})


def test_of_64_connections_exactly_as_many_are_in_flight_as_allowed() -> None:
    with held_gateway("max_in_flight: 3") as (gateway, upstream, go_on):
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            asked = [threads.submit(ask_gateway, gateway, LIMITED) for _ in range(CONNECTIONS)]
            wait_until(lambda: sum(each.done() for each in asked) >= CONNECTIONS - 3, "61 to be refused")
            upstream.wait_for(lambda: len(upstream.turns) == 3, "the others to be in flight")
            go_on.set()
            assert Counter(each.result() for each in asked) == {200: 3, 429: CONNECTIONS - 3}
        assert len(upstream.turns) == 3
        assert rejections(gateway, "max_in_flight") == CONNECTIONS - 3
        assert ask_gateway(gateway, LIMITED) == 200


def test_the_tokens_of_64_connections_count_against_all_that_come_later() -> None:
    spent = CONNECTIONS * 10  # what each response says
    with held_gateway(f"tokens_per_minute: {spent}") as (gateway, upstream, go_on):
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            asked = [threads.submit(ask_gateway, gateway, LIMITED) for _ in range(CONNECTIONS)]
            upstream.wait_for(lambda: len(upstream.turns) == CONNECTIONS, "all to be in flight")
            go_on.set()
            assert Counter(each.result() for each in asked) == {200: CONNECTIONS}
            late = Counter(threads.map(lambda _: ask_gateway(gateway, LIMITED), range(CONNECTIONS)))
        assert late == {429: CONNECTIONS}
        assert len(upstream.turns) == CONNECTIONS
        assert rejections(gateway, "tokens_per_minute") == CONNECTIONS


def test_one_token_less_than_the_limit_admits_one_more() -> None:
    with held_gateway("tokens_per_minute: 11") as (gateway, upstream, go_on):
        go_on.set()
        assert [ask_gateway(gateway, LIMITED) for _ in range(3)] == [200, 200, 429]
        assert len(upstream.turns) == 2


def test_a_limited_key_is_kept_from_what_can_be_read_in_two_ways(deployment: Deployment) -> None:
    headers = {"Authorization": f"Bearer {KEYS[1]}", "Content-Type": "application/json"}
    connection = HTTPConnection("127.0.0.1", deployment.gateway.port, timeout=WAIT_SECONDS)
    with closing(connection):
        for body in (
            b'{"model":"fast","messages":[{"role":"user","content":"hi"}],"Model":"gpt-5"}',
            b'{"\\u006dodel":"gpt-5","messages":[{"role":"user","content":"hi"}],"model":"fast"}',
            b'{"model":"gpt-5","messages":[{"role":"user","content":"hi"}],"top_p":NaN,"model":"fast"}',
            b'{"model":"fast","messages":[{"role":"user","content":"hi"}]}{"model":"gpt-5"}',
        ):
            connection.request("POST", "/v1/chat/completions", body, headers)
            response = connection.getresponse()
            assert (response.status, json.loads(response.read())["error"]["type"]) == (
                400,
                "invalid_request_error",
            )
        assert not deployment.simulator.requests()
        connection.request(
            "POST",
            "/v1/chat/completions",
            b'{"model":"fast","messages":[{"role":"user","content":"hi"}]}',
            headers,
        )
        response = connection.getresponse()
        assert response.status == 200, response.read()


def test_a_limited_key_keeps_its_connection(deployment: Deployment) -> None:
    headers = {"Authorization": f"Bearer {KEYS[0]}", "Content-Type": "application/json"}
    content = json.dumps({"model": "gpt-5", "messages": ASKED})
    connection = HTTPConnection("127.0.0.1", deployment.gateway.port, timeout=WAIT_SECONDS)
    with closing(connection):
        connection.connect()
        socket, statuses = connection.sock, []
        for _ in range(4):
            connection.request("POST", "/v1/chat/completions", content, headers)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            assert connection.sock is socket  # else it had to connect anew
        assert statuses == [200, 429, 429, 429]


def test_without_edge_auth_a_page_that_leads_its_name_here_gets_nothing(simulator: SimulatorProcess) -> None:
    with start_gateway(providers(simulator.url)) as gateway:
        content = json.dumps({"model": "gpt-5", "messages": ASKED})

        def ask(**headers: str) -> int:
            connection = HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
            with closing(connection):
                connection.request(
                    "POST", "/v1/chat/completions", content, {"Content-Type": "application/json", **headers}
                )
                return connection.getresponse().status

        evil = f"evil.example:{gateway.port}"
        assert ask(Host=evil) == 421
        assert ask(Host=evil, Origin=f"http://{evil}") == 421
        assert ask(Origin=f"http://{evil}") == 403
        assert ask(Origin="null") == 403
        assert not simulator.requests()
        assert ask(Origin="app://editor") == 200
        assert ask() == 200
