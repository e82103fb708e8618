"""The catalog in each dialect's shape, read by that dialect's own SDK."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic import Omit, omit
from anthropic.types import ModelInfo
from google import genai
from google.genai.types import HttpOptions
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mgw.canonical.catalog import CatalogEntry, ModelMetadata
from mgw.dialects import dialect_of
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName

CAPABILITIES = {
    "chat": True,
    "image_gen": False,
    "video_gen": False,
    "audio_speech": True,
    "audio_transcribe": False,
    "realtime": False,
}


def entry(name: str, **changed: bool) -> CatalogEntry:
    return CatalogEntry(name, {**CAPABILITIES, **changed}, 1735689600, "main")


def entries(count: int) -> list[CatalogEntry]:
    return [entry(f"main/m{number}") for number in range(count)]


def listed(dialect: DialectName, models: list[CatalogEntry], **query: str) -> Any:  # Any: JSON
    return json.loads(dialect_of(dialect).render_list(models, query))


def test_openai_lists_every_entry_with_its_capabilities() -> None:
    assert listed(DialectName.OPENAI, [entry("fast")], live="1") == {
        "object": "list",
        "data": [
            {
                "id": "fast",
                "object": "model",
                "created": 1735689600,
                "owned_by": "main",
                "capabilities": CAPABILITIES,
            }
        ],
    }


def test_anthropic_keeps_its_own_capabilities_null() -> None:
    page = listed(DialectName.ANTHROPIC, [entry("fast")])
    (model,) = page.pop("data")
    assert page == {"has_more": False, "first_id": "fast", "last_id": "fast"}
    assert model["capabilities"] is None
    assert model["gateway_capabilities"] == CAPABILITIES
    assert (model["type"], model["created_at"]) == ("model", "2025-01-01T00:00:00Z")


def test_gemini_names_the_methods_of_a_model() -> None:
    assert listed(DialectName.GEMINI, [entry("fast", realtime=True), entry("voice", chat=False)]) == {
        "models": [
            {
                "name": "models/fast",
                "version": "001",
                "displayName": "fast",
                "supportedGenerationMethods": [
                    "generateContent",
                    "streamGenerateContent",
                    "countTokens",
                    "bidiGenerateContent",
                ],
                "capabilities": {**CAPABILITIES, "realtime": True},
            },
            {
                "name": "models/voice",
                "version": "001",
                "displayName": "voice",
                "supportedGenerationMethods": [],
                "capabilities": {**CAPABILITIES, "chat": False},
            },
        ]
    }


PLAIN = {
    DialectName.OPENAI: b'{"id":"fast","object":"model","created":1735689600,"owned_by":"main",'
    b'"capabilities":%b}',
    DialectName.ANTHROPIC: b'{"type":"model","id":"fast","display_name":"fast",'
    b'"created_at":"2025-01-01T00:00:00Z",'
    b'"lifecycle":"active","line":null,"max_input_tokens":null,"max_tokens":null,"deprecated_at":null,'
    b'"retires_at":null,"capabilities":null,"gateway_capabilities":%b}',
    DialectName.GEMINI: b'{"name":"models/fast","version":"001","displayName":"fast",'
    b'"supportedGenerationMethods":["generateContent","streamGenerateContent","countTokens"],"capabilities":%b}',
}
SAID = {
    DialectName.OPENAI: {
        "name": "Fast",
        "description": "For all.",
        "context_length": 200000,
        "max_completion_tokens": 64000,
    },
    DialectName.ANTHROPIC: {"display_name": "Fast", "max_input_tokens": 200000, "max_tokens": 64000},
    DialectName.GEMINI: {
        "displayName": "Fast",
        "description": "For all.",
        "inputTokenLimit": 200000,
        "outputTokenLimit": 64000,
    },
}
METADATA = ModelMetadata("Fast", "For all.", 200_000, 64_000)


@pytest.mark.parametrize("dialect", PLAIN)
@pytest.mark.parametrize("metadata", [None, ModelMetadata()])
def test_an_entry_of_which_nothing_is_said_has_no_further_members(
    dialect: DialectName, metadata: ModelMetadata | None
) -> None:
    plain = replace(entry("fast"), metadata=metadata)
    capabilities = json.dumps(CAPABILITIES, separators=(",", ":")).encode()
    assert dialect_of(dialect).render_entry(plain) == PLAIN[dialect] % capabilities


@pytest.mark.parametrize("dialect", SAID)
def test_what_is_said_about_a_model_has_the_words_of_each_api(dialect: DialectName) -> None:
    render = dialect_of(dialect).render_entry
    before = json.loads(render(entry("fast")))
    after = json.loads(render(replace(entry("fast"), metadata=METADATA, display_name="Upstream's")))
    assert {name: value for name, value in after.items() if before.get(name) != value} == SAID[dialect]
    assert list(before) == list(after)[: len(before)]
    partly = json.loads(render(replace(entry("fast"), metadata=ModelMetadata(max_output=64_000))))
    assert [value for name, value in partly.items() if before.get(name) != value] == [64_000]


@pytest.mark.parametrize("version", ["0.171.0", ""])
def test_codex_finds_its_own_catalog_empty_in_openais_list(version: str) -> None:
    render = dialect_of(DialectName.OPENAI).render_list
    plain = render([entry("fast")], {})
    assert render([entry("fast")], {"client_version": version}) == plain[:-1] + b',"models":[]}'
    for dialect in (DialectName.ANTHROPIC, DialectName.GEMINI):
        asked = listed(dialect, [entry("fast")], client_version=version)
        assert asked == listed(dialect, [entry("fast")])


def test_gemini_says_models_once_where_the_client_said_it() -> None:
    body = dialect_of(DialectName.GEMINI).render_entry(entry("models/fast"))
    assert json.loads(body)["name"] == "models/fast"


@pytest.mark.parametrize("dialect", DialectName)
def test_one_entry_is_an_element_of_the_list(dialect: DialectName) -> None:
    page = listed(dialect, [entry("fast")])
    elements = page.get("data", page.get("models"))
    assert [json.loads(dialect_of(dialect).render_entry(entry("fast")))] == elements


@pytest.mark.parametrize("dialect", DialectName)
def test_an_empty_catalog_is_an_empty_list(dialect: DialectName) -> None:
    page = listed(dialect, [])
    assert page.get("data", page.get("models")) == []


@pytest.mark.parametrize("created", [-1, 0, 10**18])
def test_anthropic_dates_any_number_of_seconds(created: int) -> None:
    body = dialect_of(DialectName.ANTHROPIC).render_entry(CatalogEntry("m", CAPABILITIES, created, "main"))
    assert ModelInfo.model_validate_json(body).created_at is not None


def test_a_name_for_people_is_shown_where_there_is_one() -> None:
    models = [replace(entry("main/m"), display_name="The M")]
    assert listed(DialectName.ANTHROPIC, models)["data"][0]["display_name"] == "The M"
    assert listed(DialectName.GEMINI, models)["models"][0]["displayName"] == "The M"
    assert listed(DialectName.OPENAI, models)["data"][0]["id"] == "main/m"


def names(page: Any) -> list[str]:
    return [model["id"] for model in page["data"]]


def test_anthropic_shows_twenty_unless_asked() -> None:
    page = listed(DialectName.ANTHROPIC, entries(21))
    assert (len(page["data"]), page["has_more"], page["last_id"]) == (20, True, "main/m19")


def test_anthropic_goes_on_after_an_id() -> None:
    page = listed(DialectName.ANTHROPIC, entries(5), limit="2", after_id="main/m1")
    assert (names(page), page["has_more"]) == (["main/m2", "main/m3"], True)


def test_anthropic_goes_back_before_an_id() -> None:
    page = listed(DialectName.ANTHROPIC, entries(5), limit="2", before_id="main/m3")
    assert (names(page), page["has_more"]) == (["main/m1", "main/m2"], True)
    page = listed(DialectName.ANTHROPIC, entries(5), limit="2", before_id="main/m2")
    assert (names(page), page["has_more"]) == (["main/m0", "main/m1"], False)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "\u0663"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"after_id": "other"}, "after_id"),
        ({"before_id": "other"}, "before_id"),
        ({"before_id": "main/m1", "after_id": "main/m0"}, "before_id"),
    ],
)
def test_anthropic_refuses_a_page_that_cannot_be(query: dict[str, str], param: str) -> None:
    with pytest.raises(GatewayError) as caught:
        dialect_of(DialectName.ANTHROPIC).render_list(entries(3), query)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, param)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({}, 50),
        ({"pageSize": "0"}, 50),
        ({"pageSize": "3"}, 3),
        ({"pageSize": "5000"}, 1000),
    ],
    ids=["absent", "zero", "some", "too many"],
)
def test_gemini_shows_as_many_as_asked_within_bounds(query: dict[str, str], shown: int) -> None:
    assert len(listed(DialectName.GEMINI, entries(1001), **query)["models"]) == shown


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"pageSize": "-1"}, "pageSize"),
        ({"pageSize": "many"}, "pageSize"),
        ({"pageToken": "b3RoZXI="}, "pageToken"),
        ({"pageToken": "\u20ac"}, "pageToken"),
    ],
)
def test_gemini_refuses_a_page_that_cannot_be(query: dict[str, str], param: str) -> None:
    with pytest.raises(GatewayError) as caught:
        dialect_of(DialectName.GEMINI).render_list(entries(3), query)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, param)


@given(count=st.integers(0, 12), size=st.integers(1, 13))
def test_the_pages_of_gemini_join_to_the_whole_list(count: int, size: int) -> None:
    found: list[str] = []
    query = {"pageSize": str(size)}
    while True:
        page = listed(DialectName.GEMINI, entries(count), **query)
        found += [model["displayName"] for model in page["models"]]
        if "nextPageToken" not in page:
            break
        query["pageToken"] = page["nextPageToken"]
    assert found == [model.id for model in entries(count)]


def body_at(dialect: DialectName, models: list[CatalogEntry], path: str, query: dict[str, str]) -> bytes:
    """The gateway's answer to an SDK: the list, or one entry below it."""
    name = path.partition("/models")[2].strip("/")
    if not name:
        return dialect_of(dialect).render_list(models, query)
    return dialect_of(dialect).render_entry(next(model for model in models if model.id == name))


