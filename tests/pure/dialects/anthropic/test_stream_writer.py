"""What the writer of streams keeps to: the grammar, and the message that the SDK makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given

from mgw.canonical.conversation import (
    Citation,
    Media,
    MediaKind,
    Part,
    Refusal,
    Signature,
    Text,
    Thinking,
    ToolCall,
)
from mgw.canonical.replay import replay_reply
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    Candidate,
    CitationAdded,
    Counted,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects import serial_writer
from mgw.dialects.anthropic.reply import render_reply
from mgw.dialects.anthropic.stream_writer import MAX_BLANK, MessagesStreamWriter
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.signatures import tag_signature
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support import one_draw as made
from tests.support.grammar import check_messages_stream

ANSWERING = ReplyContext("req_1", "claude", 0)
OWN = Signature(Family.ANTHROPIC, "c2ln")
GEMINIS = Signature(Family.GEMINI, "Zm9v")
NOBODYS = Signature(Family.OPENAI, "")
HIDDEN = Signature(Family.ANTHROPIC, "cmVk", redacted=True)


def write(events: Iterable[ReplyEvent], *, broken: bool = False) -> bytes:
    writer = MessagesStreamWriter(ANSWERING)
    data = writer.write(events) + writer.finish()
    check_messages_stream(data, broken=broken)
    return data


def records(data: bytes) -> Iterator[dict[str, Any]]:
    for event in data.split(b"\n\n")[:-1]:
        yield json.loads(event.split(b"\ndata: ")[1])


def accumulated(data: bytes) -> dict[str, Any]:
    """The message that the SDK makes of a stream."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=data, headers={"content-type": "text/event-stream"})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with (
        anthropic.Anthropic(api_key="k", http_client=http) as client,
        client.messages.stream(
            model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}]
        ) as stream,
    ):
        return stream.get_final_message().to_dict()


WORDS = made.text("ab é", least=1, most=5)
SIGNATURES = made.sampled_from([OWN, GEMINIS, NOBODYS, Signature(Family.GEMINI, "")])
ARGUMENTS = made.sampled_from(
    ["", "{}", '{"a": 1}', '{"b":{"c":["d"]}}', "[1]", "null", " ", '"x"', "nonsense"]
)
IMAGE = Media(MediaKind.IMAGE, "image/png", data="AAAA")
PARTS: made.Made[Part] = (
    made.builds(Text, WORDS, signature=made.none() | SIGNATURES)
    | made.builds(Thinking, made.just("") | WORDS, made.none() | SIGNATURES)
    | made.just(Thinking("", HIDDEN))
    | made.builds(ToolCall, made.sampled_from(["1", "2", "a b"]), WORDS, ARGUMENTS, made.none() | SIGNATURES)
    | made.builds(Refusal, WORDS)
    | made.just(IMAGE)
)
REPLIES = made.builds(
    Reply,
    made.builds(
        Candidate,
        made.of_some(PARTS, 3, lambda some: made.lists(some, most=6)).map(tuple),
        made.sampled_from(StopReason),
        made.sampled_from([None, "END"]),
    ).map(lambda candidate: (candidate,)),
    made.sampled_from([None, "msg_1"]),
    made.sampled_from([None, "claude-x"]),
    made.builds(
        TokenUsage,
        made.none() | made.just(20),
        made.none() | made.just(9),
        made.none() | made.just(3),
        made.none(),
    ),
)


@given(reply=made.drawn(REPLIES, 256))
def test_the_sdk_makes_the_same_message_of_a_stream_as_of_a_whole_response(reply: Reply) -> None:
    whole = json.loads(render_reply(reply, ANSWERING))
    assert accumulated(write(replay_reply(reply))) == whole


