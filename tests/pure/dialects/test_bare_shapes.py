"""What most requests hold is read without opening it: it has to mean what it does when it is opened.

A ``null`` beside the usual keys says nothing, but keeps a parser from its shortcuts.  So does an empty text
beside another with a renderer.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import CacheMark, Conversation, Role, Signature, Text, Turn
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import RequestContext
from mgw.vocabulary import Family
from tests.support.accounting import TARGETS, Target

JsonObject = dict[str, Any]  # Any: JSON

_CALL: Final = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
_OPENAI: Final[JsonObject] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "There."},
        {"role": "system", "content": "Be briefer."},
        {"role": "assistant", "content": "So."},
        {"role": "system", "content": ""},
    ],
}
_ANTHROPIC: Final[JsonObject] = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Hello."},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1, "b": {}}},
                {"type": "tool_use", "id": "c2", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "There."},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "Here."}]},
                {"type": "text", "text": ""},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "So."}]},
    ],
}
_GEMINI: Final[JsonObject] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Do."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Hello."}]},
        {"role": "model", "parts": [{"text": "I "}]},
        {"role": "model", "parts": [{"text": "look."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": 1}}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"result": "There."}}},
                {"functionResponse": {"name": "look", "response": {"error": "Lost."}}},
            ],
        },
        {"role": "model", "parts": [{"functionCall": {"name": "see", "id": "c7"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "see", "id": "c7"}}]},
        {"role": "model", "parts": [{"text": "So."}]},
    ],
    "generationConfig": {"maxOutputTokens": 5, "stopSequences": ["x"], "temperature": 0.5},
}
_CARRIED_WHOLE: Final = frozenset({"input", "args", "response"})
"""Objects whose keys are the client's own."""


@pytest.mark.parametrize(
    ("family", "body"),
    [(Family.OPENAI, _OPENAI), (Family.ANTHROPIC, _ANTHROPIC), (Family.GEMINI, _GEMINI)],
)
def test_a_null_beside_the_usual_keys_changes_nothing(family: Family, body: JsonObject) -> None:
    side = client_side_of(family).text
    bare = side.parse_request(json.dumps(body).encode(), RequestContext("m"))
    opened = side.parse_request(json.dumps(_with_nulls(deepcopy(body))).encode(), RequestContext("m"))
    assert bare == opened
    assert not bare.unread


def _with_nulls(value: Any) -> Any:  # Any: JSON
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: item if key in _CARRIED_WHOLE else _with_nulls(item) for key, item in value.items()}
    return {**inner, "unknown_key": None}


def _turns(*roles: Role) -> tuple[Turn, ...]:
    return tuple(Turn(role, (Text(f"Text {place}. "),)) for place, role in enumerate(roles))


_USER: Final = Role.USER
_ASSISTANT: Final = Role.ASSISTANT
_PLAIN: Final = _turns(_USER, _ASSISTANT, _USER)
_FIRST, *_REST = _PLAIN
_HISTORIES: Final = {
    "plain": _PLAIN,
    "one message": _turns(_USER),
    "begins with the assistant": _turns(_ASSISTANT, _ASSISTANT, _USER),
    "ends with the assistant": _turns(_USER, _ASSISTANT),
    "the user thrice": _turns(_USER, _USER, _USER),
    "the assistant twice": _turns(_USER, _ASSISTANT, _ASSISTANT, _USER, _USER),
    "an instruction": _turns(_USER, Role.SYSTEM, _ASSISTANT, _USER),
    "a name": (replace(_FIRST, name="ann"), *_REST),
    "an empty text": (Turn(_USER, (Text(""),)), *_REST),
    "a blank text": (Turn(_USER, (Text(" \n"),)), *_REST),
    "a breakpoint": (Turn(_USER, (Text("Hello.", CacheMark()),)), *_REST),
    "a signature": (Turn(_USER, (Text("Hello.", signature=Signature(Family.GEMINI, "c2ln")),)), *_REST),
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("turns", _HISTORIES.values(), ids=_HISTORIES)
def test_an_empty_text_beside_each_other_changes_nothing(turns: tuple[Turn, ...], target: Target) -> None:
    render = provider_side_of(target.family).text.render_request
    longer = tuple(replace(turn, parts=(*turn.parts, Text(""))) for turn in turns)
    assert render(Conversation(turns), target.setting) == render(Conversation(longer), target.setting)
