"""What requests cost, in a gateway as an operator runs it: events, lines, metrics; new prices on SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anthropic
import openai
import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.simulator import SimulatorProcess

PRICES: Final = """rows:
  - {model: "gpt-*", input: %(input)s, cache_read: 0.5, output: 10}
  - {model: "claude-*", input: 3, cache_read: 0.3, cache_write: 3.75, output: 15}
"""


def configuration(simulator: SimulatorProcess, prices: Path) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai, models: [gpt-5, o-9]}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude}}
hooks: {{jsonl: {{output: stdout}}}}
listen: 127.0.0.1:0
prices: {{file: {prices}}}
"""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES % {"input": 2})
    return file


@pytest.fixture
def gateway(simulator: SimulatorProcess, prices: Path) -> Iterator[GatewayProcess]:
    with start_gateway(configuration(simulator, prices)) as process:
        yield process


def chat(gateway: GatewayProcess, model: str, *, stream: bool = False) -> None:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as client:
        request: Any = {"model": model, "messages": [{"role": "user", "content": "hello"}]}  # Any: overloads
        if stream:
            list(
                client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
            )
        else:
            client.chat.completions.create(**request)


def message(gateway: GatewayProcess, model: str) -> None:
    with anthropic.Anthropic(base_url=gateway.url, api_key="k", max_retries=0) as client:
        client.messages.create(model=model, max_tokens=9, messages=[{"role": "user", "content": "hello"}])


def tokens_cost(event: dict[str, Any], price_in: float, price_out: float, price_read: float) -> float:
    read = event.get("cache_read_tokens", 0)
    units: float = (
        (event["tokens_in"] - read) * price_in + read * price_read + event["tokens_out"] * price_out
    )
    nanodollars = round(units * 1000)
    return nanodollars / 10**9


def test_events_lines_and_metrics_say_the_same_cost(gateway: GatewayProcess) -> None:
    chat(gateway, "gpt-5")
    chat(gateway, "gpt-5", stream=True)
    chat(gateway, "claude/claude-5")
    message(gateway, "claude-5")
    message(gateway, "main/gpt-5")
    chat(gateway, "o-9")
    events = gateway.events(6)
    costs = [event.get("cost_usd") for event in events]
    assert costs[5] is None
    for event, cost in zip(events[:5], costs[:5], strict=True):
        prices = (2, 10, 0.5) if event["provider"] == "main" else (3, 15, 0.3)
        assert cost == tokens_cost(event, *prices) > 0
    log = gateway.log(b"model=o-9").decode()
    for cost in costs[:5]:
        assert f" cost_usd={cost:.9f}".rstrip("0") in log
    page = ask(gateway.port, "/metrics").body.decode()
    for provider in ("main", "claude"):
        total = sum(event["cost_usd"] for event in events[:5] if event["provider"] == provider)
        start = f'mgw_cost_usd_total{{client="none",provider="{provider}"}}'
        (line,) = (row for row in page.splitlines() if row.startswith(start))
        assert float(line.split()[-1]) == pytest.approx(total, abs=1e-12)
    assert 'mgw_unpriced_requests_total{provider="main",reason="price"} 1.0' in page


def test_the_file_is_read_again_on_sighup_and_a_bad_one_changes_nothing(
    gateway: GatewayProcess, prices: Path
) -> None:
    chat(gateway, "gpt-5")
    prices.write_text(PRICES % {"input": 200})
    gateway.signal(signal.SIGHUP)
    gateway.log(b"the configuration was reloaded: generation 2\n")
    chat(gateway, "gpt-5")
    prices.write_text(PRICES % {"input": "cheap"})
    gateway.signal(signal.SIGHUP)
    log = gateway.log(b"the previous one stays in use").decode()
    assert f"{prices}:2: rows.0.input: expected a price in US dollars" in log
    chat(gateway, "gpt-5")
    before, after, last = gateway.events(3)
    assert before["cost_usd"] == tokens_cost(before, 2, 10, 0.5)
    assert after["cost_usd"] == tokens_cost(after, 200, 10, 0.5)
    assert last["cost_usd"] == after["cost_usd"]


def test_models_without_a_price_are_warned_about_at_the_start(gateway: GatewayProcess) -> None:
    assert b"no row matches o-9 of providers.main" in gateway.log(b"no row matches")
