"""Token counts in the answers of Anthropic's wire.

Sources: the SDK's ``Usage``, ``MessageDeltaUsage`` and ``MessageTokensCount``.  Three things are this wire's
own: ``input_tokens`` excludes what was read from and written to the cache; the stream says its input in
``message_start`` and cumulative counts in ``message_delta``, where a missing field keeps the earlier value;
and ``count_tokens`` answers ``input_tokens`` at the top.  ``iterations`` break the same totals down and are
not read.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, meter_of, total, updated


class _OutDetails(Struct, frozen=True):
    thinking_tokens: Count | None = None


class _Usage(Struct, frozen=True):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens_details: _OutDetails | None = None


class _Message(Struct, frozen=True):
    usage: _Usage | None = None


class _Document(Struct, frozen=True):
    usage: _Usage | None = None
    """Of a message, or of a ``message_delta``."""
    message: _Message | None = None
    """Of a ``message_start``."""
    input_tokens: Count | None = None
    """The answer of a token count."""


_DECODER: Final = Decoder(_Document, strict=False)


def _uncached(known: TokenUsage) -> int | None:
    """Return the input tokens that were neither read from nor written to the cache."""
    if known.tokens_in is None:
        return None
    return known.tokens_in - (known.cache_read or 0) - (known.cache_write or 0)


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``; each count that it says replaces the earlier one."""
    found = _DECODER.decode(document)
    usage = found.usage or (found.message.usage if found.message else None)
    if usage is None:
        return before if found.input_tokens is None else updated(before, TokenUsage(found.input_tokens))
    cache_read = before.cache_read if usage.cache_read_input_tokens is None else usage.cache_read_input_tokens
    written = usage.cache_creation_input_tokens
    cache_write = before.cache_write if written is None else written
    uncached = _uncached(before) if usage.input_tokens is None else usage.input_tokens
    return updated(
        before,
        TokenUsage(
            None if uncached is None else total(uncached, cache_read, cache_write),
            usage.output_tokens,
            cache_read,
            cache_write,
            usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else None,
        ),
    )


def meter(content_type: bytes) -> Meter:
    """Return a fresh meter for a response of ``content_type``."""
    return meter_of(content_type, read_usage)
