"""Embeddings, as OpenAI's clients ask for them and read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.lib._parsing._embeddings import prepare_embedding_request
from openai.types import CreateEmbeddingResponse

from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.dialects.fields import Ledger
from mgw.dialects.openai.embedding import parse_request, render_reply
from mgw.errors import GatewayError, Reason


def parsed(**fields: Any) -> tuple[EmbeddingRequest, Ledger]:  # Any: JSON as a client writes it
    return parse_request(json.dumps({"model": "m", **fields}).encode())


def refused(**fields: Any) -> GatewayError:  # Any: as above
    with pytest.raises(GatewayError) as caught:
        parsed(**fields)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def test_one_text_and_several_are_told_apart() -> None:
    assert parsed(input="a")[0] == EmbeddingRequest(("a",), single=True)
    assert parsed(input=["a"])[0] == EmbeddingRequest(("a",))


def test_everything_is_taken_or_reported() -> None:
    asked, ledger = parsed(
        input=["a", "b"],
        dimensions=8,
        task_type="RETRIEVAL_QUERY",
        title="t",
        encoding_format="float",
        user="u",
    )
    assert asked == EmbeddingRequest(("a", "b"), dimensions=8, task_type="RETRIEVAL_QUERY", title="t")
    assert ledger.unread() == {"user"}
    assert set(ledger.paths) == {Feature.DIMENSIONS, Feature.TASK_TYPE, Feature.EMBEDDING_TITLE}


@pytest.mark.parametrize("tokens", [[1, 2], [[1, 2], [3]], ["a", 1]], ids=["one", "several", "mixed"])
def test_tokens_are_refused_in_so_many_words(tokens: object) -> None:
    assert "tokens cannot be translated" in refused(input=tokens).message


def test_what_the_sdk_asks_for_by_itself_is_refused_with_the_way_out() -> None:
    """The SDK would read floats, too, but its request states base64 as if the user had."""
    from openai import omit

    sent = prepare_embedding_request(None, {"model": "m", "input": "a"}, encoding_format=omit).body
    with pytest.raises(GatewayError) as caught:
        parse_request(json.dumps(sent).encode())
    assert caught.value.param == "encoding_format"
    assert 'encoding_format="float"' in caught.value.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "task_type": 5}, "task_type"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:  # Any: as above
    assert refused(**fields).param == param


def test_the_answer_is_the_sdks() -> None:
    body = render_reply(EmbeddingReply(((0.5, 1.0), (2.0, 3.0)), 7), "m")
    found = CreateEmbeddingResponse.model_validate_json(body, strict=True)
    assert [one.embedding for one in found.data] == [[0.5, 1.0], [2.0, 3.0]]
    assert [one.index for one in found.data] == [0, 1]
    assert (found.model, found.usage.prompt_tokens, found.usage.total_tokens) == ("m", 7, 7)
