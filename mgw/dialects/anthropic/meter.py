"""Token counts in the answers of Anthropic's wire.

Sources: the SDK's ``Usage``, ``MessageDeltaUsage``, ``BetaUsage`` and ``MessageTokensCount``.  The stream
says its input in ``message_start`` and cumulative counts in ``message_delta``, and ``count_tokens`` answers
``input_tokens`` at the top.  ``iterations`` are not read: their ``message`` entries break the same totals
down, and what a ``compaction`` entry counts is not part of the top-level totals, which alone are metered.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.json import Decoder

from mgw.canonical.reply import TokenUsage
from mgw.dialects.anthropic.usage import Usage, counted
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, meter_of, updated


class _Message(Struct, frozen=True):
    usage: Usage | None = None


class _Document(Struct, frozen=True):
    usage: Usage | None = None
    """Of a message, or of a ``message_delta``."""
    message: _Message | None = None
    """Of a ``message_start``."""
    input_tokens: Count | None = None
    """The answer of a token count."""


_DECODER: Final = Decoder(_Document, strict=False)


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``; each count that it says replaces the earlier one."""
    found = _DECODER.decode(document)
    usage = found.usage or (found.message.usage if found.message else None)
    if usage is None:
        return before if found.input_tokens is None else updated(before, TokenUsage(found.input_tokens))
    return counted(usage, before)


def meter(content_type: bytes) -> Meter:
    """Return a fresh meter for a response of ``content_type``."""
    return meter_of(content_type, read_usage)
