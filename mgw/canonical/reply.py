"""A model's answer, independent of its wire format: whole, or event by event.

A :class:`Reply` is a whole answer; a stream of :data:`ReplyEvent` is the same in pieces.  The events of one
candidate come in the order in which its parts do; only the arguments of several calls may interleave, each
with the number of its call.  The order of a stream is::

    Began (TextAdded | ThinkingAdded | ThinkingSigned | RefusalAdded | MediaAdded | TextSigned | CitationAdded
           | LogprobsAdded | CallBegan (ArgumentsAdded)* CallEnded | Counted)* Ended+ Counted* -- or Broke

A reader gives ``Began`` first and once, and after ``Ended`` of every candidate nothing but ``Counted``.  Text
and thoughts need no begin and no end: a writer opens and closes what its grammar wants when the kind changes.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from mgw.canonical.conversation import Citation, JsonObject, Media, Part, Signature


class Billed(Struct, frozen=True, array_like=True):
    """What an answer says of its price beside its tokens; ``None`` means unknown, never zero."""

    nanodollars: int | None = None
    """What the provider itself says that it costs."""
    images: int | None = None
    """How many it holds."""
    milliseconds: int | None = None
    """How long the sound is that was transcribed."""


class UsageParts(Struct, frozen=True, array_like=True):
    """What an answer says of its tokens beside their numbers; ``None`` means unknown, never zero.

    Audio and images in the input include those that were read from the cache.
    """

    cache_write_1h: int | None = None
    """The part of ``cache_write`` that is kept for an hour."""
    cache_write_12h: int | None = None
    """The part of ``cache_write`` that is kept for twelve hours."""
    audio_in: int | None = None
    image_in: int | None = None
    cached_audio: int | None = None
    """The part of ``cache_read`` that is audio."""
    cached_image: int | None = None
    """The part of ``cache_read`` that is images."""
    audio_out: int | None = None
    image_out: int | None = None
    searches: int | None = None
    """How often the provider searched the web."""
    inference_geo: str | None = None
    """Where the model ran, in the provider's own word."""


class TokenUsage(Struct, frozen=True, array_like=True):
    """Token counts in the canonical convention; ``None`` means unknown, never zero.

    ``tokens_in`` includes tokens read from and written to the cache, ``tokens_out`` includes reasoning,
    whatever the provider's own convention is (contract 7.3, 8.24).
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    billed: Billed | None = None
    """What else the answer says; ``None``: nothing."""
    parts: UsageParts | None = None
    """How the tokens divide; ``None``: nothing is known of that."""
    service_tier: str | None = None
    """The service tier that served the request, in the provider's own word."""


NO_USAGE = TokenUsage()
"""Nothing is known."""


class StopReason(Enum):
    """Why an answer ended (the table of contract 8.20)."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    END = "end"
    STOP_SEQUENCE = "stop_sequence"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    REFUSAL = "refusal"


class Alternative(Struct, frozen=True):
    """A token that could have stood in a place."""

    token: str
    logprob: float


class TokenLogprob(Struct, frozen=True):
    """A token of the answer, how likely it was, and what else might have stood there."""

    token: str
    logprob: float
    top: tuple[Alternative, ...] = ()


class Candidate(Struct, frozen=True):
    """One of the answers."""

    parts: tuple[Part, ...]
    stop: StopReason
    stop_sequence: str | None = None
    """The sequence that ended it, where the provider says which."""
    unknown_stop: str | None = None
    """The provider's own word where nobody knows it."""
    logprobs: tuple[TokenLogprob, ...] = ()


class Reply(Struct, frozen=True):
    """A whole answer."""

    candidates: tuple[Candidate, ...]
    id: str | None = None
    model: str | None = None
    """The model that the provider reports."""
    usage: TokenUsage = NO_USAGE


class UpstreamError(Struct, frozen=True):
    """A provider's refusal, or what broke its stream, in its own words."""

    status: int
    """The HTTP status, or the one that the provider's words stand for."""
    message: str
    code: str | None = None
    """The provider's own machine-readable word."""
    details: JsonObject | None = None
    retry_after: float | None = None
    """The seconds to wait, where the words say them."""
    own_message: str | None = None
    """What stands where errors have their message, as far as logs may repeat it; ``None`` where nothing does.
    ``message`` may be the words of a page, or JSON that is no text, which can repeat what a client sent."""
    vendor_type: str | None = None
    """What the vendor of the model calls this type of error, where another company's host has said it."""


class Began(Struct, frozen=True):
    """The answer begins."""

    id: str | None = None
    model: str | None = None
    usage: TokenUsage = NO_USAGE
    """What is known of the prompt already."""


class TextAdded(Struct, frozen=True):
    """More text; may be empty nowhere."""

    text: str
    candidate: int = 0


class TextSigned(Struct, frozen=True):
    """The text so far is signed, or an empty text at this place is."""

    signature: Signature
    candidate: int = 0


class ThinkingAdded(Struct, frozen=True):
    """More of a thought."""

    text: str
    candidate: int = 0


class ThinkingSigned(Struct, frozen=True):
    """The thought so far ends here with its signature; a redacted one stands for itself."""

    signature: Signature
    candidate: int = 0


class RefusalAdded(Struct, frozen=True):
    """More words of a refusal."""

    text: str
    candidate: int = 0


class CitationAdded(Struct, frozen=True):
    """Where text of this answer comes from."""

    citation: Citation
    candidate: int = 0


class MediaAdded(Struct, frozen=True):
    """A whole piece of media."""

    media: Media
    candidate: int = 0


class LogprobsAdded(Struct, frozen=True):
    """The tokens of the text that came last."""

    tokens: tuple[TokenLogprob, ...]
    candidate: int = 0


class CallBegan(Struct, frozen=True):
    """A call of a tool begins."""

    call: int
    """The number of the call in the candidate, from 0."""
    id: str
    name: str
    signature: Signature | None = None
    candidate: int = 0


class ArgumentsAdded(Struct, frozen=True):
    """More JSON text of a call's arguments."""

    call: int
    text: str
    candidate: int = 0


class CallEnded(Struct, frozen=True):
    """A call is complete."""

    call: int
    candidate: int = 0


class Counted(Struct, frozen=True):
    """The counts so far: cumulative, set and never added."""

    usage: TokenUsage


class Ended(Struct, frozen=True):
    """A candidate is complete."""

    stop: StopReason
    stop_sequence: str | None = None
    unknown_stop: str | None = None
    candidate: int = 0


class Broke(Struct, frozen=True):
    """The provider said in mid-stream that it failed; nothing follows."""

    error: UpstreamError


ReplyEvent = (
    Began
    | TextAdded
    | TextSigned
    | ThinkingAdded
    | ThinkingSigned
    | RefusalAdded
    | CitationAdded
    | MediaAdded
    | LogprobsAdded
    | CallBegan
    | ArgumentsAdded
    | CallEnded
    | Counted
    | Ended
    | Broke
)
