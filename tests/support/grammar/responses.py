"""Responses, whole and streamed.

Sources: ``openai.types.responses`` (``Response``, ``ResponseStreamEvent``, ``ResponseOutputItem``), by which
every event is parsed strictly; the accumulator of the SDK (``lib/streaming/responses``); the grammar G1 to
G10 of contract 11.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, get_args

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, ValidationError

from tests.support.grammar.shape import (
    Json,
    a_count,
    a_text,
    an_object,
    load,
    needs,
    one_of,
    require,
)
from tests.support.grammar.sse import Record, records_of

EVENTS_OF_THE_SDK: Final[dict[str, type[BaseModel]]] = {
    kind: model
    for model in get_args(get_args(ResponseStreamEvent)[0])
    for kind in get_args(model.model_fields["type"].annotation)
}
"""By their type: the SDK's own union tries all of its fifty models on each event."""
_BEGINS: Final = ("response.created", "response.in_progress")
_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_SAME: Final = ("id", "object", "created_at", "model")
_FRAME: Final = (*_SAME, "status", "error", "incomplete_details", "output", "usage", "tools", "tool_choice")
_KNOWN_BY_CODEX: Final = "context_length_exceeded"
"""The one code of a failure that clients know and the SDK does not name."""
_TEXTS: Final = {
    "response.output_text": ("message", "content_index", "output_text", "text"),
    "response.refusal": ("message", "content_index", "refusal", "refusal"),
    "response.reasoning_summary_text": ("reasoning", "summary_index", "summary_text", "text"),
    "response.function_call_arguments": ("function_call", "", "", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "", "", "input"),
}
"""Of each text that streams: the type of its item, its index, the type of its part, the key of the whole."""
_PARTS: Final = {
    "response.content_part": ("message", "content_index"),
    "response.reasoning_summary_part": ("reasoning", "summary_index"),
}
_LISTS: Final = {"message": "content", "reasoning": "summary"}
_CALL_TEXTS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_PREFIXES: Final = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "local_shell_call": "lsh_",
    "shell_call": "sh_",
    "apply_patch_call": "apc_",
    "tool_search_call": "ts_",
    "image_generation_call": "ig_",
}


@dataclass(slots=True)
class _Part:
    """A part of an item, or the text of a call."""

    kind: str
    text: str = ""
    annotations: list[Json] = field(default_factory=list)
    has_ended: bool = False


@dataclass(slots=True)
class _Item:
    """An item that has begun."""

    added: Json
    parts: list[Json] = field(default_factory=list)
    """Those that have ended."""
    part: _Part | None = None


@dataclass(slots=True)
class _Stream:
    """What has come of a stream."""

    numbers: int = 0
    begun: list[Json] = field(default_factory=list)
    items: list[Json] = field(default_factory=list)
    item: _Item | None = None
    end: str | None = None


def check_responses_stream(data: bytes, *, broken: bool = False) -> None:
    """Check a stream of a response; a ``broken`` one must end with ``response.failed``."""
    stream = _Stream()
    for record in records_of(data):
        if record.comments:
            require(not record.data and record.event is None, record.where, "a comment within an event")
            continue
        event = _event(record)
        where, kind = record.where, event["type"]
        require(stream.end is None, where, f"{kind} after {stream.end}")
        require(event["sequence_number"] == stream.numbers, where, f"sequence_number is not {stream.numbers}")
        stream.numbers += 1
        if len(stream.begun) < len(_BEGINS):
            _begin(stream, event, where)
        elif kind in _ENDS:
            _end(stream, event, where)
        else:
            _item_event(stream, event, where)
    require(stream.end is not None, "the end", "no event with the whole response")
    require((stream.end == "response.failed") is broken, "the end", f"it is {stream.end}")


