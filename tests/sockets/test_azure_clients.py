"""The Azure client of OpenAI's SDK, unmodified, at the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import openai
import pytest

from tests.support.gateway import GatewayProcess

VERSION: Final = "2024-10-21"


def azure_config(url: str) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  azure: {{kind: azure_openai, base_url: "{url}/v1"}}
  keyless: {{kind: openai, base_url: "{url}/v1"}}
defaults: {{openai_dialect: main}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
"""


pytestmark = pytest.mark.gateway_config(make=azure_config)


def client_of(gateway: GatewayProcess, **headers: str) -> openai.AzureOpenAI:
    return openai.AzureOpenAI(
        base_url=f"{gateway.url}/v1",
        api_version=VERSION,
        api_key="edge-canary-1",
        default_headers=headers,
        max_retries=0,
    )


@pytest.fixture
def azure(gateway: GatewayProcess) -> Iterator[openai.AzureOpenAI]:
    with client_of(gateway) as client:
        yield client


def test_its_key_header_opens_the_gate(azure: openai.AzureOpenAI) -> None:
    assert azure.responses.create(model="gpt-1", input="Hello").output_text == "You said: Hello"
    with azure.responses.stream(model="gpt-1", input="Hello") as stream:
        assert stream.get_final_response().output_text == "You said: Hello"
    with pytest.raises(openai.AuthenticationError):
        azure.with_options(api_key="sk-of-nobody").responses.create(model="gpt-1", input="Hello")


def test_a_key_of_its_own_goes_to_azure_and_to_nobody_else(gateway: GatewayProcess) -> None:
    with client_of(gateway, Authorization="Bearer edge-canary-1") as client:
        own = client.with_options(api_key="azure-canary-9")
        assert own.responses.create(model="azure/gpt-1", input="Hello").output_text == "You said: Hello"
        with pytest.raises(openai.AuthenticationError, match="no key configured"):
            own.responses.create(model="keyless/gpt-1", input="Hello")
