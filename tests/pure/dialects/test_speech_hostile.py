"""Hostile speech: whatever a client or a provider sends, nothing but a refusal comes out."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from mgw.canonical.reply import UpstreamError
from mgw.dialects.gemini.speech import add_audio_modality
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from tests.support.hostile_json import PLACE_NUMBERS, RANDOM_JSON, WRONG, Json, paths, place_in, replaced
from tests.support.speech_cases import sent, told

WAYS = [
    (Family.OPENAI, Family.GEMINI),
    (Family.ANTHROPIC, Family.GEMINI),
    (Family.ANTHROPIC, Family.OPENAI),
    (Family.GEMINI, Family.OPENAI),
]
OPENAIS: Any = {
    "model": "m",
    "input": "Hello",
    "voice": {"id": "voice_1"},
    "instructions": "Whisper.",
    "response_format": "wav",
    "speed": 1.5,
}
GOOGLES: Any = {
    "contents": [{"role": "user", "parts": [{"text": "Hello", "thought": False, "thoughtSignature": "x"}]}],
    "systemInstruction": {"parts": [{"text": "Whisper."}]},
    "generationConfig": {
        "responseModalities": ["AUDIO"],
        "responseMimeType": "audio/wav",
        "responseFormat": [{"audio": {"mimeType": "audio/wav"}}],
        "speechConfig": {
            "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}, "voice": "Kore"},
            "multiSpeakerVoiceConfig": {
                "speakerVoiceConfigs": [
                    {"speaker": "A", "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Puck"}}}
                ]
            },
        },
    },
}
REQUESTS = {Family.OPENAI: OPENAIS, Family.ANTHROPIC: OPENAIS, Family.GEMINI: GOOGLES}
SOUND = b64encode(bytes(100)).decode()
ANSWER: Any = {
    "candidates": [
        {
            "content": {"parts": [{"inlineData": {"mimeType": "audio/L16;rate=24000", "data": SOUND}}]},
            "finishReason": "STOP",
            "finishMessage": "done",
        }
    ],
    "promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"},
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
    "modelVersion": "m",
    "responseId": "r",
}
EVENT: Any = {
    "type": "speech.audio.delta",
    "audio": SOUND,
    "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
}


def answered(client: Family, provider: Family, body: bytes, content_type: bytes = b"audio/L16") -> None:
    """Read an answer; nothing but sound, a refusal or :class:`GatewayError` may come out."""
    try:
        found = told(client, provider, body, content_type)
    except GatewayError as error:
        if error.reason is not Reason.UPSTREAM_BROKEN:
            raise
        return
    assert isinstance(found, UpstreamError) or found.content_type.isascii()


@pytest.mark.parametrize(("client", "provider"), WAYS)
def test_a_wrong_type_in_any_place_of_a_request_is_taken_or_refused(client: Family, provider: Family) -> None:
    body = REQUESTS[client]
    for place in paths(body):
        for wrong in WRONG:
            sent(client, provider, msgspec.json.encode(replaced(body, place, wrong)))


@pytest.mark.slow
@given(number=PLACE_NUMBERS, new=RANDOM_JSON)
def test_any_json_in_any_place_of_a_request_is_taken_or_refused(number: int, new: Json) -> None:
    for client, provider in WAYS:
        note(f"{client} to {provider}")
        body = REQUESTS[client]
        sent(client, provider, msgspec.json.encode(replaced(body, place_in(body, number), new)))


@given(body=st.binary(max_size=60) | RANDOM_JSON.map(msgspec.json.encode))
def test_any_bytes_of_a_request_or_an_answer_are_taken_or_refused(body: bytes) -> None:
    for client, provider in WAYS:
        note(f"{client} to {provider}")
        sent(client, provider, body)
        answered(client, provider, body)
        answered(client, provider, b"data: " + body + b"\n\n", b"text/event-stream")


@pytest.mark.parametrize("client", [Family.OPENAI, Family.ANTHROPIC])
def test_a_wrong_type_in_any_place_of_googles_answer_is_skipped_or_broken(client: Family) -> None:
    for place in paths(ANSWER):
        for wrong in WRONG:
            answered(client, Family.GEMINI, msgspec.json.encode(replaced(ANSWER, place, wrong)))


@pytest.mark.parametrize("client", [Family.ANTHROPIC, Family.GEMINI])
def test_a_wrong_type_in_any_place_of_an_event_is_skipped_or_broken(client: Family) -> None:
    for place in paths(EVENT):
        for wrong in WRONG:
            event = b"data: " + msgspec.json.encode(replaced(EVENT, place, wrong)) + b"\n\n"
            answered(client, Family.OPENAI, event, b"text/event-stream")


@given(content_type=st.binary(max_size=40))
def test_any_media_type_of_an_answer_is_told_in_a_header_or_broken(content_type: bytes) -> None:
    answered(Family.GEMINI, Family.OPENAI, b"sound", content_type)


@given(stated=st.text(max_size=30).map("audio/".__add__) | st.text(max_size=30))
def test_any_media_type_of_googles_is_told_in_a_header_or_broken(stated: str) -> None:
    blob = {"mimeType": stated, "data": SOUND}
    body = {"candidates": [{"content": {"parts": [{"inlineData": blob}]}}]}
    answered(Family.OPENAI, Family.GEMINI, json.dumps(body).encode())


@given(body=st.binary(max_size=60) | RANDOM_JSON.map(msgspec.json.encode))
def test_any_body_is_wished_sound_in_or_refused(body: bytes) -> None:
    try:
        found = add_audio_modality(body)
    except GatewayError as error:
        if error.reason is not Reason.MALFORMED:
            raise
        return
    json.loads(found)
