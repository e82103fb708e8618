"""Token counts of OpenAI's API, both ways, and the meter.

Sources: the SDK's ``CompletionUsage`` (chat, completions), ``create_embedding_response.Usage`` (embeddings),
``ResponseUsage`` (responses; the names of images, transcriptions and decisions too),
``ResponseCompletedEvent`` and its neighbours (the stream of responses wraps the response),
``InputTokenCountResponse``.  The two vocabularies share no name, so one parser serves all: hosts that mix
them exist.  OpenAI counts cached tokens, kinds of tokens and reasoning inside the totals, as the canonical
convention does.

Hosts differ.  Groq puts the usage of a stream into ``x_groq`` of its last chunk, Moonshot in the last choice.
xAI counts reasoning beside the completion, which the total gives away ("reasoning token consumption will be
counted separately from completion_tokens, but will be counted in the total_tokens").  Cached tokens above the
prompt, which some hosts report, are a mistake of theirs: they are part of it, so they are at most all of it.

What an answer costs depends on two members beside its ``usage`` as well: ``service_tier``, the tier
that served it, and ``output``, which has an item ``web_search_call`` for each search.

Answers of images are counted by their elements (``ImagesResponse``, which alone has ``data`` without naming
its ``object``).  Transcriptions tell the length of the sound in ``usage.seconds``
(``TranscriptionTextUsageDuration``) or in ``duration`` (``TranscriptionVerbose``).
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage, UsageParts
from mgw.dialects.billing import (
    NO_VALUE,
    CostFields,
    billed_in,
    fill_billed,
    is_stated,
    read_milliseconds,
)
from mgw.dialects.dialect import Meter, ResponseStep
from mgw.dialects.metering import Count, add_usage, cap_count, merge_usage, meter_of, try_read_usage
from mgw.dialects.stream_end import StreamEnd
from mgw.dialects.usage_parts import parts_or_none, read_count, read_word
from mgw.wire.json_document import neutralize_surrogates

D = TypeVar("D")


class _PromptDetails(Struct, frozen=True):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    audio_tokens: Any = None  # Any: here and below, a count that hosts may write as they please
    image_tokens: Any = None
    cached_tokens_details: Raw = NO_VALUE
    """The kinds of tokens that were read from the cache, in realtime sessions."""
    cache_write_tokens_details: Raw = NO_VALUE
    """How long is kept what was written to the cache."""


class _CompletionDetails(Struct, frozen=True):
    reasoning_tokens: Count | None = None
    audio_tokens: Any = None
    image_tokens: Any = None


class _Kinds(Struct, frozen=True):
    audio_tokens: Any = None
    image_tokens: Any = None


class _Lifetimes(Struct, frozen=True):
    ttl_12h_tokens: Any = None


class _Item(Struct, frozen=True):
    """An item of a response."""

    type: Any = None


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


class _Answer(_UsageHolder, frozen=True):
    """What has a ``usage`` and says more of it beside: a completion, a response."""

    service_tier: Raw = NO_VALUE
    output: Raw = NO_VALUE
    """The items of a response, which tell how often the web was searched."""


class _Document(_Answer, frozen=True):
    response: _Answer | None = None
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
_KINDS: Final = Decoder(_Kinds)
_LIFETIMES: Final = Decoder(_Lifetimes)
_ITEMS: Final = Decoder(list[_Item])
_SEARCH: Final = b'"web_search_call"'
_NO_KINDS: Final = _Kinds()
_NO_LIFETIMES: Final = _Lifetimes()
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
        answer = found if found.response is None else found.response
        counts = _convert(usage, answer.service_tier, answer.output)
    elif found.input_tokens is not None:
        counts = TokenUsage(found.input_tokens)
    elif found.duration or found.data:
        counts = NO_USAGE
    else:
        return before
    if found.duration or (found.data and not found.object):
        counts = replace(counts, billed=fill_billed(counts.billed, _billed_beside(found)))
    return counts if before is NO_USAGE else merge_usage(before, counts)


def parse_usage(usage: Raw, service_tier: Raw = NO_VALUE, output: Raw = NO_VALUE) -> TokenUsage:
    """Return what a ``usage`` says that was read from its answer; what cannot be read says nothing.

    :param service_tier: the member of the answer; ``output`` likewise.
    """
    try:
        return _convert(_USAGE_DECODER.decode(usage), service_tier, output)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return NO_USAGE


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


def _convert(usage: _Usage, service_tier: Raw = NO_VALUE, output: Raw = NO_VALUE) -> TokenUsage:
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
    is_divided = (
        details_in.audio_tokens
        or details_in.image_tokens
        or details_in.cache_write_tokens_details
        or details_out.audio_tokens
        or details_out.image_tokens
        or (output and _SEARCH in bytes(output))
    )
    parts = _read_parts(details_in, details_out, output) if is_divided else None
    tier = read_word(bytes(service_tier)) if service_tier else None
    return TokenUsage(tokens_in, tokens_out, read, written, reasoning, billed, parts, tier)


def _read_parts(
    details_in: _PromptDetails, details_out: _CompletionDetails, output: Raw
) -> UsageParts | None:
    cached, written = details_in.cached_tokens_details, details_in.cache_write_tokens_details
    kinds = _read_details(_KINDS, cached) if cached else _NO_KINDS
    lifetimes = _read_details(_LIFETIMES, written) if written else _NO_LIFETIMES
    return parts_or_none(
        UsageParts(
            cache_write_12h=read_count(lifetimes.ttl_12h_tokens),
            audio_in=read_count(details_in.audio_tokens),
            image_in=read_count(details_in.image_tokens),
            cached_audio=read_count(kinds.audio_tokens),
            cached_image=read_count(kinds.image_tokens),
            audio_out=read_count(details_out.audio_tokens),
            image_out=read_count(details_out.image_tokens),
            searches=_count_searches(bytes(output)),
        )
    )


def _read_details(decoder: Decoder[D], details: Raw) -> D:
    """Return what details say; those that cannot be read say nothing."""
    try:
        return decoder.decode(details)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return decoder.decode(b"{}")


def _count_searches(output: bytes) -> int | None:
    """Return how often the web was searched; ``None``: the items of the response do not say that."""
    if _SEARCH not in output:  # as in most
        return None
    try:
        items = _ITEMS.decode(output)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return sum(1 for item in items if item.type == "web_search_call")


def _is_beside(usage: _Usage, tokens_in: int | None, tokens_out: int, reasoning: int) -> bool:
    """Whether reasoning stands beside the completion: it is more (Vercel), or the total has both (xAI)."""
    if reasoning > tokens_out:
        return True
    return tokens_in is not None and usage.total_tokens == tokens_in + tokens_out + reasoning


class _SessionEvent(Struct, frozen=True):
    type: str = ""
    response: _Answer | None = None


class _SessionType(Struct, frozen=True):
    type: str = ""


_TYPE_DECODER: Final = Decoder(_SessionType)
_SESSION_DECODER: Final = Decoder(_SessionEvent, strict=False)
_NEUTRALIZED_BYTES: Final = 64 * 1024
_ANY_LENGTH: Final = 2**62
_ENDS_OF_RESPONSES: Final = frozenset(
    {"response.done", "response.completed", "response.incomplete", "response.failed"}
)
"""The last events of a response: in realtime sessions, and in those of the responses API."""


def update_session_usage(message: bytes, before: TokenUsage) -> TokenUsage:
    """Return what is known of a session's tokens after a message, which may end one more response."""
    return try_read_usage(_read_session_event, message, before)


