"""Who speaks in whose place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.audio.speech_create_params import Voice

from mgw.dialects import provider_side_of
from mgw.dialects.speech import DEFAULT_VOICE, TO_GEMINI, TO_OPENAI, choose_voice
from mgw.nouns.families import text_dialect
from mgw.nouns.vocabulary import Family

OF_EVERY_MODEL = {"alloy", "ash", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer"}
"""What ``tts-1`` takes, too (https://developers.openai.com/api/docs/guides/text-to-speech)."""


def voice_for(family: Family, asked: str, overrides: Mapping[Family, Mapping[str, str]]) -> str:
    known = provider_side_of(text_dialect(family)).voices
    return choose_voice(asked, known, overrides.get(family, {}))


def named(hint: Any) -> set[str]:  # Any: a type hint
    return {
        name for member in get_args(hint) for name in (get_args(member) or ()) if isinstance(name, str)
    } | {member for member in get_args(hint) if isinstance(member, str)}


def test_every_voice_of_the_sdk_has_one_of_googles() -> None:
    assert set(TO_GEMINI) == named(Voice)
    assert DEFAULT_VOICE in TO_GEMINI


def test_every_voice_goes_to_one_that_there_is() -> None:
    assert len(TO_OPENAI) == 30
    assert set(TO_GEMINI.values()) <= set(TO_OPENAI)
    assert len(set(TO_GEMINI.values())) == len(TO_GEMINI), "thirteen voices stay thirteen"
    assert set(TO_OPENAI.values()) == OF_EVERY_MODEL


@pytest.mark.parametrize("name", sorted(OF_EVERY_MODEL))
def test_a_voice_that_goes_there_comes_back(name: str) -> None:
    assert TO_OPENAI[TO_GEMINI[name]] == name


@pytest.mark.parametrize(
    ("family", "asked", "sent"),
    [
        (Family.GEMINI, "alloy", "Kore"),
        (Family.GEMINI, "ALLOY", "Kore"),
        (Family.GEMINI, "kore", "Kore"),
        (Family.OPENAI, "Kore", "alloy"),
        (Family.OPENAI, "KORE", "alloy"),
        (Family.OPENAI, "Alloy", "alloy"),
        (Family.OPENAI, "af_heart", "af_heart"),
        (Family.GEMINI, "New One", "New One"),
        (Family.ANTHROPIC, "alloy", "alloy"),
    ],
)
def test_known_names_are_mapped_and_others_go_as_they_are(family: Family, asked: str, sent: str) -> None:
    assert voice_for(family, asked, {}) == sent


def test_the_operator_comes_first() -> None:
    table = {Family.GEMINI: {"alloy": "Puck", "Narrator": "Charon"}}
    assert voice_for(Family.GEMINI, "alloy", table) == "Puck"
    assert voice_for(Family.GEMINI, "Alloy", table) == "Puck"
    assert voice_for(Family.GEMINI, "narrator", table) == "Charon"
    assert voice_for(Family.GEMINI, "echo", table) == "Achird"
    assert voice_for(Family.OPENAI, "alloy", table) == "alloy"


def test_of_two_spellings_the_exact_one_counts() -> None:
    table = {Family.OPENAI: {"anna": "nova", "Anna": "shimmer"}}
    assert voice_for(Family.OPENAI, "Anna", table) == "shimmer"


@given(asked=st.text(), family=st.sampled_from(Family))
def test_any_name_is_sent_as_some_name(asked: str, family: Family) -> None:
    sent = voice_for(family, asked, {})
    assert voice_for(family, sent, {}) == sent
