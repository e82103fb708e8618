"""Token counts of generateContent and its neighbours, both ways, and the meter of passing responses.

Google counts cached content in the prompt, as the canonical convention does, but thoughts and the results of
its own tools beside candidates and prompt, so these are added.  Proto3 JSON leaves a zero out: what is
missing where usage stands is unknown or zero, and counts as unknown.

``application/json`` is one object, or the array in pieces that ``:streamGenerateContent`` sends without
``alt=sse``: its first byte tells.

``:predict`` has no counts; its images are counted, but for those that a filter has taken away.

Each direction has a breakdown by modality; of these, audio and images may have prices of their own.  The tier
that served a request is ``serviceTier`` of the Gemini API, and ``trafficType`` of Vertex.

Sources: ``GenerateContentResponseUsageMetadata``, ``UsageMetadata`` (embeddings) and ``CountTokensResponse``
of google-genai 3.4 and, for interactions, the ``Usage`` of its ``_gaos/types/interactions``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec import field as member
from msgspec.json import Decoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage, UsageParts
from mgw.dialects.billing import NO_VALUE, is_stated
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import (
    MAX_BODY_BYTES,
    MAX_LOOKS,
    BlindMeter,
    Count,
    EventStreamMeter,
    UnaryMeter,
    UsageReader,
    add_counts,
    add_usage,
    cap_count,
    forget_end,
    has_mark,
    merge_usage,
    try_read_usage,
)
from mgw.dialects.stream_end import StreamEnd
from mgw.dialects.usage_parts import count_kinds, parts_or_none, read_word
from mgw.nouns.errors import GatewayError
from mgw.wire.json_array import ElementReader
from mgw.wire.media_types import is_event_stream, is_json
from mgw.wire.sse import Event

_BLANKS: Final = b" \t\r\n"
_USAGE_KEY: Final = b'"usage'
"""Begins ``usageMetadata`` and the ``usage`` of interactions."""
_NO_METADATA: Final = b'"usageMetadata":null'


class _UsageMetadata(Struct, frozen=True, rename="camel"):
    """``usageMetadata``."""

    prompt_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    response_token_count: Count | None = None
    """The last, as others of Google's responses name it."""
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    prompt_tokens_details: Raw = NO_VALUE
    tool_use_prompt_tokens_details: Raw = NO_VALUE
    cache_tokens_details: Raw = NO_VALUE
    candidates_tokens_details: Raw = NO_VALUE
    response_tokens_details: Raw = NO_VALUE
    service_tier: Raw = NO_VALUE
    traffic_type: Raw = NO_VALUE
    """The service tier, as Vertex names it."""

    def to_usage(self, before: TokenUsage = NO_USAGE) -> TokenUsage:
        """Return the canonical form of what is known after it."""
        candidates = self.candidates_token_count
        candidates = self.response_token_count if candidates is None else candidates
        prompt = add_counts(self.prompt_token_count, self.tool_use_prompt_token_count)
        details_in = self.prompt_tokens_details, self.tool_use_prompt_tokens_details
        cached, output = (
            self.cache_tokens_details,
            self.candidates_tokens_details or self.response_tokens_details,
        )
        tier = self.service_tier or self.traffic_type
        parts = _read_kinds(details_in, cached, output) if details_in[0] or details_in[1] or output else None
        return TokenUsage(
            prompt,
            _add_thoughts(candidates, self.thoughts_token_count, before),
            cache_read=cap_count(self.cached_content_token_count, prompt),
            reasoning=self.thoughts_token_count,
            parts=parts,
            service_tier=read_word(bytes(tier)) if tier else None,
        )


class _InteractionUsage(Struct, frozen=True):
    total_input_tokens: Count | None = None
    total_tool_use_tokens: Count | None = None
    total_output_tokens: Count | None = None
    total_thought_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    input_tokens_by_modality: Raw = NO_VALUE
    tool_use_tokens_by_modality: Raw = NO_VALUE
    cached_tokens_by_modality: Raw = NO_VALUE
    output_tokens_by_modality: Raw = NO_VALUE

    def to_usage(self, before: TokenUsage = NO_USAGE, service_tier: Raw = NO_VALUE) -> TokenUsage:
        """Return the canonical form of what is known after it."""
        prompt = add_counts(self.total_input_tokens, self.total_tool_use_tokens)
        details_in = self.input_tokens_by_modality, self.tool_use_tokens_by_modality
        cached, output = self.cached_tokens_by_modality, self.output_tokens_by_modality
        parts = _read_kinds(details_in, cached, output) if details_in[0] or details_in[1] or output else None
        return TokenUsage(
            prompt,
            _add_thoughts(self.total_output_tokens, self.total_thought_tokens, before),
            cache_read=cap_count(self.total_cached_tokens, prompt),
            reasoning=self.total_thought_tokens,
            parts=parts,
            service_tier=read_word(bytes(service_tier)) if service_tier else None,
        )


