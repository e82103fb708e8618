"""Laws of requests of Responses, over sequences of items that are drawn one by one and joined."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Signature
from mgw.canonical.identifiers import CHAT_NAME
from mgw.dialects.dialect import RequestContext
from mgw.dialects.responses.options import ResponseReplyOptions
from mgw.dialects.responses.request import parse_request
from mgw.dialects.responses.schema import ClientTool, ToolKind
from mgw.dialects.responses.thoughts import (
    seal_call_signature,
    seal_text_signature,
    seal_thought,
)
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support.hostile_json import paths, replaced
from tools.translation.accounting import TARGETS, sent
from tools.translation.field_cases import RESPONSES

JsonObject = dict[str, Any]  # Any: JSON

DROP: Final = RequestContext("m", drop_hosted_tools=True)
SIGNATURES: Final = [Signature(family, "c2ln") for family in Family]
CALL_IDS: Final = st.sampled_from(["c1", "c2", "c3"])
TOOL_NAMES: Final = st.sampled_from(["a", "b", "a__b", "b.c", "x" * 63])


def words(kind: str) -> JsonObject:
    return {"type": kind, "text": "WORD"}


MESSAGES: Final = st.builds(
    lambda role, content: {"type": "message", "id": "msg_1", "role": role, "content": content},
    st.sampled_from(["user", "assistant", "developer", "system"]),
    st.sampled_from(["WORD", [words("input_text")], [words("output_text"), words("text")]]),
)
CALLS: Final = st.one_of(
    st.builds(
        lambda call_id, name, namespace: {
            "type": "function_call", "call_id": call_id, "name": name, "arguments": "WORD", **namespace,
        },
        CALL_IDS, TOOL_NAMES, st.sampled_from([{}, {"namespace": "a"}]),
    ),
    st.builds(
        lambda call_id, name: {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": "WORD"},
        CALL_IDS, TOOL_NAMES,
    ),
    st.builds(
        lambda call_id: {"type": "shell_call", "call_id": call_id, "action": {"commands": ["WORD"]}}, CALL_IDS
    ),
)  # fmt: skip
OUTPUTS: Final = st.builds(
    lambda call_id, kind, output: {"type": kind, "call_id": call_id, "output": output},
    CALL_IDS,
    st.sampled_from(["function_call_output", "custom_tool_call_output", "apply_patch_call_output"]),
    st.sampled_from(["WORD", [words("input_text")]]),
)
THOUGHTS: Final[st.SearchStrategy[JsonObject]] = st.one_of(
    st.builds(lambda signature: seal_thought("WORD", signature), st.sampled_from(SIGNATURES)),
    st.builds(seal_call_signature, st.sampled_from(SIGNATURES)),
    st.builds(seal_text_signature, st.sampled_from(SIGNATURES)),
    st.sampled_from(["gAAAA", None]),
).map(lambda content: {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": content})
OTHERS: Final = st.sampled_from(
    [
        {"type": "web_search_call", "action": {"query": "WORD"}},
        {"type": "of_tomorrow", "text": "WORD"},
        {"type": "item_reference", "id": "rs_1"},
        {"type": "agent_message", "content": [words("input_text"), {"type": "encrypted_content"}]},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "a"}]},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
    ]
)
ITEMS: Final = st.lists(st.one_of(MESSAGES, CALLS, OUTPUTS, THOUGHTS, OTHERS), min_size=1, max_size=12)


def answering(items: list[JsonObject]) -> list[JsonObject]:
    """Return the items without outputs of calls that are not before them."""
    called: set[str] = set()
    kept: list[JsonObject] = []
    for item in items:
        if "action" in item or "name" in item:
            called.add(item.get("call_id", ""))
        if "output" not in item or item["call_id"] in called:
            kept.append(item)
    return kept


HISTORIES: Final = ITEMS.map(answering)


def body_of(items: list[JsonObject]) -> JsonObject:
    return {"model": "m", "input": [{"role": "user", "content": "Hello."}, *items]}


def refusal(body: JsonObject) -> GatewayError | None:
    try:
        parse_request(json.dumps(body).encode(), DROP)
    except GatewayError as error:
        return error
    return None


def numbered(items: list[JsonObject]) -> list[tuple[str, JsonObject]]:
    """Return the items, each with a word of its own."""
    return [
        (f"word{number}w", json.loads(json.dumps(item).replace("WORD", f"word{number}w")))
        for number, item in enumerate(items)
    ]


@given(items=HISTORIES)
def test_what_was_said_is_in_the_conversation_or_reported(items: list[JsonObject]) -> None:
    said = numbered(items)
    found = parse_request(json.dumps(body_of([item for _, item in said])).encode(), DROP)
    kept = json.dumps(msgspec.to_builtins(found.request))
    for word, item in said:
        assert word in kept or f"input[{item['type']}]" in found.unread or word not in json.dumps(item)


@given(items=ITEMS)
def test_an_output_without_a_call_is_refused_at_its_place(items: list[JsonObject]) -> None:
    body = json.dumps(body_of(items)).encode()
    kept = answering(items)
    if kept == items:
        parse_request(body, DROP)
        return
    first = next(number for number, item in enumerate(items) if item not in kept[number : number + 1])
    with pytest.raises(GatewayError) as caught:
        parse_request(body, DROP)
    assert caught.value.param == f"input[{first + 1}].call_id"


@given(items=ITEMS, value=st.sampled_from([None, 0, "", "x", [], {}, [{}], [[]], True]), data=st.data())
def test_whatever_stands_anywhere_is_understood_or_refused_at_its_place(
    items: list[JsonObject],
    value: Any,  # Any: JSON
    data: st.DataObject,
) -> None:
    body = {
        **body_of(items),
        "tools": [{"type": "namespace", "name": "a", "tools": [{"type": "custom", "name": "b"}]}],
    }
    place = data.draw(st.sampled_from([path for path in paths(body) if path]))
    error = refusal(replaced(body, place, value))
    if error is not None:
        assert error.reason is Reason.MALFORMED
        assert error.param


@given(items=HISTORIES)
def test_every_target_takes_what_was_understood(items: list[JsonObject]) -> None:
    for target in TARGETS[1:]:
        assert not isinstance(sent(RESPONSES, target, body_of(items)), GatewayError)


@given(items=HISTORIES)
def test_a_null_beside_the_usual_keys_changes_nothing(items: list[JsonObject]) -> None:
    """What most items hold is read without opening them."""
    body = body_of(items)
    bare = parse_request(json.dumps(body).encode(), DROP)
    body["input"] = [{**item, "of_tomorrow": None} for item in body["input"]]
    assert parse_request(json.dumps(body).encode(), DROP) == bare


TOOLS: Final = st.lists(
    st.tuples(
        st.sampled_from([ToolKind.FUNCTION, ToolKind.CUSTOM]),
        st.sampled_from([None, "a", "a__b", "ü"]),
        TOOL_NAMES,
    ),
    unique=True,
)  # fmt: skip


@given(tools=TOOLS)
def test_each_tool_has_a_function_of_its_own_that_is_known_again(
    tools: list[tuple[ToolKind, str | None, str]],
) -> None:
    declared: list[JsonObject] = []
    for kind, namespace, name in tools:
        tool = {"type": kind.value, "name": name}
        inner = {"type": "namespace", "name": namespace, "description": "", "tools": [tool]}
        declared.append(tool if namespace is None else inner)
    body = {"model": "m", "input": "x", "tools": declared}
    found = parse_request(json.dumps(body).encode(), DROP)
    names = [tool.name for tool in found.request.tools]
    client_tools = ResponseReplyOptions.of(found.reply_options).client_tools
    assert len(set(names)) == len(tools)
    for name, (kind, namespace, own) in zip(names, tools, strict=True):
        if kind is ToolKind.FUNCTION and namespace is None:
            assert name == own
            assert name not in client_tools
        else:
            assert CHAT_NAME.fullmatch(name)
            assert client_tools[name] == ClientTool(kind, own, namespace)
