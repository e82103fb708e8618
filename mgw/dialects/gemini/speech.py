"""Speech: generateContent that responds with audio, both ways.

Google's models of speech take one text and no instructions beside it, so instructions go before the text.
Of a client's request the words of the user are what is to be spoken, one part a line; its system instruction
tells how.  A client that states no format gets raw samples, as Google's do.

``:generateSpeech`` takes a generateContent body and goes to ``:generateContent`` (contract 4.25).  Where a
client of Google's own asks Google, its bytes go as they are; what asks for audio, and may be missing, is put
in at its place.

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
    finish_parsing,
)
from mgw.dialects.fields import Fields, Ledger, none_of, open_request
from mgw.dialects.gemini.blocks import leave_part, parse_system
from mgw.dialects.gemini.candidates import BlobShape, CandidateShape, PromptFeedback, decode_response
from mgw.dialects.gemini.errors import parse_error_value
from mgw.dialects.gemini.reply import describe_block, parse_stop, render_response, render_stop
from mgw.dialects.gemini.request import encode_body, render_target
from mgw.dialects.gemini.usage import parse_usage
from mgw.dialects.media import standard_base64
from mgw.dialects.refusal import AnswerError
from mgw.dialects.speech import ANYTHING, CARRIED, PCM, add_wave_header, audio_type, bare_type
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.wire.json_document import JsonDocument, JsonNode
from mgw.wire.json_spans import Edit, apply_edits

_AUDIO: Final = "AUDIO"
_AUDIO_ONLY: Final = b'["AUDIO"]'
_CONFIG_KEYS: Final = ("generationConfig", "generation_config")
_MODALITIES_KEYS: Final = ("responseModalities", "response_modalities")
"""Both spellings, which proto3 JSON takes alike."""
_NULL: Final = b"null"
_EMPTY: Final = frozenset({_NULL, b"[]"})
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
_MAX_CHARACTERS: Final = 64
_ENCODER: Final = Encoder()  # writes bytes as base64


def parse_request(body: bytes, context: RequestContext) -> Parsed[SpeechRequest]:  # noqa: ARG001 - it cannot be streamed
    """Return a generateContent request that is to be spoken.

    :raises GatewayError: ``MALFORMED`` for what is no such request, or has no words in it.
    """
    ledger = Ledger(snake_too=True)
    request = open_request(body, ledger)
    request.skip("model")  # the path names it
    contents = request.objects_or_one("contents")
    texts = [text for content in contents for text in _parse_content(content)]
    if not any(text.strip() for text in texts):
        raise request.wrong("contents", "no user text to speak")
    system = request.nested("systemInstruction")
    instructions = "" if system is None else "\n".join(text.text for text in parse_system(system))
    config = request.nested("generationConfig")
    voice, audio_format = (None, None) if config is None else (_parse_voice(config), _parse_format(config))
    return finish_parsing(
        SpeechRequest("\n".join(texts), voice, instructions or None, audio_format or PCM), ledger
    )


def _parse_content(content: Fields) -> list[str]:
    """Return the words of a content; what the model wrote before is not spoken."""
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


def _parse_voice(config: Fields) -> str | None:
    """Return who is to speak: of several speakers the first, which is reported."""
    speech = config.nested("speechConfig")
    if speech is None:
        return None
    voice = _parse_voice_name(speech.nested("voiceConfig"))
    several = speech.nested("multiSpeakerVoiceConfig")
    if several is None:
        return voice
    for speaker in several.objects("speakerVoiceConfigs"):
        first = _parse_voice_name(speaker.nested("voiceConfig"))
        voice = voice or first
        speaker.skip(*speaker)
    speech.ledger.leave(several.path())
    return voice


def _parse_voice_name(config: Fields | None) -> str | None:
    if config is None:
        return None
    prebuilt = config.nested("prebuiltVoiceConfig")
    name = None if prebuilt is None else prebuilt.text("voiceName")
    return name or config.text("voice") or None


def _parse_format(config: Fields) -> str | None:
    """Return the format that the client reads; one that nobody else has is reported."""
    modalities = config.take("responseModalities")
    if modalities is not None and modalities not in ([_AUDIO], [_AUDIO.lower()]):
        config.ledger.leave(config.path("responseModalities"))
    stated = config.text("responseMimeType")
    found = _find_format(config, "responseMimeType", stated)
    for one in config.objects_or_one("responseFormat"):
        audio = one.nested("audio")
        if audio is not None:
            found = _find_format(audio, "mimeType", audio.text("mimeType")) or found
    return found


def _find_format(fields: Fields, key: str, media_type: str | None) -> str | None:
    found = _FORMATS.get(bare_type(media_type or ""))
    if found is None and media_type:
        fields.ledger.leave(fields.path(key))
    return found


def parse_reply(body: bytes, source: ReplySource) -> SpeechReply:
    """Return the audio.

    :raises AnswerError: where the provider refuses to speak the text, :class:`GatewayError`
    (``UPSTREAM_BROKEN``) where asking again may help.
    """
    found = decode_response(body)
    if found is None:
        raise _no_audio("the provider's response is not a generateContent response")
    if found.error is not None:
        error = parse_error_value(found.error)
        words = "the error cannot be read" if error is None else error.message
        raise _no_audio(f"the upstream failed: {words}")
    if not found.candidates:
        raise AnswerError(_block_error(found.prompt_feedback))
    candidate = found.candidates[0]
    blobs = [part.inline_data for part in (candidate.content.parts if candidate.content else None) or ()]
    stop, _ = parse_stop(candidate.finish_reason or "STOP", calls=False)
    media_type, audio = _join_audio([blob for blob in blobs if blob is not None])
    if media_type is None:
        raise AnswerError(_refusal_error(candidate, stop))
    usage = parse_usage(bytes(found.usage_metadata))
    reply = SpeechReply(audio, media_type, found.response_id, found.model_version, stop, usage)
    request: SpeechRequest = source.request
    return add_wave_header(reply, request.format)


def _join_audio(blobs: list[BlobShape]) -> tuple[str | None, bytes]:
    """Return the audio of all parts, in their order, and its media type."""
    media_type: str | None = None
    pieces: list[bytes] = []
    for blob in blobs:
        stated = audio_type(blob.mime_type)
        if stated is None or not blob.data:
            continue
        if media_type is not None and _same_type(media_type) != _same_type(stated):
            raise _no_audio("the provider's response has audio of several media types")
        media_type = media_type or stated
        try:
            pieces.append(b64decode(standard_base64(blob.data), validate=True))
        except ValueError:
            raise _no_audio("the provider's response has audio that is not valid base64") from None
    return media_type, pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _same_type(media_type: str) -> str:
    return media_type.replace(" ", "").lower()


def _block_error(feedback: PromptFeedback | None) -> UpstreamError:
    """Return why there is no response."""
    reason = feedback.block_reason if feedback else None
    if reason is None or feedback is None:
        raise _no_audio("the provider's response has no candidates; try again")
    return UpstreamError(_BLOCKED, describe_block(reason, feedback.block_reason_message), _BLOCKED_CODE)


def _refusal_error(candidate: CandidateShape, stop: StopReason) -> UpstreamError:
    """Return why a response has no audio."""
    word = (candidate.finish_reason or "no reason given")[:_MAX_CHARACTERS]
    if stop is StopReason.REFUSAL:
        message = candidate.finish_message or f"The model refused to speak: {word}."
        return UpstreamError(_BLOCKED, message, _BLOCKED_CODE)
    spoke = any(part.text for part in (candidate.content.parts if candidate.content else None) or ())
    why = "the model answered with text: try again, or use a speech model" if spoke else "try again"
    raise _no_audio(f"the provider's response has no audio ({word}); {why}")


def _no_audio(message: str) -> GatewayError:
    return GatewayError(Reason.UPSTREAM_BROKEN, message)


def render_request(request: SpeechRequest, options: RenderOptions) -> Rendered:
    """Return the request to Google.

    :raises GatewayError: ``MALFORMED`` for a text that no JSON can carry.
    """
    text = request.text if request.instructions is None else f"{request.instructions}\n\n{request.text}"
    config: JsonObject = {"responseModalities": [_AUDIO]}
    if request.voice is not None:
        voice = {"prebuiltVoiceConfig": {"voiceName": request.voice}}
        config["speechConfig"] = {"voiceConfig": voice}
    body: JsonObject = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "generationConfig": config,
    }
    return Rendered(render_target(options.model, b"generateContent"), encode_body(body), CARRIED)


def render_reply(reply: SpeechReply, context: ReplyContext) -> bytes:
    """Return the response as Google's clients read it."""
    blob = {"mimeType": reply.media_type, "data": reply.audio}
    candidate: JsonObject = {
        "content": {"parts": [{"inlineData": blob}], "role": "model"},
        "finishReason": render_stop(reply.stop),
        "index": 0,
    }
    return render_response([candidate], reply, context)


