"""Speech in Google's words: generateContent that answers with sound, both ways.

Google's models of speech take one text and no instructions beside it, so instructions go before the text.
Of a client's request the words of the user are what is to be spoken, one part a line; its system instruction
says how.  A client that states no format gets raw samples, as Google's do.

Sources: https://ai.google.dev/gemini-api/docs/speech-generation; ``SpeechConfig``, ``VoiceConfig`` and
``AudioResponseFormat`` of google-genai 3.4.
"""

from __future__ import annotations

from base64 import b64decode
from types import MappingProxyType
from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject
from mgw.canonical.reply import StopReason, UpstreamError
from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.dialect import (
    ClientOperation,
    Parsed,
    ProviderOperation,
    Rendered,
    RenderOptions,
    ReplyContext,
    ReplySource,
    RequestContext,
    parsed,
)
from mgw.dialects.fields import Fields, Ledger, none_of, open_request
from mgw.dialects.gemini import wire
from mgw.dialects.gemini.content import leave_part, parse_system
from mgw.dialects.gemini.errors import upstream_error
from mgw.dialects.gemini.modality import with_audio_modality
from mgw.dialects.gemini.render import encoded, target_of
from mgw.dialects.gemini.stops import FINISHES, block_message, stop_of
from mgw.dialects.gemini.usage import usage_metadata, usage_of
from mgw.dialects.media import standard_base64
from mgw.dialects.refusal import AnswerError
from mgw.dialects.speech import ANYTHING, CARRIED, PCM, audio_type, bare_type, contained
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family

__all__ = ["CLIENT", "PROVIDER"]

_AUDIO: Final = "AUDIO"
_ROLES: Final = ("user", "model", "function")
_FORMATS: Final = MappingProxyType(
    {
        "audio/l16": PCM,
        "audio/pcm": PCM,
        "audio/wav": "wav",
        "audio/x-wav": "wav",
        "audio/mpeg": "mp3",
        "audio/mp3": "mp3",
        "audio/ogg": "opus",
        "audio/opus": "opus",
        "audio/aac": "aac",
        "audio/flac": "flac",
    }
)
"""Media types, and OpenAI's names for what they stand for."""
_BLOCKED: Final = 400
"""Asking again would not help."""
_BLOCKED_CODE: Final = "content_filter"
_MOST_CHARACTERS: Final = 64
_ENCODER: Final = Encoder()  # writes bytes as base64


# The client's side ----------------------------------------------------------------------------------------


def parse_request(body: bytes, context: RequestContext) -> Parsed[SpeechRequest]:  # noqa: ARG001 - it cannot be streamed
    """Understand a generateContent request that is to be spoken.

    Raises: :class:`GatewayError` (``MALFORMED``) for what is no such request, or has no words in it.
    """
    ledger = Ledger(snake_too=True)
    request = open_request(body, ledger)
    request.skip("model")  # the path names it
    contents = request.objects_or_one("contents")
    texts = [text for content in contents for text in _texts(content)]
    if not any(text.strip() for text in texts):
        raise request.wrong("contents", "there is no user text to speak")
    system = request.nested("systemInstruction")
    instructions = "" if system is None else "\n".join(text.text for text in parse_system(system))
    config = request.nested("generationConfig")
    voice, said = (None, None) if config is None else (_voice(config), _format(config))
    return parsed(SpeechRequest("\n".join(texts), voice, instructions or None, said or PCM), ledger)


def _texts(content: Fields) -> list[str]:
    """Return the words of a content; what the model said before is not spoken again."""
    role = content.text("role") or _ROLES[0]
    if role not in _ROLES:
        raise none_of(content, "role", role, _ROLES)
    if role != _ROLES[0]:
        content.ledger.leave(f"{content.path().removesuffix('[]')}[{role}]")
        content.skip(*content)
        return []
    texts: list[str] = []
    for part in content.objects_or_one("parts"):
        if part.flag("thought"):
            leave_part(part, "thought")
            continue
        part.skip("thoughtSignature")
        text = part.text("text")
        if text:
            texts.append(text)
    return texts


def _voice(config: Fields) -> str | None:
    """Return who is to speak: of several speakers the first, which is reported."""
    speech = config.nested("speechConfig")
    if speech is None:
        return None
    voice = _named(speech.nested("voiceConfig"))
    several = speech.nested("multiSpeakerVoiceConfig")
    if several is None:
        return voice
    for speaker in several.objects("speakerVoiceConfigs"):
        first = _named(speaker.nested("voiceConfig"))
        voice = voice or first
        speaker.skip(*speaker)
    speech.ledger.leave(several.path())
    return voice


def _named(config: Fields | None) -> str | None:
    if config is None:
        return None
    prebuilt = config.nested("prebuiltVoiceConfig")
    name = None if prebuilt is None else prebuilt.text("voiceName")
    return name or config.text("voice") or None


def _format(config: Fields) -> str | None:
    """Return the format that the client reads; one that nobody else has is reported."""
    modalities = config.take("responseModalities")
    if modalities is not None and modalities not in ([_AUDIO], [_AUDIO.lower()]):
        config.ledger.leave(config.path("responseModalities"))
    stated = config.text("responseMimeType")
    found = _known(config, "responseMimeType", stated)
    for one in config.objects_or_one("responseFormat"):
        audio = one.nested("audio")
        if audio is not None:
            found = _known(audio, "mimeType", audio.text("mimeType")) or found
    return found


