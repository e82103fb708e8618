"""Tools and their choice, both ways."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from anthropic.types import ToolParam

from mgw.canonical.conversation import (
    Reasoning,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
)
from mgw.canonical.features import Feature
from mgw.nouns.vocabulary import Effort
from tests.support.messages import (
    ASSISTANT,
    EXTENDED,
    FIXED,
    LOOK,
    NEWEST,
    USER,
    loop,
    parse,
    refusal,
    render,
    result,
    turn,
)


def test_every_field_of_a_tool_is_read_or_reported() -> None:
    fields = set(typing.get_type_hints(ToolParam)) - {"type", "cache_control", "strict"}
    tool = {name: {} if name == "input_schema" else "x" for name in fields}
    reported = {f"tools[].{name}" for name in fields - {"name", "description", "input_schema"}}
    assert parse(tools=[tool]).unread == reported


@pytest.mark.parametrize(
    "kind", ["bash_20250124", "computer_toolset_20260801", "web_search_20260318", "mcp_toolset", "memory"]
)
def test_a_tool_that_is_no_function_is_refused_by_its_type(kind: str) -> None:
    error = refusal(tools=[{"type": kind, "name": "its_name"}])
    assert kind in error.message
    assert "'its_name'" in error.message
    assert "own family" in error.message
    assert error.param == "tools[0].type"


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(ToolMode.AUTO), None),
        ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice(ToolMode.ANY), True),
        ({"type": "none"}, ToolChoice(ToolMode.NONE), None),
    ],
    ids=["auto", "any", "none"],
)
def test_the_choice_of_tools_is_parsed(
    choice: dict[str, object], expected: ToolChoice, parallel: bool | None
) -> None:
    conversation = parse(tool_choice=choice, tools=[{"name": "f", "input_schema": {}}]).request
    assert (conversation.tool_choice, conversation.parallel_calls) == (expected, parallel)


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
def test_the_choice_of_tools_is_rendered(
    choice: ToolChoice | None, parallel: bool | None, expected: dict[str, object] | None
) -> None:
    body, rendered = render(tools=(LOOK,), tool_choice=choice, parallel_calls=parallel)
    assert body.get("tool_choice") == expected
    assert not rendered.lost
    without, rendered = render(tool_choice=choice, parallel_calls=parallel)
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
    body, rendered = render(
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
    body, rendered = render(tools=(LOOK, Tool("b")), tool_choice=ToolChoice(ToolMode.ANY, ("look", "b")))
    assert body["tool_choice"] == {"type": "any"}
    assert rendered.lost == {Feature.TOOL_CHOICE_NAMES}


def test_a_model_that_cannot_be_forced_gets_no_name_of_a_tool_either() -> None:
    body, rendered = render(
        model=NEWEST, tools=(LOOK,), tool_choice=ToolChoice(ToolMode.ANY, ("look",)), max_tokens=40_000
    )
    assert body["tool_choice"] == {"type": "auto"}
    assert rendered.lost == {Feature.TOOL_CHOICE, Feature.TOOL_CHOICE_NAMES}


def test_history_with_calls_declares_what_it_called() -> None:
    body, _ = render(*loop())
    assert body["tools"] == [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    assert body["tool_choice"] == {"type": "none"}


def test_a_name_that_the_vendor_refuses_is_another_everywhere_and_can_be_led_back() -> None:
    body, rendered = render(
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
    body, _ = render(tools=(Tool("f", schema=schema),))
    found = body["tools"][0]["input_schema"]
    assert found == expected
    assert list(found) == list(expected)  # type: ignore[call-overload]  # a dict


def test_a_rule_at_the_top_of_a_tools_schema_goes_into_the_description() -> None:
    rule = [{"required": ["a"]}, {"required": ["b"]}]
    body, rendered = render(
        tools=(Tool("f", "Finds.", {"type": "object", "anyOf": rule, "properties": {}}, strict=True),)
    )
    tool = body["tools"][0]
    assert tool["input_schema"] == {"type": "object", "properties": {}}
    assert tool["description"].startswith("Finds.\n\n")
    assert tool["description"].endswith(json.dumps({"anyOf": rule}, separators=(",", ":")))
    assert "strict" not in tool
    assert rendered.lost == {Feature.TOOL_STRICT}
