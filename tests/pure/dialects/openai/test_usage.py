"""Counts in OpenAI's convention, both ways: what hosts write of them, and what their clients are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Text
from mgw.canonical.reply import NO_USAGE, Candidate, Reply, StopReason, TokenUsage
from mgw.dialects import client_side_of, dialect_of
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.openai.usage import read_usage, render_usage, update_session_usage
from mgw.nouns.vocabulary import DialectName


def of_chat(completion: Any, reasoning: Any, **fields: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": 5,
        "completion_tokens": completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
        **fields,
    }


def read(document: dict[str, Any]) -> TokenUsage:
    return read_usage(json.dumps(document).encode(), NO_USAGE)


@pytest.mark.parametrize(
    ("usage", "tokens_out"),
    [
        (of_chat(10, 96, total_tokens=15), 106),  # Vercel's AI Gateway with Gemini's models
        (of_chat(10, 96, total_tokens=111), 106),
        (of_chat(10, 96), 106),
        (of_chat(100, 96, total_tokens=105), 100),
        (of_chat(96, 96), 96),
        (of_chat(2, 1, total_tokens=8), 3),  # xAI
        (of_chat(0, 96), 96),
        (of_chat(None, 96), None),
    ],
)
def test_reasoning_that_is_more_than_the_completion_stands_beside_it(
    usage: dict[str, Any], tokens_out: int | None
) -> None:
    assert read({"usage": usage}).tokens_out == tokens_out


RESPONSES_USAGE = {
    "input_tokens": 5,
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 96},
}
CLAUDE_USAGE = {"input_tokens": 5, "output_tokens": 10, "output_tokens_details": {"thinking_tokens": 96}}
PASSED = {
    "chat": (DialectName.OPENAI_CHAT, b"", {"choices": [], "usage": of_chat(10, 96)}),
    "responses": (
        DialectName.OPENAI_RESPONSES,
        b"event: response.completed\n",
        {"type": "response.completed", "response": {"usage": RESPONSES_USAGE}},
    ),
    "messages": (
        DialectName.ANTHROPIC,
        b"event: message_delta\n",
        {"type": "message_delta", "delta": {}, "usage": CLAUDE_USAGE},
    ),
}


@pytest.mark.parametrize("dialect", PASSED)
def test_it_counts_in_streams_that_pass_through(dialect: str) -> None:
    name, line, document = PASSED[dialect]
    meter = dialect_of(name).meter(b"text/event-stream")
    meter.feed(line + b"data: %b\n\n" % json.dumps(document).encode())
    meter.finish()
    assert (meter.usage.tokens_in, meter.usage.tokens_out, meter.usage.reasoning) == (5, 106, 96)


def _chat(**usage: Any) -> dict[str, Any]:
    return {"choices": [], "usage": usage}


def _claude(**usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {}, "usage": usage}


def _gemini(**usage: Any) -> dict[str, Any]:
    return {"candidates": [], "usageMetadata": usage}


THOUGHT = {"reasoning_tokens": 96}
THINKING = {"thinking_tokens": 40}
IN_PIECES: dict[str, tuple[DialectName, list[dict[str, Any]], int]] = {
    "chat, reasoning last": (
        DialectName.OPENAI_CHAT,
        [_chat(completion_tokens=10), _chat(completion_tokens_details=THOUGHT)],
        106,
    ),
    "chat, reasoning first": (
        DialectName.OPENAI_CHAT,
        [_chat(completion_tokens_details=THOUGHT), _chat(completion_tokens=10)],
        106,
    ),
    "chat, cumulative": (
        DialectName.OPENAI_CHAT,
        [_chat(completion_tokens=10), _chat(completion_tokens=100, completion_tokens_details=THOUGHT)],
        100,
    ),
    "chat, cumulative beside": (
        DialectName.OPENAI_CHAT,
        [_chat(completion_tokens=n, completion_tokens_details=THOUGHT) for n in (5, 10, 10)],
        106,
    ),
    "messages, in two events": (
        DialectName.ANTHROPIC,
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
            _claude(output_tokens_details=THINKING),
            _claude(output_tokens=7),
        ],
        47,
    ),
    "messages, cumulative": (
        DialectName.ANTHROPIC,
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
            _claude(output_tokens=45, output_tokens_details=THINKING),
            _claude(output_tokens=50),
        ],
        50,
    ),
    "gemini, in two events": (
        DialectName.GEMINI,
        [_gemini(thoughtsTokenCount=30), _gemini(candidatesTokenCount=40)],
        70,
    ),
    "gemini, the other way round": (
        DialectName.GEMINI,
        [_gemini(candidatesTokenCount=40), _gemini(thoughtsTokenCount=30), _gemini(promptTokenCount=5)],
        70,
    ),
    "gemini, cumulative": (
        DialectName.GEMINI,
        [_gemini(thoughtsTokenCount=n, candidatesTokenCount=n) for n in (10, 20, 30)],
        60,
    ),
    "interactions, in two events": (
        DialectName.GEMINI,
        [{"interaction": {"usage": {key: 30}}} for key in ("total_thought_tokens", "total_output_tokens")],
        60,
    ),
}


@pytest.mark.parametrize("case", IN_PIECES)
def test_reasoning_and_output_of_different_events_are_one_count(case: str) -> None:
    name, documents, tokens_out = IN_PIECES[case]
    meter = dialect_of(name).meter(b"text/event-stream")
    for document in documents:
        meter.feed(b"data: %b\n\n" % json.dumps(document).encode())
    meter.finish()
    assert meter.usage.tokens_out == tokens_out


counts = st.none() | st.integers(0, 200)


@given(usage=st.builds(TokenUsage, counts, counts, reasoning=counts))
def test_no_dialect_says_more_reasoning_than_output(usage: TokenUsage) -> None:
    reply = Reply((Candidate((Text("hi"),), StopReason.END),), usage=usage)
    context = ReplyContext("req_1", "m", 0)

    def told(name: DialectName, key: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(client_side_of(name).text.render_reply(reply, context))
        return found.get(key) or {}

    chat = told(DialectName.OPENAI_CHAT, "usage")
    details = chat.get("completion_tokens_details", {})
    assert details.get("reasoning_tokens", 0) <= chat.get("completion_tokens", 0)
    responses = told(DialectName.OPENAI_RESPONSES, "usage")
    assert responses["output_tokens_details"]["reasoning_tokens"] <= responses["output_tokens"]
    messages = told(DialectName.ANTHROPIC, "usage")
    thinking = messages.get("output_tokens_details", {}).get("thinking_tokens", 0)
    assert thinking <= messages["output_tokens"]
    gemini = told(DialectName.GEMINI, "usageMetadata")
    assert gemini.get("thoughtsTokenCount", 0) <= (usage.tokens_out or 0)


@pytest.mark.parametrize("tokens_out", [None, 0])
def test_what_is_unknown_is_0_and_not_1(tokens_out: int | None) -> None:
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert render_usage(TokenUsage(tokens_out=tokens_out)) == nothing
    assert render_usage(NO_USAGE) == nothing


def test_the_usage_of_a_later_choice_is_found() -> None:
    usage = of_chat(7, 3)
    counted = {"index": 1, "usage": usage}
    for choices in ([counted], [{"index": 0}, counted], [{"usage": None}, counted]):
        assert read({"choices": choices}) == TokenUsage(5, 7, reasoning=3)


def test_counts_with_a_decimal_point_are_read_in_choices_and_in_sessions() -> None:
    usage = {"prompt_tokens": 12.0, "completion_tokens": 7.0}
    assert read({"choices": [{"usage": usage}]}) == TokenUsage(12, 7)
    message = {"type": "response.done", "response": {"usage": {"input_tokens": 12.0, "output_tokens": 7.0}}}
    assert update_session_usage(json.dumps(message).encode(), NO_USAGE) == TokenUsage(12, 7)
