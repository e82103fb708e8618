"""What each SDK reads of one answer of each kind of provider: text, thoughts, calls, stops, usage."""

from __future__ import annotations

import pytest

from tests.support.all_kinds import KEY, PAIRS, all_kinds, event_of, unlike
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    CONVERSATIONS,
    TWO_CALLS,
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
    Said,
    anthropic_client,
    gemini_client,
    openai_client,
)

ConversationClass = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]

each_sdk = pytest.mark.parametrize("conversation_class", CONVERSATIONS)
each_pair = pytest.mark.parametrize(("conversation_class", "model"), PAIRS)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


pytestmark = pytest.mark.gateway_config(make=all_kinds)


def ask(
    gateway: GatewayProcess,
    conversation_class: ConversationClass,
    model: str,
    text: str,
    asking: Asking,
    *,
    stream: bool,
) -> Said:
    conversation = conversation_class(gateway.url, KEY, model, asking)
    conversation.add_user(text)
    return conversation.answer(stream=stream)


@each_pair
@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("repeat:40", Asking(system="be brief")),
        ("say nothing", Asking()),
        (f"preface {TWO_CALLS}", Asking(tools=True)),
        (f"preface {TWO_CALLS}", Asking(tools=True, thinks=True)),
        ("hello", Asking(thinks=True)),
        ("think hidden", Asking(thinks=True)),
        ("one two three four", Asking(max_tokens=3)),
        ("one two three four", Asking(stop="three")),
    ],
    ids=["text", "nothing", "calls", "thoughts and calls", "thoughts", "hidden", "length", "stop"],
)
def test_a_stream_adds_up_to_the_whole_answer(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, text: str, asking: Asking
) -> None:
    whole = ask(gateway, conversation_class, model, text, asking, stream=False)
    streamed = ask(gateway, conversation_class, model, text, asking, stream=True)
    assert (streamed.text, streamed.thoughts) == (whole.text, whole.thoughts)
    assert streamed.named() == whole.named()
    assert streamed.stop == whole.stop
    if streamed.tokens.tokens_in:  # OpenAI's SDK raises at an early end, before the usage
        assert streamed.tokens == whole.tokens


