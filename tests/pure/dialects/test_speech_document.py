"""The document's words on speech are those of the code."""

from __future__ import annotations

from mgw.dialects.speech import DEFAULT_VOICE, TO_GEMINI, TO_OPENAI
from tests.support.speech_cases import speech
from tools.generate import GENERATED


def section() -> str:
    text = GENERATED["fields"].read()
    _, _, rest = text.partition("\nSpeech\n------\n")
    said, _, _ = rest.partition("\nReasoning\n---------\n")
    assert said
    return said


def test_every_field_of_openais_request_has_a_row() -> None:
    assert all(f"   * - ``{name}``\n" in section() for name in speech().fields)


def test_the_table_of_voices_is_the_codes() -> None:
    told = [line.split("``")[1::2] for line in section().splitlines() if line.startswith("``")]
    rows = {names[0]: names[1:] for names in told if names[0] in TO_GEMINI}
    assert {name: names[0] for name, names in rows.items()} == TO_GEMINI
    assert {google: name for name, names in rows.items() for google in names[1:]} == TO_OPENAI


def test_the_default_voice_is_named() -> None:
    assert f"The default is ``{DEFAULT_VOICE}``, because OpenAI requires a voice." in section()
