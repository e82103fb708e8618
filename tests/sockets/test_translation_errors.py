"""What goes wrong behind the gateway is each SDK's own exception, with the upstream's status and words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors

from tests.support.all_kinds import KEY, PAIRS, all_kinds, event_of, unlike
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
    anthropic_client,
    gemini_client,
    openai_client,
)
from tests.support.simulator import SimulatorProcess

ConversationClass = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]

each_pair = pytest.mark.parametrize(("conversation_class", "model"), PAIRS)
each_kind = pytest.mark.parametrize(
    ("conversation_class", "model"),
    [
        pytest.param(ChatConversation, "claude/claude-sonnet-5", id="chat to claude"),
        pytest.param(ChatConversation, "gem/gemini-3-pro", id="chat to gem"),
        pytest.param(MessagesConversation, "main/gpt-5", id="messages to main"),
        pytest.param(MessagesConversation, "gem/gemini-3-pro", id="messages to gem"),
        pytest.param(ContentConversation, "main/gpt-5", id="content to main"),
        pytest.param(ContentConversation, "claude/claude-sonnet-5", id="content to claude"),
    ],
)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


pytestmark = pytest.mark.gateway_config(make=all_kinds)


def failure(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, *, stream: bool
) -> Any:  # of any SDK
    conversation = conversation_class(gateway.url, KEY, model, Asking())
    conversation.add_user("repeat:40")
    with pytest.raises((openai.OpenAIError, anthropic.AnthropicError, genai_errors.APIError)) as raised:
        conversation.answer(stream=stream)
    error: Any = raised.value  # what it has beside a message, each SDK says in its own way
    return error


BY_STATUS: Final[dict[int, dict[ConversationClass, type[Exception]]]] = {
    400: {
        ChatConversation: openai.BadRequestError,
        MessagesConversation: anthropic.BadRequestError,
        ContentConversation: genai_errors.ClientError,
    },
    401: {
        ChatConversation: openai.AuthenticationError,
        MessagesConversation: anthropic.AuthenticationError,
        ContentConversation: genai_errors.ClientError,
    },
    403: {
        ChatConversation: openai.PermissionDeniedError,
        MessagesConversation: anthropic.PermissionDeniedError,
        ContentConversation: genai_errors.ClientError,
    },
    404: {
        ChatConversation: openai.NotFoundError,
        MessagesConversation: anthropic.NotFoundError,
        ContentConversation: genai_errors.ClientError,
    },
    429: {
        ChatConversation: openai.RateLimitError,
        MessagesConversation: anthropic.RateLimitError,
        ContentConversation: genai_errors.ClientError,
    },
    500: {
        ChatConversation: openai.InternalServerError,
        MessagesConversation: anthropic.InternalServerError,
        ContentConversation: genai_errors.ServerError,
    },
}


@each_kind
@whole_and_streamed
@pytest.mark.parametrize("status", BY_STATUS)
def test_an_upstreams_refusal_is_the_sdks_own_exception(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool, status: int
) -> None:
    asked = unlike(f"{model}+sim-status-{status}")
    error = failure(gateway, conversation_class, asked, stream=stream)
    assert type(error) is BY_STATUS[status][conversation_class]
    assert status_of(error) == status
    event = event_of(gateway, asked)
    assert (event["status"], event["http_status"]) == ("upstream_error", status)


@each_kind
@whole_and_streamed
def test_an_upstreams_words_arrive(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool
) -> None:
    error = failure(gateway, conversation_class, f"{model.partition('/')[0]}/missing-model", stream=stream)
    assert status_of(error) == 404
    assert "missing-model" in str(error.message)


def status_of(error: Any) -> int:  # an SDK's error
    return int(error.code if isinstance(error, genai_errors.APIError) else error.status_code)


@each_kind
@whole_and_streamed
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_to_wait_arrives(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, stream: bool, status: int
) -> None:
    error = failure(
        gateway, conversation_class, f"{model}+sim-status-{status}+sim-retry-after-17", stream=stream
    )
    assert error.response.headers["retry-after"] == "17"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("conversation_class", [ChatConversation, ContentConversation])
def test_an_overloaded_claude_is_an_unavailable_model_elsewhere(
    gateway: GatewayProcess, conversation_class: ConversationClass, stream: bool
) -> None:
    error = failure(gateway, conversation_class, "claude/claude-sonnet-5+sim-status-529", stream=stream)
    assert type(error) is BY_STATUS[500][conversation_class]
    assert status_of(error) == 503


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["main/gpt-5", "gem/gemini-3-pro"])
def test_an_unavailable_model_is_an_overloaded_one_for_anthropics_sdk(
    gateway: GatewayProcess, model: str, stream: bool
) -> None:
    error = failure(gateway, MessagesConversation, f"{model}+sim-status-503", stream=stream)
    assert error.status_code in {503, 529}
    assert error.type == "overloaded_error"


@each_pair
@pytest.mark.parametrize("pieces", [0, 7])
@pytest.mark.parametrize(
    "fault",
    ["sim-error-in-stream-after", "sim-truncate-after", "sim-reset-after", "sim-garbage-after"],
)
def test_a_stream_that_breaks_never_ends_well(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, fault: str, pieces: int
) -> None:
    asked = unlike(f"{model}+{fault}-{pieces}")
    failure(gateway, conversation_class, asked, stream=True)
    assert event_of(gateway, asked)["status"] == "upstream_error"


IN_STREAM: Final = {"main": "The server broke.", "claude": "Overloaded", "gem": "The model is overloaded."}
"""What the simulator says when its stream breaks."""


@each_kind
def test_an_error_in_the_odd_form_is_one_too(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str
) -> None:
    error = failure(
        gateway, conversation_class, f"{model}+sim-error-in-stream-after-3+sim-odd-error", stream=True
    )
    assert IN_STREAM[model.partition("/")[0]] in str(error.message)


@pytest.mark.parametrize("conversation_class", [ChatConversation, MessagesConversation])
@pytest.mark.parametrize("pieces", [0, 3])
def test_an_error_that_google_sends_as_bare_lines_keeps_its_words(
    gateway: GatewayProcess, conversation_class: ConversationClass, pieces: int
) -> None:
    asked = f"gem/gemini-3-pro+sim-error-in-stream-after-{pieces}+sim-odd-error"
    error = failure(gateway, conversation_class, asked, stream=True)
    assert "The model is overloaded. Please try again later." in str(error.message)
    if conversation_class is ChatConversation:
        assert (error.body["type"], error.body["code"]) == ("server_error", "UNAVAILABLE")
    else:
        assert error.body["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize("conversation_class", [ChatConversation, MessagesConversation])
@whole_and_streamed
def test_the_time_to_wait_arrives_from_googles_words_alone(
    gateway: GatewayProcess, conversation_class: ConversationClass, stream: bool
) -> None:
    asked = "gem/gemini-3-pro+sim-status-429+sim-no-retry-after+sim-retry-after-23"
    error = failure(gateway, conversation_class, asked, stream=stream)
    assert error.response.headers["retry-after"] == "23"


@each_pair
def test_a_stream_without_its_end_never_ends_well(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str
) -> None:
    """Of three pieces at least one is more than the usage and the closing word."""
    asked = unlike(f"{model}+sim-drop-last-3")
    failure(gateway, conversation_class, asked, stream=True)
    assert event_of(gateway, asked)["status"] == "upstream_error"


@each_kind
@pytest.mark.parametrize("fault", ["sim-truncate-after-1", "sim-reset-before", "sim-garbage"])
def test_a_whole_answer_that_does_not_come_whole_is_a_502(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str, fault: str
) -> None:
    error = failure(gateway, conversation_class, f"{model}+{fault}", stream=False)
    assert type(error) is BY_STATUS[500][conversation_class]
    assert status_of(error) == 502


def leave_a_chat(url: str, model: str) -> None:
    stream = openai_client(url, KEY).chat.completions.create(
        model=model, messages=[{"role": "user", "content": "repeat:40"}], stream=True
    )
    next(iter(stream))
    stream.close()


def leave_a_message(url: str, model: str) -> None:
    with anthropic_client(url, KEY).messages.stream(
        model=model, max_tokens=99, messages=[{"role": "user", "content": "repeat:40"}]
    ) as stream:
        next(iter(stream))


def leave_a_content(url: str, model: str) -> None:
    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    stream: Any = client.models.generate_content_stream(model=model, contents="repeat:40")
    next(stream)
    stream.close()
    client.close()


@pytest.mark.parametrize(
    ("leave", "model"),
    [
        (leave_a_chat, "claude/claude-sonnet-5"),
        (leave_a_chat, "gem/gemini-3-pro"),
        (leave_a_message, "main/gpt-5"),
        (leave_a_message, "gem/gemini-3-pro"),
        (leave_a_content, "main/gpt-5"),
        (leave_a_content, "claude/claude-sonnet-5"),
    ],
)
def test_a_client_that_leaves_takes_its_upstream_with_it(
    simulator: SimulatorProcess,
    gateway: GatewayProcess,
    leave: Callable[[str, str], None],
    model: str,
) -> None:
    simulator.clear()
    asked = unlike(f"{model}+sim-stall-body-after-4")
    leave(gateway.url, asked)
    simulator.wait_for("client_left")
    event = event_of(gateway, asked)
    assert (event["status"], event["http_status"], event["stream"]) == ("client_abort", 499, True)


def test_the_wrong_key_and_the_unknown_model_are_the_gateways_own_refusals(gateway: GatewayProcess) -> None:
    with pytest.raises(anthropic.AuthenticationError):
        anthropic_client(gateway.url, "wrong-canary").messages.count_tokens(
            model="main/gpt-5", messages=[{"role": "user", "content": "a"}]
        )
    with pytest.raises(genai_errors.ClientError) as raised:
        gemini_client(gateway.url, "wrong-canary").models.count_tokens(model="main/gpt-5", contents="a")
    assert raised.value.code == 401
