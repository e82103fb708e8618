"""Answers towards a client of chat completions: what the SDK gathers from a stream is the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

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
    TokenLogprob,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext, RequestContext
from mgw.dialects.openai import stream_writer
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.dialects.openai.reply import render_reply
from mgw.dialects.openai.request import parse_request
from mgw.dialects.openai.stream_writer import ChatStreamWriter
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support import one_draw as made
from tests.support.grammar import check_chat, check_chat_stream

PLAIN = ReplyContext("req_1", "model-1", 1_770_000_000)
WITH_USAGE = ReplyContext("req_1", "model-1", 1_770_000_000, ChatReplyOptions(include_usage=True))
DEPRECATED = ReplyContext("req_1", "model-1", 1_770_000_000, ChatReplyOptions(legacy_functions=True))
USAGE = TokenUsage(10, 5, 3, 1, 2)

words = made.text(least=1, most=6)
signatures = made.builds(
    Signature, made.sampled_from([Family.ANTHROPIC, Family.GEMINI]), made.sampled_from(["", "c2ln", "sig"])
)
texts = made.builds(
    Text,
    words,
    citations=made.lists(made.builds(Citation, made.sampled_from([None, "https://a"])), most=2).map(tuple),
    signature=made.none() | signatures,
)
thoughts = made.builds(Thinking, words, made.none() | signatures) | made.builds(
    Thinking, made.just(""), made.builds(Signature, made.just(Family.ANTHROPIC), words, made.booleans())
)
images = made.builds(Media, made.just(MediaKind.IMAGE), made.just("image/png"), made.just("aWs="))


arguments = made.sampled_from(["", "{}", '{"a":"}"}'])
calls = made.lists(made.tuples(made.integers(0, 8), words, arguments, made.none() | signatures), most=3)
"""Each with a place among the other parts."""
tokens = made.builds(TokenLogprob, words, made.just(-0.5), made.sampled_from([(), (Alternative("é", -1.0),)]))


def with_calls(parts: list[Part], calls: list[tuple[int, str, str, Signature | None]]) -> tuple[Part, ...]:
    for number, (place, name, said, signature) in enumerate(calls):
        call = ToolCall(f"call_{number % 2}", name, said, signature)
        parts.insert(place % (len(parts) + 1), call)
    return tuple(parts)


candidates = made.builds(
    Candidate,
    made.builds(
        with_calls,
        made.of_some(
            texts | thoughts | images | made.builds(Refusal, words), 3, lambda some: made.lists(some, most=6)
        ),
        calls,
    ),
    made.sampled_from(StopReason),
    logprobs=made.lists(tokens, most=2).map(tuple),
)
replies = made.builds(
    Reply,
    made.lists(candidates, least=1, most=3).map(tuple),
    made.none() | made.just("msg_1"),
    made.none() | made.just("model-2"),
    made.sampled_from([TokenUsage(), USAGE]),
)


def streamed(events: Iterable[ReplyEvent], answering: ReplyContext) -> bytes:
    writer = ChatStreamWriter(answering)
    return writer.write(events) + writer.finish()


def chunks_of(stream: bytes) -> list[dict[str, Any]]:  # Any: JSON as it was found
    datas = [line[6:] for line in stream.split(b"\n\n") if line.startswith(b"data: ")]
    return [json.loads(data) for data in datas if data != b"[DONE]"]


def accumulated(stream: bytes) -> dict[str, Any]:  # Any: JSON as it was found
    state = ChatCompletionStreamState[None]()
    for chunk in chunks_of(stream):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    return state.current_completion_snapshot.to_dict(mode="json")


def comparable(completion: dict[str, Any]) -> dict[str, Any]:  # Any: JSON as it was found
    """What a completion says: null and absence are one; of a call, its place in a list is its index."""
    found = {key: value for key, value in completion.items() if value is not None and key != "service_tier"}
    for choice in found["choices"]:
        if choice.get("logprobs") is None:
            choice.pop("logprobs", None)
        message = choice["message"] = {
            key: value for key, value in choice["message"].items() if value is not None
        }
        message.pop("parsed", None)
        for call in message.get("tool_calls", ()):
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
    return found


@pytest.mark.slow
@settings(deadline=None)
@given(made.drawn(replies, 256), st.booleans())
def test_a_stream_adds_up_to_the_whole_answer(reply: Reply, deprecated: bool) -> None:
    style = ChatReplyOptions(include_usage=True, legacy_functions=deprecated)
    answering = ReplyContext("req_1", "model-1", 1_770_000_000, style)
    whole = ChatCompletion.model_validate_json(render_reply(reply, answering)).to_dict(mode="json")
    stream = streamed(replay_reply(reply), answering)
    found = accumulated(stream)
    if reply.usage.tokens_in is None:
        found.pop("usage")
    assert comparable(found) == comparable(whole)


@pytest.mark.slow
@settings(deadline=None)
@given(made.drawn(replies, 256), st.booleans(), st.booleans())
def test_every_stream_and_every_whole_answer_keeps_the_grammar(
    reply: Reply, include_usage: bool, deprecated: bool
) -> None:
    style = ChatReplyOptions(include_usage, deprecated)
    answering = ReplyContext("req_1", "model-1", 1_770_000_000, style)
    stream = streamed(replay_reply(reply), answering)
    check_chat_stream(stream, include_usage=include_usage, n=len(reply.candidates))
    check_chat(render_reply(reply, answering), n=len(reply.candidates))


numbers = made.integers(0, 2)
any_event = made.one_of(
    made.builds(Began, made.just("msg_1"), made.just("model-2")),
    made.builds(TextAdded, words, numbers),
    made.builds(TextSigned, signatures, numbers),
    made.builds(ThinkingAdded, words, numbers),
    made.builds(ThinkingSigned, signatures, numbers),
    made.builds(RefusalAdded, words, numbers),
    made.builds(CitationAdded, made.just(Citation("https://a")), numbers),
    made.builds(MediaAdded, images, numbers),
    made.builds(LogprobsAdded, made.just((TokenLogprob("a", -1.0),)), numbers),
    made.builds(CallBegan, numbers, made.just("call_1"), words, made.none() | signatures, numbers),
    made.builds(ArgumentsAdded, numbers, words, numbers),
    made.builds(CallEnded, numbers, numbers),
    made.builds(Counted, made.just(USAGE)),
    made.builds(Ended, made.sampled_from(StopReason), candidate=numbers),
)


@settings(deadline=None)
@given(
    made.drawn(made.of_some(any_event, 4, lambda some: made.lists(some, most=30)), 256),
    st.booleans(),
    st.booleans(),
)
def test_no_order_of_events_breaks_the_grammar(
    events: list[ReplyEvent], include_usage: bool, deprecated: bool
) -> None:
    style = ChatReplyOptions(include_usage, deprecated)
    writer = ChatStreamWriter(ReplyContext("req_1", "model-1", 1, style))
    stream = writer.write(events) + writer.write(Ended(StopReason.END, candidate=2 - n) for n in range(3))
    check_chat_stream(stream + writer.finish(), include_usage=include_usage, n=3)


@given(made.drawn(made.of_some(any_event, 4, lambda some: made.lists(made.lists(some, most=6), most=6)), 256))
def test_the_bytes_do_not_depend_on_how_events_are_grouped(groups: list[list[ReplyEvent]]) -> None:
    one, many = ChatStreamWriter(PLAIN), ChatStreamWriter(PLAIN)
    together = one.write(event for group in groups for event in group) + one.finish()
    assert b"".join(many.write(group) for group in groups) + many.finish() == together


def test_a_line_separator_in_a_name_cuts_no_chunk_of_the_stream_in_two() -> None:
    """Clients that split at every line end of Unicode's would: also in the chunk with the usage."""
    writer = ChatStreamWriter(WITH_USAGE)
    events: list[ReplyEvent] = [
        Began("id\u2028", "model\u2029"),
        TextAdded("hi"),
        Ended(StopReason.END),
        Counted(USAGE),
    ]
    written = writer.write(events) + writer.finish()
    assert not {"\u2028", "\u2029", "\x85"} & set(written.decode())
    assert b"usage" in written