def _read_kinds(prompt: tuple[Raw, Raw], cached: Raw, output: Raw) -> UsageParts | None:
    """Return the kinds of tokens by the breakdowns of the prompt, the cached and the output."""
    written = b"".join((*prompt, cached, output)).upper()  # enumerations have either case
    if b"AUDIO" not in written and b"IMAGE" not in written:  # as in most
        return None
    audio_in, image_in = count_kinds(*prompt)
    cached_audio, cached_image = count_kinds(cached)
    audio_out, image_out = count_kinds(output)
    return parts_or_none(
        UsageParts(
            audio_in=audio_in,
            image_in=image_in,
            cached_audio=cached_audio,
            cached_image=cached_image,
            audio_out=audio_out,
            image_out=image_out,
        )
    )


def _add_thoughts(candidates: int | None, thoughts: int | None, before: TokenUsage) -> int | None:
    """Return the output with its thoughts, either of which an earlier event may have told."""
    if candidates is None and thoughts is None:
        return None
    if candidates is None and before.tokens_out is not None:
        candidates = before.tokens_out - (before.reasoning or 0)
    return add_counts(candidates, before.reasoning if thoughts is None else thoughts)


class _Interaction(Struct, frozen=True):
    usage: _InteractionUsage | None = None
    service_tier: Raw = NO_VALUE


class _Metadata(Struct, frozen=True):
    total_usage: _InteractionUsage | None = None


class _Document(_Interaction, frozen=True):
    """A response, an event of a stream, or an interaction."""

    usage_metadata: _UsageMetadata | None = member(default=None, name="usageMetadata")
    interaction: _Interaction | None = None
    """The interaction in an event of a stream; ``metadata`` may stand in every event."""
    metadata: _Metadata | None = None
    total_tokens: Count | None = member(default=None, name="totalTokens")
    """The response of countTokens, with the next."""
    cached_content_token_count: Count | None = member(default=None, name="cachedContentTokenCount")
    predictions: Raw = NO_VALUE
    """The response of ``:predict``."""


class _Prediction(Struct, frozen=True, rename="camel"):
    bytes_base64_encoded: Raw = NO_VALUE
    gcs_uri: Raw = NO_VALUE
    rai_filtered_reason: Raw = NO_VALUE

    @property
    def is_image(self) -> bool:
        return is_stated(self.bytes_base64_encoded) or is_stated(self.gcs_uri)


class _SessionEvent(Struct, frozen=True):
    usage: _InteractionUsage | None = None


class _SessionMessage(_SessionEvent, frozen=True):
    """A message of the Live API, or one or several events of an interaction."""

    usage_metadata: _UsageMetadata | None = member(default=None, name="usageMetadata")
    events: tuple[_SessionEvent, ...] | None = None


_SESSION_DECODER: Final = Decoder(_SessionMessage, strict=False)
_METADATA_DECODER: Final = Decoder(_UsageMetadata, strict=False)  # proto3 JSON may write numbers as strings
_DOCUMENT_DECODER: Final = Decoder(_Document, strict=False)
_PREDICTIONS: Final = Decoder(list[_Prediction])


def parse_usage(metadata: bytes | memoryview, before: TokenUsage = NO_USAGE) -> TokenUsage:
    """Return what is known after ``usageMetadata``; what cannot be is not believed."""
    return try_read_usage(_update, bytes(metadata), before)


def _update(metadata: bytes, before: TokenUsage) -> TokenUsage:
    return merge_usage(before, _METADATA_DECODER.decode(metadata).to_usage(before))


