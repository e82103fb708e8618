"""What OpenAI's own client makes of translated answers, from the bytes on."""

from __future__ import annotations

import httpx2
import openai
import pytest
from pydantic import BaseModel

from mgw.canonical.conversation import Signature, Text, Thinking, ToolCall
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import Candidate, Reply, StopReason, TextAdded, TokenUsage, UpstreamError
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.dialects.openai.reply import render_reply
from mgw.dialects.openai.stream_writer import ChatStreamWriter
from mgw.nouns.vocabulary import Family

ANSWERING = ReplyContext("req_1", "m", 1_770_000_000, ChatReplyOptions(include_usage=True))
PARTS = (
    Thinking("hm", Signature(Family.ANTHROPIC, "c2ln")),
    Text('{"number":'),
    Text("7}"),
    ToolCall("call_1", "f", '{"a":1}', Signature(Family.GEMINI, "c2ln")),
    ToolCall("call_2", "f", ""),
)
REPLY = Reply((Candidate(PARTS, StopReason.TOOL_USE),), "msg_1", "m-1", TokenUsage(10, 5, 3, 1, 2))


class Number(BaseModel):
    number: int


def client(body: bytes, content_type: str) -> openai.OpenAI:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": content_type})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="k", base_url="http://gateway/v1", http_client=transport)


def streamed(reply: Reply) -> bytes:
    writer = ChatStreamWriter(ANSWERING)
    return writer.keepalive() + writer.write(replay_reply(reply)) + writer.finish()


def test_a_whole_answer_is_parsed_into_the_users_own_type() -> None:
    with client(render_reply(REPLY, ANSWERING), "application/json") as sdk:
        found = sdk.chat.completions.parse(
            model="m", messages=[{"role": "user", "content": "q"}], response_format=Number
        )
    message = found.choices[0].message
    assert message.parsed == Number(number=7)
    assert [call.function.arguments for call in message.tool_calls or []] == ['{"a":1}', "{}"]
    assert found.usage is not None
    assert found.usage.total_tokens == 15


def test_the_clients_stream_adds_up_to_the_same() -> None:
    with (
        client(streamed(REPLY), "text/event-stream") as sdk,
        sdk.chat.completions.stream(
            model="m", messages=[{"role": "user", "content": "q"}], response_format=Number
        ) as stream,
    ):
        found = stream.get_final_completion()
    message = found.choices[0].message
    assert message.parsed == Number(number=7)
    assert (message.model_extra or {})["reasoning_content"] == "hm"
    assert [call.id for call in message.tool_calls or []] == ["call_1", "call_2"]
    assert found.choices[0].finish_reason == "tool_calls"
    assert found.usage is not None
    assert found.usage.prompt_tokens_details is not None
    assert found.usage.prompt_tokens_details.cached_tokens == 3


def test_a_broken_stream_raises_in_the_client() -> None:
    writer = ChatStreamWriter(ANSWERING)
    body = writer.write([TextAdded("half")]) + writer.fail(UpstreamError(500, "it broke"))
    with client(body, "text/event-stream") as sdk:
        stream = sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "q"}], stream=True
        )
        with pytest.raises(openai.APIError, match="it broke"):
            list(stream)