def check_response(body: bytes) -> None:
    """Check a whole response."""
    where = "the body"
    response = an_object(load(body, where), where)
    _parse(lambda: Response.model_validate_json(body, strict=True), where)
    status = one_of(response.get("status"), ("completed", "incomplete"), f"{where} status")
    _ended_response(response, status, where)
    for index, item in enumerate(response["output"]):
        _whole_item(item, f"{where} output[{index}]")
    _only_the_last_is_incomplete(response, where)


def _event(record: Record) -> Json:
    where = record.where
    require(record.event is not None and len(record.data) == 1, where, "must be one event and one data line")
    require(record.data != ["[DONE]"], where, "[DONE], which this API has not")
    event = an_object(load(record.data[0], where), where)
    require(
        event.get("type") == record.event, where, f"event {record.event} with data of {event.get('type')}"
    )
    require("error" not in event, where, "an error beside the response, which the SDK raises")
    a_count(event.get("sequence_number"), f"{where} sequence_number")
    text = record.data[0]
    if record.event == "response.failed":
        text = text.replace(f'"code":"{_KNOWN_BY_CODEX}"', '"code":"server_error"', 1)
    require(event["type"] in EVENTS_OF_THE_SDK, where, f"{event['type']} is no event of the SDK")
    _parse(lambda: EVENTS_OF_THE_SDK[event["type"]].model_validate_json(text, strict=True), where)
    return event


def _parse(parse: Callable[[], object], where: str) -> None:
    try:
        parse()
    except ValidationError as error:
        first = next((one for one in error.errors() if one["type"] != "literal_error"), error.errors()[0])
        raise AssertionError(f"{where}: the SDK does not take it: {first['loc']} {first['msg']}") from None


def _begin(stream: _Stream, event: Json, where: str) -> None:
    wanted = _BEGINS[len(stream.begun)]
    require(event["type"] == wanted, where, f"{event['type']} in place of {wanted}")
    response = an_object(event.get("response"), f"{where} response")
    _frame(stream, response, "in_progress", where)
    require(response["output"] == [], where, "output must be empty at the beginning")
    require(response["tools"] == [], where, "tools must be empty at the beginning")
    stream.begun.append(response)


def _frame(stream: _Stream, response: Json, status: str, where: str) -> None:
    needs(response, _FRAME, f"{where} response")
    require(response["status"] == status, where, f"status must be {status}")
    for first in stream.begun[:1]:
        for key in _SAME:
            require(response[key] == first[key], where, f"{key} changes")


def _end(stream: _Stream, event: Json, where: str) -> None:
    stream.end = event["type"]
    status = _ENDS[event["type"]]
    response = an_object(event.get("response"), f"{where} response")
    _frame(stream, response, status, where)
    _ended_response(response, status, where)
    output = list(response["output"])
    if status == "failed" and stream.item is not None:
        require(len(output) == len(stream.items) + 1, where, "the open item is missing")
        _check_open(stream.item, output.pop(), where)
    else:
        require(stream.item is None, where, "an item is still open")
    require(output == stream.items, where, "output is not what output_item.done had")
    if status != "failed":
        _only_the_last_is_incomplete(response, where)


def _ended_response(response: Json, status: str, where: str) -> None:
    needs(response, _FRAME, where)
    require(response["object"] == "response" and response["id"].startswith("resp_"), where, "not a response")
    _usage(response["usage"], f"{where} usage")
    details = response["incomplete_details"]
    require((details is not None) is (status == "incomplete"), where, "incomplete_details of another status")
    require((response["error"] is not None) is (status == "failed"), where, "error of another status")
    require((response.get("completed_at") is not None) is (status == "completed"), where, "completed_at")
    if response["error"] is not None:
        a_text(response["error"].get("message"), f"{where} error.message", empty=False)
    identifiers = [item["id"] for item in response["output"]]
    calls = [item["call_id"] for item in response["output"] if "call_id" in item]
    require(len(set(identifiers)) == len(identifiers), where, "two items have one id")
    require(len(set(calls)) == len(calls), where, "two calls have one call_id")


