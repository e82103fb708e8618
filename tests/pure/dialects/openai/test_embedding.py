"""Embeddings, as OpenAI's clients ask for them and read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib._parsing._embeddings import parse_embedding_response, prepare_embedding_request
from openai.types import CreateEmbeddingResponse, Embedding

from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Parsed, ReplyContext, RequestContext
from mgw.dialects.openai.embedding import (
    MAX_INPUTS,
    MAX_TITLE_CHARS,
    EmbeddingReplyOptions,
    parse_request,
    render_reply,
)
from mgw.nouns.errors import GatewayError, Reason

CONTEXT = RequestContext("m")


def parsed(
    **fields: Any,
) -> tuple[EmbeddingRequest, Parsed[EmbeddingRequest]]:  # Any: JSON as a client writes it
    found = parse_request(json.dumps({"model": "m", **fields}).encode(), CONTEXT)
    return found.request, found


def refused(**fields: Any) -> GatewayError:  # Any: as above
    with pytest.raises(GatewayError) as caught:
        parsed(**fields)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def test_one_text_and_several_are_told_apart() -> None:
    assert parsed(input="a")[0] == EmbeddingRequest(("a",), single=True)
    assert parsed(input=["a"])[0] == EmbeddingRequest(("a",))


def test_everything_is_taken_or_reported() -> None:
    asked, found = parsed(
        input=["a", "b"],
        dimensions=8,
        task_type="RETRIEVAL_QUERY",
        title="t",
        encoding_format="float",
        user="u",
    )
    assert asked == EmbeddingRequest(("a", "b"), dimensions=8, task_type="RETRIEVAL_QUERY", title="t")
    assert found.unread == {"user"}
    assert set(found.said) == {Feature.DIMENSIONS, Feature.TASK_TYPE, Feature.EMBEDDING_TITLE}


@pytest.mark.parametrize("tokens", [[1, 2], [[1, 2], [3]], ["a", 1]], ids=["one", "several", "mixed"])
def test_tokens_are_refused_in_so_many_words(tokens: object) -> None:
    assert "tokens cannot be translated" in refused(input=tokens).message


def test_what_the_sdk_asks_for_by_itself_is_base64() -> None:
    """The SDK would read floats, too, but its request states base64 as if the user had."""
    sent = prepare_embedding_request(None, {"model": "m", "input": "a"}, encoding_format=omit).body
    found = parse_request(json.dumps(sent).encode(), CONTEXT)
    assert found.request == EmbeddingRequest(("a",), single=True)
    assert EmbeddingReplyOptions.of(found.reply_options).base64_vectors


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), max_size=4), min_size=1, max_size=3))
def test_the_sdk_reads_the_same_numbers_in_base64(vectors: list[list[float]]) -> None:
    reply = EmbeddingReply(tuple(map(tuple, vectors)))
    body = render_reply(reply, ReplyContext("r", "m", 0, EmbeddingReplyOptions(base64_vectors=True)))
    sent = CreateEmbeddingResponse.model_construct(**json.loads(body))
    assert all(type(one["embedding"]) is str for one in json.loads(body)["data"])
    sent.data = [Embedding.model_construct(**one) for one in json.loads(body)["data"]]
    found = parse_embedding_response(sent, encoding_format=omit)
    assert [one.embedding for one in found.data] == vectors


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "task_type": 5}, "task_type"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:  # Any: as above
    assert refused(**fields).param == param


def test_the_answer_is_the_sdks() -> None:
    body = render_reply(EmbeddingReply(((0.5, 1.0), (2.0, 3.0)), TokenUsage(7)), ReplyContext("r", "m", 0))
    found = CreateEmbeddingResponse.model_validate_json(body, strict=True)
    assert [one.embedding for one in found.data] == [[0.5, 1.0], [2.0, 3.0]]
    assert [one.index for one in found.data] == [0, 1]
    assert (found.model, found.usage.prompt_tokens, found.usage.total_tokens) == ("m", 7, 7)


def test_no_more_texts_are_taken_than_openai_takes() -> None:
    assert len(parsed(input=["a"] * MAX_INPUTS)[0].inputs) == MAX_INPUTS
    error = refused(input=["a"] * (MAX_INPUTS + 1))
    assert error.param == "input"
    assert str(MAX_INPUTS) in error.message


@pytest.mark.parametrize("key", ["title", "task_type"])
def test_what_goes_with_each_text_is_short(key: str) -> None:
    assert refused(input="a", **{key: "x" * (MAX_TITLE_CHARS + 1)}).param == key
