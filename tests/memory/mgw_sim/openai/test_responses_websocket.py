"""Responses over one WebSocket, in memory: what each message leads to."""

from typing import Any, Final

import pytest

from tests.memory.mgw_sim.client import post_stream
from tests.memory.mgw_sim.websocket import WebSocketClient

TARGET: Final = "/v1/responses"
TOOLS: Final = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


def create(text: Any, model: str = "m", **more: Any) -> dict[str, Any]:
    return {"type": "response.create", "model": model, "input": text, **more}


def text_of(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def test_the_events_are_those_of_the_stream() -> None:
    client = WebSocketClient(TARGET)
    events = client.ask(create("hello there"))
    streamed = post_stream(TARGET, {"model": "m", "input": "hello there", "stream": True})
    assert [event["type"] for event in events] == [event["type"] for event in streamed]
    assert [event["sequence_number"] for event in events] == [event["sequence_number"] for event in streamed]
    assert events[-1]["response"]["usage"] == streamed[-1]["response"]["usage"]


@pytest.mark.parametrize("store", [True, False])
def test_a_response_goes_on_from_another(store: bool) -> None:
    client = WebSocketClient(TARGET)
    asked = create("use tool look", tools=TOOLS, store=store, reasoning={"effort": "low"})
    first = client.ask(asked)[-1]["response"]
    thought, call = first["output"]
    assert "encrypted_content" not in thought  # the connection knows it all the same
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "a tree"}
    second = client.ask(create([output], tools=TOOLS, previous_response_id=first["id"]))
    assert text_of(second) == "Tool look returned: a tree"
    assert second[-1]["response"]["id"] != first["id"]
    assert second[-1]["response"]["previous_response_id"] == first["id"]


def test_a_response_that_is_not_generated_prepares_another() -> None:
    client = WebSocketClient(TARGET)
    begun, *_, completed = client.ask(create("hello", generate=False))
    assert (begun["type"], completed["type"]) == ("response.created", "response.completed")
    assert completed["response"]["output"] == []
    assert completed["response"]["usage"]["output_tokens"] == 0
    name = completed["response"]["id"]
    second = client.ask({"type": "response.create", "model": "m", "previous_response_id": name})
    assert text_of(second) == "You said: hello"


def test_a_lane_stands_in_each_of_its_events() -> None:
    events = WebSocketClient(TARGET).ask(
        create("a", stream_id="one"), create("b", model="missing", stream_id="two")
    )
    assert {event["stream_id"] for event in events[:-1]} == {"one"}
    assert (events[-1]["type"], events[-1]["stream_id"]) == ("error", "two")


def test_a_stream_breaks_where_that_is_asked_for() -> None:
    events = WebSocketClient(TARGET).ask(create("a", model="m+sim-error-in-stream-after-3"))
    assert [event["type"] for event in events][2:] == ["response.output_item.added", "response.failed"]


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (create("a", previous_response_id="resp_x"), 400, "previous_response_not_found"),
        (create("a", model="missing"), 404, "model_not_found"),
        (create("a", model="m+sim-status-429"), 429, "rate_limit_exceeded"),
        (create("a", model="m+sim-nonsense"), 400, None),
        (create("a", background=True), 400, "unsupported_parameter"),
        (create("a", foo=1), 400, "unknown_parameter"),
        ({"type": "response.create", "model": "m"}, 400, "missing_required_parameter"),
        ({"type": "response.begin"}, 400, "invalid_value"),
        ([], 400, "invalid_json"),
    ],
)
def test_an_error_has_the_status_of_its_answer(message: Any, status: int, code: str | None) -> None:
    client = WebSocketClient(TARGET)
    [error] = client.ask(message)
    assert (error["type"], error["status"], error["error"]["code"]) == ("error", status, code)
    assert text_of(client.ask(create("on we go"))) == "You said: on we go"
