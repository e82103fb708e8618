"""Hosts with strict chat templates take what coding agents send, and agents learn of too long prompts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final

import pytest

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

KEY: Final = "edge-canary-1"
STRICT: Final = "qwen3.6-27b+sim-template-strict"
NINE: Final = "mistral-small+sim-template-strict"
LATE: Final = "agents: none"
TEXT: Final = {"type": "string"}


def hosts(url: str) -> str:
    """Return the configuration of a gateway before two hosts of open models, and each vendor."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  host: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-host, speaks: [chat]}}
  open: {{kind: openai_compat, base_url: "{url}/v1", api_key: any, speaks: [chat], chat_template: open}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
translation: {{responses: {{enabled: true}}}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
"""


pytestmark = pytest.mark.gateway_config(make=hosts)


def post(gateway: GatewayProcess, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    headers |= {"anthropic-version": "2023-06-01"} if path == "/v1/messages" else {}
    request = urllib.request.Request(f"{gateway.url}{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def claude_code(model: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """A turn of Claude Code's: a system message behind the first one, and one behind a result."""
    return "/v1/messages", {
        "model": model,
        "max_tokens": 99,
        "system": "S",
        "stream": stream,
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"a": TEXT}}}],
        "messages": [
            {"role": "user", "content": "u1"},
            {"role": "system", "content": LATE},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}]},
            {"role": "system", "content": LATE},
        ],
    }


def codex(model: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """A turn of Codex': developer messages in the conversation, two user messages in a row."""
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    return "/v1/responses", {
        "model": model,
        "instructions": "S",
        "stream": stream,
        "store": False,
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}],
        "input": [
            {"role": "developer", "content": "D"},
            {"role": "user", "content": "environment"},
            {"role": "user", "content": "u1"},
            {"role": "developer", "content": LATE},
            call,
            {"type": "function_call_output", "call_id": "call_1", "output": "r"},
            {"role": "developer", "content": LATE},
            {"role": "user", "content": "u2"},
        ],
    }


def gemini_cli(model: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """A turn of the Gemini CLI's: neighbours of one role."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", {
        "systemInstruction": {"parts": [{"text": "S"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "context"}]},
            {"role": "user", "parts": [{"text": LATE}]},
            {"role": "model", "parts": [{"text": "a"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "r"}}}]},
            {"role": "user", "parts": [{"text": "u2"}]},
        ],
    }


each_agent = pytest.mark.parametrize("agent", [claude_code, codex, gemini_cli])
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@each_agent
@whole_and_streamed
@pytest.mark.parametrize("model", [STRICT, NINE])
def test_a_strict_template_takes_what_agents_send(
    simulator: SimulatorProcess, gateway: GatewayProcess, agent: Any, stream: bool, model: str
) -> None:
    status, answer = post(gateway, *agent(f"host/{model}", stream=stream))
    assert status == 200, answer
    sent = simulator.requests()[-1].json()["messages"]
    assert sent[0] == {"role": "system", "content": "S\n\nD" if agent is codex else "S"}
    assert LATE in json.dumps(sent[1:])


@pytest.mark.parametrize("agent", [claude_code, codex])
def test_a_host_that_is_said_to_be_open_gets_later_instructions_in_their_place(
    simulator: SimulatorProcess, gateway: GatewayProcess, agent: Any
) -> None:
    assert post(gateway, *agent("open/qwen3.6-27b", stream=False))[0] == 200
    roles = [message["role"] for message in simulator.requests()[-1].json()["messages"]]
    assert roles.count("system") > 1
    status, answer = post(gateway, *agent(f"open/{STRICT}", stream=False))
    assert (status, b"System message must be at the beginning." in answer) == (400, True)


TOLD: Final = {
    claude_code: (b'"type":"invalid_request_error"', b"prompt is too long: 9000 tokens > 8192 maximum"),
    codex: (b'"code":"context_length_exceeded"', b'"type":"invalid_request_error"'),
    gemini_cli: (
        b'"status":"INVALID_ARGUMENT"',
        b"The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
    ),
}


OTHER_FAMILIES: Final = [
    (agent, provider)
    for agent, own in ((claude_code, "claude"), (codex, "main"), (gemini_cli, "gem"))
    for provider in ("host/m", "main/gpt-4.1", "claude/claude-sonnet-5", "gem/gemini-3-pro")
    if not provider.startswith(own)
]


@whole_and_streamed
@pytest.mark.parametrize(("agent", "provider"), OTHER_FAMILIES)
def test_each_agent_reads_its_own_vendors_words_for_a_prompt_that_is_too_long(
    gateway: GatewayProcess, agent: Any, stream: bool, provider: str
) -> None:
    status, answer = post(gateway, *agent(f"{provider}+sim-too-long", stream=stream))
    assert status == 400
    for words in TOLD[agent]:
        assert words in answer.replace(b'": ', b'":')
