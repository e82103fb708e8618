"""Responses: the checker takes what the SDK's types describe, and refuses it with one rule broken."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tests.support.grammar.mutation import mutated, named
from tests.support.grammar.responses import check_response, check_responses_stream

Json = dict[str, Any]  # Any: JSON as it is written

COUNTS = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
DETAILS = {"cached_tokens": 4, "cache_write_tokens": 0}
USAGE = {**COUNTS, "input_tokens_details": DETAILS, "output_tokens_details": {"reasoning_tokens": 1}}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
TEXT = {"type": "output_text", "text": "Hi!", "annotations": [], "logprobs": []}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "content": [TEXT]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
DONE = {"status": "completed"}
OUTPUT: list[Json] = [{**THOUGHT, **DONE, "encrypted_content": "x"}, {**MESSAGE, **DONE}, {**CALL, **DONE}]


def response(status: str, output: list[Json], **fields: object) -> Json:
    frame: Json = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status}
    frame |= {"error": None, "incomplete_details": None, "output": output, "usage": None, "tools": []}
    return {**frame, "tool_choice": "auto", "parallel_tool_calls": True, **fields}


def stream(*events: tuple[str, Json]) -> str:
    return "".join(
        f"event: response.{kind}\ndata: "
        + json.dumps({"type": f"response.{kind}", "sequence_number": number, **fields})
        + "\n\n"
        for number, (kind, fields) in zip(count(), events)
    )


def item(index: int, begun: Json, *events: tuple[str, Json]) -> list[tuple[str, Json]]:
    place = {"output_index": index}
    open_item = {**OUTPUT[index], **begun, "status": "in_progress"}
    open_item.pop("encrypted_content", None)
    within = [(kind, {"item_id": open_item["id"], **place, **fields}) for kind, fields in events]
    added = ("output_item.added", {**place, "item": open_item})
    return [added, *within, ("output_item.done", {**place, "item": OUTPUT[index]})]


BEGUN = [(kind, {"response": response("in_progress", [])}) for kind in ("created", "in_progress")]
SUMMARY = item(
    0,
    {"summary": []},
    ("reasoning_summary_part.added", {"summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
    ("reasoning_summary_text.delta", {"summary_index": 0, "delta": "hm"}),
    ("reasoning_summary_text.done", {"summary_index": 0, "text": "hm"}),
    ("reasoning_summary_part.done", {"summary_index": 0, "part": THOUGHT["summary"][0]}),
)
SAID = item(
    1,
    {"content": []},
    ("content_part.added", {"content_index": 0, "part": {**TEXT, "text": ""}}),
    ("output_text.delta", {"content_index": 0, "delta": "Hi", "logprobs": []}),
    ("output_text.delta", {"content_index": 0, "delta": "!", "logprobs": []}),
    ("output_text.done", {"content_index": 0, "text": "Hi!", "logprobs": []}),
    ("content_part.done", {"content_index": 0, "part": TEXT}),
)
CALLED = item(
    2,
    {"arguments": ""},
    ("function_call_arguments.delta", {"delta": "{}"}),
    ("function_call_arguments.done", {"arguments": "{}"}),
)
WHOLE = response("completed", OUTPUT, usage=USAGE, completed_at=2)
COMPLETED = stream(*BEGUN, *SUMMARY, *SAID, *CALLED, ("completed", {"response": WHOLE}))
OPEN: Json = {**MESSAGE, "status": "incomplete", "content": [{**TEXT, "text": "Hi"}]}
ERROR = {"code": "server_error", "message": "It broke."}
FAILURE = {"response": response("failed", [OUTPUT[0], OPEN], usage=USAGE, error=ERROR)}
FAILED = stream(*BEGUN, *SUMMARY, *SAID[:3], ("failed", FAILURE))


def test_a_stream_as_the_types_describe_it_is_taken() -> None:
    check_responses_stream(COMPLETED.encode())
    check_responses_stream((": still here\n\n" + COMPLETED).encode())
    check_responses_stream(FAILED.encode(), broken=True)
    check_response(json.dumps(WHOLE).encode())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ('"sequence_number": 3', '"sequence_number": 4', "sequence_number is not 3"),
            ("event: response.in_progress", "event: response.queued", "with data of"),
            ('"delta": "hm"', '"delta": ""', "must be some text"),
            ('"delta": "!"', '"delta": "?"', "not what streamed"),
            ('"delta": "{}"', '"delta": "[]"', "not what streamed"),
            ('"text": "hm"}\n', '"text": "hmm"}\n', "not what streamed"),
            (
                '"output_index": 1, "content_index"',
                '"output_index": 0, "content_index"',
                "output_index is not",
            ),
            ('"item_id": "rs_1"', '"item_id": "rs_2"', "item_id is of another item"),
            ('"content_index": 0', '"content_index": 1', "content_index is not 0"),
            ('"status": "in_progress", "error"', '"status": "queued", "error"', "status must be in_progress"),
            ('"name": "f", "arguments": ""', '"name": "g", "arguments": ""', "another one than was added"),
            ('"logprobs": []}\n', '"logprobs": 1}\n', "the SDK does not take it"),
            ('"created_at": 1', '"created_at": 2', "created_at changes"),
            ('"id": "msg_1"', '"id": "item_1"', "the id of a message"),
            ('"total_tokens": 12', '"total_tokens": 13', "total_tokens is not the sum"),
            ('"completed_at": 2', '"completed_at": null', "completed_at"),
        ]
    ),
)
def test_a_stream_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_responses_stream(mutated(COMPLETED, old, new))


def test_an_order_that_the_grammar_does_not_know_is_refused() -> None:
    end = ("completed", {"response": WHOLE})
    orders = {
        "in place of response.created": [*SUMMARY],
        "a part is still open": [*BEGUN, *SUMMARY[:-2], SUMMARY[-1]],
        "outside of its part": [*BEGUN, SUMMARY[0], *SUMMARY[2:]],
        "the last item is still open": [*BEGUN, *SUMMARY[:-1], *SAID],
        "without an open item": [*BEGUN, *SUMMARY, *SAID[1:]],
        "arguments has not ended": [*BEGUN, *SUMMARY, *SAID, *CALLED[:-2], CALLED[-1]],
        "no event with the whole response": [*BEGUN, *SUMMARY, *SAID, *CALLED],
        "an item is still open": [*BEGUN, *SUMMARY, *SAID, *CALLED[:-1], end],
        "output is not what": [*BEGUN, *SUMMARY, *SAID, end],
        "after response.completed": [*BEGUN, *SUMMARY, *SAID, *CALLED, end, end],
    }
    for says, events in orders.items():
        with pytest.raises(AssertionError, match=says):
            check_responses_stream(stream(*events).encode())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    named(
        [
            ('"response": {', '"error": {"message": "no"}, "response": {', "an error beside the response"),
            ('"status": "incomplete"', '"status": "completed"', "the open item must be incomplete"),
            ('"text": "Hi"', '"text": "Ho"', "the open item's text"),
            ('"code": "server_error"', '"code": "broken"', "the SDK does not take it"),
        ]
    ),
)
def test_a_break_with_one_rule_broken_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_responses_stream(mutated(FAILED, old, new), broken=True)
    with pytest.raises(AssertionError):
        check_responses_stream(FAILED.encode())
