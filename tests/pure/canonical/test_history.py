"""The order of a history, under every policy: laws that no family's renderer can break."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    JsonObject,
    Media,
    MediaKind,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.history import (
    BEGIN,
    CONTINUE,
    NO_RESULT,
    HistoryMessage,
    HistoryPolicy,
    HistoryTurn,
    PairedCall,
    SystemTurns,
    pair_calls,
    render_history,
)

IDS = re.compile(r"[a-z]{1,3}|call_[0-9a-f]+")
POLICIES = {
    f"{'alternating' if alternates else 'free'}, system {system.name}, {'closed' if closed else 'open'}": (
        HistoryPolicy(IDS, alternates, system, begins_with_user=closed, ends_with_user=closed)
    )
    for alternates in (True, False)
    for system in SystemTurns
    for closed in (True, False)
}


class Plain:
    """Writes each part as one block, and moves the media of the assistant's turns and of results."""

    def render_text(self, text: str) -> JsonObject:
        return {"text": text}

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        return self._blocks(turn)

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        return self._blocks(turn)

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        blocks = self._blocks(turn)
        return [block for block in blocks if "media" not in block], [b for b in blocks if "media" in b]

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        if call.result is None:
            return [{"result": call.id, "text": NO_RESULT}], []
        media = [{"media": part.name} for part in call.result.parts if isinstance(part, Media)]
        texts = [part.text for part in call.result.parts if isinstance(part, Text)]
        return [{"result": call.id, "text": "".join(texts)}], media

    def _blocks(self, turn: HistoryTurn) -> list[JsonObject]:
        found: list[JsonObject] = []
        for part in turn.parts:
            if isinstance(part, PairedCall):
                found.append({"call": part.id, "name": part.part.name})
            elif isinstance(part, Media):
                found.append({"media": part.name})
            elif isinstance(part, Text) and part.text:
                found.append({"text": part.text})
        return found


def under_every_policy(history: list[Turn]) -> Iterator[tuple[HistoryPolicy, list[HistoryMessage]]]:
    """Yield a history as each policy has it: to draw one takes far longer than to render it."""
    for name, policy in POLICIES.items():
        note(name)
        yield policy, rendered(history, policy)


def rendered(turns: list[Turn], policy: HistoryPolicy) -> list[HistoryMessage]:
    return render_history(pair_calls(turns, policy.call_ids), policy, Plain())


texts = st.sampled_from(["", "one", "two"]).map(Text)
pictures = st.integers(0, 99).map(
    lambda number: Media(MediaKind.IMAGE, url="https://x.test/", name=str(number))
)
identifiers = st.sampled_from(["a", "b", "not legal"])
calls = st.builds(ToolCall, identifiers, st.sampled_from(["f", "g"]), st.just("{}"))
results = st.builds(ToolResult, identifiers, st.lists(texts | pictures, max_size=2).map(tuple))


def turn(role: Role, parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Turn]:
    return st.lists(parts, max_size=3).map(lambda found: Turn(role, tuple(found)))


turns = (
    turn(Role.USER, texts | pictures | results)
    | turn(Role.ASSISTANT, texts | pictures | calls)
    | turn(Role.SYSTEM, texts)
)
histories = st.lists(turns, max_size=8)


@given(history=histories)
def test_every_call_has_one_result_directly_behind_it(history: list[Turn]) -> None:
    for policy, messages in under_every_policy(history):
        due: list[str] = []
        for message in messages:
            for block in message.blocks:
                if "result" in block:
                    assert due, "a result stands behind its call"
                    assert due.pop(0) == block["result"], "in the order of the calls"
                elif "call" not in block:
                    assert not due or message.role is Role.ASSISTANT, (
                        "nothing comes between a call and its result"
                    )
            if message.role is Role.ASSISTANT:
                assert not due or policy.alternates
                due += [block["call"] for block in message.blocks if "call" in block]
                assert len(due) == len(set(due))
        assert not due


@given(history=histories)
def test_nothing_that_was_said_is_lost(history: list[Turn]) -> None:
    """Every picture arrives once, whoever showed it, and so does every call."""

    def pictures_in(parts: tuple[Part, ...]) -> list[str | None]:
        found = [part.name for part in parts if isinstance(part, Media)]
        return found + [
            name for part in parts if isinstance(part, ToolResult) for name in pictures_in(part.parts)
        ]

    shown = sorted(str(name) for one in history for name in pictures_in(one.parts))
    called = [part.name for one in history for part in one.parts if isinstance(part, ToolCall)]
    for _, messages in under_every_policy(history):
        blocks = [block for message in messages for block in message.blocks]
        assert sorted(block["media"] for block in blocks if "media" in block) == shown
        assert [block["name"] for block in blocks if "call" in block] == called


@given(history=histories)
def test_roles_alternate_where_they_have_to(history: list[Turn]) -> None:
    for policy, messages in under_every_policy(history):
        roles = [message.role for message in messages]
        if policy.alternates:
            assert all(one is not other for one, other in pairwise(roles))
        if policy.system_turns is SystemTurns.AS_USER:
            assert Role.SYSTEM not in roles
        if policy.system_turns is SystemTurns.AFTER_USER and policy.alternates:
            for before, role, after in zip([None, *roles], roles, [*roles[1:], None], strict=False):
                assert role is not Role.SYSTEM or (before is Role.USER and after in {Role.ASSISTANT, None})
        if policy.begins_with_user and Role.ASSISTANT in roles:
            assert roles[0] is not Role.ASSISTANT
        if policy.ends_with_user and roles:
            assert roles[-1] is not Role.ASSISTANT
        assert all(message.blocks for message in messages)


def test_the_user_opens_and_closes_a_history_of_the_assistant_alone() -> None:
    policy = HistoryPolicy(IDS, True, SystemTurns.AS_USER, begins_with_user=True, ends_with_user=True)
    messages = rendered([Turn(Role.ASSISTANT, (Text("hello"),))], policy)
    assert [block["text"] for message in messages for block in message.blocks] == [BEGIN, "hello", CONTINUE]


def test_a_result_without_its_call_is_text_of_the_user() -> None:
    result = ToolResult("a", (Text("rain"),), "weather", is_error=True)
    messages = rendered([Turn(Role.USER, (result,))], POLICIES["free, system ANYWHERE, open"])
    assert messages[0].blocks == [{"text": "[Error of weather]"}, {"text": "rain"}]


def test_an_identifier_that_is_used_again_becomes_another() -> None:
    history = [
        Turn(Role.ASSISTANT, (ToolCall("a", "f", "{}"),)),
        Turn(Role.USER, (ToolResult("a", (Text("first"),)),)),
        Turn(Role.ASSISTANT, (ToolCall("a", "f", "{}"),)),
        Turn(Role.USER, (ToolResult("a", (Text("second"),)),)),
    ]
    first, second = (call for one in pair_calls(history, IDS) for call in one.calls)
    assert first.id == "a" != second.id
    assert [call.result and call.result.parts for call in (first, second)] == [
        (Text("first"),),
        (Text("second"),),
    ]
