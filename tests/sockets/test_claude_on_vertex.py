"""Claude on Vertex AI through the vendors' SDKs; the simulator keeps Google's rules, and records what came.

Anthropic's own SDK for Vertex AI is the second opinion: what the gateway sends is what that sends.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types as genai_types

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SeenRequest, SimulatorProcess

KEY: Final = "edge-canary-1"
TOKEN: Final = "vertex-canary-token"
MODEL: Final = "claude-sonnet-4-5@20250929"
HELLO: Final[list[Any]] = [{"role": "user", "content": "Hello"}]
TOOL: Final[Any] = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
PNG: Final = b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
).decode()
IMAGE: Final[Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}


@pytest.fixture(scope="module")
def gateway_config(simulator: SimulatorProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Claude by a token in a file."""
    file = tmp_path_factory.mktemp("tokens") / "token"
    file.write_text(TOKEN, encoding="utf-8")
    base = f"{simulator.url}/v1/projects/p/locations/global/publishers/anthropic"
    return f"""
providers:
  gcp:
    kind: vertex_anthropic
    base_url: {base}
    auth: token_file
    token_file: {file}
    models: [{MODEL}]
defaults: {{anthropic_dialect: gcp, openai_dialect: gcp, gemini_dialect: gcp}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
health_checks: {{enabled: true}}
observe_dropped_fields: true
translation: {{responses: {{enabled: true}}}}
"""


Client = Any
"""An ``Anthropic`` or an ``AnthropicVertex``, which have no type in common."""


def claude(gateway: GatewayProcess) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=gateway.url, api_key=KEY, max_retries=0)


def openais(gateway: GatewayProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0)


def googles(gateway: GatewayProcess) -> genai.Client:
    return genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=gateway.url))


def streamed(client: Client, model: str = MODEL, **more: Any) -> str:
    with client.messages.stream(model=model, max_tokens=99, **{"messages": HELLO, **more}) as stream:
        return "".join(stream.text_stream)


def whole(client: Client, model: str = MODEL) -> str:
    text: str = created(model=model)(client).content[0].text
    return text


# The second opinion


def created(**more: Any) -> Callable[[Client], Any]:
    asked: dict[str, Any] = {"model": MODEL, "max_tokens": 99, "messages": HELLO, **more}
    return lambda client: client.messages.create(**asked)


CONVERSATIONS: Final[dict[str, Callable[[Client], Any]]] = {
    "a chat": created(system="S", stop_sequences=["x"], metadata={"user_id": "u"}),
    "a chat with the newest snapshot": created(model="claude-opus-5@default"),
    "a stream": streamed,
    "tools": created(
        tools=[TOOL],
        tool_choice={"type": "any"},
        messages=[{"role": "user", "content": 'use tool f with {"a": "é"}'}],
    ),
    "a loop of tools": created(
        tools=[TOOL],
        messages=[
            *HELLO,
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t_1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t_1", "content": "r"}]},
        ],
    ),
    "thinking": created(max_tokens=4000, thinking={"type": "enabled", "budget_tokens": 1024}),
    "an image": created(messages=[{"role": "user", "content": [IMAGE, {"type": "text", "text": "x"}]}]),
    "a count": lambda client: client.messages.count_tokens(model=MODEL, messages=HELLO, system="S"),
    "betas": lambda client: client.beta.messages.create(
        model=MODEL, max_tokens=99, messages=HELLO, betas=["context-1", "two"]
    ),
    "a count with betas": lambda client: client.beta.messages.count_tokens(
        model=MODEL, messages=HELLO, betas=["context-1"]
    ),
}
COMPARED: Final = ("anthropic-beta", "anthropic-version", "authorization", "content-type", "x-api-key")


def shape(request: SeenRequest) -> Any:
    headers = {name.lower(): value for name, value in request.headers}
    return (
        request.method,
        request.target,
        json.loads(bytes(request.body)),
        {name: headers.get(name) for name in COMPARED},
        request.status,
    )


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_what_the_gateway_sends_is_what_anthropics_sdk_for_vertex_sends(
    simulator: SimulatorProcess, gateway: GatewayProcess, name: str
) -> None:
    simulator.clear()
    vertex = anthropic.AnthropicVertex(
        region="global",
        project_id="p",
        access_token=TOKEN,
        base_url=f"{simulator.url}/v1",
        max_retries=0,
    )
    CONVERSATIONS[name](vertex)
    CONVERSATIONS[name](claude(gateway))
    directly, through = map(shape, simulator.requests())
    assert through == directly
    assert directly[-1] == 200


# Anthropic's clients


