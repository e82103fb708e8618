"""Tools, schemas, limits and sampling, written for a provider that speaks chat completions."""

from __future__ import annotations

import json
import re

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
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.models import Models
from mgw.dialects.openai.request import render_request
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import ChatTools, Effort, Family, Kind
from tests.support.chat_requests import HI, HOST, OPENAI, PNG, ROW, TOOL, Json, asked, lost, rendered, said


def test_tools_are_functions_whose_schemas_keep_their_order() -> None:
    tools = (TOOL, Tool("g"), Tool("h", schema={}, strict=False, cache=CacheMark()))
    conversation = Conversation((HI,), tools=tools, parallel_calls=False)
    body = rendered(conversation)
    nothing = {"type": "object", "properties": {}}
    assert [tool["function"] for tool in body["tools"]] == [
        {"name": "f", "description": "d", "parameters": TOOL.schema},
        {"name": "g", "parameters": nothing},
        {"name": "h", "parameters": nothing, "strict": False},
    ]
    assert list(body["tools"][0]["function"]["parameters"]["properties"]) == ["b", "a"]
    assert body["parallel_tool_calls"] is False
    assert lost(conversation) == {Feature.CACHE}


@pytest.mark.parametrize(
    ("choice", "openai", "host"),
    [
        (ToolChoice(ToolMode.AUTO), "auto", "auto"),
        (ToolChoice(ToolMode.NONE), "none", "none"),
        (ToolChoice(ToolMode.ANY), "required", "required"),
        (
            ToolChoice(ToolMode.ANY, ("f",)),
            {"type": "function", "function": {"name": "f"}},
            {"type": "function", "function": {"name": "f"}},
        ),
        (
            ToolChoice(ToolMode.ANY, ("f", "g")),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "f"}},
                        {"type": "function", "function": {"name": "g"}},
                    ],
                },
            },
            "required",
        ),
    ],
    ids=["auto", "none", "any", "one", "several"],
)
def test_choices_are_told(choice: ToolChoice, openai: Json, host: Json) -> None:
    conversation = Conversation((HI,), tools=(TOOL,), tool_choice=choice)
    assert rendered(conversation)["tool_choice"] == openai
    assert rendered(conversation, HOST)["tool_choice"] == host
    assert lost(conversation, HOST) == ({Feature.TOOL_CHOICE_NAMES} if len(choice.names) > 1 else set())


def test_one_call_at_a_time_is_asked_only_of_models_that_take_the_wish() -> None:
    conversation = Conversation((HI,), tools=(TOOL,), parallel_calls=False)
    setting = RenderOptions("m", Kind.OPENAI, replace(ROW, parallel_calls=False))
    assert rendered(conversation)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in rendered(conversation, setting)
    assert lost(conversation, setting) == {Feature.PARALLEL_CALLS}
    assert lost(conversation) == lost(Conversation((HI,), tools=(TOOL,)), setting) == set()


def test_what_is_about_tools_is_left_out_without_them() -> None:
    conversation = Conversation((HI,), tool_choice=ToolChoice(ToolMode.ANY), parallel_calls=False)
    assert set(rendered(conversation)) == {"model", "messages"}


def test_tools_go_up_where_the_table_says_that_the_model_takes_none() -> None:
    setting = RenderOptions("m", Kind.OPENAI, replace(ROW, chat_tools=ChatTools.NEVER))
    assert rendered(Conversation((HI,), tools=(TOOL,)), setting)["tools"]


