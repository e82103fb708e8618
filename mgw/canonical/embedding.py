"""Embeddings, independent of their wire format."""

from __future__ import annotations

from msgspec import Struct

from mgw.canonical.reply import NO_USAGE, TokenUsage


class EmbeddingRequest(Struct, frozen=True):
    """Texts to be turned into vectors."""

    inputs: tuple[str, ...]
    single: bool = False
    """The client sent one text and no list."""
    dimensions: int | None = None
    task_type: str | None = None
    """Google's word for what the vectors are for (``RETRIEVAL_QUERY``)."""
    title: str | None = None


class EmbeddingReply(Struct, frozen=True):
    """The vectors, in the order of the inputs."""

    vectors: tuple[tuple[float, ...], ...]
    usage: TokenUsage = NO_USAGE
