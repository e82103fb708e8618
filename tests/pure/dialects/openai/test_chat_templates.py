"""Messages for hosts of open models come in an order that no chat template refuses.

The simulator's strict template, which knows nothing of this code, is the judge.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Part,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.models import Models
from mgw.dialects.responses.request import render_request as render_for_responses
from mgw.nouns.vocabulary import CallIds, ChatTemplate, Family, Kind
from mgw_sim.openai.chat_templates import check_template
from tests.support.chat_requests import HI, HOST, OPENAI, PNG, Json, asked, lost, rendered, said

OPEN = replace(HOST, chat_template=ChatTemplate.OPEN)
MISTRAL = replace(HOST, row=replace(HOST.row, call_ids=CallIds.NINE))
NO_SYSTEM = replace(HOST, row=replace(HOST.row, system=False))
SYSTEM = (Text("S"),)
JSON_MODE = OutputFormat(OutputKind.JSON)
CALL = ToolCall("toolu_1", "f", "{}")
RESULT = ToolResult("toolu_1", (Text("r"),))
OWN = Signature(Family.OPENAI, "")
FOREIGN = Signature(Family.ANTHROPIC, "sig")


def late(*texts: str) -> Turn:
    return Turn(Role.SYSTEM, tuple(map(Text, texts)))


def messages(*turns: Turn, setting: RenderOptions = HOST, system: tuple[Text, ...] = SYSTEM) -> Json:
    return rendered(Conversation(turns, system), setting)["messages"]


def spoken(*turns: Turn, setting: RenderOptions = HOST) -> list[tuple[str, Any]]:
    return [(one["role"], one["content"]) for one in messages(*turns, setting=setting)]


def test_a_later_instruction_is_text_of_the_user_at_that_point() -> None:
    assert spoken(HI, late("late"), said(Text("a")), asked(Text("bye"))) == [
        ("system", "S"),
        ("user", "hi\n\nlate"),
        ("assistant", "a"),
        ("user", "bye"),
    ]


def test_a_later_instruction_behind_a_result_is_a_message_of_the_user() -> None:
    found = spoken(HI, said(CALL), asked(RESULT), late("late"), asked(Text("go")))
    assert found == [
        ("system", "S"),
        ("user", "hi"),
        ("assistant", None),
        ("tool", "r"),
        ("user", "late\n\ngo"),
    ]


def test_a_later_instruction_between_a_call_and_its_result_comes_behind_them() -> None:
    found = spoken(HI, said(CALL), late("late"), asked(RESULT))
    assert found == [("system", "S"), ("user", "hi"), ("assistant", None), ("tool", "r"), ("user", "late")]


def test_neighbours_of_one_role_are_one_message() -> None:
    found = spoken(HI, asked(Text("there")), said(Text("a")), said(Text("b"), CALL), asked(RESULT))
    assert found[1:] == [("user", "hi\n\nthere"), ("assistant", "a\n\nb"), ("tool", "r")]


def test_neighbours_are_parts_where_one_of_them_has_an_image() -> None:
    ((_, content),) = spoken(HI, asked(PNG), late("late"))[1:]
    assert [part["type"] for part in content] == ["text", "image_url", "text"]


def test_results_of_one_message_stay_apart() -> None:
    other = ToolCall("toolu_2", "f", "{}")
    answers = asked(RESULT, ToolResult("toolu_2", (Text("s"),)))
    assert [role for role, _ in spoken(HI, said(CALL, other), answers)] == [
        "system", "user", "assistant", "tool", "tool",
    ]  # fmt: skip


def test_neighbours_keep_their_own_thoughts() -> None:
    first, second = said(Thinking("x", OWN), Text("a")), said(Thinking("y", OWN), Text("b"), CALL)
    message = messages(HI, first, second, asked(RESULT))[2]
    assert message["reasoning_content"] == "x\n\ny"
    assert message["content"] == "a\n\nb"
    assert len(message["tool_calls"]) == 1


@pytest.mark.parametrize("signature", [OWN, FOREIGN], ids=["own", "foreign"])
def test_a_turn_of_thoughts_alone_vanishes_and_its_neighbours_are_joined(signature: Signature) -> None:
    thoughts = said(Thinking("hm", signature))
    assert spoken(HI, thoughts, asked(Text("there"))) == [("system", "S"), ("user", "hi\n\nthere")]
    assert lost(Conversation((HI, thoughts, HI)), HOST) == {Feature.THINKING}


def test_a_history_that_begins_with_the_assistant_gets_a_user_before_it() -> None:
    assert spoken(said(Text("a")), HI)[1:] == [("user", "…"), ("assistant", "a"), ("user", "hi")]


def test_names_of_different_participants_are_reported_where_their_messages_are_joined() -> None:
    alice, bob = replace(HI, name="alice"), replace(HI, name="bob")
    assert messages(alice, late("x"))[1]["name"] == "alice"
    assert "name" not in messages(alice, bob)[1]
    assert lost(Conversation((alice, bob)), HOST) == {Feature.TURN_NAME}


@pytest.mark.parametrize("setting", [OPEN, OPENAI, replace(OPENAI, kind=Kind.AZURE_OPENAI)], ids=str)
def test_open_hosts_and_openais_own_models_get_messages_as_they_are(setting: RenderOptions) -> None:
    found = spoken(said(Text("a")), HI, HI, late("late"), HI, setting=setting)
    assert [role for role, _ in found] == ["system", "assistant", "user", "user", "system", "user"]


def test_ids_of_calls_are_nine_letters_and_digits_for_mistrals_models() -> None:
    kept = ToolCall("AbCdEf123", "f", "{}")
    turns = (HI, said(CALL, kept), asked(RESULT, ToolResult("AbCdEf123", (Text("s"),))))
    found = messages(*turns, setting=MISTRAL)
    ids = [call["id"] for call in found[2]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in found[3:]]
    assert re.fullmatch("[a-zA-Z0-9]{9}", ids[0])
    assert ids[1] == "AbCdEf123"
    assert messages(*turns, setting=MISTRAL) == found  # the same in every turn
    as_they_are = ["toolu_1", "AbCdEf123"]
    for setting in (
        HOST,
        replace(MISTRAL, chat_template=ChatTemplate.OPEN),
        replace(OPENAI, row=MISTRAL.row),
    ):
        assert [call["id"] for call in messages(*turns, setting=setting)[2]["tool_calls"]] == as_they_are


@pytest.mark.parametrize(
    "model",
    [
        "mistral-large-latest",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "ministral-8b",
        "codestral-latest",
        "devstral-small:24b",
        "magistral-medium",
    ],
)
def test_mistrals_models_are_known_by_their_names(model: str) -> None:
    assert Models(()).row(model, Family.OPENAI).call_ids is CallIds.NINE
    assert Models(()).row("qwen3.6-27b", Family.OPENAI).call_ids is CallIds.ANY


def test_a_model_without_system_messages_gets_instructions_as_text_of_the_first_user_turn() -> None:
    found = spoken(HI, late("late"), said(Text("a")), asked(Text("bye")), setting=NO_SYSTEM)
    assert found == [("user", "S\n\nhi\n\nlate"), ("assistant", "a"), ("user", "bye")]
    assert spoken(HI, setting=NO_SYSTEM) == [("user", "S\n\nhi")]
    assert spoken(said(Text("a")), setting=NO_SYSTEM) == [("user", "S"), ("assistant", "a")]
    assert messages(HI, setting=NO_SYSTEM, system=()) == [{"role": "user", "content": "hi"}]


def test_hosts_that_are_asked_through_responses_get_no_later_instructions_either() -> None:
    conversation = Conversation((HI, late("late"), said(Text("a")), HI), SYSTEM)

    def roles(setting: RenderOptions) -> list[str]:
        return [item["role"] for item in _decoded(render_for_responses(conversation, setting).body)["input"]]

    assert roles(HOST) == ["user", "assistant", "user"]
    assert roles(OPEN) == ["user", "developer", "assistant", "user"]
    assert roles(OPENAI) == ["user", "developer", "assistant", "user"]
    body = _decoded(render_for_responses(conversation, NO_SYSTEM).body)
    assert "instructions" not in body
    assert body["input"][0]["content"][0]["text"] == "S"


def test_hosts_that_are_asked_through_responses_get_the_order_and_the_ids_of_their_templates() -> None:
    def items(setting: RenderOptions) -> Json:
        turns = (said(CALL), asked(RESULT), asked(Text("a")), asked(PNG), late("b"))
        return _decoded(render_for_responses(Conversation(turns), setting).body)["input"]

    begin, call, result, user = items(MISTRAL)
    assert begin["content"] == [{"type": "input_text", "text": "…"}]
    assert re.fullmatch("[a-zA-Z0-9]{9}", call["call_id"])
    assert result["call_id"] == call["call_id"]
    assert [part["type"] for part in user["content"]] == ["input_text", "input_image", "input_text"]
    assert items(HOST)[1]["call_id"] == "toolu_1"
    assert len(items(OPENAI)) == len(items(replace(MISTRAL, chat_template=ChatTemplate.OPEN))) == 5
    assert items(OPENAI)[0]["call_id"] == "toolu_1"


def test_the_wish_for_json_stands_among_the_instructions() -> None:
    def spoken_of(setting: RenderOptions, *system: Text) -> list[tuple[str, Any]]:
        found = rendered(Conversation((HI,), system, output=JSON_MODE), setting)
        assert found["response_format"] == {"type": "json_object"}
        return [(one["role"], one["content"]) for one in found["messages"]]

    wish = "Answer with a JSON object."
    assert spoken_of(HOST, *SYSTEM) == [("system", f"S\n\n{wish}"), ("user", "hi")]
    assert spoken_of(HOST) == [("system", wish), ("user", "hi")]
    assert spoken_of(HOST, Text("In JSON.")) == [("system", "In JSON."), ("user", "hi")]
    assert spoken_of(NO_SYSTEM, *SYSTEM) == [("user", f"S\n\n{wish}\n\nhi")]
    assert spoken_of(replace(NO_SYSTEM, chat_template=ChatTemplate.OPEN)) == [("user", f"{wish}\n\nhi")]
    assert spoken_of(OPENAI, *SYSTEM) == [("system", wish), ("system", "S"), ("user", "hi")]


@pytest.mark.parametrize("output", [JSON_MODE, OutputFormat(OutputKind.SCHEMA)], ids=["mode", "no schema"])
def test_the_wish_for_json_is_no_item_of_the_developers_at_hosts_with_templates(output: OutputFormat) -> None:
    def body_of(setting: RenderOptions) -> Json:
        return _decoded(render_for_responses(Conversation((HI,), SYSTEM, output=output), setting).body)

    body = body_of(HOST)
    assert body["instructions"] == "S\n\nAnswer with a JSON object."
    assert [item["role"] for item in body["input"]] == ["user"]
    assert [item["role"] for item in body_of(OPENAI)["input"]] == ["developer", "user"]  # OpenAI looks there
    assert [item["role"] for item in body_of(NO_SYSTEM)["input"]] == ["user"]


def _decoded(body: bytes) -> Json:
    return json.loads(body)


texts = st.sampled_from(["", "one", "two"]).map(Text)
pictures = st.just(PNG) | st.just(Media(MediaKind.DOCUMENT, "text/plain", text="words"))
thoughts = st.builds(Thinking, st.sampled_from(["", "hm"]), st.sampled_from([OWN, FOREIGN]))
identifiers = st.sampled_from(["a", "b", "toolu_01", "AbCdEf123"])
calls = st.builds(ToolCall, identifiers, st.just("f"), st.just("{}"))
results = st.builds(ToolResult, identifiers, st.lists(texts | pictures, max_size=2).map(tuple))


def turn(role: Role, parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Turn]:
    return st.lists(parts, max_size=3).map(lambda found: Turn(role, tuple(found)))


turns = (
    turn(Role.USER, texts | pictures | results)
    | turn(Role.ASSISTANT, texts | pictures | calls | thoughts | st.just(Refusal("no")))
    | turn(Role.SYSTEM, texts)
)


@pytest.mark.parametrize("setting", [HOST, MISTRAL, NO_SYSTEM], ids=["host", "mistral", "no system"])
@given(
    history=st.lists(turns, max_size=8),
    system=st.sampled_from([(), SYSTEM]),
    output=st.sampled_from([None, JSON_MODE]),
)
def test_no_history_is_refused_by_a_strict_template(
    setting: RenderOptions, history: list[Turn], system: tuple[Text, ...], output: OutputFormat | None
) -> None:
    conversation = Conversation((*history, HI), system, output=output)  # whoever asks says something
    model = "mistral" if setting is MISTRAL else "qwen"
    check_template(model, rendered(conversation, setting)["messages"])
