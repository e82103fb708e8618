"""Token counts of this wire, both ways.

Sources: the SDK's ``Usage`` and ``MessageDeltaUsage``.  ``input_tokens`` excludes what was read from and
written to the cache, where the canonical form includes it; counts in a stream are cumulative, and one that
is missing keeps its earlier value.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import TokenUsage
from mgw.dialects.arguments import NOTHING
from mgw.dialects.metering import Count, total, updated


class OutDetails(Struct, frozen=True):
    """What output tokens went into."""

    thinking_tokens: Count | None = None


class CacheCreation(Struct, frozen=True):
    """What was written to the cache, by how long it is kept."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class Usage(Struct, frozen=True):
    """The ``usage`` of a message, or of a ``message_delta``."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: Raw = NOTHING
    """Read where the sum of it is not told."""
    output_tokens_details: OutDetails | None = None


_DECODER: Final = Decoder(Usage, strict=False)
_CREATION_DECODER: Final = Decoder(CacheCreation, strict=False)


def counted(usage: Usage, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``usage``; each count that it says replaces the earlier one."""
    cache_read = before.cache_read if usage.cache_read_input_tokens is None else usage.cache_read_input_tokens
    written = usage.cache_creation_input_tokens
    if written is None and usage.cache_creation is not NOTHING:
        written = _written(usage.cache_creation)
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


def _written(raw: Raw) -> int | None:
    try:
        found = _CREATION_DECODER.decode(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return total(found.ephemeral_5m_input_tokens, found.ephemeral_1h_input_tokens)


def read(raw: Raw, before: TokenUsage) -> TokenUsage:
    """Return what is known after a ``usage`` as it stands in the wire; what cannot be read says nothing."""
    try:
        return counted(_DECODER.decode(raw), before)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return before


def rendered(usage: TokenUsage) -> JsonObject:
    """Return a message's ``usage``; unknown counts are 0, since clients add these fields up."""
    found: JsonObject = {
        "input_tokens": max(_uncached(usage) or 0, 0),
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.tokens_out or 0,
    }
    if usage.reasoning is not None:
        found["output_tokens_details"] = {"thinking_tokens": min(usage.reasoning, found["output_tokens"])}
    return found


def _uncached(known: TokenUsage) -> int | None:
    """Return the input tokens that were neither read from nor written to the cache."""
    if known.tokens_in is None:
        return None
    return known.tokens_in - (known.cache_read or 0) - (known.cache_write or 0)
