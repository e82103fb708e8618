"""The signature of an image that Gemini made comes back with it, through every client that keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import RenderOptions, ReplyContext, ReplySource, RequestContext
from mgw.dialects.models import Models
from mgw.dialects.signatures import SKIP_VALIDATOR
from mgw.nouns.vocabulary import DialectName, Family, Kind
from mgw_sim.gemini.conversation import check_image_signatures

CHAT, RESPONSES = DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES
GEMINI = provider_side_of(DialectName.GEMINI)
MODEL = "gemini-3-pro-image-preview"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SIGNED = "SU1HU0lH"
PARTS = [
    {"text": "Here:"},
    {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": SIGNED},
]
ANSWER = {"candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP", "index": 0}]}
CONTEXT = ReplyContext("req_1", "m", 0)


def whole(client: DialectName) -> Any:
    reply = GEMINI.text.parse_reply(json.dumps(ANSWER).encode(), ReplySource("seed"))
    return json.loads(client_side_of(client).text.render_reply(reply, CONTEXT))


def streamed(client: DialectName) -> list[Any]:
    reader, writer = GEMINI.stream_reader("seed"), client_side_of(client).stream_writer(CONTEXT)
    events = reader.feed(b"data: %b\n\n" % json.dumps(ANSWER).encode()) + reader.finish()
    out = writer.write(events) + writer.finish()
    return [json.loads(line[6:]) for line in out.split(b"\n") if line.startswith(b"data: {")]


def sent(client: DialectName, body: dict[str, Any], model: str = MODEL) -> list[dict[str, Any]]:
    """The parts of the model's turns as Gemini gets them."""
    parsed = client_side_of(client).text.parse_request(json.dumps(body).encode(), RequestContext("m"))
    row = Models(()).row(model, Family.GEMINI)
    rendered = GEMINI.text.render_request(parsed.request, RenderOptions(model, Kind.GEMINI, row))
    contents = json.loads(rendered.body)["contents"]
    if row.signatures:
        check_image_signatures(contents)
    return [part for content in contents if content["role"] == "model" for part in content["parts"]]


def signatures(parts: list[dict[str, Any]]) -> list[str | None]:
    return [part.get("thoughtSignature") for part in parts if "inlineData" in part]


def chat_body(message: dict[str, Any]) -> dict[str, Any]:
    user = {"role": "user", "content": "bluer"}
    return {"model": "m", "messages": [user, {"role": "assistant", **message}, user]}


def responses_body(output: list[Any]) -> dict[str, Any]:
    user = {"role": "user", "content": "bluer"}
    return {"model": "m", "input": [user, *output, user]}


def test_it_comes_back_through_chat_whole() -> None:
    message = whole(CHAT)["choices"][0]["message"]
    assert SIGNED in json.dumps(message["images"])
    assert signatures(sent(CHAT, chat_body(message))) == [SIGNED]


def test_it_comes_back_through_chat_streamed() -> None:
    deltas = [choice["delta"] for chunk in streamed(CHAT) for choice in chunk["choices"]]
    images = [image for delta in deltas for image in delta.get("images", ())]
    assert signatures(sent(CHAT, chat_body({"content": "Here:", "images": images}))) == [SIGNED]


def test_it_comes_back_through_responses_whole_and_streamed() -> None:
    output = whole(RESPONSES)["output"]
    assert [item["type"] for item in output] == ["message", "reasoning", "image_generation_call"]
    assert signatures(sent(RESPONSES, responses_body(output))) == [SIGNED]
    output = streamed(RESPONSES)[-1]["response"]["output"]
    assert signatures(sent(RESPONSES, responses_body(output))) == [SIGNED]


@pytest.mark.parametrize(("model", "skips"), [(MODEL, True), ("gemini-2.5-flash-image", False)])
def test_an_image_without_one_gets_the_value_that_skips_the_check(model: str, skips: bool) -> None:
    expected = [SKIP_VALIDATOR if skips else None]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert signatures(sent(CHAT, chat_body({"content": "Here:", "images": [image]}), model)) == expected
    call = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
    assert signatures(sent(RESPONSES, responses_body([call]), model)) == expected
