"""Images, videos and sound through the real SDKs: what arrives is what was sent, whoever makes it."""

from __future__ import annotations

import io
import re
import wave
from base64 import b64decode
from typing import Any, Final

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from tests.support.deployment import KEYS, Deployment, key_of
from tests.support.grid import COMPAT, GEMINI, OPENAI
from tests.support.simulator import SeenRequest

PNG: Final = ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "image/png")
LONG: Final = bytes(range(256)) * 8192
"""2 MiB: a body that waits on disk."""
TYPE: Final = "audio/L16;codec=pcm;rate=24000"
ALIASES: Final = """
aliases: {paint: openai/gpt-image-1, film: openai_compat/m-1, voice: gemini/m-1, hear: openai/m-1}
translation: {voices: {gemini: {house: Puck}}}
"""
_BOUNDARY: Final = re.compile(rb"^--([0-9a-f]+)\r\n")


@pytest.fixture(scope="module")
def deployment_config() -> str:
    return ALIASES


@pytest.fixture(scope="module")
def deployment(deployment: Deployment) -> Deployment:
    """A deployment whose simulator keeps long bodies."""
    deployment.simulator.settings(keep_all=True)
    return deployment


@pytest.fixture(autouse=True)
def _cleared(deployment: Deployment) -> None:
    deployment.simulator.clear()


def unbounded(request: SeenRequest) -> bytes:
    """A form without the boundary that the SDK drew."""
    match = _BOUNDARY.match(request.body)
    assert match
    return request.body.replace(match[1], b"boundary")


# Images ---------------------------------------------------------------------------------------------------


def test_an_image_is_asked_for_in_the_clients_own_bytes(deployment: Deployment) -> None:
    deployment.direct.images.generate(model="gpt-image-1", prompt="a \N{CAT}", size="1024x1024", n=2)
    direct = deployment.request()
    answer = deployment.by_openai.images.generate(model="paint", prompt="a \N{CAT}", size="1024x1024", n=2)
    request = deployment.request()
    assert request.body == direct.body
    assert (request.target, key_of(request, OPENAI)) == (direct.target, KEYS[OPENAI])
    assert answer.usage
    event = deployment.event()
    assert (event["modality"], event["model"], event["upstream_model"]) == (
        "image_gen",
        "paint",
        "gpt-image-1",
    )
    assert (event["tokens_in"], event["tokens_out"]) == (answer.usage.input_tokens, 2000)
    assert event["stream"] is False


def test_images_stream(deployment: Deployment) -> None:
    stream = deployment.by_openai.images.generate(
        model="paint", prompt="a cat", stream=True, partial_images=2
    )
    kinds = [event.type for event in stream]
    assert kinds == [*["image_generation.partial_image"] * 2, "image_generation.completed"]
    event = deployment.event()
    assert (event["stream"], event["modality"], event["tokens_out"]) == (True, "image_gen", 1000)


def test_an_image_is_edited_in_the_clients_own_form(deployment: Deployment) -> None:
    images = [PNG, ("b.png", LONG, "image/png")]
    deployment.direct.images.edit(model="gpt-image-1", prompt="a cat", image=images, mask=PNG)
    direct = deployment.request()
    deployment.by_openai.images.edit(model="paint", prompt="a cat", image=images, mask=PNG)
    request = deployment.request()
    assert LONG in request.body
    assert unbounded(request) == unbounded(direct)
    assert deployment.event()["modality"] == "image_gen"


# Speech ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_speech_of_the_same_family_is_the_providers_bytes(deployment: Deployment, wanted: Any) -> None:
    def ask(client: openai.OpenAI, model: str) -> Any:
        speech = client.audio.speech
        return speech.create(model=model, input="Hello", voice="alloy", response_format=wanted, speed=1.25)

    direct = ask(deployment.direct, "m-1")
    sent = deployment.request()
    answer = ask(deployment.by_openai, "openai/m-1")
    assert answer.content == direct.content
    assert answer.response.headers["content-type"] == direct.response.headers["content-type"]
    assert deployment.request().body == sent.body
    assert deployment.event()["modality"] == "audio_speech"


def test_speech_streams(deployment: Deployment) -> None:
    def ask(client: openai.OpenAI, model: str) -> bytes:
        with client.audio.speech.with_streaming_response.create(
            model=model, input="Hello", voice="alloy", response_format="pcm"
        ) as answer:
            return b"".join(answer.iter_bytes(1024))

    found = ask(deployment.by_openai, "openai/m-1+sim-size-300000")
    assert len(found) == 300_000
    assert found == ask(deployment.direct, "m-1+sim-size-300000")
    assert deployment.event()["http_status"] == 200


