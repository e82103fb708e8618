"""A realtime client that repeats its model in the session is understood, whatever the provider calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
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


RESTRICTED = {
    "sorted keys": '{"session":{"instructions":"%s","model":"gpt-other"},"type":"session.update"}'
    % ("x" * 200),
    "blanks": " " * 200 + '{"type":"session.update","session":{"model":"gpt-other"}}',
    "an escaped type": '{"type":"session\\u002eupdate","session":{"model":"gpt-other"}}',
    "over 1 MiB": '{"type":"session.update","session":{"model":"gpt-other","x":"%s"}}' % ("y" * (1 << 20)),
    "NaN": '{"type":"session.update","session":{"model":"gpt-other","speed":NaN}}',
    "a response": '{"type":"response.create","response":{"model":"gpt-other"}}',
    "two cases": '{"type":"session.update","session":{"model":"voice","Model":"gpt-other"}}',
}


@pytest.fixture(scope="module")
def restricted(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    config = f"""
providers: {{main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: main}}
aliases: {{voice: main/gpt-realtime}}
edge_auth: {{enabled: true, keys: [{{name: some, key: edge-canary-1, models: [voice]}}]}}
"""
    with start_gateway(config) as process:
        yield process


def dialled(gateway: GatewayProcess, path: str) -> ClientConnection:
    url = gateway.url.replace("http:", "ws:") + path
    return connect(url, additional_headers={"Authorization": "Bearer edge-canary-1"}, max_size=None)


@pytest.mark.parametrize("is_binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("message", RESTRICTED.values(), ids=RESTRICTED)
def test_a_key_with_models_cannot_change_the_model_of_a_session(
    simulator: SimulatorProcess, restricted: GatewayProcess, message: str, is_binary: bool
) -> None:
    with dialled(restricted, "/v1/realtime?model=voice") as connection:
        connection.recv(timeout=30)
        connection.send(message.encode() if is_binary else message)
        with pytest.raises(ConnectionClosed) as caught:
            connection.recv(timeout=30)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1008
    *_, request = simulator.requests()
    assert b"gpt-other" not in b"".join(one.data for one in request.messages)


@pytest.mark.parametrize("message", RESTRICTED.values(), ids=RESTRICTED)
def test_a_key_with_models_gets_an_error_for_another_model_of_responses(
    simulator: SimulatorProcess, restricted: GatewayProcess, message: str
) -> None:
    with dialled(restricted, "/v1/responses") as connection:
        connection.send('{"type": "response.create", "model": "voice", "input": "hi"}')
        while json.loads(connection.recv(timeout=30))["type"] != "response.completed":
            pass
        answer = exchange(connection, message)
        assert (answer["type"], answer["status"]) in {("error", 400), ("error", 404)}
    *_, request = simulator.requests()
    texts = [one.data for one in request.messages if one.kind == "text"]
    assert texts == [b'{"type": "response.create", "model": "gpt-realtime", "input": "hi"}']
