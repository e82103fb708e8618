"""The requests of agents: as large as they are called, and whole chats."""

from __future__ import annotations

import json

import pytest

from bench.bodies import agent_request


@pytest.mark.parametrize("kib", [64, 200, 900, 2048])
def test_a_request_is_exactly_as_large_as_it_is_called(kib: int) -> None:
    assert len(agent_request("up/bench-1k", kib * 1024)) == kib * 1024


def test_a_request_is_a_chat_of_calls_and_results() -> None:
    asked = json.loads(agent_request("up/bench-1k", 200 * 1024))
    assert asked["model"] == "up/bench-1k"
    assert len(asked["tools"]) == 20
    roles = [message["role"] for message in asked["messages"]]
    assert (roles[0], roles[-1]) == ("system", "user")
    assert roles[1:-1] == ["assistant", "tool"] * (len(roles[1:-1]) // 2)
    calls = [one["tool_calls"][0]["id"] for one in asked["messages"] if "tool_calls" in one]
    assert calls == [one["tool_call_id"] for one in asked["messages"] if one["role"] == "tool"]


def test_a_size_without_room_for_a_turn_is_refused() -> None:
    with pytest.raises(ValueError, match="no room for a turn"):
        agent_request("m", 1024)
