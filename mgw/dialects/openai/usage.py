"""Token counts of OpenAI's API, both ways, and the meter.

Sources: the SDK's ``CompletionUsage`` (chat, completions), ``create_embedding_response.Usage`` (embeddings),
``ResponseUsage`` (responses; the names of images, transcriptions and decisions too),
``ResponseCompletedEvent`` and its neighbours (the stream of responses wraps the response),
``InputTokenCountResponse``.  The two vocabularies share no name, so one parser serves all: hosts that mix
them exist.  OpenAI counts cached tokens and reasoning inside the totals, as the canonical convention does.

Hosts differ.  Groq puts the usage of a stream into ``x_groq`` of its last chunk, Moonshot in the last choice.
xAI counts reasoning beside the completion, which the total gives away ("reasoning token consumption will be
counted separately from completion_tokens, but will be counted in the total_tokens").  Cached tokens above the
prompt, which some hosts report, are a mistake of theirs: they are part of it, so they are at most all of it.

Answers of images are counted by their elements (``ImagesResponse``, which alone has ``data`` without naming
its ``object``).  Transcriptions tell the length of the sound in ``usage.seconds``
(``TranscriptionTextUsageDuration``) or in ``duration`` (``TranscriptionVerbose``).
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage
from mgw.dialects.billing import (
    NO_VALUE,
    CostFields,
    billed_in,
    fill_billed,
    is_stated,
    read_milliseconds,
)
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import Count, add_usage, cap_count, merge_usage, meter_of, try_read_usage
from mgw.dialects.stream_end import StreamEnd


class _PromptDetails(Struct, frozen=True):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _CompletionDetails(Struct, frozen=True):
    reasoning_tokens: Count | None = None


class _Usage(CostFields, frozen=True):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: Count | None = None
    """DeepSeek's own name."""
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _PromptDetails | None = None
    output_tokens_details: _CompletionDetails | None = None
    input_token_details: _PromptDetails | None = None
    """The name in realtime sessions."""
    output_token_details: _CompletionDetails | None = None
    seconds: Raw = NO_VALUE
    """How many seconds of sound were transcribed."""


class _UsageHolder(Struct, frozen=True):
    usage: _Usage | None = None


class _Document(Struct, frozen=True):
    usage: _Usage | None = None
    response: _UsageHolder | None = None
    """The response in an event of a stream of responses."""
    x_groq: _UsageHolder | None = None
    choices: Raw = Raw()
    """Looked into where nothing else holds the usage."""
    input_tokens: Count | None = None
    """The answer of a token count."""
    object: Raw = NO_VALUE
    data: Raw = NO_VALUE
    duration: Raw = NO_VALUE
    """Seconds of sound that was transcribed."""


class _Image(Struct, frozen=True):
    b64_json: Raw = NO_VALUE
    url: Raw = NO_VALUE


_USAGE_DECODER: Final = Decoder(_Usage, strict=False)
_DECODER: Final = Decoder(_Document, strict=False)  # some hosts write 12.0
_CHOICES: Final = Decoder(list[_UsageHolder], strict=False)
_IMAGES: Final = Decoder(list[_Image])
_NO_PROMPT_DETAILS: Final = _PromptDetails()
_NO_COMPLETION_DETAILS: Final = _CompletionDetails()