CALL_NUMBERS = made.integers(0, 2)
CANDIDATES = made.sampled_from([0, 0, 0, 1])
EVENT = (
    made.just(Began("x"))
    | made.builds(TextAdded, WORDS, CANDIDATES)
    | made.builds(ThinkingAdded, WORDS, CANDIDATES)
    | made.builds(RefusalAdded, WORDS)
    | made.builds(TextSigned, SIGNATURES)
    | made.builds(ThinkingSigned, SIGNATURES | made.just(HIDDEN))
    | made.builds(
        CallBegan, CALL_NUMBERS, made.sampled_from(["1", "a b"]), WORDS, made.none() | SIGNATURES, CANDIDATES
    )
    | made.builds(ArgumentsAdded, CALL_NUMBERS, made.sampled_from(["", "{}", " ", "[", "x"]), CANDIDATES)
    | made.builds(CallEnded, CALL_NUMBERS, CANDIDATES)
    | made.just(MediaAdded(IMAGE))
    | made.just(CitationAdded(Citation("u")))
    | made.just(LogprobsAdded(()))
    | made.builds(Counted, made.builds(TokenUsage, made.integers(0, 9)))
    | made.builds(Ended, made.sampled_from(StopReason), made.none(), made.none(), CANDIDATES)
    | made.just(Broke(UpstreamError(500, "x")))
)
EVENTS = made.drawn(made.of_some(EVENT, 8, lambda some: made.lists(some, most=25)), 256)


def legal(data: bytes) -> None:
    """The grammar alone: starts, deltas and stops in their order, whatever the blocks say."""
    is_open, blocks, begun, over = False, 0, False, False
    for event in records(data):
        kind = event["type"]
        assert not over
        if kind == "message_start":
            assert not begun
            begun = True
        elif kind == "content_block_start":
            assert begun
            assert not is_open
            assert event["index"] == blocks
            is_open, blocks = True, blocks + 1
        elif kind in {"content_block_delta", "content_block_stop"}:
            assert is_open
            assert event["index"] == blocks - 1
            is_open = kind == "content_block_delta"
        elif kind == "message_delta":
            assert begun
            assert not is_open
        else:
            assert kind in {"message_stop", "error"}
            over = True
    assert over


@given(events=EVENTS)
def test_any_order_of_events_is_written_as_a_legal_stream(events: list[ReplyEvent]) -> None:
    writer = MessagesStreamWriter(ANSWERING)
    legal(writer.write(events) + writer.finish())
    assert writer.finish() == b""
    assert writer.keepalive() == b""
    assert writer.write(events) == b""


@given(events=EVENTS, sizes=made.drawn(made.lists(made.integers(1, 5), least=1, most=8), 16))
def test_any_grouping_gives_the_same_bytes(events: list[ReplyEvent], sizes: list[int]) -> None:
    one, other = MessagesStreamWriter(ANSWERING), MessagesStreamWriter(ANSWERING)
    together = one.write(events) + one.finish()
    apart, rest = b"", list(events)
    for size in [*sizes, len(events)]:
        apart += other.write(rest[:size])
        rest = rest[size:]
    assert apart + other.finish() == together


def test_interleaved_calls_are_written_one_after_another() -> None:
    events: list[ReplyEvent] = [
        Began(),
        CallBegan(0, "1", "a"),
        CallBegan(1, "2", "b"),
        ArgumentsAdded(1, '{"y"'),
        ArgumentsAdded(0, '{"x":'),
        TextAdded("then"),
        ArgumentsAdded(1, ":2}"),
        ArgumentsAdded(0, "1}"),
        CallEnded(1),
        CallEnded(0),
        Ended(StopReason.TOOL_USE),
    ]
    message = accumulated(write(events))
    assert [block.get("input", block.get("text")) for block in message["content"]] == [
        {"x": 1},
        {"y": 2},
        "then",
    ]


def test_the_arguments_of_an_open_call_are_written_as_they_come() -> None:
    writer = MessagesStreamWriter(ANSWERING)
    writer.write([Began(), CallBegan(0, "1", "a")])
    assert b'"partial_json":"{\\"x\\""' in writer.write([ArgumentsAdded(0, '{"x"')])
    assert b'"partial_json":": 1}"' in writer.write([ArgumentsAdded(0, ": 1}")])


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_call_that_was_cut_off_is_read_by_the_sdk(cut: int) -> None:
    arguments = '{"a": -1.5e3, "b": ["\\u00e9", true], "c": null}'[:cut]
    events: list[ReplyEvent] = [Began(), CallBegan(0, "1", "f"), ArgumentsAdded(0, arguments)]
    events.append(Ended(StopReason.LENGTH))
    message = accumulated(write(events))
    assert message["stop_reason"] == "max_tokens"
    assert message["content"][0]["type"] == "tool_use"


def test_counts_that_come_after_the_end_are_in_the_last_delta() -> None:
    counted = Counted(TokenUsage(20, 9, 3))
    writer = MessagesStreamWriter(ANSWERING)
    begun = writer.write([Began(), TextAdded("x"), Ended(StopReason.END)])
    assert b"message_delta" not in begun
    ended = writer.write([counted])
    assert writer.finish() == b""
    *_, last, stopped = records(begun + ended)
    assert last["usage"] == {
        "input_tokens": 17,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 3,
        "output_tokens": 9,
    }
    assert stopped == {"type": "message_stop"}


