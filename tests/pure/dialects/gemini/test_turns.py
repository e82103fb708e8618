"""Turns as contents that Google takes."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
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
from mgw.dialects.dialect import RenderOptions, RequestContext
from mgw.dialects.gemini import CLIENT, PROVIDER
from mgw.dialects.signatures import SKIP_VALIDATOR
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind
from mgw_sim.gemini.conversation import check_request
from mgw_sim.gemini.fields import GENERATE, validate
from tests.support.said import undelivered

Json = dict[str, Any]
LAX: Final = ModelRow("*", Family.GEMINI, "x")
STRICT: Final = ModelRow("*", Family.GEMINI, "x", signatures=True, prefill=False)
OWN: Final = Signature(Family.GEMINI, "c2ln")
FOREIGN: Final = Signature(Family.ANTHROPIC, "c2ln")
IMAGE: Final = Media(MediaKind.IMAGE, "image/png", data="AAAA")


def user(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def assistant(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def result(call_id: str, *parts: Text | Media, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, parts, is_error=is_error)


def render(*turns: Turn, row: ModelRow = LAX) -> tuple[list[Json], frozenset[Feature]]:
    found = PROVIDER.text.render_request(Conversation(turns), RenderOptions("m", Kind.GEMINI, row))
    return json.loads(found.body)["contents"], undelivered(Conversation(turns), found)


def contents_of(*turns: Turn, row: ModelRow = LAX) -> list[Json]:
    return render(*turns, row=row)[0]


def texts_of(*turns: Turn, row: ModelRow = LAX) -> list[tuple[str, list[str]]]:
    """Contents in short."""
    return [(one["role"], [brief(part) for part in one["parts"]]) for one in contents_of(*turns, row=row)]


def brief(part: Json) -> str:
    signed = (
        "!" if part.get("thoughtSignature") == SKIP_VALIDATOR else "+" if "thoughtSignature" in part else ""
    )
    if "functionCall" in part:
        return f"call {part['functionCall']['id']}{signed}"
    if "functionResponse" in part:
        response = part["functionResponse"]
        return f"answer {response['id']} {response['name']} {next(iter(response['response'].values()), '')}"
    if "text" in part:
        thought = "thought " if part.get("thought") else ""
        return f"{thought}{part['text']}{signed}"
    return next(iter(part))


def test_turns_of_one_side_are_one_content() -> None:
    assert texts_of(
        user(Text("a")), user(Text(""), Text("b")), assistant(Text("c")), assistant(Refusal("d"))
    ) == [
        ("user", ["a", "b"]),
        ("model", ["c", "d"]),
    ]


def test_instructions_in_the_middle_keep_their_place_as_the_users() -> None:
    system = Turn(Role.SYSTEM, (Text("now"),))
    assert texts_of(user(Text("a")), assistant(Text("b")), system, user(Text("c"))) == [
        ("user", ["a"]),
        ("model", ["b"]),
        ("user", ["now", "c"]),
    ]


def test_answers_follow_their_calls_in_the_order_of_the_calls() -> None:
    calls = (ToolCall("1", "f", "{}"), ToolCall("2", "g", '{"a": 1}'), Text("so"))
    assert texts_of(
        user(Text("a")),
        assistant(*calls),
        user(Text("wait"), result("2", Text("two"))),
        user(result("1", Text("one")), Text("done")),
    ) == [
        ("user", ["a"]),
        ("model", ["call 1", "call 2", "so"]),
        ("user", ["answer 1 f one", "answer 2 g two", "wait", "done"]),
    ]


def test_an_answer_that_came_turns_later_goes_back_to_its_call() -> None:
    call = ToolCall("1", "f", "{}")
    assert texts_of(
        user(Text("a")),
        assistant(call),
        user(Text("b")),
        assistant(Text("c")),
        user(result("1", Text("one"))),
    ) == [
        ("user", ["a"]),
        ("model", ["call 1"]),
        ("user", ["answer 1 f one", "b"]),
        ("model", ["c"]),
    ]


def test_a_call_without_an_answer_gets_one_that_says_so() -> None:
    calls = (ToolCall("1", "f", "{}"), ToolCall("2", "f", "{}"))
    expected = ["answer 1 f one", "answer 2 f No result was recorded for this call."]
    assert texts_of(user(Text("a")), assistant(*calls), user(result("1", Text("one")))) == [
        ("user", ["a"]),
        ("model", ["call 1", "call 2"]),
        ("user", expected),
    ]
    assert texts_of(user(Text("a")), assistant(calls[1]))[-1] == ("user", expected[1:])


def test_an_answer_whose_call_is_gone_is_text() -> None:
    found, lost = render(user(Text("a"), result("9", Text("nine"), IMAGE, is_error=True)))
    assert found == [
        {
            "role": "user",
            "parts": [
                {"text": "a"},
                {"text": "[Error of 9]"},
                {"text": "nine"},
                {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            ],
        }
    ]
    assert not lost


def test_calls_of_one_identifier_get_an_own_one_each() -> None:
    call = ToolCall("1", "f", "{}")
    turns = (user(Text("a")), assistant(call, call), user(result("1", Text("x")), result("1", Text("y"))))
    found = texts_of(*turns)
    first, second = (text.removeprefix("call ") for text in found[1][1])
    assert first == "1" != second
    assert found[2] == ("user", ["answer 1 f x", f"answer {second} f y"])
    assert texts_of(*turns) == found


def test_a_history_that_begins_with_the_model_gets_a_users_turn_before() -> None:
    assert [role for role, _ in texts_of(assistant(Text("Hi")), user(Text("a")))] == ["user", "model", "user"]


def test_a_request_does_not_end_with_the_model_where_that_is_refused() -> None:
    turns = (user(Text("a")), assistant(Text("The answer is")))
    assert [role for role, _ in texts_of(*turns)] == ["user", "model"]
    assert [role for role, _ in texts_of(*turns, row=STRICT)] == ["user", "model", "user"]


# What tools gave back -------------------------------------------------------------------------------------


def response_of(*parts: Text | Media, is_error: bool = False) -> list[Any]:
    call = ToolCall("1", "f", "{}")
    last = contents_of(user(Text("a")), assistant(call), user(result("1", *parts, is_error=is_error)))[-1]
    first, *rest = last["parts"]
    return [first["functionResponse"]["response"], *rest]


def test_a_result_that_is_an_object_goes_as_that_object() -> None:
    assert response_of(Text(' {"z": 1.0, "a": {}}')) == [{"z": 1.0, "a": {}}]


def test_a_result_that_is_other_text_goes_under_a_key() -> None:
    for text in ("text", "[1]", '{"a":', "", "{" * 5000):
        assert response_of(Text(text)) == [{"result": text}]
    assert response_of(Text("a"), Text("b")) == [{"result": "a\n\nb"}]
    assert response_of() == [{"result": ""}]


def test_an_error_goes_under_its_own_key() -> None:
    assert response_of(Text('{"a": 1}'), is_error=True) == [{"error": '{"a": 1}'}]


def test_the_bytes_of_a_result_are_not_touched() -> None:
    text = '{"b" :  1e2,\n"a":"\\u00e9" }'
    turns = (assistant(ToolCall("1", "f", text)), user(result("1", Text(text))))
    found = PROVIDER.text.render_request(Conversation(turns), RenderOptions("m", Kind.GEMINI, LAX))
    assert found.body.count(text.encode()) == 2


def test_media_of_results_stand_behind_all_answers() -> None:
    calls = (ToolCall("1", "f", "{}"), ToolCall("2", "f", "{}"))
    assert texts_of(
        user(Text("a")),
        assistant(*calls),
        user(result("1", IMAGE), result("2", Text("two"), IMAGE), Text("see")),
    )[-1] == (
        "user",
        ["answer 1 f The result is attached below.", "answer 2 f two", "inlineData", "inlineData", "see"],
    )


def test_arguments_that_are_no_object_stand_under_a_key() -> None:
    def args_of(text: str) -> Any:
        return contents_of(user(Text("a")), assistant(ToolCall("1", "f", text)))[1]["parts"][0][
            "functionCall"
        ]["args"]

    assert args_of("") == {}
    assert args_of('{"a": 1}') == {"a": 1}
    assert args_of('{"a": ') == {"arguments": '{"a": '}
    assert args_of("[1]") == {"arguments": "[1]"}


# Thoughts -------------------------------------------------------------------------------------------------


def test_own_signatures_go_back_to_where_they_were() -> None:
    found = contents_of(
        user(Text("a")),
        assistant(
            Thinking("Hm.", OWN),
            Text("b", signature=OWN),
            ToolCall("1", "f", "{}", OWN),
            Text("", signature=OWN),
        ),
    )
    assert [part.get("thoughtSignature") for part in found[1]["parts"]] == ["c2ln"] * 4
    assert found[1]["parts"][0] == {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}


def test_thoughts_and_signatures_of_others_stay_away() -> None:
    found, lost = render(
        user(Text("a")),
        assistant(
            Thinking("Hm.", FOREIGN),
            Thinking("Oh."),
            Text("b", signature=FOREIGN),
            ToolCall("1", "f", "{}", FOREIGN),
        ),
    )
    assert found[1]["parts"] == [
        {"text": "b"},
        {"functionCall": {"id": "1", "name": "f", "args": {}}},
    ]
    assert lost == {Feature.THINKING}


def test_a_signature_beside_the_thought_before_a_call_is_the_calls() -> None:
    call = ToolCall("1", "f", "{}")
    for text, expected in (("", []), ("Hm.", ["thought Hm."])):
        found = texts_of(user(Text("a")), assistant(Text("b"), Thinking(text, OWN), call))
        assert found[1] == ("model", ["b", *expected, "call 1+"])


def test_a_signed_call_leaves_the_thought_its_own_signature() -> None:
    call = ToolCall("1", "f", "{}", Signature(Family.GEMINI, "eHg="))
    found = contents_of(user(Text("a")), assistant(Thinking("Hm.", OWN), call))
    assert [part["thoughtSignature"] for part in found[1]["parts"]] == ["c2ln", "eHg="]


def test_the_first_call_of_each_step_of_the_running_turn_skips_the_check() -> None:
    def step(number: int, signature: Signature | None = None) -> tuple[Turn, Turn]:
        calls = (ToolCall(f"{number}a", "f", "{}", signature), ToolCall(f"{number}b", "f", "{}"))
        return assistant(*calls), user(result(f"{number}a"), result(f"{number}b"))

    turns = (
        user(Text("a")),
        *step(1),
        assistant(Text("so")),
        user(Text("b")),
        *step(2),
        *step(3, OWN),
        *step(4, FOREIGN),
    )
    calls = [text for _, parts in texts_of(*turns, row=STRICT) for text in parts if text.startswith("call")]
    assert calls == [
        *("call 1a", "call 1b"),
        *("call 2a!", "call 2b"),
        *("call 3a+", "call 3b"),
        *("call 4a!", "call 4b"),
    ]
    assert not any("!" in text for _, parts in texts_of(*turns) for text in parts)


# Whatever comes -------------------------------------------------------------------------------------------

IDS: Final = st.sampled_from(["1", "2", "3"])
SIGNATURES: Final = st.sampled_from([None, FOREIGN, Signature(Family.GEMINI, "")])
TEXTS: Final = st.builds(Text, st.sampled_from(["", "a", "b"]))
ARGUMENTS: Final = st.sampled_from(["{}", "", "{"])
TURNS: Final = st.lists(
    st.one_of(
        st.builds(
            Turn,
            st.just(Role.USER),
            st.lists(
                TEXTS | st.builds(ToolResult, IDS, st.lists(TEXTS | st.just(IMAGE), max_size=2).map(tuple)),
                max_size=3,
            ).map(tuple),
        ),
        st.builds(
            Turn,
            st.just(Role.ASSISTANT),
            st.lists(
                TEXTS
                | st.builds(
                    ToolCall, IDS, st.sampled_from("fg"), st.sampled_from(["{}", "", "{"]), SIGNATURES
                )
                | st.builds(Thinking, st.sampled_from(["", "hm"]), SIGNATURES),
                max_size=3,
            ).map(tuple),
        ),
        st.builds(Turn, st.just(Role.SYSTEM), st.tuples(TEXTS)),
    ),
    max_size=7,
)


@settings(deadline=None)
@given(turns=TURNS)
def test_whatever_the_history_an_independent_provider_takes_it(turns: list[Turn]) -> None:
    turns = [user(Text("begin")), *turns]
    found = PROVIDER.text.render_request(Conversation(tuple(turns)), RenderOptions("m", Kind.GEMINI, STRICT))
    body = validate(json.loads(found.body), GENERATE, lenient=False)
    check_request(body, signed=True)
    assert body["contents"][-1]["role"] == "user"
    assert all(
        one["role"] != two["role"] for one, two in zip(body["contents"], body["contents"][1:], strict=False)
    )


@settings(deadline=None)
@given(turns=TURNS)
def test_a_history_that_was_rendered_is_parsed_and_rendered_the_same(turns: list[Turn]) -> None:
    setting = RenderOptions("m", Kind.GEMINI, LAX)
    conversation = Conversation((user(Text("begin")), *turns))
    bodies: list[bytes] = []
    for _ in range(3):
        bodies.append(PROVIDER.text.render_request(conversation, setting).body)
        conversation = CLIENT.text.parse_request(bodies[-1], RequestContext("m")).request
    assert bodies[1] == bodies[2]  # neighbouring texts have become one by then
