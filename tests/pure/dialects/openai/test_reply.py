"""Whole responses of providers that speak chat completions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from mgw.canonical.conversation import Text, Thinking, ToolCall
from mgw.canonical.reply import StopReason, TokenUsage, UpstreamError
from mgw.dialects.dialect import ReplySource
from mgw.dialects.openai.reply import parse_reply
from mgw.dialects.refusal import AnswerError
from mgw.nouns.errors import GatewayError, Reason
from tests.support.chat_streams import UNSIGNED, Json, broken, call, deltas, odd, whole


def test_a_whole_answer_says_what_its_stream_would() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "reasoning_content": "t",
        "annotations": [],
        "tool_calls": [call(None, "1", "f", "{}"), call(None, "1", "g", "{}"), call(None, None, "h", "")],
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}
    found = whole(message, "stop", usage=usage)
    assert (found.id, found.model, found.usage) == ("c1", "m1", TokenUsage(10, 5, 3))
    assert found.candidates[0].stop is StopReason.TOOL_USE
    assert found.candidates[0].parts[:3] == (Thinking("t", UNSIGNED), Text("a"), ToolCall("1", "f", "{}"))
    calls = [part for part in found.candidates[0].parts if isinstance(part, ToolCall)]
    assert [one.name for one in calls] == ["f", "g", "h"]
    assert len({one.id for one in calls}) == 3


def test_a_whole_answer_of_the_deprecated_kind_has_a_call() -> None:
    found = whole({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call")
    assert [part.name for part in found.candidates[0].parts if isinstance(part, ToolCall)] == ["f"]
    assert found.candidates[0].stop is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[5]}', b"\xff", b"[" * 99_999],
    ids=["nothing", "html", "array", "no choices", "empty choices", "odd choices", "bytes", "deep"],
)
def test_what_is_no_answer_is_broken(body: bytes) -> None:
    broken(body)


def test_an_error_with_a_good_status_is_told() -> None:
    assert "no credits" in broken(b'{"error":{"message":"no credits","code":402}}').message


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": "it broke"}, UpstreamError(502, "it broke")),
        ({"error": {"message": "slow", "code": 429}}, UpstreamError(429, "slow")),
        ({"object": "error", "message": "m", "code": 400}, UpstreamError(400, "m")),
        ({"message": "m"}, UpstreamError(502, "m")),
        ({"detail": "m"}, UpstreamError(502, "m")),
        ({"choices": [], "detail": "m"}, UpstreamError(502, "m")),
        (
            {"choices": [{"message": {"content": "a"}, "error": {"message": "m", "code": 503}}]},
            UpstreamError(503, "m"),
        ),
        ("m", UpstreamError(502, "m")),
    ],
    ids=["string", "status", "vllm", "message", "detail", "no choices", "of a choice", "json string"],
)
def test_an_answer_that_is_an_error_has_the_status_that_it_names(answer: Json, error: UpstreamError) -> None:
    with pytest.raises(AnswerError) as caught:
        parse_reply(json.dumps(answer).encode(), ReplySource("seed"))
    assert replace(caught.value.error, own_message=None) == error


@settings(deadline=None)
@given(deltas, odd)
def test_any_message_is_understood_or_broken(message: Json, finish: Json) -> None:
    try:
        whole(message, finish)
    except GatewayError as error:
        assert error.reason is Reason.UPSTREAM_BROKEN  # noqa: PT017 - either outcome is right
