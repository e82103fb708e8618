"""Gateways for clients that misbehave, in every way that a socket can.

Each test ends with a request that is answered, and with a log that holds no traceback.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client_faults import LIMIT, MAX_BODY
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.ledger import Ledger
from tests.support.raw_upstream import RawUpstream
from tests.support.simulator import SimulatorProcess

BODY_MEMORY = 150_000


def config(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
  raw: {{kind: openai, base_url: "{upstream.url}/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
max_body_bytes: {MAX_BODY}
spool: {{body_memory: {BODY_MEMORY}}}
"""


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, upstream: RawUpstream) -> str:
    """A gateway with time for everybody, and little room for bodies."""
    return config(simulator, upstream)


@pytest.fixture(scope="module")
def hasty(simulator: SimulatorProcess, upstream: RawUpstream) -> Iterator[GatewayProcess]:
    """A gateway with no time for anybody."""
    names = ("write_stall", "client_headers", "client_body_idle", "client_idle")
    limits = ", ".join(f"{name}: {LIMIT}" for name in names)
    text = config(simulator, upstream) + f"timeouts: {{{limits}}}\n"
    with start_gateway(text) as process:
        yield process


def keep(gateway: GatewayProcess, simulator: SimulatorProcess) -> Iterator[Ledger]:
    simulator.clear()
    ledger = Ledger(gateway)
    yield ledger
    ledger.balance("main/gpt-after")


@pytest.fixture
def ledger(gateway: GatewayProcess, simulator: SimulatorProcess) -> Iterator[Ledger]:
    yield from keep(gateway, simulator)


@pytest.fixture
def hasty_ledger(hasty: GatewayProcess, simulator: SimulatorProcess) -> Iterator[Ledger]:
    yield from keep(hasty, simulator)
