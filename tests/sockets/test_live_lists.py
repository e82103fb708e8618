"""Live model lists through the real SDKs, from providers that list, and from some that fail."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.simulator import SimulatorProcess

EDGE: Final = "edge-canary-1"
KEY: Final = b"x-api-key: edge-canary-1"
CATALOG: Final = ["fast", "main/echo-large"]
SIM: Final = ("echo-large", "echo-small", "echo-embedding")
FAILING: Final = ("down", "odd", "cut", "packed", "refusing")


def sim(fault: str, number: int) -> str:
    return f'{{set: {{x-sim-{fault}: "{number}"}}}}'


def text(url: str, closed: int) -> str:
    return f"""
providers:
  down: {{kind: openai, base_url: "http://127.0.0.1:{closed}/v1", api_key: sk-canary}}
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  own: {{kind: openai, base_url: "{url}/v1"}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
  many: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-canary, headers: {sim("models", 2003)}}}
  more: {{kind: gemini, base_url: "{url}/v1beta", api_key: k-canary, headers: {sim("models", 2003)}}}
  odd: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary, headers: {sim("garbage", 1)}}}
  cut: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary, headers: {sim("truncate-after", 9)}}}
  packed: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary, headers: {sim("force-gzip", 1)}}}
  refusing: {{kind: openai, base_url: "{url}/v1", api_key: wrong-canary}}
defaults: {{openai_dialect: own}}
aliases: {{fast: main/echo-large}}
edge_auth: {{enabled: true, keys: [{EDGE}]}}
"""


def of(provider: str, *models: str) -> list[str]:
    return [f"{provider}/{model}" for model in models]


def numbered(provider: str) -> list[str]:
    return of(provider, *SIM, *(f"echo-{number:05d}" for number in range(3, 2003)))


LIVE: Final = [
    *CATALOG,
    *of("main", *SIM[1:]),
    *of("claude", *SIM),
    *of("gem", *SIM),
    *numbered("many"),
    *numbered("more"),
]


@contextmanager
def started(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    with socket.socket() as nobody:  # bound, and never listening: whoever connects is refused
        nobody.bind(("127.0.0.1", 0))
        with start_gateway(text(simulator.url, nobody.getsockname()[1])) as process:
            yield process


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    with started(simulator) as process:
        yield process


def test_openais_sdk_lists_what_providers_list(gateway: GatewayProcess) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=EDGE, max_retries=0)
    models = client.models.list(extra_query={"live": "1"}).data
    assert [model.id for model in models] == LIVE
    assert {model.id: model.created for model in models}["main/echo-small"] == 1767322985


def test_anthropics_sdk_lists_page_by_page(gateway: GatewayProcess) -> None:
    client = anthropic.Anthropic(base_url=gateway.url, api_key=EDGE, max_retries=0)
    models = list(client.models.list(limit=1000, extra_query={"live": "true"}))
    assert [model.id for model in models] == LIVE
    assert {model.id: model.display_name for model in models}["claude/echo-large"] == "Echo Large"


def test_anthropics_sdk_gets_its_own_providers_lists_without_asking(gateway: GatewayProcess) -> None:
    client = anthropic.Anthropic(base_url=gateway.url, api_key=EDGE, max_retries=0)
    expected = [*CATALOG, *of("claude", *SIM), *numbered("many")]
    assert [model.id for model in client.models.list(limit=700)] == expected
    plain = client.models.list(extra_query={"live": "0"})
    assert [model.id for model in plain] == CATALOG


def test_googles_sdk_lists_page_by_page(gateway: GatewayProcess) -> None:
    def live(request: Any) -> None:  # Any: a request of whichever httpx the SDK uses
        request.url = request.url.copy_merge_params({"live": "1"})

    options = {"base_url": gateway.url, "client_args": {"event_hooks": {"request": [live]}}}
    with genai.Client(api_key=EDGE, http_options=options) as client:  # type: ignore[arg-type]  # a dict will do
        models = list(client.models.list(config={"page_size": 900}))
        assert [model.name for model in models] == [f"models/{name}" for name in LIVE]
        assert {model.name: model.display_name for model in models}["models/gem/echo-large"] == "Echo Large"
        assert client.models.get(model="gem/echo-large").name == "models/gem/echo-large"


def test_what_fails_is_counted_once_in_a_while_and_no_error(simulator: SimulatorProcess) -> None:
    with started(simulator) as gateway:  # of its own: who failed a moment ago is not asked
        for _ in range(2):
            response = ask(gateway.port, "/v1/models?live=1", KEY)
            assert response.status == 200
            assert [model["id"] for model in response.json()["data"]] == LIVE
        counted = {name: failures(gateway, name) for name in (*FAILING, "main", "own")}
    assert counted == {
        **dict.fromkeys(FAILING, 1),
        "main": 0,
        "own": 0,
    }


def failures(gateway: GatewayProcess, provider: str) -> float:
    line = f'mgw_live_list_failures_total{{provider="{provider}"}}'
    return gateway.metric(line, {"x-api-key": EDGE})


def test_a_client_with_a_key_of_its_own_sees_what_that_key_sees(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    simulator.clear()
    own = b"Authorization: Bearer sk-own-canary"
    response = ask(gateway.port, "/v1/models?live=1", KEY, own)
    assert "own/echo-small" in {model["id"] for model in response.json()["data"]}
    again = ask(gateway.port, "/v1/models?live=1", KEY, own)
    assert again.body == response.body
    keys = [request.value("authorization") for request in simulator.requests()]
    assert keys.count("Bearer sk-own-canary") == 1
    without = ask(gateway.port, "/v1/models?live=1", KEY)
    assert not [model for model in without.json()["data"] if model["id"].startswith("own/")]
    wrong = ask(gateway.port, "/v1/models?live=1", KEY, b"Authorization: Bearer wrong-canary")
    assert not [model for model in wrong.json()["data"] if model["id"].startswith("own/")]


def test_many_clients_cost_a_provider_one_request(simulator: SimulatorProcess) -> None:
    config = f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-many}}}}
"""
    with start_gateway(config) as gateway, ThreadPoolExecutor(16) as clients:
        responses = list(clients.map(lambda _: ask(gateway.port, "/v1/models?live=1"), range(32)))
    assert {response.status for response in responses} == {200}
    assert len({response.body for response in responses}) == 1
    assert [model["id"] for model in responses[0].json()["data"]] == of("main", *SIM)
    keys = [request.value("authorization") for request in simulator.requests()]
    assert keys.count("Bearer sk-canary-many") == 1


def test_a_request_says_who_asks_and_wants_the_answer_as_it_is(simulator: SimulatorProcess) -> None:
    simulator.clear()
    with started(simulator) as gateway:
        ask(gateway.port, "/v1/models?live=1", KEY)
    asked = [request for request in simulator.requests() if request.value("x-sim-garbage")]
    (request,) = asked
    assert request.target == "/v1/models"
    assert request.values("accept-encoding") == ["identity"]
    assert request.values("accept") == ["application/json"]
    assert (request.value("user-agent") or "").startswith("mgw/")
    assert "canary-1" not in str(request.headers)
