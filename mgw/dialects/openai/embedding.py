"""Embeddings for OpenAI's clients: the request parsed, the vectors rendered.

Sources: the SDK's ``EmbeddingCreateParams`` and ``CreateEmbeddingResponse``; contract 8.25
(``task_type``, and ``float`` only where the request is translated).  OpenAI's SDKs ask for base64 where their
user states no format; the operator decides whether they get it (``translation.base64_embeddings``).
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from typing import Final

from msgspec import Raw, Struct
from msgspec.json import Encoder

from mgw.canonical.embedding import EmbeddingReply, EmbeddingRequest
from mgw.canonical.features import Feature
from mgw.dialects.dialect import (
    ClientOperation,
    Parsed,
    ReplyContext,
    ReplyOptions,
    RequestContext,
    finish_parsing,
)
from mgw.dialects.fields import Fields, Ledger, none_of, open_request
from mgw.dialects.refusal import no_base64

MAX_INPUTS: Final = 2048
"""The most inputs, which OpenAI's reference states for ``input``."""
MAX_TITLE_CHARS: Final = 4096
"""The most characters of a title, or of the name of a task, which go with each input."""
_ENCODER: Final = Encoder()


class EmbeddingReplyOptions(ReplyOptions, frozen=True):
    """How a client wants its vectors written."""

    base64_vectors: bool = False
    """Each as base64 of little-endian float32."""


def parse_request(body: bytes, context: RequestContext) -> Parsed[EmbeddingRequest]:
    """Understand a request.

    :raises GatewayError: ``MALFORMED`` for what is no such request, for tokens in place of texts,
    for an ``encoding_format`` that is neither ``float`` nor ``base64``, and for ``base64`` where the operator
    does not have vectors encoded.
    """
    ledger = Ledger()
    request = open_request(body, ledger)
    request.skip("model")
    inputs, single = _parse_inputs(request)
    encoding_format = request.text("encoding_format")
    if encoding_format not in {None, "float", "base64"}:
        raise none_of(request, "encoding_format", encoding_format or "", ("float", "base64"))
    dimensions = request.integer("dimensions", Feature.DIMENSIONS)
    if dimensions is not None and dimensions < 1:
        raise request.wrong("dimensions", "must be at least 1")
    embedding_request = EmbeddingRequest(
        inputs,
        single,
        dimensions,
        _parse_short_text(request, "task_type", Feature.TASK_TYPE),
        _parse_short_text(request, "title", Feature.EMBEDDING_TITLE),
    )
    is_base64 = encoding_format == "base64"
    if is_base64 and not context.base64_vectors:
        raise no_base64()
    return finish_parsing(embedding_request, ledger, EmbeddingReplyOptions(is_base64))


def _parse_short_text(request: Fields, key: str, feature: Feature) -> str | None:
    value = request.text(key, feature)
    if value is not None and len(value) > MAX_TITLE_CHARS:
        raise request.wrong(key, f"at most {MAX_TITLE_CHARS} characters are allowed")
    return value


def _parse_inputs(request: Fields) -> tuple[tuple[str, ...], bool]:
    value = request.take("input")
    if value is None:
        raise request.missing("input")
    if type(value) is str:
        return (value,), True
    if type(value) is not list:
        raise request.mistyped("input", list, value)
    if not value:
        raise request.wrong("input", "at least one string is required")
    if len(value) > MAX_INPUTS:
        raise request.wrong("input", f"at most {MAX_INPUTS} strings are allowed, found {len(value)}")
    if any(type(item) is not str for item in value):
        raise request.wrong("input", "must be a string or an array of strings; tokens cannot be translated")
    return tuple(value), False


class _Embedding(Struct, frozen=True, kw_only=True):
    object: str = "embedding"
    index: int
    embedding: tuple[float, ...] | str


class _Usage(Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class _List(Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[Raw]
    model: str
    usage: _Usage


def render_reply(reply: EmbeddingReply, context: ReplyContext) -> bytes:
    """Write the vectors as they were asked for; usage, which the SDK demands, is 0 where it is unknown."""
    tokens = reply.usage.tokens_in or 0
    base64 = EmbeddingReplyOptions.of(context.options).base64_vectors
    return _ENCODER.encode(
        _List(
            data=[_render_vector(index, vector, base64=base64) for index, vector in enumerate(reply.vectors)],
            model=context.model,
            usage=_Usage(tokens, tokens),
        )
    )


def _render_vector(index: int, vector: tuple[float, ...], *, base64: bool) -> Raw:
    """Write one vector: all in one call would keep other threads waiting."""
    return Raw(_ENCODER.encode(_Embedding(index=index, embedding=_pack(vector) if base64 else vector)))


def _pack(vector: tuple[float, ...]) -> str:
    """Return a vector as base64 of little-endian float32."""
    packed = array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return b64encode(packed).decode()


CLIENT: Final = ClientOperation(parse_request, render_reply)
"""The clients' side of embeddings."""
