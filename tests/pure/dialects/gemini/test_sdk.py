"""Google's own SDK on both of its ends: what it sends is understood, what it is sent it understands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx2
import pytest
from google import genai
from google.genai import types
from google.genai.errors import APIError

from mgw.canonical.conversation import Conversation, Media, Signature, Text, Thinking, ToolCall, ToolResult
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import (
    Began,
    Broke,
    Candidate,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.dialect import Parsed, ReplyContext, RequestContext
from mgw.dialects.gemini import CLIENT
from mgw.nouns.vocabulary import Family

ANSWERING: Final = ReplyContext("req_1", "gpt", 0)
SIGNATURE: Final = Signature(Family.ANTHROPIC, "c2ln")
REPLY: Final = Reply(
    (
        Candidate(
            (
                Thinking("Let me see.", SIGNATURE),
                Text("It is blue."),
                ToolCall("1", "look", '{"at":"sky"}'),
                ToolCall("2", "look", '{"at":"sea"}'),
            ),
            StopReason.TOOL_USE,
        ),
    ),
    "r",
    "gpt-x",
    TokenUsage(10, 7, cache_read=2, reasoning=3),
)


class Gateway:
    """Answers as the translation does, and keeps what it was asked."""

    def __init__(self, events: list[ReplyEvent]) -> None:
        self.events = events
        self.asked: list[Parsed[Conversation]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        stream = b":streamGenerateContent" in request.url.raw_path
        asked = RequestContext("m", stream, request.url.query)
        self.asked.append(CLIENT.text.parse_request(request.read(), asked))
        if not stream:
            data = CLIENT.text.render_reply(REPLY, ANSWERING)
            return httpx2.Response(200, content=data, headers={"content-type": "application/json"})
        writer = CLIENT.stream_writer(ANSWERING)
        pieces = [writer.keepalive()]
        for event in self.events:
            pieces += [writer.write([event]), writer.keepalive()]
        data = b"".join([*pieces, writer.finish()])
        return httpx2.Response(200, content=data, headers={"content-type": "text/event-stream"})

    @property
    def conversation(self) -> Conversation:
        """What was asked last."""
        return self.asked[-1].request


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(replay_reply(REPLY))


@pytest.fixture
def client(gateway: Gateway) -> Iterator[genai.Client]:
    http = httpx2.Client(transport=httpx2.MockTransport(gateway))
    with genai.Client(api_key="k", http_options=types.HttpOptions(httpx_client=http)) as client:
        yield client


def look(at: str) -> str:
    """Look at something."""
    return at


def test_what_the_sdk_sends_is_understood_whole(gateway: Gateway, client: genai.Client) -> None:
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        temperature=0.5,
        top_k=40,
        max_output_tokens=100,
        stop_sequences=["END"],
        response_mime_type="application/json",
        response_schema={"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}},
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.HIGH),
        tools=[look],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
        ),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    image = types.Part.from_bytes(data=b"\xfb\xef\xbe", mime_type="image/png")
    client.models.generate_content(model="m", contents=["Look.", image], config=config)
    found = gateway.asked[-1]
    assert found.unread == {"tools[].functionDeclarations[].response_json_schema"}  # what the tool returns
    conversation = found.request
    assert [type(part) for part in conversation.turns[0].parts] == [Text, Media]
    picture = conversation.turns[0].parts[1]
    assert isinstance(picture, Media)
    assert picture.data == "++++"
    assert conversation.system == (Text("Be brief."),)
    assert [tool.name for tool in conversation.tools] == ["look"]
    schema = conversation.tools[0].schema
    assert schema is not None
    assert schema["properties"] == {"at": {"type": "string"}}
    output = conversation.output
    assert output is not None
    assert output.schema is not None
    assert output.schema["properties"] == {"a": {"type": ["string", "null"]}}


def test_a_whole_answer_is_understood(client: genai.Client) -> None:
    found = client.models.generate_content(model="m", contents="Look.")
    assert found.text == "It is blue."
    calls = found.function_calls or []
    assert [(call.id, call.name, call.args) for call in calls] == [
        ("1", "look", {"at": "sky"}),
        ("2", "look", {"at": "sea"}),
    ]
    usage = found.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count) == (10, 4, 17)
    assert (found.model_version, found.response_id) == ("gpt-x", "r")


def test_a_stream_adds_up_to_the_whole_answer(client: genai.Client) -> None:
    chunks = list(client.models.generate_content_stream(model="m", contents="Look."))
    assert "".join(chunk.text or "" for chunk in chunks) == "It is blue."
    calls = [call for chunk in chunks for call in chunk.function_calls or []]
    assert [call.args for call in calls] == [{"at": "sky"}, {"at": "sea"}]
    last = chunks[-1]
    assert last.candidates is not None
    assert last.candidates[0].finish_reason is types.FinishReason.STOP
    assert last.usage_metadata is not None
    assert last.usage_metadata.total_token_count == 17
    assert {(chunk.model_version, chunk.response_id) for chunk in chunks} == {("gpt-x", "r")}


def test_arguments_that_came_in_lines_arrive_as_one(gateway: Gateway, client: genai.Client) -> None:
    call = ToolCall("1", "look", '{\n  "at": "sky",\r\n  "how": ["up"]\n}')
    gateway.events = replay_reply(Reply((Candidate((call,), StopReason.TOOL_USE),)))
    chunks = list(client.models.generate_content_stream(model="m", contents="Look."))
    assert [call.args for chunk in chunks for call in chunk.function_calls or []] == [
        {"at": "sky", "how": ["up"]}
    ]


def answered(part: types.FunctionCall) -> types.Part:
    assert part.name is not None
    return types.Part.from_function_response(name=part.name, response={"result": "seen"})


SENDERS: Final[dict[str, Callable[[Any, Any], list[Any]]]] = {
    "whole": lambda chat, message: [chat.send_message(message)],
    "stream": lambda chat, message: list(chat.send_message_stream(message)),
}


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
def test_a_chat_sends_the_answer_back_as_it_was(
    gateway: Gateway, client: genai.Client, send: Callable[[Any, Any], list[Any]]
) -> None:
    chat = client.chats.create(model="m")
    chunks = send(chat, "Look.")
    calls = [call for chunk in chunks for call in chunk.function_calls or []]
    send(chat, [answered(call) for call in calls])
    _, spoken, results = gateway.conversation.turns
    assert spoken.parts == REPLY.candidates[0].parts
    assert [part.call_id for part in results.parts if isinstance(part, ToolResult)] == ["1", "2"]


def test_a_stream_that_breaks_raises(gateway: Gateway, client: genai.Client) -> None:
    gateway.events = [Began(), TextAdded("a"), Broke(UpstreamError(529, "Overloaded."))]
    texts: list[str | None] = []
    with pytest.raises(APIError) as caught:
        texts.extend(chunk.text for chunk in client.models.generate_content_stream(model="m", contents="a"))
    assert texts == ["a"]
    assert (caught.value.code, caught.value.message) == (503, "Overloaded.")
