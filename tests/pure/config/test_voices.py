"""``translation.voices``: which voice is sent for the one that a client asks for."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.translation import TranslationSettings
from mgw.nouns.vocabulary import Family

ONE = "providers: {main: {kind: openai}}\n"
A_NAME = "expected the name of a voice (in quotes if YAML would read it as a number)"


def voices_of(settings: str) -> dict[Family, dict[str, str]]:
    return parse(f"{ONE}translation: {{{settings}}}", "mgw.yaml", {}).translation.voices


def said_of(voices: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(f"{ONE}translation:\n  voices:\n    {voices}\n", "mgw.yaml", {})
    return [str(problem) for problem in refusal.value.problems]


def test_voices_are_kept_as_written_by_the_family_that_they_go_to() -> None:
    assert voices_of("voices: {gemini: {alloy: Kore, 'Our Voice': Charon}, openai: {Kore: alloy}}") == {
        Family.GEMINI: {"alloy": "Kore", "Our Voice": "Charon"},
        Family.OPENAI: {"Kore": "alloy"},
    }


@pytest.mark.parametrize(
    ("spelling", "family"),
    [
        ("openai", Family.OPENAI),
        ("alpha", Family.OPENAI),
        ("gemini", Family.GEMINI),
        ("gamma", Family.GEMINI),
        ("google", Family.GEMINI),
    ],
)
def test_both_vocabularies_spell_the_family(spelling: str, family: Family) -> None:
    assert voices_of(f"voices: {{{spelling}: {{a: b}}}}") == {family: {"a": "b"}}


@pytest.mark.parametrize("settings", ["", "voices:", "voices: {}", "default_max_tokens: 1"])
def test_no_voice_is_renamed_unless_said(settings: str) -> None:
    assert voices_of(settings) == {}


@pytest.mark.parametrize("names", ["", "{}"])
def test_a_family_without_names_is_no_mistake(names: str) -> None:
    assert voices_of(f"voices: {{gemini: {names}}}") == {Family.GEMINI: {}}


def test_voices_leave_the_rest_of_translation_as_it_is() -> None:
    translation = parse(f"{ONE}translation: {{voices: {{gemini: {{a: b}}}}}}", "mgw.yaml", {}).translation
    assert translation.model_copy(update={"voices": {}}) == TranslationSettings()


@pytest.mark.parametrize("spelling", ["anthropic", "beta"])
def test_a_family_without_speech_is_sent_no_voice(spelling: str) -> None:
    assert said_of(f"{spelling}: {{alloy: Kore}}") == [
        (
            f"mgw.yaml:4: translation.voices.{spelling}: anthropic does not support speech, "
            "expected openai or gemini"
        )
    ]


@pytest.mark.parametrize(
    ("voices", "said"),
    [
        ("gemni: {a: b}", "gemni: unknown key, did you mean gemini?"),
        ("openai_compat: {a: b}", "openai_compat: unknown key, did you mean openai?"),
        ("gemini: Kore", "gemini: expected a mapping of names such as {alloy: Kore}, found a string"),
        ("gemini: [Kore]", "gemini: expected a mapping of names such as {alloy: Kore}, found a list"),
        (
            "gemini: {alloy: 5}",
            f"gemini.alloy: {A_NAME}, found the number 5",
        ),
        (
            "gemini: {alloy:}",
            f"gemini.alloy: {A_NAME}, found nothing",
        ),
        ("gemini: {alloy: ''}", "gemini.alloy: expected a string, found an empty string"),
        ('gemini: {alloy: "a\\nb"}', "gemini.alloy: expected a string without control characters"),
        ("gemini: {'': Kore}", "gemini.'': as a voice: expected a string, found an empty string"),
        (
            'gemini: {"a\\tb": Kore}',
            "gemini.'a\\tb': as a voice: expected a string without control characters",
        ),
        ("gemini: {5: Kore}", "gemini.5: expected a string as a key: put it in quotes"),
    ],
)
def test_a_wrong_setting_is_told_what_was_expected(voices: str, said: str) -> None:
    assert said_of(voices) == [f"mgw.yaml:4: translation.voices.{said}"]


def test_two_spellings_of_one_family_are_refused() -> None:
    assert said_of("google: {a: b}\n    gamma: {c: d}") == [
        "mgw.yaml:5: translation.voices.gamma: another spelling of google, which is also set: keep only one"
    ]


def test_voices_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(ConfigError) as refusal:
        voices_of("voices: [alloy]")
    assert str(refusal.value) == (
        "mgw.yaml:2: translation.voices: expected a mapping of names such as {gemini: {alloy: Kore}}, "
        "found a list"
    )
