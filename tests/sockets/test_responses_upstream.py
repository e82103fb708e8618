"""OpenAI's models are asked through Responses where chat completions will not do, with each vendor's SDK."""

from __future__ import annotations

import json
from typing import Any, Final

import openai
import pytest

from tests.support.all_kinds import KEY, TAG
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    TWO_CALLS,
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
    openai_client,
)
from tests.support.simulator import SeenRequest, SimulatorProcess

THINKS: Final = "main/gpt-5.6"
"""Refuses tools together with reasoning on chat completions."""
ANSWER: Final = "Tool get_weather returned: sunny Tool get_time returned: noon"
CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"


def with_two_hosts(url: str) -> str:
    """Return the configuration of a gateway before OpenAI and a host that serves Responses only."""
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-openai}}
  modern: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-modern, speaks: [responses]}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
aliases: {{either: [claude/claude-sonnet-5+sim-status-529, {THINKS}]}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
observe_dropped_fields: true
"""


pytestmark = pytest.mark.gateway_config(make=with_two_hosts)
Conversation = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]
foreign = pytest.mark.parametrize("asks", [MessagesConversation, ContentConversation])
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def loop(asks: Conversation, url: str, model: str, *, stream: bool) -> tuple[str, str]:
    """Go round a loop of tools; return the first thoughts, and the last text."""
    conversation = asks(url, KEY, model, Asking(tools=True, thinks=True))
    conversation.add_user(TWO_CALLS)
    first = conversation.answer(stream=stream)
    conversation.add_results(list(zip(first.calls, ("sunny", "noon"), strict=True)))
    return first.thoughts, conversation.answer(stream=stream).text


def paths(seen: list[SeenRequest]) -> list[str]:
    assert [request.status for request in seen] == [200] * len(seen)
    return [request.target.partition("?")[0] for request in seen]


def reasoning_of(request: SeenRequest) -> list[Any]:  # items
    return [item for item in request.json()["input"] if item.get("type") == "reasoning"]


@foreign
@whole_and_streamed
def test_a_model_thinks_in_a_loop_of_tools_and_gets_its_thoughts_back(
    gateway: GatewayProcess, simulator: SimulatorProcess, asks: Conversation, stream: bool
) -> None:
    simulator.clear()
    thoughts, text = loop(asks, gateway.url, THINKS, stream=stream)
    assert text == ANSWER
    assert thoughts.startswith("The user wants: ")
    seen = simulator.requests()
    assert paths(seen) == [RESPONSES, RESPONSES]
    first, second = seen[0].json(), seen[1].json()
    assert first["store"] is second["store"] is False
    assert all(tool["strict"] in (True, False) for tool in first["tools"])
    (item,) = reasoning_of(seen[1])
    assert item["encrypted_content"]
    assert item["id"].startswith("rs_")
    assert TAG not in seen[1].body


@foreign
def test_without_tools_it_goes_to_chat(
    gateway: GatewayProcess, simulator: SimulatorProcess, asks: Conversation
) -> None:
    simulator.clear()
    conversation = asks(gateway.url, KEY, THINKS)
    conversation.add_user("hello")
    assert conversation.answer(stream=True).text == "You said: hello"
    assert paths(simulator.requests()) == [CHAT]


@foreign
@whole_and_streamed
def test_a_model_that_chat_completions_does_not_have_is_always_asked_so(
    gateway: GatewayProcess, simulator: SimulatorProcess, asks: Conversation, stream: bool
) -> None:
    simulator.clear()
    conversation = asks(gateway.url, KEY, "main/gpt-5.3-codex")
    conversation.add_user("hello")
    said = conversation.answer(stream=stream)
    assert said.text == "You said: hello"
    assert said.tokens.tokens_in > 0
    assert paths(simulator.requests()) == [RESPONSES]


def test_the_next_target_of_an_alias_is_asked_in_its_own_way(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    simulator.clear()
    thoughts, text = loop(MessagesConversation, gateway.url, "either", stream=True)
    assert text == ANSWER
    assert thoughts.startswith("The user wants: ")
    targets = [(request.target.partition("?")[0], request.status) for request in simulator.requests()]
    assert targets == [("/v1/messages", 529), (RESPONSES, 200)] * 2


def test_a_chat_request_of_the_same_family_passes_byte_for_byte(
    gateway: GatewayProcess, simulator: SimulatorProcess
) -> None:
    simulator.clear()
    loop(ChatConversation, gateway.url, THINKS, stream=False)
    seen = simulator.requests()
    assert paths(seen) == [CHAT, CHAT]
    assert b'"model":"gpt-5.6"' in seen[0].body
    assert "responses" not in json.dumps(seen[0].json())


@whole_and_streamed
def test_a_chat_client_reaches_a_host_that_serves_responses_only(
    gateway: GatewayProcess, simulator: SimulatorProcess, stream: bool
) -> None:
    simulator.clear()
    _, text = loop(ChatConversation, gateway.url, "modern/m+sim-reasoning", stream=stream)
    assert text == ANSWER
    seen = simulator.requests()
    assert paths(seen) == [RESPONSES, RESPONSES]
    assert len(reasoning_of(seen[1])) == 1


def test_responses_pass_through_to_such_a_host(gateway: GatewayProcess, simulator: SimulatorProcess) -> None:
    simulator.clear()
    answer = openai_client(gateway.url, KEY).responses.create(model="modern/m", input="hello")
    assert answer.output_text == "You said: hello"
    assert paths(simulator.requests()) == [RESPONSES]


@whole_and_streamed
@pytest.mark.parametrize(
    "fault", ["sim-error-in-stream-after-3", "sim-error-in-stream-after-3+sim-odd-error"]
)
def test_an_answer_that_breaks_is_no_answer(gateway: GatewayProcess, fault: str, stream: bool) -> None:
    conversation = MessagesConversation(gateway.url, KEY, f"main/gpt-5.3-codex+{fault}")
    conversation.add_user("hello")
    if not stream:
        assert conversation.answer(stream=False).text == "You said: hello"
        return
    with pytest.raises(Exception, match=r"broke|error|500|overloaded"):
        conversation.answer(stream=True)


def test_what_has_no_place_in_responses_is_reported(gateway: GatewayProcess) -> None:
    raw = openai_client(gateway.url, KEY).chat.completions.with_raw_response.create(
        model="modern/m",
        messages=[{"role": "user", "content": "hello"}],
        stop=["x"],
        seed=1,
        presence_penalty=0.5,
        prompt_cache_key="k",
    )
    dropped = raw.headers["x-gateway-dropped-fields"].split(", ")
    assert dropped == ["presence_penalty", "prompt_cache_key", "seed", "stop"]
    assert isinstance(raw.parse(), openai.types.chat.ChatCompletion)
