"""Answers that are no objects, asked of OpenAI through the helpers of the other vendors' SDKs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import pytest
from google import genai
from google.genai import types
from pydantic import BaseModel

from tests.support.pipelines import Pipeline, answered

INNER = '[{"name": "Soup",\n  "minutes": 1e1}, {"name": "}\\"]", "minutes": 2}]'
ANSWER = '{ "value" : ' + INNER + "\n}"


class Recipe(BaseModel):
    name: str
    minutes: float


COOKED = [Recipe(name="Soup", minutes=10), Recipe(name='}"]', minutes=2)]


@dataclass
class Provider:
    """A gateway whose provider, OpenAI, answers what it was asked for, whole or character by character."""

    schemas: list[Any] = field(default_factory=list)  # Any: JSON

    def told(self, raw_path: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Return the client's answer, and its media type."""
        pipeline = Pipeline()
        path, _, query = raw_path.decode().partition("?")
        client, _ = pipeline.ask(path, body, query=query.encode() or None)
        asked = json.loads(pipeline.received()[2])
        self.schemas.append(asked["response_format"]["json_schema"]["schema"])
        if asked.get("stream"):
            pieces = [{"delta": {"content": piece}} for piece in ANSWER]
            ended = {"delta": {}, "finish_reason": "stop"}
            sent = [b"data: %b\n\n" % json.dumps({"choices": [c]}).encode() for c in [*pieces, ended]]
            pipeline.connection.send(
                answered(b"".join([*sent, b"data: [DONE]\n\n"]), content_type=b"text/event-stream")
            )
        else:
            message = {"role": "assistant", "content": ANSWER}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            pipeline.connection.send(answered(json.dumps({"id": "c", "choices": [choice]}).encode()))
        headers = {name.lower(): value for name, value in client.headers}
        return client.body, headers[b"content-type"]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def transport(provider: Provider) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body, content_type = provider.told(request.url.raw_path, request.read())
        return httpx2.Response(200, content=body, headers={"content-type": content_type.decode()})

    return httpx2.Client(transport=httpx2.MockTransport(answer))


@pytest.fixture
def claude(transport: httpx2.Client) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="k", base_url="http://gateway", http_client=transport) as client:
        yield client


@pytest.fixture
def gemini(transport: httpx2.Client) -> Iterator[genai.Client]:
    with genai.Client(api_key="k", http_options=types.HttpOptions(httpx_client=transport)) as client:
        yield client


ASKED: Any = {"model": "fast", "max_tokens": 99, "messages": [{"role": "user", "content": "Cook."}]}


def test_a_list_is_parsed_by_anthropics_helper(provider: Provider, claude: anthropic.Anthropic) -> None:
    found = claude.messages.parse(**ASKED, output_format=list[Recipe])
    assert found.parsed_output == COOKED
    assert [block.text for block in found.content if block.type == "text"] == [INNER]
    assert provider.schemas[0]["type"] == "object"


def test_a_streamed_list_is_parsed_by_anthropics_helper(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(**ASKED, output_format=list[Recipe]) as stream:
        pieces = list(stream.text_stream)
        assert stream.get_final_message().parsed_output == COOKED
    assert "".join(pieces) == INNER
    assert len(pieces) > len(INNER) / 2  # it is not held back


@pytest.mark.parametrize("key", ["response_schema", "response_json_schema"])
def test_a_list_is_parsed_by_googles_helper(provider: Provider, gemini: genai.Client, key: str) -> None:
    schema: Any = list[Recipe] if key == "response_schema" else {"type": "array", "items": {"type": "object"}}
    config = types.GenerateContentConfig(response_mime_type="application/json", **{key: schema})
    found = gemini.models.generate_content(model="main/gpt-b", contents="Cook.", config=config)
    assert found.text == INNER
    assert found.parsed == (COOKED if key == "response_schema" else json.loads(INNER))
    asked = provider.schemas[0]
    assert (asked["type"], asked["properties"]["value"]["type"]) == ("object", "array")
    stream = gemini.models.generate_content_stream(model="main/gpt-b", contents="Cook.", config=config)
    assert "".join(chunk.text or "" for chunk in stream) == INNER
    assert provider.schemas[1] == asked
