"""A client of chat completions asks Gemini's image models for images; all other models report it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import RenderOptions, RequestContext
from mgw.dialects.models import Models
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import DialectName, Family, Kind

Json = dict[str, Any]  # Any: JSON
CHAT: Final = client_side_of(DialectName.OPENAI_CHAT).text
PAINTER: Final = "gemini-2.5-flash-image"
SHAPE: Final = {"aspect_ratio": "16:9", "image_size": "2K"}
OTHERS: Final = (
    (DialectName.GEMINI, Kind.GEMINI, "gemini-2.5-flash"),
    (DialectName.ANTHROPIC, Kind.ANTHROPIC, "claude-opus-5"),
    (DialectName.OPENAI_CHAT, Kind.OPENAI, "gpt-5"),
    (DialectName.OPENAI_CHAT, Kind.OPENAI_COMPAT, "qwen3"),
    (DialectName.OPENAI_RESPONSES, Kind.OPENAI, "gpt-5"),
)


def sent(
    fields: Json, dialect: DialectName = DialectName.GEMINI, kind: Kind = Kind.GEMINI, model: str = PAINTER
) -> tuple[Json, frozenset[str]]:
    """What a provider gets, and what the client is told to be dropped."""
    body = {"model": "m", "messages": [{"role": "user", "content": "a cat"}], **fields}
    parsed = CHAT.parse_request(json.dumps(body).encode(), RequestContext("m"))
    family = Family.GEMINI if kind is Kind.GEMINI else Family(kind.split("_")[0])
    options = RenderOptions(model, kind, Models(()).row(model, family))
    rendered = provider_side_of(dialect).text.render_request(parsed.request, options)
    return json.loads(rendered.body), parsed.dropped(rendered)


@pytest.mark.parametrize("modalities", [["image", "text"], ["text", "image"], ["image"]])
def test_an_image_model_is_asked_for_text_and_images(modalities: list[str]) -> None:
    body, dropped = sent({"modalities": modalities})
    assert body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert not dropped


def test_the_shape_of_images_goes_over() -> None:
    body, dropped = sent({"modalities": ["image", "text"], "image_config": SHAPE})
    assert body["generationConfig"] == {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"},
    }
    assert not dropped
    body, dropped = sent({"image_config": {"aspect_ratio": "1:1", "strength": 0.5}})
    assert body["generationConfig"] == {"imageConfig": {"aspectRatio": "1:1"}}
    assert dropped == {"image_config.strength"}


@pytest.mark.parametrize(("dialect", "kind", "model"), OTHERS, ids=str)
def test_other_models_are_not_asked_and_it_is_reported(dialect: DialectName, kind: Kind, model: str) -> None:
    fields = {"modalities": ["image", "text"], "image_config": SHAPE}
    plain, _ = sent({}, dialect, kind, model)
    body, dropped = sent(fields, dialect, kind, model)
    assert body == plain
    assert dropped == {"modalities", "image_config.aspect_ratio", "image_config.image_size"}


@pytest.mark.parametrize("modalities", [["text", "audio"], ["audio"], "image", [["image"]], [None]])
def test_other_modalities_are_reported(modalities: object) -> None:
    body, dropped = sent({"modalities": modalities})
    assert "generationConfig" not in body
    assert dropped == {"modalities"}


def test_images_beside_sound_are_asked_for_and_the_sound_is_reported() -> None:
    body, dropped = sent({"modalities": ["text", "image", "audio"]})
    assert body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}
    assert dropped == {"modalities"}


@pytest.mark.parametrize("said", [None, {}, {"aspect_ratio": None}])
def test_an_empty_shape_says_nothing(said: Json | None) -> None:
    assert sent({"image_config": said}) == sent({})


@pytest.mark.parametrize("said", ["16:9", {"aspect_ratio": 16}, {"image_size": ["2K"]}])
def test_a_shape_of_the_wrong_type_is_refused(said: object) -> None:
    with pytest.raises(GatewayError, match="image_config"):
        _ = sent({"image_config": said})
