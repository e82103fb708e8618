"""Images."""

import base64
import json
import struct
from typing import Any

import pytest

from mgw_sim.api import StreamResponse
from tests.memory.mgw_sim.client import FORM, Client, form_of


@pytest.fixture
def ours() -> Client:
    return Client()


def _events(client: Client, target: str, body: Any, **headers: str) -> list[Any]:
    answer = client.ask("POST", target, body, **headers)
    assert isinstance(answer, StreamResponse), answer
    lines = [piece.split(b"data: ")[1] for piece in answer.pieces]
    return [json.loads(line) for line in lines if not line.startswith(b"[DONE]")]


def _pixel(image: str) -> tuple[int, int]:
    """Width and height of a PNG."""
    raw = base64.b64decode(image)
    assert raw.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", raw[16:24])
    return width, height


def test_images_are_made_and_counted(ours: Client) -> None:
    body = {"model": "gpt-image-1", "prompt": "a cat", "n": 2}
    told = ours.json("POST", "/v1/images/generations", body)
    assert [_pixel(one["b64_json"]) for one in told["data"]] == [(1, 1)] * 2
    assert told["data"][0] != told["data"][1]
    assert told["usage"]["total_tokens"] == 2 + 2000


def test_older_models_give_an_address_unless_base64_is_asked_for(ours: Client) -> None:
    body = {"model": "dall-e-3", "prompt": "a cat"}
    [one] = ours.json("POST", "/v1/images/generations", body)["data"]
    assert one["url"].startswith("http://h:1/")
    [one] = ours.json("POST", "/v1/images/generations", {**body, "response_format": "b64_json"})["data"]
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
    assert ours.error("POST", target, body)[0] == 400


def test_an_edit_wants_its_image_and_a_variation_takes_one(ours: Client) -> None:
    image = ("image", "a.png", b"1")
    sent = form_of(("prompt", None, b"a"))
    assert ours.error("POST", "/v1/images/edits", sent, content_type=FORM.decode())[0] == 400
    assert len(ours.post_form("/v1/images/variations", image, ("n", None, b"3"))["data"]) == 3
