"""Answers of providers that are asked through Responses, whole and streamed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
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
    CitationAdded,
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
)
from mgw.dialects.dialect import ReplySource
from mgw.dialects.openai.reply import collect_candidate
from mgw.dialects.refusal import AnswerError
from mgw.dialects.responses.reply import parse_reply
from mgw.dialects.responses.stream_reader import ResponsesStreamReader
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import Family
from tests.support.laws import examples
from tests.support.responses_streams import (
    Json,
    events_of,
    function_call,
    message,
    output_text,
    read,
    reasoning,
    refusal,
    response,
    sse,
    stream,
    whole,
)

USAGE = TokenUsage(20, 9, 4, None, 5)
CITED = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 2}
SIGNED = Signature(Family.OPENAI, "rs_1:gAAA")
THINKS = reasoning("rs_1", "gAAA", "One.", "Two.")
CALL = function_call("fc_1", "call_1", "f", '{"a":1}')


def parts(*items: Json) -> tuple[object, ...]:
    """What is in an answer, whole or streamed alike."""
    found = whole(list(items)).candidates[0].parts
    for bare in (False, True):
        assert collect_candidate(read(stream(list(items), bare=bare))).parts == found
    return found


def test_a_whole_answer_is_read() -> None:
    found = whole([THINKS, message("msg_1", "Hi"), CALL])
    told = (Thinking("One.\n\nTwo.", SIGNED), Text("Hi"), ToolCall("call_1", "f", '{"a":1}'))
    assert found == Reply((Candidate(told, StopReason.TOOL_USE),), "resp_1", "gpt-1", USAGE)


def test_a_stream_tells_it_piece_by_piece() -> None:
    assert read(stream([THINKS, message("msg_1", "Hi"), CALL])) == [
        Began("resp_1", "gpt-1"),
        ThinkingAdded("On"),
        ThinkingAdded("e."),
        ThinkingAdded("\n\nTw"),
        ThinkingAdded("o."),
        ThinkingSigned(SIGNED),
        TextAdded("H"),
        TextAdded("i"),
        CallBegan(0, "call_1", "f"),
        ArgumentsAdded(0, '{"a"'),
        ArgumentsAdded(0, ":1}"),
        CallEnded(0),
        Counted(USAGE),
        Ended(StopReason.TOOL_USE),
    ]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (reasoning("rs_2", "gBBB"), Thinking("", Signature(Family.OPENAI, "rs_2:gBBB", redacted=True))),
        (reasoning("", "gBBB", "Hm"), Thinking("Hm", Signature(Family.OPENAI, ":gBBB"))),
        (reasoning("a:b", "c:d", "Hm"), Thinking("Hm", Signature(Family.OPENAI, ":c:d"))),
        (reasoning("rs_2", None, "Hm", kind="reasoning"), Thinking("Hm", Signature(Family.OPENAI, ""))),
        (message("msg_1", refusal("No.")), Refusal("No.")),
        (
            message("msg_1", output_text("Hi", [CITED])),
            Text("Hi", citations=(Citation("https://a.b", "A", 0, 2),)),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
            ToolCall("c", "patch", '{"input":"*** Begin"}'),
        ),
        (
            {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo=", "status": "completed"},
            Media(MediaKind.IMAGE, "image/png", "iVBORw0KGgo="),
        ),
    ],
    ids=["encrypted", "no id", "odd id", "words", "refusal", "citation", "custom", "image"],
)
def test_each_kind_of_item_is_read(item: Json, told: object) -> None:
    assert parts(item) == (told,)


def test_what_nobody_asked_for_is_skipped() -> None:
    others: list[Json] = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": ["odd"], "content": 7},
        {"type": "message", "content": [7, {"type": "output_audio"}]},
    ]
    assert whole([*others, message("msg_1", "Hi")]).candidates[0].parts == (Text("Hi"),)
    found = collect_candidate(read(stream([*others, message("msg_1", "Hi")], bare=True)))
    assert found.parts == (Text("Hi"),)


def test_log_probabilities_are_read() -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": [72], "top_logprobs": [{"token": "Ho", "logprob": -1}]}
    item = message("msg_1", output_text("Hi", logprobs=[token]))
    told = (TokenLogprob("Hi", -0.5, (Alternative("Ho", -1.0),)),)
    assert whole([item]).candidates[0].logprobs == told
    assert collect_candidate(read(stream([item]))).logprobs == told
    assert collect_candidate(read(stream([item], bare=True))).logprobs == told


@pytest.mark.parametrize(
    ("items", "reason", "stop", "unknown"),
    [
        ([message("m", "a")], None, StopReason.END, None),
        ([message("m", "a")], "max_output_tokens", StopReason.LENGTH, None),
        ([message("m", "a")], "content_filter", StopReason.REFUSAL, None),
        ([message("m", "a")], "tired", StopReason.END, "tired"),
        ([message("m", refusal("no"))], None, StopReason.REFUSAL, None),
        ([message("m", refusal("no")), CALL], None, StopReason.TOOL_USE, None),
        ([CALL], "max_output_tokens", StopReason.LENGTH, None),
    ],
)
def test_why_it_ended(items: list[Json], reason: str | None, stop: StopReason, unknown: str | None) -> None:
    found = whole(items, reason).candidates[0]
    assert (found.stop, found.unknown_stop) == (stop, unknown)
    assert read(stream(items, reason))[-1] == Ended(stop, unknown_stop=unknown)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (
            response([], status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}),
            429,
            "slow",
        ),
        *(
            (response([], status="failed", error={"code": code, "message": "no"}), status, "no")
            for code, status in (
                ("context_length_exceeded", 400),
                ("invalid_prompt", 400),
                ("server_is_overloaded", 503),
            )
        ),
        ({"error": {"message": "no", "type": "server_error", "code": None}}, 500, "no"),
        ({"detail": "gone"}, 502, "gone"),
    ],
)
def test_a_whole_answer_may_be_an_error(body: Json, status: int, words: str) -> None:
    with pytest.raises(AnswerError) as caught:
        parse_reply(json.dumps(body).encode(), ReplySource("seed"))
    assert (caught.value.error.status, caught.value.error.message) == (status, words)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"7", b'{"id":"r"}', b'{"output":null}', b'{"output":[],"status":"queued"}', b"<p>x</p>"],
)
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError):
        parse_reply(body, ReplySource("seed"))


FAILED = {"type": "response.failed", "response": response([], status="failed")}


@pytest.mark.parametrize(
    ("event", "status", "code", "words"),
    [
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "slow"},
            429,
            "rate_limit_exceeded",
            "slow",
        ),
        ({"type": "error", "code": None, "message": "it broke", "param": None}, 502, None, "it broke"),
        ({"type": "error", "error": {"type": "server_error", "message": "x"}}, 500, "server_error", "x"),
        (
            {
                **FAILED,
                "response": response([], status="failed", error={"code": "server_error", "message": "x"}),
            },
            500,
            "server_error",
            "x",
        ),
        ({"type": "future", "error": {"message": "x"}}, 502, None, "x"),
        (FAILED, 502, None, "the upstream's stream ended with an error"),
        ({"type": "response.completed", "response": response([], error={"message": "x"})}, 502, None, "x"),
    ],
)
def test_a_stream_may_break(event: Json, status: int, code: str | None, words: str) -> None:
    begun = stream([message("m", "a")]).split(b"event: response.completed")[0]
    last = read(begun, sse(event), sse({"type": "response.completed", "response": response([])}))[-1]
    assert isinstance(last, Broke)
    assert (last.error.status, last.error.code, last.error.message) == (status, code, words)
    assert read(sse(events_of([])[0]), sse(event)) == [last]  # nothing has begun


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n"])
def test_a_stream_without_a_terminal_event_broke_off(tail: bytes) -> None:
    with pytest.raises(GatewayError):
        read(stream([message("m", "a")]).split(b"event: response.completed")[0], tail)


def test_a_call_without_a_name_breaks_the_answer() -> None:
    nameless = {**CALL, "name": ""}
    last = read(stream([message("m", "a"), nameless]))[-1]
    assert isinstance(last, Broke)
    with pytest.raises(GatewayError):
        whole([nameless])


def test_hosts_that_count_all_items_as_the_first_and_repeat_call_ids() -> None:
    events = [{**event, "output_index": 0} for event in events_of([THINKS, CALL, {**CALL, "id": "fc_2"}])]
    found = collect_candidate(read(*map(sse, events))).parts
    assert found[:2] == (Thinking("One.\n\nTwo.", SIGNED), ToolCall("call_1", "f", '{"a":1}'))
    assert isinstance(found[2], ToolCall)
    assert found[2].id != "call_1"
    assert found[2].arguments == '{"a":1}'


def test_what_is_said_twice_or_too_late_adds_nothing() -> None:
    events = events_of([message("msg_1", "Hi")])
    late = {"type": "response.output_text.delta", "output_index": 0, "delta": "late"}
    repeated = [*events[:-1], late, events[-2], events[-1], late, events[-1]]
    assert read(*map(sse, repeated)) == read(*map(sse, events))


def test_a_call_that_was_cut_off_ends_with_the_answer() -> None:
    events = events_of([CALL], "max_output_tokens")
    found = read(*(sse(event) for event in events if event["type"] != "response.output_item.done"))
    assert found[-3:] == [Counted(USAGE), CallEnded(0), Ended(StopReason.LENGTH)]


def test_a_host_that_sends_only_the_terminal_event() -> None:
    end = {"type": "response.completed", "response": response([THINKS, CALL])}
    assert collect_candidate(read(sse(end, named=False))).parts == whole([THINKS, CALL]).candidates[0].parts


# Laws -----------------------------------------------------------------------------------------------------

texts = st.text('aé{"\n', min_size=1, max_size=6)
items = st.one_of(
    st.builds(
        lambda words, content: reasoning("rs_1", content, *words),
        st.lists(texts, max_size=2),
        st.none() | texts,
    ),
    st.builds(lambda words: reasoning("rs_1", None, *words, kind="reasoning"), st.lists(texts, max_size=2)),
    st.builds(lambda text: message("msg_1", text), texts),
    st.builds(lambda text: message("msg_1", output_text(text, [CITED])), texts),
    st.builds(lambda text: message("msg_1", refusal(text)), texts),
    st.builds(
        lambda call_id, text: function_call("fc_1", call_id, "f", text),
        st.sampled_from(["a", "b", ""]),
        texts,
    ),
    st.just({"type": "web_search_call", "id": "ws_1"}),
)
answers = st.lists(items, max_size=4)
odd = st.none() | st.integers(-1, 2) | st.text(max_size=2) | st.lists(st.integers(), max_size=1)
odd_items = items | st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("type", "id", "call_id", "name", "arguments", "content", "summary"), odd),
)
odd_events = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(ResponsesStreamReader._HANDLERS)) | st.just("future")},
    optional={
        "output_index": odd,
        "summary_index": odd,
        "content_index": odd,
        "delta": odd,
        "annotation": odd,
        "logprobs": odd,
        "item": odd | odd_items,
        "response": odd,
        "error": st.none() | st.just({}),
    },
)
END = {"type": "response.completed", "response": response([])}


def told(pieces: list[bytes]) -> list[ReplyEvent]:
    try:
        return read(*pieces)
    except GatewayError:
        return []


def joined(events: list[ReplyEvent]) -> list[tuple[str, object]]:
    """Texts put together, as whoever reads them sees them."""
    found: list[tuple[str, object]] = []
    for event in events:
        name = type(event).__name__
        text = getattr(event, "text", None)
        if text is None or not found or found[-1][0] != name:
            found.append((name, event if text is None else text))
        else:
            found[-1] = (name, f"{found[-1][1]}{text}")
    return found


@examples(50)
@given(answers, st.sampled_from([None, "max_output_tokens"]), st.integers(1, 4), st.integers(1, 40))
def test_whole_and_streamed_answers_are_the_same(
    items: list[Json], reason: str | None, pieces: int, size: int
) -> None:
    data = stream(items, reason, pieces=pieces)
    events = read(data)
    assert read(*(data[start : start + size] for start in range(0, len(data), size))) == events
    assert joined(events) == joined(read(stream(items, reason, bare=True)))
    assert collect_candidate(events) == whole(items, reason).candidates[0]


@examples(60)
@given(st.lists(odd_events | answers.map(lambda found: events_of(found)[1]), max_size=8))
def test_whatever_comes_the_events_keep_their_order(written: list[Json]) -> None:
    events = told([*map(sse, written), sse(END)])
    kinds = [type(event) for event in events]
    assert Began not in kinds[1:]
    assert Broke not in kinds[:-1]
    open_calls: set[int] = set()
    for event in events:
        if isinstance(event, CallBegan):
            assert event.name
            open_calls.add(event.call)
        elif isinstance(event, ArgumentsAdded):
            assert event.call in open_calls
        elif isinstance(event, CallEnded):
            open_calls.remove(event.call)
        elif isinstance(event, TextAdded | ThinkingAdded):
            assert event.text
    if kinds and kinds[-1] is not Broke:
        assert not open_calls
        assert kinds[-1] is Ended


def test_a_citation_that_names_no_address_is_skipped() -> None:
    files = {"type": "file_citation", "file_id": "file_1", "filename": "a", "index": 1}
    assert CitationAdded not in map(type, read(stream([message("m", output_text("a", [files]))])))
