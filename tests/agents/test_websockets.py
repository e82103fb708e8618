"""Codex, as its maker publishes it, holds its tool loop over one WebSocket, or over HTTP where there is none.

Codex opens the connection ahead of its first turn, and begins with a request that generates nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.agents import CODEX_OVER_WEBSOCKETS, Access
from tests.agents.conftest import KEY, three_families
from tests.agents.running import Desk
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.simulator import SimulatorProcess

NOTE = "the tangerine is in drawer 41"


@pytest.fixture
def note(seat: Desk) -> Path:
    """A file that an agent can read."""
    file = seat.work / "note.txt"
    file.write_text(f"{NOTE}\n")
    return file


@pytest.mark.parametrize(
    ("model", "sent"), [("gpt-5", "gpt-5"), ("main/gpt-5.5", "gpt-5.5"), ("fast", "gpt-5.5")]
)
def test_codex_holds_its_tool_loop_over_one_websocket(
    installation: Path,
    seat: Desk,
    note: Path,
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    access: Access,
    model: str,
    sent: str,
) -> None:
    prompt = CODEX_OVER_WEBSOCKETS.please_read(note, tools=2)
    finished = CODEX_OVER_WEBSOCKETS.ask(installation, seat, access, model, prompt)
    assert finished.status == 0, finished
    assert CODEX_OVER_WEBSOCKETS.answer(finished.stdout).count(NOTE) == 2, finished
    (request,) = simulator.requests()
    assert (request.method, request.target, request.status) == ("GET", "/v1/responses", 101)
    assert (request.value("openai-beta") or "").startswith("responses_websockets=")
    assert request.value("x-codex-turn-metadata") is not None
    (event,) = gateway.events()
    assert (event["status"], event["transport"], event["upstream_model"]) == (
        "client_abort",
        "websocket",
        sent,
    )
    asked = [message for message in request.messages if message.kind == "text"]
    assert event["frames_in"] == len(asked) == 3
    assert all(f'"model":"{sent}"'.encode() in message.data[:100] for message in asked)


def test_codex_falls_back_to_http_where_realtime_is_off(
    installation: Path, seat: Desk, note: Path, simulator: SimulatorProcess
) -> None:
    key = "api_key: sk-canary-openai"
    config = three_families(simulator.url).replace(key, f"{key}, capabilities: {{realtime: false}}")
    with start_gateway(config) as gateway:
        prompt = CODEX_OVER_WEBSOCKETS.please_read(note)
        finished = CODEX_OVER_WEBSOCKETS.ask(installation, seat, Access(gateway.url, KEY), "fast", prompt)
        assert finished.status == 0, finished
        assert NOTE in CODEX_OVER_WEBSOCKETS.answer(finished.stdout), finished
        upgrade, *others = gateway.events(3)
    assert (upgrade["route"], upgrade["http_status"]) == ("responses_upgrade", 426)
    assert [(event["transport"], event["status"]) for event in others] == [("http", "ok")] * 2
    seen = simulator.requests()
    assert [(request.method, request.status) for request in seen] == [("POST", 200)] * 2
    assert "previous_response_id" not in json.loads(seen[-1].body)