@each_pair
@whole_and_streamed
def test_parallel_calls_arrive_with_their_arguments(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    said = ask(gateway, conversation_class, model, f"preface {TWO_CALLS}", Asking(tools=True), stream=stream)
    assert said.named() == [("get_weather", {"city": "Paris"}), ("get_time", {"city": "Rome"})]
    assert said.text
    assert said.stop == conversation_class.stops["calls"]
    assert len({call.id for call in said.calls}) == 2


@each_pair
@whole_and_streamed
def test_an_answer_that_has_no_room_says_so(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    said = ask(gateway, conversation_class, model, "repeat:40", Asking(max_tokens=3), stream=stream)
    assert "w1 w2 w3".startswith(said.text)  # a host thinks first, and may need all the room for it
    assert said.stop == conversation_class.stops["length"]


@each_pair
@whole_and_streamed
def test_a_stop_sequence_ends_the_answer(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    taking = "main/gpt-4.1" if model == "main/gpt-5" else model
    said = ask(gateway, conversation_class, taking, "one two three four", Asking(stop="three"), stream=stream)
    assert said.text == "You said: one two "
    assert said.stop in {conversation_class.stops["end"], "stop_sequence"}


@each_pair
@pytest.mark.parametrize("word", ["sim-refuse", "sim-block-SAFETY"])
def test_a_refusal_is_one_in_each_dialect(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, word: str
) -> None:
    """OpenAI's refusal within a message, which ends with ``stop``, is told apart in the message."""
    text, asked = "hello", f"{model}+{word}"
    if conversation_class is ChatConversation:
        chat = openai_client(gateway.url, KEY).chat.completions.create(
            model=asked, messages=[{"role": "user", "content": text}]
        )
        (choice,) = chat.choices
        assert choice.finish_reason == "content_filter" or choice.message.refusal
    elif conversation_class is MessagesConversation:
        message = anthropic_client(gateway.url, KEY).messages.create(
            model=asked, max_tokens=99, messages=[{"role": "user", "content": text}]
        )
        assert message.stop_reason == "refusal"
    else:
        content = gemini_client(gateway.url, KEY).models.generate_content(model=asked, contents=text)
        found = [candidate.finish_reason for candidate in content.candidates or ()]
        assert found == ["SAFETY"] or (content.prompt_feedback and content.prompt_feedback.block_reason)


@each_pair
@pytest.mark.parametrize("word", ["sim-refuse", "sim-block-SAFETY"])
def test_a_streamed_refusal_is_one_in_each_dialect(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, word: str
) -> None:
    text, asked = "hello", f"{model}+{word}"
    if conversation_class is ChatConversation:
        chunks = openai_client(gateway.url, KEY).chat.completions.create(
            model=asked, messages=[{"role": "user", "content": text}], stream=True
        )
        choices = [choice for chunk in chunks for choice in chunk.choices]
        refused = any(choice.delta.refusal for choice in choices)
        assert refused or choices[-1].finish_reason == "content_filter"
    elif conversation_class is MessagesConversation:
        with anthropic_client(gateway.url, KEY).messages.stream(
            model=asked, max_tokens=99, messages=[{"role": "user", "content": text}]
        ) as stream:
            assert stream.get_final_message().stop_reason == "refusal"
    else:
        pieces = list(
            gemini_client(gateway.url, KEY).models.generate_content_stream(model=asked, contents=text)
        )
        found = [candidate.finish_reason for piece in pieces for candidate in piece.candidates or ()]
        blocked = any(piece.prompt_feedback and piece.prompt_feedback.block_reason for piece in pieces)
        assert blocked or found[-1] == "SAFETY"


@each_pair
@whole_and_streamed
def test_usage_is_the_same_in_each_convention_and_in_the_event(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    asked = unlike(f"{model}+sim-cached-2")
    said = ask(gateway, conversation_class, asked, "one two three four", Asking(thinks=True), stream=stream)
    assert said.tokens.cached == 2
    assert said.tokens.reasoning > 0
    assert said.tokens.tokens_out > said.tokens.reasoning
    event = event_of(gateway, asked)
    assert event["tokens_in"] == said.tokens.tokens_in >= 4
    assert event["tokens_out"] == said.tokens.tokens_out
    assert event["cache_read_tokens"] == 2
    assert event["reasoning_tokens"] == said.tokens.reasoning


@each_sdk
@whole_and_streamed
def test_tokens_written_to_the_cache_are_part_of_the_input(
    gateway: GatewayProcess, conversation_class: ConversationClass, stream: bool
) -> None:
    asked = unlike("claude/claude-sonnet-4-5+sim-cache-write-3+sim-cached-1")
    said = ask(gateway, conversation_class, asked, "one two three four five", Asking(), stream=stream)
    event = event_of(gateway, asked)
    assert event["tokens_in"] == said.tokens.tokens_in >= 5
    assert (event["cache_write_tokens"], event["cache_read_tokens"]) == (3, 1)
    assert said.tokens.cached == 1


@each_pair
@whole_and_streamed
def test_the_event_tells_of_an_answer_what_an_operator_asks(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    asked = unlike(model)
    ask(gateway, conversation_class, asked, "hello", Asking(), stream=stream)
    event = event_of(gateway, asked)
    provider, _, upstream_model = asked.partition("/")
    assert (event["provider"], event["upstream_model"]) == (provider, upstream_model)
    assert (event["status"], event["http_status"], event["stream"]) == ("ok", 200, stream)
    assert (event["modality"], event["attempts"]) == ("text", 1)
    assert not event.get("dropped_fields")
