"""Speech in OpenAI's API, both ways.

The sound is the body of the answer, and its media type the answer's own.  Of hosts that state none, or none
that says anything, the format that was asked for is believed.  A client of another family may have asked for
the sound as events (``stream_format``); they are put together again.

Sources: ``SpeechCreateParams`` of openai 3.x; https://developers.openai.com/api/reference ("Create speech",
"Streaming events").
"""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.dialect import (
    ClientOperation,
    ProviderOperation,
    Rendered,
    RenderOptions,
    ReplyContext,
    ReplySource,
)
from mgw.dialects.metering import Count
from mgw.dialects.openai.errors import parse_stream_error
from mgw.dialects.speech import (
    ANYTHING,
    CARRIED,
    DEFAULT_VOICE,
    FORMATS,
    add_wave_header,
    audio_type,
    parse_speech,
)
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.wire.json_spans import find_model, find_string, replace_string
from mgw.wire.media_types import EVENT_STREAM
from mgw.wire.sse import EventReader

_TARGET: Final = b"/audio/speech"
_DEFAULT_FORMAT: Final = "mp3"
"""The format of who states none."""
_MEANINGLESS_TYPES: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_EVENTS: Final = EVENT_STREAM.decode()
_ENCODER: Final = Encoder()


class _Counts(Struct, frozen=True):
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class _SpeechEvent(Struct, frozen=True):
    type: str = ""
    audio: str | None = None
    usage: _Counts | None = None


_DECODER: Final = Decoder(_SpeechEvent, strict=False)


def render_reply(reply: SpeechReply, context: ReplyContext) -> bytes:  # noqa: ARG001 - the sound and no more
    """Return the sound."""
    return reply.audio


def content_type(reply: SpeechReply) -> bytes:
    """Return the media type of the sound."""
    return reply.media_type.encode("ascii")


def render_request(request: SpeechRequest, options: RenderOptions) -> Rendered:
    """Return the request.

    :raises GatewayError: ``MALFORMED`` for a text that no JSON can carry.
    """
    body: JsonObject = {
        "model": options.model,
        "input": request.text,
        "voice": request.voice or DEFAULT_VOICE,
    }
    if request.format is not None:
        body["response_format"] = request.format
    if request.instructions is not None:
        body["instructions"] = request.instructions
    try:
        return Rendered(_TARGET, _ENCODER.encode(body), CARRIED)
    except ValueError:  # a lone surrogate
        raise GatewayError(Reason.MALFORMED, "the request cannot be written as JSON") from None


def relay_request(body: bytes, request: SpeechRequest, options: RenderOptions) -> Rendered:
    """Return a request that is OpenAI's already: its bytes, with the model and the voice replaced.

    :raises GatewayError: ``MALFORMED``.
    """
    found = find_model(body)
    if found is not None:
        body = replace_string(body, found, options.model)
    if request.voice is not None:  # else it is no string, or not there
        voice = find_string(body, "voice")
        if voice is not None:
            body = replace_string(body, voice, request.voice)
    return Rendered(_TARGET, body, CARRIED)


def parse_reply(body: bytes, source: ReplySource) -> SpeechReply:
    """Return the sound.

    :raises GatewayError: ``UPSTREAM_BROKEN`` where there is none.
    """
    request: SpeechRequest = source.request
    stated = source.content_type.decode("latin-1")
    bare = stated.partition(";")[0].strip().lower()
    assumed = FORMATS.get(request.format or _DEFAULT_FORMAT, FORMATS[_DEFAULT_FORMAT])
    usage = NO_USAGE
    if bare == _EVENTS:
        body, usage = _join_events(body)
        media_type: str | None = assumed
    else:
        media_type = assumed if bare in _MEANINGLESS_TYPES else audio_type(stated)
    if media_type is None:
        raise _no_audio(f"the provider's response is not audio; its media type is {bare[:64]!r}")
    if not body:
        raise _no_audio("the provider's response is empty; try again")
    return add_wave_header(SpeechReply(body, media_type, usage=usage), request.format)


def _join_events(body: bytes) -> tuple[bytes, TokenUsage]:
    """Return the sound that came as events, and what it cost."""
    pieces: list[bytes] = []
    usage = NO_USAGE
    reader = EventReader()
    for event in [*reader.feed(body), *reader.finish()]:
        try:
            found = _DECODER.decode(event.data)
            if found.audio:
                pieces.append(b64decode(found.audio, validate=True))
        except (MsgspecError, ValueError, RecursionError):  # UnicodeDecodeError is a ValueError, too
            raise _no_audio("the provider's audio events cannot be read") from None
        if found.type == "error":
            raise _no_audio(f"the upstream failed: {parse_stream_error(event.data).message}")
        if found.usage is not None:
            usage = TokenUsage(found.usage.input_tokens, found.usage.output_tokens)
    return b"".join(pieces), usage


def _no_audio(message: str) -> GatewayError:
    return GatewayError(Reason.UPSTREAM_BROKEN, message)


CLIENT: Final = ClientOperation(parse_speech, render_reply, content_type, Family.OPENAI)
"""The clients' side of speech."""
PROVIDER: Final = ProviderOperation(render_request, parse_reply, accept=ANYTHING, relay_request=relay_request)
"""The providers' side of speech."""
