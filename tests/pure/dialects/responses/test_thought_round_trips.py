"""What OpenAI encrypted comes back to it through the clients of other families."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import Reply, ReplyEvent
from mgw.dialects import client_side_of
from mgw.dialects.dialect import RenderOptions, ReplyContext, RequestContext
from mgw.dialects.responses.request import render_request
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import DialectName, Effort, Family, Kind
from tests.support.responses_streams import Json, function_call, message, read, reasoning, stream, whole

ROW: Final = ModelRow("*", Family.OPENAI, "-", efforts=(Effort.LOW,), default=Effort.MEDIUM)
OPTIONS: Final = RenderOptions("gpt", Kind.OPENAI, ROW)
ANSWERING: Final = ReplyContext("req_1", "gpt", 1_770_000_000)
CALL: Final = function_call("fc_1", "call_1", "f", '{"a":1}')
OTHER_CALL: Final = function_call("fc_2", "call_2", "f", '{"a":2}')
ANSWERS: Final = {
    "readable": [reasoning("rs_1", "gA+A=", "One.", "Two."), CALL],
    "encrypted": [reasoning("rs_1", "gAAA"), CALL],
    "several calls": [reasoning("rs_1", "gAAA", "One."), message("msg_1", "I look."), CALL, OTHER_CALL],
    "no id": [reasoning("", "gA:A", "Hm"), CALL],
}


def messages_parts(body: bytes) -> list[Json]:
    found: list[Json] = json.loads(body)["content"]
    return found


def gemini_parts(body: bytes) -> list[Json]:
    found: list[Json] = json.loads(body)["candidates"][0]["content"]["parts"]
    return found


def documents(body: bytes) -> list[Json]:
    lines = body.decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def streamed_messages_parts(body: bytes) -> list[Json]:
    """What a messages client makes of a stream."""
    blocks: list[Json] = []
    for event in documents(body):
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            for key, value in event["delta"].items():
                if key == "partial_json":
                    blocks[-1]["json"] = blocks[-1].get("json", "") + value
                elif key != "type":
                    blocks[-1][key] = blocks[-1].get(key, "") + value
    for block in blocks:
        if "json" in block:
            block["input"] = json.loads(block.pop("json"))
    return blocks


def streamed_gemini_parts(body: bytes) -> list[Json]:
    return [
        part
        for chunk in documents(body)
        for candidate in chunk.get("candidates", ())
        for part in candidate.get("content", {}).get("parts", ())
    ]


def messages_request(parts: list[Json]) -> Json:
    results = [
        {"type": "tool_result", "tool_use_id": part["id"], "content": "x"}
        for part in parts
        if part["type"] == "tool_use"
    ]
    turns = [{"role": "assistant", "content": parts}, {"role": "user", "content": results}]
    return {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "q"}, *turns]}


def gemini_request(parts: list[Json]) -> Json:
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [{"functionResponse": {"id": call["id"], "name": "f", "response": {"x": 1}}} for call in calls]
    asked = {"role": "user", "parts": [{"text": "q"}]}
    return {"contents": [asked, {"role": "model", "parts": parts}, {"role": "user", "parts": results}]}


def without_thoughts(parts: list[Json]) -> list[Json]:
    return [part for part in parts if not part.get("thought")]


Whole = Callable[[bytes], list[Json]]
CLIENTS: Final[dict[str, tuple[DialectName, Whole, Whole, Callable[[list[Json]], Json]]]] = {
    "messages": (DialectName.ANTHROPIC, messages_parts, streamed_messages_parts, messages_request),
    "generateContent": (DialectName.GEMINI, gemini_parts, streamed_gemini_parts, gemini_request),
    "generateContent without thoughts": (
        DialectName.GEMINI,
        lambda body: without_thoughts(gemini_parts(body)),
        lambda body: without_thoughts(streamed_gemini_parts(body)),
        gemini_request,
    ),
}


def told(dialect: DialectName, answer: Reply | list[ReplyEvent]) -> bytes:
    client = client_side_of(dialect)
    if isinstance(answer, Reply):
        return client.text.render_reply(answer, ANSWERING)
    writer = client.stream_writer(ANSWERING)
    return writer.write(answer) + writer.finish()


@pytest.mark.parametrize("way", ["whole", "streamed", "replayed"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_the_next_request_has_the_same_reasoning_items(answer: str, client: str, way: str) -> None:
    items = ANSWERS[answer]
    dialect, parts_of_whole, parts_of_stream, request_with = CLIENTS[client]
    if way == "whole":
        parts = parts_of_whole(told(dialect, whole(items)))
    else:
        events = read(stream(items)) if way == "streamed" else replay_reply(whole(items))
        parts = parts_of_stream(told(dialect, events))
    body = json.dumps(request_with(parts)).encode()
    parsed = client_side_of(dialect).text.parse_request(body, RequestContext("m"))
    found = render_request(parsed.request, OPTIONS)
    sent: Any = json.loads(found.body)["input"]
    assert found.thoughts
    assert not found.lost
    kinds = [item["type"] for item in items]
    assert [item["type"] for item in sent[1 : 1 + len(items)]] == kinds
    thought = {key: items[0][key] for key in ("type", "id", "encrypted_content") if items[0][key]}
    assert sent[1] == {**thought, "summary": []}
    calls = [
        (item["call_id"], json.loads(item["arguments"])) for item in sent if item["type"] == "function_call"
    ]
    assert calls == [
        (f"call_{number}", {"a": number}) for number in range(1, 1 + kinds.count("function_call"))
    ]
