"""Messages, whole and streamed.

Sources: ``anthropic.types`` (``Message``, ``RawMessageStreamEvent``, ``SignatureDelta``), ``_streaming.py``
of the SDK, and the reference of streaming messages: ``message_start``, then each block with its start, its
deltas and its stop, then one or more ``message_delta``, then ``message_stop``; a ``ping`` anywhere before
that, and an ``error`` in place of what would follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.grammar.shape import (
    Json,
    a_count,
    a_list,
    a_text,
    an_object,
    load,
    needs,
    one_of,
    require,
)
from tests.support.grammar.sse import Record, records_of

STOPS: Final = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
)
_CUT: Final = ("max_tokens", "model_context_window_exceeded", "refusal", "pause_turn")
"""The stops at which a block may be cut in its middle."""
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FRAME: Final = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage")
_EMPTY: Final[dict[str, Json]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "redacted_thinking": {},
    "tool_use": {"input": {}},
}
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "citations_delta": ("text", "citation"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""Of each delta, the type of its block and the key of what it adds."""


@dataclass(slots=True)
class _Block:
    """A block of a stream, as far as it has come."""

    kind: str
    where: str
    text: str = ""
    signatures: int = 0


@dataclass(slots=True)
class _Stream:
    """What has come of a stream."""

    blocks: list[_Block] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    is_open: bool = False
    begun: bool = False
    stop: str | None = None
    ended: bool = False
    failed: bool = False


def check_messages_stream(data: bytes, *, broken: bool = False) -> None:
    """Check a stream of a message; a ``broken`` one must end with an ``error`` event."""
    stream = _Stream()
    for record in records_of(data):
        event = _event(record)
        require(not stream.ended, record.where, f"{event['type']} after message_stop")
        require(not stream.failed, record.where, f"{event['type']} after the error")
        kind = event["type"]
        require(kind in _EVENTS, record.where, f"an event that nobody knows: {kind}")
        _EVENTS[kind](stream, event, record.where)
    require(stream.failed is broken, "the end", "the stream broke" if stream.failed else "no error shown")
    require(stream.ended is not broken, "the end", "message_stop is missing")
    if not broken:
        _check_cut(stream)


def _event(record: Record) -> Json:
    where = record.where
    require(not record.comments, where, "a comment; keep-alives are pings here")
    require(record.event is not None and len(record.data) == 1, where, "must be one event and one data line")
    event = an_object(load(record.data[0], where), where)
    a_text(event.get("type"), f"{where} type")
    require(event["type"] == record.event, where, f"event {record.event} with data of {event['type']}")
    return event


def _start(stream: _Stream, event: Json, where: str) -> None:
    require(not stream.begun, where, "a second message_start")
    stream.begun = True
    message = an_object(event.get("message"), f"{where} message")
    _frame(message, f"{where} message")
    require(message["content"] == [], where, "content must be empty in message_start")
    for key in ("stop_reason", "stop_sequence"):
        require(message[key] is None, where, f"{key} must be null in message_start")


def _block_start(stream: _Stream, event: Json, where: str) -> None:
    require(stream.begun, where, "a block before message_start")
    require(stream.stop is None, where, "a block after message_delta")
    require(not stream.is_open, where, "the last block is still open")
    index = a_count(event.get("index"), f"{where} index")
    require(index == len(stream.blocks), where, f"block {index} where {len(stream.blocks)} must come")
    block = an_object(event.get("content_block"), f"{where} content_block")
    kind = one_of(block.get("type"), _EMPTY, f"{where} content_block.type")
    for key, value in _EMPTY[kind].items():
        require(block.get(key) == value, where, f"{key} of a {kind} block must start as {value!r}")
    if kind == "tool_use":
        stream.ids.append(_call(block, where))
        require(len(set(stream.ids)) == len(stream.ids), where, f"two calls with the id {block['id']}")
    elif kind == "redacted_thinking":
        a_text(block.get("data"), f"{where} data", empty=False)
    stream.blocks.append(_Block(kind, f"{where} block {index}"))
    stream.is_open = True


def _block_delta(stream: _Stream, event: Json, where: str) -> None:
    block = _open_block(stream, event, where)
    delta = an_object(event.get("delta"), f"{where} delta")
    kind = one_of(delta.get("type"), _DELTAS, f"{where} delta.type")
    wanted, key = _DELTAS[kind]
    require(block.kind == wanted, where, f"{kind} in a block of type {block.kind}")
    require(not block.signatures, where, "a delta after the signature")
    if kind == "citations_delta":
        an_object(delta.get(key), f"{where} {key}")
        return
    added = a_text(delta.get(key), f"{where} {key}", empty=kind != "signature_delta")
    if kind == "signature_delta":
        block.signatures += 1
    else:
        block.text += added


def _block_stop(stream: _Stream, event: Json, where: str) -> None:
    block = _open_block(stream, event, where)
    require(block.kind != "text" or block.text, where, "an empty text block, which no request may send back")
    stream.is_open = False


def _open_block(stream: _Stream, event: Json, where: str) -> _Block:
    require(stream.is_open, where, "no block is open")
    index = a_count(event.get("index"), f"{where} index")
    require(index == len(stream.blocks) - 1, where, f"block {index}, though {len(stream.blocks) - 1} is open")
    return stream.blocks[-1]