def _read_session_event(message: bytes, before: TokenUsage) -> TokenUsage:
    event = _SESSION_DECODER.decode(message)
    answer = event.response if event.type in _ENDS_OF_RESPONSES else None
    if answer is None or answer.usage is None:
        return before
    return add_usage(before, _convert(answer.usage, answer.service_tier, answer.output))


def asks_response(message: bytes) -> bool:
    """Whether a client's message in a session of responses asks for one, as far as anybody knows.

    One that cannot be read might: hosts may read what is no UTF-8, or begins with a byte order mark.
    """
    return bool(message) and _type_of(message, _NEUTRALIZED_BYTES) in ("response.create", "")


def read_step(message: bytes) -> ResponseStep:
    """Return what a provider's message is to a response that a session of responses was asked for."""
    kind = _type_of(message)
    if kind in _ENDS_OF_RESPONSES:
        return ResponseStep.ENDS
    if kind == "response.created":
        return ResponseStep.BEGINS
    if kind.startswith("response."):
        return ResponseStep.GOES_ON
    return ResponseStep.REFUSED if kind == "error" else ResponseStep.OTHER


def _type_of(message: bytes, most: int = _ANY_LENGTH) -> str:
    """Return the type of a message; empty: it has none, or cannot be read.

    :param most: how long one is that half of a surrogate pair is looked for in, which takes long.
    """
    try:
        return _TYPE_DECODER.decode(message).type
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        if len(message) > most:
            return ""
    try:  # perhaps half of a surrogate pair alone, which clients cut emoji into
        return _TYPE_DECODER.decode(neutralize_surrogates(message)).type
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


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
