"""A simulator for all, and for each test a gateway of its own before it, a desk and the agents' installation.

``make test-agents`` installs the agents, in the versions of ``package.json`` and ``requirements.txt``, into
``.agents``; the variable ``MGW_AGENTS`` names another folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.agents import Access
from tests.agents.running import Desk, desk
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess, start_simulator

ROOT = Path(__file__).resolve().parents[2]
KEY = "edge-canary-agents"


def three_families(url: str) -> str:
    """Return a gateway's configuration whose providers are all the simulator at ``url``.

    To a name that it does not know Claude Code sends what its newest models take; ``smart`` is one of them.
    Its own smaller models are aliases of other families' here, and so is the one that Gemini CLI asks which
    model to take.
    """
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases:
  fast: main/gpt-5.5
  smart: claude/claude-sonnet-5
  quick: gem/gemini-2.5-flash
  claude-haiku-5-5: gem/gemini-3-flash
  claude-sonnet-5-5: main/gpt-5
  gemini-3.5-flash-lite: claude/claude-haiku-4-5
edge_auth: {{enabled: true, keys: [{KEY}]}}
"""


@pytest.fixture(scope="session")
def installation() -> Path:
    """The folder with the agents' ``node_modules``."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = Path(os.environ.get("MGW_AGENTS", ROOT / ".agents"))
    if not (folder / "node_modules").is_dir():
        pytest.skip(f"no agents are installed in {folder}: `make test-agents` does it, and needs npm")
    return folder


@pytest.fixture(scope="session")
def shared_simulator() -> Iterator[SimulatorProcess]:
    """The upstream of all tests."""
    with start_simulator() as process:
        yield process


@pytest.fixture
def simulator(shared_simulator: SimulatorProcess) -> SimulatorProcess:
    """The upstream, with nothing to remember."""
    shared_simulator.clear()
    return shared_simulator


@pytest.fixture
def gateway(installation: Path, simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    """A gateway with edge auth, before the simulator as all three families."""
    with start_gateway(three_families(simulator.url)) as process:
        yield process


@pytest.fixture
def access(gateway: GatewayProcess) -> Access:
    """The way into the gateway."""
    return Access(gateway.url, KEY)


@pytest.fixture
def seat(tmp_path: Path) -> Desk:
    """A new home and a new folder to work in."""
    return desk(tmp_path)