def _only_the_last_is_incomplete(response: Json, where: str) -> None:
    cut = (response["incomplete_details"] or {}).get("reason") == "max_output_tokens"
    for number, item in enumerate(response["output"], 1):
        last = number == len(response["output"])
        if item["status"] == "incomplete":
            require(cut and last, where, f"item {number} is incomplete")
        elif cut and last:
            whole = item["type"] in ("reasoning", "image_generation_call", "apply_patch_call")
            require(whole, where, "the last item is complete, though the response was cut")


def _usage(value: object, where: str) -> None:
    usage = an_object(value, where)
    tokens_in, tokens_out, total = (
        a_count(usage.get(key), f"{where}.{key}") for key in ("input_tokens", "output_tokens", "total_tokens")
    )
    require(total == tokens_in + tokens_out, where, "total_tokens is not the sum")


def _item_event(stream: _Stream, event: Json, where: str) -> None:
    kind: str = event["type"]
    name, _, word = kind.rpartition(".")
    if kind == "response.output_item.added":
        _add_item(stream, event, where)
        return
    item = stream.item
    if item is None:
        raise AssertionError(f"{where}: {kind} without an open item")
    require(event.get("output_index") == len(stream.items), where, f"output_index is not {len(stream.items)}")
    if kind == "response.output_item.done":
        _end_item(item, an_object(event.get("item"), where), where)
        stream.items.append(event["item"])
        stream.item = None
        return
    require(event.get("item_id") == item.added["id"], where, "item_id is of another item")
    if name in _PARTS:
        _part_event(item, event, name, word, where)
    elif name in _TEXTS:
        _text_event(item, event, name, word, where)
    else:
        require(kind == "response.output_text.annotation.added", where, f"an event that nobody knows: {kind}")
        _annotation(item, event, where)


def _add_item(stream: _Stream, event: Json, where: str) -> None:
    require(stream.item is None, where, "the last item is still open")
    require(event.get("output_index") == len(stream.items), where, f"output_index is not {len(stream.items)}")
    added = an_object(event.get("item"), f"{where} item")
    kind = one_of(added.get("type"), _PREFIXES, f"{where} item.type")
    require(str(added.get("id")).startswith(_PREFIXES[kind]), where, f"the id of a {kind}")
    require(added.get("status") == "in_progress", where, "status must be in_progress at the beginning")
    require("encrypted_content" not in added, where, "encrypted_content before the thought")
    if kind in _LISTS:
        require(added.get(_LISTS[kind]) == [], where, f"{_LISTS[kind]} must be empty at the beginning")
    if kind in _CALL_TEXTS:
        require(added.get(_CALL_TEXTS[kind]) == "", where, f"{_CALL_TEXTS[kind]} must be empty at first")
        a_text(added.get("name"), f"{where} name")
    if kind.endswith("_call") and kind != "image_generation_call":
        a_text(added.get("call_id"), f"{where} call_id", empty=False)
    stream.item = _Item(added, part=_Part("") if kind in _CALL_TEXTS else None)


def _end_item(item: _Item, done: Json, where: str) -> None:
    added, kind = item.added, item.added["type"]
    _whole_item(done, where)
    varies = {
        "status",
        "encrypted_content",
        "result",
        "output_format",
        _LISTS.get(kind),
        _CALL_TEXTS.get(kind),
    }
    kept, same = ({key: of[key] for key in of if key not in varies} for of in (done, added))
    require(kept == same, where, "the item is another one than was added")
    if kind in _CALL_TEXTS:
        require(item.part is not None and item.part.has_ended, where, f"{_CALL_TEXTS[kind]} has not ended")
        require(item.part is None or done[_CALL_TEXTS[kind]] == item.part.text, where, "not what streamed")
    else:
        require(item.part is None, where, "a part is still open")
    if kind in _LISTS:
        require(done[_LISTS[kind]] == item.parts, where, f"{_LISTS[kind]} is not what streamed")


