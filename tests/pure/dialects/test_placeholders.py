"""What the gateway itself says in requests is the same towards every family."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.history import NO_RESULT
from mgw.dialects import provider_side_of
from mgw.dialects.dialect import Rendered, RenderOptions
from mgw.dialects.models import Models
from mgw.dialects.placeholders import ATTACHED
from mgw.errors import GatewayError
from mgw.families import text_dialect
from mgw.vocabulary import Family, Kind
from tests.support.said import undelivered

MODELS = {
    Family.OPENAI: "gpt-4.1",
    Family.ANTHROPIC: "claude-opus-4-6",
    Family.GEMINI: "gemini-2.5-flash",
}
ELSEWHERE = Media(MediaKind.IMAGE, file_id="file_1", context="A cat.")
CALL = ToolCall("1", "f", "{}")


def render(family: Family, *turns: Turn) -> Rendered:
    row = Models().row(MODELS[family], family)
    setting = RenderOptions(MODELS[family], Kind(family.value), row)
    return provider_side_of(text_dialect(family)).text.render_request(Conversation(turns), setting)


def user(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def strings(value: Any) -> list[str]:  # Any: JSON
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


def told(family: Family, *turns: Turn) -> list[str]:
    """All that a request says, in its order."""
    body = json.loads(render(family, *turns).body)
    return strings(body.get("messages") or body.get("contents"))


def in_order(texts: list[str], said: list[str]) -> bool:
    rest = iter(said)
    return all(text in rest for text in texts)


@pytest.mark.parametrize("family", Family)
def test_media_that_are_left_out_leave_a_word_in_their_place_and_are_reported(family: Family) -> None:
    turn = user(Text("Look."), ELSEWHERE, Text("Well?"))
    assert in_order(["Look.", "A cat.", "[image left out]", "Well?"], told(family, turn))
    assert render(family, turn).lost == {Feature.FILE_ID}


@pytest.mark.parametrize("family", Family)
def test_a_turn_of_nothing_but_what_is_left_out_still_says_so(family: Family) -> None:
    assert "[document left out]" in told(family, user(Media(MediaKind.DOCUMENT, file_id="file_1")))


@pytest.mark.parametrize("family", Family)
def test_what_is_left_out_of_a_result_leaves_a_word_in_the_result(family: Family) -> None:
    turns = (user(Text("go")), Turn(Role.ASSISTANT, (CALL,)), user(ToolResult("1", (ELSEWHERE,))))
    assert any("[image left out]" in text for text in told(family, *turns))
    assert ATTACHED not in told(family, *turns)


@pytest.mark.parametrize("family", Family)
def test_a_call_without_a_result_gets_the_same_one(family: Family) -> None:
    assert NO_RESULT in told(family, user(Text("go")), Turn(Role.ASSISTANT, (CALL,)), user(Text("on")))


@pytest.mark.parametrize("family", Family)
def test_a_result_without_a_call_says_what_it_is_of(family: Family) -> None:
    assert in_order(["[Result of 9]", "one"], told(family, user(ToolResult("9", (Text("one"),)))))
    failed = user(ToolResult("9", (Text("one"),), "f", is_error=True))
    assert in_order(["[Error of f]", "one"], told(family, failed))
    assert not render(family, failed).lost


@pytest.mark.parametrize("family", [Family.OPENAI, Family.GEMINI])
def test_a_cache_mark_is_reported_once_whatever_bears_it(family: Family) -> None:
    mark = CacheMark("1h")
    for parts in ((Text("a", mark),), (ToolResult("9", (Text("a"),), cache=mark),)):
        turn = user(*parts)
        assert undelivered(Conversation((turn,)), render(family, turn)) == {Feature.CACHE}


@pytest.mark.parametrize("family", [Family.OPENAI, Family.GEMINI])
def test_a_document_that_is_text_is_told_with_its_title_and_context(family: Family) -> None:
    document = Media(MediaKind.DOCUMENT, text="So be it.", name="Notes", context="A draft.")
    assert "Notes\n\nA draft.\n\nSo be it." in told(family, user(document))
    assert not render(family, user(document)).lost


@pytest.mark.parametrize("family", Family)
def test_a_request_that_says_nothing_is_refused(family: Family) -> None:
    for turns in ((), (user(Text("")),), (Turn(Role.ASSISTANT, ()),)):
        with pytest.raises(GatewayError, match="no message has content"):
            render(family, *turns)


@pytest.mark.parametrize("arguments", ["", " ", "null", " null\n"])
@pytest.mark.parametrize("family", Family)
def test_arguments_that_say_nothing_are_an_empty_object(family: Family, arguments: str) -> None:
    turns = (user(Text("go")), Turn(Role.ASSISTANT, (ToolCall("1", "f", arguments),)))
    body = render(family, *turns).body
    assert any(found in body for found in (b'"arguments":"{}"', b'"input":{}', b'"args":{}'))


@pytest.mark.parametrize("family", Family)
def test_a_result_goes_to_the_last_call_of_its_identifier_before_it(family: Family) -> None:
    """The first call of it was never answered; its result is not that of the second."""
    called, answered = Turn(Role.ASSISTANT, (CALL,)), user(ToolResult("1", (Text("found"),)))
    said = told(family, user(Text("go")), called, user(Text("again")), called, answered)
    assert in_order([NO_RESULT, "again", "found"], said)