def test_a_stream_without_an_end_is_shown_as_broken() -> None:
    data = write([Began(), TextAdded("x")], broken=True)
    *_, last = records(data)
    assert last["error"]["type"] == "api_error"
    assert last["request_id"] == "req_1"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UpstreamError(529, "Busy"), "overloaded_error"),
        (UpstreamError(503, "Busy"), "overloaded_error"),
        (UpstreamError(429, "Slow"), "rate_limit_error"),
        (GatewayError(Reason.UPSTREAM_TOO_SLOW, "late"), "timeout_error"),
    ],
)
def test_a_break_is_an_error_event_and_the_last(error: GatewayError | UpstreamError, kind: str) -> None:
    writer = MessagesStreamWriter(ANSWERING)
    data = writer.write([Began(), TextAdded("x")]) + writer.fail(error)
    check_messages_stream(data, broken=True)
    *_, last = records(data)
    assert last["error"] == {"type": kind, "message": error.message}
    assert writer.finish() + writer.write([TextAdded("y")]) + writer.fail(error) == b""
    with pytest.raises(anthropic.APIStatusError):
        accumulated(data)


def test_a_break_before_the_begin_and_after_the_end() -> None:
    writer = MessagesStreamWriter(ANSWERING)
    check_messages_stream(writer.fail(GatewayError(Reason.INTERNAL, "x")), broken=True)
    done = MessagesStreamWriter(ANSWERING)
    done.write([Began(), Ended(StopReason.END)])
    done.finish()
    assert done.fail(GatewayError(Reason.INTERNAL, "x")) == b""


def test_a_ping_means_nothing_wherever_it_comes() -> None:
    writer = MessagesStreamWriter(ANSWERING)
    data = writer.keepalive()
    for event in replay_reply(Reply((Candidate((Text("a"), ToolCall("1", "f", "{}")), StopReason.END),))):
        data += writer.write([event]) + writer.keepalive()
    data += writer.finish()
    check_messages_stream(data)
    assert [block["type"] for block in accumulated(data)["content"]] == ["text", "tool_use"]


@pytest.mark.parametrize("failed", [False, True])
def test_no_character_ends_a_line_for_a_client_that_knows_more_line_ends(*, failed: bool) -> None:
    text = "a\u2028b\u2029c\x85d\u2019"
    arguments = json.dumps({"a": text}, ensure_ascii=False)
    writer = MessagesStreamWriter(ANSWERING)
    data = writer.write([Began(), TextAdded(text), CallBegan(0, "1", "f"), ArgumentsAdded(0, arguments)])
    ended = [] if failed else [Ended(StopReason.END)]
    data += writer.write(ended) + (writer.fail(UpstreamError(500, text)) if failed else writer.finish())
    assert all(len(event.splitlines()) == 2 for event in data.decode().split("\n\n")[:-1])
    assert "\u2019" in data.decode()
    found = list(records(data))
    deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == text
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"a": text}
    if failed:
        assert found[-1]["error"]["message"] == text


def test_only_the_first_candidate_is_written() -> None:
    one, other = Candidate((Text("a"),), StopReason.END), Candidate((Text("b"),), StopReason.LENGTH)
    message = accumulated(write(replay_reply(Reply((one, other)))))
    assert message["content"] == [{"type": "text", "text": "a"}]
    assert message["stop_reason"] == "end_turn"


def test_a_signature_on_the_last_text_opens_no_thought() -> None:
    message = accumulated(write([Began(), TextAdded("x"), TextSigned(GEMINIS), Ended(StopReason.END)]))
    assert message["content"] == [{"type": "text", "text": "x"}]


def test_a_thought_of_unknown_origin_is_signed_for_no_family() -> None:
    message = accumulated(write([Began(), ThinkingAdded("x"), TextAdded("y"), Ended(StopReason.END)]))
    assert message["content"][0]["signature"] == tag_signature(Signature(Family.ANTHROPIC, ""))


def test_too_much_held_breaks_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_writer, "MAX_HELD", 1000)
    events: list[ReplyEvent] = [Began(), CallBegan(0, "1", "a"), CallBegan(1, "2", "b")]
    writer = MessagesStreamWriter(ANSWERING)
    data = writer.write(events)
    for _ in range(12):
        data += writer.write([ArgumentsAdded(1, "x" * 10)])
    check_messages_stream(data + writer.finish(), broken=True)


