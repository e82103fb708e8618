"""Counts of tokens, embeddings, and the names of what was dropped, through the SDKs."""

from __future__ import annotations

from typing import Any, Final

import anthropic
import openai
import pytest
from google.genai import errors as genai_errors

from tests.support.all_kinds import KEY, all_kinds, event_of, unlike
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    TWO_CALLS,
    Asking,
    ChatConversation,
    anthropic_client,
    gemini_client,
    openai_client,
)
from tests.support.simulator import SimulatorProcess

WORDS: Final = "one two three four five"
TOOLS: Final[Any] = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]


pytestmark = pytest.mark.gateway_config(make=all_kinds)


@pytest.mark.parametrize("model", ["main/gpt-5", "host/m", "claude/claude-sonnet-5", "gem/gemini-3-pro"])
def test_each_sdk_that_counts_gets_a_count(gateway: GatewayProcess, model: str) -> None:
    for_anthropic, for_google = unlike(model), unlike(model)
    counted = anthropic_client(gateway.url, KEY).messages.count_tokens(
        model=for_anthropic, system="be brief", messages=[{"role": "user", "content": WORDS}], tools=TOOLS
    )
    assert 5 <= counted.input_tokens <= 40
    told = gemini_client(gateway.url, KEY).models.count_tokens(model=for_google, contents=WORDS)
    assert 5 <= (told.total_tokens or 0) <= 20
    for asked in (for_anthropic, for_google):
        event = event_of(gateway, asked)  # nothing was consumed, so it has no tokens
        assert (event["status"], event.get("tokens_in"), event.get("tokens_out")) == ("ok", None, None)


@pytest.mark.parametrize("model", ["main/gpt-5", "host/m"])
def test_an_estimate_says_that_it_is_one(
    simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    simulator.clear()
    raw = anthropic_client(gateway.url, KEY).messages.with_raw_response.count_tokens(
        model=model, messages=[{"role": "user", "content": WORDS}]
    )
    assert raw.headers["x-gateway-estimated"] == "true"
    assert simulator.requests() == []


def test_a_count_by_the_upstream_says_nothing_of_an_estimate(gateway: GatewayProcess) -> None:
    raw = anthropic_client(gateway.url, KEY).messages.with_raw_response.count_tokens(
        model="gem/gemini-3-pro", messages=[{"role": "user", "content": WORDS}]
    )
    assert "x-gateway-estimated" not in raw.headers


def test_a_refused_count_is_the_sdks_own_exception(gateway: GatewayProcess) -> None:
    with pytest.raises(anthropic.RateLimitError):
        anthropic_client(gateway.url, KEY).messages.count_tokens(
            model="gem/gemini-3-pro+sim-status-429", messages=[{"role": "user", "content": WORDS}]
        )
    with pytest.raises(genai_errors.ClientError):
        gemini_client(gateway.url, KEY).models.count_tokens(
            model="claude/claude-sonnet-5+sim-status-429", contents=WORDS
        )


EMBEDDING: Final = "gem/gemini-embedding-001"


@pytest.mark.parametrize(("given", "many"), [("alpha", 1), (["alpha"], 1), (["alpha", "beta", "alpha"], 3)])
def test_openais_sdk_gets_embeddings_of_google(
    gateway: GatewayProcess, given: str | list[str], many: int
) -> None:
    asked = unlike(EMBEDDING)
    found = openai_client(gateway.url, KEY).embeddings.create(
        model=asked, input=given, encoding_format="float", dimensions=8
    )
    assert [one.index for one in found.data] == list(range(many))
    assert {len(one.embedding) for one in found.data} == {8}
    assert found.data[0].embedding == found.data[-1].embedding  # the same text, the same numbers
    event = event_of(gateway, asked)
    assert (event["modality"], event["status"], event["provider"]) == ("embedding", "ok", "gem")
    assert not event.get("dropped_fields")


def test_embeddings_of_google_are_those_that_google_gives(gateway: GatewayProcess) -> None:
    asked: Any = {"model": EMBEDDING, "input": ["alpha", "beta"], "encoding_format": "float"}
    through = openai_client(gateway.url, KEY).embeddings.create(
        **asked, extra_body={"task_type": "RETRIEVAL_QUERY"}
    )
    native = gemini_client(gateway.url, KEY).models.embed_content(model=EMBEDDING, contents=["alpha", "beta"])
    assert [one.embedding for one in through.data] == [one.values for one in native.embeddings or ()]


@pytest.mark.parametrize("form", [None, "base64"])
def test_embeddings_in_base64_are_refused_with_the_way_out(gateway: GatewayProcess, form: Any) -> None:
    """OpenAI's SDK asks for base64 where its user states no format."""
    more = {} if form is None else {"encoding_format": form}
    with pytest.raises(openai.BadRequestError, match='encoding_format="float"'):
        openai_client(gateway.url, KEY).embeddings.create(model=EMBEDDING, input="a", **more)


def test_embeddings_of_a_family_that_has_none_are_refused(gateway: GatewayProcess) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        openai_client(gateway.url, KEY).embeddings.create(model="claude/claude-sonnet-5", input="a")
    assert raised.value.code == "unsupported_provider_capability"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["claude/claude-sonnet-5", "gem/gemini-3-pro"])
