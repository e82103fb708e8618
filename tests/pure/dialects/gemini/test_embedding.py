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


def rendered(request: EmbeddingRequest, model: str = OLD) -> Rendered:
    return PROVIDER.render_request(
        request, RenderOptions(model, Kind.GEMINI, ModelRow("*", Family.GEMINI, "x"))
    )


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


@pytest.mark.parametrize(
    ("body", "reply"),
    [
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


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"embeddings":[{"values":["x"]}]}'])
def test_what_holds_no_vectors_is_broken(body: bytes) -> None:
    with pytest.raises(GatewayError):
        PROVIDER.parse_reply(body, ReplySource("seed"))


def test_nothing_to_embed_is_refused() -> None:
    with pytest.raises(GatewayError):
        rendered(EmbeddingRequest(()))