def _delta(stream: _Stream, event: Json, where: str) -> None:
    require(stream.begun, where, "message_delta before message_start")
    require(not stream.is_open, where, "message_delta within a block")
    delta = an_object(event.get("delta"), f"{where} delta")
    needs(delta, ("stop_reason", "stop_sequence"), f"{where} delta")
    usage = an_object(event.get("usage"), f"{where} usage")
    needs(usage, ("output_tokens",), f"{where} usage")
    _usage({"input_tokens": 0, **_stated(usage)}, f"{where} usage")
    if delta["stop_reason"] is not None:
        require(stream.stop is None, where, "a second stop_reason")
        stream.stop = _stop(delta, [block.kind for block in stream.blocks], where)


def _stated(usage: Json) -> Json:
    return {key: value for key, value in usage.items() if value is not None}


def _end(stream: _Stream, event: Json, where: str) -> None:
    require(stream.stop is not None, where, "message_stop before a stop_reason")
    stream.ended = True


def _ping(stream: _Stream, event: Json, where: str) -> None:
    """A ping may stand anywhere and says nothing."""


def _error(stream: _Stream, event: Json, where: str) -> None:
    check_error(event, where)
    stream.failed = True


_EVENTS: Final = {
    "message_start": _start,
    "content_block_start": _block_start,
    "content_block_delta": _block_delta,
    "content_block_stop": _block_stop,
    "message_delta": _delta,
    "message_stop": _end,
    "ping": _ping,
    "error": _error,
}


def _check_cut(stream: _Stream) -> None:
    """Only the last block may be half a block, and only where the stop says so."""
    for block in stream.blocks:
        if block is stream.blocks[-1] and stream.stop in _CUT:
            continue
        if block.kind == "tool_use" and block.text:
            an_object(load(block.text, f"{block.where} input"), f"{block.where} input")
        elif block.kind == "thinking":
            require(block.signatures == 1, block.where, "a thinking block without its signature")


def _call(block: Json, where: str) -> str:
    a_text(block.get("name"), f"{where} name", empty=False)
    call_id = a_text(block.get("id"), f"{where} id")
    require(_ID.fullmatch(call_id), where, f"an id that the reference does not allow: {call_id!r}")
    return call_id


def _frame(message: Json, where: str) -> None:
    needs(message, _FRAME, where)
    a_text(message["id"], f"{where}.id", empty=False)
    a_text(message["model"], f"{where}.model", empty=False)
    require(message["type"] == "message", where, "type must be message")
    require(message["role"] == "assistant", where, "role must be assistant")
    usage = an_object(message["usage"], f"{where}.usage")
    needs(usage, ("input_tokens", "output_tokens"), f"{where}.usage")
    _usage(usage, f"{where}.usage")


def _usage(usage: Json, where: str) -> None:
    for key in ("input_tokens", "output_tokens"):
        a_count(usage.get(key), f"{where}.{key}")
    for key in ("cache_creation_input_tokens", "cache_read_input_tokens"):
        if usage.get(key) is not None:
            a_count(usage[key], f"{where}.{key}")
    details = usage.get("output_tokens_details")
    if details is not None:
        thought = a_count(an_object(details, where).get("thinking_tokens"), f"{where}.thinking_tokens")
        require(thought <= usage["output_tokens"], where, "thinking_tokens above output_tokens")


def _stop(ending: Json, kinds: list[str], where: str) -> str:
    reason = one_of(ending["stop_reason"], STOPS, f"{where} stop_reason")
    if "tool_use" in kinds:
        require(
            reason in {"tool_use", *_CUT}, where, f"stop_reason {reason} though there is a tool_use block"
        )
    else:
        require(reason != "tool_use", where, "stop_reason tool_use without a tool_use block")
    if reason == "stop_sequence":
        a_text(ending["stop_sequence"], f"{where} stop_sequence", empty=False)
    else:
        require(ending["stop_sequence"] is None, where, "a stop_sequence that did not stop it")
    return reason


def check_error(body: Any, where: str = "the body") -> None:  # Any: JSON as it was found
    """Check an error object, which a refused request and a broken stream have in common."""
    whole = an_object(body, where)
    require(whole.get("type") == "error", where, "type must be error")
    error = an_object(whole.get("error"), f"{where} error")
    a_text(error.get("type"), f"{where} error.type", empty=False)
    a_text(error.get("message"), f"{where} error.message", empty=False)


def check_message(body: bytes) -> None:
    """Check a whole message."""
    where = "the body"
    message = an_object(load(body, where), where)
    _frame(message, where)
    kinds: list[str] = []
    ids: list[str] = []
    for index, value in enumerate(a_list(message["content"], "content")):
        block = an_object(value, f"content[{index}]")
        kinds.append(_whole_block(block, f"content[{index}]"))
        ids += [block["id"]] if kinds[-1] == "tool_use" else []
    require(len(set(ids)) == len(ids), "content", f"two calls have the same id: {ids}")
    _stop(message, kinds, where)


def _whole_block(block: Json, where: str) -> str:
    kind = one_of(block.get("type"), _EMPTY, f"{where}.type")
    if kind == "text":
        a_text(block.get("text"), f"{where}.text", empty=False)
    elif kind == "thinking":
        a_text(block.get("thinking"), f"{where}.thinking")
        a_text(block.get("signature"), f"{where}.signature", empty=False)
    elif kind == "redacted_thinking":
        a_text(block.get("data"), f"{where}.data", empty=False)
    else:
        _call(block, where)
        an_object(block.get("input"), f"{where}.input")
    return kind
