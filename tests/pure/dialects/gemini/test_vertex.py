"""What Vertex AI does not know of the Gemini API is not sent there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import Conversation, Role, Text, Tool, ToolCall, ToolResult, Turn
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.provider import Provider
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.gemini import PROVIDER
from mgw.dialects.models import Models, OverrideRow
from mgw.nouns.vocabulary import Capability, Family, Kind

OLD = "gemini-2.5-flash"
NEW = "gemini-3-pro-preview"
ASKED = Conversation(
    (
        Turn(Role.USER, (Text("x"),)),
        Turn(Role.ASSISTANT, (ToolCall("call_1", "f", "{}"), ToolCall("call_2", "f", '{"a":1}'))),
        Turn(Role.USER, (ToolResult("call_2", (Text("s"),)), ToolResult("call_1", (Text("r"),)))),
    ),
    (Text("S"),),
    (Tool("f", None, {"type": "object"}),),
    max_tokens=9,
)


def setting(model: str, *, on_vertex: bool, rows: tuple[OverrideRow, ...] = ()) -> RenderOptions:
    return RenderOptions(model, Kind.GEMINI, Models(rows).row(model, Family.GEMINI), on_vertex=on_vertex)


def functions(options: RenderOptions) -> list[dict[str, Any]]:
    """The calls and responses of a rendered request."""
    body = json.loads(PROVIDER.text.render_request(ASKED, options).body)
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part.get("functionCall") or part["functionResponse"] for part in parts if "text" not in part]


@pytest.mark.parametrize("model", [OLD, "gemini-2.0-flash", "gemini-1.5-pro", "gemini-2.5-pro"])
def test_calls_of_older_models_have_no_ids_on_vertex_and_keep_their_order(model: str) -> None:
    found = functions(setting(model, on_vertex=True))
    assert all("id" not in one for one in found)
    assert [one["response"]["result"] for one in found[2:]] == ["r", "s"]
    assert all("id" in one for one in functions(setting(model, on_vertex=False)))


def test_newer_models_and_rows_that_say_so_have_them() -> None:
    assert all("id" in one for one in functions(setting(NEW, on_vertex=True)))
    takes = OverrideRow(OLD, Family.GEMINI, vertex_call_ids=True)
    assert all("id" in one for one in functions(setting(OLD, on_vertex=True, rows=(takes,))))
    none = OverrideRow(NEW, Family.GEMINI, vertex_call_ids=False)
    assert all("id" not in one for one in functions(setting(NEW, on_vertex=True, rows=(none,))))


def test_a_count_on_vertex_has_everything_at_the_top() -> None:
    count = PROVIDER.count
    assert count is not None
    body = json.loads(count.render_request(ASKED, setting(OLD, on_vertex=True)).body)
    assert set(body) == {"contents", "systemInstruction", "tools", "generationConfig"}
    body = json.loads(count.render_request(ASKED, setting(OLD, on_vertex=False)).body)
    assert set(body) == {"generateContentRequest"}


@pytest.mark.parametrize(
    ("kind", "base_url", "is_vertex"),
    [
        (
            "gemini",
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
            True,
        ),
        ("gemini", "http://127.0.0.1:1/proxy/publishers/google/", True),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta", False),
        ("gemini", "https://example.com/v1/publishers/googled", False),
        ("gemini", "https://aiplatform.googleapis.com/v1beta", False),
        ("openai_compat", "https://example.com/publishers/google/v1", False),
    ],
)
def test_only_the_path_of_the_address_says_that_a_provider_is_vertex(
    kind: str, base_url: str, is_vertex: bool
) -> None:
    config = parse(f'providers: {{p: {{kind: {kind}, base_url: "{base_url}", api_key: k}}}}', "mgw.yaml", {})
    assert config.providers["p"].is_vertex is is_vertex


def test_gemini_on_vertex_has_no_realtime_sessions() -> None:
    def parsed(block: str) -> Provider:
        return parse(f"providers: {{p: {{{block}}}}}", "mgw.yaml", {}).providers["p"]

    at = 'kind: gemini, base_url: "https://h/v1/{}", api_key: k'
    there, elsewhere = at.format("publishers/google"), at.format("publishers/googled")
    for block in (there, f"{there}, capabilities: {{realtime: false}}"):
        assert parsed(block).capabilities == parsed(elsewhere).capabilities - {Capability.REALTIME}
    assert Capability.REALTIME in parsed(elsewhere).capabilities
    with pytest.raises(ConfigError) as caught:
        parsed(f"{there}, capabilities: {{realtime: true}}")
    [problem] = caught.value.problems
    assert "capabilities.realtime: realtime does not work on Vertex AI" in str(problem)
