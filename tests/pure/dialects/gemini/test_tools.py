"""Functions and how they are chosen, both ways."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mgw.canonical.conversation import (
    Conversation,
    Role,
    Text,
    Tool,
    ToolChoice,
    ToolMode,
    Turn,
)
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext
from mgw.dialects.gemini import CLIENT, PROVIDER
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

Json = dict[str, Any]
OLD: Final = ModelRow("*", Family.GEMINI, "x", budget=(1, 24_576), off=True, max_output=1000)
HELLO: Final = Conversation((Turn(Role.USER, (Text("Hello"),)),))
CONTEXT: Final = RequestContext("m")


def parse(body: Json, context: RequestContext = CONTEXT) -> Parsed[Conversation]:
    return CLIENT.text.parse_request(json.dumps(body).encode(), context)


def conversation_of(*contents: Json, **fields: Any) -> Conversation:
    return parse({"contents": list(contents), **fields}).request


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def render(conversation: Conversation, row: ModelRow = OLD, model: str = "gemini-2.5-flash") -> Rendered:
    return PROVIDER.text.render_request(conversation, RenderOptions(model, Kind.GEMINI, row))


def body_of(conversation: Conversation, row: ModelRow = OLD) -> Json:
    found: Json = json.loads(render(conversation, row).body)
    return found


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({"mode": "AUTO"}, ToolChoice(ToolMode.AUTO)),
        ({"mode": "any"}, ToolChoice(ToolMode.ANY)),
        ({"mode": "NONE"}, ToolChoice(ToolMode.NONE)),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, ToolChoice(ToolMode.AUTO, ("f",))),
        ({"mode": "MODE_UNSPECIFIED"}, None),
        ({"mode": 0}, None),
        ({"mode": 1}, ToolChoice(ToolMode.AUTO)),
        ({"mode": 2}, ToolChoice(ToolMode.ANY)),
        ({"mode": 3}, ToolChoice(ToolMode.NONE)),
        ({}, None),
    ],
)
def test_a_mode_is_a_choice(config: Json, choice: ToolChoice | None) -> None:
    found = conversation_of(user({"text": "a"}), toolConfig={"functionCallingConfig": config})
    assert found.tool_choice == choice


@pytest.mark.parametrize("mode", [9, -1, True, 1.5])
def test_a_number_that_names_nothing_is_refused(mode: object) -> None:
    with pytest.raises(GatewayError) as caught:
        conversation_of(user({"text": "a"}), toolConfig={"functionCallingConfig": {"mode": mode}})
    assert caught.value.param == "toolConfig.functionCallingConfig.mode"


def test_tools_for_a_model_that_takes_none_are_refused() -> None:
    refusing = replace(OLD, tools=False)
    with pytest.raises(GatewayError, match="does not accept tools") as caught:
        render(replace(HELLO, tools=(Tool("f"),)), refusing)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, "tools")
    assert render(HELLO, refusing).body == render(HELLO, OLD).body


def test_a_tools_schema_goes_whole() -> None:
    schema = {"type": "object", "additionalProperties": False, "properties": {"z": {}, "a": {"const": 1}}}
    body = body_of(replace(HELLO, tools=(Tool("f", "Does.", schema), Tool("g"))))
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "Does.", "parametersJsonSchema": schema},
                {"name": "g"},
            ]
        }
    ]
    assert list(body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]) == [
        "z",
        "a",
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice(ToolMode.AUTO), {"mode": "AUTO"}),
        (ToolChoice(ToolMode.NONE), {"mode": "NONE"}),
        (ToolChoice(ToolMode.ANY), {"mode": "ANY"}),
        (ToolChoice(ToolMode.ANY, ("f",)), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (ToolChoice(ToolMode.AUTO, ("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
    ],
)
def test_a_choice_is_a_mode(choice: ToolChoice, config: Json) -> None:
    body = body_of(replace(HELLO, tools=(Tool("f"),), tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_a_choice_without_tools_is_left_out() -> None:
    found = render(replace(HELLO, tool_choice=ToolChoice(ToolMode.NONE), parallel_calls=False))
    assert "toolConfig" not in json.loads(found.body)
    assert not found.lost


def test_illegal_names_are_changed_and_can_be_changed_back() -> None:
    names = ("1st", "a b", "a_b", "-", "é", "x" * 130, "x" * 131)
    choice = ToolChoice(ToolMode.ANY, ("1st",))
    found = render(replace(HELLO, tools=tuple(map(Tool, names)), tool_choice=choice))
    body = json.loads(found.body)
    rendered = [one["name"] for one in body["tools"][0]["functionDeclarations"]]
    assert (rendered[2], [name[:-8] for name in rendered[:5]]) == ("a_b", ["_1st_", "a_b_", "", "_-_", "__"])
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", name) for name in rendered)
    assert len(set(rendered)) == len(rendered)
    assert [found.renamed.get(name, name) for name in rendered] == list(names)
    assert body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] == rendered[:1]