def test_answers_of_anthropics_sdk(gateway: GatewayProcess) -> None:
    message = created()(claude(gateway))
    assert (message.content[0].text, message._request_id is None) == ("You said: Hello", False)
    assert streamed(claude(gateway)) == "You said: Hello"
    called = CONVERSATIONS["tools"](claude(gateway)).content[-1]
    assert (called.name, called.input) == ("f", {"a": "é"})
    thought = CONVERSATIONS["thinking"](claude(gateway)).content[0]
    assert (thought.type, bool(thought.signature)) == ("thinking", True)
    assert claude(gateway).messages.count_tokens(model=MODEL, messages=HELLO).input_tokens == 1


def test_a_count_for_the_newest_snapshot(gateway: GatewayProcess) -> None:
    for model in ("claude-opus-5@default", "claude-opus-5@latest"):
        assert claude(gateway).messages.count_tokens(model=model, messages=HELLO).input_tokens == 1


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("missing", anthropic.NotFoundError),
        ("m+sim-status-403", anthropic.PermissionDeniedError),
        ("m+sim-status-429", anthropic.RateLimitError),
        ("m+sim-status-413", anthropic.RequestTooLargeError),
        ("m+sim-status-503", anthropic.OverloadedError),
        ("m+sim-status-400", anthropic.BadRequestError),
        ("a:b", anthropic.BadRequestError),
        ("gemini-2.5-pro", anthropic.BadRequestError),
    ],
)
@pytest.mark.parametrize("ask", [whole, streamed])
def test_errors_of_anthropics_sdk(gateway: GatewayProcess, model: str, error: Any, ask: Any) -> None:
    with pytest.raises(error) as caught:
        ask(claude(gateway), model)
    body = caught.value.response.json()
    assert (body["type"], "status" in body["error"]) == ("error", False)


def test_a_beta_that_is_refused_is_left_out(simulator: SimulatorProcess, gateway: GatewayProcess) -> None:
    simulator.clear()
    message = claude(gateway).beta.messages.create(
        model="claude-opus-5", max_tokens=99, messages=HELLO, betas=["refused-one", "two"]
    )
    assert message.content[0].type == "text"
    sent = [dict(request.headers)["anthropic-beta"] for request in simulator.requests()]
    assert sent == ["refused-one,two", "two"]
    line = gateway.stdout.wait_for(re.compile(rb".*refused-one.*").search, 10, "the event")
    event = json.loads(line[0])
    assert (event["attempts"], event["dropped_fields"]) == (2, ["anthropic-beta[refused-one]"])


# Clients of the other families


def test_a_conversation_of_openais_sdk(gateway: GatewayProcess) -> None:
    client = openais(gateway)
    answer = client.chat.completions.create(model=MODEL, messages=HELLO)
    assert answer.choices[0].message.content == "You said: Hello"
    chunks = client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(words) == "You said: Hello"
    assert client.responses.create(model=MODEL, input="Hello").output_text == "You said: Hello"
    tools: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": TOOL["input_schema"]}}]
    asked: list[Any] = [{"role": "user", "content": 'use tool f with {"a": "b"}'}]
    called = client.chat.completions.create(model=MODEL, messages=asked, tools=tools)
    assert called.choices[0].finish_reason == "tool_calls"
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    shown: list[Any] = [{"role": "user", "content": [image, {"type": "text", "text": "x"}]}]
    assert client.chat.completions.create(model=MODEL, messages=shown).choices
    fetched: list[Any] = [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        }
    ]
    with pytest.raises(openai.BadRequestError, match="does not fetch URLs"):
        client.chat.completions.create(model=MODEL, messages=fetched)
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(model="m+sim-status-429", messages=HELLO)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="missing", messages=HELLO, stream=True)


def test_a_conversation_of_googles_sdk(gateway: GatewayProcess) -> None:
    client = googles(gateway)
    models = client.models
    assert models.generate_content(model=MODEL, contents="Hello").text == "You said: Hello"
    chunks = models.generate_content_stream(model=MODEL, contents="Hello")
    assert "".join(chunk.text or "" for chunk in chunks) == "You said: Hello"
    assert models.count_tokens(model=MODEL, contents="Hello").total_tokens == 1
    with pytest.raises(genai.errors.ClientError, match="RESOURCE_EXHAUSTED"):
        models.generate_content(model="m+sim-status-429", contents="Hello")


# The operator


def test_health_counts_tokens_and_live_lists_ask_nobody(
    simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    key = {"Authorization": f"Bearer {KEY}"}
    simulator.clear()
    listed = httpx2.get(f"{gateway.url}/v1/models?live=1", headers=key).json()
    assert f"gcp/{MODEL}" in {model["id"] for model in listed["data"]}
    assert simulator.requests() == []
    health = httpx2.get(f"{gateway.url}/v1/health/providers", headers=key).json()
    assert health["status"] == "ok"
    [asked] = simulator.requests()
    assert asked.target.endswith("/publishers/anthropic/models/count-tokens:rawPredict")


def test_what_vertex_does_not_have_is_refused(gateway: GatewayProcess) -> None:
    with pytest.raises(anthropic.BadRequestError, match="messages and token counts only"):
        claude(gateway).messages.batches.list()
