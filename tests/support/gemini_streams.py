"""Streams written for Google's clients, and their chunks."""

from __future__ import annotations

import json
from typing import Any, Final

from mgw.canonical.conversation import Signature
from mgw.canonical.reply import ReplyEvent
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.gemini import CLIENT
from mgw.dialects.gemini.options import ContentReplyOptions
from mgw.dialects.stream import StreamWriter
from mgw.nouns.vocabulary import Family

Json = dict[str, Any]
SSE: Final = ReplyContext("req_1", "gpt", 0)
ARRAY: Final = ReplyContext("req_1", "gpt", 0, ContentReplyOptions(in_array=True))
FOREIGN: Final = Signature(Family.ANTHROPIC, "c2ln")


def writer(answering: ReplyContext = SSE) -> StreamWriter:
    return CLIENT.stream_writer(answering)


def whole(*events: ReplyEvent, answering: ReplyContext = SSE) -> bytes:
    one = writer(answering)
    return one.write(events) + one.finish()


def chunks_of(data: bytes) -> list[Json]:
    if data.startswith(b"["):
        found: list[Json] = json.loads(data)
        return found
    *events, rest = data.split(b"\n\n")
    assert rest == b""
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return [json.loads(event[6:]) for event in events]


def candidates_of(*events: ReplyEvent) -> list[Json]:
    return [candidate for one in chunks_of(whole(*events)) for candidate in one["candidates"]]


def parts_of(*events: ReplyEvent) -> list[Json]:
    return [part for candidate in candidates_of(*events) for part in candidate["content"]["parts"]]
