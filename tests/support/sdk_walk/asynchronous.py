"""A sample of the asynchronous clients: their requests are those of the others, sent by other code."""

from __future__ import annotations

import io
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import anthropic
import openai
from google import genai

from tests.support.sdk_walk.arguments import FILE, MODEL

Sample = Callable[[str, str], Coroutine[Any, Any, None]]


async def _openai(origin: str, key: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{origin}/v1", api_key=key, max_retries=0) as client:
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}])
        async with client.responses.stream(model=MODEL, input="Hello"):
            pass
        await client.files.create(file=FILE, purpose="assistants")
        await client.vector_stores.list(limit=7)


async def _anthropic(origin: str, key: str) -> None:
    async with anthropic.AsyncAnthropic(base_url=origin, api_key=key, max_retries=0) as client:
        await client.messages.create(
            model=MODEL, max_tokens=7, messages=[{"role": "user", "content": "Hello"}]
        )
        await client.files.upload(file=FILE)
        await client.messages.batches.results("batch_1")


async def _gemini(origin: str, key: str) -> None:
    client = genai.Client(api_key=key, http_options={"base_url": origin}).aio
    await client.models.generate_content(model=MODEL, contents="Hello")
    await client.files.upload(file=io.BytesIO(FILE[1]), config={"mime_type": "text/plain"})
    await client.interactions.create(model=MODEL, input="Hello")
    await client.aclose()


SAMPLES: Final[Mapping[str, Sample]] = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}
"""By SDK; takes an origin and a key."""
