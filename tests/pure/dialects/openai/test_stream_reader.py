"""Answers of providers that speak chat completions, streamed or whole: the oddities of hosts among them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Citation,
    Media,
    MediaKind,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.reply import (
    Alternative,
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    Candidate,
    Counted,
    Ended,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.dialect import ReplySource
from mgw.dialects.openai.calls import ArgumentsScanner
from mgw.dialects.openai.reply import collect_candidate, parse_reply
from mgw.dialects.openai.stream_reader import ChatStreamReader
from mgw.dialects.refusal import AnswerError
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family

Json = Any  # Any: JSON as a host writes it

UNSIGNED = Signature(Family.OPENAI, "")
BROKE = "the upstream's stream ended with an error"
DONE = b"data: [DONE]\n\n"


def sse(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: Json = None, finish: str | None = None, index: int = 0, **fields: Json) -> bytes:
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    frame = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m1"}
    return sse({**frame, "choices": [choice], **fields})


def call(index: int | None, call_id: str | None, name: str | None, arguments: Json = "") -> Json:
    found: Json = {"function": {"arguments": arguments}}
    if name is not None:
        found["function"]["name"] = name
    if call_id is not None:
        found["id"] = call_id
    if index is not None:
        found["index"] = index
    return found


def read(*pieces: bytes) -> list[ReplyEvent]:
    reader = ChatStreamReader("seed")
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def answer(*deltas: Json, finish: str = "stop") -> Candidate:
    return collect_candidate(read(*map(chunk, deltas), chunk(finish=finish), DONE))


def calls_in(*calls: Json) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of the calls that these pieces make, one piece a delta."""
    found = answer(*({"tool_calls": [one]} for one in calls), finish="tool_calls")
    return [(part.id, part.name, part.arguments) for part in found.parts if isinstance(part, ToolCall)]


def whole(message: Json, finish: str = "stop", **fields: Json) -> Reply:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return parse_reply(
        json.dumps({"id": "c1", "model": "m1", "choices": [choice], **fields}).encode(), ReplySource("seed")
    )


def broken(data: bytes) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        parse_reply(data, ReplySource("seed"))
    assert caught.value.reason is Reason.UPSTREAM_BROKEN
    return caught.value


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


