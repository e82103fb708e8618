"""What tests over sockets talk to, one of each for a module: simulator, provider, gateway; and their clients.

A module whose gateway is configured in another way says so with the mark ``gateway_config``: its ``make``
returns the configuration for the simulator's address.  Where that is not enough, the module has a fixture of
that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as genai_types

from tests.support.certificates import Authority, authority
from tests.support.deployment import Deployment, start_deployment
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.raw_client import RawClient
from tests.support.raw_upstream import RawUpstream, start_upstream
from tests.support.simulator import SimulatorProcess, start_simulator


def three_families(url: str) -> str:
    """Return the providers of all three families, all of them the simulator, and edge auth."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai, models: [gpt-listed]}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
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
def upstream() -> Iterator[RawUpstream]:
    """A provider that does what a test's script says."""
    with start_upstream() as running:
        yield running


@pytest.fixture(scope="module")
def gateway_config(request: pytest.FixtureRequest, simulator: SimulatorProcess) -> str:
    """What the gateway is configured with: what the module's mark says, or :func:`three_families`."""
    mark = request.node.get_closest_marker("gateway_config")
    make: Callable[[str], str] = three_families if mark is None else mark.kwargs["make"]
    return make(simulator.url)


@pytest.fixture(scope="module")
def gateway(gateway_config: str) -> Iterator[GatewayProcess]:
    """A gateway."""
    with start_gateway(gateway_config) as process:
        yield process


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[RawClient]:
    """A connection to the gateway."""
    with RawClient(gateway.port) as connection:
        yield connection


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority of our own."""
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def deployment_config() -> str:
    """What stands in the configuration of the deployment's gateway beside its providers."""
    return ""


@pytest.fixture(scope="module")
def deployment(deployment_config: str) -> Iterator[Deployment]:
    """A simulator, a gateway with edge auth before it, and the SDKs before both."""
    with start_deployment(deployment_config) as started:
        yield started


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