@pytest.mark.parametrize(
    "before", [[TextAdded("a")], [CallBegan(0, "1", "look"), CallEnded(0)]], ids=["text", "a call"]
)
def test_text_behind_the_end_is_not_written(before: list[ReplyEvent]) -> None:
    events: list[ReplyEvent] = [Began(), *before, Ended(StopReason.END)]
    assert write([*events, TextAdded("late")]) == write(events)


def test_a_thought_ends_with_its_signature_at_once() -> None:
    writer = MessagesStreamWriter(ANSWERING)
    writer.write([Began(), ThinkingAdded("Hm.")])
    kinds = [record["type"] for record in records(writer.write([ThinkingSigned(OWN)]))]
    assert kinds == ["content_block_delta", "content_block_stop"]


def test_a_thought_that_nobody_signed_may_still_get_the_signature_of_the_call_behind_it() -> None:
    writer = MessagesStreamWriter(ANSWERING)
    writer.write([Began(), ThinkingAdded("Hm.")])
    assert writer.write([ThinkingSigned(NOBODYS)]) == b""
    said = list(records(writer.write([CallBegan(0, "1", "look", GEMINIS)])))
    assert said[0]["delta"]["signature"] == tag_signature(GEMINIS, "Hm.")
    assert [record["type"] for record in said[1:]] == ["content_block_stop", "content_block_start"]


def test_the_stream_is_an_event_stream() -> None:
    assert MessagesStreamWriter(ANSWERING).content_type.startswith(b"text/event-stream")


BLANKS: list[tuple[str, tuple[Part, ...], list[str]]] = [
    ("before a call", (Text("\n\n"), ToolCall("1", "look", "{}")), ["tool_use"]),
    ("before a thought", (Text(" "), Thinking("Hm.", OWN), Text("So.")), ["thinking", "text"]),
    ("at the end", (ToolCall("1", "look", "{}"), Text("\n")), ["tool_use"]),
    ("between calls", (ToolCall("1", "a", "{}"), Text("\n"), ToolCall("2", "b", "{}")), ["tool_use"] * 2),
    ("before what is hidden", (Text("\n"), Thinking("", HIDDEN), Text("x")), ["redacted_thinking", "text"]),
    ("in pieces", (Text("\n"), Text(" "), Text("\t"), ToolCall("1", "look", "{}")), ["tool_use"]),
    ("nothing else", (Text("\n"),), []),
    ("a refusal", (Refusal(" "), ToolCall("1", "look", "{}")), ["tool_use"]),
]


@pytest.mark.parametrize(("parts", "kinds"), [pytest.param(*rest, id=name) for name, *rest in BLANKS])
def test_text_that_is_only_white_space_is_no_block_of_its_own(
    parts: tuple[Part, ...], kinds: list[str]
) -> None:
    reply = Reply((Candidate(parts, StopReason.END),))
    streamed = accumulated(write(replay_reply(reply)))
    whole = json.loads(render_reply(reply, ANSWERING))
    for message in (streamed, whole):
        assert [block["type"] for block in message["content"]] == kinds
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")


def test_white_space_around_words_stays() -> None:
    reply = Reply((Candidate((Text("\n"), Text(" a"), Text("\n"), Text("b"), Text("\n")), StopReason.END),))
    streamed = accumulated(write(replay_reply(reply)))
    whole = json.loads(render_reply(reply, ANSWERING))
    assert streamed["content"] == whole["content"] == [{"type": "text", "text": "\n a\nb\n"}]


def test_no_more_white_space_is_held_than_makes_sense() -> None:
    writer = MessagesStreamWriter(ANSWERING)
    data = writer.write([Began(), *(TextAdded(" " * 1000) for _ in range(100))])
    assert len(data) > 30_000


@pytest.mark.parametrize(("count", "is_text"), [(MAX_BLANK, False), (MAX_BLANK + 1, True)])
def test_white_space_is_text_where_there_is_more_of_it_than_is_held(count: int, *, is_text: bool) -> None:
    assert MAX_BLANK == 32_768
    message = accumulated(write([Began(), TextAdded(" " * count), Ended(StopReason.END)]))
    assert [block["text"] for block in message["content"]] == ([" " * count] if is_text else [])
