"""Speech, independent of its wire format: the text, and the audio."""

from __future__ import annotations

from msgspec import Struct

from mgw.canonical.reply import NO_USAGE, StopReason, TokenUsage


class SpeechRequest(Struct, frozen=True):
    """A text to be spoken."""

    text: str
    voice: str | None = None
    """A name; ``None``: whatever voice the provider takes by itself."""
    instructions: str | None = None
    """How to speak; not to be spoken."""
    format: str | None = None
    """``mp3``, ``opus``, ``aac``, ``flac``, ``wav`` or ``pcm``; ``None``: the client did not say."""


class SpeechReply(Struct, frozen=True):
    """What was spoken; no byte of it is ever encoded anew."""

    audio: bytes
    media_type: str
    """The media type that the provider states, with parameters: visible ASCII that begins with ``audio/``."""
    id: str | None = None
    model: str | None = None
    """The model that the provider reports."""
    stop: StopReason = StopReason.END
    usage: TokenUsage = NO_USAGE
