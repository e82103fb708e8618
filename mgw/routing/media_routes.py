"""Images, videos and audio (contract 4.3)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.nouns.vocabulary import DialectName, Family, Modality
from mgw.routing.model_source import IN_BODY, IN_FORM, IN_PATH, ModelAt, ModelSource
from mgw.routing.resources import Resource, routes_of
from mgw.routing.route import Call, Route, Treatment

MAX_AUDIO_BYTES: Final = 32 * 1024 * 1024
"""The limit of audio to be transcribed or translated, whatever ``max_body_bytes`` allows (contract 5.11)."""

_AUTHOR: Final = (("svg", "model"),)
"""Who writes a drawing that is asked for as SVG."""
_DRAWING: Final = ModelSource(ModelAt.BODY, (("model",),), others=_AUTHOR)
_DRAWING_FORM: Final = ModelSource(ModelAt.FORM, others=_AUTHOR)
_IMAGE: Final = Modality.IMAGE_GEN
_VIDEO: Final = Modality.VIDEO_GEN
_SPEECH: Final = Modality.AUDIO_SPEECH
_TRANSCRIPTION: Final = Modality.AUDIO_TRANSCRIBE

_OPENAI_MEDIA: Final = (
    Resource("/v1/images/generations", "POST", _DRAWING, modality=_IMAGE, metered=True),
    Resource(
        "/v1/images/edits",
        "POST",
        _DRAWING_FORM,
        modality=_IMAGE,
        metered=True,
    ),
    Resource("/v1/images/variations", "POST", IN_FORM, modality=_IMAGE, metered=True),
    Resource("/v1/videos", "GET POST", IN_FORM, modality=_VIDEO, hides_cost=True),
    Resource("/v1/videos/characters", "POST", modality=_VIDEO, hides_cost=True),
    Resource("/v1/videos/characters/{character_id}", "GET", modality=_VIDEO),
    Resource("/v1/videos/edits", "POST", IN_FORM, modality=_VIDEO, hides_cost=True),
    Resource("/v1/videos/extensions", "POST", IN_FORM, modality=_VIDEO, hides_cost=True),
    Resource("/v1/videos/{video_id}", "GET DELETE", modality=_VIDEO),
    Resource("/v1/videos/{video_id}/content", "GET", modality=_VIDEO),
    Resource("/v1/videos/{video_id}/remix", "POST", modality=_VIDEO, hides_cost=True),
    Resource(
        "/v1/audio/transcriptions",
        "POST",
        IN_FORM,
        modality=_TRANSCRIPTION,
        metered=True,
        max_body_bytes=MAX_AUDIO_BYTES,
    ),
    Resource(
        "/v1/audio/translations",
        "POST",
        IN_FORM,
        modality=_TRANSCRIPTION,
        metered=True,
        max_body_bytes=MAX_AUDIO_BYTES,
    ),
)
_GEMINI_MEDIA: Final = (
    Resource("/v1beta/models/{model}:predict", "POST", IN_PATH, modality=_IMAGE, metered=True),
    Resource("/v1beta/models/{model}:predictLongRunning", "POST", IN_PATH, modality=_VIDEO, hides_cost=True),
)
_AUDIO_SPEECH: Final = Route(
    "audio_speech",
    "POST",
    "/v1/audio/speech",
    DialectName.OPENAI,
    _SPEECH,
    IN_BODY,
    Treatment.SPEECH,
    translated_for=frozenset({Family.GEMINI}),
    group="audio",
)

MEDIA_ROUTES: Final = (
    *routes_of(DialectName.OPENAI, _OPENAI_MEDIA),
    *routes_of(DialectName.GEMINI, _GEMINI_MEDIA),
    _AUDIO_SPEECH,
    replace(
        _AUDIO_SPEECH,
        name="anthropic_audio_speech",
        dialect=DialectName.ANTHROPIC,
        translated_for=frozenset({Family.OPENAI, Family.GEMINI}),
        defaults_of=Family.OPENAI,
    ),
    Route(
        "generate_speech",
        "POST",
        "/v1beta/models/{model}:generateSpeech",
        DialectName.GEMINI,
        _SPEECH,
        IN_PATH,
        Treatment.SPEECH,
        call=Call(verb="generateContent"),
        translated_for=frozenset({Family.OPENAI}),
        group="audio",
    ),
)
"""What needs another capability than text."""
