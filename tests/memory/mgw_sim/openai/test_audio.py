"""Speech and transcriptions."""

import base64
import io
import json
import struct
import wave
from typing import Any

import pytest

from mgw_sim.api import StreamResponse, UnaryResponse
from tests.memory.mgw_sim.client import FORM, Client, body_of, form_of

SPEECH: dict[str, Any] = {"model": "gpt-4o-mini-tts", "input": "one two", "voice": "alloy"}
SOUND = ("file", "a.wav", bytes(4800))
MODEL = ("model", None, b"gpt-4o-transcribe")


@pytest.fixture
def ours() -> Client:
    return Client()


def _events(client: Client, target: str, body: Any, **headers: str) -> list[Any]:
    answer = client.ask("POST", target, body, **headers)
    assert isinstance(answer, StreamResponse), answer
    lines = [piece.split(b"data: ")[1] for piece in answer.pieces]
    return [json.loads(line) for line in lines if not line.startswith(b"[DONE]")]


@pytest.mark.parametrize(
    ("wanted", "media", "begins"),
    [
        ("mp3", "audio/mpeg", b"ID3"),
        ("opus", "audio/opus", b"OggS"),
        ("aac", "audio/aac", b"\xff\xf1"),
        ("flac", "audio/flac", b"fLaC"),
        ("wav", "audio/wav", b"RIFF"),
        ("pcm", "audio/pcm", b""),
    ],
)
def test_speech_comes_in_the_format_that_is_asked_for(
    ours: Client, wanted: str, media: str, begins: bytes
) -> None:
    answer = ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": wanted})
    assert isinstance(answer, StreamResponse)
    assert answer.content_type == media
    assert body_of(answer).startswith(begins)
    assert body_of(answer) == body_of(
        ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": wanted})
    )
    assert body_of(answer) != body_of(
        ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": wanted, "voice": {"id": "v"}})
    )


def test_a_wave_file_is_one(ours: Client) -> None:
    made = body_of(ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": "wav"}))
    assert struct.unpack("<I", made[4:8])[0] == len(made) - 8
    with wave.open(io.BytesIO(made)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (24000, 1, 960)


def test_speech_as_events_counts_its_tokens(ours: Client) -> None:
    *deltas, done = _events(ours, "/v1/audio/speech", {**SPEECH, "stream_format": "sse"})
    found = b"".join(base64.b64decode(event["audio"]) for event in deltas)
    assert found == body_of(ours.ask("POST", "/v1/audio/speech", SPEECH))
    assert done["usage"] == {"input_tokens": 2, "output_tokens": 2, "total_tokens": 4}


@pytest.mark.parametrize(
    "change",
    [
        {"model": None},
        {"input": ""},
        {"voice": None},
        {"response_format": "au"},
        {"speed": 5},
        {"model": "tts-1", "stream_format": "sse"},
        {"frobnicate": 1},
    ],
)
def test_speech_that_cannot_be_is_refused(ours: Client, change: dict[str, Any]) -> None:
    assert ours.error("POST", "/v1/audio/speech", {**SPEECH, **change})[0] == 400


def test_speech_of_any_size_can_be_had(ours: Client) -> None:
    body = {**SPEECH, "model": "m+sim-size-100000", "response_format": "pcm"}
    assert len(body_of(ours.ask("POST", "/v1/audio/speech", body))) == 100_000


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("text", b"You said 4800 bytes in a.wav.\n"),
        ("srt", b"1\n00:00:00,000 --> 00:00:00,100\nYou said 4800 bytes in a.wav.\n\n"),
        ("vtt", b"WEBVTT\n\n00:00:00.000 --> 00:00:00.100\nYou said 4800 bytes in a.wav.\n\n"),
    ],
)
def test_a_transcription_comes_as_text(ours: Client, wanted: str, found: bytes) -> None:
    body = form_of(SOUND, MODEL, ("response_format", None, wanted.encode()))
    for task in ("transcriptions", "translations"):
        answer = ours.ask("POST", f"/v1/audio/{task}", body, content_type=FORM.decode())
        assert isinstance(answer, UnaryResponse)
        assert (answer.body, answer.content_type) == (found, "text/plain; charset=utf-8")


def test_a_transcription_comes_as_json(ours: Client) -> None:
    told = ours.post_form("/v1/audio/transcriptions", SOUND, MODEL, ("prompt", None, b"a b"))
    assert told["text"] == "You said 4800 bytes in a.wav."
    assert told["usage"]["total_tokens"] == 4 + 2 + 6
    wanted = ("response_format", None, b"verbose_json")
    told = ours.post_form("/v1/audio/translations", SOUND, MODEL, wanted)
    assert (told["task"], told["duration"], told["segments"][0]["end"]) == ("translate", 0.1, 0.1)


def test_a_transcription_streams_but_not_from_whisper(ours: Client) -> None:
    stream = ("stream", None, b"true")
    media = FORM.decode()
    events = _events(ours, "/v1/audio/transcriptions", form_of(SOUND, MODEL, stream), content_type=media)
    assert "".join(event["delta"] for event in events[:-1]) == events[-1]["text"]
    assert events[-1]["usage"]["output_tokens"] == 6
    assert "text" in ours.post_form("/v1/audio/transcriptions", SOUND, ("model", None, b"whisper-1"), stream)


@pytest.mark.parametrize("parts", [(MODEL,), (SOUND,), (SOUND, MODEL, ("response_format", None, b"rtf"))])
def test_a_transcription_that_cannot_be_is_refused(
    ours: Client, parts: tuple[tuple[str, str | None, bytes], ...]
) -> None:
    sent = form_of(*parts)
    assert ours.error("POST", "/v1/audio/transcriptions", sent, content_type=FORM.decode())[0] == 400
