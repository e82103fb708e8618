"""Requests as Codex sends them, towards each kind of provider: what goes there, and what is lost."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from mgw.canonical.conversation import Conversation
from mgw.dialects import provider_side_of
from mgw.dialects.dialect import Parsed, RenderOptions, RequestContext
from mgw.dialects.models import Models
from mgw.dialects.responses.request import parse_request
from mgw.dialects.signatures import TAG
from mgw.nouns.errors import GatewayError
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import Family, Kind
from tests.support.codex_requests import FIRST, SECOND

FUNCTIONS: Final = [
    *("exec_command", "write_stdin", "request_user_input", "view_image"),
    *(f"multi_agent_v1__{verb}" for verb in ("close_agent", "resume_agent", "send_input", "spawn_agent")),
    *("multi_agent_v1__wait_agent", "get_goal", "create_goal", "update_goal"),
]
MODELS: Final = {
    Kind.ANTHROPIC: (Family.ANTHROPIC, "claude-sonnet-5"),
    Kind.GEMINI: (Family.GEMINI, "gemini-3-flash"),
    Kind.OPENAI_COMPAT: (Family.OPENAI, "deep"),
}
ARGUMENTS: Final = {"cmd": "cat /home/dev/notes/note.txt"}
both = pytest.mark.parametrize("body", [FIRST, SECOND], ids=["first", "second"])


def parsed(body: bytes) -> Parsed[Conversation]:
    return parse_request(body, RequestContext("m", drop_hosted_tools=True))


def rendered(body: bytes, kind: Kind) -> Any:  # JSON
    family, model = MODELS[kind]
    options = RenderOptions(model, kind, Models(()).row(model, family), max_tokens_field="max_tokens")
    text = provider_side_of(text_dialect(family)).text
    return json.loads(text.render_request(parsed(body).request, options).body)


@both
def test_only_web_search_and_what_says_who_asks_is_not_understood(body: bytes) -> None:
    assert parsed(body).unread == {"tools[web_search]", "client_metadata"}


@both
def test_web_search_is_refused_with_the_setting_that_drops_it(body: bytes) -> None:
    with pytest.raises(GatewayError, match=r"translation\.responses\.hosted_tools: drop"):
        parse_request(body, RequestContext("m"))


@both
def test_every_tool_is_a_function_of_its_own_at_each_provider(body: bytes) -> None:
    claude, gemini, host = (rendered(body, kind) for kind in MODELS)
    assert [tool["name"] for tool in claude["tools"]] == FUNCTIONS
    assert [tool["name"] for tool in gemini["tools"][0]["functionDeclarations"]] == FUNCTIONS
    assert [tool["function"]["name"] for tool in host["tools"]] == FUNCTIONS


def test_each_instruction_of_the_developer_is_a_block_of_its_own() -> None:
    texts = [
        part["text"]
        for item in json.loads(FIRST)["input"]
        if item["role"] == "developer"
        for part in item["content"]
    ]
    assert [block["text"] for block in rendered(FIRST, Kind.ANTHROPIC)["system"]] == texts
    assert len(texts) == 3


def test_a_call_and_its_result_follow_each_other() -> None:
    *_, called, result = rendered(SECOND, Kind.ANTHROPIC)["messages"]
    assert called["content"][-1]["input"] == ARGUMENTS
    assert result["content"][0]["tool_use_id"] == called["content"][-1]["id"]
    *_, gemini_called, gemini_result = rendered(SECOND, Kind.GEMINI)["contents"]
    assert gemini_called["parts"][-1]["functionCall"]["args"] == ARGUMENTS
    assert "functionResponse" in gemini_result["parts"][0]
    *_, host_called, host_result = rendered(SECOND, Kind.OPENAI_COMPAT)["messages"]
    assert json.loads(host_called["tool_calls"][0]["function"]["arguments"]) == ARGUMENTS
    assert host_result["tool_call_id"] == host_called["tool_calls"][0]["id"]


def test_a_thought_goes_back_to_its_own_family_only() -> None:
    *_, called, _ = rendered(SECOND, Kind.ANTHROPIC)["messages"]
    assert [block["type"] for block in called["content"]] == ["thinking", "text", "tool_use"]
    assert called["content"][0]["thinking"].startswith("The user wants: ")
    assert called["content"][0]["signature"].startswith("c2ltdWxhdGVkLWFudGhyb3BpYzpL")
    for kind in MODELS:
        body = json.dumps(rendered(SECOND, kind))
        assert TAG not in body
        assert ("c2ltdWxhdGVkLWFudGhyb3BpYz" in body) is (kind is Kind.ANTHROPIC)
