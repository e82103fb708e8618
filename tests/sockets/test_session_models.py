"""A realtime client that repeats its model in the session is understood, whatever the provider calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    config = f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: main}}
aliases: {{voice: main/gpt-realtime}}
"""
    with start_gateway(config) as process:
        yield process


def session_update(model: str) -> str:
    # the spaces would not survive a parser
    return f'{{"type":  "session.update", "session": {{"type": "realtime", "model":  "{model}"}} }}'


def exchange(connection: ClientConnection, message: str) -> dict[str, Any]:
    connection.send(message)
    answer: dict[str, Any] = json.loads(connection.recv(timeout=30))
    return answer


@pytest.mark.parametrize(
    ("asked", "repeated", "sent"),
    [
        ("voice", "voice", "gpt-realtime"),
        ("main/gpt-realtime", "main/gpt-realtime", "gpt-realtime"),
        ("voice", "gpt-realtime", "gpt-realtime"),
        ("voice", "main/gpt-realtime", "main/gpt-realtime"),
        ("gpt-realtime", "gpt-realtime", "gpt-realtime"),
        ("gpt-realtime", "voice", "voice"),
    ],
)
def test_a_session_update_names_the_providers_model_where_it_repeats_the_one_asked_for(
    simulator: SimulatorProcess, gateway: GatewayProcess, asked: str, repeated: str, sent: str
) -> None:
    url = gateway.url.replace("http:", "ws:") + f"/v1/realtime?model={asked}"
    with connect(url, additional_headers={"Authorization": "Bearer k"}) as connection:
        assert json.loads(connection.recv(timeout=30))["type"] == "session.created"
        exchange(connection, session_update(repeated))
        exchange(connection, '{"type": "input_audio_buffer.clear", "model": "voice"}')
    *_, request = simulator.requests()
    texts = [message.data.decode() for message in request.messages if message.kind == "text"]
    assert texts == [session_update(sent), '{"type": "input_audio_buffer.clear", "model": "voice"}']
