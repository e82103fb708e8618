"""Many translated streams at a time, and streams that are silent for a while."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable
from typing import Final

import anthropic
import openai
import pytest
from google import genai

from tests.support.all_kinds import KEY, PAIRS, all_kinds, event_of, unlike
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import (
    Asking,
    ChatConversation,
    ContentConversation,
    MessagesConversation,
)
from tests.support.waiting import WAIT_SECONDS

ConversationClass = type[ChatConversation] | type[MessagesConversation] | type[ContentConversation]

MANY: Final = 64
KEEPALIVE: Final = "stream_keepalive: {interval: 0.02}\n"


pytestmark = [
    pytest.mark.gateway_config(make=lambda url: all_kinds(url) + KEEPALIVE),
]


async def many_chats(url: str, model: str) -> list[str]:
    async def one(number: int) -> str:
        async with client.chat.completions.stream(
            model=model, messages=[{"role": "user", "content": f"number {number}"}]
        ) as stream:
            return (await stream.get_final_completion()).choices[0].message.content or ""

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        return await asyncio.gather(*(one(number) for number in range(MANY)))


async def many_messages(url: str, model: str) -> list[str]:
    async def one(number: int) -> str:
        async with client.messages.stream(
            model=model, max_tokens=99, messages=[{"role": "user", "content": f"number {number}"}]
        ) as stream:
            return await stream.get_final_text()

    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        return await asyncio.gather(*(one(number) for number in range(MANY)))


async def many_contents(url: str, model: str) -> list[str]:
    async def one(number: int) -> str:
        stream = await client.aio.models.generate_content_stream(model=model, contents=f"number {number}")
        return "".join([piece.text or "" async for piece in stream])

    client = genai.Client(api_key=KEY, http_options={"base_url": url})
    try:
        return await asyncio.gather(*(one(number) for number in range(MANY)))
    finally:
        await client.aio.aclose()


@pytest.mark.parametrize(
    ("many", "model"),
    [
        (many_chats, "claude/claude-sonnet-5"),
        (many_chats, "gem/gemini-3-pro"),
        (many_messages, "main/gpt-5"),
        (many_messages, "gem/gemini-3-pro"),
        (many_contents, "main/gpt-5"),
        (many_contents, "claude/claude-sonnet-5"),
    ],
)
def test_64_streams_at_a_time_each_get_their_own_answer(
    gateway: GatewayProcess, many: Callable[[str, str], Awaitable[list[str]]], model: str
) -> None:
    async def run() -> list[str]:
        return await many(gateway.url, f"{model}+sim-chunk-delay-2")

    assert asyncio.run(run()) == [f"You said: number {number}" for number in range(MANY)]


@pytest.mark.parametrize(("conversation_class", "model"), PAIRS)
def test_signs_of_life_in_a_silent_stream_are_no_part_of_the_answer(
    gateway: GatewayProcess, conversation_class: ConversationClass, model: str
) -> None:
    """Each of its pieces is late by three intervals."""
    asked = unlike(f"{model}+sim-chunk-delay-70")
    conversation = conversation_class(gateway.url, KEY, asked, Asking())
    conversation.add_user("hi")
    assert conversation.answer(stream=True).text == "You said: hi"
    assert event_of(gateway, asked)["status"] == "ok"


@pytest.mark.parametrize(
    ("path", "model", "sign"),
    [
        ("/v1/chat/completions", "claude/claude-sonnet-5", b"\n\n:"),
        ("/v1/messages", "main/gpt-5", b"event: ping\n"),
        ("/v1beta/models/{}:streamGenerateContent?alt=sse", "main/gpt-5", b"\n\n\n"),
        ("/v1beta/models/{}:streamGenerateContent", "main/gpt-5", b"\n"),
    ],
    ids=["chat", "messages", "content events", "content array"],
)
def test_a_silent_stream_shows_signs_of_life(
    gateway: GatewayProcess, path: str, model: str, sign: bytes
) -> None:
    asked = f"{model}+sim-stall-body-after-3"
    turn = {"role": "user", "content": "hi", "parts": [{"text": "hi"}]}
    body: dict[str, object] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    if "models" not in path:
        body = {"model": asked, "max_tokens": 99, "stream": True, "messages": [turn]}
        del turn["parts"]
    headers = {"content-type": "application/json", "x-api-key": KEY, "anthropic-version": "2023-06-01"}
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
    connection.request("POST", path.format(asked), json.dumps(body), headers)
    answer = connection.getresponse()
    seen = b""
    while seen.count(sign) < 3:
        seen += answer.read1(1000)
    connection.close()
