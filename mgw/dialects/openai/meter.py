"""Token counts in the answers of OpenAI's wire.

Sources: the SDK's ``CompletionUsage`` (chat, completions), ``create_embedding_response.Usage`` (embeddings),
``ResponseUsage`` (responses; the names of images, transcriptions and decisions too),
``ResponseCompletedEvent`` and its neighbours (the stream of responses wraps the response),
``InputTokenCountResponse``.  The two vocabularies share no name, so one reader serves all: hosts that mix
them exist.  OpenAI counts cached tokens and reasoning inside the totals, as the canonical convention does.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, meter_of, updated


class _InDetails(Struct, frozen=True):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _OutDetails(Struct, frozen=True):
    reasoning_tokens: Count | None = None


class _Usage(Struct, frozen=True):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _InDetails | None = None
    completion_tokens_details: _OutDetails | None = None
    prompt_cache_hit_tokens: Count | None = None
    """DeepSeek's own name."""
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _InDetails | None = None
    output_tokens_details: _OutDetails | None = None


class _Response(Struct, frozen=True):
    usage: _Usage | None = None


class _Document(Struct, frozen=True):
    usage: _Usage | None = None
    response: _Response | None = None
    """In events of a stream of responses."""
    input_tokens: Count | None = None
    """The answer of a token count."""


_DECODER: Final = Decoder(_Document, strict=False)  # some hosts write 12.0
_NO_IN_DETAILS: Final = _InDetails()
_NO_OUT_DETAILS: Final = _OutDetails()


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``; the last usage wins."""
    found = _DECODER.decode(document)
    usage = found.usage or (found.response.usage if found.response else None)
    if usage is None:
        return before if found.input_tokens is None else updated(before, TokenUsage(found.input_tokens))
    details_in = usage.prompt_tokens_details or usage.input_tokens_details or _NO_IN_DETAILS
    details_out = usage.completion_tokens_details or usage.output_tokens_details or _NO_OUT_DETAILS
    cached = details_in.cached_tokens
    return updated(
        before,
        TokenUsage(
            usage.input_tokens if usage.prompt_tokens is None else usage.prompt_tokens,
            usage.output_tokens if usage.completion_tokens is None else usage.completion_tokens,
            usage.prompt_cache_hit_tokens if cached is None else cached,
            details_in.cache_write_tokens,
            details_out.reasoning_tokens,
        ),
    )


def meter(content_type: bytes) -> Meter:
    """Return a fresh meter for a response of ``content_type``."""
    return meter_of(content_type, read_usage)