CALLS: dict[str, tuple[list[Json], list[tuple[str, str, str]]]] = {
    "interleaved": (
        [
            call(0, "1", "f", ""),
            call(1, "2", "g", ""),
            call(0, None, None, "{"),
            call(1, None, None, "{}"),
            call(0, None, None, "}"),
        ],
        [("1", "f", "{}"), ("2", "g", "{}")],
    ),
    "id and name in every piece": (
        [call(0, "1", "f", '{"a"'), call(0, "1", "f", ":1}"), call(0, "1", "f", "")],
        [("1", "f", '{"a":1}')],
    ),
    "the same index, another id": (
        [call(0, "1", "f", "{}"), call(0, "2", "g", "{}")],
        [("1", "f", "{}"), ("2", "g", "{}")],
    ),
    "the same index, no ids, whole calls": (
        [call(0, "", "f", '{"a":1}'), call(0, "", "f", '{"a":2}')],
        [
            ("call_f65fc81ee78f79e7a3bb4bf5", "f", '{"a":1}'),
            ("call_e06e8ee1b6b51ee5ce84f05f", "f", '{"a":2}'),
        ],
    ),
    "no index, ids": (
        [call(None, "1", "f", "{"), call(None, "1", None, "}"), call(None, "2", "g", "{}")],
        [("1", "f", "{}"), ("2", "g", "{}")],
    ),
    "no index, id in the first piece only": (
        [
            call(None, "1", "f", "{"),
            call(None, None, None, "}"),
            call(None, "2", "g", "{"),
            call(None, None, None, "}"),
        ],
        [("1", "f", "{}"), ("2", "g", "{}")],
    ),
    "an index that is a string": (
        [{**call(None, "1", "f", "{"), "index": "0"}, {**call(None, None, None, "}"), "index": "0"}],
        [("1", "f", "{}")],
    ),
    "a name after its id": (
        [call(0, "1", ""), call(0, None, None, "{"), call(0, None, "f", "}")],
        [("1", "f", "{}")],
    ),
    "arguments as an object": ([call(0, "1", "f", {"a": 1})], [("1", "f", '{"a":1}')]),
    "arguments that are no object": (
        [call(0, "1", "f", "["), call(0, None, None, '"}"'), call(0, None, None, "]")],
        [("1", "f", '["}"]')],
    ),
    "what follows the object": ([call(0, "1", "f", "{} \n"), call(0, None, None, "}")], [("1", "f", "{}")]),
    "a call of another kind": ([{**call(0, "1", "f"), "type": "custom"}], []),
    "a name in pieces": (
        [call(0, "1", "get_"), call(0, None, "wea"), call(0, None, "ther"), call(0, None, None, "{}")],
        [("1", "get_weather", "{}")],
    ),
    "a name in pieces, the last with arguments": (
        [call(0, "1", "get_"), call(0, None, "weather", '{"a":'), call(0, None, None, "1}")],
        [("1", "get_weather", '{"a":1}')],
    ),
    "a name in pieces, with its id in each": (
        [call(0, "1", "get_"), call(0, "1", "weather"), call(0, "1", None, "{}")],
        [("1", "get_weather", "{}")],
    ),
    "a name in pieces, and no arguments": (
        [call(0, "1", "get_"), call(0, None, "weather")],
        [("1", "get_weather", "")],
    ),
    "names in pieces, interleaved": (
        [
            *(call(0, "1", "get_"), call(1, "2", "se"), call(0, None, "weather"), call(1, None, "arch")),
            *(call(1, None, None, "{}"), call(0, None, None, "{}")),
        ],
        [("1", "get_weather", "{}"), ("2", "search", "{}")],
    ),
    "a name that is said again": (
        [call(0, "1", "f"), call(0, "1", "f"), call(0, "1", "f", "{}"), call(0, "1", "f", "")],
        [("1", "f", "{}")],
    ),
    "all of a name so far": ([call(0, "1", "get"), call(0, "1", "get_a", "{}")], [("1", "get_a", "{}")]),
    "a name that comes after its arguments": (
        [call(0, "1", None, '{"a":'), call(0, None, "f"), call(0, None, None, "1}")],
        [("1", "f", '{"a":1}')],
    ),
    "another id in every piece": (
        [call(0, "1", "f"), call(0, "2", None, "{"), call(0, "3", None, "}")],
        [("1", "f", "{}")],
    ),
    "an id in pieces": (
        [call(0, "call_", "f"), call(0, "abc", None), call(0, None, None, "{}")],
        [("call_", "f", "{}")],
    ),
    "no index, another id in every piece": (
        [
            call(None, "1", "f"),
            call(None, "2", None, "{"),
            call(None, "3", None, "}"),
            call(None, "4", "g", "{}"),
        ],
        [("1", "f", "{}"), ("4", "g", "{}")],
    ),
    "no index, calls without arguments": (
        [call(None, "1", "f"), call(None, "2", "g")],
        [("1", "f", ""), ("2", "g", "")],
    ),
    "no function around it": (
        [{"index": 0, "id": "1", "name": "f", "arguments": "{}"}],
        [("1", "f", "{}")],
    ),
    "an empty entry": ([{}, call(0, "1", "f", "{}")], [("1", "f", "{}")]),
    "no arguments": ([call(0, "1", "f", None)], [("1", "f", "")]),
}


@pytest.mark.parametrize(("pieces", "calls"), CALLS.values(), ids=CALLS)
def test_calls_are_told_apart_however_a_host_numbers_them(
    pieces: list[Json], calls: list[tuple[str, str, str]]
) -> None:
    found = calls_in(*pieces)
    if calls and calls[0][0].startswith("call_"):  # made, and each its own
        assert [one[1:] for one in found] == [one[1:] for one in calls]
        assert len({one[0] for one in found}) == len(calls)
        assert found == calls_in(*pieces)
    else:
        assert found == calls


@pytest.mark.parametrize(
    ("pieces", "finish"),
    [
        ([call(0, "1", None, "{}")], "tool_calls"),
        ([call(0, "1", None, "{}")], "stop"),
        ([call(0, "1", "", "")], "tool_calls"),
        ([call(0, "1", "f", "{}"), call(1, "2", None, '{"a":1}')], "tool_calls"),
    ],
    ids=["arguments", "any end", "none", "beside another"],
)
def test_a_call_that_never_gets_a_name_is_no_silent_loss(pieces: list[Json], finish: str) -> None:
    deltas = [chunk({"tool_calls": [piece]}) for piece in pieces]
    events = read(chunk({"content": "I look."}), *deltas, chunk(finish=finish), DONE)
    assert isinstance(events[-1], Broke)
    assert "without a name" in events[-1].error.message
    with pytest.raises(GatewayError, match="without a name"):
        whole({"content": "I look.", "tool_calls": pieces}, finish)


