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
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import TokenUsage, UsageParts
from mgw.dialects.arguments import NOTHING
from mgw.dialects.billing import NO_VALUE, CostFields, billed_in
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, add_counts, add_outer_reasoning, merge_usage, meter_of
from mgw.dialects.stream_end import StreamEnd
from mgw.dialects.usage_parts import parts_of_place, read_word


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
    """Read where its sum is missing, or something was written."""
    output_tokens_details: _OutputDetails | None = None
    server_tool_use: Raw = NO_VALUE
    service_tier: Raw = NO_VALUE
    speed: Raw = NO_VALUE
    inference_geo: Raw = NO_VALUE


class _ServerToolUse(Struct, frozen=True):
    web_search_requests: Count | None = None


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
_TOOL_USE_DECODER: Final = Decoder(_ServerToolUse, strict=False)
_DOCUMENT_DECODER: Final = Decoder(_Document, strict=False)
_NULL: Final = Raw(b"null")
_FAST: Final = Raw(b'"fast"')
"""The value of ``speed`` that has prices of its own; its requests have a service tier beside it."""


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
    created, hour = usage.cache_creation_input_tokens, None
    if created != 0 and usage.cache_creation is not NOTHING:
        five_minutes, hour = _parse_creation(usage.cache_creation)
        created = add_counts(five_minutes, hour) if created is None else created
    cache_write = before.cache_write if created is None else created
    uncached = _uncached(before) if usage.input_tokens is None else usage.input_tokens
    thinking = usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else None
    tier = usage.speed if usage.speed == _FAST else usage.service_tier
    parts = parts_of_place(bytes(usage.inference_geo)) if usage.inference_geo else None
    if hour or (usage.server_tool_use and usage.server_tool_use != _NULL):
        parts = _complete_parts(parts, usage.server_tool_use, hour)
    return merge_usage(
        before,
        TokenUsage(
            None if uncached is None else add_counts(uncached, cache_read, cache_write),
            add_outer_reasoning(usage.output_tokens, thinking),
            cache_read,
            cache_write,
            thinking,
            billed_in(usage) if usage.cost or usage.cost_in_usd_ticks else None,
            parts,
            read_word(bytes(tier)) if tier else None,
        ),
    )


def _parse_creation(raw: Raw) -> tuple[int | None, int | None]:
    """Return what was written to the cache for five minutes, and for an hour."""
    try:
        creation = _CREATION_DECODER.decode(raw)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None, None
    return creation.ephemeral_5m_input_tokens, creation.ephemeral_1h_input_tokens


def _complete_parts(place: UsageParts | None, tool_use: Raw, hour: int | None) -> UsageParts | None:
    searches = _read_searches(tool_use) if tool_use else None
    if not hour and searches is None:
        return place
    return replace(place or UsageParts(), cache_write_1h=hour, searches=searches)


def _read_searches(raw: Raw) -> int | None:
    try:
        return _TOOL_USE_DECODER.decode(raw).web_search_requests
    except (MsgspecError, UnicodeDecodeError, RecursionError):  # null is none, either
        return None


def _uncached(usage: TokenUsage) -> int | None:
    """Return the input tokens that were neither read from nor written to the cache."""
    if usage.tokens_in is None:
        return None
    return usage.tokens_in - (usage.cache_read or 0) - (usage.cache_write or 0)
