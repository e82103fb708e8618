"""What upstreams list, as each family's lister reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import ModelInfo
from google.genai.models import _ListModelsResponse_from_mldev
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Model

from mgw.canonical.catalog import CatalogEntry, ListedModel
from mgw.dialects import ModelPage, dialect_of
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import DialectName, Family

OPENAI: dict[str, Any] = {"id": "gpt-5", "object": "model", "created": 1767322985, "owned_by": "openai"}
ANTHROPIC: dict[str, Any] = {
    "type": "model",
    "id": "claude-opus-4-5",
    "display_name": "Claude Opus 4.5",
    "created_at": "2026-01-02T03:03:05Z",
    "lifecycle": "active",
    "max_input_tokens": 200000,
    "capabilities": None,
}
GEMINI: dict[str, Any] = {
    "name": "models/gemini-3-pro",
    "version": "001",
    "displayName": "Gemini 3 Pro",
    "supportedGenerationMethods": ["generateContent"],
}
SPOKEN = {
    Family.OPENAI: DialectName.OPENAI,
    Family.ANTHROPIC: DialectName.ANTHROPIC,
    Family.GEMINI: DialectName.GEMINI,
}


def read(family: Family, body: object) -> ModelPage:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return dialect_of(text_dialect(family)).lister.read(text)


def only(family: Family, body: object) -> ListedModel:
    (model,) = read(family, body).models
    return model


def test_what_these_tests_call_a_list_is_what_the_sdks_call_so() -> None:
    assert Model.model_validate(OPENAI).created == OPENAI["created"]
    assert ModelInfo.model_validate(ANTHROPIC).display_name == "Claude Opus 4.5"
    found = _ListModelsResponse_from_mldev({"_self": {"models": [GEMINI]}, "models": [GEMINI]})
    assert found["models"][0]["display_name"] == "Gemini 3 Pro"


def test_openais_list_is_read_with_its_times() -> None:
    page = read(Family.OPENAI, {"object": "list", "data": [OPENAI]})
    assert page == ModelPage([ListedModel("gpt-5", 1767322985)])


@pytest.mark.parametrize(
    ("entry", "model"),
    [
        ({"id": "m"}, ListedModel("m")),
        ({"id": "m", "created": None}, ListedModel("m")),
        ({"id": "m", "created": 0}, ListedModel("m")),
        ({"id": "m", "created": -5}, ListedModel("m")),
        ({"id": "m", "created": 12.9}, ListedModel("m", 12)),
        ({"id": "m", "created": 10**30}, ListedModel("m")),
        ({"id": "m", "created": "2025-01-01"}, ListedModel("m")),
        ({"id": "m", "created": {"at": [1]}}, ListedModel("m")),
        ({"id": "m", "name": "M"}, ListedModel("m", None, "M")),
        ({"id": "m", "name": "M", "display_name": "The M"}, ListedModel("m", None, "The M")),
        ({"id": "m", "name": "", "display_name": 7}, ListedModel("m")),
    ],
    ids=str,
)
def test_a_host_may_write_what_it_likes_beside_the_id(entry: dict[str, object], model: ListedModel) -> None:
    assert only(Family.OPENAI, {"data": [entry]}) == model


@pytest.mark.parametrize(
    ("body", "count"), [({"data": None}, 0), ({}, 0), ({"data": []}, 0), ([], 0), ([OPENAI, OPENAI], 2)]
)
def test_a_host_may_list_nothing_or_a_bare_array(body: object, count: int) -> None:
    assert len(read(Family.OPENAI, body).models) == count


def test_anthropics_list_is_read_with_its_names_and_times() -> None:
    page = read(Family.ANTHROPIC, {"data": [ANTHROPIC], "has_more": False, "last_id": "claude-opus-4-5"})
    assert page == ModelPage([ListedModel("claude-opus-4-5", 1767322985, "Claude Opus 4.5")])


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1970-01-01T00:00:00Z", None),
        ("2026-01-02T05:03:05+02:00", 1767322985),
        ("2026-01-02T03:03:05", 1767322985),
        ("2026-01-02T03:03:05.678Z", 1767322985),
        ("yesterday", None),
        ("", None),
        (None, None),
        ("0001-01-01T00:00:00+23:59", None),
        ("9999-12-31T23:59:59-23:59", None),
    ],
)
def test_anthropics_dates_become_seconds_where_they_say_something(
    written: str | None, seconds: int | None
) -> None:
    assert only(Family.ANTHROPIC, {"data": [{**ANTHROPIC, "created_at": written}]}).created == seconds


@pytest.mark.parametrize(("last_id", "next_page"), [("cursor", "cursor"), (None, "claude-opus-4-5")])
def test_anthropics_next_page_begins_after_the_last_model(last_id: str | None, next_page: str) -> None:
    page = read(Family.ANTHROPIC, {"data": [ANTHROPIC], "has_more": True, "last_id": last_id})
    assert page.next_page == next_page


def test_googles_list_is_read_without_its_prefix() -> None:
    page = read(Family.GEMINI, {"models": [GEMINI], "nextPageToken": "a/b"})
    assert page == ModelPage([ListedModel("gemini-3-pro", None, "Gemini 3 Pro")], "a/b")


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("gemini", "gemini"),
        ("models/models/x", "models/x"),
        ("tunedModels/x", "tunedModels/x"),
        ("my/models/x", "my/models/x"),
    ],
)
def test_only_the_leading_prefix_of_a_model_goes(name: str, model_id: str) -> None:
    assert only(Family.GEMINI, {"models": [{"name": name}]}).id == model_id


def test_vertexs_list_is_read_too() -> None:
    body = {"publisherModels": [{"name": "publishers/google/models/gemini-3-pro", "versionId": "001"}]}
    assert only(Family.GEMINI, body) == ListedModel("gemini-3-pro")


@pytest.mark.parametrize("body", [{}, {"models": []}, {"nextPageToken": ""}])
def test_googles_empty_list_is_one(body: object) -> None:
    assert read(Family.GEMINI, body) == ModelPage([])


@pytest.mark.parametrize(
    ("family", "page", "query"),
    [
        (Family.OPENAI, None, ""),
        (Family.ANTHROPIC, None, "limit=1000"),
        (Family.ANTHROPIC, "a b&c", "limit=1000&after_id=a+b%26c"),
        (Family.GEMINI, None, "pageSize=1000"),
        (Family.GEMINI, "t=\u20ac", "pageSize=1000&pageToken=t%3D%E2%82%AC"),
    ],
)
def test_a_page_is_asked_for_in_the_familys_words(family: Family, page: str | None, query: str) -> None:
    assert dialect_of(text_dialect(family)).lister.query(1000, page) == query


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b'"models"',
        b'{"data": [{}], "models": [{}]}',
        b'{"data": [{"id": 1}], "models": [{"name": 1}]}',
        b'{"data": [{"id": "\xff"}], "models": [{"name": "\xff"}]}',
        b'{"data": [{"id": "\\ud800"}], "models": [{"name": "\\ud800"}]}',
        b'{"more": ' + b"[" * 100_000,
        b'{"data": [',
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_what_is_no_list_is_refused(family: Family, body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(family, body)


def test_an_empty_page_that_promises_more_is_refused() -> None:
    with pytest.raises(ValueError, match="more behind"):
        read(Family.ANTHROPIC, {"data": [], "has_more": True})


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
models = st.dictionaries(
    st.sampled_from(["id", "name", "display_name", "displayName", "created", "created_at"]), values
)
lists = st.dictionaries(
    st.sampled_from(["data", "models", "publisherModels", "has_more", "last_id", "nextPageToken"]),
    values | st.lists(models | scalars, max_size=3),
)


@given(family=st.sampled_from(Family), body=(lists | values).map(json.dumps).map(str.encode) | st.binary())
def test_whatever_comes_is_a_page_or_refused(family: Family, body: bytes) -> None:
    try:
        page = read(family, body)
    except ValueError:
        return
    for model in page.models:
        assert isinstance(model.id, str)
        assert model.created is None or model.created > 0
        assert model.display_name is None or model.display_name


@given(
    family=st.sampled_from(Family),
    names=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), unique=True, max_size=6),
)
def test_a_gateway_can_stand_before_a_gateway(family: Family, names: list[str]) -> None:
    entries = [CatalogEntry(f"main/{name}", {}, 1735689600, "main") for name in names]
    body = dialect_of(SPOKEN[family]).render_list(entries, {"limit": "1000", "pageSize": "1000"})
    found = read(family, body)
    assert [model.id for model in found.models] == [entry.id for entry in entries]
    assert found.next_page is None
