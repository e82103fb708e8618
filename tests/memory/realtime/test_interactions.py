"""Sessions of Gemini's interactions: what begins one names a model, or an interaction that has one."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import SessionHarness, closing, spoken
from tests.support.raw_sessions import frame

INTERACTIONS: Final = "/v1beta/interactions/live"
CONFIG: Final = f"{THREE_FAMILIES}  quick: gem/gemini-4-neon\n"
LIMITED: Final = f"""{CONFIG}
edge_auth:
  enabled: true
  keys:
    - {{name: alice, key: edge, models: ["quick"]}}
"""
CONNECT: Final[dict[str, Any]] = {"event_type": "interaction.connect", "id": "v1_abc"}
INPUT: Final[dict[str, Any]] = {"event_type": "input", "content": [{"type": "text", "text": "the model"}]}


def creation(model: str, **more: Any) -> dict[str, Any]:
    return {"event_type": "interaction.create", "model": model, **more}


def said(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def begun(first: Any, text: str = CONFIG, path: str = INTERACTIONS) -> SessionHarness:
    """Return a session whose first message has been sent."""
    harness = SessionHarness(path, text)
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")
    harness.channel.dataReceived(frame(0x81, said(first)))
    return harness


def opened(first: Any, text: str = CONFIG, path: str = INTERACTIONS) -> SessionHarness:
    """Return a session whose first message has gone on."""
    harness = begun(first, text, path)
    harness.switch()
    return harness


def sent(harness: SessionHarness) -> list[Any]:
    return [json.loads(one.payload) for one in harness.provider_frames()]


def test_an_interaction_that_is_there_needs_no_model() -> None:
    harness = opened(CONNECT)
    assert harness.provider.received.startswith(b"GET /v1beta/interactions/live HTTP/1.1\r\n")
    assert b"x-goog-api-key: AIza-0004\r\n" in harness.provider.received
    assert sent(harness) == [CONNECT]
    harness.channel.dataReceived(frame(0x81, said(INPUT)))
    assert sent(harness) == [INPUT]


@pytest.mark.parametrize(
    "first",
    [b"not JSON", b'{"event_type":"interaction.connect"', said([CONNECT])],
    ids=["text", "cut", "array"],
)
def test_what_names_no_model_is_the_providers_to_judge(first: bytes) -> None:
    harness = opened(first)
    assert [one.payload for one in harness.provider_frames()] == [first]


@pytest.mark.parametrize("model", ["quick", "gem/gemini-4-neon", "gemini-4-neon"])
def test_the_model_of_a_new_interaction_gets_the_providers_name(model: str) -> None:
    harness = opened(creation(model, store=False))
    assert sent(harness) == [creation("gemini-4-neon", store=False)]


def test_a_model_may_stand_in_a_batch_of_events_or_in_an_interaction() -> None:
    harness = opened({"events": [creation("quick"), INPUT]})
    assert sent(harness) == [{"events": [creation("gemini-4-neon"), INPUT]}]
    harness = opened({"event_type": "interaction.create", "interaction": {"model": "quick"}})
    assert sent(harness) == [{"event_type": "interaction.create", "interaction": {"model": "gemini-4-neon"}}]


def test_a_later_message_that_names_a_model_has_it_replaced() -> None:
    harness = opened(CONNECT)
    harness.provider_frames()
    harness.channel.dataReceived(frame(0x81, said({"events": [INPUT, creation("quick")]})))
    assert sent(harness) == [{"events": [INPUT, creation("gemini-4-neon")]}]


def test_a_model_of_another_family_is_refused_when_it_comes_first() -> None:
    harness = begun(creation("claude/claude-x"))
    [closed] = harness.client_frames()
    assert closed.code == 1008
    assert not harness.pipeline.endpoint.connections


def test_a_model_of_another_provider_ends_the_session_when_it_comes_later() -> None:
    harness = opened(CONNECT)
    harness.provider_frames()
    harness.channel.dataReceived(frame(0x81, said(creation("claude/claude-x"))))
    [closed] = harness.client_frames()
    assert closed.code == 1008
    assert [one.code for one in harness.provider_frames()] == [1008]


def test_a_key_with_models_creates_no_interaction_with_another() -> None:
    path = f"{INTERACTIONS}?key=edge"
    [closed] = begun(creation("gem/gemini-3.8-flash"), LIMITED, path).client_frames()
    assert closed.code == 1008
    harness = opened(CONNECT, LIMITED, path)
    harness.provider_frames()
    harness.channel.dataReceived(frame(0x81, said({"events": [INPUT, creation("gemini-3.8-flash")]})))
    [closed] = harness.client_frames()
    assert closed.code == 1008
    harness = opened(creation("quick"), LIMITED, path)
    assert sent(harness) == [creation("gemini-4-neon")]


def test_the_last_count_of_an_interaction_is_the_sessions() -> None:
    harness = opened(creation("quick"))
    for kind, tokens in (("step.stop", 4), ("interaction.completed", 9)):
        usage = {"total_input_tokens": tokens, "total_output_tokens": 2 * tokens, "total_thought_tokens": 1}
        harness.provider.send(spoken(said({"event_type": kind, "usage": usage})))
    harness.channel.dataReceived(frame(0x88, b"\x03\xe8"))
    harness.provider.send(closing(1000))
    harness.turn()
    event = harness.event
    assert (event.tokens_in, event.tokens_out, event.reasoning_tokens) == (9, 19, 1)
    assert (event.route, event.dialect, event.status) == ("gemini_interactions_live", "gemini", "ok")
