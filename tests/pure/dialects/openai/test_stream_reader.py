"""Streams of providers that speak chat completions: the oddities of hosts among them."""

from __future__ import annotations

import pytest

from mgw.canonical.conversation import Citation, Media, MediaKind, Refusal, Signature, Text, Thinking
from mgw.canonical.reply import (
    Alternative,
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    Candidate,
    Counted,
    Ended,
    StopReason,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
    TokenUsage,
)
from mgw.dialects.openai.reply import collect_candidate
from mgw.nouns.vocabulary import Family
from tests.support.chat_streams import DONE, UNSIGNED, Json, answer, call, chunk, read, sse


def test_a_plain_stream_is_told_event_by_event() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    events = read(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(finish="stop"),
        sse({"id": "c1", "model": "m1", "choices": [], "usage": usage}),
        DONE,
    )
    assert events == [
        Began("c1", "m1"),
        TextAdded("Hel"),
        TextAdded("lo"),
        Ended(StopReason.END),
        Counted(TokenUsage(10, 5, 3, None, 2)),
    ]


def test_a_call_streams_and_ends_with_its_last_brace() -> None:
    events = read(
        chunk({"tool_calls": [call(0, "1", "f")]}),
        chunk({"tool_calls": [call(0, None, None, '{"a":"}')]}),
        chunk({"tool_calls": [call(0, None, None, '"}')]}),
        chunk({"content": "after"}),
        chunk(finish="tool_calls"),
    )
    assert events[1:] == [
        CallBegan(0, "1", "f"),
        ArgumentsAdded(0, '{"a":"}'),
        ArgumentsAdded(0, '"}'),
        CallEnded(0),
        TextAdded("after"),
        Ended(StopReason.TOOL_USE),
    ]


def test_a_thought_is_signed_as_this_familys_when_the_answer_goes_on() -> None:
    for key in ("reasoning_content", "reasoning"):
        events = read(chunk({key: "a"}), chunk({key: "b"}), chunk({"content": "c"}), chunk(finish="stop"))
        assert events[1:] == [
            ThinkingAdded("a"),
            ThinkingAdded("b"),
            ThinkingSigned(UNSIGNED),
            TextAdded("c"),
            Ended(StopReason.END),
        ]


def test_details_of_a_hosts_thoughts_travel_in_their_signature() -> None:
    first = {"type": "reasoning.text", "index": 0, "format": "x", "text": "a"}
    parts = answer(
        {"reasoning": "a", "reasoning_details": [first]},
        {"reasoning": "b", "reasoning_details": [{**first, "text": "b", "signature": "s"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "d"}]},
        {"content": "c"},
    ).parts
    entry = '{"type":"reasoning.text","index":0,"format":"x","signature":"s"}'
    sealed = '{"type":"reasoning.encrypted","index":1,"data":"d"}'
    assert parts == (
        Thinking("ab", Signature(Family.OPENAI, entry)),
        Thinking("", Signature(Family.OPENAI, sealed, redacted=True)),
        Text("c"),
    )


def test_content_in_parts_is_read() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    content = [thought, {"type": "text", "text": "a"}, {"type": "reference"}, 5]
    assert answer({"content": content}).parts == (Thinking("hm", UNSIGNED), Text("a"))


def test_images_citations_and_refusals_are_read() -> None:
    cited = {"url": "https://a", "title": "t", "start_index": 1, "end_index": 2}
    found = answer(
        {"content": "a", "annotations": [{"type": "url_citation", "url_citation": cited}]},
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aWs="}}]},
        {"refusal": "no"},
    )
    assert found.parts == (
        Text("a", citations=(Citation("https://a", "t", 1, 2),)),
        Media(MediaKind.IMAGE, "image/png", "aWs="),
        Refusal("no"),
    )
    assert found.stop is StopReason.REFUSAL


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("stop", StopReason.END),
        ("length", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSAL),
        ("tool_calls", StopReason.END),
        ("model_length", StopReason.LENGTH),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
    ],
)
def test_reasons_to_end_are_understood(word: str, stop: StopReason) -> None:
    assert answer({"content": "a"}, finish=word) == Candidate((Text("a"),), stop)


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("stop", StopReason.TOOL_USE),
        ("function_call", StopReason.TOOL_USE),
        ("length", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSAL),
        ("brand_new", StopReason.TOOL_USE),
    ],
)
def test_calls_win_over_an_end_but_not_over_length_and_refusal(word: str, stop: StopReason) -> None:
    assert answer({"tool_calls": [call(0, "1", "f", "{}")]}, finish=word).stop is stop


def test_an_unknown_reason_is_an_end_that_is_told() -> None:
    found = answer({"content": "a"}, finish="brand_new")
    assert (found.stop, found.unknown_stop) == (StopReason.END, "brand_new")


def test_details_of_odd_types_are_skipped() -> None:
    details = [{"type": ["reasoning.text"], "text": "a"}, {"type": {}}, 5]
    assert answer({"reasoning_details": details}, {"content": "b"}).parts[-1] == Text("b")


@pytest.mark.parametrize("place", ["x_groq", "choice"])
def test_usage_is_found_where_hosts_put_it(place: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    last = chunk(finish="stop", x_groq={"id": "r", "usage": usage})
    if place == "choice":
        last = sse({"id": "c1", "choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]})
    counted, ended = read(chunk({"content": "a"}), last, DONE)[-2:]
    assert (counted, ended) == (Counted(TokenUsage(3, 4)), Ended(StopReason.END))


def test_usage_in_every_chunk_is_cumulative() -> None:
    def usage(tokens: int) -> Json:
        return {"prompt_tokens": 5, "completion_tokens": tokens, "prompt_cache_hit_tokens": 2}

    events = read(
        chunk({"content": "a"}, usage=usage(1)),
        chunk({"content": "b"}, usage=usage(1)),
        chunk(finish="stop", usage=usage(2)),
    )
    counted = [event.usage for event in events if isinstance(event, Counted)]
    assert counted == [TokenUsage(5, 1, 2), TokenUsage(5, 2, 2)]


def test_choices_are_candidates() -> None:
    events = read(
        chunk({"content": "a"}, index=1),
        chunk({"content": "b"}),
        chunk(finish="stop", index=1),
        chunk(finish="length"),
    )
    assert [event for event in events if isinstance(event, TextAdded)] == [
        TextAdded("a", 1),
        TextAdded("b", 0),
    ]
    ended = [(event.candidate, event.stop) for event in events if isinstance(event, Ended)]
    assert ended == [(1, StopReason.END), (0, StopReason.LENGTH)]


def test_probabilities_are_read_and_odd_ones_skipped() -> None:
    token = {
        "token": "a",
        "logprob": -1,
        "bytes": [97],
        "top_logprobs": [{"token": "b", "logprob": -2.0}, 5, {"token": "c", "logprob": 10**400}],
    }
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [token, "x", {"token": 1}]}}
    found = collect_candidate(read(sse({"choices": [choice]}), chunk(finish="stop")))
    assert found.logprobs == (TokenLogprob("a", -1.0, (Alternative("b", -2.0),)),)
