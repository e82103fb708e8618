"""Citations keep their places: characters of the text that the client has been sent, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.nouns.vocabulary import DialectName

CONTEXT = ReplyContext("req_1", "m", 0)
CITED = {"type": "web_search_result_location", "url": "https://a.test", "title": "A", "cited_text": "x"}
TEXTS = ["Twelve chârs", "in eight", " and ", "the end."]
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


def blocks(*, call: bool) -> list[dict[str, Any]]:
    """Texts of which the second and the last are cited; with a call before the last but one."""
    found: list[dict[str, Any]] = [{"type": "text", "text": text} for text in TEXTS]
    found[1]["citations"] = [CITED]
    found[3]["citations"] = [CITED | {"url": "https://b.test"}]
    return [*found[:2], CALL, *found[2:]] if call else found


def claude_stream(content: list[dict[str, Any]], *, first: bool) -> bytes:
    """The same as a stream; ``first``: citations come before the text that they are of."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "content": []}}]
    for index, block in enumerate(content):
        deltas = [{"type": "text_delta", "text": piece} for piece in block.get("text", "")]
        cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
        bare = {**block, "text": ""} if "text" in block else block
        bare.pop("citations", None)
        events.append({"type": "content_block_start", "index": index, "content_block": bare})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta}
            for delta in (cited + deltas if first else deltas + cited)
        ]
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def whole(provider: DialectName, client: DialectName, body: bytes) -> dict[str, Any]:
    reply = provider_side_of(provider).text.parse_reply(body, ReplySource("seed"))
    found: dict[str, Any] = json.loads(client_side_of(client).text.render_reply(reply, CONTEXT))
    return found


def streamed(provider: DialectName, client: DialectName, data: bytes) -> list[dict[str, Any]]:
    reader = provider_side_of(provider).stream_reader("seed")
    writer = client_side_of(client).stream_writer(CONTEXT)
    out = writer.write(reader.feed(data)) + writer.write(reader.finish()) + writer.finish()
    lines = [line[6:] for line in out.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def places(annotations: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    cited = [one.get("url_citation", one) for one in annotations]
    return [(one["url"], one["start_index"], one["end_index"]) for one in cited]


IN_ALL = [("https://a.test", 12, 20), ("https://b.test", 25, 33)]
MESSAGE = json.dumps({"type": "message", "content": blocks(call=False), "stop_reason": "end_turn"}).encode()
WITH_CALL = json.dumps({"type": "message", "content": blocks(call=True), "stop_reason": "end_turn"}).encode()
early_and_late = pytest.mark.parametrize("first", [False, True], ids=["behind the text", "before the text"])


def test_chat_whole() -> None:
    for body in (MESSAGE, WITH_CALL):
        message = whole(DialectName.ANTHROPIC, DialectName.OPENAI_CHAT, body)["choices"][0]["message"]
        assert places(message["annotations"]) == IN_ALL
        assert message["content"][12:20] == "in eight"
        assert message["content"][25:33] == "the end."


@early_and_late
@pytest.mark.parametrize("call", [False, True])
def test_chat_streamed(call: bool, first: bool) -> None:
    chunks = streamed(
        DialectName.ANTHROPIC, DialectName.OPENAI_CHAT, claude_stream(blocks(call=call), first=first)
    )
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert places([one for delta in deltas for one in delta.get("annotations", ())]) == IN_ALL


def parts_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for item in response["output"] if item["type"] == "message" for part in item["content"]]


def test_responses_whole() -> None:
    (part,) = parts_of(whole(DialectName.ANTHROPIC, DialectName.OPENAI_RESPONSES, MESSAGE))
    assert places(part["annotations"]) == IN_ALL
    first, second = parts_of(whole(DialectName.ANTHROPIC, DialectName.OPENAI_RESPONSES, WITH_CALL))
    assert places(first["annotations"]) == IN_ALL[:1]
    assert places(second["annotations"]) == [("https://b.test", 5, 13)]
    assert second["text"][5:13] == "the end."


@early_and_late
def test_responses_streamed(first: bool) -> None:
    data = claude_stream(blocks(call=False), first=first)
    events = streamed(DialectName.ANTHROPIC, DialectName.OPENAI_RESPONSES, data)
    added = [one["annotation"] for one in events if one["type"] == "response.output_text.annotation.added"]
    assert places(added) == IN_ALL
    (part,) = parts_of(events[-1]["response"])
    assert places(part["annotations"]) == IN_ALL
    data = claude_stream(blocks(call=True), first=first)
    events = streamed(DialectName.ANTHROPIC, DialectName.OPENAI_RESPONSES, data)
    assert [places(part["annotations"]) for part in parts_of(events[-1]["response"])] == [
        IN_ALL[:1],
        [("https://b.test", 5, 13)],
    ]


def test_gemini_whole() -> None:
    candidate = whole(DialectName.ANTHROPIC, DialectName.GEMINI, MESSAGE)["candidates"][0]
    found = candidate["citationMetadata"]["citationSources"]
    assert [(one["uri"], one["startIndex"], one["endIndex"]) for one in found] == IN_ALL


def test_places_in_a_later_message_of_responses_are_of_the_whole_answer_elsewhere() -> None:
    def message(text: str, url: str, start: int, end: int) -> dict[str, Any]:
        cited = {"type": "url_citation", "url": url, "title": "", "start_index": start, "end_index": end}
        part = {"type": "output_text", "text": text, "annotations": [cited]}
        return {"type": "message", "id": f"msg_{start}", "role": "assistant", "content": [part]}

    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
    first, second = (
        message("".join(TEXTS[:2]), "https://a.test", 12, 20),
        message("".join(TEXTS[2:]), "https://b.test", 5, 13),
    )
    body = json.dumps({"status": "completed", "output": [first, call, second]}).encode()
    chat = whole(DialectName.OPENAI_RESPONSES, DialectName.OPENAI_CHAT, body)["choices"][0]["message"]
    assert places(chat["annotations"]) == IN_ALL
