"""Streams of chat completions that break off, end early or hold an error."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    Ended,
    StopReason,
    TextAdded,
    UpstreamError,
)
from mgw.nouns.errors import GatewayError, Reason
from tests.support.chat_streams import DONE, broken, call, chunk, read, sse

BROKE = "the upstream's stream ended with an error"


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
        (chunk(finish="error"), UpstreamError(502, "the upstream cut off its response", "error")),
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
    [broke] = events[2:]
    assert isinstance(broke, Broke)
    assert replace(broke.error, own_message=None) == error


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


def test_an_error_outside_of_any_event_is_told_in_its_own_words() -> None:
    events = read(chunk({"content": "a"}), b'{"error": {"message": "out of memory", "code": 503}}\n')
    last = events[-1]
    assert isinstance(last, Broke)
    assert last.error.message == "out of memory"
