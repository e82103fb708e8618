"""Events as a stream for Google's clients."""

from __future__ import annotations

import json
from typing import Final

import pytest

from mgw.canonical.conversation import Citation, Media, MediaKind, Signature
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    CitationAdded,
    Counted,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenLogprob,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.gemini import stream_writer as module
from mgw.dialects.signatures import SKIP_VALIDATOR, tag_signature
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support.gemini_streams import (
    ARRAY,
    FOREIGN,
    SSE,
    Json,
    candidates_of,
    chunks_of,
    parts_of,
    whole,
    writer,
)

END: Final = Ended(StopReason.END)


def test_a_stream_is_written_piece_by_piece() -> None:
    one = writer()
    assert one.content_type == b"text/event-stream"
    assert one.write([Began("r", "gpt-x", TokenUsage(3))]) == b""
    text = one.write([TextAdded("a\u20ac")])
    assert (
        text
        == (
            'data: {"candidates":[{"content":{"parts":[{"text":"a\u20ac"}],"role":"model"},"index":0}],'
            '"modelVersion":"gpt-x","responseId":"r"}\n\n'
        ).encode()
    )
    assert one.write([END, Counted(TokenUsage(3, 2, 1, reasoning=1))]) == b""
    assert chunks_of(one.finish()) == [
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": ""}], "role": "model"},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 3,
                "candidatesTokenCount": 1,
                "totalTokenCount": 5,
                "cachedContentTokenCount": 1,
                "thoughtsTokenCount": 1,
            },
            "modelVersion": "gpt-x",
            "responseId": "r",
        }
    ]


def test_no_character_ends_a_line_for_a_client_that_knows_more_line_ends_than_the_wire() -> None:
    text = "a\u2028b\u2029c\x85d\x0b\x0c\x1c\u2019"
    arguments = '{"a":"\u2028\u2029\x85\u2019"}'
    events: list[ReplyEvent] = [
        Began(),
        TextAdded(text),
        CallBegan(0, "1", "f"),
        ArgumentsAdded(0, arguments),
        CallEnded(0),
        END,
    ]
    data = whole(*events)
    assert all(len(event.splitlines()) == 1 for event in data.decode().split("\n\n")[:-1])
    assert "\u2019" in data.decode()
    first, called, *_ = parts_of(*events)
    assert first["text"] == text
    assert called["functionCall"]["args"] == {"a": "\u2028\u2029\x85\u2019"}


def test_an_array_has_the_same_elements() -> None:
    events = (Began("r", "m"), TextAdded("a"), END)
    assert writer(ARRAY).content_type == b"application/json"
    assert json.loads(whole(*events, answering=ARRAY)) == chunks_of(whole(*events))


def test_a_call_goes_out_when_it_has_ended() -> None:
    one = writer()
    assert one.write([Began(), CallBegan(0, "1", "f"), ArgumentsAdded(0, '{"a"')]) == b""
    found = chunks_of(one.write([ArgumentsAdded(0, ":1}"), CallEnded(0)]))
    assert found[0]["candidates"][0]["content"]["parts"] == [
        {
            "functionCall": {"id": "1", "name": "f", "args": {"a": 1}},
            "thoughtSignature": SKIP_VALIDATOR,
        }
    ]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_arguments_lose_the_line_breaks_between_their_tokens(breaks: str, ended: bool) -> None:
    arguments = f'{{{breaks} "a": 1,{breaks} "b": "x\\ny"{breaks}}}'
    ends = (CallEnded(0),) if ended else ()
    events = [
        Began(),
        CallBegan(0, "1", "f"),
        ArgumentsAdded(0, arguments),
        *ends,
        Ended(StopReason.TOOL_USE),
    ]
    assert all(len(event.splitlines()) == 1 for event in whole(*events).split(b"\n\n")[:-1])
    (call,) = [part["functionCall"] for part in parts_of(*events) if "functionCall" in part]
    assert call["args"] == {"a": 1, "b": "x\ny"}


def test_only_the_first_call_of_a_candidate_is_signed_for_want_of_a_signature() -> None:
    events = [
        event
        for candidate in (0, 1)
        for call in (0, 1)
        for event in (
            CallBegan(call, f"{candidate}{call}", "f", candidate=candidate),
            ArgumentsAdded(call, "{}", candidate),
            CallEnded(call, candidate),
        )
    ]
    ends = (Ended(StopReason.TOOL_USE), Ended(StopReason.TOOL_USE, candidate=1))
    signed = [
        part.get("thoughtSignature") for part in parts_of(Began(), *events, *ends) if "functionCall" in part
    ]
    assert signed == [SKIP_VALIDATOR, None, SKIP_VALIDATOR, None]


def test_calls_that_interleave_are_written_whole() -> None:
    parts = parts_of(
        Began(),
        CallBegan(0, "1", "f"),
        CallBegan(1, "2", "g", FOREIGN),
        ArgumentsAdded(1, '{"b":2'),
        ArgumentsAdded(0, '{"a":1}'),
        ArgumentsAdded(1, "}"),
        CallEnded(1),
        TextAdded("x"),
        CallEnded(0),
        Ended(StopReason.TOOL_USE),
    )
    calls = [part for part in parts if "functionCall" in part]
    assert [part["functionCall"]["args"] for part in calls] == [{"a": 1}, {"b": 2}]
    assert [part["thoughtSignature"] for part in calls] == [SKIP_VALIDATOR, tag_signature(FOREIGN)]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    ("arguments", "stop", "args"),
    [
        ('{"a":', StopReason.LENGTH, []),
        ("", StopReason.LENGTH, []),
        ('{"a":1}', StopReason.LENGTH, [{"a": 1}]),
        ('{"a":', StopReason.TOOL_USE, [{"arguments": '{"a":'}]),
        ("", StopReason.TOOL_USE, [{}]),
    ],
)
def test_a_call_that_was_cut_off_is_left_out(
    ended: bool, arguments: str, stop: StopReason, args: list[Json]
) -> None:
    ends = (CallEnded(0),) if ended else ()
    parts = parts_of(Began(), CallBegan(0, "1", "f"), ArgumentsAdded(0, arguments), *ends, Ended(stop))
    assert [part["functionCall"]["args"] for part in parts if "functionCall" in part] == args