def add_audio_modality(body: bytes) -> bytes:
    """Return ``body`` with ``responseModalities: ["AUDIO"]`` where it states none; else the same object.

    ``null`` and an empty list state none, as in all of proto3 JSON.  A body of another shape is left alone:
    it is Google's to refuse.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, or is nested too deeply.
    """
    document = JsonDocument(body)
    if not _is_object(body, document.root):
        return body
    config, spelling = _find_member(document, document.root, _CONFIG_KEYS)
    member = b'"%b":%b' % (_MODALITIES_KEYS[spelling].encode(), _AUDIO_ONLY)
    if config is None:
        new = b'"%b":{%b}' % (_CONFIG_KEYS[0].encode(), member)
        return apply_edits(body, [_insert(document, document.root, new)])
    if document.raw(config) == _NULL:
        return apply_edits(body, [((config.value, config.end), b"{%b}" % member)])
    if not _is_object(body, config):
        return body
    modalities, _ = _find_member(document, config, _MODALITIES_KEYS)
    if modalities is None:
        return apply_edits(body, [_insert(document, config, member)])
    if b"".join(document.raw(modalities).split()) in _EMPTY:
        return apply_edits(body, [((modalities.value, modalities.end), _AUDIO_ONLY)])
    return body


def _find_member(
    document: JsonDocument, holder: JsonNode, spellings: tuple[str, ...]
) -> tuple[JsonNode | None, int]:
    """Return the member that counts, and which spelling it has: the last one that is not null."""
    members = document.members(holder)
    found = [(place, number) for number, key in enumerate(spellings) for place in members.get(key, [])]
    found.sort(key=lambda one: one[0].start)
    not_null = [one for one in found if document.raw(one[0]) != _NULL]
    kept = not_null or found
    return kept[-1] if kept else (None, 0)


def _is_object(body: bytes, node: JsonNode) -> bool:
    return body.startswith(b"{", node.value)


def _insert(document: JsonDocument, holder: JsonNode, member: bytes) -> Edit:
    """Return the edit that makes ``member`` the first of an object."""
    behind = holder.value + 1
    return (behind, behind), member + (b"," if document.members(holder) else b"")


CLIENT: Final = ClientOperation(
    parse_request, render_reply, body_of=Family.GEMINI, natively=add_audio_modality
)
"""The clients' side of speech."""
PROVIDER: Final = ProviderOperation(render_request, parse_reply, accept=ANYTHING)
"""The providers' side of speech."""
