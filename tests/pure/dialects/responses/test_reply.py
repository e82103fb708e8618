"""A whole answer for a client of Responses: the object around it, and each kind of call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import Media, MediaKind, Text, ToolCall
from mgw.canonical.reply import Candidate, Reply, StopReason, TokenUsage
from mgw.dialects.dialect import ReplyContext, ReplyOptions
from mgw.dialects.responses.options import ResponseReplyOptions
from mgw.dialects.responses.reply import render_reply
from mgw.dialects.responses.schema import ClientTool, ToolKind
from tests.support.grammar.responses import check_response

Json = dict[str, Any]  # Any: JSON as it was found


def rendered(reply: Reply, options: ReplyOptions) -> Json:
    body = render_reply(reply, ReplyContext("req_1", "model-1", 1_770_000_000, options))
    check_response(body)
    found: Json = json.loads(body)
    return found


def test_the_object_says_what_was_asked_and_defaults_elsewhere() -> None:
    echoed = {"metadata": {"a": "b"}, "reasoning": {"effort": "high"}, "tool_choice": "required", "user": "u"}
    usage = TokenUsage(10, 5, 3, 1, 2)
    found = rendered(
        Reply((Candidate((), StopReason.END),), usage=usage), ResponseReplyOptions(echoed=echoed)
    )
    assert found.pop("id").startswith("resp_mgw")
    assert found == {
        "object": "response",
        "created_at": 1_770_000_000,
        "completed_at": 1_770_000_000,
        "status": "completed",
        "model": "model-1",
        "output": [],
        "error": None,
        "incomplete_details": None,
        "background": False,
        "store": False,
        "previous_response_id": None,
        "truncation": "disabled",
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "parallel_tool_calls": True,
        "prompt_cache_key": None,
        "safety_identifier": None,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 15,
        },
        **echoed,
    }


FILE = {"type": "update_file", "path": "a", "diff": "+b"}
COMMAND = {"type": "exec", "command": ["ls"], "timeout_ms": 5, "env": {}}
FITTING = [
    (ToolKind.CUSTOM, {"input": "raw"}, {"type": "custom_tool_call", "name": "t", "input": "raw"}),
    (
        ToolKind.LOCAL_SHELL,
        {"command": ["ls"], "timeout_ms": 5},
        {"type": "local_shell_call", "action": COMMAND},
    ),
    (
        ToolKind.SHELL,
        {"commands": ["ls"], "timeout_ms": 5},
        {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": 5}},
    ),
    (ToolKind.APPLY_PATCH, {"operation": FILE}, {"type": "apply_patch_call", "operation": FILE}),
    (
        ToolKind.TOOL_SEARCH,
        {"query": "q"},
        {"type": "tool_search_call", "arguments": {"query": "q"}, "execution": "client"},
    ),
    (ToolKind.TOOL_SEARCH, None, {"type": "tool_search_call", "arguments": {}, "execution": "client"}),
]


@pytest.mark.parametrize(
    ("kind", "arguments", "item"), FITTING, ids=lambda value: getattr(value, "value", "")
)
def test_a_call_is_told_in_the_words_of_the_clients_own_tool(
    kind: ToolKind, arguments: Json, item: Json
) -> None:
    call = ToolCall("c1", "ns__t", json.dumps(arguments))
    tools = ResponseReplyOptions(client_tools={"ns__t": ClientTool(kind, "t")})
    rendered(Reply((Candidate((call,), StopReason.LENGTH),)), tools)  # as legal as the whole one
    found = rendered(Reply((Candidate((call,), StopReason.TOOL_USE),)), tools)["output"][0]
    assert found.pop("id")
    assert found == {**item, "call_id": "c1", "status": "completed"}


@pytest.mark.parametrize("kind", [kind for kind in ToolKind if kind is not ToolKind.CUSTOM])
@pytest.mark.parametrize("arguments", ["", '{"command": "ls', '["x"]', '{"operation": {"type": "chmod"}}'])
def test_arguments_that_do_not_fit_come_as_the_call_of_a_function(kind: ToolKind, arguments: str) -> None:
    call = ToolCall("c1", "t", arguments)
    tools = ResponseReplyOptions(client_tools={"t": ClientTool(kind, "t")})
    found = rendered(Reply((Candidate((call,), StopReason.LENGTH),)), tools)["output"][0]
    if kind is ToolKind.TOOL_SEARCH and (not arguments or arguments.endswith("}}")):
        assert found["type"] == "tool_search_call"
        return
    assert (found["type"], found["name"]) == ("function_call", "t")
    assert (found["arguments"], found["status"]) == (arguments or "{}", "incomplete")


def test_a_name_that_the_model_invented_is_the_call_of_a_function_of_that_name() -> None:
    call = ToolCall("c1", "ns__other", "{}")
    tools = ResponseReplyOptions(client_tools={"ns__t": ClientTool(ToolKind.CUSTOM, "t", "ns")})
    found = rendered(Reply((Candidate((call,), StopReason.TOOL_USE),)), tools)["output"][0]
    assert (found["type"], found["name"]) == ("function_call", "ns__other")
    assert "namespace" not in found


def test_adjacent_texts_are_one_message_and_an_image_is_an_item_of_its_own() -> None:
    image = Media(MediaKind.IMAGE, "image/webp", "aWs=")
    parts = (Text("a"), Text("b"), image, Media(MediaKind.AUDIO, data="aWs="), Text("c"))
    output = rendered(Reply((Candidate(parts, StopReason.END),)), ResponseReplyOptions())["output"]
    assert [item["type"] for item in output] == ["message", "image_generation_call", "message"]
    assert output[0]["content"][0]["text"] == "ab"
    assert (output[1]["result"], output[1]["output_format"]) == ("aWs=", "webp")


def test_what_is_nested_too_deeply_to_be_repeated_is_not() -> None:
    deep: Json = {}
    for _ in range(2000):
        deep = {"a": deep}
    found = rendered(Reply((Candidate((), StopReason.END),)), ResponseReplyOptions(echoed={"metadata": deep}))
    assert found["metadata"] == {}
