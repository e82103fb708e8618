"""Every cell of the support grid that passes through or translates, asked for by the real SDKs over sockets.

What is refused is refused in :mod:`tests.memory.exchange.test_support_grid`, which has every cell.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

import pytest
from google.genai import types

from tests.support.deployment import EDGE, KEYS, Deployment, key_of
from tests.support.grid import GEMINI, PREDICTIONS, Row, served
from tests.support.operations import ask

SAID: Final = "You said: Hi"
PNG: Final = ("a.png", b"\x89PNG\r\n\x1a\n\x00\xff", "image/png")
WAVE: Final = ("a.wav", b"RIFF" + bytes(range(256)), "audio/wav")
PIECE: Final = ("a.mp4", bytes(range(256)), "video/mp4")
HEARD: Final = "You said 260 bytes in a.wav."


def a_video(deployment: Deployment) -> str:
    """Make a video behind the gateway's back."""
    found = deployment.direct.videos.create(model="m-1", prompt="a cat").id
    deployment.simulator.clear()
    return found


# One call for each route ----------------------------------------------------------------------------------


def chat(deployment: Deployment, kind: str) -> None:
    response = deployment.by_openai.chat.completions.create(
        model=f"{kind}/m-1", messages=[{"role": "user", "content": "Hi"}]
    )
    assert response.choices[0].message.content == SAID


def messages(deployment: Deployment, kind: str) -> None:
    response = deployment.by_anthropic.messages.create(
        model=f"{kind}/m-1", max_tokens=100, messages=[{"role": "user", "content": "Hi"}]
    )
    assert [block.text for block in response.content if block.type == "text"] == [SAID]


def generate_content(deployment: Deployment, kind: str) -> None:
    assert deployment.by_gemini.models.generate_content(model=f"{kind}/m-1", contents="Hi").text == SAID


def stream_generate_content(deployment: Deployment, kind: str) -> None:
    pieces = deployment.by_gemini.models.generate_content_stream(model=f"{kind}/m-1", contents="Hi")
    assert "".join(piece.text or "" for piece in pieces) == SAID


def responses(deployment: Deployment, kind: str) -> None:
    assert (
        deployment.by_openai.responses.create(model=f"{kind}/m-1", input="Hi").output_text == "You said: Hi"
    )


def images_generations(deployment: Deployment, kind: str) -> None:
    response = deployment.by_openai.images.generate(model=f"{kind}/gpt-image-1", prompt="a cat", n=2)
    assert [b64decode(image.b64_json or "")[1:4] for image in response.data or ()] == [b"PNG"] * 2


def images_edits(deployment: Deployment, kind: str) -> None:
    response = deployment.by_openai.images.edit(model=f"{kind}/gpt-image-1", prompt="a cat", image=[PNG, PNG])
    assert response.usage is not None
    assert response.usage.input_tokens_details.image_tokens == 200


def images_variations(deployment: Deployment, kind: str) -> None:
    response = deployment.by_openai.images.create_variation(model=f"{kind}/m-1", image=PNG)
    assert response.data
    assert response.data[0].url


def videos_create(deployment: Deployment, kind: str) -> None:
    made = deployment.by_openai.videos.create(model=f"{kind}/m-1", prompt="a cat", input_reference=PNG)
    assert (made.model, made.status) == ("m-1", "queued")


def videos_list(deployment: Deployment, kind: str) -> None:
    video = a_video(deployment)
    assert video in [one.id for one in deployment.chosen(kind).videos.list().data]


def videos_retrieve(deployment: Deployment, kind: str) -> None:
    assert deployment.chosen(kind).videos.retrieve(a_video(deployment)).status == "completed"


def videos_delete(deployment: Deployment, kind: str) -> None:
    assert deployment.chosen(kind).videos.delete(a_video(deployment)).deleted


def videos_content(deployment: Deployment, kind: str) -> None:
    video = a_video(deployment)
    expected = deployment.direct.videos.download_content(video).read()
    deployment.simulator.clear()
    assert deployment.chosen(kind).videos.download_content(video).read() == expected


def videos_remix(deployment: Deployment, kind: str) -> None:
    video = a_video(deployment)
    assert deployment.chosen(kind).videos.remix(video, prompt="more").remixed_from_video_id == video


def videos_edits(deployment: Deployment, kind: str) -> None:
    assert deployment.chosen(kind).videos.edit(video=PIECE, prompt="more").prompt == "more"


def videos_extensions(deployment: Deployment, kind: str) -> None:
    assert deployment.chosen(kind).videos.extend(video=PIECE, prompt="more", seconds="4").prompt == "more"


def videos_characters_create(deployment: Deployment, kind: str) -> None:
    assert deployment.chosen(kind).videos.create_character(name="Tom", video=PIECE).name == "Tom"