def test_speech_in_events_is_the_providers_bytes(deployment: Deployment) -> None:
    def ask(client: openai.OpenAI, model: str) -> bytes:
        with client.audio.speech.with_streaming_response.create(
            model=model, input="Hello", voice="alloy", stream_format="sse"
        ) as answer:
            return answer.read()

    found = ask(deployment.by_openai, "openai/m-1")
    assert found == ask(deployment.direct, "m-1")
    event = deployment.event()
    assert (event["stream"], event["tokens_out"], event["modality"]) == (True, 1, "audio_speech")


def test_googles_speech_is_samples_and_in_a_wave_file_the_same_samples(deployment: Deployment) -> None:
    speech = deployment.by_openai.audio.speech
    pcm = speech.create(model="voice", input="Hello there", voice="alloy", response_format="pcm")
    assert pcm.response.headers["content-type"] == TYPE
    assert pcm.content
    wav = speech.create(model="voice", input="Hello there", voice="alloy", response_format="wav")
    assert wav.response.headers["content-type"] == "audio/wav"
    assert int(wav.response.headers["content-length"]) == len(wav.content)
    with wave.open(io.BytesIO(wav.content)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.readframes(file.getnframes()) == pcm.content
    for request in deployment.simulator.requests():
        assert request.target == "/v1beta/models/m-1:generateContent"
        assert key_of(request, GEMINI) == KEYS[GEMINI]
    for event in deployment.events(2):
        assert (event["modality"], event["tokens_out"]) == ("audio_speech", 2)
        assert "dropped_fields" not in event


def test_what_google_cannot_say_is_reported(deployment: Deployment) -> None:
    answer = deployment.by_openai.audio.speech.create(
        model="voice", input="Hi", voice="house", instructions="Whisper.", response_format="mp3", speed=2
    )
    assert answer.response.headers["content-type"] == TYPE
    assert answer.response.headers["x-gateway-dropped-fields"] == "response_format, speed"
    asked = deployment.request().json()
    assert asked["contents"][0]["parts"] == [{"text": "Whisper.\n\nHi"}]
    spoken = asked["generationConfig"]["speechConfig"]["voiceConfig"]
    assert spoken == {"prebuiltVoiceConfig": {"voiceName": "Puck"}}
    assert deployment.event()["dropped_fields"] == ["response_format", "speed"]


@pytest.mark.parametrize("model", ["openai/m-1", "openai_compat/m-1", "voice"])
def test_anthropics_client_gets_a_message_that_plays(deployment: Deployment, model: str) -> None:
    body = {"model": model, "input": "Hello", "voice": "alloy", "response_format": "wav"}
    message = deployment.by_anthropic.post("/v1/audio/speech", body=body, cast_to=anthropic.types.Message)
    assert (message.type, message.role, message.model) == ("message", "assistant", "m-1")
    assert message.stop_reason == "end_turn"
    [block] = message.content
    source = (block.model_extra or {})["source"]  # the SDK has no type for it, and keeps it all the same
    assert (block.type, source["type"], source["media_type"]) == ("audio", "base64", "audio/wav")
    with wave.open(io.BytesIO(b64decode(source["data"]))) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 480)
    event = deployment.event()
    assert (event["route"], event["dialect"]) == ("anthropic_audio_speech", "anthropic")


def test_a_bare_model_of_anthropics_client_speaks_at_openai(deployment: Deployment) -> None:
    body = {"model": "m-1", "input": "Hello", "voice": "alloy"}
    deployment.by_anthropic.post("/v1/audio/speech", body=body, cast_to=object)
    assert deployment.request().target == "/v1/audio/speech"
    assert deployment.event()["provider"] == OPENAI


def test_googles_client_hears_google_as_without_the_gateway(deployment: Deployment) -> None:
    def ask(client: genai.Client, model: str) -> list[types.Part]:
        config = types.GenerateContentConfig(response_modalities=["AUDIO"])
        return client.models.generate_content(model=model, contents="Hello", config=config).parts or []

    def listen(client: genai.Client, model: str) -> list[types.Part]:
        config = types.GenerateContentConfig(response_modalities=["AUDIO"])
        pieces = client.models.generate_content_stream(model=model, contents="Hello there you", config=config)
        return [part for piece in pieces for part in piece.parts or ()]

    direct = genai.Client(api_key="k-canary", http_options={"base_url": deployment.simulator.url})
    [part] = ask(deployment.by_gemini, "voice")
    assert [part] == ask(direct, "m-1")
    assert part.inline_data
    assert part.inline_data.mime_type == TYPE
    assert listen(deployment.by_gemini, "voice") == listen(direct, "m-1")
    assert [event["tokens_out"] for event in deployment.events(2)] == [1, 3]


