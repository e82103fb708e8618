"""What the events of a stream of Responses say, and what waits, breaks and ends it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import Citation, Signature
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
    RefusalAdded,
    ReplyEvent,
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    TokenLogprob,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects import serial_writer
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.responses import stream_items, stream_writer
from mgw.dialects.responses.options import ResponseReplyOptions
from mgw.dialects.responses.schema import ClientTool, ToolKind
from mgw.dialects.responses.stream_writer import ResponsesStreamWriter
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support.grammar.responses import check_responses_stream, final_response

TOOLS = {
    "patch": ClientTool(ToolKind.CUSTOM, "patch", "mcp"),
    "shell": ClientTool(ToolKind.SHELL, "shell"),
}
ECHOED = {"instructions": "be brief", "tools": [{"type": "custom", "name": "patch"}], "temperature": 0.5}
CONTEXT = ReplyContext("req_1", "model-1", 1_770_000_000, ResponseReplyOptions(TOOLS, ECHOED))
TOOL_USE = Ended(StopReason.TOOL_USE)

Json = dict[str, Any]  # Any: JSON as it was found


def streamed(events: list[ReplyEvent]) -> bytes:
    writer = ResponsesStreamWriter(CONTEXT)
    stream = writer.write(events) + writer.finish()
    check_responses_stream(stream, broken=writer.broken)
    return stream


def events_of(stream: bytes, *kinds: str) -> list[Json]:
    found = [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [event for event in found if not kinds or event["type"].removeprefix("response.") in kinds]


def test_the_response_begins_with_the_first_event_and_says_what_was_asked_at_its_end_only() -> None:
    writer = ResponsesStreamWriter(CONTEXT)
    begun = events_of(writer.write([Began("msg_1", "model-2", TokenUsage(7))]))
    assert [event["type"] for event in begun] == ["response.created", "response.in_progress"]
    assert (begun[0]["response"]["tools"], begun[0]["response"]["instructions"]) == ([], None)
    assert begun[0]["response"]["temperature"] == 0.5
    ended = writer.write([TextAdded("hi"), Ended(StopReason.END)])
    assert b"response.completed" not in ended  # its counts may still come
    final = final_response(writer.write([Counted(TokenUsage(None, 3))]))
    assert (final["tools"], final["instructions"]) == (ECHOED["tools"], "be brief")
    assert final["usage"]["total_tokens"] == 10
    assert final["model"] == "model-2"
    assert writer.finish() == b""


def test_calls_whose_arguments_interleave_come_one_after_another() -> None:
    events: list[ReplyEvent] = [CallBegan(0, "a", "f"), CallBegan(1, "b", "g")]
    events += [ArgumentsAdded(1, '{"b"'), ArgumentsAdded(0, '{"a"'), TextAdded("said"), CallEnded(1)]
    events += [ArgumentsAdded(0, ":1}"), CallEnded(0), TOOL_USE]
    stream = streamed(events)
    deltas = [event["delta"] for event in events_of(stream) if "delta" in event]
    assert deltas == ['{"a"', ":1}", '{"b"', "said"]
    types = [item["type"] for item in final_response(stream)["output"]]
    assert types == ["function_call", "function_call", "message"]


def test_the_input_of_a_custom_tool_is_decoded_as_it_comes() -> None:
    pieces = ['{"inp', 'ut": "*** Begin', "\\n\\ud83d", '\\ude00", "x', '": 1}']
    arguments = [ArgumentsAdded(0, piece) for piece in pieces]
    stream = streamed([CallBegan(0, "a", "patch"), *arguments, TOOL_USE])
    deltas = [event["delta"] for event in events_of(stream, "custom_tool_call_input.delta")]
    assert deltas == ["*** Begin", "\n", "\U0001f600"]
    added = events_of(stream, "output_item.added")[0]["item"]
    assert (added["type"], added["name"], added["namespace"]) == ("custom_tool_call", "patch", "mcp")
    assert final_response(stream)["output"][0]["input"] == "*** Begin\n\U0001f600"


@pytest.mark.parametrize("name", ["f", "patch", "shell"])
def test_a_break_ends_no_call_that_was_open(name: str) -> None:
    """Clients run a call when they read its end."""
    arguments = ArgumentsAdded(0, '{"input": "rm ')
    broke = Broke(UpstreamError(529, "busy", "overloaded_error"))
    stream = streamed([ThinkingAdded("hm"), CallBegan(0, "a", name), arguments, broke, TextAdded("more")])
    assert [event["item"]["type"] for event in events_of(stream, "output_item.done")] == ["reasoning"]
    failed = events_of(stream)[-1]
    assert failed["response"]["error"] == {"code": "server_error", "message": "busy"}
    assert [item["status"] for item in failed["response"]["output"][1:]] == ["incomplete"] * (name != "shell")


def test_a_break_takes_nothing_away_from_a_call_that_is_whole() -> None:
    broke = Broke(UpstreamError(529, "busy"))
    stream = streamed([CallBegan(0, "a", "f"), ArgumentsAdded(0, "{}"), CallEnded(0), broke])
    assert [event["item"]["status"] for event in events_of(stream, "output_item.done")] == ["completed"]


def test_a_break_leaves_the_text_that_waited_for_its_tokens() -> None:
    tokens = LogprobsAdded((TokenLogprob("a", -1.0),))
    stream = streamed([TextAdded("a"), tokens, TextAdded("b"), Broke(UpstreamError(529, "busy"))])
    assert final_response(stream)["output"][0]["content"][0]["text"] == "ab"


def test_a_failure_before_everything_is_a_whole_stream_too() -> None:
    writer = ResponsesStreamWriter(CONTEXT)
    stream = writer.fail(GatewayError(Reason.CLIENT_LIMIT, "slow down"))
    check_responses_stream(stream, broken=True)
    assert final_response(stream)["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}


def test_an_answer_without_an_end_fails_rather_than_ending_cleanly() -> None:
    final = final_response(streamed([Began(), TextAdded("half")]))
    assert (final["status"], final["output"][0]["status"]) == ("failed", "incomplete")


@pytest.mark.parametrize("last", [TextAdded("half"), CallBegan(0, "a", "f")])
def test_an_answer_that_was_cut_off_says_so_of_its_last_item(last: ReplyEvent) -> None:
    stream = streamed([TextAdded("a"), CallBegan(1, "b", "f"), CallEnded(1), last, Ended(StopReason.LENGTH)])
    final = final_response(stream)
    assert [item["status"] for item in final["output"]] == ["completed", "completed", "incomplete"]
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_a_refused_answer_is_incomplete_and_its_items_are_not() -> None:
    final = final_response(streamed([TextAdded("I will not"), Ended(StopReason.REFUSAL)]))
    assert final["incomplete_details"] == {"reason": "content_filter"}
    assert final["output"][0]["status"] == "completed"


def test_what_comes_behind_a_signature_of_a_text_still_finds_its_text() -> None:
    """Gemini signs a text, and cites, in the last chunk."""
    signed = TextSigned(Signature(Family.GEMINI, "c2ln"))
    cited = CitationAdded(Citation("https://a", None, 0, 2))
    output = final_response(streamed([TextAdded("hi"), signed, cited, Ended(StopReason.END)]))["output"]
    assert [item["type"] for item in output] == ["message", "reasoning"]
    assert output[0]["content"][0]["annotations"][0]["url"] == "https://a"


def test_citations_stand_where_they_say_or_behind_the_text_so_far() -> None:
    """One that comes before all text waits for it."""
    cited, placed = CitationAdded(Citation("https://a")), CitationAdded(Citation("https://b", None, 1, 2))
    events: list[ReplyEvent] = [CitationAdded(Citation("https://c")), TextAdded("é"), cited, TextAdded("bc")]
    events += [placed, cited, TextAdded("d"), CallBegan(0, "a", "f"), CallEnded(0), TextAdded("e")]
    output = final_response(streamed([*events, Ended(StopReason.END)]))["output"]
    assert output[2]["content"][0]["annotations"] == []
    annotations = output[0]["content"][0]["annotations"]
    assert [(found["url"][-1], found["start_index"], found["end_index"]) for found in annotations] == [
        ("c", 1, 1),
        ("a", 1, 1),
        ("b", 1, 2),
        ("a", 3, 3),
    ]


def test_words_of_a_refusal_are_a_part_of_their_message() -> None:
    stream = streamed([TextAdded("a"), RefusalAdded("no"), TextAdded("b"), Ended(StopReason.END)])
    (message,) = final_response(stream)["output"]
    assert [part.get("text", part.get("refusal")) for part in message["content"]] == ["a", "no", "b"]


@pytest.mark.parametrize("pieces", [[], ["null"], [" nu", "ll "], [" ", "{", "}"]], ids=str)
def test_a_call_without_arguments_has_an_empty_object_of_them(pieces: list[str]) -> None:
    arguments = [ArgumentsAdded(0, piece) for piece in pieces]
    stream = streamed([CallBegan(0, "a", "f"), *arguments, CallEnded(0), TOOL_USE])
    assert final_response(stream)["output"][0]["arguments"].strip() == "{}"


def test_there_is_one_answer_only() -> None:
    events: list[ReplyEvent] = [TextAdded("a"), TextAdded("x", 1), CallBegan(0, "c", "f", candidate=1)]
    stream = streamed([*events, TextAdded("b"), Ended(StopReason.LENGTH, candidate=1), Ended(StopReason.END)])
    (message,) = final_response(stream)["output"]
    assert message["content"][0]["text"] == "ab"


def test_texts_have_their_tokens_beside_them_once_there_are_any() -> None:
    events: list[ReplyEvent] = []
    for word in ("a", "b", "c"):
        events += [TextAdded(word), LogprobsAdded((TokenLogprob(word, -1.0),))]
    cited = CitationAdded(Citation("https://a"))
    stream = streamed([*events, TextAdded("d"), cited, Ended(StopReason.END)])
    deltas = events_of(stream, "output_text.delta")
    told = [(event["delta"], [token["token"] for token in event["logprobs"]]) for event in deltas]
    assert told == [("a", []), ("b", ["b"]), ("c", ["c"]), ("d", [])]
    part = final_response(stream)["output"][0]["content"][0]
    assert [token["token"] for token in part["logprobs"]] == ["a", "b", "c"]
    assert part["annotations"][0]["end_index"] == 4


@pytest.mark.parametrize("failed", [False, True])
def test_no_character_ends_a_line_for_a_client_that_knows_more_line_ends(*, failed: bool) -> None:
    text = "a\u2028b\u2029c\x85d\r\n\u2019"
    writer = ResponsesStreamWriter(CONTEXT)
    events: list[ReplyEvent] = [Began(None, text), TextAdded(text), ThinkingAdded(text)]
    data = writer.write([*events, CallBegan(0, text, text), ArgumentsAdded(0, text)])
    data += writer.fail(UpstreamError(500, text)) if failed else writer.write([TOOL_USE]) + writer.finish()
    check_responses_stream(data, broken=failed)
    assert all(len(event.splitlines()) == 2 for event in data.decode().split("\n\n")[:-1])
    assert "\u2019" in data.decode()
    final = final_response(data)
    assert final["output"][0]["content"][0]["text"] == final["output"][2]["arguments"] == text


def test_calls_without_an_identifier_get_one_that_no_other_response_has() -> None:
    found: set[str] = set()
    for seed in ("req_1", "req_2"):
        writer = ResponsesStreamWriter(ReplyContext(seed, "m", 1))
        calls: list[ReplyEvent] = [CallBegan(number, "", "f") for number in range(2)]
        output = final_response(writer.write([*calls, TOOL_USE]) + writer.finish())["output"]
        found |= {item[key] for item in output for key in ("id", "call_id")}
    assert len(found) == 8


def test_what_is_held_and_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_writer, "MAX_HELD", 1500)
    monkeypatch.setattr(stream_writer, "MAX_KEPT_BYTES", 1000)
    monkeypatch.setattr(stream_items, "MOST_NEW_BYTES", 50)
    waiting: list[ReplyEvent] = [CallBegan(0, "a", "f"), CallBegan(1, "b", "g")]
    broken: list[list[ReplyEvent]] = [
        [*waiting, *[ArgumentsAdded(1, "x" * 10)] * 60],
        [*waiting, *[TextAdded("x" * 10)] * 60],
        [TextAdded("x" * 10)] * 120,
        [ThinkingAdded("x" * 10)] * 120,
        [event for _ in range(9) for event in (CallBegan(0, "a", "f"), CallEnded(0))],
        [CallBegan(0, "a", "f"), *[CallBegan(number, "a", "f") for number in range(1, 9)]],
        [waiting[0], ThinkingAdded("x" * 90), ThinkingAdded("\n" * 400), TextAdded("x")],
        [CallBegan(0, "a", "shell"), *[ArgumentsAdded(0, "x" * 10)] * 100],
        [CallBegan(0, "a", "shell"), *[ArgumentsAdded(0, "x")] * 20],
        [*waiting, *[ArgumentsAdded(1, "x")] * 30],
        [*waiting, *[TextAdded("x")] * 9],
        [TextAdded("x"), RefusalAdded("x")] * 9,
        [CitationAdded(Citation("u"))] * 9,
    ]
    for events in broken:
        final = final_response(streamed([*events, TOOL_USE]))
        assert final["error"]["message"] == "the upstream's response is too large"
    fine: list[ReplyEvent] = [*waiting, ArgumentsAdded(1, "x" * 90), CallEnded(0), CallEnded(1)]
    assert final_response(streamed([*fine, TextAdded("x"), TOOL_USE]))["status"] == "completed"