def read_usage(document: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known after ``document``; the last usage wins."""
    found = _DECODER.decode(document)
    usage = (
        found.usage
        or _usage_in(found.response)
        or _usage_in(found.x_groq)
        or _usage_in_choices(found.choices)
    )
    if usage is not None:
        counts = _convert(usage)
    elif found.input_tokens is not None:
        counts = TokenUsage(found.input_tokens)
    elif found.duration or found.data:
        counts = NO_USAGE
    else:
        return before
    if found.duration or (found.data and not found.object):
        counts = replace(counts, billed=fill_billed(counts.billed, _billed_beside(found)))
    return counts if before is NO_USAGE else merge_usage(before, counts)


def parse_usage(usage: bytes | Raw, before: TokenUsage) -> TokenUsage:
    """Return what is known after a ``usage`` by itself."""
    counts = _convert(_USAGE_DECODER.decode(usage))
    return counts if before is NO_USAGE else merge_usage(before, counts)


def _billed_beside(found: _Document) -> Billed:
    """Return what an answer says beside its ``usage``."""
    images = _count_images(found.data) if found.data and not found.object else None
    return Billed(None, images, read_milliseconds(found.duration))


def _count_images(data: Raw) -> int | None:
    """Return how many images there are; ``None`` where something is no image that can be told."""
    try:
        images = _IMAGES.decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return len(images) if all(is_stated(image.b64_json) or is_stated(image.url) for image in images) else None


def _usage_in(holder: _UsageHolder | None) -> _Usage | None:
    return None if holder is None else holder.usage


def _usage_in_choices(choices: Raw) -> _Usage | None:
    if b'"usage"' not in bytes(choices):
        return None
    return next((choice.usage for choice in _CHOICES.decode(choices) if choice.usage is not None), None)


def _convert(usage: _Usage) -> TokenUsage:
    details_in = (
        usage.prompt_tokens_details
        or usage.input_tokens_details
        or usage.input_token_details
        or _NO_PROMPT_DETAILS
    )
    details_out = (
        usage.completion_tokens_details
        or usage.output_tokens_details
        or usage.output_token_details
        or _NO_COMPLETION_DETAILS
    )
    tokens_in = usage.input_tokens if usage.prompt_tokens is None else usage.prompt_tokens
    tokens_out = usage.output_tokens if usage.completion_tokens is None else usage.completion_tokens
    read = details_in.cached_tokens
    read = usage.prompt_cache_hit_tokens if read is None else read
    written = details_in.cache_write_tokens
    reasoning = details_out.reasoning_tokens
    if tokens_in is not None:
        if read is not None and read > tokens_in:
            read = tokens_in
        if written:
            written = cap_count(written, tokens_in - (read or 0))
    if tokens_out is not None and reasoning and _is_beside(usage, tokens_in, tokens_out, reasoning):
        tokens_out += reasoning
    billed = billed_in(usage) if usage.cost or usage.cost_in_usd_ticks else None
    if usage.seconds:
        billed = fill_billed(billed, Billed(None, None, read_milliseconds(usage.seconds)))
    return TokenUsage(tokens_in, tokens_out, read, written, reasoning, billed)


def _is_beside(usage: _Usage, tokens_in: int | None, tokens_out: int, reasoning: int) -> bool:
    """Whether reasoning stands beside the completion: it is more (Vercel), or the total has both (xAI)."""
    if reasoning > tokens_out:
        return True
    return tokens_in is not None and usage.total_tokens == tokens_in + tokens_out + reasoning


class _SessionEvent(Struct, frozen=True):
    type: str = ""
    response: _UsageHolder | None = None


_SESSION_DECODER: Final = Decoder(_SessionEvent, strict=False)
_ENDS_OF_RESPONSES: Final = frozenset(
    {"response.done", "response.completed", "response.incomplete", "response.failed"}
)
"""The last events of a response: in realtime sessions, and in those of the responses API."""


def update_session_usage(message: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known of a session's tokens after a message, which may end one more response."""
    return try_read_usage(_read_session_event, message, before)


def _read_session_event(message: bytes, before: TokenUsage) -> TokenUsage:
    event = _SESSION_DECODER.decode(message)
    usage = _usage_in(event.response) if event.type in _ENDS_OF_RESPONSES else None
    return before if usage is None else add_usage(before, _convert(usage))


def render_usage(usage: TokenUsage) -> JsonObject:
    """Return ``usage``; the SDK demands its three totals, so what is unknown is 0 there."""
    tokens_in, tokens_out = usage.tokens_in or 0, usage.tokens_out or 0
    rendered: JsonObject = {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    known = {key: value for key, value in details.items() if value is not None}
    if known:
        rendered["prompt_tokens_details"] = known
    if usage.reasoning is not None:
        rendered["completion_tokens_details"] = {"reasoning_tokens": min(usage.reasoning, tokens_out)}
    return rendered


def meter(content_type: bytes, end: StreamEnd | None = None) -> Meter:
    """Return a fresh meter for a response of ``content_type``, which shows its events to ``end``."""
    return meter_of(content_type, read_usage, end)
