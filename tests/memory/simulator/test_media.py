"""Speech, transcriptions, images and videos."""

import base64
import io
import json
import struct
import wave
from typing import Any

import pytest

from mgw.simulator.api import StreamResponse, UnaryResponse
from tests.memory.simulator.asking import FORM, GOOGLE, Client, content_body, form_of, whole

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
    assert whole(answer).startswith(begins)
    assert whole(answer) == whole(ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": wanted}))
    assert whole(answer) != whole(
        ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": wanted, "voice": {"id": "v"}})
    )


def test_a_wave_file_is_one(ours: Client) -> None:
    made = whole(ours.ask("POST", "/v1/audio/speech", {**SPEECH, "response_format": "wav"}))
    assert struct.unpack("<I", made[4:8])[0] == len(made) - 8
    with wave.open(io.BytesIO(made)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (24000, 1, 960)


def test_speech_as_events_counts_its_tokens(ours: Client) -> None:
    *deltas, done = _events(ours, "/v1/audio/speech", {**SPEECH, "stream_format": "sse"})
    found = b"".join(base64.b64decode(event["audio"]) for event in deltas)
    assert found == whole(ours.ask("POST", "/v1/audio/speech", SPEECH))
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
    assert ours.refused("POST", "/v1/audio/speech", {**SPEECH, **change})[0] == 400


def test_speech_of_any_size_can_be_had(ours: Client) -> None:
    body = {**SPEECH, "model": "m+sim-size-100000", "response_format": "pcm"}
    assert len(whole(ours.ask("POST", "/v1/audio/speech", body))) == 100_000


def test_google_speaks_in_one_part_and_in_several() -> None:
    google = Client(GOOGLE)
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
    body = content_body(" ".join("word" for _ in range(9)), responseModalities=["AUDIO"], speechConfig=voice)
    told = google.told("POST", "/v1beta/models/m:generateContent", body)
    [part] = told["candidates"][0]["content"]["parts"]
    assert part["inlineData"]["mimeType"] == "audio/L16;codec=pcm;rate=24000"
    assert told["usageMetadata"]["candidatesTokensDetails"] == [{"modality": "AUDIO", "tokenCount": 9}]
    pieces = _events(google, "/v1beta/models/m:streamGenerateContent?alt=sse", body)
    data = [one["candidates"][0]["content"]["parts"][0]["inlineData"]["data"] for one in pieces]
    assert len(data) > 1
    assert b"".join(map(base64.b64decode, data)) == base64.b64decode(part["inlineData"]["data"])
    other = content_body("word " * 9, responseModalities=["AUDIO"])
    assert google.told("POST", "/v1/models/m:generateContent", other)["candidates"] != told["candidates"]


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
    told = ours.sent_form("/v1/audio/transcriptions", SOUND, MODEL, ("prompt", None, b"a b"))
    assert told["text"] == "You said 4800 bytes in a.wav."
    assert told["usage"]["total_tokens"] == 4 + 2 + 6
    wanted = ("response_format", None, b"verbose_json")
    told = ours.sent_form("/v1/audio/translations", SOUND, MODEL, wanted)
    assert (told["task"], told["duration"], told["segments"][0]["end"]) == ("translate", 0.1, 0.1)


def test_a_transcription_streams_but_not_from_whisper(ours: Client) -> None:
    stream = ("stream", None, b"true")
    media = FORM.decode()
    events = _events(ours, "/v1/audio/transcriptions", form_of(SOUND, MODEL, stream), content_type=media)
    assert "".join(event["delta"] for event in events[:-1]) == events[-1]["text"]
    assert events[-1]["usage"]["output_tokens"] == 6
    assert "text" in ours.sent_form("/v1/audio/transcriptions", SOUND, ("model", None, b"whisper-1"), stream)


@pytest.mark.parametrize("parts", [(MODEL,), (SOUND,), (SOUND, MODEL, ("response_format", None, b"rtf"))])
def test_a_transcription_that_cannot_be_is_refused(
    ours: Client, parts: tuple[tuple[str, str | None, bytes], ...]
) -> None:
    sent = form_of(*parts)
    assert ours.refused("POST", "/v1/audio/transcriptions", sent, content_type=FORM.decode())[0] == 400


def _pixel(image: str) -> tuple[int, int]:
    """Width and height of a PNG."""
    raw = base64.b64decode(image)
    assert raw.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", raw[16:24])
    return width, height


def test_images_are_made_and_counted(ours: Client) -> None:
    body = {"model": "gpt-image-1", "prompt": "a cat", "n": 2}
    told = ours.told("POST", "/v1/images/generations", body)
    assert [_pixel(one["b64_json"]) for one in told["data"]] == [(1, 1)] * 2
    assert told["data"][0] != told["data"][1]
    assert told["usage"]["total_tokens"] == 2 + 2000


def test_older_models_give_an_address_unless_base64_is_asked_for(ours: Client) -> None:
    body = {"model": "dall-e-3", "prompt": "a cat"}
    [one] = ours.told("POST", "/v1/images/generations", body)["data"]
    assert one["url"].startswith("http://h:1/")
    [one] = ours.told("POST", "/v1/images/generations", {**body, "response_format": "b64_json"})["data"]
    assert _pixel(one["b64_json"]) == (1, 1)


@pytest.mark.parametrize("kind", ["generation", "edit"])
def test_images_stream_from_the_models_that_can(ours: Client, kind: str) -> None:
    said = {"model": "gpt-image-1", "prompt": "a", "stream": "true", "partial_images": "2"}
    if kind == "edit":
        fields = [(name, None, value.encode()) for name, value in said.items()]
        sent, media = form_of(*fields, ("image[]", "a.png", b"1")), FORM.decode()
        events = _events(ours, "/v1/images/edits", sent, content_type=media)
    else:
        events = _events(ours, "/v1/images/generations", {**said, "stream": True, "partial_images": 2})
    shown = [event["type"].partition(".")[2] for event in events]
    assert shown == ["partial_image", "partial_image", "completed"]
    assert events[-1]["usage"]["input_tokens"] == (101 if kind == "edit" else 1)


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1/images/generations", {"model": "gpt-image-1"}),
        ("/v1/images/generations", {"prompt": "a", "n": 11}),
        ("/v1/images/generations", {"prompt": "a", "model": "dall-e-3", "stream": True}),
        ("/v1/images/variations", {"n": 1}),
        ("/v1/videos", {"model": "sora-2"}),
    ],
)
def test_pictures_that_cannot_be_are_refused(ours: Client, target: str, body: dict[str, Any]) -> None:
    assert ours.refused("POST", target, body)[0] == 400


