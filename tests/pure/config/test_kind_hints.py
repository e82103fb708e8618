"""What is said of a ``kind`` that is a vendor's name, or a host's: what to write instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from mgw.config import kind_hints
from mgw.config.kind_hints import ADDRESSES, kind_hint
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.nouns.vocabulary import KIND_SPELLINGS, Kind

PAGE: Final = (Path(__file__).parents[3] / "docs" / "providers.rst").read_text(encoding="utf-8")
WORDS: Final = sorted(
    {
        *ADDRESSES,
        *(word for words in vars(kind_hints).values() if isinstance(words, frozenset) for word in words),
        *kind_hints._KIND_MEANT,
        *kind_hints._OTHER_NAMES,
    }
)


@pytest.mark.parametrize("word", WORDS)
def test_every_word_has_a_hint_and_none_is_a_kind(word: str) -> None:
    assert word not in KIND_SPELLINGS
    hint = kind_hint(word)
    assert hint is not None
    named = set(re.findall(r"(?:kind: |did you mean )([a-z_]+)", hint))
    assert named
    assert named <= set(Kind)


@pytest.mark.parametrize("host", ADDRESSES)
def test_an_address_is_the_one_of_the_page_on_providers(host: str) -> None:
    assert f"kind: openai_compat\n        base_url: {ADDRESSES[host]}\n" in PAGE


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("azure", "unknown value 'azure': did you mean azure_openai?"),
        ("Azure-OpenAI", "unknown value 'Azure-OpenAI', did you mean azure_openai?"),
        ("claude", "unknown value 'claude': did you mean anthropic?"),
        (
            "vertex_ai",
            "for Gemini on Vertex AI, write kind: gemini with the base_url of Vertex AI and auth: adc",
        ),
        ("vertex", "for Claude there, kind: vertex_anthropic (docs/providers.rst)"),
        ("claude-vertex", "unknown value 'claude-vertex': did you mean vertex_anthropic?"),
        ("anthropic_bedrock", "unknown value 'anthropic_bedrock': did you mean bedrock?"),
        (
            "amazon-bedrock",
            (
                "for Claude on Amazon Bedrock, write kind: bedrock; for other models there, kind: "
                "openai_compat with the base_url of Bedrock's OpenAI-compatible API"
            ),
        ),
        ("Groq", "write kind: openai_compat with base_url: https://api.groq.com/openai/v1"),
        ("fireworks", "write kind: openai_compat with the base_url of the host"),
        ("watsonx", "write kind: openai_compat with the base_url of the host"),
        ("databricks", "write kind: openai_compat with the base_url of the host"),
        ("microsoft-foundry", "for Claude in Microsoft Foundry, write kind: anthropic with its base_url"),
    ],
)
def test_a_vendors_name_is_told_which_kind_to_write(kind: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(f"providers: {{main: {{kind: {kind}}}}}", "mgw.yaml", {})
    assert said in str(refusal.value)


@pytest.mark.parametrize("kind", KIND_SPELLINGS)
def test_a_kind_needs_no_hint(kind: str) -> None:
    text = f"providers: {{main: {{kind: {kind}, base_url: 'http://h/v1', auth: none}}}}"
    assert parse(text, "mgw.yaml", {}).providers
