"""The official SDKs, unmodified, through the gateway: alone, 64 at a time, and when something is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors

from tests.support.gateway import GatewayProcess
from tests.support.simulator import SimulatorProcess

MANY = 64
HELLO = "Hello there"
REPLY = "You said: Hello there"


def openai_client(gateway: GatewayProcess, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)


def anthropic_client(gateway: GatewayProcess, key: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=gateway.url, api_key=key, max_retries=0)


@cache  # a client that nobody holds closes itself in the middle of a call
def gemini_client(url: str, key: str) -> genai.Client:
    return genai.Client(api_key=key, http_options={"base_url": url})


def chat(gateway: GatewayProcess, key: str, model: str) -> str | None:
    answer = openai_client(gateway, key).chat.completions.create(
        model=model, messages=[{"role": "user", "content": HELLO}]
    )
    return answer.choices[0].message.content


def chat_stream(gateway: GatewayProcess, key: str, model: str) -> str:
    with openai_client(gateway, key).chat.completions.stream(
        model=model,
        messages=[{"role": "user", "content": HELLO}],
        stream_options={"include_usage": True},
    ) as stream:
        final = stream.get_final_completion()
    assert final.usage is not None
    return final.choices[0].message.content or ""


def responses(gateway: GatewayProcess, key: str, model: str) -> str:
    return openai_client(gateway, key).responses.create(model=model, input=HELLO).output_text


def responses_stream(gateway: GatewayProcess, key: str, model: str) -> str:
    with openai_client(gateway, key).responses.stream(model=model, input=HELLO) as stream:
        return stream.get_final_response().output_text


def messages(gateway: GatewayProcess, key: str, model: str) -> str:
    answer = anthropic_client(gateway, key).messages.create(
        model=model, max_tokens=100, messages=[{"role": "user", "content": HELLO}]
    )
    return "".join(block.text for block in answer.content if block.type == "text")


def messages_stream(gateway: GatewayProcess, key: str, model: str) -> str:
    with anthropic_client(gateway, key).messages.stream(
        model=model, max_tokens=100, messages=[{"role": "user", "content": HELLO}]
    ) as stream:
        return stream.get_final_text()


def content(gateway: GatewayProcess, key: str, model: str) -> str | None:
    return gemini_client(gateway.url, key).models.generate_content(model=model, contents=HELLO).text


def content_stream(gateway: GatewayProcess, key: str, model: str) -> str:
    pieces = gemini_client(gateway.url, key).models.generate_content_stream(model=model, contents=HELLO)
    return "".join(piece.text or "" for piece in pieces)


CALLS = [
    pytest.param(chat, ["gpt-1", "fast", "main/gpt-2"], id="chat"),
    pytest.param(chat_stream, ["gpt-1", "fast", "main/gpt-2"], id="chat stream"),
    pytest.param(responses, ["gpt-1", "fast", "main/gpt-2"], id="responses"),
    pytest.param(responses_stream, ["gpt-1", "fast", "main/gpt-2"], id="responses stream"),
    pytest.param(messages, ["claude-1", "smart", "claude/claude-2"], id="messages"),
    pytest.param(messages_stream, ["claude-1", "smart", "claude/claude-2"], id="messages stream"),
    pytest.param(content, ["gemini-1", "quick", "gem/gemini-2"], id="content"),
    pytest.param(content_stream, ["gemini-1", "quick", "gem/gemini-2"], id="content stream"),
]


@pytest.mark.parametrize(("call", "models"), CALLS)
def test_an_sdk_completes_under_every_way_to_name_a_model(
    gateway: GatewayProcess, edge_key: str, call: Callable[[GatewayProcess, str, str], str], models: list[str]
) -> None:
    assert [call(gateway, edge_key, model) for model in models] == [REPLY] * len(models)


async def many_chats(gateway: GatewayProcess, key: str) -> list[str]:
    client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)

    async def one(number: int) -> str:
        stream = await client.chat.completions.create(
            model="fast", messages=[{"role": "user", "content": f"number {number}"}], stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async with client:
        return await asyncio.gather(*(one(number) for number in range(MANY)))


async def many_messages(gateway: GatewayProcess, key: str) -> list[str]:
    client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key=key, max_retries=0)

    async def one(number: int) -> str:
        async with client.messages.stream(
            model="smart", max_tokens=99, messages=[{"role": "user", "content": f"number {number}"}]
        ) as stream:
            return await stream.get_final_text()

    async with client:
        return await asyncio.gather(*(one(number) for number in range(MANY)))


async def many_contents(gateway: GatewayProcess, key: str) -> list[str]:
    client = genai.Client(api_key=key, http_options={"base_url": gateway.url})

    async def one(number: int) -> str:
        stream = await client.aio.models.generate_content_stream(model="quick", contents=f"number {number}")
        return "".join([piece.text or "" async for piece in stream])

    try:
        return await asyncio.gather(*(one(number) for number in range(MANY)))
    finally:
        await client.aio.aclose()


async def many_whole_chats(gateway: GatewayProcess, key: str) -> list[str]:
    client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)

    async def one(number: int) -> str:
        answer = await client.chat.completions.create(
            model="fast", messages=[{"role": "user", "content": f"number {number}"}]
        )
        return answer.choices[0].message.content or ""

    async with client:
        return await asyncio.gather(*(one(number) for number in range(MANY)))


async def many_whole_messages(gateway: GatewayProcess, key: str) -> list[str]:
    client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key=key, max_retries=0)

    async def one(number: int) -> str:
        answer = await client.messages.create(
            model="smart", max_tokens=99, messages=[{"role": "user", "content": f"number {number}"}]
        )
        return "".join(block.text for block in answer.content if block.type == "text")

    async with client:
        return await asyncio.gather(*(one(number) for number in range(MANY)))


async def many_whole_contents(gateway: GatewayProcess, key: str) -> list[str]:
    client = genai.Client(api_key=key, http_options={"base_url": gateway.url})

    async def one(number: int) -> str:
        answer = await client.aio.models.generate_content(model="quick", contents=f"number {number}")
        return answer.text or ""

    try:
        return await asyncio.gather(*(one(number) for number in range(MANY)))
    finally:
        await client.aio.aclose()


@pytest.mark.parametrize(
    "many",
    [many_chats, many_messages, many_contents, many_whole_chats, many_whole_messages, many_whole_contents],
)
def test_64_at_a_time_each_get_their_own_answer(
    gateway: GatewayProcess, edge_key: str, many: Callable[[GatewayProcess, str], Awaitable[list[str]]]
) -> None:
    async def run() -> list[str]:
        return await many(gateway, edge_key)

    assert asyncio.run(run()) == [f"You said: number {number}" for number in range(MANY)]


def test_each_sdk_lists_the_catalog(gateway: GatewayProcess, edge_key: str) -> None:
    expected = ["fast", "smart", "quick", "main/gpt-fast", "claude/claude-smart", "gem/gemini-quick"]
    expected.append("main/gpt-listed")
    assert [model.id for model in openai_client(gateway, edge_key).models.list()] == expected
    listed = [model.id for model in anthropic_client(gateway, edge_key).models.list(limit=2)]
    assert listed[: len(expected)] == expected
    assert all(name.startswith("claude/") for name in listed[len(expected) :])  # its provider's own list
    gemini = gemini_client(gateway.url, edge_key)
    names = [model.name for model in gemini.models.list(config={"page_size": 3})]
    assert names == [f"models/{name}" for name in expected]


def test_each_sdk_retrieves_one_model(gateway: GatewayProcess, edge_key: str) -> None:
    assert openai_client(gateway, edge_key).models.retrieve("main/any").id == "main/any"
    assert anthropic_client(gateway, edge_key).models.retrieve("smart").id == "smart"
    assert gemini_client(gateway.url, edge_key).models.get(model="quick").name == "models/quick"


def test_embeddings_moderations_and_counts_pass(gateway: GatewayProcess, edge_key: str) -> None:
    client = openai_client(gateway, edge_key)
    assert len(client.embeddings.create(model="fast", input="x", dimensions=8).data[0].embedding) == 8
    assert client.moderations.create(input="x").results
    assert client.completions.create(model="fast", prompt="x").choices[0].text
    counted = anthropic_client(gateway, edge_key).messages.count_tokens(
        model="smart", messages=[{"role": "user", "content": HELLO}]
    )
    assert counted.input_tokens > 0
    gemini = gemini_client(gateway.url, edge_key)
    assert gemini.models.count_tokens(model="quick", contents=HELLO).total_tokens
    assert gemini.models.embed_content(model="quick", contents=[HELLO, "b"]).embeddings


def test_a_wrong_edge_key_is_each_sdks_authentication_error(gateway: GatewayProcess) -> None:
    with pytest.raises(openai.AuthenticationError) as by_openai:
        chat(gateway, "wrong-canary", "fast")
    assert by_openai.value.code == "invalid_api_key"
    with pytest.raises(anthropic.AuthenticationError):
        messages(gateway, "wrong-canary", "smart")
    with pytest.raises(genai_errors.ClientError) as by_gemini:
        content(gateway, "wrong-canary", "quick")
    assert (by_gemini.value.code, by_gemini.value.status) == (401, "UNAUTHENTICATED")


def test_a_route_that_is_not_translated_is_refused_in_the_clients_dialect(
    gateway: GatewayProcess, edge_key: str
) -> None:
    with pytest.raises(openai.BadRequestError) as by_openai:
        openai_client(gateway, edge_key).responses.create(model="smart", input="hello")
    assert by_openai.value.code == "unsupported_provider_capability"
    client = gemini_client(gateway.url, edge_key)
    with pytest.raises(genai_errors.ClientError) as by_gemini:
        client.models.embed_content(model="main/text-embedding-3", contents="hello")
    assert (by_gemini.value.code, by_gemini.value.status) == (400, "INVALID_ARGUMENT")


def test_an_unknown_entry_of_the_catalog_is_not_found_in_each_dialect(
    gateway: GatewayProcess, edge_key: str
) -> None:
    with pytest.raises(openai.NotFoundError):
        openai_client(gateway, edge_key).models.retrieve("nobody")
    with pytest.raises(anthropic.NotFoundError):
        anthropic_client(gateway, edge_key).models.retrieve("nobody")
    with pytest.raises(genai_errors.ClientError) as by_gemini:
        gemini_client(gateway.url, edge_key).models.get(model="nobody")
    assert by_gemini.value.code == 404


def test_an_upstreams_own_errors_arrive_as_the_sdks_exceptions(
    gateway: GatewayProcess, edge_key: str
) -> None:
    with pytest.raises(openai.RateLimitError):
        chat(gateway, edge_key, "sim-status-429")
    with pytest.raises(anthropic.NotFoundError):
        messages(gateway, edge_key, "missing-model")
    with pytest.raises(genai_errors.ServerError):
        content(gateway, edge_key, "sim-status-503")


def test_the_upstream_sees_the_providers_key_and_never_the_edge_key(
    simulator: SimulatorProcess, gateway: GatewayProcess, edge_key: str
) -> None:
    simulator.clear()
    chat(gateway, edge_key, "fast")
    messages(gateway, edge_key, "smart")
    content(gateway, edge_key, "quick")
    by_openai, by_anthropic, by_gemini = simulator.requests()
    assert by_openai.value("authorization") == "Bearer sk-canary-openai"
    assert by_anthropic.value("x-api-key") == "sk-ant-canary"
    assert by_gemini.value("x-goog-api-key") == "AIza-canary"
    for request in (by_openai, by_anthropic, by_gemini):
        assert edge_key not in repr(request)
