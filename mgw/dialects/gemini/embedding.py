"""Embeddings, rendered of Google: ``embedContent`` for one text, ``batchEmbedContents`` for several.

``gemini-embedding-2`` has no task types: its reference wants the task within the text, in the words that
stand here.  ``title`` goes with documents to be retrieved only.

On Vertex AI the methods name no model again, and have the options in ``embedContentConfig``.  Its older
models have ``predict`` for any number of texts, and say of each how many tokens it has.

Sources: https://ai.google.dev/gemini-api/docs/embeddings; ``_EmbedContentConfig_to_mldev`` and
``_EmbedContentConfig_to_vertex`` of google-genai 3.6, and its ``t_is_vertex_embed_content_model``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import ProviderOperation, Rendered, RenderOptions, ReplySource
from mgw.dialects.gemini.request import encode_body, render_model, render_target
from mgw.dialects.gemini.usage import parse_usage
from mgw.dialects.models import bare_model
from mgw.nouns.errors import GatewayError, Reason

_DOCUMENT: Final = "RETRIEVAL_DOCUMENT"
_CARRIED: Final = frozenset({Feature.DIMENSIONS, Feature.TASK_TYPE, Feature.EMBEDDING_TITLE})
_TASK_IN_TEXT: Final = "gemini-embedding-2"
_NEWER_ON_VERTEX: Final = ("gemini", "maas")
"""Stand in the ids of the models that Vertex AI has the methods of the Gemini API for."""
_TASKS: Final = MappingProxyType(
    {
        "RETRIEVAL_QUERY": "search result",
        "QUESTION_ANSWERING": "question context",
        "FACT_VERIFICATION": "fact checking",
        "CODE_RETRIEVAL_QUERY": "code retrieval",
        "CLASSIFICATION": "classification",
        "CLUSTERING": "clustering",
        "SEMANTIC_SIMILARITY": "sentence similarity",
    }
)


class _Embedding(Struct, frozen=True):
    values: tuple[float, ...] = ()


class _Statistics(Struct, frozen=True):
    token_count: int = 0


class _CountedEmbedding(_Embedding, frozen=True):
    statistics: _Statistics = _Statistics()


class _Prediction(Struct, frozen=True):
    embeddings: _CountedEmbedding


class _EmbedResponse(Struct, frozen=True, rename="camel"):
    embedding: _Embedding | None = None
    embeddings: tuple[_Embedding, ...] | None = None
    predictions: tuple[_Prediction, ...] = ()
    usage_metadata: Raw = Raw(b"null")


_DECODER: Final = Decoder(_EmbedResponse, strict=False)


def parse_reply(body: bytes, source: ReplySource) -> EmbeddingReply:  # noqa: ARG001 - it has no identifiers
    """Return the vectors.

    :raises GatewayError: ``UPSTREAM_BROKEN`` where there are none.
    """
    try:
        found = _DECODER.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        found = _EmbedResponse()
    if found.predictions:
        counted = [prediction.embeddings for prediction in found.predictions]
        tokens = sum(one.statistics.token_count for one in counted) or None
        return EmbeddingReply(tuple([one.values for one in counted]), TokenUsage(tokens))
    vectors = found.embeddings or ((found.embedding,) if found.embedding is not None else ())
    if not vectors:
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the provider's response has no embeddings")
    usage = TokenUsage(parse_usage(bytes(found.usage_metadata)).tokens_in)
    return EmbeddingReply(tuple(vector.values for vector in vectors), usage)


def render_request(request: EmbeddingRequest, options: RenderOptions) -> Rendered:
    """Return the request to Google.

    :raises GatewayError: ``MALFORMED`` where there is nothing to embed.
    """
    if not request.inputs:
        raise GatewayError(Reason.MALFORMED, "no text to embed", param="input")
    lost: set[Feature] = set()
    if options.on_vertex:
        is_newer = any(word in options.model for word in _NEWER_ON_VERTEX)
        method, body = (_render_newer if is_newer else _render_prediction)(request, options, lost)
        return Rendered(render_target(options.model, method), encode_body(body), _CARRIED, frozenset(lost))
    requests = [_render_text(text, request, options, lost) for text in request.inputs]
    if request.single and len(requests) == 1:
        method, body = b"embedContent", requests[0]
    else:
        method, body = b"batchEmbedContents", {"requests": requests}
    return Rendered(render_target(options.model, method), encode_body(body), _CARRIED, frozenset(lost))


def _render_newer(
    request: EmbeddingRequest, options: RenderOptions, lost: set[Feature]
) -> tuple[bytes, JsonObject]:
    """Return the method and the body for the newer models on Vertex AI."""
    requests: list[JsonObject] = []
    for text in request.inputs:
        content, config = _render_parts(text, request, options, lost)
        requests.append(
            {"content": content, "embedContentConfig": config} if config else {"content": content}
        )
    if len(requests) == 1:
        return b"embedContent", requests[0]
    return b"batchEmbedContents", {"requests": requests}


def _render_prediction(
    request: EmbeddingRequest, _: RenderOptions, lost: set[Feature]
) -> tuple[bytes, JsonObject]:
    """Return the method and the body for the older models on Vertex AI."""
    task, title = _purpose(request, lost)
    purpose: JsonObject = {} if task is None else {"task_type": task}
    if title is not None:
        purpose["title"] = title
    body: JsonObject = {"instances": [{"content": text, **purpose} for text in request.inputs]}
    if request.dimensions is not None:
        body["parameters"] = {"outputDimensionality": request.dimensions}
    return b"predict", body


def _render_text(
    text: str, request: EmbeddingRequest, options: RenderOptions, lost: set[Feature]
) -> JsonObject:
    content, config = _render_parts(text, request, options, lost)
    return {"model": render_model(options.model), "content": content, **config}


def _render_parts(
    text: str, request: EmbeddingRequest, options: RenderOptions, lost: set[Feature]
) -> tuple[JsonObject, JsonObject]:
    """Return the content that is embedded, and how that is done."""
    config: JsonObject = {}
    if bare_model(options.model).startswith(_TASK_IN_TEXT):
        task, title = _purpose(request, lost, implied=False)
        text = _add_task(text, task, title, lost)
    else:
        task, title = _purpose(request, lost)
        if task is not None:
            config["taskType"] = task
        if title is not None:
            config["title"] = title
    if request.dimensions is not None:
        config["outputDimensionality"] = request.dimensions
    return {"parts": [{"text": text}]}, config


def _purpose(
    request: EmbeddingRequest, lost: set[Feature], *, implied: bool = True
) -> tuple[str | None, str | None]:
    """Return the task and the title, which goes with documents alone.

    :param implied: whether a title without a task makes a document.
    """
    task = request.task_type.upper() if request.task_type else None
    title = request.title if task in {None, _DOCUMENT} else None
    if request.title is not None and title is None:
        lost.add(Feature.EMBEDDING_TITLE)
    return _DOCUMENT if implied and title is not None else task, title


def _add_task(text: str, task: str | None, title: str | None, lost: set[Feature]) -> str:
    if task == _DOCUMENT or title is not None:
        return f"title: {title or 'none'} | text: {text}"
    if task is None:
        return text
    task_text = _TASKS.get(task)
    if task_text is None:
        lost.add(Feature.TASK_TYPE)
        return text
    return f"task: {task_text} | query: {text}"


PROVIDER: Final = ProviderOperation(render_request, parse_reply)
"""The providers' side of embeddings."""