def _whole_item(item: Json, where: str) -> None:
    kind = one_of(item.get("type"), _PREFIXES, f"{where} type")
    one_of(item.get("status"), ("completed", "incomplete"), f"{where} status")
    if kind == "message":
        require(item["content"], where, "a message of nothing")
        for part in item["content"]:
            a_text(part.get("text", part.get("refusal")), f"{where} part", empty=False)
    elif kind == "reasoning":
        require(len(item["summary"]) <= 1, where, "several parts of one summary")
        a_text(item.get("encrypted_content"), f"{where} encrypted_content", empty=False)
        require("content" not in item, where, "content of a thought")
    elif kind in _CALL_TEXTS:
        require("name" in item and "call_id" in item, where, "name or call_id is missing")


def _check_open(item: _Item, found: Json, where: str) -> None:
    """Check what a response that failed has of the item that was open."""
    kind = item.added["type"]
    require(found.get("id") == item.added["id"], where, "the open item is another one")
    require(found.get("status") == "incomplete", where, "the open item must be incomplete")
    text = "" if item.part is None else item.part.text
    if kind in _CALL_TEXTS:
        require(found[_CALL_TEXTS[kind]] == text, where, "the open call is not what streamed")
    else:
        said = [part.get("text", part.get("refusal")) for part in found[_LISTS[kind]]]
        whole = [part.get("text", part.get("refusal")) for part in item.parts]
        require(said == (whole if item.part is None else [*whole, text]), where, "the open item's text")


def _part_event(item: _Item, event: Json, name: str, word: str, where: str) -> None:
    kind, key = _PARTS[name]
    require(item.added["type"] == kind, where, f"{name} of a {item.added['type']}")
    require(event.get(key) == len(item.parts), where, f"{key} is not {len(item.parts)}")
    part = an_object(event.get("part"), f"{where} part")
    text = "refusal" if part["type"] == "refusal" else "text"
    if word == "added":
        require(item.part is None, where, "the last part is still open")
        require(part[text] == "" and not part.get("annotations"), where, "a part begins with something")
        item.part = _Part(part["type"])
        return
    open_part = item.part
    if open_part is None or not open_part.has_ended:
        raise AssertionError(f"{where}: a part ends before its text, or was never added")
    require(part["type"] == open_part.kind, where, "the part is of another type than was added")
    require(part[text] == open_part.text, where, "the part is not what streamed")
    require(part.get("annotations", []) == open_part.annotations, where, "annotations are not what streamed")
    item.parts.append(part)
    item.part = None


def _text_event(item: _Item, event: Json, name: str, word: str, where: str) -> None:
    kind, key, part_kind, whole = _TEXTS[name]
    part = item.part
    require(item.added["type"] == kind, where, f"{name} of a {item.added['type']}")
    if part is None or part.kind != part_kind:
        raise AssertionError(f"{where}: {name} outside of its part")
    require(not part.has_ended, where, f"{name} after its end")
    require(not key or event.get(key) == len(item.parts), where, f"{key} is not {len(item.parts)}")
    if word == "delta":
        part.text += a_text(event.get("delta"), f"{where} delta", empty=False)
    else:
        require(event.get(whole) == part.text, where, f"{whole} is not what streamed")
        part.has_ended = True


def _annotation(item: _Item, event: Json, where: str) -> None:
    part = item.part
    if part is None or part.kind != "output_text" or part.has_ended:
        raise AssertionError(f"{where}: an annotation outside of a text")
    require(event.get("content_index") == len(item.parts), where, f"content_index is not {len(item.parts)}")
    index = len(part.annotations)
    require(event.get("annotation_index") == index, where, f"annotation_index is not {index}")
    part.annotations.append(an_object(event.get("annotation"), f"{where} annotation"))


def final_response(data: bytes) -> Json:
    """Return the response that the last event of a stream has."""
    last = [record for record in records_of(data) if record.data][-1]
    return an_object(load(last.data[0], last.where)["response"], last.where)
