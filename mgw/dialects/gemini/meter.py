"""Token counts in the answers of Gemini's wire.

Sources: the SDK's ``GenerateContentResponseUsageMetadata``, ``UsageMetadata`` (embeddings),
``CountTokensResponse`` and, for interactions, the ``Usage`` of ``_gaos/types/interactions``.  The prompt's
count includes cached content, as the canonical convention does; tool results and thoughts are counted beside
prompt and candidates, so they are added.  Proto3 JSON leaves a zero out: what is missing where usage stands
is unknown or zero, and counts as unknown.

``application/json`` is one object, or the array in pieces that ``:streamGenerateContent`` answers without
``alt=sse``: its first byte tells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from msgspec import field as member
from msgspec.json import Decoder

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.dialects.dialect import Meter
from mgw.dialects.gemini.usage import UsageMetadata
from mgw.dialects.metering import (
    MAX_BODY_BYTES,
    MAX_LOOKS,
    BlindMeter,
    Count,
    EventStreamMeter,
    UnaryMeter,
    UsageReader,
    attempt,
    media_type,
    total,
    updated,
    within,
)
from mgw.errors import GatewayError
from mgw.wire.json_array import ElementReader

_MARK: Final = b'"usage'
"""Begins ``usageMetadata`` and the ``usage`` of interactions."""
_NULL: Final = b'"usageMetadata":null'


class _InteractionUsage(Struct, frozen=True):
    total_input_tokens: Count | None = None
    total_tool_use_tokens: Count | None = None
    total_output_tokens: Count | None = None
    total_thought_tokens: Count | None = None
    total_cached_tokens: Count | None = None

    def counted(self) -> TokenUsage:
        """Return the canonical form."""
        prompt = total(self.total_input_tokens, self.total_tool_use_tokens)
        return TokenUsage(
            prompt,
            total(self.total_output_tokens, self.total_thought_tokens),
            cache_read=within(self.total_cached_tokens, prompt),
            reasoning=self.total_thought_tokens,
        )


class _Interaction(Struct, frozen=True):
    usage: _InteractionUsage | None = None


class _Metadata(Struct, frozen=True):
    total_usage: _InteractionUsage | None = None


class _Document(Struct, frozen=True):
    usage_metadata: UsageMetadata | None = member(default=None, name="usageMetadata")
    usage: _InteractionUsage | None = None
    """Of an interaction."""
    interaction: _Interaction | None = None
    """Of an event of a stream of interactions; ``metadata`` may stand in every event."""
    metadata: _Metadata | None = None
    total_tokens: Count | None = member(default=None, name="totalTokens")
    """The answer of a token count, with the next."""
    cached_content_token_count: Count | None = member(default=None, name="cachedContentTokenCount")


_DECODER: Final = Decoder(_Document, strict=False)  # proto3 JSON may write numbers as strings


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``; the last usage wins."""
    found = _DECODER.decode(document)
    if found.usage_metadata is not None:
        return updated(before, found.usage_metadata.counted())
    usage = found.usage or (found.interaction.usage if found.interaction else None)
    usage = usage or (found.metadata.total_usage if found.metadata else None)
    if usage is not None:
        return updated(before, usage.counted())
    return updated(before, TokenUsage(found.total_tokens, cache_read=found.cached_content_token_count))


@dataclass(slots=True)
class ArrayMeter:
    """Meters a JSON array in pieces: each element that can hold usage is read when it is whole."""

    read: UsageReader
    usage: TokenUsage = NO_USAGE
    _elements: ElementReader | None = field(default_factory=lambda: ElementReader(MAX_BODY_BYTES))

    def feed(self, data: bytes) -> None:
        """Read the elements that ``data`` completes; what is no array ends the metering."""
        if self._elements is None:
            return
        try:
            elements = self._elements.feed(data)
        except GatewayError:
            self._elements = None
            return
        if len(elements) > MAX_LOOKS:
            self._elements = None
            self.usage = NO_USAGE
            return
        for element in elements:
            if _MARK in element:
                self.usage = attempt(self.read, element, self.usage)

    def finish(self) -> None:
        """An element that broke off tells nothing."""
        self._elements = None


@dataclass(slots=True)
class JsonMeter:
    """Meters ``application/json``, one object or an array, as its first byte says."""

    read: UsageReader
    _chosen: UnaryMeter | ArrayMeter | None = None

    @property
    def usage(self) -> TokenUsage:
        """What is known so far."""
        return NO_USAGE if self._chosen is None else self._chosen.usage

    def feed(self, data: bytes) -> None:
        """Choose at the first byte that is no blank, then hand on."""
        if self._chosen is None:
            begin = data.lstrip(b" \t\r\n")
            if not begin:
                return
            self._chosen = ArrayMeter(self.read) if begin.startswith(b"[") else UnaryMeter(self.read)
        self._chosen.feed(data)

    def finish(self) -> None:
        """Hand on."""
        if self._chosen is not None:
            self._chosen.finish()


def meter(content_type: bytes) -> Meter:
    """Return a fresh meter for a response of ``content_type``."""
    kind = media_type(content_type)
    if kind == b"text/event-stream":
        return EventStreamMeter(read_usage, _MARK, _NULL)
    return JsonMeter(read_usage) if kind == b"application/json" else BlindMeter()
