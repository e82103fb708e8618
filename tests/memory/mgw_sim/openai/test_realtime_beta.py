"""The beta of OpenAI's realtime protocol: other names for the same events and settings."""

from typing import Any, Final

import pytest

from tests.memory.mgw_sim.websocket import REALTIME, WebSocketClient

RESPOND: Final = {"type": "response.create"}
HI: Final = {
    "type": "conversation.item.create",
    "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
}


def session() -> WebSocketClient:
    return WebSocketClient(REALTIME + "m", OpenAI_Beta="realtime=v1")


@pytest.mark.parametrize(
    "headers",
    [{"OpenAI_Beta": "realtime=v1"}, {"Sec_WebSocket_Protocol": "realtime, openai-beta.realtime-v1"}],
)
def test_a_session_shows_its_settings_beside_each_other(headers: dict[str, str]) -> None:
    created, conversation = WebSocketClient(REALTIME + "m", **headers).messages()
    assert created["session"]["modalities"] == ["audio", "text"]
    assert created["session"]["input_audio_format"] == "pcm16"
    assert created["session"]["turn_detection"]["type"] == "server_vad"
    assert "audio" not in created["session"]
    assert conversation["type"] == "conversation.created"


def test_what_is_changed_is_shown() -> None:
    client = session()
    client.messages()
    changes = {
        "modalities": ["text"],
        "voice": "ash",
        "input_audio_format": "g711_ulaw",
        "turn_detection": None,
        "temperature": 0.7,
        "max_response_output_tokens": 9,
    }
    [updated] = client.ask({"type": "session.update", "session": changes})
    shown = {**updated["session"], "temperature": 0.7}
    assert {name: shown[name] for name in changes} == changes


@pytest.mark.parametrize(("modalities", "word"), [(["text"], "text"), (["audio", "text"], "audio")])
def test_a_response_has_the_events_of_then(modalities: list[str], word: str) -> None:
    client = session()
    client.messages()
    wanted: dict[str, Any] = {**RESPOND, "response": {"modalities": modalities}}
    events = client.ask(HI, wanted)
    types = {event["type"] for event in events}
    assert {"conversation.item.created", f"response.{word}.delta", f"response.{word}.done"} <= types
    assert not any(
        "output_" in name for name in types - {"response.output_item.added", "response.output_item.done"}
    )
    assert not types & {"conversation.item.added", "conversation.item.done"}
    response = events[-1]["response"]
    assert response["modalities"] == modalities
    assert response["output"][0]["content"][0]["type"] == word
