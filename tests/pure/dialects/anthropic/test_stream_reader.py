"""What the reader of streams keeps to."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Citation,
    Signature,
)
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    CitationAdded,
    Counted,
    Ended,
    RefusalAdded,
    ReplyEvent,
    StopReason,
    TextAdded,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
    UsageParts,
)
from mgw.dialects.anthropic.reply import parse_reply
from mgw.dialects.anthropic.stream_reader import MessagesStreamReader
from mgw.dialects.dialect import ReplySource
from mgw.dialects.refusal import UNREADABLE_EVENT
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family

OWN = Signature(Family.ANTHROPIC, "c2ln")
HIDDEN = Signature(Family.ANTHROPIC, "cmVk", redacted=True)


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events
    )


def start(index: int, **block: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **change: object) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": change}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


BEGIN: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1},
    },
}
PING: dict[str, Any] = {"type": "ping"}
END: dict[str, Any] = {
    "type": "message_delta",
    "delta": {"stop_reason": "tool_use", "stop_sequence": None},
    "usage": {"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 4}},
}
STOP: dict[str, Any] = {"type": "message_stop"}

EVENTS = (
    BEGIN,
    start(0, type="thinking", thinking="", signature=""),
    PING,
    delta(0, type="thinking_delta", thinking="Hm"),
    delta(0, type="thinking_delta", thinking="."),
    delta(0, type="signature_delta", signature="c2ln"),
    stop(0),
    start(1, type="redacted_thinking", data="cmVk"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, type="text_delta", text=""),
    delta(2, type="text_delta", text="I lóok."),
    delta(2, type="citations_delta", citation={"type": "web_search_result_location", "url": "https://x"}),
    delta(2, type="hologram_delta", hologram="?"),
    stop(2),
    start(3, type="server_tool_use", id="srv", name="web_search", input={}),
    delta(3, type="input_json_delta", partial_json='{"query":'),
    stop(3),
    {"type": "eclipse"},
    start(4, type="tool_use", id="toolu_1", name="look", input={}),
    delta(4, type="input_json_delta", partial_json=""),
    delta(4, type="input_json_delta", partial_json='{"a"'),
    delta(4, type="input_json_delta", partial_json=":1}"),
    stop(4),
    start(5, type="tool_use", id="toolu_2", name="wait", input={"whole": True}),
    stop(5),
    END,
    STOP,
)
USAGE = TokenUsage(15, 30, 5, None, 4)
READ: list[ReplyEvent] = [
    Began("msg_1", "claude-opus-5-5", TokenUsage(15, 1, 5)),
    ThinkingAdded("Hm"),
    ThinkingAdded("."),
    ThinkingSigned(OWN),
    ThinkingSigned(HIDDEN),
    TextAdded("I lóok."),
    CitationAdded(Citation("https://x", None, 0, 7)),
    CallBegan(0, "toolu_1", "look"),
    ArgumentsAdded(0, '{"a"'),
    ArgumentsAdded(0, ":1}"),
    CallEnded(0),
    CallBegan(1, "toolu_2", "wait"),
    ArgumentsAdded(1, '{"whole":true}'),
    CallEnded(1),
    Counted(USAGE),
    Ended(StopReason.TOOL_USE),
]


def read(pieces: Iterable[bytes]) -> list[ReplyEvent]:
    reader = MessagesStreamReader("seed")
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.finish()


def test_a_stream_is_understood() -> None:
    reader = MessagesStreamReader("seed")
    assert reader.feed(sse(*EVENTS)) == READ
    assert reader.finish() == []
    assert reader.usage == USAGE


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_any_cut_gives_the_same_events(sizes: list[int]) -> None:
    data, place = sse(*EVENTS), 0
    pieces: list[bytes] = []
    while place < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[place : place + size])
        place += size
    assert read(pieces) == READ


def test_a_stream_and_a_whole_response_mean_the_same() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "text", "text": "I lóok.", "citations": [{"url": "https://x"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "wait", "input": {"whole": True}},
    ]
    message = {**BEGIN["message"], "content": content, "stop_reason": "tool_use", "usage": {}}
    replayed = dump(replay_reply(parse_reply(json.dumps(message).encode(), ReplySource("seed"))))
    assert replayed == dump(READ)


def dump(events: Iterable[ReplyEvent]) -> list[object]:
    """The events with neighbouring pieces joined, without counts."""
    found: list[Any] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, Began | Counted):
            continue
        if isinstance(event, TextAdded | ThinkingAdded | ArgumentsAdded) and type(last) is type(event):
            found[-1] = replace(last, text=last.text + event.text)
        else:
            found.append(event)
    return found


@pytest.mark.parametrize("missing", [1, 2, 12, 24], ids=["stop", "delta", "half a call", "first block"])
def test_a_stream_that_ends_too_early_is_broken_unless_it_has_a_stop_reason(missing: int) -> None:
    data = sse(*EVENTS[:-missing])
    if missing == 1:
        assert read([data])[-1] == Ended(StopReason.TOOL_USE)
        return
    with pytest.raises(GatewayError) as caught:
        read([data])
    assert caught.value.reason is Reason.UPSTREAM_BROKEN


@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b'{"error": 1}'])
def test_what_is_no_such_stream_is_broken(body: bytes) -> None:
    with pytest.raises(GatewayError):
        read([body])


@pytest.mark.parametrize("data", [b"[DONE]", b"{", b'{"type": "\xff"}', b'{"type": 7}', b"[" * 5000], ids=len)
def test_what_cannot_be_read_is_a_break_and_no_silent_loss(data: bytes) -> None:
    event = b"data: %b\n\n" % data
    assert read([sse(BEGIN) + event + sse(*EVENTS[1:])])[1:] == [UNREADABLE_EVENT]
    assert read([sse(*EVENTS[:-1]) + event])[-1] == Ended(StopReason.TOOL_USE)


def test_an_error_event_breaks_the_stream_and_ends_it() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = read([sse(BEGIN, error, *EVENTS[1:])])
    found = UpstreamError(529, "Overloaded", "overloaded_error", own_message="Overloaded")
    assert events[1:] == [Broke(found)]


def test_nothing_after_the_end_is_read() -> None:
    assert read([sse(*EVENTS), sse(*EVENTS), b"data: {\n\n"]) == READ


def test_calls_that_never_closed_are_closed_at_the_end() -> None:
    events = read([sse(BEGIN, start(0, type="tool_use", id="t", name="f", input={}), END, STOP)])
    assert events[1:] == [CallBegan(0, "t", "f"), Counted(USAGE), CallEnded(0), Ended(StopReason.TOOL_USE)]


def test_a_block_that_begins_where_another_is_open_ends_that_one() -> None:
    first = start(0, type="tool_use", id="t", name="f", input={})
    events = read([sse(BEGIN, first, start(0, type="text", text="x"), END, STOP)])
    assert events[1:4] == [CallBegan(0, "t", "f"), CallEnded(0), TextAdded("x")]


def test_arguments_in_pieces_win_over_those_given_whole() -> None:
    begin = start(0, type="tool_use", id="t", name="f", input={"a": 0})
    pieces = delta(0, type="input_json_delta", partial_json='{"a":1}')
    events = read([sse(BEGIN, begin, pieces, stop(0), END, STOP)])
    assert [event for event in events if isinstance(event, ArgumentsAdded)] == [ArgumentsAdded(0, '{"a":1}')]


def test_the_words_of_a_refusal_are_passed_on() -> None:
    refused = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "No."}}
    events = read([sse(BEGIN, {"type": "message_delta", "delta": refused, "usage": {}}, STOP)])
    assert events[1:] == [RefusalAdded("No."), Ended(StopReason.REFUSAL)]


def test_an_end_without_its_reason_is_a_break() -> None:
    events = read([sse(BEGIN, STOP)])
    assert [type(event) for event in events] == [Began, Broke]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(["type", "index", "delta", "content_block", "message", "usage", "error"])


@given(
    place=st.integers(0, len(EVENTS) - 1),
    changes=st.dictionaries(KEYS, JSON, max_size=2),
    inner=st.dictionaries(st.sampled_from(["type", "text", "id", "input", "stop_reason"]), JSON, max_size=2),
)
def test_an_odd_event_never_raises(place: int, changes: dict[str, Any], inner: dict[str, Any]) -> None:
    events = [json.loads(json.dumps(event)) for event in EVENTS]
    events[place].update(changes)
    for key in ("delta", "content_block", "message"):
        if isinstance(events[place].get(key), dict):
            events[place][key].update(inner)
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    reader = MessagesStreamReader("seed")
    found = reader.feed(data)
    assert [event for event in found if isinstance(event, Began)] in ([], found[:1])
    began = {event.call for event in found if isinstance(event, CallBegan)}
    ended = {event.call for event in found if isinstance(event, CallEnded)}
    assert began == ended or not any(isinstance(event, Ended) for event in found)


def begin(**message: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {**BEGIN["message"], **message}}


WHOLE: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "t", "name": "look", "input": {"a": 1}},
]


@pytest.mark.parametrize("ends", ["stop", "clean"])
def test_a_beginning_may_hold_all_of_the_response(ends: str) -> None:
    events = read([sse(begin(content=WHOLE, stop_reason="tool_use"), *([STOP] if ends == "stop" else []))])
    assert dump(events) == dump(
        [
            Began("msg_1", "claude-opus-5-5", TokenUsage(15, 1, 5)),
            ThinkingAdded("Hm."),
            ThinkingSigned(OWN),
            TextAdded("I look."),
            CallBegan(0, "t", "look"),
            ArgumentsAdded(0, '{"a":1}'),
            CallEnded(0),
            Ended(StopReason.TOOL_USE),
        ]
    )


def test_a_beginning_may_hold_the_first_of_the_response() -> None:
    first = begin(content=[{"type": "text", "text": "So "}], stop_reason="end_turn")
    again = (start(0, type="text", text="So "), delta(0, type="text_delta", text="So "), stop(0))
    rest = (start(1, type="text", text=""), delta(1, type="text_delta", text="far."), stop(1))
    for told in (rest, (*again, *rest)):
        events = read([sse(first, *told, {**END, "delta": {"stop_reason": "max_tokens"}}, STOP)])
        assert [event.text for event in events if isinstance(event, TextAdded)] == ["So ", "far."]
        assert isinstance(events[-1], Ended)
        assert events[-1].stop is StopReason.LENGTH


def test_an_empty_block_in_the_beginning_is_gone_on_with() -> None:
    first = begin(content=[{"type": "text", "text": ""}])
    events = read(
        [sse(first, start(0, type="text", text=""), delta(0, type="text_delta", text="x"), END, STOP)]
    )
    assert TextAdded("x") in events


def test_another_beginning_before_the_end_is_a_break() -> None:
    reader = MessagesStreamReader("s")
    events = reader.feed(sse(BEGIN, start(0, type="text", text="a"), BEGIN, END, STOP))
    assert isinstance(events[-1], Broke)
    assert events[-1].error.status == 502
    assert reader.feed(sse(END)) == []


def test_another_beginning_behind_the_end_means_nothing() -> None:
    events = read([sse(BEGIN, start(0, type="text", text="a"), END, BEGIN, STOP)])
    assert isinstance(events[-1], Ended)


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "eclipse", "delta": "dark", "message": 7, "index": 1},
        start(7, type="hologram", data={"deep": 1}, text=["x"]),
        delta(7, type="hologram_delta", text={"x": 1}),
        {"type": "ping", "usage": "x", "content_block": []},
    ],
    ids=lambda odd: odd["type"],
)
def test_what_is_unknown_is_skipped_whatever_it_holds(odd: dict[str, Any]) -> None:
    around = (BEGIN, start(0, type="text", text="a"), stop(0))
    events = read([sse(*around, odd, stop(7), END, STOP)])
    assert dump(events) == dump(read([sse(*around, END, STOP)]))


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b'event: error\ndata: {"type":"error","error":"boom"}\n\n', 502, "boom"),
        (b'event: error\ndata: {"message":"Too many tokens"}\n\n', 502, "Too many tokens"),
        (b'data: {"message":"Too many tokens"}\n\n', 502, "Too many tokens"),
        (b'data: {"error":{"type":"rate_limit_error","message":"slow"}}\n\n', 429, "slow"),
        (b'data: {"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}\n\n', 429, "slow"),
        (b'data: {"detail":"down"}\n\n', 502, "down"),
        (b"event: error\ndata: upstream connect error\n\n", 502, "upstream connect error"),
        (b"data: upstream connect error\n\n", 502, "upstream connect error"),
        (b'event: error\ndata: {"type":"error"}\n\n', 502, "the upstream's response was cut off"),
        (
            b'event: error\ndata: {"type":"error","error":null}\n\n',
            502,
            "the upstream's response was cut off",
        ),
    ],
)
def test_errors_of_any_shape_break_the_stream_with_their_words(data: bytes, status: int, words: str) -> None:
    reader = MessagesStreamReader("s")
    reader.feed(sse(BEGIN))
    (event,) = reader.feed(data + sse(END, STOP))
    assert isinstance(event, Broke)
    assert (event.error.status, event.error.message) == (status, words)


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": None}])
def test_a_call_without_a_name_breaks_the_response(name: dict[str, Any]) -> None:
    block = {"type": "tool_use", "id": "t", "input": {}, **name}
    for data in (sse(BEGIN, start(0, **block), END, STOP), sse(begin(content=[block]), END, STOP)):
        assert isinstance(read([data])[-1], Broke)
    with pytest.raises(GatewayError, match="without a name"):
        parse_reply(json.dumps({"content": [block], "stop_reason": "tool_use"}).encode(), ReplySource("seed"))


@pytest.mark.parametrize(
    ("usage", "known"),
    [
        ({"cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}}, 7),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 4}, "cache_creation_input_tokens": 9}, 9),
        ({"cache_creation": 0}, None),
        ({"cache_creation": {"ephemeral_5m_input_tokens": "x"}}, None),
        ({"cache_creation": None}, None),
    ],
)
def test_what_was_written_to_the_cache_may_be_counted_by_its_lifetime(
    usage: dict[str, Any], known: int | None
) -> None:
    reader = MessagesStreamReader("s")
    reader.feed(sse(begin(usage={"input_tokens": 1, "output_tokens": 2, **usage})))
    hour = None if known is None else UsageParts(cache_write_1h=4)
    assert reader.usage == TokenUsage(1 + (known or 0), 2, None, known, parts=hour)


@pytest.mark.parametrize("at", range(3))
def test_a_guardrail_of_the_hosts_that_intervenes_is_a_refusal(at: int) -> None:
    document: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Sorry."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    document[at]["amazon-bedrock-guardrailAction"] = "INTERVENED"
    [ended] = [event for event in read([sse(*document)]) if isinstance(event, Ended)]
    assert ended.stop is StopReason.REFUSAL
