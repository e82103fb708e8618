"""Any request of chat completions is understood or refused, in linear time."""

from __future__ import annotations

import copy
import json
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import Text, ToolCall, ToolResult
from mgw.dialects.dialect import RequestContext
from mgw.dialects.openai.request import parse_request
from mgw.nouns.errors import GatewayError, Reason
from tests.support.chat_clients import HI, Json, refused, turns
from tests.support.in_memory.measure import collector_off


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "king", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].tool_call_id"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"stop": ["a", 1]}, "stop[1]"),
        ({"response_format": {"type": "poem"}}, "response_format.type"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"temperature": "hot"}, "temperature"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_by_its_place(fields: Json, param: str) -> None:
    assert refused(**fields).param == param


RICH: Json = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]},
        {
            "role": "user",
            "name": "n",
            "content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "https://a", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "aWs=", "format": "wav"}},
                {"type": "file", "file": {"file_data": "aWs=", "filename": "a.txt"}},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "c"}, {"type": "thinking", "thinking": [{"text": "t"}]}],
            "refusal": "no",
            "reasoning_content": "t",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "t", "signature": "s", "offset": 1, "calls": 1},
                {"type": "reasoning.encrypted", "data": "d"},
            ],
            "images": [{"type": "image_url", "image_url": {"url": "https://a"}}],
            "extra_content": {"google": {"thought_signature": "s"}},
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}
            ],
            "function_call": {"name": "f", "arguments": "{}"},
        },
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]},
        {"role": "function", "name": "f", "content": "r"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "functions": [{"name": "g"}],
    "function_call": {"name": "g"},
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    "reasoning": {"effort": "low", "max_tokens": 5, "exclude": True, "enabled": True},
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "extra_body": {"google": {"thinking_config": {"thinking_budget": 5}}},
    "stop": ["a"],
    "modalities": ["text"],
    "max_tokens": 5,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.sampled_from(places(RICH)[1:]), anything)
def test_any_json_anywhere_is_understood_or_refused(place: tuple[str | int, ...], value: Json) -> None:
    body = copy.deepcopy(RICH)
    inner = body
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        parse_request(json.dumps(body).encode(), RequestContext("m"))
    except GatewayError as error:
        assert error.reason is Reason.MALFORMED  # noqa: PT017 - either outcome is right


def test_the_rich_request_is_understood() -> None:
    found = parse_request(json.dumps(RICH).encode(), RequestContext("m"))
    assert found.unread == {"function_call", "messages[].extra_content"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"null", b"[" * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_request(body, RequestContext("m"))
    assert caught.value.reason is Reason.MALFORMED


def test_thousands_of_thoughts_within_one_text_take_linear_time() -> None:
    def seconds(count: int) -> float:
        details = [{"type": "reasoning.text", "text": "t", "offset": 100 * place} for place in range(count)]
        message = {"role": "assistant", "content": "x" * 100 * count, "reasoning_details": details}
        begun = process_time()
        parts = turns(HI, message)[1].parts
        assert "".join(part.text for part in parts if isinstance(part, Text)) == "x" * 100 * count
        return process_time() - begun

    with collector_off():
        assert seconds(20_000) < 25 * seconds(2_000) + 0.1


def test_thousands_of_calls_of_the_deprecated_kind_take_linear_time() -> None:
    def seconds(count: int) -> float:
        names = [f"f{number}" for number in range(count)]
        calls = [{"role": "assistant", "function_call": {"name": name, "arguments": ""}} for name in names]
        results = [{"role": "function", "name": name, "content": "r"} for name in reversed(names)]
        begun = process_time()
        found = turns(HI, *calls, *results)
        ids = [part.id for turn in found for part in turn.parts if isinstance(part, ToolCall)]
        answered = [part.call_id for turn in found for part in turn.parts if isinstance(part, ToolResult)]
        assert answered == ids[::-1]
        return process_time() - begun

    with collector_off():
        assert seconds(10_000) < 25 * seconds(1_000) + 0.1
