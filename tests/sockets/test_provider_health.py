"""The providers' health over real sockets: what is well, what is not, and that no key is told."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.support.gateway import start_gateway
from tests.support.operations import ask
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import wait_until

KEY: Final = b"x-api-key: edge-canary-1"
PATH: Final = "/v1/health/providers"


def sim(fault: str, number: int) -> str:
    return f'{{set: {{x-sim-{fault}: "{number}"}}}}'


def text(url: str, closed: int) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
  host: {{kind: openai_compat, base_url: "{url}/nothing/v1", api_key: sk-canary}}
  own: {{kind: openai, base_url: "{url}/v1"}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: wrong-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: k-canary, headers: {sim("status", 503)}}}
  mute: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary, headers: {sim("stall-head", 1)}}}
  down: {{kind: openai, base_url: "http://127.0.0.1:{closed}/v1", api_key: sk-canary}}
health_checks: {{enabled: true, timeout: 1}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
"""


def test_each_provider_is_told_in_fixed_words(simulator: SimulatorProcess) -> None:
    with socket.socket() as nobody:  # bound, and never listening: whoever connects is refused
        nobody.bind(("127.0.0.1", 0))
        with start_gateway(text(simulator.url, nobody.getsockname()[1])) as gateway:
            assert ask(gateway.port, PATH).status == 401
            response = ask(gateway.port, PATH, KEY, b"Authorization: Bearer sk-own-canary")
    assert response.status == 200
    assert b"canary" not in response.body
    assert str(simulator.port).encode() not in response.body
    report: Any = response.json()
    assert report["status"] == "degraded"
    found = {
        each["name"]: (each["status"], each["http_status"], each["error"]) for each in report["providers"]
    }
    assert found == {
        "main": ("ok", 200, None),
        "host": ("ok", 404, None),
        "own": ("ok", 401, None),
        "claude": ("error", 401, "unauthorized"),
        "gem": ("error", 503, "bad_status"),
        "mute": ("error", None, "timeout"),
        "down": ("error", None, "unreachable"),
    }
    keys = [request.value("authorization") for request in simulator.requests()]
    assert "Bearer sk-own-canary" not in keys


def test_pollers_cost_a_provider_one_request(simulator: SimulatorProcess) -> None:
    simulator.clear()
    config = f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}}}
health_checks: {{enabled: true}}
"""
    with start_gateway(config) as gateway, ThreadPoolExecutor(16) as pollers:
        responses = list(pollers.map(lambda _: ask(gateway.port, PATH), range(32)))
    assert [response.json()["status"] for response in responses] == ["ok"] * 32
    assert len(simulator.requests()) == 1


def test_it_is_there_where_it_is_switched_on_only(simulator: SimulatorProcess) -> None:
    config = f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}}}
"""
    with start_gateway(config) as gateway:
        refused = ask(gateway.port, PATH)
        assert (refused.status, refused.json()["error"]["type"]) == (404, "invalid_request_error")
        gateway.rewrite(f"listen: 127.0.0.1:0\n{config}health_checks: {{enabled: true}}\n")
        gateway.signal(signal.SIGHUP)
        wait_until(lambda: ask(gateway.port, PATH).status == 200, "health is told")
