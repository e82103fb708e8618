"""A gateway for providers that fail, in every way that a socket can.

Each test ends with a request that is answered, and with a log that holds no traceback.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.support.gateway import GatewayProcess
from tests.support.ledger import Ledger
from tests.support.raw_upstream import RawUpstream
from tests.support.upstream_faults import LIMIT


def config(url: str, nobody: int) -> str:
    """Return the providers; only ``kept`` ever has a connection that is used twice."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
  kept: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
  hasty:
    kind: openai
    base_url: "{url}/v1"
    api_key: sk-canary
    timeouts: {{first_byte: {LIMIT}, idle: {LIMIT}}}
  refusing: {{kind: openai, base_url: "http://127.0.0.1:{nobody}/v1", api_key: sk-canary}}
  refusing-a: {{kind: anthropic, base_url: "http://127.0.0.1:{nobody}/v1", api_key: sk-canary}}
  refusing-g: {{kind: gemini, base_url: "http://127.0.0.1:{nobody}/v1beta", api_key: canary}}
  nameless: {{kind: openai, base_url: "http://nowhere.invalid/v1", api_key: sk-canary}}
defaults: {{openai_dialect: main}}
"""


@pytest.fixture(scope="module")
def gateway_config(upstream: RawUpstream) -> Iterator[str]:
    with socket.socket() as nobody:  # bound, and never listening: whoever connects is refused
        nobody.bind(("127.0.0.1", 0))
        yield config(upstream.url, nobody.getsockname()[1])


@pytest.fixture
def ledger(gateway: GatewayProcess, upstream: RawUpstream) -> Iterator[Ledger]:
    upstream.begin()
    ledger = Ledger(gateway)
    yield ledger
    upstream.begin()
    ledger.balance("kept/gpt-after")