def test_what_a_chat_loses_has_a_name(gateway: GatewayProcess, model: str, stream: bool) -> None:
    asked = unlike(model)
    raw = openai_client(gateway.url, KEY).chat.completions.with_raw_response.create(
        model=asked,
        messages=[{"role": "user", "content": "a", "name": "bob"}],
        logit_bias={"1": 1},
        user="u",
        stream=stream,
    )
    assert {"logit_bias", "messages[].name"} <= set(event_of(gateway, asked)["dropped_fields"])
    assert "logit_bias" in raw.headers["x-gateway-dropped-fields"].split(", ")


@pytest.mark.parametrize("model", ["main/gpt-5", "gem/gemini-3-pro"])
def test_what_a_message_loses_has_a_name(gateway: GatewayProcess, model: str) -> None:
    asked = unlike(model)
    mark: Any = {"type": "ephemeral"}
    raw = anthropic_client(gateway.url, KEY).messages.with_raw_response.create(
        model=asked,
        max_tokens=99,
        system=[{"type": "text", "text": "be brief", "cache_control": mark}],
        messages=[{"role": "user", "content": "a"}],
        inference_geo="us",
    )
    dropped = event_of(gateway, asked)["dropped_fields"]
    assert set(dropped) == {"system[].cache_control", "inference_geo"}
    assert raw.headers["x-gateway-dropped-fields"] == ", ".join(dropped)


@pytest.mark.parametrize("model", ["main/gpt-5", "claude/claude-sonnet-5"])
def test_what_a_content_loses_has_a_name(gateway: GatewayProcess, model: str) -> None:
    asked = unlike(model)
    config: Any = {"top_k": 3, "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT"}]}
    config["safety_settings"][0]["threshold"] = "BLOCK_NONE"
    gemini_client(gateway.url, KEY).models.generate_content(model=asked, contents="a", config=config)
    dropped = set(event_of(gateway, asked)["dropped_fields"])
    assert "generationConfig.topK" in dropped
    assert any(name.startswith("safetySettings") for name in dropped)


def test_stop_sequences_that_a_model_refuses_are_dropped_by_name(gateway: GatewayProcess) -> None:
    asked = unlike("main/gpt-5")
    anthropic_client(gateway.url, KEY).messages.create(
        model=asked,
        max_tokens=99,
        messages=[{"role": "user", "content": "a"}],
        stop_sequences=["b"],
    )
    assert event_of(gateway, asked)["dropped_fields"] == ["stop_sequences"]


@pytest.mark.parametrize("model", ["claude/claude-sonnet-5", "gem/gemini-3-pro"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_what_openais_sdk_adds_to_its_own_messages_is_no_loss(
    gateway: GatewayProcess, model: str, stream: bool
) -> None:
    """Its parsers put ``parsed`` and ``parsed_arguments`` beside what the model said."""
    conversation = ChatConversation(gateway.url, KEY, model, Asking(tools=True))
    conversation.add_user(TWO_CALLS)
    calls = conversation.answer(stream=stream).calls
    conversation.add_results([(call, "r") for call in calls])
    conversation.model = unlike(model)
    conversation.answer(stream=stream)
    dropped = set(event_of(gateway, conversation.model).get("dropped_fields") or ())
    assert dropped <= {"tools[].function.strict"}  # Google has no such promise
