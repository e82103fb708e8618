"""Answers of providers that are asked through Responses: the same items whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from mgw.canonical.reply import Reply, ReplyEvent
from mgw.dialects.dialect import ReplySource
from mgw.dialects.responses.reply import parse_reply
from mgw.dialects.responses.stream_reader import ResponsesStreamReader

Json = Any  # Any: JSON as a host writes it

USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 29,
}


def reasoning(item_id: str, content: str | None, *words: str, kind: str = "summary") -> Json:
    parts = [{"type": f"{kind}_text", "text": text} for text in words]
    item: Json = {"id": item_id, "type": "reasoning", "summary": [], "encrypted_content": content}
    return {**item, ("summary" if kind == "summary" else "content"): parts}


def message(item_id: str, *parts: Json) -> Json:
    content = [output_text(part) if isinstance(part, str) else part for part in parts]
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": content}


def output_text(text: str, annotations: Iterable[Json] = (), logprobs: Iterable[Json] = ()) -> Json:
    shown = {"annotations": list(annotations), "logprobs": list(logprobs)}
    return {"type": "output_text", "text": text, **shown}


def refusal(text: str) -> Json:
    return {"type": "refusal", "refusal": text}


def function_call(item_id: str, call_id: str, name: str, arguments: str) -> Json:
    shown = {"id": item_id, "call_id": call_id, "name": name, "arguments": arguments}
    return {**shown, "type": "function_call", "status": "completed"}


def response(items: list[Json], reason: str | None = None, **fields: Json) -> Json:
    """A whole response; ``reason``: why it is incomplete."""
    details = None if reason is None else {"reason": reason}
    status = "completed" if reason is None else "incomplete"
    shown = {"id": "resp_1", "object": "response", "model": "gpt-1", "status": status, "error": None}
    return {**shown, "incomplete_details": details, "output": items, "usage": USAGE, **fields}


def sse(event: Json, *, named: bool = True) -> bytes:
    name = b"event: " + event["type"].encode() + b"\n" if named else b""
    return name + b"data: " + json.dumps(event).encode() + b"\n\n"


def events_of(
    items: list[Json], reason: str | None = None, *, pieces: int = 2, bare: bool = False
) -> list[Json]:
    """The events of a stream of these items; ``pieces``: of each text, ``bare``: without any deltas."""
    begun = response([], status="in_progress", usage=None)
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(items):
        start = {**item, "status": "in_progress", "content": [], "summary": [], "encrypted_content": None}
        if "arguments" in item:
            start["arguments"] = ""
        events.append({"type": "response.output_item.added", "output_index": place, "item": start})
        if not bare:
            events += ({**event, "output_index": place} for event in _deltas(item, pieces))
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    kind = "response.completed" if reason is None else "response.incomplete"
    return [*events, {"type": kind, "response": response(items, reason)}]


def stream(items: list[Json], reason: str | None = None, *, pieces: int = 2, bare: bool = False) -> bytes:
    return b"".join(map(sse, events_of(items, reason, pieces=pieces, bare=bare)))


def _deltas(item: Json, pieces: int) -> Iterator[Json]:
    for number, part in enumerate(item.get("summary", ())):
        yield {"type": "response.reasoning_summary_part.added", "summary_index": number, "part": part}
        for text in _cut(part["text"], pieces):
            yield {"type": "response.reasoning_summary_text.delta", "summary_index": number, "delta": text}
        yield {"type": "response.reasoning_summary_text.done", "summary_index": number, "text": part["text"]}
    for number, part in enumerate(item.get("content", ())):
        if part["type"] == "refusal":
            yield {"type": "response.refusal.delta", "content_index": number, "delta": part["refusal"]}
            continue
        thinks = part["type"] == "reasoning_text"
        kind = "response.reasoning_text.delta" if thinks else "response.output_text.delta"
        yield {"type": "response.content_part.added", "content_index": number, "part": {**part, "text": ""}}
        for place, text in enumerate(_cut(part["text"], pieces)):
            logprobs = part.get("logprobs", []) if place == 0 else []
            yield {"type": kind, "content_index": number, "delta": text, "logprobs": logprobs}
        for annotation in part.get("annotations", ()):
            yield {"type": "response.output_text.annotation.added", "annotation": annotation}
    for text in _cut(item.get("arguments", ""), pieces):
        yield {"type": "response.function_call_arguments.delta", "delta": text}


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]


def read(*pieces: bytes) -> list[ReplyEvent]:
    reader = ResponsesStreamReader("seed")
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def whole(items: list[Json], reason: str | None = None, **fields: Json) -> Reply:
    return parse_reply(json.dumps(response(items, reason, **fields)).encode(), ReplySource("seed"))
