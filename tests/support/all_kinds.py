"""A gateway before providers of every kind, and how its tests find their own events again."""

from __future__ import annotations

import json
from itertools import count
from typing import Any, Final

import pytest

from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import CONVERSATIONS
from tests.support.waiting import WAIT_SECONDS

KEY: Final = "edge-canary-1"
TAG: Final = b"bWd3c2ln"
"""What the gateway marks other families' signatures with; no upstream ever sees it."""
MODELS: Final = (
    "main/gpt-5",
    "host/deep+sim-reasoning",
    "claude/claude-sonnet-4-5",
    "claude/claude-sonnet-5",
    "gem/gemini-2.5-flash",
    "gem/gemini-3-pro",
)
PAIRS: Final = tuple(
    pytest.param(conversation_class, model, id=f"{conversation_class.__name__} {model}")
    for conversation_class in CONVERSATIONS
    for model in MODELS
    if not model.startswith(conversation_class.own)
)
"""Each SDK with each model of another family."""
_numbers = count(1)


def all_kinds(url: str) -> str:
    """Return the configuration of a gateway with a provider of each kind, all of them the simulator."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  host: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-host}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
observe_dropped_fields: true
"""


def unlike(model: str) -> str:
    """Return a name of the model that was not used before: its events can be told from all others."""
    return f"{model}+sim-retry-after-{next(_numbers)}"


def event_of(gateway: GatewayProcess, model: str) -> dict[str, Any]:  # an event's fields
    """Return the only event of a model that was asked once."""
    wanted = json.dumps(model).encode()

    def found(data: bytes) -> list[dict[str, Any]]:
        lines = [line for line in data.splitlines(keepends=True) if wanted in line and line.endswith(b"\n")]
        events = [json.loads(line) for line in lines]
        return [event for event in events if event["model"] == model]

    (event,) = gateway.stdout.wait_for(found, WAIT_SECONDS, f"the event of {model}")
    return dict(event)
