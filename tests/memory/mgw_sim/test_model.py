"""What the simulated model answers."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw_sim.faults import Faults, read_faults
from mgw_sim.model import (
    FinishReason,
    Part,
    Prompt,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    complete,
    tokenize,
)

NONE = Faults()
PHRASES = (
    *("use tool get_it", 'use tool other with {"a": "b c"}', "use tool other with nothing"),
    *("preface", "afterword", "think between", "think hidden", "say nothing", "repeat:9"),
)
TOOLS = (Tool("get_it", {"type": "object", "properties": {"a": {"type": "string"}}}), Tool("other", None))


@given(text=st.text(alphabet="ab \n\t", max_size=40))
def test_tokens_join_to_the_text(text: str) -> None:
    assert "".join(tokenize(text)) == text


@given(text=st.text(alphabet="ab ", max_size=40), room=st.integers(0, 12))
def test_an_answer_keeps_within_its_room(text: str, room: int) -> None:
    outcome = complete(Prompt(text, 1, max_tokens=room, wants_thinking=True), NONE)
    whole = complete(Prompt(text, 1, wants_thinking=True), NONE)
    assert outcome.tokens <= room
    assert (outcome.finish_reason is FinishReason.LENGTH) == (whole.tokens > room)


@given(words=st.lists(st.sampled_from([*PHRASES]), max_size=6), room=st.integers(0, 40))
def test_a_cut_answer_is_the_beginning_of_the_whole_one(words: list[str], room: int) -> None:
    prompt = Prompt(" ".join(words), 1, tools=TOOLS, wants_thinking=True)
    whole = complete(prompt, NONE)
    cut = complete(replace(prompt, max_tokens=room), NONE)
    assert cut.tokens <= room
    assert (cut.finish_reason is FinishReason.LENGTH) == (whole.tokens > room)
    if cut.parts:
        assert cut.parts[:-1] == whole.parts[: len(cut.parts) - 1]
        last, full = written(cut.parts[-1]), written(whole.parts[len(cut.parts) - 1])
        assert full.startswith(last)
        assert all(use.whole or use is cut.parts[-1] for use in cut.tool_calls)


def written(part: Part) -> str:
    """A part as one text."""
    return f"{part.name} {part.arguments}" if isinstance(part, ToolCall) else part.text


def test_a_stop_sequence_ends_the_answer_and_all_that_is_behind_it() -> None:
    prompt = Prompt("use tool other preface", 1, tools=TOOLS, stop_sequences=("nothing", " call"))
    outcome = complete(prompt, NONE)
    assert (outcome.text, outcome.tool_calls, outcome.stop_sequence) == ("I", (), " call")
    assert outcome.finish_reason is FinishReason.STOP_SEQUENCE


def test_tool_calls_carry_the_arguments_that_the_text_gives() -> None:
    said = 'please use tool get_it with {"a": "}{"} and use tool other.'
    outcome = complete(Prompt(said, 1, tools=TOOLS), NONE)
    assert [(use.name, json.loads(use.arguments)) for use in outcome.tool_calls] == [
        ("get_it", {"a": "}{"}),
        ("other", {}),
    ]
    assert outcome.finish_reason is FinishReason.TOOLS


def test_tools_that_are_not_offered_are_not_called() -> None:
    assert complete(Prompt("use tool unknown", 1, tools=TOOLS), NONE).tool_calls == ()


def test_one_call_at_a_time_where_the_client_says_so() -> None:
    said = "use tool get_it use tool other"
    assert len(complete(Prompt(said, 1, tools=TOOLS, parallel=False), NONE).tool_calls) == 1


def test_results_are_named_and_end_the_calling() -> None:
    prompt = Prompt("use tool get_it", 1, tools=TOOLS, results=(ToolResult("get_it", "42"),))
    assert complete(prompt, NONE).text == "Tool get_it returned: 42"


def test_a_forced_tool_is_called_with_an_example() -> None:
    [use] = complete(
        Prompt("hi", 1, tools=TOOLS, tool_choice=ToolChoice.ANY, allowed_tools=("get_it",)), NONE
    ).tool_calls
    assert json.loads(use.arguments) == {"a": "some a"}


def test_the_number_of_words_can_be_asked_for() -> None:
    assert complete(Prompt("repeat:3", 1), NONE).text == "w1 w2 w3"
    assert complete(Prompt("hi", 1), read_faults("sim-chunks-2", ())).text == "w1 w2"
    assert complete(Prompt("hi", 1), read_faults("sim-big-70000", ())).text == "x" * 70000


def integers(least: int, more: int) -> Any:
    """A schema of integers."""
    return {"type": "integer", "minimum": least, "maximum": least + more}


def lists(item: Any, least: int) -> Any:
    """A schema of arrays."""
    return {"type": "array", "items": item, "minItems": least}
