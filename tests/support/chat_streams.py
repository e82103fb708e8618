"""Streams and whole responses of providers that speak chat completions, and what is read from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from mgw.canonical.conversation import Signature
from mgw.canonical.reply import Candidate, Reply, ReplyEvent
from mgw.dialects.dialect import ReplySource
from mgw.dialects.openai.reply import collect_candidate, parse_reply
from mgw.dialects.openai.stream_reader import ChatStreamReader
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family

Json = Any  # Any: JSON as a host writes it

UNSIGNED = Signature(Family.OPENAI, "")
DONE = b"data: [DONE]\n\n"


def sse(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: Json = None, finish: str | None = None, index: int = 0, **fields: Json) -> bytes:
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    frame = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1"}
    return sse({**frame, "choices": [choice], **fields})


def call(index: int | None, call_id: str | None, name: str | None, arguments: Json = "") -> Json:
    found: Json = {"function": {"arguments": arguments}}
    if name is not None:
        found["function"]["name"] = name
    if call_id is not None:
        found["id"] = call_id
    if index is not None:
        found["index"] = index
    return found


def read(*pieces: bytes) -> list[ReplyEvent]:
    reader = ChatStreamReader("seed")
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def answer(*deltas: Json, finish: str = "stop") -> Candidate:
    return collect_candidate(read(*map(chunk, deltas), chunk(finish=finish), DONE))


def whole(message: Json, finish: str = "stop", **fields: Json) -> Reply:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return parse_reply(
        json.dumps({"id": "c1", "model": "m1", "choices": [choice], **fields}).encode(), ReplySource("seed")
    )


def broken(data: bytes) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        parse_reply(data, ReplySource("seed"))
    assert caught.value.reason is Reason.UPSTREAM_BROKEN
    return caught.value


text = st.text(max_size=3)
odd = st.none() | st.booleans() | st.integers(-2, 200) | text
functions = st.fixed_dictionaries(
    {},
    optional={"name": st.sampled_from(["f", ""]), "arguments": st.sampled_from(["{", "}", '{"a":1}', "\\"])},
)
tool_calls = st.fixed_dictionaries(
    {"function": functions | odd},
    optional={"index": st.integers(0, 2) | odd, "id": st.sampled_from(["1", "2"]) | odd, "type": odd},
)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": text | odd | st.lists(st.fixed_dictionaries({"text": odd}), max_size=2),
        "reasoning_content": text | odd,
        "reasoning": text | odd,
        "reasoning_details": st.lists(
            st.fixed_dictionaries(
                {}, optional={"type": odd | st.just("reasoning.encrypted"), "index": odd, "text": odd}
            ),
            max_size=2,
        )
        | odd,
        "refusal": text | odd,
        "tool_calls": st.lists(tool_calls | odd, max_size=3) | odd,
        "function_call": functions | odd,
        "annotations": st.lists(odd, max_size=1) | odd,
        "images": st.lists(st.fixed_dictionaries({"image_url": odd}) | odd, max_size=1) | odd,
        "extra_content": st.fixed_dictionaries({"google": odd}) | odd,
    },
)
