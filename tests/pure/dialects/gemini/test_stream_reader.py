"""A streamed answer of generateContent as events."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import Citation, Media, MediaKind, Signature, Text, ToolCall
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
from mgw.dialects.dialect import ReplySource
from mgw.dialects.gemini import PROVIDER
from mgw.dialects.gemini.reply import FAILURES
from mgw.dialects.refusal import UNREADABLE_EVENT
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family

Json = dict[str, Any]
OWN: Final = Signature(Family.GEMINI, "c2ln")
UNSIGNED: Final = Signature(Family.GEMINI, "")
USAGE: Final = {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}


def chunk(*parts: Json, finish: str | None = None, index: int = 0, **fields: Any) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": index}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [{**candidate, **fields.pop("candidate", {})}], **fields}


def sse(*chunks: Json, end: str = "\r\n\r\n") -> bytes:
    return "".join(f"data: {json.dumps(one)}{end}" for one in chunks).encode()


def array(*chunks: Json) -> bytes:
    return b"[" + b",\r\n".join(json.dumps(one, indent=2).encode() for one in chunks) + b"\n]"


def events_of(*pieces: bytes) -> list[ReplyEvent]:
    reader = PROVIDER.stream_reader("seed")
    found = [event for piece in pieces for event in reader.feed(piece)]
    return found + reader.finish()


def after_began(*chunks: Json) -> list[ReplyEvent]:
    began, *found = events_of(sse(*chunks))
    assert isinstance(began, Began)
    return found


RICH: Final = (
    chunk(
        {"text": "Hm", "thought": True},
        modelVersion="gx",
        responseId="r",
        usageMetadata={"promptTokenCount": 3},
    ),
    chunk({"text": ".", "thought": True}),
    chunk({"text": "It "}),
    chunk(
        {"text": "is\u20ac."},
        {"functionCall": {"name": "f", "id": "1", "args": {"z": 1}}, "thoughtSignature": "c2ln"},
    ),
    chunk({"functionCall": {"name": "g", "id": "2"}}, usageMetadata=USAGE),
    chunk({"text": "", "thoughtSignature": "c2ln"}, finish="STOP", usageMetadata=USAGE),
)
RICH_EVENTS: Final[list[ReplyEvent]] = [
    Began("r", "gx", TokenUsage(3)),
    ThinkingAdded("Hm"),
    ThinkingAdded("."),
    ThinkingSigned(UNSIGNED),
    TextAdded("It "),
    TextAdded("is\u20ac."),
    CallBegan(0, "1", "f", OWN),
    ArgumentsAdded(0, '{"z":1}'),
    CallEnded(0),
    CallBegan(1, "2", "g"),
    ArgumentsAdded(1, "{}"),
    CallEnded(1),
    Counted(TokenUsage(3, 3, reasoning=1)),
    TextSigned(OWN),
    Ended(StopReason.TOOL_USE),
]


def in_order(events: list[ReplyEvent]) -> list[ReplyEvent]:
    """Counts first, since where they stand among the others means nothing."""
    return sorted(events, key=lambda event: not isinstance(event, Began | Counted))


@pytest.mark.parametrize(
    "data", [sse(*RICH), sse(*RICH, end="\n\n"), array(*RICH)], ids=["sse", "lf", "array"]
)
def test_a_stream_is_read_whole(data: bytes) -> None:
    assert in_order(events_of(data)) == in_order(RICH_EVENTS)


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1), in_array=st.booleans())
def test_any_cut_gives_the_same_events(sizes: list[int], in_array: bool) -> None:
    data = array(*RICH) if in_array else sse(*RICH)
    pieces: list[bytes] = []
    while data:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[:size])
        data = data[size:]
    assert events_of(*pieces) == events_of(b"".join(pieces))


def test_every_event_comes_as_soon_as_its_chunk_is_there() -> None:
    reader = PROVIDER.stream_reader("s")
    assert TextAdded("a") in reader.feed(sse(chunk({"text": "a"})))
    assert reader.feed(sse(chunk({"text": "b"}))) == [TextAdded("b")]
    assert reader.usage == TokenUsage()
    reader.feed(sse(chunk(usageMetadata=USAGE)))
    assert reader.usage == TokenUsage(3, 3, reasoning=1)


def test_candidates_end_each_for_itself() -> None:
    found = after_began(
        chunk({"text": "a"}, index=1),
        chunk({"text": "b"}, index=0, finish="STOP"),
        chunk(index=1, finish="MAX_TOKENS"),
    )
    assert found == [
        TextAdded("a", 1),
        TextAdded("b", 0),
        Ended(StopReason.END, candidate=0),
        Ended(StopReason.LENGTH, candidate=1),
    ]


def test_made_identifiers_are_stable_and_differ() -> None:
    parts = [{"functionCall": {"name": "f"}}] * 3
    calls = [event for event in after_began(chunk(*parts, finish="STOP")) if isinstance(event, CallBegan)]
    assert len({call.id for call in calls}) == 3
    again = [event for event in after_began(chunk(*parts, finish="STOP")) if isinstance(event, CallBegan)]
    assert calls == again


def test_a_reason_in_every_chunk_ends_nothing_before_the_end() -> None:
    found = after_began(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}, finish="MAX_TOKENS"))
    assert found == [TextAdded("a"), TextAdded("b"), Ended(StopReason.LENGTH)]


def test_a_signed_call_ends_an_open_thought_that_nobody_signed() -> None:
    call = {"functionCall": {"name": "f", "id": "1"}, "thoughtSignature": "c2ln"}
    found = after_began(chunk({"text": "Hm", "thought": True}, call, finish="STOP"))
    assert found[:3] == [ThinkingAdded("Hm"), ThinkingSigned(UNSIGNED), CallBegan(0, "1", "f", OWN)]


def test_thoughts_media_citations_and_likelihoods_come_through() -> None:
    found = after_began(
        chunk({"text": "Hm", "thought": True, "thoughtSignature": "c2ln"}),
        chunk({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        chunk(
            {"text": "a"},
            candidate={
                "citationMetadata": {"citationSources": [{"uri": "u", "endIndex": 3}]},
                "logprobsResult": {"chosenCandidates": [{"token": "a", "logProbability": -1}]},
            },
            finish="STOP",
        ),
    )
    assert found == [
        ThinkingAdded("Hm"),
        ThinkingSigned(OWN),
        MediaAdded(Media(MediaKind.IMAGE, "image/png", data="AA==")),
        TextAdded("a"),
        CitationAdded(Citation("u", None, 0, 3)),
        LogprobsAdded((TokenLogprob("a", -1.0),)),
        Ended(StopReason.END),
    ]


def test_a_blocked_prompt_is_a_refusal() -> None:
    found = after_began(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    )
    assert found == [
        Counted(TokenUsage(3)),
        RefusalAdded("The prompt was blocked: SAFETY."),
        Ended(StopReason.REFUSAL),
    ]


@pytest.mark.parametrize("finish", sorted(FAILURES))
def test_nothing_but_a_failure_breaks_the_stream(finish: str) -> None:
    broke = after_began(chunk(finish=finish, candidate={"finishMessage": "why"}))[-1]
    assert isinstance(broke, Broke)
    assert (broke.error.status, broke.error.code) == (502, finish)
    assert "why" in broke.error.message


def test_a_failure_behind_a_text_is_an_end() -> None:
    found = after_began(chunk({"text": "a"}), chunk(finish="MALFORMED_FUNCTION_CALL"))
    assert found[-1] == Ended(StopReason.END)


@pytest.mark.parametrize("make", [sse, array])
def test_an_error_in_the_middle_breaks_the_stream_and_nothing_follows(make: Any) -> None:
    error = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
    reader = PROVIDER.stream_reader("s")
    found = reader.feed(make(chunk({"text": "a"}), error, chunk({"text": "b"})))
    broke = found[-1]
    assert isinstance(broke, Broke)
    assert (broke.error.status, broke.error.message, broke.error.code) == (503, "Overloaded.", "UNAVAILABLE")
    assert reader.feed(sse(chunk({"text": "c"}, finish="STOP"))) == []
    assert reader.finish() == []


QUOTA: Final = {
    "error": {
        "code": 429,
        "message": 'No more {"of} this.\n}',
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27s"}],
    }
}
"""With all that might confuse somebody who looks for its end."""


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1),
    before=st.sampled_from([b"", sse(*RICH[:3]), sse(*RICH), b": ping\n\n", b"data: {}\n", b"\xef\xbb\xbf"]),
    indent=st.sampled_from([None, 0, 2]),
    end=st.sampled_from([b"", b"\n", b"\r\n\r\n", b"\n" + sse(RICH[2])]),
    crlf=st.booleans(),
)
def test_an_error_in_lines_without_a_field_is_read_however_it_is_cut(
    sizes: list[int], before: bytes, indent: int | None, end: bytes, crlf: bool
) -> None:
    error = json.dumps(QUOTA, indent=indent).encode()
    data = before + (error.replace(b"\n", b"\r\n") if crlf else error) + end
    pieces: list[bytes] = []
    while data:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[:size])
        data = data[size:]
    broke = events_of(*pieces)[-1]
    assert isinstance(broke, Broke)
    found = broke.error
    assert (found.status, found.code, found.retry_after) == (429, "RESOURCE_EXHAUSTED", 27.0)
    assert found.message == 'No more {"of} this.\n}'


def test_an_error_without_a_field_comes_with_its_last_line() -> None:
    reader = PROVIDER.stream_reader("s")
    *lines, last = json.dumps(QUOTA, indent=2).encode().splitlines(keepends=True)
    assert [event for line in lines for event in reader.feed(line)] == []
    assert isinstance(reader.feed(last + b"\n")[0], Broke)


SLOW: Final = {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b'data: [{"error": %b}]\n\n' % json.dumps(SLOW).encode(), 429),
        (b'[{"error": %b}]\n' % json.dumps(SLOW).encode(), 429),
        (json.dumps([{"error": SLOW}], indent=2).encode(), 429),
        (sse({"error": {"message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}), 429),
        (sse({"error": {"message": "Slow down.", "code": "429"}}), 429),
        (sse({"error": "Slow down."}), 502),
        (sse({"message": "Slow down.", "code": 429}), 429),
        (sse({"detail": "Slow down."}), 502),
        (sse({"fault": {"faultstring": "Slow down."}}), 502),
        (b"data: Slow down.\n\n", 502),
        (b"data: <html><body>Slow down.</body></html>\n\n", 502),
    ],
)
@pytest.mark.parametrize("before", [b"", sse(chunk({"text": "a"})), sse(chunk({"text": "a"}, finish="STOP"))])
def test_an_error_of_any_shape_breaks_the_stream_in_its_own_words(
    before: bytes, data: bytes, status: int
) -> None:
    (broke,) = [event for event in events_of(before, data) if isinstance(event, Broke)]
    assert (broke.error.status, broke.error.message) == (status, "Slow down.")


@pytest.mark.parametrize(
    "data", [b"Slow down.\n", b"<!doctype html>\n<html><title>Slow down.</title>\n<body>503</html>"]
)
def test_what_a_proxy_says_in_place_of_a_stream_is_told(data: bytes) -> None:
    for pieces in ([data], [data[:9], data[9:]]):
        (broke,) = events_of(*pieces)
        assert isinstance(broke, Broke)
        assert broke.error == UpstreamError(502, "the provider's response is not a stream: Slow down.")


@pytest.mark.parametrize("error", [None, {}, "", False])
def test_an_error_that_is_none_breaks_nothing(error: Any) -> None:
    found = after_began(chunk({"text": "a"}, error=error), chunk(finish="STOP", error=error))
    assert found == [TextAdded("a"), Ended(StopReason.END)]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ('{"a":1}', '{"a":1}'),
        ("", "{}"),
        ("none", '{"arguments":"none"}'),
        ([1], '{"arguments":"[1]"}'),
        (None, "{}"),
    ],
)
def test_arguments_that_are_no_object_are_not_lost(args: Any, text: str) -> None:
    one = chunk({"functionCall": {"name": "f", "args": args}}, finish="STOP")
    assert [event.text for event in after_began(one) if isinstance(event, ArgumentsAdded)] == [text]


@pytest.mark.parametrize("beside", [{"functionCall": {"name": "f"}}, {"inlineData": {"data": "AAAA"}}])
def test_a_text_beside_something_else_is_not_lost(beside: Json) -> None:
    both = {"text": "a", "thoughtSignature": "c2ln", **beside}
    found = after_began(chunk(both, finish="STOP"))
    assert [type(event) for event in found[:2]] == [
        TextAdded,
        CallBegan if "functionCall" in beside else MediaAdded,
    ]
    whole = PROVIDER.text.parse_reply(json.dumps(chunk(both, finish="STOP")).encode(), ReplySource("s"))
    assert [type(part) for part in whole.candidates[0].parts] == [
        Text,
        ToolCall if "functionCall" in beside else Media,
    ]


def test_a_prompt_that_is_blocked_in_the_middle_of_an_answer_ends_it_as_refused() -> None:
    late = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No."}}
    assert after_began(chunk({"text": "a"}), late) == [
        TextAdded("a"),
        Ended(StopReason.REFUSAL),
    ]


def test_the_case_of_a_reason_does_not_count() -> None:
    assert after_began(chunk({"text": "a"}, finish="max_tokens"))[-1] == Ended(StopReason.LENGTH)


def test_a_mark_of_the_end_behind_an_answer_means_nothing() -> None:
    data = sse(chunk({"text": "a"}, finish="STOP")) + b"data: [DONE]\n\n"
    assert events_of(data)[1:] == [TextAdded("a"), Ended(StopReason.END)]


@pytest.mark.parametrize(
    "stray",
    [b"{\n", b"} {\n", b"null\n", b'  {"error": 1}\n', b'{"a": 1} b\n', b'{"' + b"x" * 2_000_000],
    ids=["begun", "ended", "a word", "indented", "with more behind it", "long"],
)
def test_lines_that_are_no_document_are_skipped_like_unknown_fields(stray: bytes) -> None:
    data = sse(chunk({"text": "a"})) + stray + b"\n" + sse(chunk(finish="STOP"))
    assert events_of(data)[1:] == [TextAdded("a"), Ended(StopReason.END)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"data: [DONE]\n\n",
        sse(chunk({"text": "a"})),
        sse(chunk({"text": "a"}, finish="STOP"), chunk({"text": "b"}, index=1)),
        array(chunk({"text": "a"}, finish="STOP"))[:-1],
        sse({"usageMetadata": USAGE}),
    ],
)
def test_a_stream_that_ends_before_its_answer_is_broken(data: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        events_of(data)
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize(
    "odd",
    [
        {"candidates": [{"content": {"parts": [{"hologram": {}}]}}]},
        {
            "candidates": [
                {"content": {"parts": [{"functionCall": {"partialArgs": [], "willContinue": True}}]}}
            ]
        },
        {"candidates": [{"index": 10**6, "content": {"parts": [{"text": "x"}]}}]},
        {"usageMetadata": 7},
        {"candidates": [{"content": None}]},
    ],
)
def test_what_is_odd_is_skipped(odd: Json) -> None:
    found = after_began(chunk({"text": "a"}), odd, chunk({"text": "b"}, finish="STOP"))
    assert found == [TextAdded("a"), TextAdded("b"), Ended(StopReason.END)]


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'{"candidates": [{"content": {"parts": [{"text": "\xff"}]}}]}',
        b"[" * 5000,
        b'{"candidates": 5}',
        b'{"candidates": [{"content": {"parts": [{"text": {}}]}}]}',
    ],
    ids=["cut", "no utf-8", "deep", "no candidates", "no text"],
)
def test_what_cannot_be_read_is_a_break_and_no_silent_loss(data: bytes) -> None:
    stream = sse(chunk({"text": "a"})) + b"data: %b\n\n" % data + sse(chunk(finish="STOP"))
    assert events_of(stream)[1:] == [TextAdded("a"), UNREADABLE_EVENT]


JSON_BITS: Final = st.sampled_from(
    [
        *[b"data: ", b"\n\n", b"\r\n\r\n", b"[", b"]", b",", b"{}", b"null", b"\xff", b'"', b"event: x\n"],
        *[json.dumps(one).encode() for one in RICH],
        b'{"error":{}}',
        b'{"candidates":[null]}',
    ]
)


@settings(deadline=None)
@given(st.lists(JSON_BITS, max_size=12))
def test_no_bytes_make_anything_but_events_or_a_broken_stream(pieces: list[bytes]) -> None:
    try:
        found = events_of(*pieces)
    except GatewayError as error:
        assert error.reason is Reason.UPSTREAM_BROKEN  # noqa: PT017 - events are as good
        return
    assert sum(isinstance(event, Began) for event in found) <= 1
    assert isinstance(found[-1], Ended | Broke)