def test_an_empty_entry_is_no_call() -> None:
    found = answer({"content": "a"}, {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]})
    assert found.parts == (Text("a"),)
    assert found.stop is StopReason.END


def test_a_call_stands_before_the_text_that_follows_it() -> None:
    found = answer({"tool_calls": [call(0, "1", "f")]}, {"content": "a"}, finish="tool_calls")
    assert found.parts == (ToolCall("1", "f", ""), Text("a"))


def test_several_calls_without_index_in_one_delta_are_several() -> None:
    found = answer({"tool_calls": [call(None, None, "f", "{}"), call(None, None, "f", "{}")]}).parts
    assert len(found) == 2


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


def test_what_a_choice_says_after_its_end_is_skipped() -> None:
    events = read(chunk(finish="stop"), chunk({"content": "late"}), chunk(finish="length"), DONE)
    assert events[1:] == [Ended(StopReason.END)]


def test_a_half_written_call_ends_with_its_answer() -> None:
    events = read(chunk({"tool_calls": [call(0, "1", "f", '{"a"')]}), chunk(finish="length"))
    assert events[-2:] == [CallEnded(0), Ended(StopReason.LENGTH)]


def test_details_of_odd_types_are_skipped() -> None:
    details = [{"type": ["reasoning.text"], "text": "a"}, {"type": {}}, 5]
    assert answer({"reasoning_details": details}, {"content": "b"}).parts[-1] == Text("b")


