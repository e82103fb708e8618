"""Tool loops through each SDK: what it returned goes back, and each provider gets back what was its own."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.all_kinds import KEY, MODELS, PAIRS, TAG, all_kinds
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    CONVERSATIONS,
    TWO_CALLS,
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
)
from tests.support.simulator import SimulatorProcess

ConversationClass = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]

ANSWER: Final = "Tool get_weather returned: sunny Tool get_time returned: noon"
BY_CLAUDE: Final = b"c2ltdWxhdGVkLWFudGhyb3BpYz"  # how a signature of the simulator's begins
REDACTED: Final = b"c2ltdWxhdGVkLXJlZGFjdGVk"
BY_GEMINI: Final = b"c2ltdWxhdGVkLWdlbWluaT"
SKIPPED: Final = b"skip_thought_signature_validator"

each_sdk = pytest.mark.parametrize("conversation_class", CONVERSATIONS)
each_pair = pytest.mark.parametrize(("conversation_class", "model"), PAIRS)
each_model = pytest.mark.parametrize("model", MODELS)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


pytestmark = pytest.mark.gateway_config(make=all_kinds)


def loop(
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    model: str,
    text: str,
    *,
    thinks: bool,
    stream: bool,
) -> tuple[str, str]:
    """Go round a loop; return the first thoughts, and the last text."""
    conversation = conversation_class(gateway.url, KEY, model, Asking(tools=True, thinks=thinks))
    conversation.add_user(text)
    first = conversation.answer(stream=stream)
    conversation.add_results(list(zip(first.calls, ("sunny", "noon"), strict=True)))
    return first.thoughts, conversation.answer(stream=stream).text


@each_sdk
@each_model
@whole_and_streamed
@pytest.mark.parametrize("thinks", [False, True], ids=["plain", "thinking"])
def test_a_tool_loop_comes_to_its_end(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    model: str,
    stream: bool,
    thinks: bool,
) -> None:
    simulator.clear()
    _, text = loop(gateway, conversation_class, model, f"preface {TWO_CALLS}", thinks=thinks, stream=stream)
    assert text == ANSWER
    seen = simulator.requests()
    assert [request.status for request in seen] == [200, 200]
    assert not any(TAG in request.body for request in seen)


@each_sdk
@whole_and_streamed
@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("", ["thinking", "tool_use", "tool_use"]),
        ("preface", ["thinking", "text", "tool_use", "tool_use"]),
        ("think between", ["thinking", "tool_use", "thinking", "tool_use"]),
        ("preface think between", ["thinking", "text", "thinking", "tool_use", "thinking", "tool_use"]),
    ],
    ids=["calls", "text", "between", "all"],
)
def test_claude_gets_its_thoughts_back_in_their_places(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    stream: bool,
    phrase: str,
    expected: list[str],
) -> None:
    simulator.clear()
    model = "claude/claude-sonnet-4-5"
    thoughts, text = loop(
        gateway, conversation_class, model, f"{TWO_CALLS} {phrase}", thinks=True, stream=stream
    )
    assert text == ANSWER
    blocks = assistant_of(simulator)["content"]
    assert [block["type"] for block in blocks] == expected
    assert "".join(block["thinking"] for block in blocks if block["type"] == "thinking") == thoughts


@each_sdk
@whole_and_streamed
def test_claude_gets_its_hidden_thoughts_back(
    simulator: SimulatorProcess, gateway: GatewayProcess, conversation_class: ConversationClass, stream: bool
) -> None:
    simulator.clear()
    model = "claude/claude-sonnet-4-5"
    thoughts, text = loop(
        gateway, conversation_class, model, f"think hidden {TWO_CALLS}", thinks=True, stream=stream
    )
    assert (thoughts, text) == ("", ANSWER)
    assert REDACTED in simulator.requests()[-1].body


@each_sdk
@whole_and_streamed
@pytest.mark.parametrize("phrase", ["", "preface", "think hidden"])
@pytest.mark.parametrize("thinks", [False, True], ids=["plain", "thinking"])
def test_gemini_gets_its_own_signature_back_on_the_first_call(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    stream: bool,
    phrase: str,
    thinks: bool,
) -> None:
    simulator.clear()
    _, text = loop(
        gateway, conversation_class, "gem/gemini-3-pro", f"{phrase} {TWO_CALLS}", thinks=thinks, stream=stream
    )
    assert text == ANSWER
    body = simulator.requests()[-1].body
    assert BY_GEMINI in body
    assert SKIPPED not in body


@each_sdk
@whole_and_streamed
def test_a_host_gets_its_reasoning_back(
    simulator: SimulatorProcess, gateway: GatewayProcess, conversation_class: ConversationClass, stream: bool
) -> None:
    simulator.clear()
    model = "host/deep+sim-reasoning"
    thoughts, text = loop(gateway, conversation_class, model, TWO_CALLS, thinks=True, stream=stream)
    assert text == ANSWER
    assert thoughts
    assert assistant_of(simulator)["reasoning_content"] == thoughts


@each_pair
@whole_and_streamed
@pytest.mark.parametrize("word", ["sim-noise", "sim-unknown", "sim-interleave", "sim-no-ids", "sim-cut-3"])
def test_a_tool_loop_survives_what_upstreams_do_to_their_answers(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool, word: str
) -> None:
    _, text = loop(
        gateway, conversation_class, f"{model}+{word}", f"preface {TWO_CALLS}", thinks=True, stream=stream
    )
    assert text == ANSWER


@each_pair
@whole_and_streamed
def test_the_same_tool_twice_at_once_gets_each_its_own_result(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    calls = 'use tool get_time with {"city": "Paris"} and use tool get_time with {"city": "Rome"}'
    _, text = loop(gateway, conversation_class, model, calls, thinks=False, stream=stream)
    assert text == "Tool get_time returned: sunny Tool get_time returned: noon"


@each_pair
@whole_and_streamed
def test_a_call_without_arguments_goes_round(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    conversation = conversation_class(gateway.url, KEY, model, Asking(tools=True, thinks=True))
    conversation.add_user("use tool get_time with nothing")
    (call,) = conversation.answer(stream=stream).calls
    assert call.arguments == {}
    conversation.add_results([(call, "noon")])
    assert conversation.answer(stream=stream).text == "Tool get_time returned: noon"


def assistant_of(simulator: SimulatorProcess) -> Any:  # a message of the upstream's wire
    """Return the only turn of the assistant in the newest request."""
    (turn,) = [one for one in simulator.requests()[-1].json()["messages"] if one["role"] == "assistant"]
    return turn
