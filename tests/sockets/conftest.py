"""One simulator and one gateway before it for the tests that only talk to them."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as genai_types

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator


def three_families(simulator: SimulatorProcess) -> str:
    """Return the providers of all three families, all of them the simulator."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai, models: [gpt-listed]}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases: {{fast: main/gpt-fast, smart: claude/claude-smart, quick: gem/gemini-quick}}
edge_auth: {{enabled: true, keys: [edge-canary-1, edge-canary-2]}}
"""


EDGE_KEY = "edge-canary-1"


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    """The upstream."""
    with start_simulator() as process:
        yield process


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    """A gateway with edge auth, before the simulator as all three families."""
    with start_gateway(three_families(simulator)) as process:
        yield process


@pytest.fixture
def edge_key() -> str:
    """A key that opens the gateway."""
    return EDGE_KEY


@pytest.fixture
def ours(simulator: SimulatorProcess) -> Iterator[openai.OpenAI]:
    """OpenAI's SDK, straight at the upstream."""
    with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="a-key", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def claude(simulator: SimulatorProcess) -> Iterator[anthropic.Anthropic]:
    """Anthropic's SDK, straight at the upstream."""
    with anthropic.Anthropic(base_url=simulator.url, api_key="a-key", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def google(simulator: SimulatorProcess) -> Iterator[genai.Client]:
    """Google's SDK, straight at the upstream."""
    client = genai.Client(
        api_key="a-key", http_options=genai_types.HttpOptions(base_url=simulator.url, timeout=60_000)
    )
    yield client
    client.close()