def test_names_that_this_wire_refuses_are_others_everywhere_and_lead_back() -> None:
    name = "files.read:all"
    conversation = Conversation(
        (HI, said(ToolCall("1", name, "{}")), asked(ToolResult("1", (Text("r"),)))),
        tools=(Tool(name), Tool("f")),
        tool_choice=ToolChoice(ToolMode.ANY, (name,)),
    )
    found = render_request(conversation, OPENAI)
    body = json.loads(found.body)
    first, second = (tool["function"]["name"] for tool in body["tools"])
    assert found.renamed == {first: name}
    assert (re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", first) is not None, second) == (True, "f")
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == first
    assert body["tool_choice"]["function"]["name"] == first


def test_limits_are_told_in_the_providers_words() -> None:
    conversation = Conversation((HI,), max_tokens=5, stop=("a",) * 5, candidates=2, user="u", stream=True)
    body = rendered(conversation)
    assert (body["max_completion_tokens"], body["n"], body["safety_identifier"]) == (5, 2, "u")
    assert body["stop"] == ["a"] * 4
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert lost(conversation) == {Feature.STOP}
    body = rendered(conversation, replace(HOST, stream_usage=False))
    assert (body["max_tokens"], body["user"], len(body["stop"])) == (5, "u", 5)
    assert "stream_options" not in body


def test_a_limit_is_never_above_what_the_model_can_put_out() -> None:
    setting = RenderOptions("m", Kind.OPENAI, replace(ROW, max_output=100))
    lowered = Conversation((HI,), max_tokens=5000)
    assert rendered(lowered, setting)["max_completion_tokens"] == 100
    assert lost(lowered, setting) == {Feature.MAX_TOKENS}
    assert not lost(Conversation((HI,), max_tokens=100), setting)


RECIPE = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
DEFINED = {"$defs": {"Recipe": RECIPE}}
LIST = {"type": "array", "items": {"$ref": "#/$defs/Recipe"}}
UNION = {"anyOf": [{"$ref": "#/$defs/Recipe"}, {"type": "null"}]}
LISTED = {"$defs": {"A": LIST, "Recipe": RECIPE}}
NEXT = {"A": {"$ref": "#/$defs/B"}, "B": RECIPE}
CIRCLE = {"A": {"$ref": "#/$defs/A"}}
TUPLE = {"type": "array", "items": [{"type": "null"}, {"$ref": "#/items/0"}]}
MOVED = {"type": "array", "items": [{"type": "null"}, {"$ref": "#/properties/value/items/0"}]}
NESTED = {"type": "array", "items": {"$ref": "#"}}
NESTING = {"type": "array", "items": {"$ref": "#/properties/value"}}


def in_wrapping(inner: Json, **defined: Json) -> Json:
    frame = {"type": "object", "properties": {"value": inner}, "required": ["value"]}
    return {**frame, "additionalProperties": False, **defined}


ROOTS: dict[str, tuple[Json, Json, bool, bool | None]] = {
    "object": (RECIPE, RECIPE, False, True),
    "list": ({**DEFINED, **LIST}, in_wrapping(LIST, **DEFINED), True, True),
    "union": ({**DEFINED, **UNION}, in_wrapping(UNION, **DEFINED), True, True),
    "reference": ({**DEFINED, "$ref": "#/$defs/Recipe"}, {**RECIPE, **DEFINED}, False, True),
    "reference to a list": ({**LISTED, "$ref": "#/$defs/A"}, in_wrapping(LIST, **LISTED), True, True),
    "reference to another": ({"$ref": "#/$defs/A", "$defs": NEXT}, {**RECIPE, "$defs": NEXT}, False, True),
    "no type": ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}, False, None),
    "nothing": ({}, {"type": "object"}, False, None),
    "one type": ({"type": ["object"], "properties": {}}, {"type": "object", "properties": {}}, False, None),
    "or null": ({"type": ["object", "null"]}, in_wrapping({"type": ["object", "null"]}), True, None),
    "text": ({"type": "string"}, in_wrapping({"type": "string"}), True, True),
    "enum": ({"enum": ["a", "b"]}, in_wrapping({"enum": ["a", "b"]}), True, None),
    "root in itself": (NESTED, in_wrapping(NESTING), True, None),
    "part of itself": (TUPLE, in_wrapping(MOVED), True, None),
    "elsewhere": ({"$ref": "https://elsewhere"}, in_wrapping({"$ref": "https://elsewhere"}), True, None),
    "circle": (
        {"$ref": "#/$defs/A", "$defs": CIRCLE},
        in_wrapping({"$ref": "#/$defs/A"}, **{"$defs": CIRCLE}),
        True,
        None,
    ),
}


@pytest.mark.parametrize(("schema", "sent", "wrapped", "strict"), ROOTS.values(), ids=ROOTS)
def test_an_answers_schema_has_an_object_at_its_root(
    schema: Json, sent: Json, wrapped: bool, strict: bool | None
) -> None:
    conversation = Conversation((HI,), output=OutputFormat(OutputKind.SCHEMA, schema))
    found = render_request(conversation, OPENAI)
    parsed = json.loads(found.body)["response_format"]["json_schema"]
    assert parsed["schema"] == sent
    assert found.wrapped is wrapped
    if strict:
        assert parsed["strict"] is True