def serving(dialect: DialectName, models: list[CatalogEntry]) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body = body_at(dialect, models, request.url.path, dict(request.url.params))
        return httpx2.Response(200, content=body, headers={"content-type": "application/json"})

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def test_openais_sdk_reads_the_catalog() -> None:
    http = serving(DialectName.OPENAI, entries(3))
    with openai.OpenAI(api_key="k", http_client=http, _strict_response_validation=True) as client:
        assert [model.id for model in client.models.list()] == ["main/m0", "main/m1", "main/m2"]
        assert client.models.retrieve("main/m1").owned_by == "main"


@pytest.mark.parametrize(("before", "count"), [(omit, 6), ("main/m5", 5)], ids=["forward", "back"])
def test_anthropics_sdk_reads_the_catalog_page_by_page(before: str | Omit, count: int) -> None:
    http = serving(DialectName.ANTHROPIC, entries(6))
    with anthropic.Anthropic(api_key="k", http_client=http, _strict_response_validation=True) as client:
        found = sorted(model.id for model in client.models.list(limit=2, before_id=before))
        assert found == [f"main/m{number}" for number in range(count)]
        assert client.models.retrieve("main/m1").display_name == "main/m1"


def test_googles_sdk_reads_the_catalog_page_by_page() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        body = body_at(DialectName.GEMINI, entries(5), request.url.path, dict(request.url.params))
        return httpx2.Response(200, content=body, headers={"content-type": "application/json"})

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    options = HttpOptions(base_url="http://gateway.invalid", httpx_client=http)
    with genai.Client(api_key="k", http_options=options) as client:
        found = list(client.models.list(config={"page_size": 2}))
        assert [model.name for model in found] == [f"models/main/m{number}" for number in range(5)]
        assert found[0].supported_actions == ["generateContent", "streamGenerateContent", "countTokens"]
        assert client.models.get(model="main/m1").display_name == "main/m1"
