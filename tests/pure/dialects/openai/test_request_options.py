"""Tools, reasoning, limits and sampling that a client of chat completions asks for."""

from __future__ import annotations

import pytest

from mgw.canonical.conversation import OutputFormat, OutputKind, Reasoning, Tool, ToolChoice, ToolMode
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.nouns.vocabulary import Effort
from tests.support.chat_clients import HI, TOOL, Json, parsed, refused


def test_tools_and_choices_are_understood() -> None:
    function = {"name": "f", "description": "d", "parameters": {"b": 1, "a": 2}, "strict": True}
    found = parsed(tools=[{"type": "function", "function": function}]).request
    assert found.tools == (Tool("f", "d", {"b": 1, "a": 2}, strict=True),)
    named = {"type": "function", "function": {"name": "f"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named, named]}}
    for said, meant in (
        ("none", ToolChoice(ToolMode.NONE)),
        ("auto", ToolChoice(ToolMode.AUTO)),
        ("required", ToolChoice(ToolMode.ANY)),
        (named, ToolChoice(ToolMode.ANY, ("f",))),
        (allowed, ToolChoice(ToolMode.ANY, ("f", "f"))),
    ):
        assert parsed(tools=[TOOL], tool_choice=said).request.tool_choice == meant


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
        {"tools": [TOOL, {"type": "web_search"}]},
        {"tools": [TOOL], "tool_choice": {"type": "custom", "custom": {"name": "x"}}},
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "x", "input": ""}}],
                }
            ]
        },
    ],
    ids=["custom tool", "tool of the vendor's", "choice", "call in history"],
)
def test_tools_that_are_no_functions_are_refused_by_their_type(fields: Json) -> None:
    error = refused(**fields)
    assert "'custom'" in error.message or "'web_search'" in error.message
    assert "OpenAI API accepts them unchanged" in error.message


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"reasoning_effort": "xhigh"}, Reasoning(Effort.XHIGH)),
        (
            {"reasoning": {"effort": "low", "exclude": True}},
            Reasoning(Effort.LOW, thoughts=False),
        ),
        ({"reasoning": {"max_tokens": 2000}}, Reasoning(budget=2000)),
        ({"reasoning": {"enabled": True}}, Reasoning(Effort.MEDIUM)),
        ({"reasoning": {"enabled": False}}, Reasoning(Effort.NONE)),
        ({"thinking": {"type": "enabled"}}, Reasoning(budget=-1)),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, Reasoning(budget=5)),
        ({"thinking": {"type": "disabled"}}, Reasoning(Effort.NONE)),
        ({"thinking": {"type": "adaptive"}}, Reasoning(adaptive=True)),
        (
            {
                "extra_body": {
                    "google": {"thinking_config": {"thinking_level": "HIGH", "include_thoughts": True}}
                }
            },
            Reasoning(Effort.HIGH, thoughts=True),
        ),
        ({"reasoning_effort": "low", "thinking": {"type": "enabled"}}, Reasoning(Effort.LOW, -1)),
    ],
    ids=str,
)
def test_every_spelling_of_reasoning_is_understood(fields: Json, reasoning: Reasoning) -> None:
    found = parsed(**fields)
    assert found.request.reasoning == reasoning
    assert not found.unread


def test_limits_sampling_and_format_are_understood() -> None:
    schema = {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"}
    found = parsed(
        temperature=0.5,
        top_p=1,
        top_k=4,
        frequency_penalty=0.1,
        presence_penalty=-0.1,
        seed=7,
        logprobs=True,
        top_logprobs=3,
        max_tokens=5,
        max_completion_tokens=9,
        n=2,
        stop="end",
        user="u",
        response_format={"type": "json_schema", "json_schema": schema},
        stream=True,
        stream_options={"include_usage": True},
        parallel_tool_calls=False,
    )
    asked = found.request
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.top_k) == (0.5, 1, 4)
    assert (asked.sampling.logprobs, asked.sampling.top_logprobs, asked.sampling.seed) == (True, 3, 7)
    assert (asked.max_tokens, asked.candidates, asked.stop, asked.user) == (9, 2, ("end",), "u")
    assert asked.output == OutputFormat(OutputKind.SCHEMA, {"type": "object"}, "n", "d", strict=True)
    assert (asked.stream, asked.parallel_calls, ChatReplyOptions.of(found.reply_options).include_usage) == (
        True,
        False,
        True,
    )
    assert found.unread == {"max_tokens"}


def test_what_asks_for_nothing_unusual_says_nothing() -> None:
    found = parsed(
        n=1,
        frequency_penalty=0,
        presence_penalty=0.0,
        logprobs=False,
        top_logprobs=0,
        parallel_tool_calls=True,
        modalities=["text"],
        response_format={"type": "text"},
        tools=[],
    )
    assert found.request == parsed().request
    assert not found.unread


@pytest.mark.parametrize(
    "fields",
    [
        {"stop": ""},
        {"stop": []},
        {"stop": ["", ""]},
        {"reasoning_effort": "default"},
        {"reasoning": {"effort": "default"}},
    ],
    ids=str,
)
def test_what_says_nothing_asks_for_nothing(fields: Json) -> None:
    said = parsed(HI, **fields)
    assert said.request == parsed(HI).request
    assert not said.unread


def test_an_empty_stop_sequence_is_none() -> None:
    assert parsed(HI, stop=["", "a", ""]).request.stop == ("a",)


def test_what_is_not_understood_is_reported() -> None:
    found = parsed(
        {"role": "user", "content": "a", "mood": "good"},
        logit_bias={"1": 2},
        metadata={"a": "b"},
        store=True,
        service_tier="flex",
        verbosity="low",
        prediction={"type": "content", "content": "a"},
        web_search_options={},
        audio={"voice": "a", "format": "mp3"},
        modalities=["text", "audio"],
        prompt_cache_options={"mode": "explicit"},
        moderation={"model": "m"},
        chat_template_kwargs={"a": 1},
        min_p=0.1,
        stream_options={"include_obfuscation": False},
        something_newer=1,
    )
    assert found.unread == {
        *("logit_bias", "metadata", "store", "service_tier", "verbosity", "prediction", "web_search_options"),
        *("audio", "modalities", "prompt_cache_options", "moderation", "chat_template_kwargs", "min_p"),
        *("stream_options.include_obfuscation", "something_newer", "messages[].mood"),
    }
