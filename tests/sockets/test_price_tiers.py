"""Tiers, service tiers and parts of tokens, from what a provider says to the event, in every dialect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import RawClient, request
from tests.support.simulator import SimulatorProcess

ROW: Final = """
      model: "*"
      input: 2
      output: 10
      cache_read: 0.5
      cache_write: 2.5
      cache_write_1h: 4
      input_audio: 30
      output_audio: 60
      per_search: 0.01
      tiers: [{above: 1000, input: 4, output: 20}]
      service_tiers: {flex: {input: 1}, fast: {input: 12, output: 50}}
      inference_geo: {us: 1.1}
"""
CONFIGURATION: Final = """
providers:
  chat: {kind: openai_compat, base_url: "%(url)s/v1", api_key: sk-canary}
  responses: {kind: openai, base_url: "%(url)s/v1", api_key: sk-canary}
  claude: {kind: anthropic, base_url: "%(url)s/v1", api_key: sk-ant-canary}
  gem: {kind: gemini, base_url: "%(url)s/v1beta", api_key: canary}
defaults: {openai_dialect: responses, anthropic_dialect: claude, gemini_dialect: gem}
hooks: {jsonl: {output: stdout}}
listen: 127.0.0.1:0
prices:
  rows:
    - %(row)s
"""
ASKED: Final = {"role": "user", "content": "hello"}
CHAT: Final = {"messages": [ASKED]}
MESSAGE: Final = {"messages": [ASKED], "max_tokens": 99}
RESPONSE: Final = {"input": "hello"}
CONTENT: Final = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    with start_gateway(CONFIGURATION % {"url": simulator.url, "row": ROW.strip()}) as process:
        yield process


def post(gateway: GatewayProcess, kind: str, model: str, *, stream: bool) -> None:
    asked: dict[str, tuple[str, dict[str, Any]]] = {  # Any: JSON
        "chat": ("/v1/chat/completions", {**CHAT, "model": model}),
        "messages": ("/v1/messages", {**MESSAGE, "model": model}),
        "responses": ("/v1/responses", {**RESPONSE, "model": model}),
        "gemini": (f"/v1beta/models/{model}:generateContent", CONTENT),
    }
    path, body = asked[kind]
    if kind == "gemini":
        path = path.replace("generateContent", "streamGenerateContent?alt=sse") if stream else path
    elif stream:
        body = {
            **body,
            "stream": True,
            **({"stream_options": {"include_usage": True}} if kind == "chat" else {}),
        }
    with RawClient(gateway.port) as client:
        headers = [b"Content-Type: application/json", b"anthropic-version: 2023-06-01"]
        client.send(request(json.dumps(body).encode(), *headers[: 2 if kind == "messages" else 1], path=path))
        assert client.read_response().status == 200


CASES: Final[dict[str, tuple[str, str, Any, dict[str, Any]]]] = {
    # what is asked for, the model, nanodollars, what else the event says
    "the row itself": ("chat", "chat/m+sim-usage-100-10", 300_000, {"service_tier": "default"}),
    "a long prompt": (
        "chat",
        "chat/m+sim-usage-1001-10",
        1001 * 4_000 + 10 * 20_000,
        {"price_tier": "above 1000"},
    ),
    "flex": (
        "chat",
        "chat/m+sim-usage-100-10+sim-served-flex",
        200_000,
        {"service_tier": "flex", "price_tier": "flex"},
    ),
    "flex, and a long prompt": (
        "chat",
        "chat/m+sim-usage-1001-10+sim-served-flex",
        None,
        {"service_tier": "flex"},
    ),
    "another tier": (
        "chat",
        "chat/m+sim-usage-100-10+sim-served-priority",
        None,
        {"service_tier": "priority"},
    ),
    "audio": (
        "chat",
        "chat/m+sim-usage-100-10+sim-audio-60-4",
        60 * 30_000 + 40 * 2_000 + 4 * 60_000 + 6 * 10_000,
        {},
    ),
    "searches": ("responses", "m+sim-usage-100-10+sim-searches-2", 300_000 + 20_000_000, {}),
    "a response by flex": (
        "responses",
        "m+sim-usage-100-10+sim-served-flex",
        200_000,
        {"service_tier": "flex", "price_tier": "flex"},
    ),
    "searches of Claude": ("messages", "m+sim-usage-100-10+sim-searches-3", 300_000 + 30_000_000, {}),
    "an hour's cache": (
        "messages",
        "m+sim-usage-100-10+sim-cache-1h-30+sim-cache-write-20+sim-cached-10",
        30 * 4_000 + 20 * 2_500 + 10 * 500 + 40 * 2_000 + 10 * 10_000,
        {"cache_write_tokens": 50, "tokens_in": 100},
    ),
    "a place": ("messages", "m+sim-usage-100-10+sim-geo-us", 330_000, {"service_tier": "standard"}),
    "fast": (
        "messages",
        "m+sim-usage-100-10+sim-served-fast",
        1_200_000 + 500_000,
        {"service_tier": "fast", "price_tier": "fast"},
    ),
    "Vertex": (
        "gemini",
        "m+sim-usage-100-10+sim-served-ON_DEMAND_FLEX",
        200_000,
        {"service_tier": "ON_DEMAND_FLEX", "price_tier": "flex"},
    ),
    "Gemini": (
        "gemini",
        "m+sim-usage-100-10+sim-served-flex+sim-audio-40-0",
        60 * 1_000 + 40 * 30_000 + 10 * 10_000,
        {"service_tier": "flex", "price_tier": "flex"},
    ),
    "a chat with Claude": (
        "chat",
        "claude/m+sim-usage-100-10+sim-cache-1h-30+sim-geo-us+sim-served-fast",
        (70 * 12_000 + 30 * 4_000 + 10 * 50_000) * 11 // 10,
        {"service_tier": "fast", "price_tier": "fast"},
    ),
    "a message with Gemini": (
        "messages",
        "gem/m+sim-usage-100-10+sim-audio-40-4+sim-served-standard",
        60 * 2_000 + 40 * 30_000 + 6 * 10_000 + 4 * 60_000,
        {"service_tier": "standard"},
    ),
    "Gemini's content from a chat": (
        "gemini",
        "chat/m+sim-usage-1001-10",
        1001 * 4_000 + 10 * 20_000,
        {"service_tier": "default", "price_tier": "above 1000"},
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("kind", "model", "cost", "said"), CASES.values(), ids=CASES)
def test_what_a_provider_says_decides_the_price(
    gateway: GatewayProcess, kind: str, model: str, cost: int | None, said: dict[str, Any], *, stream: bool
) -> None:
    before = gateway.stdout.data.count(b"\n")
    post(gateway, kind, model, stream=stream)
    event = gateway.events(before + 1)[before]
    assert event.get("cost_usd") == (None if cost is None else cost / 10**9)
    assert {name: event.get(name) for name in said} == said
    if "price_tier" not in said:
        assert "price_tier" not in event


def test_a_tier_without_a_price_is_counted(gateway: GatewayProcess) -> None:
    post(gateway, "chat", "chat/m+sim-usage-100-10+sim-served-scale", stream=False)
    page = ask(gateway.port, "/metrics").body.decode()
    (line,) = (
        row
        for row in page.splitlines()
        if row.startswith('mgw_unpriced_requests_total{provider="chat",reason="tier"}')
    )
    assert float(line.split()[-1]) >= 1
