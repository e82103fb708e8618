"""Requests as a whole, both ways: what is reported, and what a plain one looks like."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from anthropic.types import MessageCreateParams
from anthropic.types.beta import message_create_params as beta_params
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    OutputKind,
    Reasoning,
    Role,
    Sampling,
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
from mgw.dialects.anthropic.request import (
    parse_count_request,
    parse_request,
    render_count_request,
    render_request,
)
from mgw.dialects.dialect import RequestContext
from mgw.dialects.signatures import tag_signature
from mgw.nouns.vocabulary import Effort, Family
from mgw_sim.anthropic.messages import count_tokens
from tests.support.messages import (
    ADAPTIVE,
    EXTENDED,
    LOOK,
    USER,
    asked,
    parse,
    parse_or_refuse,
    refusal,
    render,
    setting,
    text,
    turn,
)
from tests.support.said import undelivered

ASKED = RequestContext("claude")


GEMINIS = Signature(Family.GEMINI, "Zm9v")


PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}


MARK = {"type": "ephemeral", "ttl": "1h"}


RICH: dict[str, Any] = {
    "model": "main/claude",
    "max_tokens": 2048,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"},
        {"type": "text", "text": "Be brief.", "cache_control": MARK},
    ],
    "messages": [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "thinking", "thinking": "", "signature": tag_signature(GEMINIS)},
                {"type": "redacted_thinking", "data": "cmVk"},
                {"type": "text", "text": "I look.", "citations": None},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "look",
                    "input": {"z": 1, "a": [2.5, "é"]},
                    "caller": {"type": "direct"},
                },
                {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "broken"},
                        {"type": "image", "source": PNG},
                        {"type": "tool_reference", "tool_name": "grep"},
                    ],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": PDF, "title": "Paper", "context": "Old."},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "notes"},
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                {
                    "type": "search_result",
                    "title": "T",
                    "source": "https://s",
                    "content": [{"type": "text", "text": "found"}],
                },
            ],
        },
        {"role": "system", "content": [{"type": "text", "text": "Now in French."}]},
    ],
    "tools": [
        {
            "name": "look",
            "description": "Looks.",
            "input_schema": {"type": "object", "properties": {"z": {"type": "integer"}, "a": {}}},
            "strict": True,
            "cache_control": {"type": "ephemeral"},
            "input_examples": [{"z": 1}],
        },
        {"type": "custom", "name": "wait", "input_schema": {"type": "object"}},
    ],
    "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1500, "display": "summarized"},
    "output_config": {"effort": "xhigh", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "stop_sequences": ["END"],
    "metadata": {"user_id": "u-1"},
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "service_tier": "auto",
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
    "mcp_servers": [{"type": "url", "name": "m", "url": "https://m"}],
}


RICH_RESPONSE = (
    Thinking("Hm.", Signature(Family.ANTHROPIC, "c2ln")),
    Thinking("", GEMINIS),
    Thinking("", Signature(Family.ANTHROPIC, "cmVk", redacted=True)),
    Text("I look."),
    ToolCall("toolu_1", "look", '{"z":1,"a":[2.5,"é"]}'),
)
RICH_RESULTS = (
    ToolResult(
        "toolu_1",
        (
            Text("broken"),
            Media(MediaKind.IMAGE, "image/png", data="iVBORw0KGgo="),
            Text("grep"),
        ),
        is_error=True,
        cache=CacheMark(),
    ),
    Media(MediaKind.IMAGE, url="https://example.com/a.png"),
    Media(MediaKind.DOCUMENT, "application/pdf", data="JVBERi0=", name="Paper", context="Old."),
    Media(MediaKind.DOCUMENT, "text/plain", text="notes"),
    Media(MediaKind.DOCUMENT, file_id="file_1"),
    Text("T (https://s)\nfound"),
)


def test_a_rich_request_is_parsed() -> None:
    conversation = parse_request(json.dumps(RICH).encode(), ASKED).request
    assert conversation.system == (Text("Be brief.", CacheMark("1h")),)
    assert [turn.role for turn in conversation.turns] == [Role.USER, Role.ASSISTANT, Role.USER, Role.SYSTEM]
    assert conversation.turns[1].parts == RICH_RESPONSE
    assert conversation.turns[2].parts == RICH_RESULTS
    assert conversation.turns[3] == Turn(Role.SYSTEM, (Text("Now in French."),))
    assert conversation.tools[0] == Tool(
        "look", "Looks.", RICH["tools"][0]["input_schema"], strict=True, cache=CacheMark()
    )
    assert conversation.tool_choice == ToolChoice(ToolMode.ANY, ("look",))
    assert conversation.parallel_calls is False
    assert conversation.reasoning == Reasoning(Effort.XHIGH, 1500, thoughts=True)
    assert conversation.output is not None
    assert conversation.output.kind is OutputKind.SCHEMA
    assert conversation.sampling == Sampling(0.5, 0.9, 40)
    assert (conversation.max_tokens, conversation.stop, conversation.user, conversation.stream) == (
        2048,
        ("END",),
        "u-1",
        True,
    )


def test_what_is_not_understood_is_reported() -> None:
    parsed = parse_request(json.dumps(RICH).encode(), ASKED)
    assert parsed.unread == {
        "system[x-anthropic-billing-header]",
        "service_tier",
        "context_management",
        "mcp_servers",
        "tools[].input_examples",
        "messages[].content[server_tool_use]",
        "messages[].content[].citations",
    }


def test_what_may_yet_be_lost_has_the_clients_own_paths() -> None:
    paths = parse_request(json.dumps(RICH).encode(), ASKED).said
    assert paths[Feature.THINKING] == {
        "messages[].content[thinking]",
        "messages[].content[redacted_thinking]",
    }
    assert paths[Feature.IMAGE] == {"messages[].content[image]", "messages[].content[].content[image]"}
    assert paths[Feature.FILE_ID] == {"messages[].content[].source.file_id"}
    assert paths[Feature.RESULT_ERROR] == {"messages[].content[].is_error"}
    assert paths[Feature.PARALLEL_CALLS] == {"tool_choice.disable_parallel_tool_use"}
    assert paths[Feature.REASONING] == {
        "thinking.type",
        "thinking.budget_tokens",
        "output_config.effort",
    }


def test_everything_that_the_references_first_level_names_is_read_or_reported() -> None:
    of_body = set(typing.get_type_hints(MessageCreateParams.__args__[0])) | set(  # type: ignore[attr-defined]  # a union
        typing.get_type_hints(beta_params.MessageCreateParamsNonStreaming)
    )
    known = {"model", "max_tokens", "messages", "stream", "system", "tools", "tool_choice", "thinking"}
    known |= {"output_config", "stop_sequences", "metadata"}
    rest = sorted(of_body - known - {"thread"})
    parsed = parse(**{name: {"x": 1} if name != "speed" else "fast" for name in rest})
    assert sorted(parsed.unread) == rest


@pytest.mark.parametrize("missing", ["model", "max_tokens", "messages"])
def test_what_the_reference_requires_is_required(missing: str) -> None:
    assert refusal(**{missing: None}).param == missing


def test_a_count_needs_no_max_tokens() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "system": "S"}
    parsed = parse_count_request(json.dumps(body).encode(), ASKED)
    assert parsed.request.max_tokens is None
    assert parsed.request.system == (Text("S"),)


def test_a_thread_that_the_vendor_holds_cannot_be_continued() -> None:
    assert refusal(thread={"type": "continue", "previous_message_id": "msg_1"}).param == "thread"
    assert parse(thread={"type": "create"}).unread == {"thread"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


@given(place=st.sampled_from(places(RICH)), value=JSON)
def test_any_json_in_any_place_is_understood_or_refused(place: tuple[str | int, ...], value: object) -> None:
    whole = json.loads(json.dumps(RICH))
    if place:
        holder = whole
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = value
    else:
        whole = value
    parse_or_refuse(json.dumps(whole).encode())


@pytest.mark.parametrize("depth", [200, 900, 2_000, 100_000])
def test_nesting_without_end_is_refused_or_read(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    body = (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":'
        b'[{"type":"tool_use","id":"t","name":"f","input":%b}]}]}' % deep
    )
    parse_or_refuse(body)


def test_a_plain_request_states_the_version_and_the_default_limit() -> None:
    body, rendered = render(system=(Text("Be brief."),))
    assert body == {
        "model": ADAPTIVE,
        "max_tokens": 8192,
        "system": [text("Be brief.")],
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }
    assert rendered.target == b"/messages"
    assert rendered.headers == ((b"anthropic-version", b"2023-06-01"),)
    assert not rendered.lost


def test_what_this_api_cannot_express_is_reported() -> None:
    conversation = Conversation(
        (replace(turn(USER, "Hi"), name="ann"),),
        candidates=2,
        sampling=Sampling(frequency_penalty=0.0, presence_penalty=1.0, seed=1, logprobs=True, top_logprobs=2),
        stop=("\n", "END"),
        user="ann@example.com",
    )
    assert undelivered(conversation, render_request(conversation, setting(ADAPTIVE))) == {
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


def test_a_count_holds_only_what_the_vendor_counts() -> None:
    conversation = Conversation(
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
    rendered = render_count_request(conversation, setting(EXTENDED))
    body = json.loads(rendered.body)
    count_tokens(asked(rendered))
    assert body.keys() == {"model", "system", "tools", "messages", "thinking"}
    assert rendered.target == b"/messages/count_tokens"