def _known(fields: Fields, key: str, media_type: str | None) -> str | None:
    found = _FORMATS.get(bare_type(media_type or ""))
    if found is None and media_type:
        fields.ledger.leave(fields.path(key))
    return found


def render_reply(reply: SpeechReply, context: ReplyContext) -> bytes:
    """Write the answer."""
    blob = {"mimeType": reply.media_type, "data": reply.audio}
    body: JsonObject = {
        "candidates": [
            {
                "content": {"parts": [{"inlineData": blob}], "role": "model"},
                "finishReason": FINISHES[reply.stop],
                "index": 0,
            }
        ]
    }
    usage = usage_metadata(reply.usage)
    if usage:
        body["usageMetadata"] = usage
    body["modelVersion"] = reply.model or context.model
    body["responseId"] = reply.id or context.request_id
    return _ENCODER.encode(body)


# The provider's side --------------------------------------------------------------------------------------


def render_request(request: SpeechRequest, options: RenderOptions) -> Rendered:
    """Return the request to Google.

    Raises: :class:`GatewayError` (``MALFORMED``) for a text that no JSON can carry.
    """
    said = request.text if request.instructions is None else f"{request.instructions}\n\n{request.text}"
    config: JsonObject = {"responseModalities": [_AUDIO]}
    if request.voice is not None:
        voice = {"prebuiltVoiceConfig": {"voiceName": request.voice}}
        config["speechConfig"] = {"voiceConfig": voice}
    body: JsonObject = {
        "contents": [{"role": "user", "parts": [{"text": said}]}],
        "generationConfig": config,
    }
    return Rendered(target_of(options.model, b"generateContent"), encoded(body), CARRIED)


def parse_reply(body: bytes, source: ReplySource) -> SpeechReply:
    """Return the sound.

    Raises: :class:`AnswerError` where the provider refuses to say the text, :class:`GatewayError`
    (``UPSTREAM_BROKEN``) where asking again may help.
    """
    found = wire.response_of(body)
    if found is None:
        raise _silent("the provider's response is not a generateContent response")
    if found.error is not None:
        told = upstream_error(found.error)
        words = "the error cannot be read" if told is None else told.message
        raise _silent(f"the upstream failed: {words}")
    if not found.candidates:
        raise AnswerError(_blocked(found.prompt_feedback))
    candidate = found.candidates[0]
    blobs = [part.inline_data for part in (candidate.content.parts if candidate.content else None) or ()]
    stop, _ = stop_of(candidate.finish_reason or "STOP", calls=False)
    media_type, audio = _joined([blob for blob in blobs if blob is not None])
    if media_type is None:
        raise AnswerError(_refused(candidate, stop))
    usage = usage_of(bytes(found.usage_metadata))
    reply = SpeechReply(audio, media_type, found.response_id, found.model_version, stop, usage)
    request: SpeechRequest = source.request
    return contained(reply, request.format)


def _joined(blobs: list[wire.Blob]) -> tuple[str | None, bytes]:
    """Return the sound of all parts, in their order, and its media type."""
    media_type: str | None = None
    pieces: list[bytes] = []
    for blob in blobs:
        stated = audio_type(blob.mime_type)
        if stated is None or not blob.data:
            continue
        if media_type is not None and _same_type(media_type) != _same_type(stated):
            raise _silent("the provider's response has audio of several media types")
        media_type = media_type or stated
        try:
            pieces.append(b64decode(standard_base64(blob.data), validate=True))
        except ValueError:
            raise _silent("the provider's response has audio that is not valid base64") from None
    return media_type, pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _same_type(media_type: str) -> str:
    return media_type.replace(" ", "").lower()


def _blocked(feedback: wire.Feedback | None) -> UpstreamError:
    """Return why nothing was answered."""
    reason = feedback.block_reason if feedback else None
    if reason is None or feedback is None:
        raise _silent("the provider's response has no candidates; try again")
    return UpstreamError(_BLOCKED, block_message(reason, feedback.block_reason_message), _BLOCKED_CODE)


def _refused(candidate: wire.Candidate, stop: StopReason) -> UpstreamError:
    """Return why an answer has no sound."""
    word = (candidate.finish_reason or "no reason given")[:_MOST_CHARACTERS]
    if stop is StopReason.REFUSAL:
        message = candidate.finish_message or f"The model refused to speak: {word}."
        return UpstreamError(_BLOCKED, message, _BLOCKED_CODE)
    spoke = any(part.text for part in (candidate.content.parts if candidate.content else None) or ())
    why = "the model answered with text: try again, or use a speech model" if spoke else "ask again"
    raise _silent(f"the provider's response has no audio ({word}); {why}")


def _silent(message: str) -> GatewayError:
    return GatewayError(Reason.UPSTREAM_BROKEN, message)


CLIENT: Final = ClientOperation(
    parse_request, render_reply, body_of=Family.GEMINI, natively=with_audio_modality
)
"""The clients' side of speech."""
PROVIDER: Final = ProviderOperation(render_request, parse_reply, accept=ANYTHING)
"""The providers' side of speech."""