def test_an_edit_wants_its_image_and_a_variation_takes_one(ours: Client) -> None:
    image = ("image", "a.png", b"1")
    sent = form_of(("prompt", None, b"a"))
    assert ours.refused("POST", "/v1/images/edits", sent, content_type=FORM.decode())[0] == 400
    assert len(ours.sent_form("/v1/images/variations", image, ("n", None, b"3"))["data"]) == 3


def test_a_video_is_queued_done_remixed_and_deleted(ours: Client) -> None:
    made = ours.sent_form("/v1/videos", ("prompt", None, b"a cat"), ("seconds", None, b"8"))
    assert (made["status"], made["model"], made["seconds"]) == ("queued", "sora-2", "8")
    path = f"/v1/videos/{made['id']}"
    assert ours.told("GET", path)["progress"] == 100
    assert ours.told("POST", f"{path}/remix", {"prompt": "a dog"})["remixed_from_video_id"] == made["id"]
    assert len(ours.told("GET", "/v1/videos")["data"]) == 2
    answer = ours.ask("GET", f"{path}/content?variant=thumbnail")
    assert getattr(answer, "content_type", None) == "image/webp"
    assert ours.told("DELETE", path)["object"] == "video.deleted"
    assert ours.refused("GET", f"{path}/content")[0] == 404
