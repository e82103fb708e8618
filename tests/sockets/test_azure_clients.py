"""The Azure client of OpenAI's SDK, unmodified, at the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import openai
import pytest

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

VERSION: Final = "2024-10-21"


def azure_config(url: str) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  azure: {{kind: azure_openai, base_url: "{url}/v1"}}
  keyless: {{kind: openai, base_url: "{url}/v1"}}
defaults: {{openai_dialect: main}}
aliases: {{fast: main/gpt-fast}}
routes: {{azure: true}}
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


@pytest.fixture(params=["alone", "in the address"])
def deployed(gateway: GatewayProcess, request: pytest.FixtureRequest) -> Iterator[openai.AzureOpenAI]:
    """A client that writes the paths of deployments: that of each model, or of one for all requests."""
    with openai.AzureOpenAI(
        azure_endpoint=gateway.url,
        azure_deployment="fast" if request.param == "in the address" else None,
        api_version=VERSION,
        api_key="edge-canary-1",
        max_retries=0,
    ) as client:
        yield client


def test_a_deployment_answers(
    deployed: openai.AzureOpenAI, gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    simulator.clear()
    answer = deployed.chat.completions.create(model="fast", messages=messages)
    assert answer.choices[0].message.content == "You said: Hello"
    stream = deployed.chat.completions.create(model="fast", messages=messages, stream=True)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert said == "You said: Hello"
    assert len(deployed.embeddings.create(model="fast", input=["a", "b"]).data) == 2
    assert deployed.images.generate(model="fast", prompt="a cat").data
    spoken = deployed.audio.transcriptions.create(model="fast", file=("a.wav", b"RIFF", "audio/wav"))
    assert spoken.text
    assert deployed.responses.create(model="fast", input="Hello").output_text == "You said: Hello"
    assert "fast" in {model.id for model in deployed.models.list().data}
    targets = [seen.target for seen in simulator.requests()]
    paths = ["chat/completions", "chat/completions", "embeddings", "images/generations"]
    paths += ["audio/transcriptions", "responses"]
    assert targets == [f"/v1/{path}" for path in paths]


def test_the_v1_form_is_openais(gateway: GatewayProcess) -> None:
    with openai.OpenAI(
        base_url=f"{gateway.url}/openai/v1/",
        api_key="edge-canary-1",
        default_query={"api-version": "preview"},
        max_retries=0,
    ) as client:
        assert client.responses.create(model="fast", input="Hello").output_text == "You said: Hello"
        answer = client.chat.completions.create(model="fast", messages=[{"role": "user", "content": "Hello"}])
        assert answer.choices[0].message.content == "You said: Hello"


def test_a_model_that_is_not_there_is_openais_error(deployed: openai.AzureOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no such endpoint: /openai/deployments/"):
        deployed.post("/deployments/x/nothing", cast_to=object)
    with pytest.raises(openai.AuthenticationError):
        deployed.with_options(api_key="sk-of-nobody").models.list()
