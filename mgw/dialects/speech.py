"""Speech, as far as dialects share it: OpenAI's request body, formats and voices.

The request body is OpenAI's for clients of OpenAI's and of Anthropic's dialect (contract 4.25).  What no
other family can say of it stays unread, and so is reported; a provider of OpenAI's own gets all of it, in the
client's bytes.

A voice that a family knows itself is sent as that family spells it, one of another family's is mapped by
character, and any other goes as it is: vendors add voices, and hosts have their own.  What the operator says
(``translation.voices``) comes before all of that.  Google's voices map onto the nine that every speech model
of OpenAI's takes, ``tts-1`` included.

Sources: ``SpeechCreateParams`` of openai 3.x and https://developers.openai.com/api/docs/guides/text-to-speech;
https://ai.google.dev/gemini-api/docs/speech-generation ("Voice options").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.features import Feature
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.dialect import Parsed, RequestContext, finish_parsing
from mgw.dialects.fields import Fields, Ledger, open_request

CARRIED: Final = frozenset({Feature.SYSTEM})
"""Instructions; all else that a client says is in :class:`SpeechRequest`, or unread."""
ANYTHING: Final = b"*/*"
"""What speech is asked for with: sound, or an error in JSON."""
PCM: Final = "pcm"
"""Samples of 16 bits, signed and little-endian, and nothing else."""
WAV: Final = "wav"
"""The same in a WAVE file."""
FORMATS: Final = MappingProxyType(
    {
        "mp3": "audio/mpeg",
        "opus": "audio/opus",
        "aac": "audio/aac",
        "flac": "audio/flac",
        WAV: "audio/wav",
        PCM: "audio/pcm",
    }
)
"""OpenAI's formats, and how it labels each."""

_AUDIO_TYPE: Final = re.compile(r"audio/[!-~][ -~]{0,200}", re.IGNORECASE)
_RAW: Final = frozenset({"audio/l16", "audio/pcm"})
"""16-bit samples.  RFC 2586 has those of L16 big-endian; Google's, under that name, are little-endian."""
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_USUAL_RATE: Final = 24_000
"""What OpenAI's and Google's models speak at."""
_MOST_CHANNELS: Final = 8
MAX_SAMPLES_BYTES: Final = 2**32 - 1 - 36
"""More does not fit into the header's own numbers."""
_WAVE_HEADER: Final = Struct("<4sI4s4sIHHIIHH4sI")
_BYTES_AFTER_SIZE: Final = 36
"""Bytes of the header after the field with the size of the whole."""
_FORMAT_BYTES: Final = 16
_PCM_FORMAT: Final = 1
_SAMPLE_BITS: Final = 16


def parse_speech(body: bytes, context: RequestContext) -> Parsed[SpeechRequest]:  # noqa: ARG001 - this API says all in its body
    """Understand a speech request in OpenAI's words; the ledger knows what was not understood.

    A voice of the client's own making (``{"id": ...}``) is known to OpenAI alone, as are compressed formats.

    :raises GatewayError: ``MALFORMED`` for what is no such request.
    """
    ledger = Ledger()
    request = open_request(body, ledger)
    request.skip("model")
    text = request.required_text("input")
    if not text.strip():
        raise request.wrong("input", "no text to speak")
    said = request.text("response_format")
    if said not in {None, PCM, WAV}:
        request.leave("response_format")
    asked = SpeechRequest(text, _voice(request), request.text("instructions") or None, said)
    return finish_parsing(asked, ledger)


def _voice(request: Fields) -> str | None:
    value = request.take("voice")
    if value is None or type(value) is str:
        return value or None
    if type(value) is not dict:
        raise request.mistyped("voice", str, value)
    if type(value.get("id")) is not str:
        raise request.wrong("voice", "expected a name, or an object with an 'id'")
    request.leave("voice")
    return None


def audio_type(stated: str | None) -> str | None:
    """Return a media type of sound that may stand in a header; ``None`` for any other."""
    stated = (stated or "").strip()
    return stated if _AUDIO_TYPE.fullmatch(stated) else None