def videos_characters_retrieve(deployment: Deployment, kind: str) -> None:
    known = deployment.direct.videos.create_character(name="Tom", video=PIECE).id
    deployment.simulator.clear()
    assert known
    assert deployment.chosen(kind).videos.get_character(known).name == "Tom"


def _content(voice: str) -> bytes:
    """A request of Google's that is to be spoken; without modalities, which the gateway puts in."""
    spoken = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": voice}}}
    config = {"speechConfig": spoken, "temperature": 1}
    return json.dumps({"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": config}).encode()


def _sound(deployment: Deployment, kind: str) -> bytes:
    """What a provider says in the voice that is asked for, or in its own most like that: samples."""
    if kind == GEMINI:
        body = _content("Kore").replace(b'"temperature": 1', b'"responseModalities": ["AUDIO"]')
        path = "/v1beta/models/m-1:generateContent"
        sound = _sound_in(ask(deployment.simulator.port, path, b"x-goog-api-key: k-canary", body=body).body)
    else:
        speech = deployment.direct.audio.speech
        sound = speech.create(model="m-1", input="Hi", voice="alloy", response_format="pcm").content
    deployment.simulator.clear()
    return sound


def _sound_in(body: bytes) -> bytes:
    """The samples in an answer of Google's, as its SDK reads it."""
    told = types.GenerateContentResponse.model_validate_json(body)
    assert told.parts
    [part] = told.parts
    assert part.inline_data
    return part.inline_data.data or b""


def audio_speech(deployment: Deployment, kind: str) -> None:
    expected = _sound(deployment, kind)
    speech = deployment.by_openai.audio.speech
    response = speech.create(model=f"{kind}/m-1", input="Hi", voice="alloy", response_format="pcm")
    assert response.content == expected


def anthropic_audio_speech(deployment: Deployment, kind: str) -> None:
    expected = _sound(deployment, kind)
    body = {"model": f"{kind}/m-1", "input": "Hi", "voice": "alloy", "response_format": "pcm"}
    response = deployment.by_anthropic.post(
        "/v1/audio/speech", body=body, cast_to=object
    )  # it has no method for it
    assert isinstance(response, dict)
    [content] = response["content"]
    assert content["source"]["data"] == b64encode(expected).decode()


def generate_speech(deployment: Deployment, kind: str) -> None:
    expected = _sound(deployment, kind)
    path = f"/v1beta/models/{kind}/m-1:generateSpeech"  # no SDK has a method for it
    key = b"x-goog-api-key: " + EDGE.encode()
    assert _sound_in(ask(deployment.gateway.port, path, key, body=_content("Kore")).body) == expected


def audio_transcriptions(deployment: Deployment, kind: str) -> None:
    assert deployment.by_openai.audio.transcriptions.create(model=f"{kind}/m-1", file=WAVE).text == HEARD


def audio_translations(deployment: Deployment, kind: str) -> None:
    assert deployment.by_openai.audio.translations.create(model=f"{kind}/m-1", file=WAVE).text == HEARD


CALLS: Final[dict[str, Callable[[Deployment, str], None]]] = {
    call.__name__: call
    for call in (
        chat,
        responses,
        messages,
        generate_content,
        stream_generate_content,
        images_generations,
        images_edits,
        images_variations,
        videos_create,
        videos_list,
        videos_retrieve,
        videos_delete,
        videos_content,
        videos_remix,
        videos_edits,
        videos_extensions,
        videos_characters_create,
        videos_characters_retrieve,
        audio_speech,
        anthropic_audio_speech,
        generate_speech,
        audio_transcriptions,
        audio_translations,
    )
}
CELLS: Final = [(row, kind) for row, kind in served() if row not in PREDICTIONS]
"""Google's SDK asks for predictions on the other platform only."""


def test_each_cell_that_is_served_has_its_call() -> None:
    assert {row.name for row, _ in CELLS} == set(CALLS)


@pytest.mark.parametrize(
    ("row", "kind"), [pytest.param(*cell, id=f"{cell[0].name} {cell[1]}") for cell in CELLS]
)
def test_an_sdk_is_served_by_each_kind_that_the_grid_says(
    deployment: Deployment, row: Row, kind: str
) -> None:
    deployment.simulator.clear()
    CALLS[row.name](deployment, kind)
    (request,) = deployment.simulator.requests()
    assert key_of(request, kind) == KEYS[kind]
    assert EDGE not in repr(request)
    event = deployment.event()
    assert (event["route"], event["modality"], event["provider"]) == (row.name, row.capability, kind)
    assert (event["status"], event["http_status"], event["dialect"]) == ("ok", 200, row.client)
