"""OpenAI's SDK asks models of others through ``/v1/responses``: what it returns, and what it sends back.

The providers are Claude, Gemini, and a host that serves chat completions only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

KEY: Final = "edge-canary-1"
CLAUDE: Final = "claude/claude-sonnet-5"
MODELS: Final = (CLAUDE, "gem/gemini-3-pro", "host/deep+sim-reasoning")
CITY: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: Final[list[dict[str, Any]]] = [
    {"type": "function", "name": "get_weather", "parameters": CITY, "strict": True},
    {"type": "custom", "name": "write", "description": "Write it down."},
    {
        "type": "namespace",
        "name": "clocks",
        "description": "Clocks.",
        "tools": [{"type": "function", "name": "get_time", "parameters": CITY, "strict": False}],
    },
]
EVERY_CALL: Final = (
    'preface, use tool get_weather with {"city": "Paris"} and use tool write with {"input": "a \\"b\\"\\n"} '
    'and use tool clocks__get_time with {"city": "Rome"}'
)
CALLS: Final = [
    ("function_call", None, "get_weather", {"city": "Paris"}),
    ("custom_tool_call", None, "write", 'a "b"\n'),
    ("function_call", "clocks", "get_time", {"city": "Rome"}),
]
THOUGHTS: Final = {
    "claude": b'"signature":"c2ltdWxhdGVkLWFudGhyb3BpYz',
    "gem": b'"thoughtSignature":"c2ltdWxhdGVkLWdlbWluaT',
    "host": b'"reasoning_content":"The user wants: ',
}
"""How a thought of the simulator's comes back to it."""
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "text": {"input": "hello é"},
    "nothing": {"input": "say nothing"},
    "thought": {"input": "hello", "reasoning": {"effort": "low", "summary": "auto"}},
    "calls": {"input": EVERY_CALL, "tools": TOOLS},
    "thought and calls": {"input": EVERY_CALL, "tools": TOOLS, "reasoning": {"summary": "auto"}},
}


def before_three_kinds(url: str) -> str:
    """Return a gateway's configuration whose providers have no Responses API, and which translates it."""
    return f"""
providers:
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: AIza-canary}}
  host: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-host, speaks: [chat]}}
defaults: {{openai_dialect: host}}
translation: {{responses: {{enabled: true}}}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
"""


pytestmark = pytest.mark.gateway_config(make=before_three_kinds)
each_model = pytest.mark.parametrize("model", MODELS)


@pytest.fixture(scope="module")
def sdk(gateway: GatewayProcess) -> Iterator[Any]:  # typed loosely: the requests are data here
    """OpenAI's SDK at the gateway."""
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


def comparable(response: Response) -> dict[str, Any]:  # a response's fields
    """Return a response without what differs between two answers, and without what the SDK's parsers add."""
    body = response.to_dict(mode="json")
    for name in ("id", "created_at"):
        assert body.pop(name)
    assert (body.pop("completed_at", None) is not None) is (response.status == "completed")
    for item in output_of(body):
        assert item.pop("id")
        item.pop("call_id", None)
        item.pop("parsed_arguments", None)
        if "arguments" in item:
            item["arguments"] = json.loads(item["arguments"])
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return body


def output_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = body["output"]
    return output


def calls_of(response: Response) -> list[tuple[str, str | None, str, Any]]:
    """Return the calls: type, namespace, name, and their arguments or input."""
    return [
        (
            item["type"],
            item.get("namespace"),
            item["name"],
            json.loads(item["arguments"]) if "arguments" in item else item["input"],
        )
        for item in output_of(response.to_dict(mode="json"))
        if item["type"].endswith("_call")
    ]


@each_model
@pytest.mark.parametrize("name", REQUESTS)
def test_a_streamed_answer_is_in_the_end_the_whole_one(sdk: Any, model: str, name: str) -> None:
    request = {"model": model, **REQUESTS[name]}
    whole = sdk.responses.create(**request)
    with sdk.responses.stream(**request) as stream:
        streamed = stream.get_final_response()
    assert comparable(streamed) == comparable(whole)
    assert whole.status == "completed"
    assert whole.store is False
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens > 0
    if name == "text":
        assert whole.output_text == "You said: hello é"
    if "calls" in name:
        assert whole.output_text == "I call get_weather, write, clocks__get_time."
        assert calls_of(whole) == calls_of(streamed) == CALLS
    if "thought" in name:
        (thought, *_) = [item for item in whole.output if item.type == "reasoning"]
        assert thought.summary[0].text.startswith("The user wants: ")
        assert thought.encrypted_content


@each_model
def test_an_answer_that_finds_no_room_is_incomplete_whole_and_streamed(sdk: Any, model: str) -> None:
    request = {"model": model, "input": "repeat:60", "max_output_tokens": 20}
    whole = sdk.responses.create(**request)
    *_, last = sdk.responses.create(**request, stream=True)
    assert last.type == "response.incomplete"
    assert comparable(last.response) == comparable(whole)
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert whole.output_text.startswith("w1 w2 ")
    assert whole.output[-1].status == "incomplete"


