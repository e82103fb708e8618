"""Models on AWS through each vendor's SDK: every request is signed, and the simulator verifies it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import anthropic
import openai
import pytest
from google.genai import errors as genai_errors
from google.genai import types

from tests.support.clouds import AWS_KEY, ENVIRON, KEY, MODELS, OPUS, SONNET, clouds
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.sdk_conversations import (
    CONVERSATIONS,
    TWO_CALLS,
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
    anthropic_client,
    gemini_client,
    openai_client,
)
from tests.support.simulator import SimulatorProcess, start_simulator

ConversationClass = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]

each_sdk = pytest.mark.parametrize("conversation_class", CONVERSATIONS)
each_model = pytest.mark.parametrize("model", MODELS)
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
HEAD: Final = (
    b"Content-Type: application/json",
    b"anthropic-version: 2023-06-01",
    b"x-api-key: edge-canary-1",
)
_NUMBER: Final = re.compile(rb"sim\d{8}")
_PING: Final = re.compile(rb"event: ping\ndata: .*\n\n")
_METRICS: Final = re.compile(rb',"amazon-bedrock-invocationMetrics":\{[^}]*\}')
PNG: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()


@pytest.fixture(scope="module")
def simulator() -> Iterator[SimulatorProcess]:
    with start_simulator(AWS_KEY) as process:
        yield process


@pytest.fixture(scope="module")
def gateway(simulator: SimulatorProcess) -> Iterator[GatewayProcess]:
    with start_gateway(clouds(simulator.url), ENVIRON) as process:
        yield process


@pytest.fixture(autouse=True)
def clear(simulator: SimulatorProcess) -> None:
    simulator.clear()


def assert_signed(simulator: SimulatorProcess, count: int) -> None:
    """All requests were signed and accepted; the simulator has verified them."""
    seen = simulator.requests()
    assert [request.status for request in seen] == [200] * count, [request.target for request in seen]
    assert all((request.value("authorization") or "").startswith("AWS4-HMAC-SHA256 ") for request in seen)


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
    asking = Asking(tools=True, thinks=thinks, system="Be brief.")
    conversation = conversation_class(gateway.url, KEY, model, asking)
    conversation.add_user(f"preface {TWO_CALLS}")
    first = conversation.answer(stream=stream)
    if thinks and "claude" in model:
        assert first.thoughts
    conversation.add_results(list(zip(first.calls, ("sunny", "noon"), strict=True)))
    last = conversation.answer(stream=stream)
    assert last.text == "Tool get_weather returned: sunny Tool get_time returned: noon"
    assert last.tokens.tokens_out > 0
    assert_signed(simulator, 2)


@each_model
@whole_and_streamed
def test_responses_of_openais_sdk(
    simulator: SimulatorProcess, gateway: GatewayProcess, model: str, stream: bool
) -> None:
    responses = openai_client(gateway.url, KEY).responses
    tool: Any = {
        "type": "function",
        "name": "get_weather",
        "strict": False,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    asked: Any = {"model": model, "tools": [tool], "store": False}
    history: list[Any] = [{"role": "user", "content": 'use tool get_weather with {"city": "Paris"}'}]

    def answer() -> Any:
        if stream:
            with responses.stream(**asked, input=history) as streamed:
                return streamed.get_final_response()
        return responses.create(**asked, input=history)

    first = answer()
    (call,) = [item for item in first.output if item.type == "function_call"]
    history += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
    assert answer().output_text == "Tool get_weather returned: sunny"
    assert_signed(simulator, 2)


@each_model
def test_images_of_each_sdk(simulator: SimulatorProcess, gateway: GatewayProcess, model: str) -> None:
    url = f"data:image/png;base64,{PNG}"
    chat_parts: Any = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    chat = openai_client(gateway.url, KEY).chat.completions.create(
        model=model, messages=[{"role": "user", "content": chat_parts}]
    )
    assert chat.choices[0].message.content == "You said: see"
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    blocks: Any = [{"type": "image", "source": source}, {"type": "text", "text": "see"}]
    message = anthropic_client(gateway.url, KEY).messages.create(
        model=model, max_tokens=99, messages=[{"role": "user", "content": blocks}]
    )
    assert message.content[0].type == "text"
    content = gemini_client(gateway.url, KEY).models.generate_content(
        model=model,
        contents=["see", types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")],
    )
    assert content.text == "You said: see"
    assert all(PNG[:20].encode() in request.body for request in simulator.requests())
    assert_signed(simulator, 3)


@each_model
def test_tokens_are_counted_by_each_sdk(
    simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    counted = anthropic_client(gateway.url, KEY).messages.count_tokens(
        model=model, messages=[{"role": "user", "content": "one two three"}]
    )
    assert counted.input_tokens > 0
    found = gemini_client(gateway.url, KEY).models.count_tokens(model=model, contents="one two three")
    assert found.total_tokens is not None
    assert found.total_tokens > 0
    assert all((request.value("authorization") or "").startswith("AWS4-") for request in simulator.requests())


REFUSALS: Final = {
    "sim-status-400": ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    "sim-aws-deny": ("permission_error", "permission_error", "PERMISSION_DENIED"),
    "sim-status-404": ("not_found_error", "invalid_request_error", "NOT_FOUND"),
    "sim-status-429": ("rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    "sim-status-503": ("overloaded_error", "server_error", "UNAVAILABLE"),
}
"""What each vendor calls a refusal."""


@pytest.mark.parametrize("word", REFUSALS)
@pytest.mark.parametrize("model", [f"invoke/{SONNET}", f"mantle/{OPUS}", "oss/openai.gpt-oss-120b"])
@whole_and_streamed
def test_errors_have_each_vendors_shape(gateway: GatewayProcess, model: str, stream: bool, word: str) -> None:
    said = []
    for make in CONVERSATIONS:
        conversation = make(gateway.url, KEY, f"{model}+{word}")
        conversation.add_user("Hello")
        with pytest.raises((anthropic.APIError, openai.APIError, genai_errors.APIError)) as caught:
            conversation.answer(stream=stream)
        error: Any = caught.value
        said.append(error.status if isinstance(error, genai_errors.APIError) else error.type)
        assert "The simulator was asked for" in str(error) or "You don't have access" in str(error)
    of_anthropic, of_openai, of_google = REFUSALS[word]
    assert said == [of_openai, of_anthropic, of_google]


@pytest.mark.parametrize("query", ["b=%C3%BC+x", "a[]=1&a[]=0", "a=%2f%7e", "a==b", "&a&&b="])
def test_a_query_of_any_spelling_has_a_good_signature(
    simulator: SimulatorProcess, gateway: GatewayProcess, query: str
) -> None:
    listed = ask(gateway.port, f"/v1/files?{query}&provider=gpt", b"Authorization: Bearer edge-canary-1")
    assert listed.status == 200, listed.body
    assert_signed(simulator, 1)


class TestBytes:
    """What a Messages client reads of Bedrock is what Anthropic's own host would have sent."""

    @pytest.fixture(scope="class")
    def anthropics_host(self) -> Iterator[SimulatorProcess]:
        with start_simulator() as process:
            yield process

    @whole_and_streamed
    @pytest.mark.parametrize("provider", ["invoke", "runtime"])
    @pytest.mark.parametrize(
        ("prompt", "word"),
        [
            ("Hello", ""),
            ("héllo \u4e16 \U0001f600", ""),
            ("repeat:30", "+sim-pad"),
            ("preface think between use tool get_time with {}", ""),
            ("use tool get_time with {} and use tool get_time with {}", "+sim-interleave"),
            ("Hello", "+sim-cached-5"),
            ("Hello", "+sim-unknown"),
            ("Hello", "+sim-big-300000"),
        ],
    )
    def test_an_answer_is_that_of_anthropics_host(
        self,
        gateway: GatewayProcess,
        anthropics_host: SimulatorProcess,
        provider: str,
        stream: bool,
        prompt: str,
        word: str,
    ) -> None:
        model = f"claude-sonnet-4-5-20250929-v1:0{word}"
        body = {
            "max_tokens": 5000,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": "get_time", "input_schema": {"type": "object"}}],
            "messages": [{"role": "user", "content": prompt}],
            "stream": stream,
        }
        asked = [
            ask(port, "/v1/messages", *HEAD, body=json.dumps({**body, "model": name}).encode())
            for port, name in (
                (anthropics_host.port, model),
                (gateway.port, f"{provider}/us.anthropic.{model}"),
            )
        ]
        own, given = (_NUMBER.sub(b"", answer.body) for answer in asked)
        assert [answer.status for answer in asked] == [200, 200]
        assert len({answer.value(b"content-type") for answer in asked}) == 1
        if provider == "invoke":
            own = _PING.sub(b"", own)
            assert given.count(b"amazon-bedrock-invocationMetrics") == stream
            given = _METRICS.sub(b"", given)
        else:
            given = given.replace(b"us.anthropic.claude", b"claude")
        assert given == own
