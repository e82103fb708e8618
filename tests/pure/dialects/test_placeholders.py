"""What the gateway itself says in requests is the same in every dialect of providers."""

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
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import DialectName, Kind
from tests.support.said import undelivered

MODELS = {
    DialectName.OPENAI_CHAT: "gpt-4.1",
    DialectName.OPENAI_RESPONSES: "gpt-4.1",
    DialectName.ANTHROPIC: "claude-opus-4-6",
    DialectName.GEMINI: "gemini-2.5-flash",
}
OPENAIS_AND_GOOGLES = [dialect for dialect in MODELS if dialect is not DialectName.ANTHROPIC]
ELSEWHERE = Media(MediaKind.IMAGE, file_id="file_1", context="A cat.")
CALL = ToolCall("1", "f", "{}")


def render(dialect: DialectName, *turns: Turn) -> Rendered:
    row = Models().row(MODELS[dialect], dialect.family)
    setting = RenderOptions(MODELS[dialect], Kind(dialect.family.value), row)
    return provider_side_of(dialect).text.render_request(Conversation(turns), setting)


def user(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def strings(value: Any) -> list[str]:  # Any: JSON
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


def told(dialect: DialectName, *turns: Turn) -> list[str]:
    """All that a request says, in its order."""
    body = json.loads(render(dialect, *turns).body)
    return strings(body.get("messages") or body.get("contents") or body["input"])


def in_order(texts: list[str], said: list[str]) -> bool:
    rest = iter(said)
    return all(text in rest for text in texts)


@pytest.mark.parametrize("dialect", MODELS)
def test_media_that_are_left_out_leave_a_word_in_their_place_and_are_reported(dialect: DialectName) -> None:
    turn = user(Text("Look."), ELSEWHERE, Text("Well?"))
    assert in_order(["Look.", "A cat.", "[image left out]", "Well?"], told(dialect, turn))
    assert render(dialect, turn).lost == {Feature.FILE_ID}


@pytest.mark.parametrize("dialect", MODELS)
def test_a_turn_of_nothing_but_what_is_left_out_still_says_so(dialect: DialectName) -> None:
    assert "[document left out]" in told(dialect, user(Media(MediaKind.DOCUMENT, file_id="file_1")))


@pytest.mark.parametrize("dialect", MODELS)
def test_what_is_left_out_of_a_result_leaves_a_word_in_the_result(dialect: DialectName) -> None:
    turns = (user(Text("go")), Turn(Role.ASSISTANT, (CALL,)), user(ToolResult("1", (ELSEWHERE,))))
    assert any("[image left out]" in text for text in told(dialect, *turns))
    assert ATTACHED not in told(dialect, *turns)


@pytest.mark.parametrize("dialect", MODELS)
def test_a_call_without_a_result_gets_the_same_one(dialect: DialectName) -> None:
    assert NO_RESULT in told(dialect, user(Text("go")), Turn(Role.ASSISTANT, (CALL,)), user(Text("on")))


@pytest.mark.parametrize("dialect", MODELS)
def test_a_result_without_a_call_says_what_it_is_of(dialect: DialectName) -> None:
    assert in_order(["[Result of 9]", "one"], told(dialect, user(ToolResult("9", (Text("one"),)))))
    failed = user(ToolResult("9", (Text("one"),), "f", is_error=True))
    assert in_order(["[Error of f]", "one"], told(dialect, failed))
    assert not render(dialect, failed).lost


@pytest.mark.parametrize("dialect", OPENAIS_AND_GOOGLES)
def test_a_cache_mark_is_reported_once_whatever_bears_it(dialect: DialectName) -> None:
    mark = CacheMark("1h")
    for parts in ((Text("a", mark),), (ToolResult("9", (Text("a"),), cache=mark),)):
        turn = user(*parts)
        assert undelivered(Conversation((turn,)), render(dialect, turn)) == {Feature.CACHE}


@pytest.mark.parametrize("dialect", OPENAIS_AND_GOOGLES)
def test_a_document_that_is_text_is_told_with_its_title_and_context(dialect: DialectName) -> None:
    document = Media(MediaKind.DOCUMENT, text="So be it.", name="Notes", context="A draft.")
    assert "Notes\n\nA draft.\n\nSo be it." in told(dialect, user(document))
    assert not render(dialect, user(document)).lost


@pytest.mark.parametrize("dialect", MODELS)
def test_a_request_that_says_nothing_is_refused(dialect: DialectName) -> None:
    for turns in ((), (user(Text("")),), (Turn(Role.ASSISTANT, ()),)):
        with pytest.raises(GatewayError, match="no message has content"):
            render(dialect, *turns)


@pytest.mark.parametrize("arguments", ["", " ", "null", " null\n"])
@pytest.mark.parametrize("dialect", MODELS)
def test_arguments_that_say_nothing_are_an_empty_object(dialect: DialectName, arguments: str) -> None:
    turns = (user(Text("go")), Turn(Role.ASSISTANT, (ToolCall("1", "f", arguments),)))
    body = render(dialect, *turns).body
    assert any(found in body for found in (b'"arguments":"{}"', b'"input":{}', b'"args":{}'))


@pytest.mark.parametrize("dialect", MODELS)
def test_a_result_goes_to_the_last_call_of_its_identifier_before_it(dialect: DialectName) -> None:
    """The first call of it was never answered; its result is not that of the second."""
    called, answered = Turn(Role.ASSISTANT, (CALL,)), user(ToolResult("1", (Text("found"),)))
    said = told(dialect, user(Text("go")), called, user(Text("again")), called, answered)
    assert in_order([NO_RESULT, "again", "found"], said)
