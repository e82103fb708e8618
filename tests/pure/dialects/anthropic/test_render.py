"""What a written request keeps to: options, tools and their choice; what could not be said is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    OutputFormat,
    OutputKind,
    Reasoning,
    Sampling,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
)
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.request import render_count_request, render_request
from mgw.simulator.anthropic.messages import count_tokens
from mgw.vocabulary import Effort
from tests.support.messages import (
    ADAPTIVE,
    ASSISTANT,
    EXTENDED,
    FIXED,
    LOOK,
    NEW,
    NEWEST,
    OLD,
    USER,
    asked,
    loop,
    result,
    setting,
    text,
    turn,
    write,
)
from tests.support.said import undelivered


def test_a_plain_request_states_the_version_and_the_default_limit() -> None:
    body, rendered = write(system=(Text("Be brief."),))
    assert body == {
        "model": ADAPTIVE,
        "max_tokens": 8192,
        "system": [text("Be brief.")],
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }
    assert rendered.target == b"/messages"
    assert rendered.headers == ((b"anthropic-version", b"2023-06-01"),)
    assert not rendered.lost


CHOICES = [
    (None, None, None),
    (ToolChoice(ToolMode.AUTO), None, {"type": "auto"}),
    (ToolChoice(ToolMode.NONE), False, {"type": "none"}),
    (ToolChoice(ToolMode.ANY), None, {"type": "any"}),
    (ToolChoice(ToolMode.ANY), False, {"type": "any", "disable_parallel_tool_use": True}),
    (ToolChoice(ToolMode.ANY, ("look",)), True, {"type": "tool", "name": "look"}),
    (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
    (None, True, None),
]


@pytest.mark.parametrize(("choice", "parallel", "expected"), CHOICES)
def test_the_choice_of_tools_is_said(
    choice: ToolChoice | None, parallel: bool | None, expected: dict[str, object] | None
) -> None:
    body, rendered = write(tools=(LOOK,), tool_choice=choice, parallel_calls=parallel)
    assert body.get("tool_choice") == expected
    assert not rendered.lost
    without, rendered = write(tool_choice=choice, parallel_calls=parallel)
    assert not without.keys() & {"tools", "tool_choice"}
    assert not rendered.lost


@pytest.mark.parametrize(
    ("model", "choice", "thinking", "lost"),
    [
        (EXTENDED, {"type": "any"}, None, {Feature.REASONING}),
        (FIXED, {"type": "any"}, {"type": "disabled"}, {Feature.REASONING}),
        (NEWEST, {"type": "auto"}, {"type": "adaptive", "display": "summarized"}, {Feature.TOOL_CHOICE}),
        ("claude-fable-5", {"type": "any"}, {"type": "adaptive", "display": "summarized"}, set()),
    ],
)
def test_a_forced_call_and_thinking_go_together_only_where_the_model_takes_both(
    model: str, choice: dict[str, str], thinking: dict[str, str] | None, lost: set[Feature]
) -> None:
    body, rendered = write(
        model=model,
        tools=(LOOK,),
        tool_choice=ToolChoice(ToolMode.ANY),
        reasoning=Reasoning(Effort.HIGH),
        max_tokens=40_000,
    )
    assert body["tool_choice"] == choice
    assert body.get("thinking") == thinking
    assert rendered.lost == lost


def test_several_tools_to_choose_from_are_all_of_them() -> None:
    body, rendered = write(tools=(LOOK, Tool("b")), tool_choice=ToolChoice(ToolMode.ANY, ("look", "b")))
    assert body["tool_choice"] == {"type": "any"}
    assert rendered.lost == {Feature.TOOL_CHOICE_NAMES}


def test_a_model_that_cannot_be_forced_is_not_told_which_tool_either() -> None:
    body, rendered = write(
        model=NEWEST, tools=(LOOK,), tool_choice=ToolChoice(ToolMode.ANY, ("look",)), max_tokens=40_000
    )
    assert body["tool_choice"] == {"type": "auto"}
    assert rendered.lost == {Feature.TOOL_CHOICE, Feature.TOOL_CHOICE_NAMES}


def test_history_with_calls_declares_what_it_called() -> None:
    body, _ = write(*loop())
    assert body["tools"] == [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    assert body["tool_choice"] == {"type": "none"}


def test_a_name_that_the_vendor_refuses_is_another_everywhere_and_can_be_led_back() -> None:
    body, rendered = write(
        turn(USER, "go"),
        turn(ASSISTANT, ToolCall("1", "maps.google:find", "{}")),
        turn(USER, result("1", "x")),
        tools=(Tool("maps.google:find"), LOOK),
        tool_choice=ToolChoice(ToolMode.ANY, ("maps.google:find",)),
    )
    name = body["tools"][0]["name"]
    assert name == body["messages"][1]["content"][0]["name"] == body["tool_choice"]["name"]
    assert rendered.renamed == {name: "maps.google:find"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {"type": "object", "properties": {}}),
        ({"properties": {"b": {}, "a": {}}}, {"type": "object", "properties": {"b": {}, "a": {}}}),
        ({"type": ["object", "null"], "x": 1}, {"type": "object", "x": 1}),
        ({"x": 1, "type": "object"}, {"x": 1, "type": "object"}),
    ],
    ids=["none", "no type", "two types", "as it is"],
)
def test_a_tools_schema_is_that_of_an_object(schema: dict[str, Any] | None, expected: object) -> None:
    body, _ = write(tools=(Tool("f", schema=schema),))
    found = body["tools"][0]["input_schema"]
    assert found == expected
    assert list(found) == list(expected)  # type: ignore[call-overload]  # a dict


def test_a_rule_at_the_top_of_a_tools_schema_goes_into_the_description() -> None:
    rule = [{"required": ["a"]}, {"required": ["b"]}]
    body, rendered = write(
        tools=(Tool("f", "Finds.", {"type": "object", "anyOf": rule, "properties": {}}, strict=True),)
    )
    tool = body["tools"][0]
    assert tool["input_schema"] == {"type": "object", "properties": {}}
    assert tool["description"].startswith("Finds.\n\n")
    assert tool["description"].endswith(json.dumps({"anyOf": rule}, separators=(",", ":")))
    assert "strict" not in tool
    assert rendered.lost == {Feature.TOOL_STRICT}


def closed(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def test_strictness_goes_where_the_vendor_cannot_enforce_the_schema() -> None:
    good = closed(a={"type": ["string", "null"]}, b={"enum": ["x", 1]})
    bad = closed(a={"type": "integer", "minimum": 1})
    body, rendered = write(
        tools=(Tool("good", schema=good, strict=True), Tool("bad", schema=bad, strict=True))
    )
    assert [tool.get("strict") for tool in body["tools"]] == [True, None]
    assert [tool["input_schema"] for tool in body["tools"]] == [good, bad]
    assert rendered.lost == {Feature.TOOL_STRICT}


def test_at_most_as_many_tools_are_strict_as_the_vendor_takes() -> None:
    tools = tuple(Tool(f"t{number}", schema=closed(), strict=True) for number in range(25))
    body, rendered = write(tools=tools)
    assert sum(tool.get("strict", False) for tool in body["tools"]) == 20
    assert rendered.lost == {Feature.TOOL_STRICT}
    nullable = closed(a={"type": ["string", "null"]}, b={"anyOf": [{"type": "null"}, {"type": "string"}]})
    body, _ = write(tools=tuple(Tool(f"t{number}", schema=nullable, strict=True) for number in range(12)))
    assert sum(tool.get("strict", False) for tool in body["tools"]) == 8


def test_an_answers_schema_is_brought_within_what_the_vendor_enforces() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "A number."},
            "one": {"oneOf": [{"type": "string", "format": "uri"}, {"$ref": "#/$defs/d"}]},
            "many": {"type": "array", "minItems": 3, "items": {"type": "object", "properties": {}}},
        },
        "$defs": {"d": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    body, rendered = write(
        output=OutputFormat(OutputKind.SCHEMA, schema, name="n", description="d", strict=True)
    )
    assert body["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "description": 'A number.\n\n{"minimum":1}'},
                "one": {"anyOf": [{"type": "string", "format": "uri"}, {"$ref": "#/$defs/d"}]},
                "many": {
                    "type": "array",
                    "items": {"type": "object", "properties": {}, "additionalProperties": False},
                    "description": '{"minItems":3}',
                },
            },
            "$defs": {
                "d": {
                    "type": "object",
                    "additionalProperties": False,
                    "description": '{"additionalProperties":{"type":"string"}}',
                }
            },
            "additionalProperties": False,
        },
    }
    assert rendered.lost == {Feature.OUTPUT_NAME, Feature.OUTPUT_DESCRIPTION, Feature.OUTPUT_STRICT}


def test_any_json_object_cannot_be_asked_for() -> None:
    body, rendered = write(output=OutputFormat(OutputKind.JSON))
    assert "output_config" not in body
    assert rendered.lost == {Feature.OUTPUT}
    assert not write(output=OutputFormat(OutputKind.TEXT))[1].lost


@pytest.mark.parametrize(
    ("model", "version", "sampling", "expected", "lost"),
    [
        (ADAPTIVE, None, Sampling(1.7, top_k=3), {"temperature": 1, "top_k": 3}, set()),
        (ADAPTIVE, None, Sampling(0.2, 0.5), {"temperature": 0.2}, {Feature.TOP_P}),
        (ADAPTIVE, None, Sampling(top_p=0.5), {"top_p": 0.5}, set()),
        (ADAPTIVE, NEW, Sampling(0.2), {}, {Feature.TEMPERATURE}),
        (NEWEST, None, Sampling(0.2, top_k=1), {}, {Feature.TEMPERATURE, Feature.TOP_K}),
    ],
)
def test_sampling_goes_where_it_is_taken(
    model: str, version: str | None, sampling: Sampling, expected: dict[str, float], lost: set[Feature]
) -> None:
    body, rendered = write(model=model, version=version, sampling=sampling)
    assert {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body} == expected
    assert rendered.lost == lost
    assert rendered.headers == ((b"anthropic-version", (version or OLD).encode()),)


def test_thinking_goes_without_sampling() -> None:
    body, rendered = write(reasoning=Reasoning(Effort.LOW), sampling=Sampling(0.2))
    assert body["output_config"] == {"effort": "low"}
    assert "temperature" not in body
    assert rendered.lost == {Feature.TEMPERATURE}


def test_what_this_wire_cannot_say_is_named() -> None:
    said = Conversation(
        (replace(turn(USER, "Hi"), name="ann"),),
        candidates=2,
        sampling=Sampling(frequency_penalty=0.0, presence_penalty=1.0, seed=1, logprobs=True, top_logprobs=2),
        stop=("\n", "END"),
        user="ann@example.com",
    )
    assert undelivered(said, render_request(said, setting(ADAPTIVE))) == {
        Feature.TURN_NAME,
        Feature.CANDIDATES,
        Feature.FREQUENCY_PENALTY,
        Feature.PRESENCE_PENALTY,
        Feature.SEED,
        Feature.LOGPROBS,
        Feature.TOP_LOGPROBS,
        Feature.STOP,
        Feature.USER,
    }


def test_the_rest_is_said() -> None:
    body, rendered = write(stop=("END",), user="u-1", stream=True, max_tokens=7, candidates=1)
    assert (body["stop_sequences"], body["metadata"], body["stream"], body["max_tokens"]) == (
        ["END"],
        {"user_id": "u-1"},
        True,
        7,
    )
    assert not rendered.lost


def test_at_most_four_breakpoints_go_and_only_where_they_were_set() -> None:
    marked = Text("x", CacheMark("1h"))
    body, rendered = write(
        turn(USER, marked, marked, "plain", marked),
        system=(marked,),
        tools=(replace(LOOK, cache=CacheMark()),),
    )
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    marks = ["cache_control" in block for block in body["messages"][0]["content"]]
    assert marks == [True, True, False, False]
    assert rendered.lost == {Feature.CACHE}


def test_a_count_holds_only_what_the_vendor_counts() -> None:
    said = Conversation(
        (turn(USER, "Hi"),),
        (Text("S"),),
        (LOOK,),
        sampling=Sampling(0.5),
        max_tokens=5000,
        stop=("x",),
        user="u",
        stream=True,
        reasoning=Reasoning(budget=2048),
    )
    rendered = render_count_request(said, setting(EXTENDED))
    body = json.loads(rendered.body)
    count_tokens(asked(rendered))
    assert body.keys() == {"model", "system", "tools", "messages", "thinking"}
    assert rendered.target == b"/messages/count_tokens"


@pytest.mark.parametrize(
    ("limit", "expected", "lost"), [(64_000, 64_000, set()), (64_001, 64_000, {Feature.MAX_TOKENS})]
)
def test_a_limit_above_the_models_is_lowered_and_reported(
    limit: int, expected: int, lost: set[Feature]
) -> None:
    body, rendered = write(model=EXTENDED, max_tokens=limit)
    assert body["max_tokens"] == expected
    assert rendered.lost == lost


@pytest.mark.parametrize("model", ["claude-3-7-sonnet-latest", "claude-opus-4-1", "claude-sonnet-4-0"])
def test_structured_output_and_strict_tools_are_not_asked_of_models_that_refuse_them(model: str) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body, rendered = write(
        model=model,
        tools=(Tool("look", schema=schema, strict=True),),
        output=OutputFormat(OutputKind.SCHEMA, schema),
    )
    assert "output_config" not in body
    assert "strict" not in body["tools"][0]
    assert rendered.lost == {Feature.OUTPUT, Feature.TOOL_STRICT}
