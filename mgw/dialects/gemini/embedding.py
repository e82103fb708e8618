"""Embeddings, asked of Google: ``embedContent`` for one text, ``batchEmbedContents`` for several.

``gemini-embedding-2`` has no task types: its reference wants the task told in the text, in the words that
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
from mgw.dialects.gemini.render import encoded, model_path, target_of
from mgw.dialects.gemini.usage import usage_of
from mgw.dialects.models import bare_model
from mgw.errors import GatewayError, Reason

_DOCUMENT: Final = "RETRIEVAL_DOCUMENT"
_CARRIED: Final = frozenset({Feature.DIMENSIONS, Feature.TASK_TYPE, Feature.EMBEDDING_TITLE})
_TOLD_IN_TEXT: Final = "gemini-embedding-2"
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


class _Vector(Struct, frozen=True):
    values: tuple[float, ...] = ()


class _Answer(Struct, frozen=True, rename="camel"):
    embedding: _Vector | None = None
    embeddings: tuple[_Vector, ...] | None = None
    usage_metadata: Raw = Raw(b"null")


_DECODER: Final = Decoder(_Answer, strict=False)


def render_request(request: EmbeddingRequest, options: RenderOptions) -> Rendered:
    """Return the request to Google.

    Raises: :class:`GatewayError` (``MALFORMED``) where there is nothing to embed.
    """
    if not request.inputs:
        raise GatewayError(Reason.MALFORMED, "there is no text to embed", param="input")
    lost: set[Feature] = set()
    asked = [_asked(text, request, options, lost) for text in request.inputs]
    if request.single and len(asked) == 1:
        method, body = b"embedContent", asked[0]
    else:
        method, body = b"batchEmbedContents", {"requests": asked}
    return Rendered(target_of(options.model, method), encoded(body), _CARRIED, frozenset(lost))


def parse_reply(body: bytes, source: ReplySource) -> EmbeddingReply:  # noqa: ARG001 - it has no identifiers
    """Return the vectors.

    Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where there are none.
    """
    try:
        found = _DECODER.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        found = _Answer()
    vectors = found.embeddings or ((found.embedding,) if found.embedding is not None else ())
    if not vectors:
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the provider's response has no embeddings")
    usage = TokenUsage(usage_of(bytes(found.usage_metadata)).tokens_in)
    return EmbeddingReply(tuple(vector.values for vector in vectors), usage)


def _asked(text: str, request: EmbeddingRequest, options: RenderOptions, lost: set[Feature]) -> JsonObject:
    task = request.task_type.upper() if request.task_type else None
    title = request.title if task in {None, _DOCUMENT} else None
    if request.title is not None and title is None:
        lost.add(Feature.EMBEDDING_TITLE)
    asked: JsonObject = {"model": model_path(options.model)}
    if bare_model(options.model).startswith(_TOLD_IN_TEXT):
        asked["content"] = {"parts": [{"text": _with_task(text, task, title, lost)}]}
    else:
        asked["content"] = {"parts": [{"text": text}]}
        if task is not None:
            asked["taskType"] = task
        if title is not None:
            asked["title"] = title
            asked["taskType"] = _DOCUMENT
    if request.dimensions is not None:
        asked["outputDimensionality"] = request.dimensions
    return asked


def _with_task(text: str, task: str | None, title: str | None, lost: set[Feature]) -> str:
    if task == _DOCUMENT or title is not None:
        return f"title: {title or 'none'} | text: {text}"
    if task is None:
        return text
    told = _TASKS.get(task)
    if told is None:
        lost.add(Feature.TASK_TYPE)
        return text
    return f"task: {told} | query: {text}"


PROVIDER: Final = ProviderOperation(render_request, parse_reply)
"""The providers' side of embeddings."""
