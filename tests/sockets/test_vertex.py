"""Gemini on Vertex AI takes translated tool loops and counts; the simulator keeps Vertex's rules."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from anthropic import Anthropic

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

KEY = "edge-canary-1"
TOOL: Any = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
LOOP: list[Any] = [
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}]},
]


def vertex(url: str) -> str:
    base = f"{url}/v1/projects/p1/locations/us-central1/publishers/google"
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  vertex: {{kind: gemini, base_url: "{base}", auth: bearer, api_key: canary-token}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
"""


pytestmark = pytest.mark.gateway_config(make=vertex)
each_model = pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])


@each_model
def test_a_tool_loop_of_claudes_sdk_is_taken(
    simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    client = Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)
    answer = client.messages.create(model=f"vertex/{model}", max_tokens=99, tools=[TOOL], messages=LOOP)
    assert answer.content[0].type == "text"
    sent = simulator.requests()[-1]
    assert "/publishers/google/models/" in sent.target
    assert (b'"id"' in bytes(sent.body)) is model.startswith("gemini-3")


@each_model
def test_a_tool_loop_of_openais_sdk_is_taken(gateway: GatewayProcess, model: str) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "r"},
    ]
    tools: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": TOOL["input_schema"]}}]
    answer = client.chat.completions.create(model=f"vertex/{model}", messages=messages, tools=tools)
    assert answer.choices[0].message.content


def test_tokens_are_counted_with_instructions_and_tools(gateway: GatewayProcess) -> None:
    client = Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)
    counted = client.messages.count_tokens(
        model="vertex/gemini-2.5-flash", system="S", tools=[TOOL], messages=LOOP
    )
    assert counted.input_tokens > 0
