"""Gemini on Vertex AI takes translated tool loops and counts; the simulator keeps Vertex's rules."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx2
import openai
import pytest
from anthropic import Anthropic
from google import genai
from google.genai import types as genai_types

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
  vertex:
    kind: gemini
    base_url: {base}
    auth: bearer
    api_key: canary-token
    models: [gemini-2.5-flash]
defaults: {{openai_dialect: main, gemini_dialect: vertex}}
health_checks: {{enabled: true}}
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


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2", "text-embedding-005"])
@pytest.mark.parametrize("texts", [["one two"], ["one two", "three"]])
def test_texts_are_embedded_for_openais_sdk(gateway: GatewayProcess, model: str, texts: list[str]) -> None:
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)
    found = client.embeddings.create(
        model=f"vertex/{model}", input=texts, dimensions=7, encoding_format="float"
    )
    assert [len(one.embedding) for one in found.data] == [7] * len(texts)
    assert found.usage.prompt_tokens == sum(len(text.split()) for text in texts)


def test_what_vertex_does_not_have_is_refused_in_googles_shape_and_not_sent(
    simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    simulator.clear()
    client = genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=gateway.url))
    video = genai_types.GenerateVideosOperation()
    video.name = "models/m/operations/x"
    for ask in (
        client.files.list,
        lambda: client.files.upload(file=io.BytesIO(b"x"), config={"mime_type": "text/plain"}),
        client.caches.list,
        client.batches.list,
        lambda: client.tunings.get(name="tunedModels/x"),
        client.file_search_stores.list,
        lambda: client.operations.get(video),
    ):
        with pytest.raises(
            genai.errors.ClientError, match="Vertex AI serves the methods of models only"
        ) as caught:
            ask()
        assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")
    assert simulator.requests() == []


def test_googles_own_fields_for_vertex_go_on(simulator: SimulatorProcess, gateway: GatewayProcess) -> None:
    simulator.clear()
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "labels": {"team": "a"},
        "safetySettings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE", "method": "SEVERITY"}
        ],
    }
    url = f"{gateway.url}/v1beta/models/vertex/gemini-2.5-flash:generateContent"
    httpx2.post(url, json=body, headers={"x-goog-api-key": KEY})
    [sent] = simulator.requests()
    assert json.loads(bytes(sent.body)) == body


def test_health_counts_tokens_and_live_lists_ask_nobody(
    simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    key = {"Authorization": f"Bearer {KEY}"}
    simulator.clear()
    listed = httpx2.get(f"{gateway.url}/v1/models?live=1", headers=key).json()
    assert "vertex/gemini-2.5-flash" in {model["id"] for model in listed["data"]}
    assert httpx2.get(f"{gateway.url}/v1/health/providers", headers=key).json()["status"] == "ok"
    assert [request.target.rpartition("/")[2] for request in simulator.requests()] == [
        "models",
        "models",
        "gemini-2.5-flash:countTokens",
    ]
