"""What a client of chat completions asks, as the canonical form has it."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Reasoning,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.openai.request import parse_request
from mgw.dialects.signatures import tag_signature
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Effort, Family
from tests.support.collector import no_collector

Json = Any  # Any: JSON as a client writes it

HI = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SEAL = Signature(Family.ANTHROPIC, "c2VhbA==")


def parsed(*messages: Json, **fields: Json) -> Parsed[Conversation]:
    body = {"model": "m", "messages": list(messages) or [HI], **fields}
    return parse_request(json.dumps(body).encode(), RequestContext("m"))


def turns(*messages: Json) -> tuple[Turn, ...]:
    return parsed(*messages).request.turns


def refused(*messages: Json, **fields: Json) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        parsed(*messages, **fields)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def test_leading_instructions_are_the_conversations_own_and_later_ones_keep_their_place() -> None:
    found = parsed(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}]},
        HI,
        {"role": "system", "content": "c"},
    ).request
    assert found.system == (Text("a"), Text("b"))
    assert found.turns == (Turn(Role.USER, (Text("hi"),)), Turn(Role.SYSTEM, (Text("c"),)))


@pytest.mark.parametrize(
    ("part", "media"),
    [
        pytest.param(
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,a-_w", "detail": "high"}},
            Media(MediaKind.IMAGE, "image/png", "a+/w", detail="high"),
            id="image in base64",
        ),
        pytest.param(
            {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "auto"}},
            Media(MediaKind.IMAGE, url="https://a/b.png"),
            id="image at an address",
        ),
        pytest.param(
            {"type": "image_url", "image_url": "https://a/b.png"},
            Media(MediaKind.IMAGE, url="https://a/b.png"),
            id="address alone",
        ),
        pytest.param(
            {"type": "input_audio", "input_audio": {"data": "aWs", "format": "mp3"}},
            Media(MediaKind.AUDIO, "audio/mpeg", "aWs="),
            id="audio",
        ),
        pytest.param(
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,aWs=", "filename": "a.pdf"}},
            Media(MediaKind.DOCUMENT, "application/pdf", "aWs=", name="a.pdf"),
            id="document",
        ),
        pytest.param(
            {"type": "file", "file": {"file_data": b64encode("né".encode()).decode(), "filename": "a.txt"}},
            Media(MediaKind.DOCUMENT, "text/plain", text="né", name="a.txt"),
            id="document of plain text",
        ),
        pytest.param(
            {
                "type": "file",
                "file": {"file_data": "data:application/x-yaml;base64,YTogMQ==", "filename": "a"},
            },
            Media(MediaKind.DOCUMENT, "application/x-yaml", text="a: 1", name="a"),
            id="document of text of another kind",
        ),
        pytest.param(
            {"type": "document_url", "document_url": "https://a/b.pdf", "document_name": "b.pdf"},
            Media(MediaKind.DOCUMENT, "application/pdf", url="https://a/b.pdf", name="b.pdf"),
            id="document at an address (Mistral)",
        ),
        pytest.param(
            {"type": "document_url", "document_url": "data:text/csv;base64,YSxi"},
            Media(MediaKind.DOCUMENT, "text/csv", text="a,b"),
            id="document in base64 (Mistral)",
        ),
        pytest.param(
            {"type": "file_url", "file_url": {"url": "https://a/b"}, "file_name": "b.docx"},
            Media(
                MediaKind.DOCUMENT,
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                url="https://a/b",
                name="b.docx",
            ),
            id="document at an address (Perplexity)",
        ),
        pytest.param(
            {"type": "file_url", "file_url": {"url": "https://a/b"}},
            Media(MediaKind.DOCUMENT, url="https://a/b"),
            id="document of an unknown kind",
        ),
        pytest.param(
            {"type": "file", "file": {"file_id": "file-1"}},
            Media(MediaKind.DOCUMENT, file_id="file-1"),
            id="uploaded file",
        ),
        pytest.param(
            {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}},
            Media(MediaKind.VIDEO, url="https://a/b.mp4"),
            id="video of a host",
        ),
    ],
)
def test_media_is_understood(part: Json, media: Media) -> None:
    assert turns({"role": "user", "content": [part]}) == (Turn(Role.USER, (media,)),)


def test_media_is_noted_under_the_type_of_its_part() -> None:
    found = parsed(
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1", "filename": "a"}}]}
    )
    assert found.said[Feature.DOCUMENT] == {"messages[].content[file]"}
    assert found.said[Feature.FILE_ID] == {"messages[].content[].file.file_id"}
    assert found.said[Feature.MEDIA_NAME] == {"messages[].content[].file.filename"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "aGVsbG8=", "data:text/plain,hello", "ftp://a/b"])
def test_an_image_that_nobody_could_read_is_refused_at_its_place(url: str) -> None:
    part = {"type": "image_url", "image_url": {"url": url}}
    error = refused({"role": "user", "content": [{"type": "text", "text": "a"}, part]})
    assert error.param == "messages[0].content[1].image_url.url"


def test_a_part_that_nobody_knows_is_refused_by_its_name() -> None:
    assert "'hologram'" in refused({"role": "user", "content": [{"type": "hologram"}]}).message
    assert "'image_url'" in refused({"role": "system", "content": [{"type": "image_url"}]}).message


def test_cache_marks_of_hosts_are_understood_and_those_of_openai_reported() -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    found = parsed(
        {"role": "system", "content": "a", **mark},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "b", **mark},
                {"type": "text", "text": "c", "prompt_cache_breakpoint": {"mode": "explicit"}},
            ],
        },
        tools=[{**TOOL, **mark}],
        prompt_cache_key="k",
    )
    assert found.request.system == (Text("a", CacheMark("1h")),)
    assert found.request.turns[0].parts == (Text("b", CacheMark("1h")), Text("c"))
    assert found.request.tools[0].cache == CacheMark("1h")
    assert found.unread == {"messages[].content[].prompt_cache_breakpoint", "prompt_cache_key"}


def test_an_assistants_message_has_thoughts_then_words_then_calls() -> None:
    message = {
        "role": "assistant",
        "content": "said",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "reasoning_content": "thought",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    }
    found = parsed(HI, message)
    assert found.request.turns[1].parts == (
        Thinking("thought", Signature(Family.OPENAI, "")),
        Text("said"),
        ToolCall("1", "f", '{"a":1}'),
    )
    assert found.said[Feature.THINKING] == {"messages[].reasoning_content"}
    assert not found.unread


def test_a_refusal_is_one_in_either_place() -> None:
    assert turns(HI, {"role": "assistant", "content": None, "refusal": "no"})[1].parts == (Refusal("no"),)
    part = {"type": "refusal", "refusal": "no"}
    assert turns(HI, {"role": "assistant", "content": [part]})[1].parts == (Refusal("no"),)


def test_results_are_turns_of_their_own_and_keep_images() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a"}}
    found = turns(
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "tool", "tool_call_id": "2", "name": "f", "content": [{"type": "text", "text": "b"}, image]},
    )
    picture = Media(MediaKind.IMAGE, url="https://a")
    assert found == (
        Turn(Role.USER, (ToolResult("1", (Text("a"),)),)),
        Turn(Role.USER, (ToolResult("2", (Text("b"), picture), "f"),)),
    )


def test_calls_of_the_deprecated_kind_get_identifiers_that_their_results_share() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "r"}
    found = parsed(HI, call, result, call, result, functions=[{"name": "f"}], function_call={"name": "f"})
    parts = [turn.parts[0] for turn in found.request.turns[1:]]
    ids = [part.id if isinstance(part, ToolCall) else part.call_id for part in parts]  # type: ignore[union-attr]  # calls and results only
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert found.reply_options.legacy_functions
    assert found.request.tools == (Tool("f"),)
    assert found.request.tool_choice == ToolChoice(ToolMode.ANY, ("f",))
    assert found.request.parallel_calls is False


def test_a_tagged_signature_comes_back_with_the_thought_that_it_seals() -> None:
    details = [
        {"type": "reasoning.text", "length": 5, "signature": tag_signature(SEAL), "index": 0},
        {
            "type": "reasoning.encrypted",
            "data": tag_signature(Signature(Family.ANTHROPIC, "x", redacted=True)),
            "index": 1,
        },
        {
            "type": "reasoning.text",
            "text": "two",
            "signature": tag_signature(SEAL),
            "index": 2,
            "offset": 2,
            "calls": 1,
        },
    ]
    calls = [
        {"id": name, "type": "function", "function": {"name": "f", "arguments": ""}} for name in ("1", "2")
    ]
    message = {"role": "assistant", "reasoning_content": "firsttwo", "reasoning_details": details}
    found = turns(HI, {**message, "content": "said", "tool_calls": calls})[1].parts
    assert found == (
        Thinking("first", SEAL),
        Thinking("", Signature(Family.ANTHROPIC, "x", redacted=True)),
        Text("sa"),
        ToolCall("1", "f", ""),
        Thinking("two", SEAL),
        Text("id"),
        ToolCall("2", "f", ""),
    )


def test_an_edited_thought_is_nobodys() -> None:
    details = [{"type": "reasoning.text", "length": 5, "signature": tag_signature(SEAL), "index": 0}]
    for told, left in (("fir", ()), ("", ()), (None, ())):
        message = {"role": "assistant", "reasoning_content": told, "reasoning_details": details}
        assert turns(HI, {**message, "content": "a"})[1].parts == (*left, Text("a"))


def test_a_thought_that_its_client_altered_is_left_out_and_reported() -> None:
    detail = {"type": "reasoning.text", "text": "as it was", "signature": tag_signature(SEAL, "as it was")}
    for told in ("as it was", None, "as it never was"):
        message = {"role": "assistant", "content": "b", "reasoning_content": told}
        kept = parsed(HI, {**message, "reasoning_details": [detail]})
        assert Thinking("as it was", SEAL) in kept.request.turns[1].parts
        assert not kept.unread
    altered = parsed(HI, {**message, "reasoning_details": [{**detail, "text": "as it is now"}]})
    assert Thinking("as it is now", SEAL) not in altered.request.turns[1].parts
    assert altered.unread == {"messages[].reasoning_details"}


def test_a_damaged_tag_leaves_no_thought() -> None:
    details = [
        {"type": "reasoning.text", "text": "a", "signature": tag_signature(SEAL)[:9] + "!", "index": 0}
    ]
    assert turns(HI, {"role": "assistant", "content": "b", "reasoning_details": details})[1].parts == (
        Text("b"),
    )


def test_googles_place_for_signatures_is_read_on_calls_and_on_messages() -> None:
    seal = Signature(Family.GEMINI, "c2ln")
    extra = {"extra_content": {"google": {"thought_signature": tag_signature(seal)}}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, **extra}
    found = turns(HI, {"role": "assistant", "content": "a", "tool_calls": [call], **extra})[1].parts
    assert found == (Text("a", signature=seal), ToolCall("1", "f", "{}", seal))
    raw = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    own = parsed(HI, {"role": "assistant", "content": "a", **raw})
    assert own.request.turns[1].parts == (Text("a"),)
    assert own.unread == {"messages[].extra_content"}


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
    assert "OpenAI's API accepts them unchanged" in error.message


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
    assert (asked.stream, asked.parallel_calls, found.reply_options.include_usage) == (True, False, True)
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


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "king", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].tool_call_id"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"stop": ["a", 1]}, "stop[1]"),
        ({"response_format": {"type": "poem"}}, "response_format.type"),
        ({"reasoning_effort": "enormous"}, "reasoning_effort"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"temperature": "hot"}, "temperature"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_by_its_place(fields: Json, param: str) -> None:
    assert refused(**fields).param == param


RICH: Json = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a", "cache_control": {"type": "x"}}]},
        {
            "role": "user",
            "name": "n",
            "content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "https://a", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "aWs=", "format": "wav"}},
                {"type": "file", "file": {"file_data": "aWs=", "filename": "a.txt"}},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "c"}, {"type": "thinking", "thinking": [{"text": "t"}]}],
            "refusal": "no",
            "reasoning_content": "t",
            "reasoning_details": [
                {"type": "reasoning.text", "text": "t", "signature": "s", "offset": 1, "calls": 1},
                {"type": "reasoning.encrypted", "data": "d"},
            ],
            "images": [{"type": "image_url", "image_url": {"url": "https://a"}}],
            "extra_content": {"google": {"thought_signature": "s"}},
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}
            ],
            "function_call": {"name": "f", "arguments": "{}"},
        },
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]},
        {"role": "function", "name": "f", "content": "r"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "functions": [{"name": "g"}],
    "function_call": {"name": "g"},
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    "reasoning": {"effort": "low", "max_tokens": 5, "exclude": True, "enabled": True},
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "extra_body": {"google": {"thinking_config": {"thinking_budget": 5}}},
    "stop": ["a"],
    "modalities": ["text"],
    "max_tokens": 5,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.sampled_from(places(RICH)[1:]), anything)
def test_any_json_anywhere_is_understood_or_refused(place: tuple[str | int, ...], value: Json) -> None:
    body = copy.deepcopy(RICH)
    inner = body
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        parse_request(json.dumps(body).encode(), RequestContext("m"))
    except GatewayError as error:
        assert error.reason is Reason.MALFORMED  # noqa: PT017 - either outcome is right


def test_the_rich_request_is_understood() -> None:
    found = parse_request(json.dumps(RICH).encode(), RequestContext("m"))
    assert found.unread == {"function_call", "messages[].extra_content"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"null", b"[" * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_request(body, RequestContext("m"))
    assert caught.value.reason is Reason.MALFORMED


def test_thousands_of_thoughts_within_one_text_take_linear_time() -> None:
    def seconds(count: int) -> float:
        details = [{"type": "reasoning.text", "text": "t", "offset": 100 * place} for place in range(count)]
        message = {"role": "assistant", "content": "x" * 100 * count, "reasoning_details": details}
        begun = process_time()
        parts = turns(HI, message)[1].parts
        assert "".join(part.text for part in parts if isinstance(part, Text)) == "x" * 100 * count
        return process_time() - begun

    with no_collector():
        assert seconds(20_000) < 25 * seconds(2_000) + 0.1


def test_thousands_of_calls_of_the_deprecated_kind_take_linear_time() -> None:
    def seconds(count: int) -> float:
        names = [f"f{number}" for number in range(count)]
        calls = [{"role": "assistant", "function_call": {"name": name, "arguments": ""}} for name in names]
        results = [{"role": "function", "name": name, "content": "r"} for name in reversed(names)]
        begun = process_time()
        found = turns(HI, *calls, *results)
        ids = [part.id for turn in found for part in turn.parts if isinstance(part, ToolCall)]
        answered = [part.call_id for turn in found for part in turn.parts if isinstance(part, ToolResult)]
        assert answered == ids[::-1]
        return process_time() - begun

    with no_collector():
        assert seconds(10_000) < 25 * seconds(1_000) + 0.1
