"""Embeddings, rendered of Google: ``embedContent`` for one text, ``batchEmbedContents`` for several.

``gemini-embedding-2`` has no task types: its reference wants the task within the text, in the words that
stand here.  ``title`` goes with documents to be retrieved only.

Sources: https://ai.google.dev/gemini-api/docs/embeddings; ``_EmbedContentConfig_to_mldev`` of google-genai
3.4.
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


class _EmbedResponse(Struct, frozen=True, rename="camel"):
    embedding: _Embedding | None = None
    embeddings: tuple[_Embedding, ...] | None = None
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
    requests = [_render_text(text, request, options, lost) for text in request.inputs]
    if request.single and len(requests) == 1:
        method, body = b"embedContent", requests[0]
    else:
        method, body = b"batchEmbedContents", {"requests": requests}
    return Rendered(render_target(options.model, method), encode_body(body), _CARRIED, frozenset(lost))


def _render_text(
    text: str, request: EmbeddingRequest, options: RenderOptions, lost: set[Feature]
) -> JsonObject:
    task = request.task_type.upper() if request.task_type else None
    title = request.title if task in {None, _DOCUMENT} else None
    if request.title is not None and title is None:
        lost.add(Feature.EMBEDDING_TITLE)
    rendered: JsonObject = {"model": render_model(options.model)}
    if bare_model(options.model).startswith(_TASK_IN_TEXT):
        rendered["content"] = {"parts": [{"text": _add_task(text, task, title, lost)}]}
    else:
        rendered["content"] = {"parts": [{"text": text}]}
        if task is not None:
            rendered["taskType"] = task
        if title is not None:
            rendered["title"] = title
            rendered["taskType"] = _DOCUMENT
    if request.dimensions is not None:
        rendered["outputDimensionality"] = request.dimensions
    return rendered


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
