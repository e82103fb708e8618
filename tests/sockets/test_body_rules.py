"""Body rules and lists in headers through the vendors' SDKs; the simulator records what came."""

from __future__ import annotations

import gzip
import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

import anthropic
import pytest

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SeenRequest, SimulatorProcess

KEY: Final = "edge-canary-1"
HELLO: Final[list[Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}]}
]
BETAS: Final = "context-management-2025-06-27,interleaved-thinking-2025-05-14"


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess) -> str:
    return f"""
providers:
  claude:
    kind: anthropic
    base_url: {simulator.url}/v1
    api_key: sk-canary
    headers:
      remove_tokens: {{anthropic-beta: ["context-management-*"]}}
      add_tokens: {{anthropic-beta: [own-1]}}
    body:
      - {{match: {{dialect: messages}}, remove: [context_management, "messages[].content[].cache_control"]}}
      - {{match: {{dialect: messages, client: "ann*"}}, cap: {{max_tokens: 64}}}}
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-main, body: [{{set: {{user: gateway}}}}]}}
defaults: {{anthropic_dialect: claude, openai_dialect: main}}
edge_auth: {{enabled: true, keys: [{{name: ann, key: {KEY}}}]}}
"""


def last(simulator: SimulatorProcess) -> SeenRequest:
    return simulator.requests()[-1]


def test_a_request_of_claude_code_reaches_a_host_without_context_management(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    client = anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)
    more: dict[str, Any] = {"context_management": {"edits": []}}
    for _ in range(3):
        client.messages.create(
            model="claude-x",
            max_tokens=100,
            messages=HELLO,
            extra_body=more,
            extra_headers={"anthropic-beta": BETAS},
        )
        seen = last(simulator)
        assert seen.value("anthropic-beta") == "interleaved-thinking-2025-05-14,own-1"
        assert seen.json() == {
            "max_tokens": 64,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            "model": "claude-x",
        }
        assert gateway.events()[-1]["body_rules"] == 2


def test_large_and_compressed_bodies_are_changed(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    text = "x" * 10_000_000
    message = {"model": "gpt-x", "messages": [{"role": "user", "content": text}]}
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=30)
    for coded in (False, True):
        body = json.dumps(message).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        if coded:
            body, headers = gzip.compress(body, 1), {**headers, "Content-Encoding": "gzip"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        response = connection.getresponse()
        assert (response.status, bool(response.read())) == (200, True)
        seen = last(simulator)
        assert seen.value("content-encoding") is None
        assert seen.value("content-length") == str(len(json.dumps(message)) + len(b',"user":"gateway"'))
    connection.close()
