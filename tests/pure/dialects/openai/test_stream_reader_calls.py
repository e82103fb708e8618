"""Tool calls in streams of providers that speak chat completions, however a host numbers them."""

from __future__ import annotations

import pytest

from mgw.canonical.conversation import Text, ToolCall
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    Counted,
    Ended,
    StopReason,
    TextAdded,
    TokenUsage,
)
from mgw.dialects.openai.stream_reader import ChatStreamReader
from mgw.nouns.errors import GatewayError
from tests.support.chat_streams import DONE, Json, answer, call, chunk, read, sse, whole


def calls_in(*calls: Json) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of the calls that these pieces make, one piece a delta."""
    found = answer(*({"tool_calls": [one]} for one in calls), finish="tool_calls")
    return [(part.id, part.name, part.arguments) for part in found.parts if isinstance(part, ToolCall)]


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


def test_words_behind_a_finish_reason_go_on_and_the_last_reason_counts() -> None:
    first, second = chunk({"content": "a"}, "stop"), chunk({"content": "b"}, "stop")
    called = chunk({"tool_calls": [call(0, "1", "f", "{}")]}, "tool_calls")
    begun = [CallBegan(0, "1", "f"), ArgumentsAdded(0, "{}"), CallEnded(0)]
    events = read(first, second, called, DONE)
    assert events[1:] == [TextAdded("a"), TextAdded("b"), *begun, Ended(StopReason.TOOL_USE)]
    assert read(first, second) == [*events[:3], Ended(StopReason.END)]


def test_a_reason_behind_the_end_that_brings_no_words_is_none() -> None:
    behind = chunk({"role": "assistant", "content": ""}, "length")
    assert read(chunk({"content": "a"}, "stop"), behind, DONE)[1:] == [TextAdded("a"), Ended(StopReason.END)]


def test_a_whole_message_behind_the_end_says_nothing_new() -> None:
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
    events = read(chunk({"content": "a"}, "stop"), sse({"choices": [choice]}), DONE)
    assert events[1:] == [TextAdded("a"), Ended(StopReason.END)]


def test_counts_by_themselves_behind_the_finish_reason_end_the_answer() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    reader = ChatStreamReader("seed")
    assert reader.feed(chunk({"content": "a"}, "stop"))[1:] == [TextAdded("a")]
    counts = sse({"choices": [], "usage": usage})
    assert reader.feed(counts) == [Ended(StopReason.END), Counted(TokenUsage(3, 4))]
    assert reader.feed(chunk({"content": "late"}) + DONE) == reader.finish() == []


def test_a_choice_that_went_on_behind_its_reason_is_never_thought_to_have_ended() -> None:
    reader = ChatStreamReader("seed")
    piece = chunk({"content": "a"}, "stop")
    reader.feed(piece)
    assert (reader.finished, reader.complete) == (1, True)
    for _ in range(2):
        reader.feed(piece)
        assert (reader.finished, reader.complete) == (0, False)
    reader.feed(DONE)
    assert reader.complete


def test_a_call_without_a_name_breaks_the_answer_at_its_end() -> None:
    events = read(chunk({"tool_calls": [call(0, "1", None, "{}")]}, "tool_calls"), DONE)
    assert [type(event) for event in events] == [Began, Broke]


def test_a_half_written_call_ends_with_its_answer() -> None:
    events = read(chunk({"tool_calls": [call(0, "1", "f", '{"a"')]}), chunk(finish="length"))
    assert events[-2:] == [CallEnded(0), Ended(StopReason.LENGTH)]
