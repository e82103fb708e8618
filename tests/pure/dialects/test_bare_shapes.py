"""What most requests hold is read without opening it, or in one pass: it has to mean what it does otherwise.

A ``null`` beside the usual keys says nothing, but keeps a parser from its shortcuts.  So does an empty text
beside another with a renderer.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import CacheMark, Conversation, Role, Signature, Text, Turn
from mgw.dialects import client_side_of
from mgw.dialects.anthropic import request as messages
from mgw.dialects.dialect import DEFAULT_OPTIONS, RequestContext
from mgw.dialects.gemini import request as content
from mgw.dialects.openai import request as chat
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import Family
from tests.support.hostile_json import WAYS, Path, paths, replaced
from tools.translation.accounting import Target

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
    side = client_side_of(text_dialect(family)).text
    bare = side.parse_request(json.dumps(body).encode(), RequestContext("m"))
    opened = side.parse_request(json.dumps(_with_nulls(deepcopy(body))).encode(), RequestContext("m"))
    assert bare == opened
    assert not bare.unread


_TALK: Final = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hello."},
    {"role": "assistant", "content": " "},
    {"role": "user", "content": "Go on."},
]
_ASKED: Final = [{"role": "user", "content": "Hello."}]
_PLAIN_CHATS: Final[dict[str, JsonObject]] = {
    "everything": {
        "messages": _TALK,
        "max_completion_tokens": 9,
        "temperature": 1,
        "top_p": 0.5,
        "stop": ["x", "", " "],
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "nothing": {"messages": _ASKED},
    "instructions alone": {"messages": _TALK[:1]},
    "the old limit": {"messages": _ASKED, "max_tokens": 9, "max_completion_tokens": None},
    "one stop sequence": {"messages": _ASKED, "stop": "x"},
    "an empty stop sequence": {"messages": _ASKED, "stop": ""},
    "no stop sequences": {"messages": _ASKED, "stop": []},
    "no usage": {"messages": _ASKED, "stream": False, "stream_options": {"include_usage": False}},
}
_OTHER_CHATS: Final[dict[str, JsonObject]] = {
    "two limits": {"messages": _ASKED, "max_tokens": 9, "max_completion_tokens": 8},
    "a limit that is no integer": {"messages": _ASKED, "max_tokens": 3.0},
    "an empty text": {"messages": [{"role": "user", "content": ""}, *_ASKED]},
    "an empty instruction": {"messages": [{"role": "system", "content": ""}, *_ASKED]},
    "an instruction in the middle": {"messages": [*_ASKED, *_TALK]},
    "a large number": {"messages": _ASKED, "temperature": 1e6},
    "a word": {"messages": _ASKED, "user": "ann"},
}
_TOLD: Final = [
    {"role": "user", "content": [{"type": "text", "text": "Hello."}, {"type": "text", "text": ""}]},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": []},
]
_PLAIN_MESSAGES: Final[dict[str, JsonObject]] = {
    "everything": {
        "messages": _TOLD,
        "system": [{"type": "text", "text": "Be brief."}],
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 3,
        "stop_sequences": ["x", ""],
        "stream": True,
    },
    "nothing": {"messages": []},
    "an instruction": {"messages": _TOLD, "system": ""},
    "no instructions": {"messages": _TOLD, "system": []},
    "no stop sequences": {"messages": _TOLD, "stop_sequences": [], "stream": False},
}
_OTHER_MESSAGES: Final[dict[str, JsonObject]] = {
    "a negative limit": {"messages": _TOLD, "max_tokens": -1},
    "a bill": {"messages": _TOLD, "system": "x-anthropic-billing-header: a\nBe brief."},
    "an instruction in the middle": {"messages": [*_TOLD, {"role": "system", "content": "Be brief."}]},
    "a user": {"messages": _TOLD, "metadata": {"user_id": "ann"}},
}
_PARTS: Final = [
    {"role": "user", "parts": [{"text": "Hello."}]},
    {"role": "model", "parts": [{"text": "Hello."}]},
    {"role": "user", "parts": [{"text": " "}]},
    {"role": "user", "parts": [{"text": "Go on."}]},
]
_PLAIN_CONTENT: Final[dict[str, JsonObject]] = {
    "everything": {
        "contents": _PARTS,
        "systemInstruction": {"role": "system", "parts": [{"text": "Be"}, {"text": "brief."}]},
        "generationConfig": {
            "temperature": 1,
            "topP": 0.5,
            "topK": 3,
            "maxOutputTokens": 9,
            "stopSequences": ["x", ""],
        },
    },
    "nothing": {"contents": _PARTS[1:2]},
    "no options": {"contents": _PARTS, "generationConfig": {}},
    "no stop sequences": {"contents": _PARTS, "generationConfig": {"stopSequences": []}},
}
_OTHER_CONTENT: Final[dict[str, JsonObject]] = {
    "a turn in pieces": {"contents": [_PARTS[1], _PARTS[1]]},
    "two texts": {"contents": [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]},
    "an empty text": {"contents": [{"role": "model", "parts": [{"text": ""}]}, *_PARTS]},
    "nobody": {"contents": [{"parts": [{"text": "Hello."}]}]},
    "an empty instruction": {"contents": _PARTS, "systemInstruction": {"parts": []}},
    "snake case": {"contents": _PARTS, "generation_config": {"top_k": 3}},
    "a number in a string": {"contents": _PARTS, "generationConfig": {"topK": "3"}},
}
_BEGINNINGS: Final[dict[Family, JsonObject]] = {
    Family.OPENAI: {"model": "m"},
    Family.ANTHROPIC: {"model": "m", "max_tokens": 9},
    Family.GEMINI: {},
}
_REQUESTS: Final = [
    pytest.param(family, {**_BEGINNINGS[family], **body}, is_simple, id=f"{family.value}, {name}")
    for family, simple, other in (
        (Family.OPENAI, _PLAIN_CHATS, _OTHER_CHATS),
        (Family.ANTHROPIC, _PLAIN_MESSAGES, _OTHER_MESSAGES),
        (Family.GEMINI, _PLAIN_CONTENT, _OTHER_CONTENT),
    )
    for is_simple, bodies in ((True, simple), (False, other))
    for name, body in bodies.items()
]


def _is_simple(family: Family, body: bytes) -> bool:
    if family is Family.GEMINI:
        return content.parse_in_one_pass(body, DEFAULT_OPTIONS, stream=False) is not None
    parse = chat if family is Family.OPENAI else messages
    return parse.parse_in_one_pass(body) is not None


@pytest.mark.parametrize(("family", "body", "is_simple"), _REQUESTS)
def test_a_simple_request_means_what_it_does_with_a_null_beside_its_keys(
    family: Family, body: JsonObject, is_simple: bool
) -> None:
    side = client_side_of(text_dialect(family)).text
    data, opened = json.dumps(body).encode(), json.dumps(_with_nulls(deepcopy(body))).encode()
    assert (_is_simple(family, data), _is_simple(family, opened)) == (is_simple, False)
    for context in (RequestContext("m"), RequestContext("m", stream=True)):
        assert side.parse_request(data, context) == side.parse_request(opened, context)


@pytest.mark.parametrize(
    ("family", "body"), [case.values[:2] for case in _REQUESTS if str(case.id).endswith("everything")]
)
def test_no_object_of_a_simple_request_has_an_unknown_key(family: Family, body: JsonObject) -> None:
    objects = [(place, value) for place in paths(body) if isinstance(value := at(body, place), dict)]
    assert len(objects) > 5
    for place, value in objects:
        wider = replaced(body, place, {**value, "unknown_key": 1})
        assert not _is_simple(family, json.dumps(wider).encode()), place


def at(value: Any, place: Path) -> Any:  # Any: JSON
    return reduce(getitem, place, value)


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


@pytest.mark.parametrize("target", WAYS, ids=lambda target: target.name)
@pytest.mark.parametrize("turns", _HISTORIES.values(), ids=_HISTORIES)
def test_an_empty_text_beside_each_other_changes_nothing(turns: tuple[Turn, ...], target: Target) -> None:
    render = target.side.text.render_request
    longer = tuple(replace(turn, parts=(*turn.parts, Text(""))) for turn in turns)
    assert render(Conversation(turns), target.setting) == render(Conversation(longer), target.setting)