def test_an_answers_schema_that_is_nested_too_deeply_is_refused() -> None:
    deep: Json = {}
    for _ in range(50_000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(GatewayError, match="nested too deeply"):
        render_request(Conversation((HI,), output=OutputFormat(OutputKind.SCHEMA, deep)), OPENAI)


def test_a_tools_schema_has_what_its_root_refers_to() -> None:
    tool = Tool("f", schema={**DEFINED, "$ref": "#/$defs/Recipe"})
    (sent,) = rendered(Conversation((HI,), tools=(tool,)))["tools"]
    assert sent["function"]["parameters"] == {**RECIPE, **DEFINED}


def test_the_name_of_a_user_that_is_too_long_is_hashed_the_same_way_every_time() -> None:
    user = rendered(Conversation((HI,), user="u" * 200))["safety_identifier"]
    assert len(user) == 64
    assert rendered(Conversation((HI,), user="u" * 200), HOST)["user"] == user
    assert rendered(Conversation((HI,), user="v" * 200))["safety_identifier"] != user


def test_sampling_is_told_where_the_model_takes_it() -> None:
    sampling = Sampling(0.5, 0.9, 4, 0.1, 0.2, 7, logprobs=True, top_logprobs=2)
    conversation = Conversation((HI,), sampling=sampling)
    assert "top_k" not in rendered(conversation, HOST)
    assert lost(conversation, HOST) == {Feature.TOP_K}
    taking = replace(HOST, extra_fields=frozenset({"top_k"}))
    assert rendered(conversation, taking)["top_k"] == 4
    assert not lost(conversation, taking)
    assert lost(conversation) == {Feature.TOP_K}
    strict = RenderOptions("m", Kind.OPENAI, replace(ROW, sampling=False))
    assert set(rendered(conversation, strict)) == {"model", "messages", "seed"}
    assert lost(conversation, strict) == {
        *(Feature.TEMPERATURE, Feature.TOP_P, Feature.TOP_K, Feature.FREQUENCY_PENALTY),
        *(Feature.PRESENCE_PENALTY, Feature.LOGPROBS, Feature.TOP_LOGPROBS),
    }
    alone = Conversation((HI,), sampling=Sampling(top_logprobs=2))
    assert lost(alone) == {Feature.TOP_LOGPROBS}


def test_effort_is_told_by_name() -> None:
    row = Models(()).row("o3", Family.OPENAI)
    conversation = Conversation((HI,), reasoning=Reasoning(Effort.HIGH, thoughts=True))
    setting = RenderOptions("o3", Kind.OPENAI, row)
    assert rendered(conversation, setting)["reasoning_effort"] == "high"
    assert lost(conversation, setting) == {Feature.THOUGHTS}


def test_structured_output_is_told_and_json_is_said_aloud() -> None:
    schema = OutputFormat(OutputKind.SCHEMA, {"type": "object"}, None, "d", strict=True)
    assert rendered(Conversation((HI,), output=schema))["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "description": "d",
            "schema": {"type": "object"},
            "strict": True,
        },
    }
    body = rendered(Conversation((HI,), output=OutputFormat(OutputKind.JSON)))
    assert body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["role"] == "system"
    told = Conversation((asked(Text("give me Json"), PNG),), output=OutputFormat(OutputKind.JSON))
    assert len(rendered(told)["messages"]) == 1


CLOSED: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("setting", [OPENAI, HOST])
def test_a_tool_is_strict_only_where_its_schema_is_one_for_strict_mode(setting: RenderOptions) -> None:
    fits = Conversation((HI,), tools=(Tool("f", schema=CLOSED, strict=True),))
    assert rendered(fits, setting)["tools"][0]["function"]["strict"] is True
    assert lost(fits, setting) == set()
    misfit = Conversation((HI,), tools=(Tool("f", schema=OPEN, strict=True), Tool("g", strict=True)))
    assert all("strict" not in tool["function"] for tool in rendered(misfit, setting)["tools"])
    assert lost(misfit, setting) == {Feature.TOOL_STRICT}


@pytest.mark.parametrize(
    ("schema", "strict", "said"),
    [
        (CLOSED, None, True),
        (OPEN, None, None),
        (None, None, None),
        (CLOSED, False, False),
        (OPEN, True, True),
    ],
)
def test_an_answers_schema_is_enforced_where_it_can_be_unless_the_client_says(
    schema: Json, strict: bool | None, said: bool | None
) -> None:
    output = OutputFormat(OutputKind.SCHEMA, schema, strict=strict)
    conversation = Conversation((HI,), output=output)
    assert rendered(conversation)["response_format"]["json_schema"].get("strict") is said
    assert lost(conversation) == set()


def test_a_schema_without_end_is_refused() -> None:
    schema: Json = {}
    inner = schema
    for _ in range(100_000):
        inner["a"] = {}
        inner = inner["a"]
    with pytest.raises(GatewayError) as caught:
        rendered(Conversation((HI,), tools=(Tool("f", schema=schema),)))
    assert caught.value.reason is Reason.MALFORMED
    while schema:  # taken apart by hand: the interpreter would do it recursively
        schema = schema.pop("a", {})