# Transcriptions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["json", "text", "srt", "verbose_json", "vtt"])
@pytest.mark.parametrize("size", [260, len(LONG)], ids=["short", "long"])
def test_what_is_to_be_transcribed_arrives_byte_for_byte(
    deployment: Deployment, wanted: Any, size: int
) -> None:
    file = ("a b.wav", LONG[:size], "audio/wav")

    def ask(client: openai.OpenAI, model: str) -> Any:
        return client.audio.transcriptions.create(
            model=model, file=file, response_format=wanted, prompt="Hm?", temperature=0.5
        )

    direct = ask(deployment.direct, "m-1")
    sent = deployment.request()
    assert ask(deployment.by_openai, "hear") == direct
    request = deployment.request()
    assert LONG[:size] in request.body
    assert unbounded(request) == unbounded(sent)
    assert deployment.event()["modality"] == "audio_transcribe"


def test_a_transcription_streams_and_is_counted(deployment: Deployment) -> None:
    file = ("a.wav", LONG[:3000], "audio/wav")
    stream = deployment.by_openai.audio.transcriptions.create(model="hear", file=file, stream=True)
    events = list(stream)
    assert {event.type for event in events[:-1]} == {"transcript.text.delta"}
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "You said 3000 bytes in a.wav."
    event = deployment.event()
    assert (event["stream"], event["tokens_in"], event["modality"]) == (True, 3, "audio_transcribe")


def test_a_translation_is_passed_through(deployment: Deployment) -> None:
    file = ("a.wav", LONG[:300], "audio/wav")
    answer = deployment.by_openai.audio.translations.create(model="openai_compat/m-1", file=file)
    assert answer.text == "You said 300 bytes in a.wav."
    assert key_of(deployment.request(), COMPAT) == KEYS[COMPAT]
    assert deployment.event()["modality"] == "audio_transcribe"


# Videos ---------------------------------------------------------------------------------------------------


def test_a_video_lives_its_life_with_its_provider(deployment: Deployment) -> None:
    made = deployment.by_openai.videos.create(model="film", prompt="a cat", input_reference=PNG, seconds="4")
    assert made.model == "m-1"
    assert PNG[1] in deployment.simulator.requests()[0].body
    videos = deployment.chosen(COMPAT).videos
    assert videos.retrieve(made.id).status == "completed"
    content = videos.download_content(made.id).read()
    assert content == deployment.direct.videos.download_content(made.id).read()
    assert len(content) == 100_000
    copy = videos.remix(made.id, prompt="more")
    assert copy.remixed_from_video_id == made.id
    assert {made.id, copy.id} <= {video.id for video in videos.list()}
    assert videos.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        videos.retrieve(made.id)
    own = [request for request in deployment.simulator.requests() if key_of(request, COMPAT) == KEYS[COMPAT]]
    assert len(own) == 7
    events = deployment.events(7)
    assert {(event["modality"], event["provider"]) for event in events} == {("video_gen", COMPAT)}
    assert [event["status"] for event in events] == [*["ok"] * 6, "upstream_error"]


def test_a_part_of_a_video_is_fetched(deployment: Deployment) -> None:
    video = deployment.direct.videos.create(model="m-1", prompt="a cat").id
    whole = deployment.direct.videos.download_content(video).read()
    ranged = deployment.by_openai.with_options(default_headers={"Range": "bytes=10-19"})
    answer = ranged.videos.download_content(video, variant="video")
    assert (answer.response.status_code, answer.content) == (206, whole[10:20])
    assert deployment.event()["http_status"] == 206


# Refusals -------------------------------------------------------------------------------------------------


def test_a_capability_that_is_off_is_the_sdks_permission_error(deployment: Deployment) -> None:
    with pytest.raises(openai.PermissionDeniedError) as by_openai:
        deployment.by_openai.images.generate(model="anthropic/m-1", prompt="a cat")
    assert (by_openai.value.code, by_openai.value.param) == ("unsupported_modality", "model")
    body = {"model": "anthropic/m-1", "input": "Hello", "voice": "alloy"}
    with pytest.raises(anthropic.PermissionDeniedError):
        deployment.by_anthropic.post("/v1/audio/speech", body=body, cast_to=object)
    assert deployment.simulator.requests() == []
    assert [event["modality"] for event in deployment.events(2)] == ["image_gen", "audio_speech"]


def test_what_a_kind_cannot_do_is_the_sdks_bad_request(deployment: Deployment) -> None:
    with pytest.raises(openai.BadRequestError) as by_model:
        deployment.by_openai.audio.transcriptions.create(model="voice", file=PNG)
    assert (by_model.value.code, by_model.value.param) == ("unsupported_provider_capability", "model")
    with pytest.raises(openai.BadRequestError) as by_provider:
        deployment.chosen(GEMINI).videos.retrieve("video_1")
    assert by_provider.value.param == "provider"
    assert deployment.simulator.requests() == []
    assert {event["status"] for event in deployment.events(2)} == {"rejected"}
