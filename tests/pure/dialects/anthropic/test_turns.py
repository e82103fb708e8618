"""What a rendered history keeps to: turns, calls and their results, instructions, thoughts."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Conversation,
    Reasoning,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.request import render_request
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Effort, Family
from mgw_sim.anthropic.messages import messages as answer_of
from tests.support.messages import (
    ADAPTIVE,
    ASSISTANT,
    EXTENDED,
    FOREIGN,
    NEWEST,
    OWN,
    PNG,
    REDACTED,
    SYSTEM,
    USER,
    asked,
    call,
    loop,
    messages,
    parse,
    render,
    result,
    setting,
    text,
    turn,
)


def test_leading_system_messages_are_instructions() -> None:
    parsed = parse(
        system="One.",
        messages=[{"role": "system", "content": "Two."}, {"role": "user", "content": "Hi"}],
    ).request
    assert parsed.system == (Text("One."), Text("Two."))
    assert len(parsed.turns) == 1


def test_a_reminder_for_one_turn_is_gone_in_the_next() -> None:
    reminder = {"role": "system", "content": "Hurry.", "clear_at": "next_user_message"}
    first, answer, second = (
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3"},
    )
    shown = parse(messages=[first, reminder]).request.turns
    assert [turn.role for turn in shown] == [Role.USER, Role.SYSTEM]
    cleared = parse(messages=[first, reminder, answer, second]).request.turns
    assert [turn.role for turn in cleared] == [Role.USER, Role.ASSISTANT, Role.USER]


def test_neighbours_of_one_role_are_one_turn_and_blank_texts_vanish() -> None:
    assert messages(
        turn(USER, "a", "", "\n"), turn(USER, "b"), turn(ASSISTANT, ""), turn(USER), turn(USER, "c")
    ) == [("user", [text("a"), text("b"), text("c")])]


def test_results_stand_first_after_their_calls_in_the_order_of_these() -> None:
    rendered = messages(
        turn(USER, "go"),
        turn(ASSISTANT, "I look.", call("1"), call("2")),
        turn(USER, "wait", result("2", "two")),
        turn(ASSISTANT, "Fine."),
        turn(USER, result("1", "one"), "and now?"),
    )
    assert [role for role, _ in rendered] == ["user", "assistant", "user", "assistant", "user"]
    assert [block.get("tool_use_id") for block in rendered[2][1]] == ["1", "2", None]
    assert [block["content"] for block in rendered[2][1][:2]] == ["one", "two"]
    assert rendered[2][1][2] == text("wait")
    assert rendered[4][1] == [text("and now?")]


def test_a_call_without_a_result_gets_one() -> None:
    for later in ((), (turn(USER, "never mind"),)):
        rendered = messages(turn(USER, "go"), turn(ASSISTANT, call("1")), *later)
        assert rendered[2][1][0] == {
            "type": "tool_result",
            "tool_use_id": "1",
            "content": "No result was recorded for this call.",
            "is_error": True,
        }


def test_a_history_ends_with_the_assistant_only_where_the_model_goes_on_from_there() -> None:
    turns = (turn(USER, "go"), turn(ASSISTANT, "The answer is "))
    assert messages(*turns, model=EXTENDED)[-1] == ("assistant", [text("The answer is")])
    assert messages(*turns, model=ADAPTIVE)[1:] == [
        ("assistant", [text("The answer is ")]),
        ("user", [text("Go on from exactly where you stopped.")]),
    ]


def test_a_result_without_its_call_is_text_of_the_user() -> None:
    assert messages(turn(USER, result("9", "lost", PNG), "go")) == [
        (
            "user",
            [
                text("[Result of 9]"),
                text("lost"),
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG.data},
                },
                text("go"),
            ],
        )
    ]


def test_an_identifier_used_twice_becomes_two_and_each_call_gets_its_own_result() -> None:
    rendered = messages(
        turn(USER, "go"),
        turn(ASSISTANT, call("a b")),
        turn(USER, result("a b", "first")),
        turn(ASSISTANT, call("a b")),
        turn(USER, result("a b", "second")),
    )
    ids = [rendered[place][1][0]["id"] for place in (1, 3)]
    assert ids[0] != ids[1]
    for place, (call_id, content) in zip((2, 4), zip(ids, ("first", "second"), strict=True), strict=True):
        assert rendered[place][1][0]["tool_use_id"] == call_id
        assert rendered[place][1][0]["content"] == content


def test_two_calls_of_one_identifier_in_one_turn_get_their_results_in_order() -> None:
    rendered = messages(
        turn(USER, "go"),
        turn(ASSISTANT, call("1"), call("1")),
        turn(USER, result("1", "a"), result("1", "b")),
    )
    calls, results = rendered[1][1], rendered[2][1]
    assert [block["tool_use_id"] for block in results] == [block["id"] for block in calls]
    assert [block["content"] for block in results] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"z": 1,  "a": 1.50}', '{"z": 1,  "a": 1.50}'),
        ("", "{}"),
        (" \n", "{}"),
        ('{"half', '{"arguments":"{\\"half"}'),
        ("[1]", '{"arguments":"[1]"}'),
    ],
    ids=["kept", "empty", "blank", "cut", "no object"],
)
def test_arguments_go_as_an_object_byte_for_byte(arguments: str, expected: str) -> None:
    conversation = Conversation((turn(USER, "go"), turn(ASSISTANT, call("1", arguments))))
    rendered = render_request(conversation, setting(ADAPTIVE))
    assert f'"input":{expected}'.encode() in rendered.body


def test_results_carry_images_and_errors() -> None:
    rendered = messages(
        turn(USER, "go"),
        turn(ASSISTANT, call("1"), call("2"), call("3")),
        turn(
            USER,
            ToolResult("1", (Text("see"), PNG), is_error=True),
            ToolResult("2", ()),
            result("3", Text("", cache=None)),
        ),
    )
    first, second, third = rendered[2][1]
    assert first["is_error"] is True
    assert [block["type"] for block in first["content"]] == ["text", "image"]
    assert "content" not in second
    assert "content" not in third


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("us", ["user", "system"]),
        ("usau", ["user", "system", "assistant", "user"]),
        ("ussau", ["user", "system", "assistant", "user"]),
        ("usu", ["user"]),
        ("uasu", ["user", "assistant", "user"]),
        ("uas", ["user", "assistant", "user"]),
        ("asau", ["assistant", "user", "assistant", "user"]),
    ],
)
def test_a_system_message_stands_where_the_vendor_takes_it(roles: str, expected: list[str]) -> None:
    kinds = {"u": USER, "s": SYSTEM, "a": ASSISTANT}
    turns = [turn(kinds[letter], f"{letter}{place}") for place, letter in enumerate(roles)]
    rendered = messages(*turns, model=NEWEST)
    assert [role for role, _ in rendered] == expected
    texts = [block["text"] for _, content in rendered for block in content]
    assert texts == [f"{letter}{place}" for place, letter in enumerate(roles)]


def test_a_system_message_between_a_call_and_its_result_follows_the_result() -> None:
    turns = (
        turn(USER, "go"),
        turn(ASSISTANT, call("1")),
        turn(SYSTEM, "Hurry."),
        turn(USER, result("1", "x")),
    )
    assert [role for role, _ in messages(*turns, model=NEWEST)] == ["user", "assistant", "user", "system"]
    old = messages(*turns, model=EXTENDED)
    assert [block["type"] for block in old[2][1]] == ["tool_result", "text"]


def test_instructions_alone_are_the_message_of_the_user() -> None:
    body = json.loads(render_request(Conversation((), (Text("Say hi."),)), setting(ADAPTIVE)).body)
    assert body["messages"] == [{"role": "user", "content": [text("Say hi.")]}]
    assert "system" not in body


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(GatewayError) as caught:
        render_request(Conversation((turn(USER, " "),)), setting(ADAPTIVE))
    assert caught.value.reason is Reason.MALFORMED


def test_a_prefill_ends_without_white_space() -> None:
    rendered = messages(turn(USER, "go"), turn(ASSISTANT, "Well, \n"), model=EXTENDED)
    assert rendered[1] == ("assistant", [text("Well,")])


def test_a_prefill_goes_without_thinking() -> None:
    begun = (turn(USER, "go"), turn(ASSISTANT, "Well"))
    body, rendered = render(*begun, model=EXTENDED, reasoning=Reasoning(budget=2048), max_tokens=4096)
    assert "thinking" not in body
    assert rendered.lost == {Feature.REASONING}


def test_own_thoughts_go_back_in_their_places_and_those_of_others_do_not() -> None:
    body, rendered = render(
        turn(USER, "go"),
        turn(
            ASSISTANT,
            Thinking("Hm.", OWN),
            Thinking("", Signature(Family.ANTHROPIC, REDACTED, redacted=True)),
            Thinking("Ach.", FOREIGN),
            Thinking("", Signature(Family.ANTHROPIC, "")),
            "I look.",
            ToolCall("1", "look", "{}", FOREIGN),
        ),
        turn(USER, result("1", "x")),
        reasoning=Reasoning(Effort.HIGH),
    )
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
    ]
    assert body["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Hm.",
        "signature": OWN.value,
    }
    assert rendered.lost == {Feature.THINKING}


def test_a_turn_does_not_end_with_a_thought() -> None:
    body, rendered = render(turn(USER, "go"), turn(ASSISTANT, "Well", Thinking("Hm.", OWN)), turn(USER, "?"))
    assert body["messages"][1]["content"] == [text("Well")]
    assert rendered.lost == {Feature.THINKING}


def test_thinking_is_off_where_the_turn_in_progress_was_begun_without() -> None:
    asked = Reasoning(budget=2048)
    body, rendered = render(*loop(), model=EXTENDED, reasoning=asked, max_tokens=4096)
    assert "thinking" not in body
    assert rendered.lost == {Feature.REASONING}
    body, rendered = render(*loop(Thinking("Hm.", OWN)), model=EXTENDED, reasoning=asked, max_tokens=4096)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert not rendered.lost
    body, rendered = render(*loop(), model=ADAPTIVE, reasoning=asked, max_tokens=4096)
    assert body["thinking"]["type"] == "adaptive"
    assert not rendered.lost


def test_a_later_step_of_a_turn_needs_no_thought_of_its_own() -> None:
    begun = loop(Thinking("Hm.", OWN))
    conversation = Conversation(
        (*begun, turn(ASSISTANT, call("2")), turn(USER, result("2", "y"))),
        reasoning=Reasoning(budget=2048),
        max_tokens=4096,
    )
    rendered = render_request(conversation, setting(EXTENDED))
    assert json.loads(rendered.body)["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert not rendered.lost


def test_a_turn_in_progress_goes_without_its_thoughts_where_thinking_is_off() -> None:
    past = (turn(USER, "first"), turn(ASSISTANT, Thinking("Hm.", OWN), "done"))
    body, rendered = render(*past, *loop(Thinking("Hm.", OWN)), model=EXTENDED)
    kinds = [[block["type"] for block in message["content"]] for message in body["messages"]]
    assert kinds == [["text"], ["thinking", "text"], ["text"], ["tool_use"], ["tool_result"]]
    assert rendered.lost == {Feature.THINKING}


def test_a_refusal_in_history_is_text() -> None:
    assert messages(turn(USER, "x"), turn(ASSISTANT, Refusal("No.")), turn(USER, "y"))[1] == (
        "assistant",
        [text("No.")],
    )


BINDING = {"prefix_mismatch_behavior": "drop_block"}


BETA = (b"anthropic-beta", b"thinking-binding-controls-2026-08-01")


@pytest.mark.parametrize(
    "reasoning",
    [Reasoning(), Reasoning(Effort.HIGH), Reasoning(adaptive=True)],
    ids=["unsaid", "high", "own"],
)
def test_thoughts_of_a_changed_conversation_are_dropped_by_models_that_would_refuse_them(
    reasoning: Reasoning,
) -> None:
    turns = loop(Thinking("Hm.", OWN))
    body, rendered = render(*turns, model=NEWEST, reasoning=reasoning)
    assert body["thinking"]["type"] == "adaptive"
    assert body["thinking"]["block_binding"] == BINDING
    assert BETA in rendered.headers
    assert rendered.thoughts


def test_the_request_is_silent_about_thoughts_where_there_are_none_or_the_model_binds_none() -> None:
    for model, turns in ((NEWEST, loop()), (ADAPTIVE, loop(Thinking("Hm.", OWN)))):
        body, rendered = render(*turns, model=model, reasoning=Reasoning(adaptive=True))
        assert "block_binding" not in body["thinking"]
        assert BETA not in rendered.headers


def test_a_request_that_does_not_think_cannot_say_what_becomes_of_thoughts() -> None:
    turns = (turn(USER, "a"), turn(ASSISTANT, Thinking("Hm.", OWN), "b"), turn(USER, "c"))
    body, rendered = render(*turns, model="claude-haiku-5-5", reasoning=Reasoning(Effort.NONE))
    assert body["thinking"] == {"type": "disabled"}
    assert BETA not in rendered.headers


@pytest.mark.parametrize("model", [NEWEST, ADAPTIVE, EXTENDED])
def test_thoughts_that_were_refused_are_left_out_and_reported(model: str) -> None:
    conversation = Conversation(loop(Thinking("Hm.", OWN)), reasoning=Reasoning(Effort.HIGH))
    rendered = render_request(conversation, replace(setting(model), thoughts=False))
    assert b"thinking_" not in rendered.body
    assert b"signature" not in rendered.body
    assert b"block_binding" not in rendered.body
    assert Feature.THINKING in rendered.lost
    assert not rendered.thoughts
    answer_of(asked(rendered))