def bare_type(media_type: str) -> str:
    """Return a media type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def add_wave_header(reply: SpeechReply, wanted: str | None) -> SpeechReply:
    """Return the reply with the head of a WAVE file before its samples, where the client wants such a file.

    What is no raw samples is a file of some kind already, and stays what it is.
    """
    if wanted != WAV or bare_type(reply.media_type) not in _RAW:
        return reply
    stated, size = _parameters(reply.media_type), len(reply.audio)
    rate, channels = stated.get("rate", _USUAL_RATE), stated.get("channels", 1)
    if channels > _MOST_CHANNELS or size > MAX_SAMPLES_BYTES:
        return reply
    head = wave_header(size, rate, channels)
    return replace(reply, audio=head + reply.audio, media_type=FORMATS[WAV])


def _parameters(media_type: str) -> dict[str, int]:
    """Return the parameters of a media type that are whole numbers above 0."""
    found: dict[str, int] = {}
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        value = value.strip().strip('"')
        if _NUMBER.fullmatch(value) and int(value):
            found[name.strip().lower()] = int(value)
    return found


def wave_header(size: int, rate: int, channels: int = 1) -> bytes:
    """Return the 44 bytes that make a WAVE file of ``size`` bytes of 16-bit samples which follow unchanged.

    Source: "Multimedia Programming Interface and Data Specifications 1.0" (IBM and Microsoft, 1991), RIFF and
    WAVE; samples of 16 bits are signed there, and all numbers little-endian.

    :param rate: samples of one channel in a second.
    """
    frame = channels * _SAMPLE_BITS // 8
    return _WAVE_HEADER.pack(
        b"RIFF",
        _BYTES_AFTER_SIZE + size,
        b"WAVE",
        b"fmt ",
        _FORMAT_BYTES,
        _PCM_FORMAT,
        channels,
        rate,
        rate * frame,
        frame,
        _SAMPLE_BITS,
        b"data",
        size,
    )


DEFAULT_VOICE: Final = "alloy"
"""Who speaks at OpenAI where the client names nobody: its API demands a name."""

TO_GEMINI: Final = MappingProxyType(
    {
        "alloy": "Kore",
        "ash": "Orus",
        "ballad": "Enceladus",
        "cedar": "Iapetus",
        "coral": "Laomedeia",
        "echo": "Achird",
        "fable": "Sadachbia",
        "marin": "Sulafat",
        "nova": "Zephyr",
        "onyx": "Charon",
        "sage": "Vindemiatrix",
        "shimmer": "Achernar",
        "verse": "Fenrir",
    }
)
"""OpenAI's voices, and Google's in their place."""

TO_OPENAI: Final = MappingProxyType(
    {
        "Achernar": "shimmer",
        "Achird": "echo",
        "Algenib": "onyx",
        "Algieba": "onyx",
        "Alnilam": "ash",
        "Aoede": "coral",
        "Autonoe": "nova",
        "Callirrhoe": "alloy",
        "Charon": "onyx",
        "Despina": "shimmer",
        "Enceladus": "echo",
        "Erinome": "sage",
        "Fenrir": "fable",
        "Gacrux": "sage",
        "Iapetus": "echo",
        "Kore": "alloy",
        "Laomedeia": "coral",
        "Leda": "nova",
        "Orus": "ash",
        "Puck": "fable",
        "Pulcherrima": "alloy",
        "Rasalgethi": "fable",
        "Sadachbia": "fable",
        "Sadaltager": "onyx",
        "Schedar": "echo",
        "Sulafat": "coral",
        "Umbriel": "echo",
        "Vindemiatrix": "sage",
        "Zephyr": "nova",
        "Zubenelgenubi": "ash",
    }
)
"""Google's voices, and OpenAI's in their place."""


def _stock(own: Mapping[str, str], mapped: Mapping[str, str]) -> Mapping[str, str]:
    """Return what to send for each known name, in whatever case it was asked."""
    return MappingProxyType(
        {name.casefold(): name for name in own}
        | {name.casefold(): instead for name, instead in mapped.items()}
    )


OPENAI_VOICES: Final = _stock(TO_GEMINI, TO_OPENAI)
"""What OpenAI is sent for each voice that is known, by its name in lower case."""
GEMINI_VOICES: Final = _stock(TO_OPENAI, TO_GEMINI)
"""What Google is sent."""


def choose_voice(asked: str, known: Mapping[str, str], overrides: Mapping[str, str]) -> str:
    """Return the name to send to a provider for the voice that a client asked for.

    :param known: what its dialect knows, by names in lower case.
    :param overrides: the operator's table for its family: the name asked for, and the name to send.
    """
    if asked in overrides:
        return overrides[asked]
    folded = asked.casefold()
    for name, instead in overrides.items():
        if name.casefold() == folded:
            return instead
    return known.get(folded, asked)
