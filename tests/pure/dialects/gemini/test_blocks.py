"""The parts of a client's contents: calls and their results, thoughts and responses kept in pieces."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Conversation,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.gemini import CLIENT
from mgw.dialects.signatures import SKIP_VALIDATOR, tag_signature
from mgw.nouns.vocabulary import Family

Json = dict[str, Any]
CONTEXT: Final = RequestContext("m")
UNSIGNED: Final = Signature(Family.GEMINI, "")


def parse(body: Json, context: RequestContext = CONTEXT) -> Parsed[Conversation]:
    return CLIENT.text.parse_request(json.dumps(body).encode(), context)


def conversation_of(*contents: Json, **fields: Any) -> Conversation:
    return parse({"contents": list(contents), **fields}).request


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": list(parts)}


def call(name: str, call_id: str | None = None, **args: Any) -> Json:
    found = {"name": name, "args": args}
    return {"functionCall": found if call_id is None else {"id": call_id, **found}}


def response(name: str, text: str, call_id: str | None = None) -> Json:
    found = {"name": name, "response": {"result": text}}
    return {"functionResponse": found if call_id is None else {"id": call_id, **found}}


def calls_of(conversation: Conversation) -> list[ToolCall]:
    return [part for turn in conversation.turns for part in turn.parts if isinstance(part, ToolCall)]


def results_of(conversation: Conversation) -> list[ToolResult]:
    return [part for turn in conversation.turns for part in turn.parts if isinstance(part, ToolResult)]


TURNS: Final = st.lists(
    st.tuples(st.lists(st.sampled_from("fg"), max_size=3), st.lists(st.booleans(), min_size=3, max_size=3)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(turns=TURNS, more=TURNS)
def test_made_identifiers_stay_when_turns_are_appended(turns: Any, more: Any) -> None:
    def history(turns: Any) -> list[Json]:
        contents: list[Json] = []
        for names, answered in turns:
            contents += [user({"text": "x"}), model({"text": "y"}, *[call(name) for name in names])]
            contents += [user(*[response(n, "r") for n, ok in zip(names, answered, strict=False) if ok])]
        return contents

    before = conversation_of(*history(turns))
    after = conversation_of(*history(turns + more))
    identifiers = [one.id for one in calls_of(after)]
    assert identifiers[: len(calls_of(before))] == [one.id for one in calls_of(before)]
    assert len(set(identifiers)) == len(identifiers)


def test_results_without_identifiers_answer_by_name_and_order() -> None:
    found = conversation_of(
        user({"text": "x"}),
        model(call("f", a=1), call("g"), call("f", a=2)),
        user(response("f", "one"), response("f", "two"), response("g", "three")),
    )
    first, second, third = (one.id for one in calls_of(found))
    assert [one.call_id for one in results_of(found)] == [first, third, second]


def test_results_with_identifiers_answer_out_of_order() -> None:
    found = conversation_of(
        user({"text": "x"}),
        model(call("f", "a"), call("f", "b")),
        user(response("f", "two", "b"), response("f", "one")),
    )
    assert [one.call_id for one in results_of(found)] == ["b", "a"]


def test_a_result_that_answers_nothing_is_an_orphan() -> None:
    found = conversation_of(
        model(call("f", "a")), user(response("f", "1"), response("f", "2"), response("g", "3", "z"))
    )
    first, second, third = (one.call_id for one in results_of(found))
    assert first == "a"
    assert second not in {"a", third}
    assert third == "z"


@pytest.mark.parametrize(
    ("response_", "text", "is_error"),
    [
        ({"result": "a"}, "a", False),
        ({"output": "a"}, "a", False),
        ({"error": "a"}, "a", True),
        ({"error": {"code": 1}}, '{"code":1}', True),
        ({"result": [1, 2]}, '{"result":[1,2]}', False),
        ({"z": 1, "a": 2}, '{"z":1,"a":2}', False),
        ({"error": None}, '{"error":null}', False),
        ({}, "{}", False),
    ],
)
def test_a_response_is_text(response_: Json, text: str, is_error: bool) -> None:
    part = {"functionResponse": {"name": "f", "response": response_}}
    result = results_of(conversation_of(model(call("f")), user(part)))[0]
    assert (result.parts, result.is_error) == ((Text(text),), is_error)


def test_arguments_keep_the_order_of_their_keys() -> None:
    assert calls_of(conversation_of(model(call("f", z=1, a=[1.0]))))[0].arguments == '{"z":1,"a":[1.0]}'


FOREIGN: Final = Signature(Family.ANTHROPIC, "c2ln")
REDACTED: Final = Signature(Family.ANTHROPIC, "c2ln", redacted=True)


def test_an_answer_kept_in_pieces_is_one_turn_of_whole_parts() -> None:
    pieces: list[Json] = [
        {"text": "Let me ", "thought": True},
        {"text": "see.", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": tag_signature(FOREIGN)},
        {"text": "", "thought": True, "thoughtSignature": tag_signature(REDACTED)},
        {"text": "It "},
        {"text": "is."},
        call("f", "a"),
        {"text": ""},
    ]
    found = conversation_of(user({"text": "x"}), *[model(piece) for piece in pieces], user({"text": "y"}))
    assert found.turns[1:] == (
        Turn(
            Role.ASSISTANT,
            (
                Thinking("Let me see.", FOREIGN),
                Thinking("", REDACTED),
                Text("It is."),
                ToolCall("a", "f", "{}"),
            ),
        ),
        Turn(Role.USER, (Text("y"),)),
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["text", "thought", "signed"]), st.text("ab", max_size=3))))
def test_pieces_give_the_same_turn_however_they_are_spread_over_contents(pieces: Any) -> None:
    parts = [
        {
            "text": text,
            **({"thought": True} if kind != "text" else {}),
            **({"thoughtSignature": tag_signature(FOREIGN)} if kind == "signed" else {}),
        }
        for kind, text in pieces
    ]
    whole = conversation_of(user({"text": "x"}), model(*parts))
    spread = conversation_of(user({"text": "x"}), *[model(part) for part in parts])
    assert whole == spread
    spoken = [part for turn in whole.turns[1:] for part in turn.parts]
    assert "".join(part.text for part in spoken if isinstance(part, Text | Thinking)) == "".join(
        text for _, text in pieces
    )


def test_a_thought_that_nobody_signed_is_googles_own() -> None:
    found = conversation_of(model({"text": "Hm.", "thought": True}, call("f", "a")))
    assert found.turns[0].parts[0] == Thinking("Hm.", UNSIGNED)


@pytest.mark.parametrize("value", [SKIP_VALIDATOR, "context_engineering_is_the_way_to_go", ""])
def test_what_stands_in_place_of_a_signature_is_none(value: str) -> None:
    part = {**call("f", "a"), "thoughtSignature": value}
    assert calls_of(conversation_of(model(part)))[0].signature is None


def test_a_signature_of_another_family_is_that_familys() -> None:
    foreign = Signature(Family.OPENAI, "++//")
    part = {**call("f", "a"), "thoughtSignature": tag_signature(foreign).replace("+", "-").replace("/", "_")}
    assert calls_of(conversation_of(model(part)))[0].signature == foreign


CARRIED: Final = Signature(Family.ANTHROPIC, "++//")


def thought(text: str, signature_text: str) -> Json:
    return {
        "text": text,
        "thought": True,
        "thoughtSignature": signature_text.replace("+", "-").replace("/", "_"),
    }


@pytest.mark.parametrize("text", ["", "Hm."])
def test_a_signature_that_a_call_carries_is_that_of_the_thought_before_it(text: str) -> None:
    signed = tag_signature(CARRIED, text)
    found = parse(
        {"contents": [model(thought(text, signed), {**call("f", "a"), "thoughtSignature": signed})]}
    )
    assert found.request.turns[0].parts == (
        Thinking(text, CARRIED),
        ToolCall("a", "f", "{}"),
    )
    assert not found.unread


@pytest.mark.parametrize("signature", [CARRIED, REDACTED], ids=["without words", "redacted"])
def test_a_thought_that_is_all_signature_comes_back_from_its_call(signature: Signature) -> None:
    second = {**call("g", "b"), "thoughtSignature": tag_signature(signature, "")}
    found = conversation_of(model(call("f", "a"), {"text": "Let me look."}, second))
    assert found.turns[0].parts == (
        ToolCall("a", "f", "{}"),
        Thinking("", signature),
        Text("Let me look."),
        ToolCall("b", "g", "{}"),
    )


def test_a_thought_whose_words_the_client_has_dropped_is_reported() -> None:
    found = parse(
        {"contents": [model({**call("f", "a"), "thoughtSignature": tag_signature(CARRIED, "Hm.")})]}
    )
    assert found.request.turns[0].parts == (ToolCall("a", "f", "{}"),)
    assert found.unread == {"contents[].parts[].thoughtSignature"}


@pytest.mark.parametrize("pieces", [("Hm. Oh.",), ("Hm.", " Oh."), ("Hm.", " Oh.", "")])
def test_a_thought_that_the_client_has_not_altered_is_kept(pieces: tuple[str, ...]) -> None:
    *before, last = pieces
    parts = [{"text": text, "thought": True} for text in before]
    found = parse({"contents": [model(*parts, thought(last, tag_signature(CARRIED, "Hm. Oh.")))]})
    assert found.request.turns[0].parts == (Thinking("Hm. Oh.", CARRIED),)
    assert not found.unread


def test_a_thought_that_the_client_has_altered_is_left_out_and_reported() -> None:
    found = parse({"contents": [model(thought("Ha.", tag_signature(CARRIED, "Hm.")), {"text": "a"})]})
    assert found.request.turns[0].parts == (Text("a"),)
    assert found.unread == {"contents[].parts[thought]"}


def test_a_signature_behind_a_text_signs_that_text() -> None:
    found = conversation_of(
        model({"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}, {"thoughtSignature": "eHg="})
    )
    assert found.turns[0].parts == (
        Text("a", signature=Signature(Family.GEMINI, "c2ln")),
        Text("", signature=Signature(Family.GEMINI, "eHg=")),
    )