def update_session_usage(message: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known of a session's tokens after a message of the provider's.

    The turns of a Live session count beside one another.  An interaction tells what it has come to so far, so
    there the last word counts.
    """
    return try_read_usage(_read_session_message, message, before)


def _read_session_message(message: bytes, before: TokenUsage) -> TokenUsage:
    found = _SESSION_DECODER.decode(message)
    if found.usage_metadata is not None:
        return add_usage(before, found.usage_metadata.to_usage())
    told = [event.usage for event in (found, *(found.events or ())) if event.usage is not None]
    return told[-1].to_usage() if told else before


def render_usage(usage: TokenUsage) -> JsonObject:
    """Return ``usageMetadata``; what is unknown is left out."""
    candidates, thoughts = usage.tokens_out, usage.reasoning
    if candidates is None:
        thoughts = None
    elif thoughts is not None:
        thoughts = min(thoughts, candidates)  # the parts make up the total
        candidates -= thoughts
    counts = {
        "promptTokenCount": usage.tokens_in,
        "candidatesTokenCount": candidates,
        "totalTokenCount": add_counts(usage.tokens_in, usage.tokens_out),
        "cachedContentTokenCount": usage.cache_read,
        "thoughtsTokenCount": thoughts,
    }
    return {key: count for key, count in counts.items() if count is not None}


def meter(content_type: bytes, end: StreamEnd | None = None) -> Meter:
    """Return a fresh meter for a response of ``content_type``, which shows its events to ``end``."""
    if is_event_stream(content_type):
        return EventStreamMeter(_read_document, _USAGE_KEY, _NO_METADATA, end=end)
    if is_json(content_type):
        return _JsonMeter(_read_document, end)
    forget_end(end)
    return BlindMeter()


def read_usage(body: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after a whole body, one object or an array."""
    if not body.lstrip(_BLANKS).startswith(b"["):
        return _read_document(body, before)
    meter = _ArrayMeter(_read_document, before)
    meter.feed(body)
    return meter.usage


def _read_document(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``; the last usage wins."""
    found = _DOCUMENT_DECODER.decode(document)
    if found.usage_metadata is not None:
        return merge_usage(before, found.usage_metadata.to_usage(before))
    answer = found if found.interaction is None else found.interaction
    usage = found.usage or answer.usage
    usage = usage or (found.metadata.total_usage if found.metadata else None)
    if usage is not None:
        return merge_usage(before, usage.to_usage(before, answer.service_tier))
    billed = Billed(None, _count_images(found.predictions)) if found.predictions else None
    counts = TokenUsage(found.total_tokens, cache_read=found.cached_content_token_count, billed=billed)
    return merge_usage(before, counts)


def _count_images(predictions: Raw) -> int | None:
    """Return how many images there are; ``None`` where something is no image that can be told."""
    try:
        found = _PREDICTIONS.decode(predictions)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not all(one.is_image or is_stated(one.rai_filtered_reason) for one in found):
        return None
    return sum(one.is_image for one in found)


@dataclass(slots=True)
class _ArrayMeter:
    """Meters a JSON array in pieces: each element that can hold usage is read when it is whole."""

    read: UsageReader
    usage: TokenUsage = NO_USAGE
    end: StreamEnd | None = None
    _elements: ElementReader | None = field(default_factory=lambda: ElementReader(MAX_BODY_BYTES))

    def feed(self, data: bytes) -> None:
        """Read the elements that ``data`` completes; what is no array ends the metering."""
        if self._elements is None:
            return
        try:
            elements = self._elements.feed(data)
        except GatewayError:
            self._elements = None
            forget_end(self.end)
            return
        if len(elements) > MAX_LOOKS:
            self._elements = None
            self.usage = NO_USAGE
            forget_end(self.end)
            return
        for element in elements:
            if _USAGE_KEY in element:
                self.usage = try_read_usage(self.read, element, self.usage)
            if self.end is not None and has_mark(self.end, element):
                self.end.read(Event(b"", element))

    def finish(self) -> None:
        """Forget an element that broke off: it tells nothing."""
        self._elements = None


@dataclass(slots=True)
class _JsonMeter:
    """Meters ``application/json``, one object or an array, as its first byte tells."""

    read: UsageReader
    end: StreamEnd | None = None
    _meter: UnaryMeter | _ArrayMeter | None = None

    @property
    def usage(self) -> TokenUsage:
        """What is known so far."""
        return NO_USAGE if self._meter is None else self._meter.usage

    def feed(self, data: bytes) -> None:
        """Choose the meter at the first byte that is no blank, and feed it."""
        if self._meter is None:
            begin = data.lstrip(_BLANKS)
            if not begin:
                return
            is_array = begin.startswith(b"[")
            self._meter = (_ArrayMeter if is_array else UnaryMeter)(self.read, end=self.end)
        self._meter.feed(data)

    def finish(self) -> None:
        """Finish the meter that was chosen."""
        if self._meter is not None:
            self._meter.finish()
