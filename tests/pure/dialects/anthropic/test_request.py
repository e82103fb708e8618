"""What the reader of requests keeps to."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from anthropic.types import ContentBlockParam, MessageCreateParams, ToolParam
from anthropic.types.beta import BetaContentBlockParam
from anthropic.types.beta import message_create_params as beta_params
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

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
from mgw.dialects.anthropic.request import parse_count_request, parse_request
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.signatures import tagged
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Effort, Family

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
                {"type": "thinking", "thinking": "", "signature": tagged(GEMINIS)},
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


def read(**changes: object) -> Parsed[Conversation]:
    """A request of one message, with these fields in addition or instead."""
    whole = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **changes}
    return parse_request(json.dumps(whole).encode(), ASKED)


def test_an_empty_stop_sequence_is_none() -> None:
    assert read(stop_sequences=["", "END"]).request.stop == ("END",)
    assert read(stop_sequences=[""]).request == read().request


def refusal(**changes: object) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        read(**changes)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def attempt(body: bytes) -> Parsed[Conversation] | GatewayError:
    """What is read, or the refusal; nothing else may happen."""
    found: Parsed[Conversation] | GatewayError
    try:
        found = parse_request(body, ASKED)
    except GatewayError as error:
        found = error
    assert isinstance(found, Parsed) or found.reason is Reason.MALFORMED
    return found


def test_a_rich_request_is_understood() -> None:
    said = parse_request(json.dumps(RICH).encode(), ASKED).request
    assert said.system == (Text("Be brief.", CacheMark("1h")),)
    assert [turn.role for turn in said.turns] == [Role.USER, Role.ASSISTANT, Role.USER, Role.SYSTEM]
    assert said.turns[1].parts == (
        Thinking("Hm.", Signature(Family.ANTHROPIC, "c2ln")),
        Thinking("", GEMINIS),
        Thinking("", Signature(Family.ANTHROPIC, "cmVk", redacted=True)),
        Text("I look."),
        ToolCall("toolu_1", "look", '{"z":1,"a":[2.5,"é"]}'),
    )
    assert said.turns[2].parts == (
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
    assert said.turns[3] == Turn(Role.SYSTEM, (Text("Now in French."),))
    assert said.tools[0] == Tool(
        "look", "Looks.", RICH["tools"][0]["input_schema"], strict=True, cache=CacheMark()
    )
    assert said.tool_choice == ToolChoice(ToolMode.ANY, ("look",))
    assert said.parallel_calls is False
    assert said.reasoning == Reasoning(Effort.XHIGH, 1500, thoughts=True)
    assert said.output is not None
    assert said.output.kind is OutputKind.SCHEMA
    assert said.sampling == Sampling(0.5, 0.9, 40)
    assert (said.max_tokens, said.stop, said.user, said.stream) == (2048, ("END",), "u-1", True)


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
    parsed = read(**{name: {"x": 1} if name != "speed" else "fast" for name in rest})
    assert sorted(parsed.unread) == rest


def test_every_field_of_a_tool_is_read_or_reported() -> None:
    fields = set(typing.get_type_hints(ToolParam)) - {"type", "cache_control", "strict"}
    tool = {name: {} if name == "input_schema" else "x" for name in fields}
    reported = {f"tools[].{name}" for name in fields - {"name", "description", "input_schema"}}
    assert read(tools=[tool]).unread == reported


def kinds_of(hint: Any) -> set[str]:  # Any: a union of typed dicts and models, perhaps annotated
    if typing.get_args(hint):
        return {kind for one in typing.get_args(hint) for kind in kinds_of(one)}
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return set(typing.get_args(hint.model_fields["type"].annotation))
    return set(typing.get_args(typing.get_type_hints(hint)["type"])) if typing.is_typeddict(hint) else set()


@pytest.mark.parametrize("kind", sorted(kinds_of(ContentBlockParam) | kinds_of(BetaContentBlockParam)))
def test_every_block_that_the_reference_names_is_known(kind: str) -> None:
    for role in ("user", "assistant"):
        body = {"model": "m", "max_tokens": 1, "messages": [{"role": role, "content": [{"type": kind}]}]}
        found = attempt(json.dumps(body).encode())
        if isinstance(found, GatewayError):  # something is missing, or it is the other role's
            assert "none of" not in found.message
        else:
            assert found.unread == {f"messages[].content[{kind}]"}


def test_a_block_that_nobody_knows_is_refused_by_its_name() -> None:
    error = refusal(messages=[{"role": "user", "content": [{"type": "hologram"}]}])
    assert "hologram" in error.message
    assert error.param == "messages[0].content[0].type"


@pytest.mark.parametrize(
    "kind", ["bash_20250124", "computer_toolset_20260801", "web_search_20260318", "mcp_toolset", "memory"]
)
def test_a_tool_that_is_no_function_is_refused_by_its_type(kind: str) -> None:
    error = refusal(tools=[{"type": kind, "name": "its_name"}])
    assert kind in error.message
    assert "'its_name'" in error.message
    assert "own family" in error.message
    assert error.param == "tools[0].type"


def test_a_limit_that_only_warms_a_cache_is_refused() -> None:
    assert refusal(max_tokens=0).param == "max_tokens"


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice(ToolMode.AUTO), None),
        ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice(ToolMode.ANY), True),
        ({"type": "none"}, ToolChoice(ToolMode.NONE), None),
    ],
    ids=["auto", "any", "none"],
)
def test_the_choice_of_tools_is_understood(
    choice: dict[str, object], expected: ToolChoice, parallel: bool | None
) -> None:
    said = read(tool_choice=choice, tools=[{"name": "f", "input_schema": {}}]).request
    assert (said.tool_choice, said.parallel_calls) == (expected, parallel)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Reasoning(adaptive=True, thoughts=False)),
        ({"thinking": {"type": "disabled"}}, Reasoning(budget=0)),
        ({"thinking": {"type": "between_tools"}}, Reasoning(budget=0)),
        ({"output_config": {"effort": "low"}}, Reasoning(Effort.LOW)),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            Reasoning(Effort.MAX, adaptive=True),
        ),
    ],
    ids=["adaptive", "disabled", "between tools", "effort", "both"],
)
def test_thinking_is_understood(fields: dict[str, object], expected: Reasoning) -> None:
    assert read(**fields).request.reasoning == expected


def test_the_old_name_of_the_output_format_is_understood() -> None:
    schema = {"type": "object"}
    said = read(output_format={"type": "json_schema", "schema": schema})
    assert said.request.output is not None
    assert said.request.output.schema == schema
    assert said.said[Feature.OUTPUT] == {"output_format.schema"}


def test_leading_system_messages_are_instructions() -> None:
    said = read(
        system="One.",
        messages=[{"role": "system", "content": "Two."}, {"role": "user", "content": "Hi"}],
    ).request
    assert said.system == (Text("One."), Text("Two."))
    assert len(said.turns) == 1


def test_a_reminder_for_one_turn_is_gone_in_the_next() -> None:
    reminder = {"role": "system", "content": "Hurry.", "clear_at": "next_user_message"}
    first, answer, second = (
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3"},
    )
    shown = read(messages=[first, reminder]).request.turns
    assert [turn.role for turn in shown] == [Role.USER, Role.SYSTEM]
    cleared = read(messages=[first, reminder, answer, second]).request.turns
    assert [turn.role for turn in cleared] == [Role.USER, Role.ASSISTANT, Role.USER]


def test_a_document_of_texts_is_one_and_a_document_with_images_is_its_parts() -> None:
    texts = {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    block = {"type": "document", "source": texts, "title": "T"}
    part = read(messages=[{"role": "user", "content": [block]}]).request.turns[0].parts
    assert part == (Media(MediaKind.DOCUMENT, "text/plain", text="a\nb", name="T"),)
    texts["content"].append({"type": "image", "source": PNG})  # type: ignore[attr-defined]  # a list
    parts = read(messages=[{"role": "user", "content": [block]}]).request.turns[0].parts
    assert parts == (
        Text("T"),
        Text("a"),
        Text("b"),
        Media(MediaKind.IMAGE, "image/png", data="iVBORw0KGgo="),
    )


def test_the_vendors_summary_of_a_compacted_conversation_is_kept() -> None:
    block = {"type": "compaction", "content": "They spoke of bees.", "signature": "s"}
    parsed = read(messages=[{"role": "assistant", "content": [block]}, {"role": "user", "content": "And?"}])
    assert parsed.request.turns[0].parts == (Text("They spoke of bees.\n\n"),)


def test_a_thread_that_the_vendor_holds_cannot_be_continued() -> None:
    assert refusal(thread={"type": "continue", "previous_message_id": "msg_1"}).param == "thread"
    assert read(thread={"type": "create"}).unread == {"thread"}


@pytest.mark.parametrize("missing", ["model", "max_tokens", "messages"])
def test_what_the_reference_requires_is_required(missing: str) -> None:
    assert refusal(**{missing: None}).param == missing


def test_a_count_needs_no_limit_of_the_answer() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "system": "S"}
    parsed = parse_count_request(json.dumps(body).encode(), ASKED)
    assert parsed.request.max_tokens is None
    assert parsed.request.system == (Text("S"),)


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("user", {"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        ("user", {"type": "thinking", "thinking": "", "signature": "s"}),
        ("assistant", {"type": "tool_result", "tool_use_id": "t"}),
        ("system", {"type": "image", "source": PNG}),
    ],
    ids=["call", "thought", "result", "image"],
)
def test_a_block_in_a_message_of_the_wrong_role_is_refused(role: str, block: dict[str, object]) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": role, "content": [block]}]
    assert refusal(messages=messages).param == "messages[1].content[0].type"


def test_a_damaged_signature_leaves_its_thought_out() -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": tagged(GEMINIS)[:9]}
    parsed = read(messages=[{"role": "assistant", "content": [block, {"type": "text", "text": "x"}]}])
    assert parsed.request.turns[0].parts == (Text("x"),)
    assert parsed.unread == {"messages[].content[thinking]"}


def test_a_thought_that_its_client_altered_is_left_out_and_reported() -> None:
    def thought(words: str) -> dict[str, str]:
        return {"type": "thinking", "thinking": words, "signature": tagged(GEMINIS, "Hm.")}

    kept = read(messages=[{"role": "assistant", "content": [thought("Hm.")]}])
    assert kept.request.turns[0].parts == (Thinking("Hm.", GEMINIS),)
    assert not kept.unread
    for words in ("Hm. ", "", "Other."):
        altered = read(messages=[{"role": "assistant", "content": [thought(words)]}])
        assert altered.request.turns[0].parts == ()
        assert altered.unread == {"messages[].content[thinking]"}


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
    attempt(json.dumps(whole).encode())


@pytest.mark.parametrize("depth", [200, 900, 2_000, 100_000])
def test_nesting_without_end_is_refused_or_read(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    body = (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":'
        b'[{"type":"tool_use","id":"t","name":"f","input":%b}]}]}' % deep
    )
    attempt(body)


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_compaction_is_a_paragraph_of_its_own(role: str) -> None:
    blocks = [{"type": "compaction", "content": "We spoke."}, {"type": "text", "text": "And now?"}]
    parsed = read(messages=[{"role": role, "content": blocks}])
    assert parsed.request.turns[0].parts == (Text("We spoke.\n\n"), Text("And now?"))
    assert not parsed.unread


BILLED = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;"


@pytest.mark.parametrize(
    ("system", "kept"),
    [
        (BILLED, ()),
        (BILLED + "\n\nBe brief.", (Text("Be brief."),)),
        ([{"type": "text", "text": BILLED}], ()),
        ([{"type": "text", "text": BILLED}, {"type": "text", "text": "Be brief."}], (Text("Be brief."),)),
        (
            [{"type": "text", "text": BILLED + "\nBe brief.", "cache_control": {"type": "ephemeral"}}],
            (Text("Be brief.", CacheMark()),),
        ),
    ],
)
def test_what_claude_code_is_billed_by_is_left_out_and_reported(system: Any, kept: tuple[Text, ...]) -> None:
    parsed = read(system=system, messages=[{"role": "user", "content": BILLED}])
    assert parsed.request.system == kept
    assert parsed.unread == {"system[x-anthropic-billing-header]"}
    assert parsed.request.turns[0].parts == (Text(BILLED),)
