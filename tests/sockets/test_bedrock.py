"""Claude on Bedrock through Anthropic's own SDK and OpenAI's; the simulator keeps Amazon's rules."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import anthropic
import httpx2
import openai
import pytest

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

KEY: Final = "edge-canary-1"
MODEL: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
HELLO: Final[list[Any]] = [{"role": "user", "content": "Hello"}]


def bedrock(url: str) -> str:
    return f"""
providers:
  aws: {{kind: bedrock, base_url: "{url}", api_key: canary-bedrock-key}}
defaults: {{anthropic_dialect: aws, openai_dialect: aws}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
health_checks: {{enabled: true}}
observe_dropped_fields: true
"""


pytestmark = pytest.mark.gateway_config(make=bedrock)


def claude(gateway: GatewayProcess) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)


def streamed(gateway: GatewayProcess, model: str = MODEL) -> str:
    with claude(gateway).messages.stream(model=model, max_tokens=99, messages=HELLO) as stream:
        return "".join(stream.text_stream)


def test_a_message_and_a_stream_of_anthropics_sdk(gateway: GatewayProcess) -> None:
    message = claude(gateway).messages.create(model=MODEL, max_tokens=99, messages=HELLO)
    [block] = message.content
    assert (block.type, message._request_id is None) == ("text", False)
    assert streamed(gateway) == streamed(gateway, f"{MODEL}+sim-pad") == "You said: Hello"


def test_a_message_and_a_stream_of_openais_sdk(gateway: GatewayProcess) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    answer = client.chat.completions.create(model=MODEL, messages=HELLO)
    assert answer.choices[0].message.content == "You said: Hello"
    chunks = client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(words) == "You said: Hello"


def test_tokens_are_counted_or_estimated(gateway: GatewayProcess) -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    for model, estimated in ((MODEL, None), (arn, "true")):
        found = claude(gateway).messages.with_raw_response.count_tokens(model=model, messages=HELLO)
        assert found.parse().input_tokens > 0
        assert found.headers.get("x-gateway-estimated") == estimated


def test_a_beta_that_is_refused_is_left_out(simulator: SimulatorProcess, gateway: GatewayProcess) -> None:
    simulator.clear()
    message = claude(gateway).beta.messages.create(
        model="anthropic.claude-opus-5", max_tokens=99, messages=HELLO, betas=["refused-one", "two"]
    )
    assert message.content[0].type == "text"
    sent = [json.loads(bytes(request.body)).get("anthropic_beta") for request in simulator.requests()]
    assert sent == [["refused-one", "two"], ["two"]]
    line = gateway.stdout.wait_for(re.compile(rb".*refused-one.*").search, 10, "the event")
    event = json.loads(line[0])
    assert (event["attempts"], event["dropped_fields"]) == (2, ["anthropic-beta[refused-one]"])


def test_what_fails_in_frames_is_said_as_anthropic_does(gateway: GatewayProcess) -> None:
    with pytest.raises(anthropic.RateLimitError):
        streamed(gateway, f"{MODEL}+sim-exception-throttlingException-0")
    for word in ("sim-exception-modelStreamErrorException-2", "sim-frame-crc", "sim-frame-cut-2"):
        with pytest.raises(anthropic.APIStatusError) as caught:
            streamed(gateway, f"{MODEL}+{word}")
        assert caught.value.type == "api_error"


def test_health_and_live_lists_ask_the_control_plane(gateway: GatewayProcess) -> None:
    key = {"Authorization": f"Bearer {KEY}"}
    health = httpx2.get(f"{gateway.url}/v1/health/providers", headers=key).json()
    assert health["status"] == "ok"
    listed = httpx2.get(f"{gateway.url}/v1/models?live=1", headers=key).json()
    assert f"aws/{MODEL}" in {model["id"] for model in listed["data"]}