@given(made.drawn(made.of_some(any_event, 4, lambda some: made.lists(some, most=10)), 128))
def test_a_failure_ends_the_stream_without_done(events: list[ReplyEvent]) -> None:
    writer = ChatStreamWriter(WITH_USAGE)
    stream = writer.write(events) + writer.fail(GatewayError(Reason.UPSTREAM_BROKEN, "it broke"))
    check_chat_stream(stream, include_usage=True, n=3, broken=True)
    assert writer.finish() == writer.write([TextAdded("more")]) == writer.keepalive() == b""


def test_an_answer_without_an_end_fails_rather_than_ending_cleanly() -> None:
    stream = streamed([Began(), TextAdded("half"), TextAdded("other", 1), Ended(StopReason.END)], PLAIN)
    assert chunks_of(stream)[-1]["error"]["type"] == "upstream_error"
    check_chat_stream(stream, include_usage=False, n=2, broken=True)


def test_an_error_of_the_upstream_is_told_in_its_own_words_and_nothing_follows() -> None:
    broke = Broke(UpstreamError(529, "busy", "overloaded_error"))
    stream = streamed([Began(), TextAdded("half"), broke, TextAdded("more"), Ended(StopReason.END)], PLAIN)
    error = {"message": "busy", "type": "server_error", "param": None, "code": "overloaded_error"}
    assert chunks_of(stream)[-1] == {"error": error}


