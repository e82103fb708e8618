"""Google's interactions over a WebSocket in memory: what each event leads to."""

from typing import Any, Final

import pytest
from wsproto.events import CloseConnection, TextMessage

from tests.memory.mgw_sim.websocket import WebSocketClient

_PATH: Final = "/v1beta/interactions/live?key=k"


def session(**created: Any) -> WebSocketClient:
    client = WebSocketClient(_PATH)
    [first] = client.ask({"event_type": "interaction.create", "model": "m", **created})
    assert first["event_type"] == "interaction.created"
    assert first["interaction_id"].startswith("v1_")
    return client


def said(text: str) -> dict[str, Any]:
    return {"event_type": "input", "content": [{"type": "text", "text": text}]}


def ended(client: WebSocketClient, value: Any) -> tuple[str, int]:
    """The text of all events but the last, which is a close frame, and its code."""
    client.say(value)
    *events, close = client.events()
    assert isinstance(close, CloseConnection)
    return "".join(event.data for event in events if isinstance(event, TextMessage)), close.code


def test_an_input_is_a_step_with_its_usage() -> None:
    start, delta, stop = session().ask(said("hi"))
    assert (start["event_type"], start["step"]) == ("step.start", {"type": "model_output"})
    assert delta["delta"] == {"type": "text", "text": "You said: hi"}
    assert stop["usage"] == {"total_input_tokens": 1, "total_output_tokens": 3, "total_tokens": 4}


def test_several_events_may_come_in_one_message() -> None:
    client = WebSocketClient(_PATH)
    creation = {"event_type": "interaction.create", "interaction": {"model": "m"}}
    kinds = [one["event_type"] for one in client.ask({"events": [creation, said("a"), said("b")]})]
    assert kinds == ["interaction.created", *(["step.start", "step.delta", "step.stop"] * 2)]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("interaction.complete", "interaction.completed"),
        ("interaction.cancel", "interaction.cancelled"),
        ("interaction.disconnect", ""),
    ],
)
def test_an_interaction_ends_as_its_client_wants(asked: str, told: str) -> None:
    text, code = ended(session(), {"event_type": asked})
    assert code == 1000
    assert told in text


@pytest.mark.parametrize("kind", ["user_action", "world_setup"])
def test_what_a_world_is_told_has_no_answer(kind: str) -> None:
    assert session().ask({"event_type": kind}) == []


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (said("before all"), 1007),
        ({"event_type": "interaction.create"}, 1007),
        ({"event_type": "interaction.create", "model": "missing-m"}, 1008),
        ({"event_type": "interaction.create", "model": "m+sim-status-500"}, 1011),
        ({"event_type": "interaction.connect", "id": "v1_unknown"}, 1008),
        ({"event_type": "interaction.dance"}, 1007),
        ({"events": ["interaction.create"]}, 1007),
        ([], 1007),
    ],
)
def test_what_cannot_be_is_told_and_ends_the_session(first: Any, code: int) -> None:
    text, found = ended(WebSocketClient(_PATH), first)
    assert '"event_type":"error"' in text
    assert found == code


def test_an_interaction_is_created_once() -> None:
    _, code = ended(session(), {"event_type": "interaction.create", "model": "m"})
    assert code == 1007


def test_a_client_may_connect_to_an_interaction_of_any_name_where_it_asks_so() -> None:
    client = WebSocketClient(_PATH, x_sim_lenient="1")
    assert client.ask({"event_type": "interaction.connect", "id": "v1_x"}) == [
        {"event_type": "interaction.connected"}
    ]
