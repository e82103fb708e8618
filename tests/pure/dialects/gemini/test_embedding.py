"""Embeddings, asked of Google."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Rendered, RenderOptions, ReplySource
from mgw.dialects.gemini.embedding import PROVIDER
from mgw.nouns.errors import GatewayError
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

OLD: Final = "gemini-embedding-001"
NEW: Final = "gemini-embedding-2-preview"


def rendered(request: EmbeddingRequest, model: str = OLD, *, on_vertex: bool = False) -> Rendered:
    row = ModelRow("*", Family.GEMINI, "x")
    return PROVIDER.render_request(request, RenderOptions(model, Kind.GEMINI, row, on_vertex=on_vertex))


def test_one_text_is_embedded_alone() -> None:
    found = rendered(EmbeddingRequest(("a",), single=True, dimensions=8, task_type="retrieval_query"))
    assert found.target == b"/models/gemini-embedding-001:embedContent"
    assert json.loads(found.body) == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "a"}]},
        "taskType": "RETRIEVAL_QUERY",
        "outputDimensionality": 8,
    }


def test_a_list_is_a_batch_that_names_the_model_again() -> None:
    found = rendered(EmbeddingRequest(("a", "b")), "models/" + OLD)
    assert found.target == b"/models/gemini-embedding-001:batchEmbedContents"
    assert json.loads(found.body) == {
        "requests": [
            {"model": "models/gemini-embedding-001", "content": {"parts": [{"text": text}]}} for text in "ab"
        ]
    }


def test_a_title_makes_a_document_and_goes_with_nothing_else() -> None:
    titled = json.loads(rendered(EmbeddingRequest(("a",), single=True, title="t")).body)
    assert (titled["title"], titled["taskType"]) == ("t", "RETRIEVAL_DOCUMENT")
    other = rendered(EmbeddingRequest(("a",), single=True, title="t", task_type="CLUSTERING"))
    assert "title" not in json.loads(other.body)
    assert other.lost == {Feature.EMBEDDING_TITLE}


@pytest.mark.parametrize(
    ("fields", "text", "lost"),
    [
        ({}, "a", set()),
        ({"task_type": "RETRIEVAL_QUERY"}, "task: search result | query: a", set()),
        ({"task_type": "SEMANTIC_SIMILARITY"}, "task: sentence similarity | query: a", set()),
        ({"task_type": "RETRIEVAL_DOCUMENT"}, "title: none | text: a", set()),
        ({"title": "t"}, "title: t | text: a", set()),
        ({"task_type": "UNHEARD_OF"}, "a", {Feature.TASK_TYPE}),
    ],
)
def test_the_second_model_is_told_its_task_in_the_text(
    fields: dict[str, Any], text: str, lost: set[Feature]
) -> None:
    found = rendered(EmbeddingRequest(("a",), single=True, **fields), NEW)
    body = json.loads(found.body)
    assert body == {"model": f"models/{NEW}", "content": {"parts": [{"text": text}]}}
    assert found.lost == lost


def on_vertex(request: EmbeddingRequest, model: str) -> tuple[str, Any, frozenset[Feature]]:
    """The method, the body, and what was lost."""
    found = rendered(request, model, on_vertex=True)
    prefix, _, method = found.target.decode().partition(":")
    assert prefix == f"/models/{model}"
    return method, json.loads(found.body), found.lost


def content(text: str) -> Any:
    return {"parts": [{"text": text}]}


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({}, None),
        ({"dimensions": 8}, {"outputDimensionality": 8}),
        ({"task_type": "clustering"}, {"taskType": "CLUSTERING"}),
        ({"title": "t"}, {"taskType": "RETRIEVAL_DOCUMENT", "title": "t"}),
    ],
)
@pytest.mark.parametrize("model", [OLD, "multilingual-e5-large-instruct-maas"])
def test_vertex_has_the_options_of_its_newer_models_in_a_part_of_their_own(
    fields: dict[str, Any], config: Any, model: str
) -> None:
    def one(text: str) -> Any:
        return {"content": content(text)} | ({} if config is None else {"embedContentConfig": config})

    assert on_vertex(EmbeddingRequest(("a",), single=True, **fields), model) == (
        "embedContent",
        one("a"),
        frozenset(),
    )
    assert on_vertex(EmbeddingRequest(("a",), **fields), model)[0] == "embedContent"
    assert on_vertex(EmbeddingRequest(("a", "b"), **fields), model)[:2] == (
        "batchEmbedContents",
        {"requests": [one("a"), one("b")]},
    )


def test_the_second_model_is_told_its_task_in_the_text_on_vertex_too() -> None:
    method, body, _ = on_vertex(EmbeddingRequest(("a",), task_type="RETRIEVAL_QUERY", dimensions=8), NEW)
    text = "task: search result | query: a"
    assert (method, body) == (
        "embedContent",
        {"content": content(text), "embedContentConfig": {"outputDimensionality": 8}},
    )


@pytest.mark.parametrize(
    ("fields", "purpose", "parameters", "lost"),
    [
        ({}, {}, None, set()),
        ({"dimensions": 8}, {}, {"outputDimensionality": 8}, set()),
        ({"task_type": "clustering"}, {"task_type": "CLUSTERING"}, None, set()),
        ({"title": "t"}, {"task_type": "RETRIEVAL_DOCUMENT", "title": "t"}, None, set()),
        (
            {"title": "t", "task_type": "CLUSTERING"},
            {"task_type": "CLUSTERING"},
            None,
            {Feature.EMBEDDING_TITLE},
        ),
    ],
)
def test_the_older_models_on_vertex_predict(
    fields: dict[str, Any], purpose: Any, parameters: Any, lost: set[Feature]
) -> None:
    for texts in (("a",), ("a", "b")):
        expected: Any = {"instances": [{"content": text, **purpose} for text in texts]}
        if parameters is not None:
            expected["parameters"] = parameters
        request = EmbeddingRequest(texts, single=len(texts) == 1, **fields)
        assert on_vertex(request, "text-embedding-005") == ("predict", expected, frozenset(lost))


def predicted(*counts: Any) -> Any:
    return {
        "predictions": [
            {"embeddings": {"values": [0.5], **({} if count is None else {"statistics": count})}}
            for count in counts
        ]
    }


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (
            predicted({"token_count": 3, "truncated": False}, {"token_count": 4.0}),
            EmbeddingReply(((0.5,), (0.5,)), TokenUsage(7)),
        ),
        (predicted(None, {"truncated": True}), EmbeddingReply(((0.5,), (0.5,)))),
        ({"embedding": {"values": [0.5, 1]}}, EmbeddingReply(((0.5, 1.0),))),
        (
            {
                "embeddings": [{"values": [0.5]}, {"values": [1.5]}],
                "usageMetadata": {"promptTokenCount": 3},
            },
            EmbeddingReply(((0.5,), (1.5,)), TokenUsage(3)),
        ),
    ],
)
def test_vectors_are_read(body: Any, reply: EmbeddingReply) -> None:
    assert PROVIDER.parse_reply(json.dumps(body).encode(), ReplySource("seed")) == reply


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"embeddings":[{"values":["x"]}]}',
        b'{"predictions":[{"x":1}]}',
        b'{"predictions":[]}',
    ],
)
def test_what_holds_no_vectors_is_broken(body: bytes) -> None:
    with pytest.raises(GatewayError):
        PROVIDER.parse_reply(body, ReplySource("seed"))


def test_nothing_to_embed_is_refused() -> None:
    with pytest.raises(GatewayError):
        rendered(EmbeddingRequest(()))
