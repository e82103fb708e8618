"""What the phrases of a prompt and the words of a model's name make of an answer, on all three wires."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.memory.mgw_sim.client import (
    chat,
    chat_stream,
    content,
    content_stream,
    message,
    message_stream,
)

ONE: Final = "use tool look"
TWO: Final = "use tool look use tool look"
ALL: Final = "use tool look use tool find preface afterword"
THINK: Final[dict[str, Any]] = {"type": "enabled", "budget_tokens": 1024}
SHOWN: Final = {"includeThoughts": True}


def parts_of(answer: Any) -> list[Any]:
    """The parts of Google's first candidate."""
    return list(answer["candidates"][0].get("content", {}).get("parts", []))


def kinds(parts: list[Any]) -> list[str]:
    """What Google's parts are."""
    return ["thought" if part.get("thought") else next(iter(part)) for part in parts]


def deltas(chunks: list[Any]) -> list[Any]:
    """The deltas of a chat's chunks."""
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


# --- why an answer ends


def test_the_room_ends_a_text() -> None:
    assert chat("repeat:9", max_completion_tokens=2)["choices"][0]["finish_reason"] == "length"
    assert message("repeat:9", max_tokens=2)["stop_reason"] == "max_tokens"
    assert content("repeat:9", maxOutputTokens=2)["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_the_room_ends_in_the_midst_of_a_call() -> None:
    said = 'use tool look with {"where": "here", "how": "so"}'
    choice = chat(said, max_completion_tokens=3)["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"where": "here",'
    events = message_stream(said, max_tokens=3)
    pieces = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(pieces) == '{"where": "here",'
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    assert message(said, max_tokens=3)["content"][0]["input"] == {}
    candidate = content(said, maxOutputTokens=3)["candidates"][0]
    assert candidate == {"finishReason": "MAX_TOKENS", "index": 0}


def test_a_stop_sequence_ends_a_text_and_the_calls_behind_it() -> None:
    said = f"{ALL}"
    choice = chat(said, stop=" call")["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("I", "stop")
    told = message(said, stop_sequences=["zzz", " call"])
    assert (told["stop_reason"], told["stop_sequence"]) == ("stop_sequence", " call")
    assert [block["type"] for block in told["content"]] == ["text"]
    assert content(said, stopSequences=[" call"])["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("reason", ["content_filter", "some_day"])
def test_a_chat_ends_as_it_is_told(reason: str) -> None:
    choice = chat("a", f"m+sim-stop-{reason}")["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == (reason, "You said: a")
    assert chat_stream("a", f"m+sim-stop-{reason}")[-1]["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize("reason", ["pause_turn", "model_context_window_exceeded", "refusal", "some_day"])
def test_a_message_ends_as_it_is_told(reason: str) -> None:
    told = message("a", f"m+sim-stop-{reason}")
    ended = message_stream("a", f"m+sim-stop-{reason}")[-2]["delta"]
    assert told["stop_reason"] == ended["stop_reason"] == reason
    assert (told["stop_details"] is not None) == (reason == "refusal")


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "SOME_DAY"])
def test_a_content_ends_as_it_is_told_with_text_or_without(reason: str) -> None:
    candidate = content("a", f"m+sim-stop-{reason}")["candidates"][0]
    assert (candidate["finishReason"], kinds([*candidate["content"]["parts"]])) == (reason, ["text"])
    assert content_stream("a", f"m+sim-stop-{reason}")[-1]["candidates"][0]["finishReason"] == reason
    assert "content" not in content("say nothing", f"m+sim-stop-{reason}")["candidates"][0]


def test_the_model_refuses_in_each_vendors_way() -> None:
    choice = chat("a", "sim-refuse")["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "stop")
    assert choice["message"]["refusal"] == "I cannot help with that."
    told = message("say nothing", "sim-refuse")
    assert (told["content"], told["stop_reason"]) == ([], "refusal")
    assert told["stop_details"]["category"] == "general_harms"
    candidate = content("a", "sim-refuse")["candidates"][0]
    assert "content" not in candidate
    assert candidate["safetyRatings"][0]["blocked"]


def test_a_blocked_prompt_has_no_answer() -> None:
    blocked = content("a", "sim-block-PROHIBITED_CONTENT")
    assert blocked["promptFeedback"]["blockReason"] == "PROHIBITED_CONTENT"
    assert "candidates" not in blocked
    assert content_stream("a", "sim-block-SAFETY")[0]["promptFeedback"]["blockReason"] == "SAFETY"
    choice = chat("a", "sim-block-SAFETY")["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("content_filter", "")
    assert message("a", "sim-block-SAFETY")["stop_reason"] == "refusal"


# --- calls


def test_text_stands_before_and_behind_the_calls() -> None:
    told = message(ALL)
    assert [block["type"] for block in told["content"]] == ["text", "tool_use", "tool_use", "text"]
    assert kinds(parts_of(content(ALL))) == ["text", "functionCall", "functionCall", "text"]
    order = [next(iter(delta), "") for delta in deltas(chat_stream(ALL))]
    assert order.index("tool_calls") < len(order) - 1 - order[::-1].index("content")


@pytest.mark.parametrize(("with_", "arguments"), [(" with nothing", ""), (" with {}", "{}")])
def test_a_call_may_have_no_arguments(with_: str, arguments: str) -> None:
    said = ONE + with_
    assert chat(said)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == arguments
    [call] = parts_of(content(said))
    assert ("args" in call["functionCall"]) == bool(arguments)
    assert message(said)["content"][0]["input"] == {}
    events = [event for event in message_stream(said) if event["type"] == "content_block_delta"]
    assert "".join(event["delta"]["partial_json"] for event in events) == arguments


def test_two_calls_of_one_function_have_names_of_their_own() -> None:
    assert len({call["id"] for call in chat(TWO)["choices"][0]["message"]["tool_calls"]}) == 2
    assert len({block["id"] for block in message(TWO)["content"]}) == 2
    assert len({part["functionCall"]["id"] for part in parts_of(content(TWO))}) == 2


def test_interleaved_calls_and_choices_take_turns() -> None:
    chunks = chat_stream(TWO, "sim-interleave", n=2)
    assert [chunk["choices"][0]["index"] for chunk in chunks[:4]] == [0, 1, 0, 1]
    turns = [delta["tool_calls"][0]["index"] for delta in deltas(chunks) if "tool_calls" in delta]
    assert turns[:8] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_google_signs_the_first_of_parallel_calls_alone() -> None:
    assert ["thoughtSignature" in part for part in parts_of(content(TWO))] == [True, False]
    assert not any("thoughtSignature" in part for part in parts_of(content(TWO, "sim-unsigned")))
    assert not any("id" in part["functionCall"] for part in parts_of(content(TWO, "sim-no-ids")))


# --- thinking


def test_thoughts_come_before_text_before_calls() -> None:
    told = message(f"{ONE} preface", thinking=THINK)
    assert [block["type"] for block in told["content"]] == ["thinking", "text", "tool_use"]
    assert kinds(parts_of(content(f"{ONE} preface", thinkingConfig=SHOWN))) == [
        "thought",
        "text",
        "functionCall",
    ]


def test_thoughts_may_stand_between_the_calls() -> None:
    told = message(f"{TWO} think between", thinking=THINK)
    assert [block["type"] for block in told["content"]] == ["thinking", "tool_use"] * 2
    assert (
        kinds(parts_of(content(f"{TWO} think between", thinkingConfig=SHOWN)))
        == ["thought", "functionCall"] * 2
    )
    order = [next(iter(delta), "") for delta in deltas(chat_stream(f"{TWO} think between", "sim-reasoning"))]
    first = order.index("tool_calls")
    assert "reasoning_content" in order[:first]
    assert "reasoning_content" in order[first:]


def test_hidden_thoughts_leave_their_signature_or_their_number() -> None:
    assert [block["type"] for block in message("a think hidden", thinking=THINK)["content"]] == [
        "redacted_thinking",
        "text",
    ]
    started = [
        event["content_block"]["type"]
        for event in message_stream("a think hidden", thinking=THINK)
        if event["type"] == "content_block_start"
    ]
    assert started == ["redacted_thinking", "text"]
    told = content("a think hidden", thinkingConfig=SHOWN)
    assert "thoughtSignature" in parts_of(told)[-1]
    assert kinds(parts_of(told)) == ["text"]
    assert told["usageMetadata"]["thoughtsTokenCount"] > 0
    spoken = chat("a think hidden", "sim-reasoning", reasoning_effort="low")
    assert "reasoning_content" not in spoken["choices"][0]["message"]
    assert spoken["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0


def test_in_a_stream_google_signs_a_text_behind_it() -> None:
    last = content_stream("a", thinkingConfig={"thinkingLevel": "low"})[-1]["candidates"][0]
    [part] = last["content"]["parts"]
    assert part["text"] == ""
    assert part["thoughtSignature"]
    assert last["finishReason"] == "STOP"


@pytest.mark.parametrize(
    ("model", "more", "shown"),
    [
        ("m", {"reasoning_effort": "low"}, False),
        ("sim-reasoning", {}, True),
        ("sim-reasoning", {"reasoning_effort": "low"}, True),
        ("sim-reasoning", {"reasoning_effort": "none"}, False),
    ],
)
def test_hosts_that_show_their_thinking_do_so_unless_told_not_to(
    model: str, more: dict[str, Any], shown: bool
) -> None:
    assert ("reasoning_content" in chat("a", model, **more)["choices"][0]["message"]) == shown
    assert any("reasoning_content" in delta for delta in deltas(chat_stream("a", model, **more))) == shown


# --- streams


def test_usage_comes_where_it_is_told_to() -> None:
    def counted(model: str, **more: Any) -> list[bool]:
        return [chunk.get("usage") is not None for chunk in chat_stream("a", model, **more)]

    assert all(counted("sim-usage-each"))
    assert counted("sim-usage-last") == [False] * 4 + [True]
    assert not any(counted("sim-usage-none", stream_options={"include_usage": True}))
    assert not any(counted("sim-untold", stream_options={"include_usage": True}))
    assert counted("m", stream_options={"include_usage": True}) == [False] * 5 + [True]
    running = [
        piece["usageMetadata"].get("candidatesTokenCount") for piece in content_stream("a", "sim-usage-each")
    ]
    assert running == [1, 2, 3]
    for word in ("sim-usage-none", "sim-untold"):
        assert all("usageMetadata" not in piece for piece in content_stream("a", word))
    assert all("usage" not in json.dumps(event) for event in message_stream("a", "sim-untold"))
    counting = [event for event in message_stream("a", "sim-usage-each") if event["type"] == "message_delta"]
    assert [event["delta"]["stop_reason"] for event in counting] == [None, "end_turn"]


Streams = Callable[..., list[Any]]


def said_by(stream: Streams, model: str) -> str:
    """The text of a stream, whatever else is in it."""
    found = ""
    for event in stream("a b", model):
        for choice in event.get("choices", []):
            found += choice["delta"].get("content") or ""
        for candidate in event.get("candidates", []):
            found += "".join(part.get("text", "") for part in candidate.get("content", {}).get("parts", []))
        if event.get("type") == "content_block_delta":
            found += event["delta"].get("text", "")
    return found


@pytest.mark.parametrize("stream", [chat_stream, message_stream, content_stream])
@pytest.mark.parametrize("word", ["noise", "unknown"])
def test_noise_and_unknown_things_leave_the_text_as_it_is(stream: Streams, word: str) -> None:
    assert said_by(stream, f"sim-{word}") == "You said: a b"
    assert len(stream("a b", f"sim-{word}")) > len(stream("a b"))


def test_unknown_things_stand_in_whole_answers_too() -> None:
    assert "future" in chat("a", "sim-unknown")["choices"][0]["message"]
    assert [block["type"] for block in message("a", "sim-unknown")["content"]] == ["future_block", "text"]
    assert kinds(parts_of(content("a", "sim-unknown"))) == ["futurePart", "text"]


# --- probabilities


def test_probabilities_come_with_as_many_alternatives_as_asked_for() -> None:
    [first, *_] = chat("a", logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    assert [one["token"] for one in first["top_logprobs"]] == ["You", "You~1"]
    result = content("a", responseLogprobs=True, logprobs=2)["candidates"][0]["logprobsResult"]
    assert [one["token"] for one in result["chosenCandidates"]] == ["You", " said:", " a"]
    assert [one["token"] for one in result["topCandidates"][0]["candidates"]] == ["You", "You~1"]
    streamed = content_stream("a", responseLogprobs=True)
    tokens = [one["candidates"][0]["logprobsResult"]["chosenCandidates"][0]["token"] for one in streamed]
    assert tokens == ["You", " said:", " a"]


def test_each_vendor_counts_cached_tokens_in_its_own_way() -> None:
    words = "sim-cached-2+sim-cache-write-1"
    counted = chat("a b c", words)["usage"]
    assert (counted["prompt_tokens"], counted["prompt_tokens_details"]["cached_tokens"]) == (5, 2)
    used = message("a b c", words)["usage"]
    assert (used["input_tokens"], used["cache_read_input_tokens"], used["cache_creation_input_tokens"]) == (
        2,
        2,
        1,
    )
    metadata = content("a b c", words)["usageMetadata"]
    assert (metadata["promptTokenCount"], metadata["cachedContentTokenCount"]) == (5, 2)


def test_a_text_without_citations_has_no_such_field() -> None:
    """As the vendor's own: readers that know a list alone refuse a null (coder/xum#858)."""
    assert message("a")["content"] == [{"type": "text", "text": "You said: a"}]
    assert message_stream("a")[1]["content_block"] == {"type": "text", "text": ""}