@each_model
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("phrase", ["", "think between, afterword, "], ids=["plain", "mixed"])
def test_what_the_sdk_returned_goes_back_and_the_loop_ends(
    sdk: Any, simulator: SimulatorProcess, model: str, phrase: str, stream: bool
) -> None:
    simulator.clear()
    request = {"model": model, "tools": TOOLS, "reasoning": {"summary": "auto"}}
    history: list[Any] = [{"role": "user", "content": phrase + EVERY_CALL}]
    first = answer(sdk, stream, **request, input=history)
    history += first.output
    for item in first.output:
        if item.type.endswith("_call"):
            history.append(
                {"type": f"{item.type}_output", "call_id": item.call_id, "output": f"done by {item.name}"}
            )
    last = answer(sdk, stream, **request, input=history)
    names = ("get_weather", "write", "clocks__get_time")
    said = [f"Tool {name} returned: done by {name.removeprefix('clocks__')}" for name in names]
    assert last.output_text == " ".join(said)
    seen = simulator.requests()
    assert [call.status for call in seen] == [200, 200]
    assert THOUGHTS[model.partition("/")[0]] in seen[1].body


def answer(sdk: Any, stream: bool, **request: Any) -> Any:  # the SDK's response, whole or parsed
    if not stream:
        return sdk.responses.create(**request)
    with sdk.responses.stream(**request) as events:
        return events.get_final_response()


class Weather(BaseModel):
    """A structured answer."""

    city: str
    degrees: float
    windy: bool


@each_model
def test_a_structured_answer_is_parsed(sdk: Any, model: str) -> None:
    parsed = sdk.responses.parse(model=model, input="the weather", text_format=Weather)
    assert isinstance(parsed.output_parsed, Weather)
    with sdk.responses.stream(model=model, input="the weather", text_format=Weather) as stream:
        assert stream.get_final_response().output_parsed == parsed.output_parsed


@each_model
@pytest.mark.parametrize("fault", ["error-in-stream-after", "truncate-after", "reset-after", "garbage-after"])
def test_a_stream_that_breaks_has_no_final_response(sdk: Any, model: str, fault: str) -> None:
    with sdk.responses.stream(model=f"{model}+sim-{fault}-6", input="repeat:40") as stream:
        types = [event.type for event in stream]
        with pytest.raises(RuntimeError):
            stream.get_final_response()
    assert "response.completed" not in types
    assert "response.incomplete" not in types
    assert "error" not in types
    assert types[-1] == "response.failed"


@each_model
def test_a_break_says_what_there_was_until_then(sdk: Any, model: str) -> None:
    *_, last = sdk.responses.create(
        model=f"{model}+sim-error-in-stream-after-6", input="repeat:40", stream=True
    )
    assert (last.type, last.response.status) == ("response.failed", "failed")
    assert last.response.error.code == "server_error"
    assert last.response.error.message
    assert "w1" in last.response.output_text
    assert last.response.output[-1].status == "incomplete"


@each_model
def test_input_tokens_are_counted_or_estimated(sdk: Any, model: str) -> None:
    counted = sdk.responses.input_tokens.with_raw_response.count(
        model=model, input="one two three", tools=TOOLS
    )
    assert counted.parse().input_tokens > 0
    assert counted.parse().object == "response.input_tokens"
    estimated = counted.headers.get("x-gateway-estimated")
    assert estimated == ("true" if model.startswith("host/") else None)


def test_an_answer_cannot_be_fetched_later(sdk: Any, simulator: SimulatorProcess) -> None:
    response = sdk.responses.create(model=CLAUDE, input="hello")
    assert response.id.startswith("resp_mgw")
    simulator.clear()
    for ask in (
        lambda: sdk.responses.retrieve(response.id),
        lambda: sdk.responses.delete(response.id),
        lambda: sdk.responses.cancel(response.id),
        lambda: list(sdk.responses.input_items.list(response.id)),
    ):
        with pytest.raises(openai.NotFoundError) as raised:
            ask()
        assert raised.value.code == "response_not_found"
    assert simulator.requests() == []


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool", "translation.responses.hosted_tools"),
        ({"previous_response_id": "resp_1"}, "unsupported_parameter", "previous_response_id"),
        ({"background": True}, "unsupported_parameter", "background"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "unsupported_item", "store: false"),
    ],
    ids=["hosted tool", "previous response", "background", "item of a store"],
)
def test_what_only_openai_can_do_is_refused_with_what_would_help(
    sdk: Any, simulator: SimulatorProcess, fields: dict[str, Any], code: str, words: str
) -> None:
    simulator.clear()
    with pytest.raises(openai.BadRequestError) as raised:
        sdk.responses.create(**{"model": CLAUDE, "input": "hello", **fields})
    assert raised.value.code == code
    assert words in raised.value.message
    assert simulator.requests() == []