def test_text_begins_with_an_empty_content_and_a_call_with_none() -> None:
    spoken = chunks_of(streamed([TextAdded("hi"), Ended(StopReason.END)], PLAIN))
    called = chunks_of(streamed([CallBegan(0, "call_1", "f"), Ended(StopReason.TOOL_USE)], PLAIN))
    assert spoken[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert called[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}


@pytest.mark.parametrize("failed", [False, True])
def test_no_character_ends_a_line_for_a_client_that_knows_more_line_ends(*, failed: bool) -> None:
    text = "a\u2028b\u2029c\x85d\u2019"
    writer = ChatStreamWriter(PLAIN)
    arguments = ArgumentsAdded(0, f'{{"a":"{text}"}}')
    data = writer.write([Began(), TextAdded(text), CallBegan(0, "1", "f"), arguments])
    data += writer.fail(UpstreamError(500, text)) if failed else writer.write([Ended(StopReason.TOOL_USE)])
    assert all(len(event.splitlines()) == 1 for event in data.decode().split("\n\n")[:-1])
    assert "\u2019" in data.decode()
    said = [chunk["choices"][0]["delta"] for chunk in chunks_of(data) if "choices" in chunk]
    assert "".join(delta.get("content") or "" for delta in said) == text
    if failed:
        assert chunks_of(data)[-1]["error"]["message"] == text


def test_signs_of_life_are_comments_and_write_nothing_of_the_answer() -> None:
    writer = ChatStreamWriter(PLAIN)
    assert writer.keepalive() == b": ping\n\n"
    stream = writer.keepalive() + writer.write([TextAdded("a"), Ended(StopReason.END)]) + writer.finish()
    check_chat_stream(stream, include_usage=False)


def test_arguments_of_several_calls_stream_as_they_come() -> None:
    events: list[ReplyEvent] = [CallBegan(0, "a", "f"), CallBegan(1, "b", "g")]
    events += [ArgumentsAdded(0, "{"), ArgumentsAdded(1, "{"), ArgumentsAdded(0, "}"), CallEnded(0)]
    events += [ArgumentsAdded(1, "}"), CallEnded(1), Ended(StopReason.TOOL_USE)]
    calls = accumulated(streamed(events, PLAIN))["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [("a", "{}"), ("b", "{}")]


def test_a_call_that_nobody_ended_has_arguments_all_the_same() -> None:
    events: list[ReplyEvent] = [CallBegan(0, "a", "f"), CallBegan(1, "b", "g")]
    events.append(Ended(StopReason.TOOL_USE))
    calls = accumulated(streamed(events, PLAIN))["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ["{}", "{}"]


def test_the_deprecated_kind_of_answer_has_one_call_only() -> None:
    parts = (ToolCall("a", "f", ""), ToolCall("b", "g", ""))
    reply = Reply((Candidate(parts, StopReason.TOOL_USE),))
    choice = json.loads(render_reply(reply, DEPRECATED))["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert choice["finish_reason"] == "function_call"
    assert "tool_calls" not in choice["message"]


def test_what_waits_for_its_place_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_writer, "MAX_HELD", 10)
    sealed = ThinkingSigned(Signature(Family.ANTHROPIC, "sig"))
    events: list[ReplyEvent] = [event for _ in range(9) for event in (ThinkingAdded("b" * 9), sealed)]
    unsigned = [event for _ in range(9) for event in (ThinkingAdded("b" * 9), TextAdded("c"))]
    assert b"error" not in ChatStreamWriter(PLAIN).write([*events, *unsigned])
    broken = ChatStreamWriter(PLAIN).write([*events, *[ThinkingAdded("b")] * 11])
    check_chat_stream(broken, include_usage=False, broken=True)


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r", "\u2028"], ids=ascii)
def test_arguments_with_line_breaks_stay_within_their_line(breaks: str) -> None:
    arguments = f'{{{breaks} "a":{breaks}1 }}'
    call = ToolCall("1", "f", arguments)
    reply = Reply((Candidate((Text(breaks), call), StopReason.TOOL_USE),))
    data = streamed(replay_reply(reply), PLAIN)
    assert all(line.startswith(b"data: ") for line in data.splitlines() if line)
    message = accumulated(data)["choices"][0]["message"]
    assert (message["content"], message["tool_calls"][0]["function"]["arguments"]) == (breaks, arguments)


@settings(deadline=None)
@given(made.drawn(made.lists(texts | thoughts, most=6), 128), st.integers(0, 2))
def test_thoughts_come_back_exactly_from_the_history_of_a_client(parts: list[Part], calls: int) -> None:
    """What the SDK gathered from a stream, sent back, has every signed thought in its place."""
    parts = [*parts[:3], *(ToolCall(f"call_{n}", "f", "{}") for n in range(calls)), *parts[3:]]
    reply = Reply((Candidate(tuple(parts), StopReason.END),))
    for message in (
        accumulated(streamed(replay_reply(reply), PLAIN))["choices"][0]["message"],
        json.loads(render_reply(reply, PLAIN))["choices"][0]["message"],
    ):
        for gone in ("", "reasoning_content"):  # a client may keep the details alone
            kept = {key: value for key, value in message.items() if key != gone}
            body = json.dumps({"messages": [{"role": "user", "content": "q"}, kept]})
            found = parse_request(body.encode(), RequestContext("m")).request.turns[1:]
            assert sealed(part for turn in found for part in turn.parts) == sealed(parts)


def sealed(parts: Iterable[Part]) -> list[tuple[Thinking, int, int]]:
    """Return each signed thought with the characters and the calls before it; unsigned words join."""
    found: list[tuple[Thinking, int, int]] = []
    characters = calls = began = began_calls = 0
    open_words = ""
    for part in parts:
        if isinstance(part, Thinking):
            if not open_words:
                began, began_calls = characters, calls
            signature = part.signature
            if signature is None:
                open_words += part.text
                continue
            if signature.family is Family.OPENAI:  # of history: words that nobody signed
                continue
            if signature.redacted:
                open_words, began, began_calls = "", characters, calls
            found.append((Thinking(open_words + part.text, signature), began, began_calls))
            open_words = ""
            continue
        if isinstance(part, Text):
            if part.text or part.signature or part.citations:
                open_words = ""
            characters += len(part.text)
        else:
            open_words = ""
        calls += isinstance(part, ToolCall)
    return found
