"""Token counts of the Messages API, both ways, and the meter that reads them from passing bytes.

Sources: the SDK's ``Usage``, ``MessageDeltaUsage``, ``BetaUsage`` and ``MessageTokensCount``.
``input_tokens`` excludes what was read from and written to the cache, where the canonical form includes it.
A stream has the input in ``message_start`` and cumulative counts in ``message_delta``; one that is missing
keeps its earlier value.  ``count_tokens`` has ``input_tokens`` at the top.  ``iterations`` are not read:
their ``message`` entries break the same totals down, and what a ``compaction`` entry counts is not part of
the top-level totals, which alone are metered.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import TokenUsage
from mgw.dialects.arguments import NOTHING
from mgw.dialects.billing import CostFields, billed_in
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, add_counts, add_outer_reasoning, merge_usage, meter_of
from mgw.dialects.stream_end import StreamEnd


class _OutputDetails(Struct, frozen=True):
    thinking_tokens: Count | None = None


class _CacheCreation(Struct, frozen=True):
    """What was written to the cache, by how long it is kept."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class _Usage(CostFields, frozen=True):
    """The ``usage`` of a message, or of a ``message_delta``."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: Raw = NOTHING
    """Read where its sum is missing."""
    output_tokens_details: _OutputDetails | None = None


class _Message(Struct, frozen=True):
    usage: _Usage | None = None


class _Document(Struct, frozen=True):
    usage: _Usage | None = None
    """The usage of a message, or of a ``message_delta``."""
    message: _Message | None = None
    """The message of a ``message_start``."""
    input_tokens: Count | None = None
    """The response of a token count."""


_USAGE_DECODER: Final = Decoder(_Usage, strict=False)
_CREATION_DECODER: Final = Decoder(_CacheCreation, strict=False)
_DOCUMENT_DECODER: Final = Decoder(_Document, strict=False)


def parse_usage(raw: Raw, before: TokenUsage) -> TokenUsage:
    """Return what is known after a ``usage`` object; one that cannot be read changes nothing."""
    try:
        return _update(before, _USAGE_DECODER.decode(raw))
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return before


def render_usage(usage: TokenUsage) -> JsonObject:
    """Return a message's ``usage``; unknown counts are 0, since clients add these fields up."""
    rendered: JsonObject = {
        "input_tokens": max(_uncached(usage) or 0, 0),
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.tokens_out or 0,
    }
    if usage.reasoning is not None:
        thinking_tokens = min(usage.reasoning, rendered["output_tokens"])
        rendered["output_tokens_details"] = {"thinking_tokens": thinking_tokens}
    return rendered


def meter(content_type: bytes, end: StreamEnd | None = None) -> Meter:
    """Return a fresh meter for a response of ``content_type``, which shows its events to ``end``."""
    return meter_of(content_type, read_usage, end)


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``."""
    found = _DOCUMENT_DECODER.decode(document)
    usage = found.usage or (found.message.usage if found.message else None)
    if usage is None:
        return before if found.input_tokens is None else merge_usage(before, TokenUsage(found.input_tokens))
    return _update(before, usage)


def _update(before: TokenUsage, usage: _Usage) -> TokenUsage:
    """Return what is known after ``usage``; each count in it replaces the earlier one."""
    cache_read = before.cache_read if usage.cache_read_input_tokens is None else usage.cache_read_input_tokens
    created = usage.cache_creation_input_tokens
    if created is None and usage.cache_creation is not NOTHING:
        created = _parse_creation(usage.cache_creation)
    cache_write = before.cache_write if created is None else created
    uncached = _uncached(before) if usage.input_tokens is None else usage.input_tokens
    thinking = usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else None
    return merge_usage(
        before,
        TokenUsage(
            None if uncached is None else add_counts(uncached, cache_read, cache_write),
            add_outer_reasoning(usage.output_tokens, thinking),
            cache_read,
            cache_write,
            thinking,
            billed_in(usage) if usage.cost or usage.cost_in_usd_ticks else None,
        ),
    )


def _parse_creation(raw: Raw) -> int | None:
    try:
        creation = _CREATION_DECODER.decode(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return add_counts(creation.ephemeral_5m_input_tokens, creation.ephemeral_1h_input_tokens)


def _uncached(usage: TokenUsage) -> int | None:
    """Return the input tokens that were neither read from nor written to the cache."""
    if usage.tokens_in is None:
        return None
    return usage.tokens_in - (usage.cache_read or 0) - (usage.cache_write or 0)
