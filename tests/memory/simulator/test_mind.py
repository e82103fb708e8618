"""What the simulated model answers, and the values that it makes up."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.simulator.faults import Faults, UnknownFaultError, read_faults
from mgw.simulator.json_schema import example, schema_error
from mgw.simulator.model import (
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


def test_faults_are_read_from_models_and_headers() -> None:
    faults = read_faults(
        "p/gpt-4.1+sim-delay-5.sim-stall-head", [("x-sim-status", "429"), ("x-sim-1xx", "on")]
    )
    assert (faults.number("delay"), faults.number("status")) == (5, 429)
    assert "stall-head" in faults
    assert "1xx" in faults


@pytest.mark.parametrize(
    "model",
    [
        "sim-",
        "sim-delay",
        "sim-delay-x",
        "sim-stall-head-3",
        "sim-chunk",
        "sim-flaky-503",
        "sim-stop",
        "sim-usage-often",
    ],
)
def test_a_misspelt_fault_is_refused(model: str) -> None:
    with pytest.raises(UnknownFaultError):
        read_faults(model, ())


def conforms(value: Any, schema: Any) -> bool:
    """A second opinion, for the words that ``schemas`` draws."""
    kind = schema["type"]
    if "enum" in schema:
        return value in schema["enum"]
    if kind == "object":
        names = schema["properties"]
        return set(schema["required"]) <= set(value) <= set(names) and all(
            conforms(value[name], names[name]) for name in value
        )
    if kind == "array":
        return len(value) >= schema["minItems"] and all(conforms(item, schema["items"]) for item in value)
    if kind == "string":
        return isinstance(value, str) and schema["minLength"] <= len(value) <= schema["maxLength"]
    if kind == "integer":
        return type(value) is int and schema["minimum"] <= value <= schema["maximum"]
    return isinstance(value, bool)


def texts(least: int, more: int) -> Any:
    """A schema of strings."""
    return {"type": "string", "minLength": least, "maxLength": least + more}


def integers(least: int, more: int) -> Any:
    """A schema of integers."""
    return {"type": "integer", "minimum": least, "maximum": least + more}


def lists(item: Any, least: int) -> Any:
    """A schema of arrays."""
    return {"type": "array", "items": item, "minItems": least}


def objects(names: dict[str, Any]) -> Any:
    """A schema of objects."""
    return {"type": "object", "properties": names, "required": sorted(names)[:1]}


SCHEMAS = st.recursive(
    st.one_of(
        st.builds(texts, st.integers(0, 30), st.integers(0, 30)),
        st.builds(integers, st.integers(-9, 9), st.integers(0, 9)),
        st.just({"type": "boolean"}),
        st.just({"type": "string", "enum": ["b", "a"]}),
    ),
    lambda inner: st.one_of(
        st.builds(lists, inner, st.integers(0, 3)),
        st.builds(objects, st.dictionaries(st.sampled_from("abc"), inner)),
    ),
    max_leaves=6,
)


@given(schema=SCHEMAS)
def test_an_example_conforms_to_its_schema(schema: Any) -> None:
    assert schema_error(schema) is None
    assert conforms(example(schema), schema)


def test_a_recursive_schema_has_an_end() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}
    assert json.dumps(example(node)).endswith("null" + "}" * json.dumps(example(node)).count("{"))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "STRING"}, "is not valid under"),
        ({"properties": []}, "not an object"),
        ({"enum": []}, "not a list with something"),
        ({"$ref": "#/$defs/gone"}, "leads nowhere"),
        ([], "neither an object"),
        ({"items": {"type": "strin"}}, "/items/type"),
    ],
)
def test_a_schema_that_no_vendor_takes_is_found_out(schema: Any, words: str) -> None:
    assert words in str(schema_error(schema))


def test_strict_objects_close_themselves_and_require_everything() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "additionalProperties" in str(schema_error(schema, strict=True))
    schema["additionalProperties"] = False
    assert "required" in str(schema_error(schema, strict=True))
    assert schema_error(schema, closed=True) is None
    assert schema_error({**schema, "required": ["a"]}, strict=True) is None
