"""What the dialects share of speech: the request body, media types, and the head before raw samples."""

from __future__ import annotations

import io
import json
import wave
from typing import Any

import pytest

from mgw.canonical.speech import SpeechReply, SpeechRequest
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.speech import add_wave_header, audio_type, parse_speech
from mgw.nouns.errors import GatewayError, Reason

SAMPLES = bytes(range(240)) * 2


def parsed(**fields: Any) -> tuple[SpeechRequest, Parsed[SpeechRequest]]:  # Any: JSON as a client writes it
    found = parse_speech(json.dumps({"model": "m", "input": "Hello", **fields}).encode(), RequestContext("m"))
    return found.request, found


def test_everything_is_taken_or_reported() -> None:
    asked, found = parsed(
        voice="alloy",
        instructions="Whisper.",
        response_format="wav",
        speed=1.5,
        stream_format="audio",
        lang_code="en",
    )
    assert asked == SpeechRequest("Hello", "alloy", "Whisper.", "wav")
    assert found.unread == {"speed", "stream_format", "lang_code"}


def test_a_request_of_three_fields_reports_nothing() -> None:
    asked, found = parsed(voice="alloy")
    assert asked == SpeechRequest("Hello", "alloy")
    assert found.unread == frozenset()


@pytest.mark.parametrize("said", ["mp3", "opus", "aac", "flac", "WAV", "unheard-of"])
def test_a_format_that_would_take_an_encoder_is_reported(said: str) -> None:
    asked, found = parsed(response_format=said)
    assert asked.format == said
    assert found.unread == {"response_format"}


@pytest.mark.parametrize("said", ["pcm", "wav"])
def test_raw_samples_and_their_file_are_not_reported(said: str) -> None:
    assert parsed(response_format=said)[1].unread == frozenset()


def test_a_voice_of_the_clients_own_is_reported() -> None:
    asked, found = parsed(voice={"id": "voice_1234"})
    assert asked.voice is None
    assert found.unread == {"voice"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["Hello"]}, "input"),
        ({"input": " \n"}, "input"),
        ({"voice": 5}, "voice"),
        ({"voice": {"name": "x"}}, "voice"),
        ({"voice": {"id": 5}}, "voice"),
        ({"instructions": ["x"]}, "instructions"),
        ({"response_format": 1}, "response_format"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:  # Any: as above
    with pytest.raises(GatewayError) as caught:
        parsed(**fields)
    assert (caught.value.reason, caught.value.param) == (Reason.MALFORMED, param)


@pytest.mark.parametrize(
    ("media_type", "rate", "channels"),
    [
        ("audio/L16;codec=pcm;rate=24000", 24_000, 1),
        ("audio/l16; rate=16000; channels=2", 16_000, 2),
        ('audio/pcm;Rate="8000"', 8_000, 1),
        ("audio/pcm", 24_000, 1),
        ("audio/L16;rate=0;channels=0", 24_000, 1),
        ("audio/L16;rate=fast", 24_000, 1),
        ("audio/L16;rate=99999999999", 24_000, 1),
    ],
)
def test_samples_become_a_file_of_their_rate(media_type: str, rate: int, channels: int) -> None:
    found = add_wave_header(SpeechReply(SAMPLES, media_type), "wav")
    assert found.media_type == "audio/wav"
    assert found.audio.endswith(SAMPLES)
    assert len(found.audio) == 44 + len(SAMPLES)
    with wave.open(io.BytesIO(found.audio)) as file:
        assert file.readframes(file.getnframes()) == SAMPLES
        assert (file.getframerate(), file.getnchannels()) == (rate, channels)


@pytest.mark.parametrize("media_type", ["audio/wav", "audio/mpeg", "audio/L24;rate=48000", "audio/ogg"])
def test_what_is_no_raw_samples_is_left_as_it_is(media_type: str) -> None:
    reply = SpeechReply(b"RIFF....", media_type)
    assert add_wave_header(reply, "wav") is reply


@pytest.mark.parametrize("wanted", ["pcm", "mp3", None])
def test_no_file_is_made_for_who_wants_none(wanted: str | None) -> None:
    reply = SpeechReply(SAMPLES, "audio/L16;rate=24000")
    assert add_wave_header(reply, wanted) is reply


def test_samples_of_more_channels_than_anybody_has_stay_raw() -> None:
    reply = SpeechReply(SAMPLES, "audio/L16;rate=24000;channels=70000")
    assert add_wave_header(reply, "wav") is reply


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("audio/L16;codec=pcm;rate=24000", "audio/L16;codec=pcm;rate=24000"),
        (" Audio/WAV ", "Audio/WAV"),
        ("audio/", None),
        ("audio", None),
        ("image/png", None),
        ("audio/wav\r\nX-Evil: 1", None),
        ("audio/wav\n", "audio/wav"),
        ("audio/wäv", None),
        ("audio/" + "x" * 500, None),
        ("", None),
        (None, None),
    ],
)
def test_only_what_may_stand_in_a_header_is_a_media_type(stated: str | None, found: str | None) -> None:
    assert audio_type(stated) == found