def test_a_call_carries_the_signature_of_the_thought_before_it() -> None:
    parts = parts_of(
        Began(),
        ThinkingAdded("Hm"),
        ThinkingAdded("."),
        ThinkingSigned(FOREIGN),
        TextAdded("a"),
        *(
            event
            for call in (0, 1)
            for event in (CallBegan(call, str(call), "f"), ArgumentsAdded(call, "{}"), CallEnded(call))
        ),
        Ended(StopReason.TOOL_USE),
    )
    signatures = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
    assert signatures == [tag_signature(FOREIGN, "Hm.")] * 2


def test_calls_keep_their_order_behind_one_that_waits() -> None:
    parts = parts_of(
        Began(),
        CallBegan(0, "1", "f"),
        CallEnded(0),
        CallBegan(1, "2", "f"),
        ArgumentsAdded(1, "{}"),
        CallEnded(1),
        Ended(StopReason.TOOL_USE),
    )
    assert [part["functionCall"]["id"] for part in parts if "functionCall" in part] == ["1", "2"]


def test_every_kind_of_part_has_its_chunk() -> None:
    found = candidates_of(
        Began(),
        ThinkingAdded("Hm"),
        ThinkingSigned(FOREIGN),
        ThinkingSigned(Signature(Family.GEMINI, "")),
        RefusalAdded("No."),
        MediaAdded(Media(MediaKind.IMAGE, "image/png", data="AA==")),
        TextSigned(FOREIGN),
        LogprobsAdded((TokenLogprob("a", -1.0),)),
        CitationAdded(Citation("u")),
        Ended(StopReason.REFUSAL),
    )
    assert [one["content"]["parts"][0] for one in found] == [
        {"text": "Hm", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": tag_signature(FOREIGN, "Hm")},
        {"text": "No."},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"text": "", "thoughtSignature": tag_signature(FOREIGN)},
        {"text": ""},
        {"text": ""},
    ]
    assert found[5]["logprobsResult"]["chosenCandidates"] == [{"token": "a", "logProbability": -1.0}]
    assert found[6]["citationMetadata"] == {"citationSources": [{"uri": "u"}]}
    assert found[6]["finishReason"] == "SAFETY"


@pytest.mark.parametrize("answering", [SSE, ARRAY], ids=["sse", "array"])
def test_a_break_is_shown_and_nothing_follows(answering: ReplyContext) -> None:
    error = UpstreamError(529, "Overloaded.", "overloaded_error")
    one = writer(answering)
    data = one.write([Began(), TextAdded("a"), Broke(error), TextAdded("b")])
    assert chunks_of(data)[-1] == {
        "error": {
            "code": 503,
            "message": "Overloaded.",
            "status": "UNAVAILABLE",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "OVERLOADED_ERROR",
                    "domain": "upstream",
                }
            ],
        }
    }
    assert (one.write([TextAdded("c")]), one.finish(), one.fail(error), one.keepalive()) == (b"",) * 4


@pytest.mark.parametrize(
    "events",
    [[], [Began()], [Began(), TextAdded("a")], [Began(), END, TextAdded("a", 1)]],
    ids=["nothing", "begun", "open", "one of two"],
)
def test_an_answer_that_has_not_ended_ends_as_broken(events: list[ReplyEvent]) -> None:
    one = writer()
    data = one.write(events) + one.finish()
    assert chunks_of(data)[-1]["error"]["status"] == "UNAVAILABLE"
    assert one.finish() == b""


def test_an_answer_that_has_ended_cannot_fail_any_more() -> None:
    one = writer()
    one.write([Began(), END])
    assert one.finish()
    assert one.fail(GatewayError(Reason.UPSTREAM_BROKEN, "late")) == b""


def test_a_candidate_that_has_ended_says_nothing_more() -> None:
    found = candidates_of(Began(), TextAdded("a"), Ended(StopReason.LENGTH), TextAdded("b"), END)
    assert [one["content"]["parts"] for one in found] == [[{"text": "a"}], [{"text": ""}]]
    assert found[-1]["finishReason"] == "MAX_TOKENS"


def test_a_keepalive_means_nothing_wherever_it_stands() -> None:
    for answering in (SSE, ARRAY):
        one = writer(answering)
        pieces = [one.keepalive(), one.write([Began(), TextAdded("a")]), one.keepalive(), one.write([END])]
        data = b"".join([*pieces, one.finish()])
        if answering is SSE:
            events = [line for line in data.split(b"\n") if line]
            assert all(line.startswith(b"data: ") for line in events)
        else:
            assert len(json.loads(data)) == 2


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD_CHARACTERS", 100)
    one = writer()
    data = one.write([Began(), CallBegan(0, "1", "f"), *[ArgumentsAdded(0, "x" * 60)] * 2])
    assert "error" in chunks_of(data)[-1]
    one = writer()  # what has been written is not held
    calls = [
        (CallBegan(n, "1", "f"), ArgumentsAdded(n, f'{{"a":"{"x" * 60}"}}'), CallEnded(n)) for n in range(9)
    ]
    data = one.write([Began(), *[event for call in calls for event in call], END])
    assert not any("error" in found for found in chunks_of(data + one.finish()))
