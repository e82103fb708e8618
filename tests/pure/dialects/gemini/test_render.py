"""A conversation, written for a provider that speaks generateContent."""

from __future__ import annotations

import json
from typing import Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    Conversation,
    Media,
    MediaKind,
    OutputFormat,
    OutputKind,
    Reasoning,
    Role,
    Sampling,
    Text,
    Tool,
    ToolChoice,
    ToolMode,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.dialects.dialect import RequestContext
from mgw.dialects.gemini import CLIENT
from mgw.nouns.errors import GatewayError, Reason
from tests.support.gemini_requests import OLD, body_of, render
from tests.support.said import undelivered

HELLO: Final = Conversation((Turn(Role.USER, (Text("Hello"),)),))


@pytest.mark.parametrize(
    ("model", "stream", "target"),
    [
        ("gemini-2.5-pro", False, b"/models/gemini-2.5-pro:generateContent"),
        ("gemini-2.5-pro", True, b"/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("models/gemini-2.5-pro", False, b"/models/gemini-2.5-pro:generateContent"),
        ("tunedModels/mine", False, b"/tunedModels/mine:generateContent"),
        ("a b", False, b"/models/a%20b:generateContent"),
    ],
)
def test_the_path_names_the_model(model: str, stream: bool, target: bytes) -> None:
    assert render(replace(HELLO, stream=stream), model=model).target == target


def test_a_model_that_no_path_can_carry_is_refused() -> None:
    with pytest.raises(GatewayError) as caught:
        render(HELLO, model="a/../b")
    assert caught.value.reason is Reason.MALFORMED


def test_a_bare_conversation_says_nothing_but_its_contents() -> None:
    assert body_of(HELLO) == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


def test_leading_instructions_are_the_system_instruction() -> None:
    body = body_of(replace(HELLO, system=(Text("a"), Text(""), Text("b"))))
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}


@pytest.mark.parametrize("turns", [HELLO.turns, (Turn(Role.ASSISTANT, (Text("Hi"),)),)])
def test_instructions_are_the_users_first_text_where_the_model_takes_none(turns: tuple[Turn, ...]) -> None:
    conversation = replace(HELLO, turns=turns, system=(Text("a"), Text("b")))
    found = render(conversation, replace(OLD, system=False))
    body = json.loads(found.body)
    assert "systemInstruction" not in body
    assert body["contents"][0]["role"] == "user"
    assert body["contents"][0]["parts"][:2] == [{"text": "a"}, {"text": "b"}]
    assert len(body["contents"][0]["parts"]) == 3
    assert not found.lost


def test_instructions_alone_are_asked_by_the_user() -> None:
    assert body_of(Conversation((), system=(Text("Hi"),))) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }


def test_what_google_cannot_say_is_lost() -> None:
    mark = CacheMark("1h")
    conversation = replace(
        HELLO,
        turns=(Turn(Role.USER, (Text("a", cache=mark),), name="Ann"),),
        tools=(Tool("f", strict=True),),
        parallel_calls=False,
        output=OutputFormat(OutputKind.JSON, name="n", description="d"),
        user="u",
        sampling=Sampling(top_logprobs=3),
    )
    assert undelivered(conversation, render(conversation)) == {
        Feature.CACHE,
        Feature.TURN_NAME,
        Feature.TOOL_STRICT,
        Feature.PARALLEL_CALLS,
        Feature.OUTPUT_NAME,
        Feature.OUTPUT_DESCRIPTION,
        Feature.USER,
        Feature.TOP_LOGPROBS,
    }


def test_a_request_that_says_nothing_is_refused() -> None:
    with pytest.raises(GatewayError, match="no message has content"):
        render(Conversation((Turn(Role.USER, (Text(""),)),)))


def test_what_is_rendered_is_parsed_again() -> None:
    conversation = Conversation(
        (Turn(Role.USER, (Text("a"), Media(MediaKind.IMAGE, "image/png", data="AAAA", detail="high"))),),
        system=(Text("s"),),
        tools=(Tool("f", "d", {"type": "object"}),),
        tool_choice=ToolChoice(ToolMode.ANY, ("f",)),
        sampling=Sampling(0.5, 0.9, 40, 0.2, 0.1, 7, logprobs=True, top_logprobs=3),
        max_tokens=100,
        stop=("x",),
        candidates=1,
        output=OutputFormat(OutputKind.SCHEMA, {"type": "object"}),
        reasoning=Reasoning(budget=2000, thoughts=True),
    )
    found = CLIENT.text.parse_request(render(conversation).body, RequestContext("m"))
    assert found.request == conversation
    assert not found.unread