@pytest.mark.parametrize("place", ["x_groq", "choice"])
def test_usage_is_found_where_hosts_put_it(place: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    last = chunk(finish="stop", x_groq={"id": "r", "usage": usage})
    if place == "choice":
        last = sse({"id": "c1", "choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]})
    assert read(chunk({"content": "a"}), last, DONE)[-1] == Counted(TokenUsage(3, 4))


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


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (
            sse({"error": {"message": "busy", "type": "server_error", "code": "overloaded"}}),
            UpstreamError(503, "busy", "overloaded"),
        ),
        (
            chunk({"content": ""}, finish="error", error={"message": "no", "code": 429}),
            UpstreamError(429, "no"),
        ),
        (sse({"error": "it broke"}), UpstreamError(502, "it broke")),
        (b'event: error\ndata: {"message":"late","type":"x"}\n\n', UpstreamError(502, "late", "x")),
        (chunk(finish="error"), UpstreamError(502, "the upstream broke off its response", "error")),
        (
            sse({"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}),
            UpstreamError(400, "too long", "BadRequestError"),
        ),
        (sse({"object": "error", "message": "", "code": "429"}), UpstreamError(429, BROKE, "429")),
        (
            sse({"message": "late", "code": "rate_limit_exceeded"}),
            UpstreamError(429, "late", "rate_limit_exceeded"),
        ),
        (sse({"detail": "no such model"}), UpstreamError(502, "no such model")),
        (sse({"detail": [{"msg": "odd"}]}), UpstreamError(502, '[{"msg":"odd"}]')),
        (sse({"choices": [], "message": "late"}), UpstreamError(502, "late")),
        (sse({"errors": [{"message": "late", "code": 503}]}), UpstreamError(503, "late")),
        (
            sse([{"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}]),
            UpstreamError(429, "slow down", "RESOURCE_EXHAUSTED"),
        ),
        (
            sse({"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "gone"}}]}),
            UpstreamError(502, "gone"),
        ),
        (
            sse(
                {"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "w"}}]}
            ),
            UpstreamError(429, "w"),
        ),
        (
            sse({"choices": [{"delta": {}}], "x_groq": {"error": "over capacity"}}),
            UpstreamError(502, "over capacity"),
        ),
        (
            sse({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}),
            UpstreamError(502, "rate limit"),
        ),
        (sse("it broke"), UpstreamError(502, "it broke")),
        (b"data: upstream request timeout\n\n", UpstreamError(502, "upstream request timeout")),
        (
            b"data: <html><head><title>504 Gateway Time-out</title></head></html>\n\n",
            UpstreamError(502, "504 Gateway Time-out"),
        ),
        (b"event: error\ndata: over & out\n\n", UpstreamError(502, "over & out")),
    ],
    ids=[
        *("event", "in a chunk", "a string", "event: error", "finish reason"),
        *("vllm", "vllm without words", "message", "detail", "fastapi", "no choices", "errors", "google"),
        *("of a choice", "finish reason with words", "groq", "minimax", "json string"),
        *("plain text", "html", "event: error of plain text"),
    ],
)
def test_an_error_breaks_the_stream_and_nothing_follows(event: bytes, error: UpstreamError) -> None:
    events = read(chunk({"content": "a"}), event, chunk({"content": "b"}), chunk(finish="stop"), DONE)
    assert events[2:] == [Broke(error)]


def test_noise_is_skipped() -> None:
    events = read(
        b": still here\n\n",
        sse({"choices": [], "prompt_filter_results": []}),
        chunk({"content": "a"}),
        b"data:\n\n",
        sse({"object": "brand.new"}),
        sse({"type": "ping", "message": None, "base_resp": {"status_code": 0, "status_msg": ""}}),
        chunk(finish="stop"),
        DONE,
        chunk({"content": "late"}),
    )
    assert events == [Began("c1", "m1"), TextAdded("a"), Ended(StopReason.END)]


@pytest.mark.parametrize(
    "ending",
    [chunk(finish="stop"), DONE, chunk(finish="stop").rstrip(), chunk(finish="stop") + DONE],
    ids=["finish reason", "done", "no blank line", "both"],
)
def test_either_end_is_one(ending: bytes) -> None:
    assert read(chunk({"content": "a"}), ending)[-1] == Ended(StopReason.END)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (chunk({"content": "a"}),),
        (DONE,),
        (chunk({"content": "a"}), chunk({"content": "b"}, index=1), chunk(finish="stop")),
        (b": ping\n\n",),
    ],
    ids=["nothing", "no end", "no answer", "one of two", "signs of life"],
)
def test_a_stream_that_ends_before_its_answer_is_broken(pieces: Iterable[bytes]) -> None:
    with pytest.raises(GatewayError) as caught:
        read(*pieces)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><head><title>no <!-- x --> stream</title></head></html>", "no stream"),
        (b"<html>\n<style>p {}</style><h1>Bad   Gateway</h1><p>a &amp; b", "Bad Gateway a & b"),
        (b"upstream connect error or disconnect", "upstream connect error or disconnect"),
    ],
    ids=["title", "page", "plain text"],
)
def test_what_is_no_stream_says_so_in_its_own_words(body: bytes, words: str) -> None:
    error = UpstreamError(502, f"the upstream's response is not a stream: {words}")
    assert read(body) == [Broke(error)]
    assert read(*(body[at : at + 1] for at in range(len(body)))) == [Broke(error)]
    assert words in broken(body).message


@pytest.mark.parametrize(
    "event",
    [
        b"data: {\n\n",
        b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n',
        b"data: " + b"[" * 5000 + b"\n\n",
        sse([1]),
        sse({"choices": "x"}),
        b"data: [DO",
    ],
    ids=["cut", "no utf-8", "deep", "an array", "no choices", "half an end"],
)
def test_what_cannot_be_read_is_a_break_and_no_silent_loss(event: bytes) -> None:
    assert isinstance(read(chunk({"content": "a"}), event)[-1], Broke)
    assert read(chunk({"content": "a"}), chunk(finish="stop"), event)[-1] == Ended(StopReason.END)


def test_done_in_the_midst_of_a_call_is_a_break() -> None:
    begun = chunk({"tool_calls": [call(0, "1", "f", '{"a": ')]})
    assert [type(event) for event in read(begun, DONE)] == [Began, CallBegan, ArgumentsAdded, Broke]
    assert isinstance(read(chunk({"content": "a"}, index=1), begun, DONE)[-1], Broke)


@pytest.mark.parametrize("arguments", ['{"a":1}', ""])
def test_done_behind_a_whole_call_is_an_end(arguments: str) -> None:
    events = read(chunk({"tool_calls": [call(0, "1", "f", arguments)]}), DONE)
    assert events[-1] == Ended(StopReason.TOOL_USE)


text = st.text(max_size=3)
odd = st.none() | st.booleans() | st.integers(-2, 200) | text
functions = st.fixed_dictionaries(
    {},
    optional={"name": st.sampled_from(["f", ""]), "arguments": st.sampled_from(["{", "}", '{"a":1}', "\\"])},
)
tool_calls = st.fixed_dictionaries(
    {"function": functions | odd},
    optional={"index": st.integers(0, 2) | odd, "id": st.sampled_from(["1", "2"]) | odd, "type": odd},
)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": text | odd | st.lists(st.fixed_dictionaries({"text": odd}), max_size=2),
        "reasoning_content": text | odd,
        "reasoning": text | odd,
        "reasoning_details": st.lists(
            st.fixed_dictionaries(
                {}, optional={"type": odd | st.just("reasoning.encrypted"), "index": odd, "text": odd}
            ),
            max_size=2,
        )
        | odd,
        "refusal": text | odd,
        "tool_calls": st.lists(tool_calls | odd, max_size=3) | odd,
        "function_call": functions | odd,
        "annotations": st.lists(odd, max_size=1) | odd,
        "images": st.lists(st.fixed_dictionaries({"image_url": odd}) | odd, max_size=1) | odd,
        "extra_content": st.fixed_dictionaries({"google": odd}) | odd,
    },
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 1) | odd,
        "delta": deltas | st.none(),
        "finish_reason": st.none() | st.sampled_from(["stop", "length", "", "error"]) | odd,
        "logprobs": odd,
    },
)
chunks = st.fixed_dictionaries(
    {},
    optional={
        "id": odd,
        "model": odd,
        "choices": st.lists(choices, max_size=2) | odd,
        "usage": odd | st.dictionaries(st.sampled_from(["prompt_tokens"]), odd),
        "error": st.none() | odd,
    },
)
streams = st.lists(
    chunks.map(sse) | st.sampled_from([DONE, b": hi\n\n", b"\r\n", b"data: x\n\n"]), max_size=8
)


def told(pieces: Iterable[bytes]) -> tuple[list[ReplyEvent], bool]:
    reader = ChatStreamReader("seed")
    events: list[ReplyEvent] = []
    for piece in pieces:
        events += reader.feed(piece)
    try:
        return events + reader.finish(), True
    except GatewayError:
        return events, False


@settings(deadline=None)
@given(streams, st.integers(1, 9))
def test_any_cut_tells_the_same_events(pieces: list[bytes], size: int) -> None:
    stream = b"".join(pieces)
    cut = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert told(cut) == told(pieces) == told([stream])


@settings(deadline=None)
@given(streams)
def test_whatever_comes_the_events_keep_their_order(pieces: list[bytes]) -> None:
    events, _ = told(pieces)
    kinds = [type(event) for event in events]
    assert Began not in kinds[1:]
    assert not events or kinds[0] in {Began, Broke}
    assert Broke not in kinds[:-1]
    open_calls: set[tuple[int, int]] = set()
    ended: set[int] = set()
    for event in events:
        if isinstance(event, Began | Counted | Broke):
            continue
        assert event.candidate not in ended
        if isinstance(event, CallBegan):
            open_calls.add((event.candidate, event.call))
        elif isinstance(event, ArgumentsAdded):
            assert (event.candidate, event.call) in open_calls
            assert event.text
        elif isinstance(event, CallEnded):
            open_calls.remove((event.candidate, event.call))
        elif isinstance(event, Ended):
            assert not any(candidate == event.candidate for candidate, _ in open_calls)
            ended.add(event.candidate)


@given(
    st.recursive(
        st.text('"\\\\{}a') | st.integers() | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: json.dumps({"a": value})),
    st.lists(st.integers(0, 60), max_size=6),
    st.sampled_from(["", " ", "}", '{"b":1}']),
)
def test_the_scanner_knows_the_end_of_an_object_however_it_is_cut(
    value: str, cuts: list[int], rest: str
) -> None:
    scanner = ArgumentsScanner()
    taken = ""
    places = sorted({0, len(value), *(cut for cut in cuts if cut < len(value))})
    for start, end in pairwise(places):
        assert not scanner.complete
        taken += scanner.feed(value[start:end])
    assert scanner.complete
    assert taken + scanner.feed(rest) == value
    alone = ArgumentsScanner()
    assert alone.feed(value + rest) == value


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
    assert caught.value.error == error


@settings(deadline=None)
@given(deltas, odd)
def test_any_message_is_understood_or_broken(message: Json, finish: Json) -> None:
    try:
        whole(message, finish)
    except GatewayError as error:
        assert error.reason is Reason.UPSTREAM_BROKEN  # noqa: PT017 - either outcome is right


def test_an_error_outside_of_any_event_is_told_in_its_own_words() -> None:
    events = read(chunk({"content": "a"}), b'{"error": {"message": "out of memory", "code": 503}}\n')
    last = events[-1]
    assert isinstance(last, Broke)
    assert last.error.message == "out of memory"
